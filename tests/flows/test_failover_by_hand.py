"""Where a person's word is proof enough, a PodFailoverRemediation asks for it, and gives way to whoever can find out."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from defib.kube.client import Deletion, Merge
from defib.kube.kinds import NODE_INCIDENTS, unstructured
from defib.model.incident import Phase
from defib.model.pod_failover import REMEDIATION
from defib.simulate.virtual_time import VirtualClock, run
from tests.mortal_operator import Doom
from tests.power_cycle_stage import HOME, VICTIM, WAYS, Object, Stage, a_stage

FAILOVERS = unstructured("defib.dev", "v1alpha1", "podfailoverremediations", REMEDIATION.name, namespaced=True)
BY_PERSON = ["A", "B", "D"]

Scene = Callable[[Stage], Awaitable[None]]


def on_stage(scene: Scene) -> None:
    async def main(clock: VirtualClock) -> None:
        async with a_stage(clock) as stage:
            stage.fail("hangs")
            await stage.until(lambda: False, stage.pace.down_seconds)
            await scene(stage)

    run(main, limit=timedelta(hours=4))


async def fail_over(stage: Stage, proofs: list[str]) -> None:
    body = {"metadata": {"name": VICTIM}, "spec": {"acceptedProofs": proofs}}
    await stage.person.create(FAILOVERS, body, namespace=HOME)


async def switch_off_and_confirm(stage: Stage) -> None:
    stage.machines[VICTIM].set_power(False)
    said = {"by": "ann@example.com", "at": stage.clock.now().isoformat()}
    await stage.person.patch(NODE_INCIDENTS.at(VICTIM), Merge({"spec": {"confirmedOff": said}}))


def reason(stage: Stage) -> str:
    item: Object = stage.one("podfailoverremediations.defib.dev", VICTIM) or {}
    said = {one["type"]: one["reason"] for one in (item.get("status") or {}).get("conditions", ())}
    return str(said.get("Succeeded", ""))


def test_the_word_of_a_person_frees_what_must_not_run_twice() -> None:
    async def scene(stage: Stage) -> None:
        await fail_over(stage, BY_PERSON)
        async with stage.operator():
            assert await stage.until(lambda: stage.reason == "WaitsForConfirmation", 60)
            assert (reason(stage), stage.pod_runs_on) == ("WaitingForProof", "")
            await switch_off_and_confirm(stage)
            assert await stage.until(lambda: stage.pod_runs_on not in ("", VICTIM), 60)
            assert await stage.until(lambda: reason(stage) == "RemediationFinished", 60)
            stage.machines[VICTIM].set_power(True)
            assert await stage.until(lambda: stage.is_over, 120)
        assert stage.leftovers() == []

    on_stage(scene)


def test_without_it_nothing_is_freed_and_no_incident_is_opened_that_nobody_could_settle() -> None:
    async def scene(stage: Stage) -> None:
        await fail_over(stage, ["A", "B"])
        async with stage.operator():
            assert await stage.until(lambda: reason(stage) == "ProofNeeded", 60)
            await stage.until(lambda: False, 60)
        assert stage.incident is None
        assert stage.wrongs == []
        assert stage.one("pods", "db-0") is not None

    on_stage(scene)


def test_it_gives_way_to_a_power_cycle() -> None:
    async def scene(stage: Stage) -> None:
        await fail_over(stage, BY_PERSON)
        async with stage.operator():
            assert await stage.until(lambda: stage.reason == "WaitsForConfirmation", 60)
            await stage.order(WAYS["hollow"], "OutOfServiceTaint")
            assert await stage.until(lambda: stage.is_over, 300)
            proof = (stage.incident or {})["status"]["proof"]
        assert proof["grade"] == "A"
        assert stage.leftovers() == []

    on_stage(scene)


def test_once_a_person_has_given_their_word_it_is_seen_through() -> None:
    async def scene(stage: Stage) -> None:
        await fail_over(stage, BY_PERSON)
        async with stage.operator():
            assert await stage.until(lambda: stage.reason == "WaitsForConfirmation", 60)
            await switch_off_and_confirm(stage)
            assert await stage.until(lambda: stage.is_proved, 60)
            await stage.order(WAYS["hollow"], "OutOfServiceTaint")
            assert await stage.until(lambda: stage.pod_runs_on not in ("", VICTIM), 60)
            stage.machines[VICTIM].set_power(True)
            assert await stage.until(lambda: stage.is_over, 600)
        assert stage.leftovers() == []

    on_stage(scene)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_remediation_that_is_deleted_leaves_nothing(when: str) -> None:
    async def scene(stage: Stage) -> None:
        await fail_over(stage, BY_PERSON)
        async with stage.operator():
            assert await stage.until(lambda: stage.reason == "WaitsForConfirmation", 60)
            if when == "after":
                await switch_off_and_confirm(stage)
                assert await stage.until(lambda: stage.is_proved, 60)
            ordered = stage.one("podfailoverremediations.defib.dev", VICTIM)
            assert ordered is not None
            await stage.person.delete(FAILOVERS.at(VICTIM, HOME), Deletion(uid=ordered["metadata"]["uid"]))
            if when == "before":
                assert await stage.until(lambda: stage.phase == Phase.CLOSED, 60)
            stage.mend()
            assert await stage.until(lambda: stage.is_over, 600)
        assert stage.leftovers() == []

    on_stage(scene)


@pytest.mark.parametrize("deed", range(1, 12))
def test_a_crash_at_any_step_changes_nothing_in_the_end(deed: int) -> None:
    async def scene(stage: Stage) -> None:
        await fail_over(stage, BY_PERSON)
        async with stage.operator(Doom(at=deed)) as life:
            await stage.until(lambda: life.is_dead, 30)
        assert life.is_dead
        async with stage.operator():
            assert await stage.until(lambda: stage.reason == "WaitsForConfirmation", 60)
            await switch_off_and_confirm(stage)
            assert await stage.until(lambda: stage.pod_runs_on not in ("", VICTIM), 60)
            stage.machines[VICTIM].set_power(True)
            assert await stage.until(lambda: stage.is_over, 120)
        assert stage.leftovers() == []

    on_stage(scene)

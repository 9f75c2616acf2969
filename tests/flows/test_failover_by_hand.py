"""Where a person's word is proof enough, a PodFailoverRemediation asks for it, and gives way to whoever can find out."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec
import pytest

from defib.hollow.machine import Unreachable
from defib.kube.client import Deletion, Merge
from defib.kube.kinds import NODE_INCIDENTS, unstructured
from defib.model import medik8s
from defib.model.incident import Phase
from defib.model.pod_failover import REMEDIATION
from defib.simulate.virtual_time import VirtualClock, run
from tests.mortal_operator import Doom
from tests.power_cycle_stage import HOME, REMEDIATIONS, VICTIM, WAYS, Object, Stage, a_stage, ready_of

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
    await confirm(stage)


async def confirm(stage: Stage, at: str = "") -> None:
    said = {"by": "ann@example.com", "at": at or stage.clock.now().isoformat()}
    await stage.person.patch(NODE_INCIDENTS.at(VICTIM), Merge({"spec": {"confirmedOff": said}}))


def reason(stage: Stage) -> str:
    return reason_of(stage.one("podfailoverremediations.defib.dev", VICTIM) or {})


def reason_of(item: Object) -> str:
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


async def free_by_word(stage: Stage) -> None:
    """A person switches the machine off, says so, and switches it on again when its pod runs elsewhere."""
    await switch_off_and_confirm(stage)
    assert await stage.until(lambda: stage.pod_runs_on not in ("", VICTIM), 60)
    stage.machines[VICTIM].set_power(True)
    await stage.until(lambda: stage.leftovers() == [], 120)
    assert (stage.phase, stage.leftovers()) == (Phase.CLOSED, [])


def test_nobody_is_asked_to_switch_off_a_node_that_came_back_by_itself() -> None:
    async def scene(stage: Stage) -> None:
        await fail_over(stage, BY_PERSON)
        async with stage.operator():
            assert await stage.until(lambda: stage.reason == "WaitsForConfirmation", 60)
            stage.mend()
            assert await stage.until(lambda: stage.phase == Phase.CLOSED, 60)
            assert "its node is ready" in (stage.incident or {})["status"]["message"]
            await stage.until(lambda: False, 60)
            assert (stage.pod_runs_on, stage.leftovers()) == (VICTIM, [])

    on_stage(scene)


def test_a_node_that_fails_again_is_asked_about_again() -> None:
    async def scene(stage: Stage) -> None:
        await fail_over(stage, BY_PERSON)
        async with stage.operator():
            for _ in range(2):
                assert await stage.until(lambda: stage.reason == "WaitsForConfirmation", 60)
                stage.mend()
                assert await stage.until(lambda: stage.phase == Phase.CLOSED, 60)
                stage.fail("hangs")
            assert await stage.until(lambda: stage.reason == "WaitsForConfirmation", 60)
            await free_by_word(stage)

    on_stage(scene)


async def seem_ready(stage: Stage) -> None:
    """Asked about, and then ready for a moment, while no operator looks."""
    await fail_over(stage, BY_PERSON)
    async with stage.operator():
        assert await stage.until(lambda: stage.reason == "WaitsForConfirmation", 60)
    stage.mend()
    assert await stage.until(lambda: ready_of(stage.node) == "True", 60)


def test_the_word_of_a_person_outlives_the_last_breath_of_a_node() -> None:
    async def scene(stage: Stage) -> None:
        await seem_ready(stage)
        await switch_off_and_confirm(stage)
        async with stage.operator():
            assert ready_of(stage.node) == "True"
            assert await stage.until(lambda: stage.pod_runs_on not in ("", VICTIM), 120)
            stage.machines[VICTIM].set_power(True)
            assert await stage.until(lambda: stage.is_over, 120)
        assert stage.leftovers() == []

    on_stage(scene)


@pytest.mark.parametrize("at", ["", "9999-12-31T23:59:59Z"], ids=["now", "a time that makes no sense"])
def test_the_word_of_a_person_about_a_node_that_goes_on_reporting_is_dropped(at: str) -> None:
    async def scene(stage: Stage) -> None:
        await seem_ready(stage)
        await confirm(stage, at)
        async with stage.operator():
            assert await stage.until(lambda: stage.phase == Phase.CLOSED, 600)
            stage.fail("hangs")
            assert await stage.until(lambda: stage.reason == "WaitsForConfirmation", 60)
            await stage.until(lambda: False, 60)
            assert (stage.is_proved, stage.wrongs) == (False, [])

    on_stage(scene)


HOPELESS = {
    "NoPowerPath": {"power": {"driver": "metal3"}},
    "InvalidSpec": {"power": {"driver": "hollow", "address": "root@10.0.0.7"}},
}


@pytest.mark.parametrize("why", HOPELESS)
@pytest.mark.parametrize("is_first", [False, True], ids=["comes later", "is there first"])
def test_it_does_not_give_way_to_a_power_cycle_that_cannot_begin(why: str, *, is_first: bool) -> None:
    async def scene(stage: Stage) -> None:
        body = {"metadata": {"name": VICTIM}, "spec": HOPELESS[why]}
        if is_first:
            await stage.person.create(REMEDIATIONS, body, namespace=HOME)
        await fail_over(stage, BY_PERSON)
        async with stage.operator():
            assert await stage.until(lambda: stage.reason == "WaitsForConfirmation", 60)
            if not is_first:
                await stage.person.create(REMEDIATIONS, body, namespace=HOME)
            assert not await stage.until(lambda: stage.reason != "WaitsForConfirmation", 60)
            assert "OtherIncident" not in map(reason_of, stage.remediations)  # that is not what is wrong with it
            await free_by_word(stage)

    on_stage(scene)


@pytest.mark.parametrize("accepts", [("A", "D"), ("A",)], ids=" or ".join)
def test_after_a_power_cycle_that_failed_a_person_can_give_their_word(accepts: tuple[str, ...]) -> None:
    """Its incident stays open, and is the only one of its node: the word that the other one waits for counts there."""

    async def scene(stage: Stage) -> None:
        stage.machines[VICTIM].bmc.suffer(Unreachable())
        await stage.order(msgspec.structs.replace(WAYS["hollow"], accepts=accepts), "OutOfServiceTaint")
        await fail_over(stage, BY_PERSON)
        async with stage.operator():
            assert await stage.until(lambda: stage.phase == Phase.NEEDS_PERSON, 1200)
            assert (reason(stage), stage.pod_runs_on) == ("WaitingForProof", "")
            await free_by_word(stage)
            assert await stage.until(lambda: stage.is_over, 60)

    on_stage(scene)


def test_a_power_cycle_that_accepts_no_word_is_told_none_while_nobody_else_would_take_it() -> None:
    async def scene(stage: Stage) -> None:
        stage.machines[VICTIM].bmc.suffer(Unreachable())
        await stage.order(msgspec.structs.replace(WAYS["hollow"], accepts=("A",)), "OutOfServiceTaint")
        await fail_over(stage, ["A", "B"])
        async with stage.operator():
            assert await stage.until(lambda: stage.phase == Phase.NEEDS_PERSON, 1200)
            await switch_off_and_confirm(stage)
            await stage.until(lambda: False, 120)
            assert (stage.is_proved, stage.wrongs) == (False, [])

    on_stage(scene)


def test_after_a_power_cycle_that_changed_nothing_a_person_is_asked() -> None:
    async def scene(stage: Stage) -> None:
        await fail_over(stage, BY_PERSON)
        async with stage.operator():
            assert await stage.until(lambda: stage.reason == "WaitsForConfirmation", 60)
            stage.machines[VICTIM].bmc.suffer(Unreachable())
            await stage.order(WAYS["hollow"], "OutOfServiceTaint")
            assert await stage.until(lambda: stage.phase == Phase.LOOKING, 60)
            await stage.patch_remediations({"annotations": {medik8s.TIMED_OUT: "now"}})
            assert await stage.until(lambda: stage.reason == "WaitsForConfirmation", 60)
            await free_by_word(stage)

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

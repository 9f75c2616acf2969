"""DK-18, DK-19, SHX-05: what goes wrong on the way to the end of a drain holds up nothing else, and is survived."""

import pytest

from defib.decide.drains.intents.openshift import STATE
from defib.kube.transport import Request
from defib.simulate.faults import Fault, Hang, LoseAnswer, LoseRequest, Refuse, RequestEffect, Slow
from tests.drain_stage import DELETE, DRAINS, EVICT, NEVER, Stage, play
from tests.failover_stage import OPERATOR
from tests.flows.test_drain_courses import an_upgrade

FREE = {"app": "free"}


@pytest.mark.parametrize("code", [403, 409, 500, 503])
def test_dk_18_an_error_about_one_pod_does_not_stop_the_others(code: int) -> None:
    async def story(stage: Stage) -> None:
        for number in range(6):
            stage.pod(f"web-{number}")
        await stage.drain_policy()
        faults = [Fault(effect=Refuse(code=code), resource="pods", name="web-0", verbs=("create", "delete", "patch"))]
        stage.server.faults.inject(*faults)
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(31)
            assert stage.there() == ["web-0"]
            stage.server.faults.clear()
            await stage.minutes(2)
            assert (stage.there(), stage.stands()) == ([], "Drained")

    play(story)


def test_dk_18_a_strategy_that_fails_does_not_stop_the_later_ones() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-held", labels=FREE, finalizers=["example.com/hold"])
        stage.pod("web-never", labels=FREE, habit=NEVER)
        stage.pod("web-budget")
        await stage.budget()
        await stage.drain_policy(finalizers=["*"])
        stage.server.faults.inject(Fault(effect=Refuse(code=500), resource="pods", verbs=("patch",), client=OPERATOR))
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(62)
            assert stage.there() == ["web-held"]
            assert stage.has_failed()
            stage.server.faults.clear()
            await stage.minutes(2)
            assert stage.stands() == "Drained"

    play(story)


def test_dk_18_a_pod_that_has_gone_meanwhile_counts_as_done() -> None:
    async def story(stage: Stage) -> None:
        for name in ("web-1", "web-2"):
            stage.pod(name)
        await stage.drain_policy()

        async def before(request: Request) -> None:
            if request.path.endswith("/web-1/eviction"):
                stage.server.store.remove(
                    "pods", next(one for one in stage.all("pods") if one["metadata"]["name"] == "web-1")
                )
                stage.server.settle()

        stage.before = before
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(32)
            assert stage.stands() == "Drained"
            assert stage.told() == [(EVICT, "web-1", 30), (EVICT, "web-2", 30)]

    play(story)


def test_a_pod_that_cannot_be_evicted_is_deleted_in_its_own_time() -> None:
    """The eviction API may be broken, by a webhook for instance."""

    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.drain_policy()
        stage.server.faults.inject(Fault(effect=Refuse(code=500), resource="pods", subresource="eviction"))
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(31)
            assert stage.told() == [(EVICT, "web-1", 30), (EVICT, "web-1", 30), (DELETE, "web-1", 30)]
            await stage.until(32)
            assert stage.stands() == "Drained"

    play(story)


def test_a_pod_with_two_budgets_which_the_server_does_not_evict_waits_for_their_time() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.budget("one", maxUnavailable=1)
        await stage.budget("two", maxUnavailable=1)
        await stage.drain_policy()
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(60)
            assert (stage.told(DELETE), stage.there()) == ([], ["web-1"])
            await stage.until(62)
            assert stage.told(DELETE) == [(DELETE, "web-1", 60)]

    play(story)


def test_while_budgets_are_out_of_sight_nothing_is_forced() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.drain_policy()
        fault = Fault(effect=Refuse(code=403), resource="poddisruptionbudgets.policy", verbs=("list", "watch"))
        stage.server.faults.inject(fault)
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(90)
            assert (stage.done, stage.stands(), stage.has_failed()) == ([], "Held SelfDoubt", True)
            assert "poddisruptionbudgets" in stage.drain()["message"]
            stage.server.faults.clear()
            await stage.minutes(3)
            assert stage.stands() == "Drained"

    play(story)


EFFECTS: list[RequestEffect] = [
    Refuse(code=500),
    Refuse(code=429, retry_after_seconds=2),
    Refuse(code=409),
    LoseRequest(),
    LoseAnswer(),
    Hang(),
    Slow(seconds=4),
]


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda one: f"{type(one).__name__}{getattr(one, 'code', '')}")
def test_shx_05_any_write_may_go_wrong_twice_and_the_drain_ends_all_the_same(effect: RequestEffect) -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1", labels=FREE, habit=NEVER)
        stage.pod("web-2", labels=FREE, finalizers=["example.com/hold"])
        stage.pod("web-3")
        await stage.budget()
        await stage.drain_policy(finalizers=["*"])
        writes = ("create", "patch", "update", "delete")
        for resource in ("pods", str(DRAINS), "leases.coordination.k8s.io"):
            stage.server.faults.inject(
                Fault(effect=effect, resource=resource, verbs=writes, client=OPERATOR, times=2),
                Fault(effect=effect, resource=resource, verbs=writes, client=OPERATOR, skip=6, times=2),
            )
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(90)
            assert (stage.there(), stage.stands(), stage.holder()) == ([], "Drained", "")
        assert not stage.has_failed()

    play(story)


def test_shx_05_the_api_server_is_away_while_a_rung_is_due() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.drain_policy()
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(29)
            stage.server.partition(OPERATOR)
            await stage.until(33)
            assert stage.done == []
            stage.server.heal(OPERATOR)
            await stage.minutes(3)
            assert stage.stands() == "Drained"

    play(story)


def test_dk_19_that_nobody_can_be_told_of_a_delay_stops_nothing() -> None:
    async def story(stage: Stage) -> None:
        await an_upgrade(stage)
        stage.pod("web-1")
        await stage.budget()
        await stage.drain_policy()
        fault = Fault(effect=Refuse(code=403), resource="events", verbs=("create", "patch"))
        stage.server.faults.inject(fault)
        async with stage.operator():
            await stage.cordon("n1", mark=STATE, value="Working")
            await stage.until(62)
            assert (stage.there(), stage.stands()) == ([], "Drained")
            assert stage.server.faults.struck(fault) > 0
            assert stage.policy_status()["delayed"] == "4.20.1"

    play(story)

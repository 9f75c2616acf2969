"""Evictions ask the disruption budgets, about once a minute while these say no; and no pod waits for another one's trouble."""

import asyncio

import pytest

from defib.act.drains import BLOCKED_PAUSE_SECONDS
from defib.act.executor import Executor
from defib.act.outcome import Done, Failed
from defib.kube.client import Merge
from defib.model.action import Action
from defib.model.drain_action import BLOCKED, TOO_BUSY, OpenDrain
from defib.model.mandate import Mandate
from defib.simulate.faults import Fault, Hang, LoseAnswer, Refuse, Slow
from tests.unit.act.drained import BUDGETS, Scene, drain, drain_by_executor
from tests.unit.act.stage import US

FOR_EVER = Mandate("test")
EVICTION = "create pods/eviction"


def evictions(scene: Scene) -> list[str]:
    return [asked.removeprefix(f"{EVICTION} ") for asked in scene.writes() if asked.startswith(EVICTION)]


async def seconds_pass(count: float) -> None:
    """Virtual ones: they pass at once."""
    await asyncio.sleep(count)


async def keep_asking(executor: Executor, actions: list[Action], *, seconds: int) -> None:
    """A plan every few seconds that wants the same."""
    for _ in range(0, seconds, 5):
        executor.carry_out(actions, FOR_EVER)
        await seconds_pass(5)


@pytest.mark.parametrize("reading", ["", "nodes"], ids=["before we look", "after we looked"])
def test_dk_23_a_budget_that_says_no_keeps_the_pod_and_is_quoted(reading: str) -> None:
    async def story(scene: Scene) -> None:
        evict = await scene.evict()
        if reading:
            outcome = await scene.meanwhile(evict, reading, scene.add_budget)
        else:
            await scene.add_budget()
            outcome = await scene.do(evict)
        why = f"{BLOCKED}: The disruption budget guard needs 1 healthy pods and has 1 currently"
        assert outcome == Failed(why, retry_after_seconds=BLOCKED_PAUSE_SECONDS)
        assert not scene.is_leaving()

    drain(story)


def test_a_budget_that_is_used_up_after_we_looked_keeps_the_pod() -> None:
    async def story(scene: Scene) -> None:
        await scene.add_budget(allowed=1)
        first, second = await scene.evict("web-1"), await scene.evict("web-2")

        async def somebody_is_faster() -> None:
            assert await scene.do(first) == Done()

        outcome = await scene.meanwhile(second, "nodes", somebody_is_faster)
        assert isinstance(outcome, Failed)
        assert outcome.why.startswith(BLOCKED)
        assert (scene.is_leaving("web-1"), scene.is_leaving("web-2")) == (True, False)

    drain(story)


def test_dk_23_two_budgets_for_one_pod_count_as_one_that_says_no() -> None:
    async def story(scene: Scene) -> None:
        evict = await scene.evict()
        await scene.add_budget("first", allowed=1)
        await scene.add_budget("second", allowed=1)
        outcome = await scene.do(evict)
        assert isinstance(outcome, Failed)
        assert outcome.why.startswith(f"{BLOCKED}: This pod has more than one PodDisruptionBudget")
        assert outcome.retry_after_seconds == BLOCKED_PAUSE_SECONDS

    drain(story)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (403, 'poddisruptionbudgets.policy "guard" is forbidden: disrupted pods map too big'),
        (504, 'Timeout: couldn\'t update PodDisruptionBudget "guard" due to conflicts'),
    ],
)
def test_dk_23_whatever_else_is_said_of_a_budget_is_a_no_of_that_budget(code: int, said: str) -> None:
    async def story(scene: Scene) -> None:
        evict = await scene.evict()
        fault = Fault(effect=Refuse(code=code, message=said), verbs=("create",), resource="pods", client=US)
        scene.stage.fault(fault)
        assert await scene.do(evict) == Failed(f"{BLOCKED}: {said}", retry_after_seconds=BLOCKED_PAUSE_SECONDS)

    drain(story)


def test_a_server_that_has_no_time_says_nothing_about_the_pod() -> None:
    async def story(scene: Scene) -> None:
        evict = await scene.evict()
        busy = Refuse(code=429, message="too many requests", retry_after_seconds=3)
        scene.stage.fault(Fault(effect=busy, verbs=("create",), resource="pods", client=US))
        outcome = await scene.do(evict)
        assert isinstance(outcome, Failed)
        assert (outcome.why.startswith(TOO_BUSY), outcome.may_pass, outcome.retry_after_seconds) == (True, True, 3.0)

    drain(story)


def test_a_deletion_passes_a_budget_that_says_no() -> None:
    async def story(scene: Scene) -> None:
        await scene.add_budget()
        assert await scene.do(await scene.delete()) == Done()
        assert scene.is_leaving()

    drain(story)


def test_a_namesake_is_not_evicted_and_costs_its_budget_nothing() -> None:
    async def story(scene: Scene) -> None:
        await scene.add_budget(allowed=1)
        evict = await scene.evict()
        await scene.remove_pod()
        await scene.add_pod()
        assert await scene.do(evict) == Done()
        (budget,) = scene.stage.objects(str(BUDGETS))
        assert budget["status"]["disruptionsAllowed"] == 1
        assert evictions(scene) == []

    drain(story)


def test_a_conflict_about_the_very_same_pod_is_no_success() -> None:
    async def story(scene: Scene) -> None:
        evict = await scene.evict()
        scene.stage.fault(Fault(effect=Refuse(code=409), verbs=("create",), resource="pods", client=US, times=1))
        assert await scene.do(evict) != Done()
        assert await scene.do(evict) == Done()
        assert scene.is_leaving()

    drain(story)


def test_dk_23_dk_28_a_budget_that_says_no_is_asked_again_about_every_minute_until_it_says_yes() -> None:
    async def acts(scene: Scene, executor: Executor) -> None:
        evict = await scene.evict()
        await scene.add_budget()
        await keep_asking(executor, [evict], seconds=300)
        assert evictions(scene) == ["429"] * 5
        assert executor.failures[evict.key].why.startswith(BLOCKED)
        ref = BUDGETS.at("guard", "default")
        await scene.stage.world.patch(ref, Merge({"status": {"disruptionsAllowed": 1}}), subresource="status")
        await keep_asking(executor, [evict], seconds=60)
        assert evictions(scene) == [*["429"] * 5, "201"]
        assert scene.is_leaving()

    drain_by_executor(acts)


def test_dk_28_between_two_tries_nothing_is_asked_of_the_api_server() -> None:
    async def acts(scene: Scene, executor: Executor) -> None:
        evict = await scene.evict()
        await scene.add_budget()
        executor.carry_out([evict], FOR_EVER)
        await seconds_pass(1)
        asked = len(scene.stage.asked())
        await keep_asking(executor, [evict], seconds=50)
        assert len(scene.stage.asked()) == asked
        assert executor.next_retry == pytest.approx(scene.stage.clock.monotonic() + 9, abs=0.5)

    drain_by_executor(acts)


def test_dk_18_one_pods_error_does_not_stop_the_others() -> None:
    async def acts(scene: Scene, executor: Executor) -> None:
        hangs, fails, is_gone = await scene.delete("a"), await scene.delete("b"), await scene.delete("c")
        evicted, deleted = await scene.evict("d"), await scene.delete("e")
        scene.stage.fault(Fault(effect=Hang(), verbs=("delete",), name="a", client=US))
        scene.stage.fault(Fault(effect=Refuse(code=500), verbs=("delete",), name="b", client=US))
        await scene.remove_pod("c")
        executor.carry_out([hangs, fails, is_gone, evicted, deleted], FOR_EVER)
        await seconds_pass(1)
        assert (scene.is_leaving("d"), scene.is_leaving("e")) == (True, True)
        ended = {action.key: outcome for action, outcome in scene.stage.ended}
        assert [ended[one.key] for one in (is_gone, evicted, deleted)] == [Done()] * 3
        assert isinstance(ended[fails.key], Failed)
        assert executor.underway == (hangs,)

    drain_by_executor(acts)


def test_a_lost_answer_is_no_second_eviction() -> None:
    async def acts(scene: Scene, executor: Executor) -> None:
        evict = await scene.evict()
        scene.stage.fault(Fault(effect=LoseAnswer(), verbs=("create",), resource="pods", client=US, times=1))
        await keep_asking(executor, [evict], seconds=20)
        assert len(evictions(scene)) == 1
        assert scene.stage.ended[-1] == (evict, Done())

    drain_by_executor(acts)


def test_many_pods_of_one_node_look_at_it_together() -> None:
    async def acts(scene: Scene, executor: Executor) -> None:
        steps = [await scene.evict(f"web-{number}") for number in range(60)]
        scene.stage.fault(Fault(effect=Slow(seconds=0.02, jitter_seconds=0.02), client=US))
        executor.carry_out(steps, FOR_EVER)
        await seconds_pass(5)
        assert evictions(scene) == ["201"] * 60
        asked = scene.stage.asked()
        for shared in ("get nodes 200", "get nodedrains 200", "get leases 200"):
            assert asked.count(shared) <= 5, shared

    drain_by_executor(acts)


def test_a_mandate_that_is_taken_back_while_we_look_forces_nobody() -> None:
    async def acts(scene: Scene, executor: Executor) -> None:
        delete = await scene.delete()
        mandate = Mandate("test")
        scene.stage.fault(Fault(effect=Slow(seconds=2), verbs=("get",), resource="nodes", client=US))
        executor.carry_out([delete], mandate)
        await seconds_pass(1)
        mandate.take_back()
        await seconds_pass(10)
        assert scene.writes() == []
        assert not scene.is_leaving()

    drain_by_executor(acts)


def test_while_the_brake_is_on_no_step_is_begun_and_records_are_kept_all_the_same() -> None:
    async def acts(scene: Scene, executor: Executor) -> None:
        evict, delete = await scene.evict("a"), await scene.delete("b")
        scene.stage.stop = lambda: "the brake is on"
        executor.carry_out([evict, delete, OpenDrain(node="n2", body={"metadata": {"name": "n2"}})], FOR_EVER)
        await seconds_pass(10)
        assert scene.stage.asked() == ["create nodedrains 201"]

    drain_by_executor(acts)

"""Nothing is begun without a mandate, nothing outlives it, and whoever comes too late with one loses to the record."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from defib.act.executor import NEWS_SECONDS, Executor
from defib.act.outcome import Done, Failed, PowerSwitched, Stale, Withheld
from defib.kube.kinds import LEASES
from defib.model.action import Action, CheckPower, GatherEvidence, ReadClaim, ReadPower, SwitchPower, TellEvent
from defib.model.leftover import ReadMembers
from defib.model.mandate import Mandate, Nobody
from defib.power.registry import Drivers
from defib.simulate.faults import Fault, Hang, Refuse, Slow
from defib.simulate.virtual_time import START
from tests.mute_machine import MUTE, Mute
from tests.unit.act.fenced import INCIDENTS, Scene, fence, witnessed
from tests.unit.act.stage import FOOS, Stage, play

Scenario = Callable[[Stage, Executor], Awaitable[None]]


def act(scenario: Scenario) -> None:
    async def main(stage: Stage) -> None:
        executor = stage.executor()
        async with asyncio.TaskGroup() as group:
            running = group.create_task(executor.run())
            await asyncio.sleep(0)
            await scenario(stage, executor)
            running.cancel()

    play(main)


async def seconds(count: float) -> None:
    """Virtual ones: they pass at once."""
    await asyncio.sleep(count)


def news() -> TellEvent:
    return TellEvent(check="c1", uid="u1", is_warning=False, reason="R", message="news", at=START)


def writes(stage: Stage) -> list[str]:
    return [asked for asked in stage.asked() if not asked.startswith("get ")]


class For:
    """A permit for some things and not for others."""

    def __init__(self, *actions: Action) -> None:
        self._actions = actions
        self.mandate = Mandate("some")

    def of(self, action: Action) -> Mandate | None:
        return self.mandate if action in self._actions else None


def test_le_01_whoever_has_no_mandate_begins_nothing_and_asks_nobody() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        executor.carry_out([stage.start(), news()], Nobody())
        await seconds(60)
        assert stage.asked() == []
        assert executor.underway == ()

    act(scenario)


def test_what_is_ours_begins_and_what_is_not_does_not() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.add_node("n2")
        ours, theirs = stage.start("n1"), stage.start("n2")
        permit = For(ours)
        executor.carry_out([ours, theirs], permit)
        assert executor.underway == (ours,)
        assert executor.is_busy(permit.mandate)
        await seconds(1)
        assert [one["metadata"]["name"] for one in stage.foos()] == ["n1"]
        assert not executor.is_busy(permit.mandate)

    act(scenario)


def test_le_08_a_request_that_hangs_is_cut_when_the_mandate_ends() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.break_creation(Hang())
        mandate = Mandate("m", ends=stage.clock.monotonic() + 4)
        executor.carry_out([stage.start()], mandate)
        await seconds(3.9)
        assert executor.is_busy(mandate)
        await seconds(0.2)
        assert not executor.is_busy(mandate)
        assert [outcome for _, outcome in stage.ended] == [Failed("not done when our mandate ended", may_pass=True)]

    act(scenario)


def test_le_08_a_mandate_that_is_taken_back_stops_what_it_began() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.fault(Fault(effect=Slow(seconds=5), verbs=("get",), resource="nodes"))
        mandate = Mandate("m")
        executor.carry_out([stage.start()], mandate)
        await seconds(1)
        mandate.take_back()
        await seconds(30)
        assert writes(stage) == [], "what comes after the slow answer is not done"

    act(scenario)


def test_a_mandate_that_is_moved_on_lets_slow_work_end() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.fault(Fault(effect=Slow(seconds=8), verbs=("create",), resource=str(FOOS)))
        mandate = Mandate("m", ends=stage.clock.monotonic() + 3)
        executor.carry_out([stage.start()], mandate)
        for _ in range(10):
            mandate.ends = stage.clock.monotonic() + 3
            await seconds(1)
        assert [type(outcome) for _, outcome in stage.ended] == [Done]

    act(scenario)


def test_le_08_news_that_waits_is_not_told_without_a_mandate() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        mandate = Mandate("m")
        executor.tell([news()], mandate)
        mandate.take_back()
        await seconds(60)
        assert writes(stage) == []
        assert [outcome for _, outcome in stage.ended] == [Withheld("our mandate has ended")]

    act(scenario)


def test_le_07_who_finishes_begins_nothing_more_and_ends_what_was_begun() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.add_node("n2")
        stage.fault(Fault(effect=Slow(seconds=3), verbs=("create",), resource=str(FOOS)))
        executor.carry_out([stage.start("n1")], Mandate("m"))
        async with asyncio.TaskGroup() as group:
            finishing = group.create_task(executor.finish(10.0))
            await seconds(1)
            executor.carry_out([stage.start("n2")], Mandate("m"))
        assert finishing.result() is True
        assert [one["metadata"]["name"] for one in stage.foos()] == ["n1"]

    act(scenario)


def tells_at_the_end(effect: Slow | Hang | Refuse) -> tuple[bool, float, list[str]]:
    """What is under way has something to tell when it ends: whether all has ended, how long that took, what was told."""
    found: list[tuple[bool, float, list[str]]] = []

    async def scenario(stage: Stage, executor: Executor) -> None:
        mandate = Mandate("m")
        stage.then = lambda action: executor.tell([] if isinstance(action, TellEvent) else [news()], mandate)
        stage.fault(Fault(effect=effect, verbs=("create",), resource="events"))
        executor.carry_out([stage.start()], mandate)
        began = stage.clock.monotonic()
        has_ended = await executor.finish(10.0)
        told = [asked for asked in writes(stage) if "events" in asked]
        found.append((has_ended, stage.clock.monotonic() - began, told))

    act(scenario)
    return found[0]


def test_le_07_what_follows_from_the_last_end_is_told_before_all_has_ended() -> None:
    has_ended, took, told = tells_at_the_end(Slow(seconds=0.5))
    assert (has_ended, told) == (True, ["create events 201"])
    assert took < NEWS_SECONDS


@pytest.mark.parametrize("effect", [Hang(), Slow(seconds=3), Refuse(code=429)])
def test_le_07_news_that_cannot_be_told_holds_up_the_end_for_a_second_at_most(effect: Hang | Slow | Refuse) -> None:
    has_ended, took, _ = tells_at_the_end(effect)
    assert has_ended, "nobody decides by news"
    assert took <= NEWS_SECONDS + 0.1


READS: dict[str, Action] = {
    "ReadPower": ReadPower(incident_uid="u", node="n1", path=MUTE),
    "CheckPower": CheckPower(node="n1", path=MUTE),
    "ReadClaim": ReadClaim(namespace="default", name="c"),
    "ReadMembers": ReadMembers(namespace="default"),
    "GatherEvidence": GatherEvidence(node="n1", node_uid="u", renewed=None),
}


@pytest.mark.parametrize("name", READS)
def test_le_07_what_only_reads_holds_up_nothing(name: str) -> None:
    async def scenario(stage: Stage, _: Executor) -> None:
        stage.drivers = Drivers(stage.clock, {"mute": Mute()})
        reader = stage.executor()
        for resource in ("persistentvolumeclaims", str(LEASES), "secrets"):
            stage.fault(Fault(effect=Hang(), verbs=("get", "list"), resource=resource))
        mandate = Mandate("m")
        async with asyncio.TaskGroup() as group:
            running = group.create_task(reader.run())
            await asyncio.sleep(0)
            reader.carry_out([READS[name]], mandate)
            await seconds(0.5)
            assert reader.underway == (READS[name],)
            assert not reader.is_busy(mandate)
            began = stage.clock.monotonic()
            assert await reader.finish(10.0)
            assert stage.clock.monotonic() == began
            running.cancel()

    act(scenario)


def test_le_07_what_writes_is_waited_for_beside_what_only_reads() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.fault(Fault(effect=Hang(), verbs=("get",), resource="persistentvolumeclaims"))
        stage.fault(Fault(effect=Slow(seconds=3), verbs=("create",), resource=str(FOOS)))
        mandate = Mandate("m")
        executor.carry_out([READS["ReadClaim"], stage.start()], mandate)
        assert executor.is_busy(mandate)
        assert await executor.finish(10.0)
        assert [one["metadata"]["name"] for one in stage.foos()] == ["n1"]

    act(scenario)


def test_le_07_who_waits_in_vain_says_so() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.break_creation(Hang())
        executor.carry_out([stage.start()], Mandate("m"))
        assert await executor.finish(5.0) is False

    act(scenario)


def test_le_07_a_request_that_nobody_knows_the_end_of_is_not_taken_for_ended() -> None:
    """It may be done after another one leads, so the lock must not be given back early."""

    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.break_creation(Hang())
        executor.carry_out([stage.start()], Mandate("m"))
        assert await executor.finish(600.0) is False
        assert executor.underway == ()

    act(scenario)


def late_leader(power_first: bool) -> list[str]:
    """Two replicas have judged the same record, and both believe in their mandate. Whose token stood there, in turn."""
    told: list[str] = []

    async def story(scene: Scene) -> None:
        stage = scene.stage
        witness = witnessed(scene)
        action = scene.switch()
        late, new = stage.executor(name="late"), stage.executor(name="new")
        pause = Fault(effect=Slow(seconds=3), verbs=("get",), resource=str(FOOS), client="late")
        stage.fault(pause)
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one.run()) for one in (late, new)]
            await asyncio.sleep(0)
            late.carry_out([action], Mandate("late"))
            if not power_first:
                await seconds(1)
                await scene.note(reason="TheNewOneWasHere")
            else:
                new.carry_out([action], Mandate("new"))
            await seconds(10)
            for task in running:
                task.cancel()
        told.extend(record["token"] for record in witness.records)
        ends = {type(outcome) for one, outcome in stage.ended if isinstance(one, SwitchPower)}
        assert ends == ({PowerSwitched, Stale} if power_first else {Stale})
        swaps = [one.status for one in stage.server.audit if one.client == "late" and one.verb == "patch"]
        assert swaps == [409], "it has tried to put its token there, and lost"

    fence(story)
    return told


def test_a_late_leader_loses_the_record_to_the_one_who_switched_before_it() -> None:
    assert late_leader(power_first=True) == ["new"]


def test_a_late_leader_loses_the_record_to_the_one_who_only_looked_into_the_matter() -> None:
    assert late_leader(power_first=False) == []


def test_of_two_who_switch_at_the_same_moment_one_sends_a_command() -> None:
    async def story(scene: Scene) -> None:
        stage = scene.stage
        witness = witnessed(scene)
        both = [stage.executor(name=name) for name in ("a", "b")]
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one.run()) for one in both]
            await asyncio.sleep(0)
            for name, one in zip("ab", both, strict=True):
                one.carry_out([scene.switch()], Mandate(name))
            await seconds(10)
            for task in running:
                task.cancel()
        assert len(witness.records) == 1
        swaps = [
            one.status for one in stage.server.audit if one.verb == "patch" and INCIDENTS.split(".")[0] in one.path
        ]
        assert sorted(swaps) == [200, 409]

    fence(story)

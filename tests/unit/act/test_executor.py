"""Many actions side by side: bounds, retries, brake and mandate, and two who want the same node."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from defib.act.executor import UNTOLD_MAX, Executor, Terms
from defib.act.ledger import UNSURE_SECONDS
from defib.act.outcome import Done, Failed, Held, Stale, Withheld
from defib.kube.kinds import LEASES, Kind
from defib.model.account_action import MANY_AT_ONCE
from defib.model.action import Action, EndRemediation, HoldLock, MovePod, TellEvent, WriteStatus
from defib.model.failure import Failure
from defib.model.health_check import KindRef
from defib.model.mandate import Mandate, Nobody
from defib.model.meta import Resource
from defib.simulate.faults import Fault, Hang, LoseAnswer, LoseRequest, Refuse, Slow
from defib.simulate.virtual_time import START
from tests.unit.act.stage import BARS, CHECKS, FOOS, LEASE, Stage, a_foo, play

FOR_EVER = Mandate("test")

Scenario = Callable[[Stage, Executor], Awaitable[None]]


def act(scenario: Scenario, terms: Terms | None = None) -> None:
    async def main(stage: Stage) -> None:
        executor = stage.executor(terms)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(executor.run())
            await asyncio.sleep(0)
            await scenario(stage, executor)
            running.cancel()

    play(main)


async def seconds(count: float) -> None:
    """Virtual ones: they pass at once."""
    await asyncio.sleep(count)


def sick_nodes(stage: Stage, count: int) -> list[Action]:
    names = [f"w{number}" for number in range(count)]
    for name in names:
        stage.add_node(name)
    return [stage.start(name) for name in names]


def news(number: int = 0, **changes: Any) -> TellEvent:
    event = TellEvent(check="c1", uid="u1", is_warning=False, reason="R", message=f"news {number}", at=START)
    return msgspec.structs.replace(event, **changes)


def test_it_returns_at_once_and_says_what_is_under_way() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        action = stage.start()
        executor.carry_out([action], FOR_EVER)
        assert executor.underway == (action,)
        assert stage.asked() == []
        await seconds(1)
        assert list(executor.underway) == []
        assert [(ended, type(outcome)) for ended, outcome in stage.ended] == [(action, Done)]

    act(scenario)


def test_an_action_that_is_under_way_is_not_begun_again() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.fault(Fault(effect=Slow(seconds=5), resource="nodes"))
        for _ in range(3):
            executor.carry_out([stage.start()], FOR_EVER)
            await seconds(1)
        await seconds(10)
        assert stage.asked() == ["get nodes 200", "create leases 201", "create fooremediations 201"]

    act(scenario)


def test_a_plan_from_before_our_own_write_is_told_changes_nothing() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        target = stage.put_foo()
        await stage.turn("True")
        action = stage.end(target)
        for _ in range(20):
            executor.carry_out([action], FOR_EVER)
            await seconds(0.1)
        assert stage.asked() == ["get nodes 200", "delete fooremediations 200"]
        assert executor.next_retry is not None
        await seconds(executor.next_retry - stage.clock.monotonic())
        executor.carry_out([action], FOR_EVER)
        await seconds(0.1)
        assert stage.asked()[2:] == ["get nodes 200", "delete fooremediations 404"]

    act(scenario)


def test_one_node_that_hangs_delays_no_other() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        starts = sick_nodes(stage, 16)
        stage.fault(Fault(effect=Hang(), name="w0"))
        executor.carry_out(starts, FOR_EVER)
        await seconds(0.5)
        assert len(stage.foos()) == 15
        assert [action.key for action in executor.underway] == ["remediate w0 for c1 by FooRemediation w0"]
        await seconds(11)
        assert [type(outcome) for _, outcome in stage.ended[15:]] == [Failed]

    act(scenario)


def test_an_action_has_a_deadline_over_all_its_requests() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.fault(Fault(effect=Slow(seconds=9)))
        executor.carry_out([stage.start()], FOR_EVER)
        await seconds(19)
        assert [action.key for action in executor.underway] == ["remediate n1 for c1 by FooRemediation n1"]
        await seconds(2)
        assert [outcome for _, outcome in stage.ended] == [Failed("not done within 20 s", may_pass=True)]
        assert executor.failures.keys() == {"remediate n1 for c1 by FooRemediation n1"}

    act(scenario, Terms(deadline_seconds=20.0))


def test_failures_are_told_and_retried_ever_more_rarely_until_it_works() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        refusal = stage.break_creation(Refuse(code=403, message="not allowed"))
        tried = []
        for tick in range(100):
            before = stage.server.faults.struck(refusal)
            executor.carry_out([stage.start()], FOR_EVER)
            await seconds(0.5)
            if stage.server.faults.struck(refusal) > before:
                tried.append(tick / 2)
        assert tried == [0, 1, 3, 7, 15, 31]
        why = "POST /apis/example.com/v1/namespaces/remedies/fooremediations: not allowed"
        assert executor.failures == {
            "remediate n1 for c1 by FooRemediation n1": Failure(
                why=why, times=6, again_in=timedelta(seconds=30), forbidden=True
            ),
        }
        retry = executor.next_retry
        assert retry == pytest.approx(61, abs=0.1)
        assert retry is not None
        stage.server.faults.clear()
        await seconds(retry - stage.clock.monotonic())
        executor.carry_out([stage.start()], FOR_EVER)
        await seconds(0.5)
        assert executor.failures == {}
        assert len(stage.foos()) == 1

    act(scenario)


def test_a_failure_is_forgotten_when_the_action_is_no_longer_wanted_but_not_while_it_is_under_way() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.break_creation(Refuse(code=403), times=1)
        executor.carry_out([stage.start()], FOR_EVER)
        await seconds(2)
        stage.fault(Fault(effect=Slow(seconds=5), resource="nodes"))
        executor.carry_out([stage.start()], FOR_EVER)
        executor.carry_out([], FOR_EVER)
        assert executor.failures.keys() == {"remediate n1 for c1 by FooRemediation n1"}
        assert executor.next_retry is None
        await seconds(10)
        assert len(stage.foos()) == 1
        stage.server.faults.clear()
        stage.fault(Fault(effect=Refuse(code=403), resource=LEASE))
        stage.add_node("n2")
        executor.carry_out([stage.start("n2")], FOR_EVER)
        await seconds(1)
        assert executor.failures.keys() == {"remediate n2 for c1 by FooRemediation n2"}
        executor.carry_out([], FOR_EVER)
        assert executor.failures == {}

    act(scenario)


def test_a_failed_start_that_turns_out_stale_counts_until_it_must_have_been_seen() -> None:
    """Its answer was lost: it may be there, and in no watch yet. Nobody may take its place meanwhile."""

    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.break_creation(LoseRequest(), times=1)
        executor.carry_out([stage.start()], FOR_EVER)
        await seconds(2)
        await stage.turn("True")
        executor.carry_out([stage.start()], FOR_EVER)
        await seconds(1)
        assert [type(outcome) for _, outcome in stage.ended] == [Failed, Stale]
        assert [failure.node for failure in executor.failures.values()] == ["n1"]
        await seconds(UNSURE_SECONDS)
        executor.carry_out([], FOR_EVER)
        assert executor.failures == {}

    act(scenario)


@pytest.mark.parametrize("effect", [LoseRequest(), LoseAnswer(), Hang(), Hang(applied=True), Refuse(code=503)])
@pytest.mark.parametrize("resource", ["nodes", LEASE, str(FOOS)])
def test_whatever_is_lost_once_the_end_is_one_remediation_under_one_lock(effect: Any, resource: str) -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.fault(Fault(effect=effect, resource=resource, client="defib", times=1))
        for _ in range(40):
            if not stage.foos():
                executor.carry_out([stage.start(claim=stage.claim(known=stage.lock()))], FOR_EVER)
            await seconds(1)
        assert len(stage.foos()) == 1
        assert stage.lock() is not None
        assert executor.failures == {}

    act(scenario)


def test_only_so_many_run_at_once_and_the_rest_begins_as_they_end() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        starts = sick_nodes(stage, 10)
        executor.carry_out(starts, FOR_EVER)
        assert executor.underway == tuple(starts[:4])
        await seconds(0.1)
        assert len(stage.foos()) == 10

    act(scenario, Terms(at_once=8))


def test_what_waits_for_a_place_is_forgotten_when_it_is_no_longer_wanted() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        starts = sick_nodes(stage, 10)
        executor.carry_out(starts, FOR_EVER)
        executor.carry_out(starts[:5], FOR_EVER)
        await seconds(1)
        assert len(stage.foos()) == 5

    act(scenario, Terms(at_once=8))


def test_a_status_is_written_now_and_then_while_much_is_under_way_and_at_once_when_nothing_is() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        def status(number: int) -> WriteStatus:
            return WriteStatus(check="c1", uid="u", version=str(number), status={})

        stage.break_creation(Hang())
        (start,) = sick_nodes(stage, 1)
        for number in range(10):
            executor.carry_out([start, status(number)], FOR_EVER)
            await seconds(0.1)
        assert [asked for asked in stage.asked() if "nodehealthchecks" in asked][2:] == []
        executor.carry_out([status(11)], FOR_EVER)
        await seconds(15)  # the hanging start is given up
        before = len(stage.asked())
        executor.carry_out([status(12)], FOR_EVER)
        executor.carry_out([status(13)], FOR_EVER)
        await seconds(0.1)
        assert len(stage.asked()) == before + 1

    act(scenario)


class NoEnds:
    """What we may do when another replica is to end remediations."""

    def of(self, action: Action) -> Mandate | None:
        return None if isinstance(action, EndRemediation) else FOR_EVER


def test_a_status_is_written_now_and_then_also_while_others_end_remediations() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        def status(number: int) -> WriteStatus:
            return WriteStatus(check="c1", uid="u", version=str(number), status={})

        def written() -> int:
            return len([asked for asked in stage.asked() if "nodehealthchecks" in asked])

        end = stage.end(stage.put_foo())
        began = stage.clock.monotonic()
        for number in range(4):
            executor.carry_out([end, status(number)], NoEnds())
            await seconds(0.1)
        assert written() == 1
        assert executor.next_retry == began + 0.5, "else nobody would look again, should nothing change"
        await seconds(0.1)
        executor.carry_out([end, status(5)], NoEnds())
        await seconds(0.1)
        assert written() == 2
        executor.carry_out([status(6)], NoEnds())
        await seconds(0.1)
        assert written() == 3

    act(scenario)


def test_there_is_a_line_while_remediations_wait_for_others_to_be_started() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        starts = sick_nodes(stage, 20)
        assert not executor.has_a_line
        stage.fault(Fault(effect=Slow(seconds=1), resource="nodes"))
        executor.carry_out(starts[:16], FOR_EVER)
        assert not executor.has_a_line
        executor.carry_out(starts, FOR_EVER)
        assert executor.has_a_line
        await seconds(1.5)
        assert executor.underway
        assert not executor.has_a_line

    act(scenario)


def test_a_kind_whose_creation_hangs_leaves_places_for_every_other() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        starts = sick_nodes(stage, 100)
        stage.break_creation(Hang())
        stage.add_node("b1")
        other = stage.start("b1", check="c2", kind=KindRef("example.com/v1", "BarRemediation"))
        executor.carry_out(starts, FOR_EVER)
        await seconds(5)
        assert len(executor.underway) == 16
        executor.carry_out([*starts, other], FOR_EVER)
        await seconds(1)
        assert len(stage.objects(str(BARS))) == 1

    act(scenario)


def test_starts_and_moves_together_leave_half_of_the_places() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        moves = [
            MovePod(
                node="n1",
                node_uid=stage.uid("nodes", "n1"),
                namespace="a",
                name=name,
                uid=name,
                because="somebody",
                since=START,
            )
            for name in "xyz"
        ]
        holds = [HoldLock(claim=stage.claim())]
        executor.carry_out([*moves, *sick_nodes(stage, 3), *holds], FOR_EVER)
        assert [type(action).__name__ for action in executor.underway] == [
            "StartRemediation",
            "StartRemediation",
            "HoldLock",
            "MovePod",
        ]

    act(scenario, Terms(at_once=6, starts_per_kind=2))


def test_checks_take_turns() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.fault(Fault(effect=Hang()))
        sick_nodes(stage, 8)
        ours = [stage.start(f"w{number}", check="c1") for number in range(4)]
        theirs = [stage.start(f"w{number}", check="c2") for number in range(4, 8)]
        executor.carry_out([*ours, *theirs], FOR_EVER)
        assert executor.underway == (ours[0], theirs[0], ours[1], theirs[1])

    act(scenario, Terms(at_once=8))


def test_while_there_is_no_place_an_end_is_waited_for_and_no_moment() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        starts = sick_nodes(stage, 6)
        stage.break_creation(Refuse(code=403), times=2)
        executor.carry_out(starts[:2], FOR_EVER)
        await seconds(0.5)
        assert executor.next_retry == pytest.approx(1, abs=0.1)
        stage.fault(Fault(effect=Hang(), resource="nodes"))
        executor.carry_out([*starts[2:], *starts[:2]], FOR_EVER)
        await seconds(3)
        for _ in range(3):
            executor.carry_out([*starts[2:], *starts[:2]], FOR_EVER)
            assert executor.next_retry is None

    act(scenario, Terms(at_once=4))


def test_a_lock_that_a_failure_holds_back_is_not_asked_about_while_all_places_are_taken() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.fault(Fault(effect=Refuse(code=403), resource=LEASE, times=1))
        stage.add_node("n2")
        executor.carry_out([HoldLock(claim=stage.claim("n2"))], FOR_EVER)
        await seconds(0.5)
        stage.fault(Fault(effect=Hang()))
        executor.carry_out([stage.start(), HoldLock(claim=stage.claim("n2"))], FOR_EVER)
        assert executor.next_retry is None

    act(scenario, Terms(at_once=1))


def test_a_start_that_finds_its_remediation_there_time_and_again_is_slowed_down_and_told() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.put_foo()
        for _ in range(120):
            executor.carry_out([stage.start(claim=stage.claim(known=stage.lock()))], FOR_EVER)
            await seconds(0.5)
        assert [type(outcome) for _, outcome in stage.ended] == [Done] * 9
        failure = executor.failures["remediate n1 for c1 by FooRemediation n1"]
        assert failure.why == "a remediation of that name is there already: remedies/n1"

    act(scenario)


def test_remediations_go_first_then_locks_then_status_then_news() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.add_node("n2")
        end = stage.end(stage.put_foo())
        status = WriteStatus(check="c1", uid="u", version="1", status={})
        hold = HoldLock(claim=stage.claim("n2"))
        executor.carry_out([news(), status, hold, end, stage.start("n2")], FOR_EVER)
        assert executor.underway == (end, stage.start("n2"), hold, status, news())

    act(scenario)


def test_a_remediation_that_waits_for_a_place_gets_it_before_a_status() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        status = WriteStatus(check="c1", uid="u", version="1", status={})
        executor.carry_out([status, stage.start()], FOR_EVER)
        assert executor.underway == (stage.start(),)

    act(scenario, Terms(at_once=1))


def test_with_the_brake_on_nothing_is_started_and_cleaning_up_goes_on() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.stop = lambda: "the brake is on"
        stage.add_node("n2")
        target = stage.put_foo()
        await stage.turn("True")
        executor.carry_out([stage.start("n2"), stage.end(target), news()], FOR_EVER)
        await seconds(1)
        assert stage.foos() == []
        assert len(stage.objects("events")) == 1
        assert stage.lock("n2") is None

    act(scenario)


def test_with_the_brake_on_not_even_a_look_is_taken() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.stop = lambda: "the brake is on"
        executor.carry_out([stage.start()], FOR_EVER)
        await seconds(1)
        assert stage.asked() == []

    act(scenario)


def test_a_brake_that_is_released_lets_it_start_at_once() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.stop = lambda: "the brake is on" if stage.lock() else ""
        executor.carry_out([stage.start()], FOR_EVER)
        await seconds(1)
        assert stage.ended == [(stage.start(), Withheld("the brake is on"))]
        stage.stop = str
        executor.carry_out([stage.start()], FOR_EVER)
        await seconds(1)
        assert len(stage.foos()) == 1

    act(scenario)


def test_without_a_mandate_nothing_is_begun() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        await seconds(5)
        executor.carry_out([stage.start(), news()], Mandate("over", ends=5.0))
        assert executor.underway == ()

    act(scenario)


def test_an_action_ends_with_the_mandate_at_the_latest() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.fault(Fault(effect=Slow(seconds=8), verbs=("create",), resource=LEASE))
        executor.carry_out([stage.start()], Mandate("short", ends=5.0))
        await seconds(5.1)
        assert [outcome for _, outcome in stage.ended] == [Failed("not done when our mandate ended", may_pass=True)]
        await seconds(60)
        assert stage.foos() == []

    act(scenario)


def test_news_that_waits_longer_than_the_mandate_is_not_told() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.fault(Fault(effect=Slow(seconds=3), resource="events"))
        executor.tell([news(number) for number in range(12)], Mandate("short", ends=4.0))
        await seconds(60)
        assert [type(outcome) for _, outcome in stage.ended] == [Done] * 4 + [Withheld] * 8

    act(scenario)


def test_much_news_takes_no_place_from_remediations_and_none_is_lost() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.fault(Fault(effect=Slow(seconds=1), resource="events"))
        told = [news(number) for number in range(40)]
        executor.tell(told, FOR_EVER)
        executor.carry_out([stage.start()], FOR_EVER)
        assert len(executor.underway) == 41
        await seconds(0.5)
        assert len(stage.foos()) == 1
        executor.carry_out([], FOR_EVER)
        await seconds(20)
        assert len(stage.objects("events")) == 40

    act(scenario, Terms(at_once=2))


def test_news_waits_while_remediations_stand_in_line_and_none_is_lost() -> None:
    """The requests that we may make are counted, and those of remediations go first."""

    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.fault(Fault(effect=Slow(seconds=1), resource="nodes"))
        executor.carry_out(sick_nodes(stage, 6), FOR_EVER)
        executor.tell([news(number) for number in range(8)], FOR_EVER)
        while executor.has_a_line:
            assert stage.objects("events") == []
            await seconds(0.5)
        await seconds(20)
        assert (len(stage.foos()), len(stage.objects("events"))) == (6, 8)

    act(scenario, Terms(at_once=4))


def test_news_waits_while_many_remediations_end_at_once_and_a_few_that_hang_do_not_hold_it_up() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        ends: list[Action] = []
        for number in range(MANY_AT_ONCE + 1):
            stage.add_node(f"w{number}", ready="True")
            ends.append(stage.end(stage.put_foo(f"w{number}", node=f"w{number}"), node=f"w{number}"))
        stage.fault(Fault(effect=Slow(seconds=5), resource="nodes"))
        executor.carry_out(ends, FOR_EVER)
        executor.tell([news()], FOR_EVER)
        await seconds(4)
        assert stage.objects("events") == []
        await seconds(2)
        assert (stage.foos(), len(stage.objects("events"))) == ([], 1)

    act(scenario)

    async def few(stage: Stage, executor: Executor) -> None:
        stage.fault(Fault(effect=Hang(), resource="nodes"))
        executor.carry_out(sick_nodes(stage, MANY_AT_ONCE), FOR_EVER)
        executor.tell([news()], FOR_EVER)
        await seconds(1)
        assert len(stage.objects("events")) == 1

    act(few)


def test_it_is_known_whether_others_start_what_is_not_ours_to_start() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        start = stage.start()
        executor.carry_out([start], Nobody())
        assert (executor.others_start, executor.underway) == (True, ())
        executor.carry_out([start], FOR_EVER)
        assert not executor.others_start
        executor.carry_out([news()], Nobody())
        assert not executor.others_start

    act(scenario)


def test_news_survives_a_short_outage() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.server.stop()
        executor.tell([news()], FOR_EVER)
        await seconds(5)
        assert executor.underway == (news(),)
        stage.server.start()
        await seconds(5)
        assert len(stage.objects("events")) == 1
        assert [type(outcome) for _, outcome in stage.ended] == [Done]

    act(scenario)


def test_news_that_is_refused_is_given_up_at_once_and_told_in_the_log() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.fault(Fault(effect=Refuse(code=403), resource="events"))
        with capture_logs() as logs:
            executor.tell([news()], FOR_EVER)
            await seconds(60)
        assert [(line["log_level"], line["event"], line["message"]) for line in logs] == [
            ("warning", "event not told", "news 0")
        ]
        assert stage.asked() == ["create events 403"]

    act(scenario)


def test_news_that_a_plan_asks_for_waits_after_a_failure_like_all_else() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.fault(Fault(effect=Refuse(code=403), resource="events"))
        for _ in range(20):
            executor.carry_out([news()], FOR_EVER)
            await seconds(0.5)
        assert stage.asked() == ["create events 403"] * 4

    act(scenario)


def test_news_that_waits_to_be_told_is_not_told_twice() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.fault(Fault(effect=Slow(seconds=1), resource="events"))
        told = [news(number) for number in range(6)]
        executor.tell(told, FOR_EVER)
        executor.tell(told, FOR_EVER)
        await seconds(0.5)
        executor.tell([news(0, at=START + timedelta(seconds=1)), news(5)], FOR_EVER)
        await seconds(10)
        assert stage.asked() == ["create events 201"] * 6

    act(scenario)


def test_news_can_be_told_again_and_again() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        for number in range(10):
            executor.tell([news(number)], FOR_EVER)
            await seconds(1)
        assert len(stage.objects("events")) == 10

    act(scenario)


def test_news_may_follow_from_the_end_of_a_status() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        made = stage.server.put(str(CHECKS), {"metadata": {"name": "c1"}, "spec": {}}).object["metadata"]
        write = WriteStatus(
            check="c1", uid=made["uid"], version=made["resourceVersion"], status={"phase": "Enabled"}, tells=(news(),)
        )
        stage.then = lambda action: executor.tell(action.tells if isinstance(action, WriteStatus) else (), FOR_EVER)
        executor.carry_out([write], FOR_EVER)
        await seconds(1)
        assert [type(action) for action, _ in stage.ended] == [WriteStatus, TellEvent]

    act(scenario)


def test_too_much_news_drops_the_oldest_and_says_so() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        with capture_logs() as logs:
            executor.tell([news(number, reason=f"R{number}") for number in range(UNTOLD_MAX + 3)], FOR_EVER)
        assert [line["dropped"] for line in logs] == ["news 0", "news 1", "news 2"]
        assert len(executor.underway) == UNTOLD_MAX
        await seconds(60)
        assert len(stage.objects("events")) == UNTOLD_MAX

    act(scenario)


def test_the_same_news_is_told_at_most_every_ten_seconds() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        for second in range(125):
            executor.tell([news(second % 2, at=START + timedelta(seconds=second))], FOR_EVER)
            await seconds(1)
        assert len(stage.objects("events")) == 26

    act(scenario)


def test_news_of_very_many_nodes_is_told_as_some_and_a_number() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        told = [news(number) for number in range(51)]
        executor.tell([*told, *(news(number, reason="Other") for number in range(50))], FOR_EVER)
        await seconds(5)
        executor.tell(told, FOR_EVER)
        await seconds(5)
        events = stage.objects("events")
        assert len(events) == 71
        messages = [event["message"].partition("] ")[2] for event in events if event["reason"] == "R"]
        assert sorted(messages) == sorted([*(f"news {number}" for number in range(20)), "and 31 more nodes"])

    act(scenario)


@pytest.mark.parametrize("bug", [KeyError, TimeoutError])
def test_a_bug_of_ours_ends_the_executor(bug: type[Exception]) -> None:
    def broken(_kind: Kind[Any], _item: Resource) -> None:
        raise bug

    async def scenario(stage: Stage) -> None:
        executor = stage.executor()
        stage.heard = broken
        asyncio.get_running_loop().call_soon(lambda: executor.carry_out([stage.start()], FOR_EVER))
        with pytest.raises(BaseExceptionGroup) as ended:
            await executor.run()
        assert ended.group_contains(bug)
        assert executor.underway == ()

    play(scenario)


def test_what_is_under_way_is_given_up_when_the_executor_ends() -> None:
    async def scenario(stage: Stage) -> None:
        executor = stage.executor()
        stage.fault(Fault(effect=Hang(), resource="nodes"))
        async with asyncio.TaskGroup() as group:
            running = group.create_task(executor.run())
            await asyncio.sleep(0)
            executor.carry_out([stage.start(), news()], FOR_EVER)
            await seconds(1)
            running.cancel()
        assert executor.underway == ()
        assert stage.clock.monotonic() == pytest.approx(1)

    play(scenario)


async def race(stage: Stage, ours: Action, theirs: Action) -> None:
    """Two executors begin at the same moment; chance decides who is faster with each request."""
    stage.fault(Fault(effect=Slow(seconds=0.01, jitter_seconds=0.1)))
    us, rival = stage.executor(), stage.executor(name="rival")
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(us.run()), group.create_task(rival.run())]
        await asyncio.sleep(0)
        us.carry_out([ours], FOR_EVER)
        rival.carry_out([theirs], FOR_EVER)
        await seconds(60)
        for task in running:
            task.cancel()


@pytest.mark.parametrize("seed", range(5))
def test_two_replicas_that_both_think_they_lead_make_one_remediation(seed: int) -> None:
    async def scenario(stage: Stage) -> None:
        await race(stage, stage.start(), stage.start())
        assert len(stage.foos()) == 1
        assert [type(outcome) for _, outcome in stage.ended] == [Done, Done]
        (uid,) = {outcome.result.uid for _, outcome in stage.ended if isinstance(outcome, Done) and outcome.result}
        assert uid == stage.foos()[0]["metadata"]["uid"]
        assert len(stage.objects(LEASE)) == 1

    play(scenario, seed=seed)


@pytest.mark.parametrize("seed", range(5))
def test_of_two_checks_that_want_one_node_one_gets_the_lock_and_acts(seed: int) -> None:
    async def scenario(stage: Stage) -> None:
        other = stage.start(
            check="c2",
            kind=msgspec.structs.replace(stage.start().kind, name="BarRemediation"),
            body=a_foo("n1", check="c2", node="n1"),
        )
        await race(stage, stage.start(), other)
        made = stage.foos() + stage.objects(str(BARS))
        (owner,) = made[0]["metadata"]["ownerReferences"]
        assert len(made) == 1
        lock = stage.lock()
        assert lock is not None
        assert lock.spec.holder_identity == f"NodeHealthCheck-{owner['name']}"
        outcomes = [outcome for _, outcome in stage.ended if not isinstance(outcome, Done)]
        assert outcomes == [Held(f"NodeHealthCheck-{owner['name']}")]

    play(scenario, seed=seed)


def test_a_status_that_lost_a_race_is_left_to_the_next_pass() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        made = stage.server.put(str(CHECKS), {"metadata": {"name": "c1"}, "spec": {}}).object["metadata"]
        write = WriteStatus(check="c1", uid=made["uid"], version="1", status={"phase": "Enabled"})
        executor.carry_out([write], FOR_EVER)
        await seconds(1)
        assert executor.failures == {}
        newer = msgspec.structs.replace(write, version=made["resourceVersion"])
        executor.carry_out([newer], FOR_EVER)
        await seconds(1)
        assert [type(outcome) for _, outcome in stage.ended] == [Stale, Done]

    act(scenario)


def test_the_log_has_a_line_for_each_remediation_and_each_failure_and_no_more() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        stage.add_node("n2")
        stage.fault(Fault(effect=Refuse(code=403, message="not allowed"), verbs=("create",), resource=LEASE))
        with capture_logs() as logs:
            executor.carry_out([stage.start("n2"), stage.end(stage.put_foo(), unless=()), news()], FOR_EVER)
            await seconds(1)
            stage.server.faults.clear()
            executor.carry_out([stage.start("n2")], FOR_EVER)
            await seconds(1)
            executor.carry_out([stage.start("n2", check="c2")], FOR_EVER)
            await seconds(1)
        told = {line["event"]: line for line in logs if line["log_level"] != "debug"}
        assert sorted(told) == sorted(line["event"] for line in logs if line["log_level"] != "debug")
        assert {event: line["log_level"] for event, line in told.items()} == {
            "remediation ended": "info",
            "action failed": "warning",
            "remediation started": "info",
            "remediation not started": "info",
        }
        assert told["remediation ended"]["remediation"] == "FooRemediation remedies/n1"
        assert (told["action failed"]["times"], told["action failed"]["again_in"]) == (1, "1s")
        assert told["remediation not started"]["why"] == "its lock is held by NodeHealthCheck-c1"

    act(scenario)


def test_a_hundred_remediations_cost_three_hundred_requests() -> None:
    async def scenario(stage: Stage, executor: Executor) -> None:
        starts = sick_nodes(stage, 100)
        for _ in range(7):
            executor.carry_out(starts, FOR_EVER)
            await seconds(0.1)
        assert len(stage.foos()) == 100
        assert len(stage.asked()) == 300
        assert len(stage.objects(str(LEASES))) == 100

    act(scenario)

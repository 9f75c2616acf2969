"""One at a time to each place, not more than so many in all, and never longer than allowed. In virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec
import pytest

from defib.clock import Clock
from defib.model.secret import Secret
from defib.power.base import (
    Accepted,
    Credentials,
    NotReady,
    Outcome,
    PowerState,
    Reading,
    Ready,
    Refused,
    Target,
    Unknown,
)
from defib.power.calls import WHY_MAX, Calls, Denied, Doubtful, Seen, by_node, options_of
from defib.simulate.virtual_time import START, VirtualClock, run

Told = Callable[[Target], Awaitable[None]]


def a_target(address: str = "bmc", node: str = "n1") -> Target:
    return Target(node=node, address=address, credentials=Credentials(password=Secret("open-sesame")))


def takes(seconds: float) -> Told:
    async def ask(_target: Target) -> None:
        await asyncio.sleep(seconds)  # the other side's time

    return ask


def ends_in(trouble: Exception) -> Told:
    async def ask(_target: Target) -> None:
        raise trouble

    return ask


def sees(state: PowerState, detail: str = "") -> Callable[[Target], Awaitable[Seen]]:
    async def ask(_target: Target) -> Seen:
        await asyncio.sleep(1)  # the other side's time
        return Seen(state, detail)

    return ask


async def timed(clock: Clock, call: Awaitable[Outcome]) -> tuple[float, Outcome]:
    began = clock.monotonic()
    outcome = await call
    return clock.monotonic() - began, outcome


async def together(clock: Clock, *calls: Awaitable[Outcome]) -> list[tuple[float, Outcome]]:
    async with asyncio.TaskGroup() as tasks:
        all_of_them = [tasks.create_task(timed(clock, call)) for call in calls]
    return [each.result() for each in all_of_them]


def test_calls_to_one_place_follow_each_other_and_others_do_not_wait() -> None:
    async def story(clock: VirtualClock) -> None:
        calls = Calls(clock)
        ended = await together(
            clock,
            calls.command(a_target("a"), 10, takes(2)),
            calls.command(a_target("a", "n2"), 10, takes(2)),
            calls.command(a_target("b"), 10, takes(2)),
        )
        assert ended == [(2, Accepted()), (4, Accepted()), (2, Accepted())]

    run(story)


def test_machines_of_one_service_do_not_wait_for_each_other() -> None:
    async def story(clock: VirtualClock) -> None:
        calls = Calls(clock, place=by_node)
        ended = await together(
            clock, *(calls.command(a_target("a", node), 10, takes(2)) for node in ("n1", "n2", "n1"))
        )
        assert [seconds for seconds, _ in ended] == [2, 2, 4]

    run(story)


def test_a_call_whose_turn_does_not_come_has_sent_nothing() -> None:
    async def story(clock: VirtualClock) -> None:
        calls = Calls(clock)
        first, second, third = await together(
            clock,
            calls.command(a_target(), 5, takes(100)),
            calls.command(a_target(), 3, takes(1)),
            calls.command(a_target(), 8, takes(1)),
        )
        assert first == (5, Unknown("no answer within 5 s"))
        assert second == (3, Refused("nothing was sent: earlier calls were still under way after 3 s"))
        assert third == (6, Accepted())

    run(story)


def test_whoever_waits_for_a_place_that_hangs_holds_no_slot() -> None:
    async def story(clock: VirtualClock) -> None:
        calls = Calls(clock, at_once_max=2)
        stuck = [calls.command(a_target("a"), 10, takes(100)) for _ in range(5)]
        *_, other = await together(clock, *stuck, calls.command(a_target("b"), 10, takes(1)))
        assert other == (1, Accepted())

    run(story)


def test_not_more_than_so_many_go_out_in_all() -> None:
    async def story(clock: VirtualClock) -> None:
        calls = Calls(clock, at_once_max=2)
        ended = await together(clock, *(calls.command(a_target(place), 10, takes(1)) for place in "abcd"))
        assert [seconds for seconds, _ in ended] == [1, 1, 2, 2]

    run(story)


def test_checks_leave_half_of_the_slots_to_what_is_urgent() -> None:
    async def story(clock: VirtualClock) -> None:
        calls = Calls(clock, at_once_max=4)
        async with asyncio.TaskGroup() as tasks:
            checks = [
                tasks.create_task(calls.check(a_target(f"c{number}"), 60, sees(PowerState.ON))) for number in range(20)
            ]
            await asyncio.sleep(0)  # the checks have begun
            urgent = await together(clock, *(calls.command(a_target(place), 10, takes(1)) for place in "ab"))
        assert [seconds for seconds, _ in urgent] == [1, 1]
        assert {check.result() for check in checks} == {Ready()}

    run(story)


def test_a_reading_has_the_time_at_which_it_was_asked_for() -> None:
    async def story(clock: VirtualClock) -> None:
        calls = Calls(clock)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(calls.command(a_target(), 10, takes(3)))
            await asyncio.sleep(0)  # the command has begun
            reading = await calls.read(a_target(), 10, sees(PowerState.OFF, "it says Off"))
        assert reading == Reading(PowerState.OFF, START + timedelta(seconds=3), "it says Off")

    run(story)


def test_what_cannot_be_read_is_unknown_and_not_ready() -> None:
    async def story(clock: VirtualClock) -> None:
        calls = Calls(clock)
        late = await calls.read(a_target(), 0.5, sees(PowerState.OFF))
        assert late == Reading(PowerState.UNKNOWN, START + timedelta(seconds=0.5), "no answer within 0.5 s")
        assert await calls.check(a_target(), 5, sees(PowerState.UNKNOWN, "it says Paused")) == NotReady(
            "it says Paused"
        )
        assert await calls.check(a_target(), 5, sees(PowerState.OFF)) == Ready()

    run(story)


@pytest.mark.parametrize(
    ("trouble", "outcome"),
    [
        (Denied("no"), Refused("no")),
        (Doubtful("who knows"), Unknown("who knows")),
        (Denied("open-sesame is wrong"), Refused("[hidden] is wrong")),
        (Denied("two\nlines\x1b[31m"), Refused("two lines [31m")),
        (Doubtful("x" * 1000), Unknown("x" * WHY_MAX)),
    ],
)
def test_trouble_becomes_one_short_line_without_secrets(trouble: Exception, outcome: Outcome) -> None:
    async def story(clock: VirtualClock) -> None:
        assert await Calls(clock).command(a_target(), 5, ends_in(trouble)) == outcome

    run(story)


class Known(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    insecure: bool = False


@pytest.mark.parametrize(("written", "read"), [("true", True), ("1", True), ("false", False)])
def test_options_are_texts_with_a_meaning(written: str, read: bool) -> None:
    target = msgspec.structs.replace(a_target(), options={"insecure": written})
    assert options_of(target, Known) == Known(insecure=read)


@pytest.mark.parametrize("options", [{"insecure": "perhaps"}, {"secure": "true"}])
def test_an_option_without_a_meaning_is_denied(options: dict[str, str]) -> None:
    with pytest.raises(Denied, match="its options cannot be used"):
        options_of(msgspec.structs.replace(a_target(), options=options), Known)

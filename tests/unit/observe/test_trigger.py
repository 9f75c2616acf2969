"""Many changes make one pass; timers and resyncs are kept."""

import asyncio
import math
from datetime import timedelta

from defib.observe.trigger import SETTLE_MIN_SECONDS, Cause, Trigger
from defib.simulate.virtual_time import VirtualClock, run


def test_a_burst_of_changes_makes_one_pass() -> None:
    async def main(clock: VirtualClock) -> tuple[Cause, float, Cause]:
        trigger = Trigger(clock, resync_seconds=300)
        for _ in range(1000):
            trigger.changed()
        first = await trigger.wait()
        then = clock.monotonic()
        return first, then, await trigger.wait()

    first, then, second = run(main)
    assert (first, second) == (Cause.CHANGE, Cause.RESYNC)
    assert then < 0.1


def test_a_change_during_the_settling_time_belongs_to_the_same_pass() -> None:
    async def main(clock: VirtualClock) -> list[Cause]:
        trigger = Trigger(clock, resync_seconds=300)
        trigger.settle(0.2)
        trigger.changed()
        asyncio.get_running_loop().call_later(0.1, trigger.changed)
        return [await trigger.wait(), await trigger.wait()]

    assert run(main) == [Cause.CHANGE, Cause.RESYNC]


def test_a_timer_wakes_at_its_moment_and_not_later_than_the_resync() -> None:
    async def main(clock: VirtualClock) -> list[tuple[Cause, float]]:
        trigger = Trigger(clock, resync_seconds=300)
        woken = []
        for due in (12.5, 10_000.0):
            trigger.wake_at(due)
            woken.append((await trigger.wait(), clock.monotonic()))
        return woken

    assert run(main) == [(Cause.TIMER, 12.5), (Cause.RESYNC, 312.5)]


def test_a_moment_that_has_passed_wakes_soon_but_never_without_a_pause() -> None:
    async def main(clock: VirtualClock) -> tuple[Cause, float]:
        trigger = Trigger(clock, resync_seconds=300)
        trigger.wake_at(-5.0)
        return await trigger.wait(), clock.monotonic()

    assert run(main) == (Cause.TIMER, 0.02)


def test_of_all_who_ask_the_earliest_counts() -> None:
    async def main(clock: VirtualClock) -> list[tuple[Cause, float]]:
        trigger = Trigger(clock, resync_seconds=300)
        for moment in (50.0, 20.0, None, 30.0):
            trigger.wake_at(moment)
        return [(await trigger.wait(), clock.monotonic()), (await trigger.wait(), clock.monotonic())]

    assert run(main) == [(Cause.TIMER, 20.0), (Cause.RESYNC, 320.0)]


def test_who_asks_while_we_wait_is_heard() -> None:
    async def main(clock: VirtualClock) -> tuple[Cause, float]:
        trigger = Trigger(clock, resync_seconds=300)
        trigger.wake_at(50.0)
        loop = asyncio.get_running_loop()
        loop.call_at(10.0, trigger.wake_at, 60.0)
        loop.call_at(11.0, trigger.wake_at, 15.0)
        loop.call_at(15.0, trigger.wake_at, 14.0)  # at the very moment: it wakes anyway
        return await trigger.wait(), clock.monotonic()

    assert run(main) == (Cause.TIMER, 15.0)


def test_a_pass_settles_what_was_asked_before_it() -> None:
    async def main(clock: VirtualClock) -> list[tuple[Cause, float]]:
        trigger = Trigger(clock, resync_seconds=300)
        trigger.settle(0.25)
        trigger.wake_at(50.0)
        trigger.changed()
        asyncio.get_running_loop().call_at(0.125, trigger.wake_at, 40.0)
        return [(await trigger.wait(), clock.monotonic()), (await trigger.wait(), clock.monotonic())]

    assert run(main) == [(Cause.CHANGE, 0.25), (Cause.RESYNC, 300.25)]


def test_long_passes_leave_more_time_between_them_but_never_make_news_wait_for_long() -> None:
    async def main(clock: VirtualClock) -> list[float]:
        trigger = Trigger(clock, resync_seconds=300)
        waited = []
        for asked in (0.0, 0.1, 7.0):
            trigger.settle(asked)
            began = clock.monotonic()
            trigger.changed()
            await trigger.wait()
            waited.append(round(clock.monotonic() - began, 6))
        return waited

    assert run(main) == [0.02, 0.1, 0.25]


def test_a_wait_that_is_cancelled_leaves_the_trigger_usable() -> None:
    async def main(clock: VirtualClock) -> tuple[Cause, float]:
        trigger = Trigger(clock, resync_seconds=300)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(trigger.wait())
            await asyncio.sleep(10)  # virtual
            waiting.cancel()
        trigger.wake_at(20.0)
        return await trigger.wait(), clock.monotonic()

    assert run(main) == (Cause.TIMER, 20.0)


def test_rv_03_where_there_is_no_resync_only_changes_and_moments_start_a_pass() -> None:
    async def main(clock: VirtualClock) -> list[tuple[Cause, float]]:
        trigger = Trigger(clock, resync_seconds=math.inf)
        asyncio.get_running_loop().call_later(20_000, trigger.changed)
        woken = [(await trigger.wait(), clock.monotonic())]
        trigger.wake_at(50_000.0)
        return [*woken, (await trigger.wait(), clock.monotonic())]

    assert run(main, limit=timedelta(days=1)) == [
        (Cause.CHANGE, 20_000 + SETTLE_MIN_SECONDS),
        (Cause.TIMER, 50_000),
    ]

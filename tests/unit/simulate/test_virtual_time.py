"""Virtual time: a day passes in no time, the same seed is the same run, and nothing hangs."""

import asyncio
from datetime import timedelta

import pytest

from defib.simulate.virtual_time import START, Stuck, VirtualClock, run


def test_an_hour_of_sleep_takes_no_time_and_moves_both_clocks() -> None:
    async def main(clock: VirtualClock) -> tuple[float, timedelta]:
        await asyncio.sleep(3600)  # virtual
        return clock.monotonic(), clock.now() - START

    assert run(main) == (3600.0, timedelta(hours=1))


def test_sleepers_wake_in_the_order_of_their_times() -> None:
    async def main(_clock: VirtualClock) -> list[int]:
        woken: list[int] = []

        async def sleeper(seconds: int) -> None:
            await asyncio.sleep(seconds)  # virtual
            woken.append(seconds)

        async with asyncio.TaskGroup() as group:
            for seconds in (30, 10, 20):
                group.create_task(sleeper(seconds))
        return woken

    assert run(main) == [10, 20, 30]


def test_a_timeout_strikes_at_its_virtual_time() -> None:
    async def main(clock: VirtualClock) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.sleep(50)  # virtual
        return clock.monotonic()

    assert run(main) == 5.0


def test_a_run_that_waits_for_ever_is_an_error_and_not_a_hang() -> None:
    async def main(_clock: VirtualClock) -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stuck, match="nothing is ready and no timer is set"):
        run(main)


def test_a_run_that_never_ends_is_stopped_at_its_limit() -> None:
    async def main(_clock: VirtualClock) -> None:
        await asyncio.sleep(7200)  # virtual

    with pytest.raises(Stuck, match="after its limit of 3600 s"):
        run(main, limit=timedelta(hours=1))


def test_chance_repeats_with_the_seed_and_differs_without() -> None:
    async def main(clock: VirtualClock) -> list[float]:
        return [clock.jitter(10.0) for _ in range(5)]

    assert run(main, seed=1) == run(main, seed=1)
    assert run(main, seed=1) != run(main, seed=2)
    assert all(0 <= draw < 10 for draw in run(main, seed=3))

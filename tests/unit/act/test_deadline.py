"""What was begun lasts no longer than its own time, nor than the mandate by which it is done."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from datetime import datetime, timedelta

import pytest

from defib.act.deadline import LOOK_SECONDS, StepByStep, within
from defib.model.mandate import Mandate
from defib.simulate.virtual_time import VirtualClock, run

FOR_EVER = 3600.0

Happens = Callable[[Mandate], Awaitable[None]]


async def nothing(_: Mandate) -> None:
    return


def cut_after(mandate: Mandate, seconds: float = 30.0, happens: Happens = nothing) -> float:
    """When something that never ends is cut."""

    async def main(clock: VirtualClock) -> float:
        async with asyncio.TaskGroup() as group:
            group.create_task(_wait_for_it(happens, mandate))
            with pytest.raises(TimeoutError):
                async with within(seconds, mandate, clock) as limit:
                    await asyncio.sleep(FOR_EVER)  # virtual
            assert limit.expired()
            return clock.monotonic()

    return run(main)


async def _wait_for_it(happens: Happens, mandate: Mandate) -> None:
    await happens(mandate)


def test_its_own_time_is_the_limit_of_a_mandate_without_end() -> None:
    assert cut_after(Mandate("m")) == pytest.approx(30.0)


def test_a_mandate_that_ends_first_is_the_limit() -> None:
    assert cut_after(Mandate("m", ends=7.3)) == pytest.approx(7.3)


def test_what_is_begun_without_time_left_is_cut_at_once() -> None:
    assert cut_after(Mandate("m", ends=0.0)) == 0.0


def test_a_mandate_that_is_moved_on_lets_it_go_on() -> None:
    async def renewed(mandate: Mandate) -> None:
        await asyncio.sleep(5)  # virtual
        mandate.ends = 15.0

    assert cut_after(Mandate("m", ends=6.0), happens=renewed) == pytest.approx(15.0)


def test_a_mandate_that_is_taken_back_ends_it_soon() -> None:
    async def lost(mandate: Mandate) -> None:
        await asyncio.sleep(5.1)  # virtual
        mandate.take_back()

    assert 5.1 <= cut_after(Mandate("m", ends=100.0), happens=lost) <= 5.1 + LOOK_SECONDS


def test_what_ends_in_time_is_not_disturbed_nor_what_comes_after_it() -> None:
    async def main(clock: VirtualClock) -> None:
        mandate = Mandate("m", ends=5.0)
        async with within(30.0, mandate, clock) as limit:
            await asyncio.sleep(4)  # virtual
        await asyncio.sleep(60)  # virtual
        assert not limit.expired()

    run(main)


class Frozen:
    """A clock that jumps, as it looks to a process that was frozen."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.lost = 0.0

    def now(self) -> datetime:
        return self._clock.now() + timedelta(seconds=self.lost)

    def monotonic(self) -> float:
        return self._clock.monotonic() + self.lost

    def jitter(self, span: float) -> float:
        return self._clock.jitter(span)


@pytest.mark.parametrize(("frozen", "done"), [(0.0, ["asked", "asked again"]), (60.0, ["asked"])])
def test_who_was_frozen_takes_no_further_step_after_the_end_of_its_mandate(frozen: float, done: list[str]) -> None:
    """The answer came while it slept, and is there before any timer."""
    told: list[str] = []

    async def deed(clock: Frozen) -> None:
        told.append("asked")
        await asyncio.sleep(1)  # virtual
        clock.lost = frozen
        await asyncio.sleep(0)
        told.append("asked again")

    async def main(real: VirtualClock) -> None:
        clock = Frozen(real)
        with nullcontext() if not frozen else pytest.raises(TimeoutError):
            await StepByStep(deed(clock), Mandate("m", ends=10.0), clock)

    run(main)
    assert told == done


def test_what_is_done_step_by_step_gives_its_result_and_its_errors() -> None:
    async def good() -> str:
        await asyncio.sleep(1)  # virtual
        return "done"

    async def bad() -> str:
        await asyncio.sleep(1)  # virtual
        raise ValueError("no")

    async def main(clock: VirtualClock) -> None:
        assert await StepByStep(good(), Mandate("m"), clock) == "done"
        with pytest.raises(ValueError, match="no"):
            await StepByStep(bad(), Mandate("m"), clock)

    run(main)


def test_a_timeout_of_its_own_is_told_apart() -> None:
    async def main(clock: VirtualClock) -> None:
        with pytest.raises(TimeoutError):
            async with within(30.0, Mandate("m"), clock) as limit, asyncio.timeout(1):
                await asyncio.sleep(FOR_EVER)  # virtual
        assert not limit.expired()

    run(main)

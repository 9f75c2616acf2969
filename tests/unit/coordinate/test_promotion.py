"""A mandate is used only after a look at what its last holder did with it."""

import asyncio
from collections.abc import Awaitable, Callable

from structlog.testing import capture_logs

from defib.coordinate.promotion import Promotion
from defib.model.mandate import Mandate
from defib.simulate.virtual_time import VirtualClock, run

CATCHES_UP_IN = 3.0


class Led:
    """Takes its time to catch up."""

    def __init__(self) -> None:
        self.begun = 0
        self.noticed = 0

    def notice(self) -> None:
        self.noticed += 1

    async def catch_up(self) -> None:
        self.begun += 1
        await asyncio.sleep(CATCHES_UP_IN)  # virtual

    def is_busy(self, mandate: Mandate) -> bool:  # noqa: ARG002  nothing is ever begun
        return False


Scenario = Callable[[Led, Promotion], Awaitable[None]]


def play(scenario: Scenario) -> None:
    async def main(_: VirtualClock) -> None:
        led = Led()
        promotion = Promotion(led)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(promotion.run())
            await scenario(led, promotion)
            running.cancel()

    run(main)


async def seconds(count: float) -> None:
    """Virtual ones."""
    await asyncio.sleep(count)


def test_le_13_a_mandate_is_good_when_we_have_caught_up_and_not_before() -> None:
    async def scenario(led: Led, promotion: Promotion) -> None:
        mandate = Mandate("m")
        promotion.gained(mandate)
        await seconds(CATCHES_UP_IN - 0.1)
        assert not promotion.is_good(mandate)
        assert led.noticed == 0
        await seconds(0.2)
        assert promotion.is_good(mandate)
        assert led.noticed == 1, "there is something to be done now"

    play(scenario)


def test_it_is_told_once_when_we_have_caught_up_and_after_how_long() -> None:
    async def scenario(_: Led, promotion: Promotion) -> None:
        promotion.gained(Mandate("m"))
        await seconds(10 * CATCHES_UP_IN)

    with capture_logs() as told:
        play(scenario)
    assert [(one["event"], one["seconds"]) for one in told] == [("caught up, acting", CATCHES_UP_IN)]


def test_nobody_acts_on_a_mandate_that_was_taken_back_while_we_looked() -> None:
    async def scenario(_: Led, promotion: Promotion) -> None:
        mandate = Mandate("m")
        promotion.gained(mandate)
        await seconds(1)
        mandate.take_back()
        await seconds(CATCHES_UP_IN)
        assert not promotion.is_good(mandate)

    with capture_logs() as told:
        play(scenario)
    assert told == []


def test_le_13_what_is_gained_while_we_look_needs_a_look_of_its_own() -> None:
    """The list may have been made before its last holder wrote for the last time."""

    async def scenario(led: Led, promotion: Promotion) -> None:
        early, late = Mandate("early"), Mandate("late")
        promotion.gained(early)
        await seconds(1)
        promotion.gained(late)
        await seconds(CATCHES_UP_IN)
        assert (promotion.is_good(early), promotion.is_good(late)) == (True, False)
        await seconds(CATCHES_UP_IN)
        assert promotion.is_good(late)
        assert led.begun == 2

    play(scenario)


def test_many_that_are_gained_at_once_need_one_look() -> None:
    async def scenario(led: Led, promotion: Promotion) -> None:
        mandates = [Mandate(str(number)) for number in range(32)]
        for mandate in mandates:
            promotion.gained(mandate)
        await seconds(CATCHES_UP_IN + 0.1)
        assert all(promotion.is_good(mandate) for mandate in mandates)
        assert led.begun == 1

    play(scenario)


def test_a_mandate_that_was_taken_back_meanwhile_is_forgotten() -> None:
    async def scenario(led: Led, promotion: Promotion) -> None:
        lost, kept = Mandate("lost"), Mandate("kept")
        promotion.gained(lost)
        promotion.gained(kept)
        lost.take_back()
        await seconds(CATCHES_UP_IN + 0.1)
        assert not promotion.is_good(lost)
        assert promotion.is_good(kept)
        assert led.begun == 1

    play(scenario)


def test_a_new_term_is_not_good_because_the_last_one_was() -> None:
    async def scenario(_: Led, promotion: Promotion) -> None:
        first, second = Mandate("me/1"), Mandate("me/1")
        promotion.gained(first)
        await seconds(CATCHES_UP_IN + 0.1)
        assert promotion.is_good(first)
        assert not promotion.is_good(second)

    play(scenario)

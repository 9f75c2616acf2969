"""Who may act: nobody, until it is elected and knows what was done last; and nobody again as soon as that is over."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

from defib.coordinate.leadership import NOBODY, Alone, Single
from defib.model.action import CheckPower
from defib.model.mandate import Mandate
from defib.model.power import PowerPath
from defib.simulate.virtual_time import VirtualClock, run

ANYTHING = CheckPower(node="n1", path=PowerPath(driver="hollow", address="a", secret=""))


class Told:
    """An election whose outcome a test tells."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self.mandate: Mandate | None = None
        self.leader = "another"
        self.is_released = False
        self.rested = 0.0

    def now(self, mandate: Mandate | None) -> None:
        self.mandate = mandate
        self._changed()

    def not_alive(self) -> tuple[str, ...]:
        return ("it hangs",)

    async def run(self) -> NoReturn:
        while True:
            await asyncio.Event().wait()

    async def release(self) -> None:
        self.is_released = True

    def rest(self, seconds: float) -> None:
        self.rested = seconds


class Led:
    def __init__(self) -> None:
        self.looks = 0
        self.noticed = 0

    def notice(self) -> None:
        self.noticed += 1

    async def catch_up(self) -> None:
        self.looks += 1
        await asyncio.sleep(1)  # virtual

    def is_busy(self, mandate: Mandate) -> bool:  # noqa: ARG002  nothing is ever begun
        return False


Scenario = Callable[[Single, Told, Led], Awaitable[None]]


def play(scenario: Scenario) -> None:
    async def main(_: VirtualClock) -> None:
        led, made = Led(), list[Told]()

        def elect(changed: Callable[[], None]) -> Told:
            made.append(Told(changed))
            return made[0]

        single = Single(led, elect)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(single.run())
            await asyncio.sleep(0)
            await scenario(single, made[0], led)
            running.cancel()

    run(main)


async def seconds(count: float) -> None:
    """Virtual ones."""
    await asyncio.sleep(count)


def test_who_is_alone_may_do_everything_for_ever() -> None:
    mandate = Alone().permit.of(ANYTHING)
    assert mandate is not None
    assert mandate.holds(1e12)


def test_who_is_not_elected_may_do_nothing() -> None:
    async def scenario(single: Single, _: Told, led: Led) -> None:
        assert single.permit.of(ANYTHING) is None
        assert (single.leader, single.not_alive(), led.looks) == ("another", ("it hangs",), 0)

    play(scenario)


def test_le_13_who_is_elected_looks_first() -> None:
    async def scenario(single: Single, election: Told, led: Led) -> None:
        mandate = Mandate("me/1")
        election.now(mandate)
        assert single.permit is NOBODY
        await seconds(1.1)
        assert single.permit.of(ANYTHING) is mandate
        assert led.looks == 1

    play(scenario)


def test_the_same_term_needs_no_second_look_and_a_new_one_does() -> None:
    async def scenario(single: Single, election: Told, led: Led) -> None:
        mandate = Mandate("me/1")
        election.now(mandate)
        await seconds(2)
        election.now(mandate)
        assert single.permit.of(ANYTHING) is mandate
        election.now(None)
        assert single.permit.of(ANYTHING) is None
        again = Mandate("me/1")
        election.now(again)
        assert single.permit.of(ANYTHING) is None
        await seconds(2)
        assert single.permit.of(ANYTHING) is again
        assert led.looks == 2

    play(scenario)


def test_a_term_that_ended_and_goes_on_is_still_the_same() -> None:
    """A renewal was late: the mandate had run out for a moment, and nobody has had another one since."""

    async def scenario(single: Single, election: Told, led: Led) -> None:
        mandate = Mandate("me/1")
        election.now(mandate)
        await seconds(2)
        election.mandate = None
        assert single.permit.of(ANYTHING) is None
        election.mandate = mandate
        assert single.permit.of(ANYTHING) is mandate
        assert led.looks == 1

    play(scenario)


def test_le_07_what_is_released_is_the_election() -> None:
    async def scenario(single: Single, election: Told, _: Led) -> None:
        await single.release()
        assert election.is_released

    play(scenario)

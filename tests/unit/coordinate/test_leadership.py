"""Who may act: nobody, until it is elected and knows what was done last; and nobody again as soon as that is over."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

from defib.coordinate.leadership import NOBODY, REST_SECONDS, Alone, Single
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
        self.rests: list[float] = []

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
        self.rests.append(seconds)


class Led:
    def __init__(self) -> None:
        self.looks = 0
        self.noticed = 0
        self.busy: Mandate | None = None

    def notice(self) -> None:
        self.noticed += 1

    async def catch_up(self) -> None:
        self.looks += 1
        await asyncio.sleep(1)  # virtual

    def is_busy(self, mandate: Mandate) -> bool:
        return mandate is self.busy


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


async def elected(election: Told, token: str = "me/1") -> Mandate:
    """It has looked, too."""
    mandate = Mandate(token)
    election.now(mandate)
    await seconds(2)
    return mandate


def test_who_steps_aside_does_nothing_more_by_that_mandate_whatever_later_passes_say() -> None:
    """The next pass has no reason any more: it is told to step aside now and then only. The lock is still ours then."""

    async def scenario(single: Single, election: Told, _: Led) -> None:
        mandate = await elected(election)
        assert single.permit.of(ANYTHING) is mandate
        assert single.step_aside("n1 is ill")
        for why in ("", "n1 is ill", ""):
            assert single.permit.of(ANYTHING) is None
            assert not single.step_aside(why)
        assert single.permit.of(ANYTHING) is None
        assert not single.standing.leads

    play(scenario)


def test_the_election_is_told_once_to_rest() -> None:
    async def scenario(single: Single, election: Told, _: Led) -> None:
        await elected(election)
        assert [single.step_aside(why) for why in ("ill", "ill", "", "ill")] == [True, False, False, False]
        assert election.rests == [REST_SECONDS]

    play(scenario)


def test_who_has_stepped_aside_leads_again_by_a_new_mandate_and_can_step_aside_again() -> None:
    async def scenario(single: Single, election: Told, _: Led) -> None:
        await elected(election)
        assert single.step_aside("ill")
        election.now(None)
        single.step_aside("")
        again = await elected(election, "me/2")
        assert single.permit.of(ANYTHING) is again
        assert single.step_aside("ill")
        assert single.permit.of(ANYTHING) is None

    play(scenario)


def test_while_something_is_under_way_nothing_new_is_begun_and_the_lock_is_kept() -> None:
    async def scenario(single: Single, election: Told, led: Led) -> None:
        led.busy = await elected(election)
        assert not single.step_aside("ill")
        assert (single.permit.of(ANYTHING), election.rests) == (None, [])
        led.busy = None
        assert single.step_aside("ill")
        assert election.rests == [REST_SECONDS]

    play(scenario)


def test_a_reason_that_goes_away_while_something_is_under_way_lets_the_leader_go_on() -> None:
    async def scenario(single: Single, election: Told, led: Led) -> None:
        mandate = led.busy = await elected(election)
        assert not single.step_aside("ill")
        assert single.permit.of(ANYTHING) is None
        assert not single.step_aside("")
        assert single.permit.of(ANYTHING) is mandate
        led.busy = None
        assert not single.step_aside("")
        assert (single.permit.of(ANYTHING), election.rests) == (mandate, [])

    play(scenario)


def test_who_does_not_lead_and_who_is_alone_cannot_step_aside() -> None:
    async def scenario(single: Single, election: Told, _: Led) -> None:
        assert not single.step_aside("ill")
        assert election.rests == []

    play(scenario)
    assert not Alone().step_aside("ill")

"""An agent that is not well itself: whatever hangs, feeding ends by itself, and the clock on the wall means nothing to it."""

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest

from defib.agent.lease import Leases
from defib.agent.loop import Agent
from defib.model.node import Lease
from defib.model.self_fence import Report
from defib.simulate.faults import Hang
from defib.simulate.virtual_time import VirtualClock
from tests.unit.agent.test_loop import PACE, Room, play, seconds


class HangingLeases(Leases):
    """Once it hangs, what is asked never ends, not even when it was given up."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.works = asyncio.Event()
        self.works.set()

    async def renew(self, report: Report) -> Lease:
        await self._hang()
        return await super().renew(report)

    async def all(self) -> list[Lease]:
        await self._hang()
        return await super().all()

    async def _hang(self) -> None:
        while not self.works.is_set():
            with suppress(asyncio.CancelledError):
                await self.works.wait()


class Numb(Agent):
    """Its talk with peers hangs from the beginning on, by some fault of our own. Only its feeding cannot."""

    async def _ask_peers(self) -> None:
        await asyncio.Event().wait()


class JumpingWallClock(VirtualClock):
    """Somebody sets it all the time, by up to ten days in either direction."""

    def now(self) -> datetime:
        return super().now() + timedelta(days=self.jitter(20) - 10)


@pytest.mark.parametrize("agent", [Agent, Numb])
@pytest.mark.parametrize("is_ordered", [False, True])
def test_a_loop_that_hangs_is_fed_no_longer_than_its_last_word_is_good(is_ordered: bool, agent: type[Agent]) -> None:
    async def scenario(room: Room) -> None:
        room.a_silent_peer()
        room.start()
        await seconds(60.5)
        assert isinstance(room.leases, HangingLeases)
        room.leases.works.clear()
        if is_ordered:
            await room.order()
        await seconds(300)
        last_word = 60.0
        assert last_word + PACE.fresh_seconds < room.watchdog.fed[-1] < last_word + PACE.patience_seconds
        assert room.watchdog.ended == "", "and the watchdog counts"
        room.leases.works.set()
        await seconds(1)

    play(scenario, leases=HangingLeases, agent=agent)


def test_a_loop_that_goes_on_after_a_hang_reads_the_order_before_it_feeds() -> None:
    async def scenario(room: Room) -> None:
        room.a_silent_peer()
        room.start()
        await seconds(60.5)
        assert isinstance(room.leases, HangingLeases)
        room.leases.works.clear()
        await room.order()
        await seconds(60)
        fed = list(room.watchdog.fed)
        room.leases.works.set()
        await seconds(60)
        assert room.watchdog.fed == fed

    play(scenario, leases=HangingLeases)


def test_a_node_lives_and_dies_by_the_same_times_however_the_clock_on_the_wall_jumps() -> None:
    async def scenario(room: Room) -> None:
        room.a_silent_peer()
        room.start()
        await seconds(302.5)
        assert room.watchdog.fed[-1] > 302 - room.watchdog.seconds / 2
        assert room.report().steady_seconds == 302
        room.fault(Hang())
        await seconds(120)
        last_word = 302.0
        assert last_word + PACE.fresh_seconds < room.watchdog.fed[-1] < last_word + PACE.patience_seconds

    play(scenario, clock_of=JumpingWallClock)

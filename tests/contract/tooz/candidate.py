"""One replica as a process that does nothing but take part in an election, and tells what it has of it, line by line."""

import asyncio
import signal
import sys
from typing import NoReturn

import msgspec

from defib.clock import SystemClock
from defib.coordinate.election import Candidate, Terms
from defib.coordinate.outside import Outside
from defib.coordinate.store import Store
from defib.telemetry.log import set_up

TERMS = Terms(lease_seconds=3.0, renew_seconds=2.0, retry_seconds=0.5)
LOOKS_EVERY = 0.01


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """`at` and `ends` are of the machine's monotonic clock, which is the same for all processes."""

    at: float
    token: str = ""  # of the mandate; empty: it has none
    ends: float = 0.0
    leader: str = ""
    members: tuple[str, ...] = ()


class Teller:
    def __init__(self) -> None:
        self.election: Outside | None = None
        self._last = Line(at=0.0)

    def tell(self) -> None:
        assert self.election is not None
        mandate = self.election.mandate
        line = Line(
            at=SystemClock().monotonic(),
            token="" if mandate is None else mandate.token,
            ends=0.0 if mandate is None else mandate.ends,
            leader=self.election.leader,
            members=self.election.members,
        )
        if msgspec.structs.replace(line, at=self._last.at) != self._last:
            print(msgspec.json.encode(line).decode(), flush=True)  # noqa: T201 - it is how it tells
            self._last = line

    async def run(self) -> NoReturn:
        """A mandate that is moved on tells nobody: it is looked at, so often that little can be missed before a kill."""
        while True:
            self.tell()
            await asyncio.sleep(LOOKS_EVERY)


async def take_part(url: str, group: str, name: str) -> None:
    """Until SIGTERM, upon which it releases what it has."""
    me, teller, stopped = Candidate(name, TERMS), Teller(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    teller.election = Outside(Store(url, group, me), me, SystemClock(), teller.tell)
    async with asyncio.TaskGroup() as group_:
        tasks = [group_.create_task(teller.election.run()), group_.create_task(teller.run())]
        await stopped.wait()
        for task in tasks:
            task.cancel()
    await teller.election.release()


if __name__ == "__main__":
    set_up(style="pretty", level="info", fd=2, clock=SystemClock())
    asyncio.run(take_part(*sys.argv[1:]))

"""Three candidates as processes, and what they told: who led, from when, and until when at the most."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec

from testbed.leash import Leash
from tests.contract.tooz.candidate import TERMS, Line

ROOT = Path(__file__).resolve().parents[3]
NAMES = ("a", "b", "c")
LOOKS_EVERY = 0.02
ENDS_WITHIN = 5.0


class Term(msgspec.Struct, frozen=True):
    name: str
    token: str
    begun: float
    over: float  # it may have acted until then


class Replica:
    def __init__(self, name: str, url: str, directory: Path, leash: Leash) -> None:
        self.name = name
        self._told = directory / f"{name}.told"
        command = [sys.executable, "-m", "tests.contract.tooz.candidate", url, "defib-leader", name]
        self.process: subprocess.Popen[bytes] = leash.start(
            command,
            directory=ROOT,
            log=directory / f"{name}.log",
            output=self._told,
            environment=os.environ | {"PYTHONPATH": str(ROOT)},
        )

    @property
    def lines(self) -> list[Line]:
        whole, _, _ = self._told.read_bytes().rpartition(b"\n")
        return [msgspec.json.decode(line, type=Line) for line in whole.splitlines()]

    @property
    def last(self) -> Line:
        return [Line(at=0.0), *self.lines][-1]

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def leads(self) -> bool:
        return self.is_running and bool(self.last.token)


class Replicas:
    def __init__(self, url: str, directory: Path, leash: Leash) -> None:
        self._url = url
        self._directory = directory
        self._leash = leash
        self._all: list[Replica] = []

    @property
    def running(self) -> list[Replica]:
        return [one for one in self._all if one.is_running]

    @property
    def leader(self) -> Replica | None:
        leading = [one for one in self.running if one.leads]
        return leading[0] if len(leading) == 1 else None

    def complete(self) -> None:
        """Three run again, each with a name that none of those had that ended."""
        for _ in range(len(NAMES) - len(self.running)):
            name = f"{NAMES[len(self._all) % len(NAMES)]}{len(self._all)}"
            self._all.append(Replica(name, self._url, self._directory, self._leash))

    def agree(self) -> bool:
        """One leads, and all know it and each other."""
        leader, names = self.leader, tuple(sorted(one.name for one in self.running))
        return leader is not None and all(
            one.last.leader == leader.name and one.last.members == names for one in self.running
        )

    def terms(self) -> list[Term]:
        """Oldest first."""
        return sorted((term for one in self._all for term in _terms_of(one)), key=lambda term: term.begun)

    def overlaps(self) -> list[tuple[Term, Term]]:
        terms = self.terms()
        return [(one, next_) for one, next_ in pairwise(terms) if next_.begun < one.over]

    def kill(self) -> None:
        for one in self._all:
            one.process.kill()
            one.process.wait(ENDS_WITHIN)

    def state(self) -> str:
        """For whoever reads why a wait was in vain."""
        logs = [(self._directory / f"{one.name}.log").read_text()[-800:] for one in self._all]
        return "\n".join([*(f"{one.name} running={one.is_running} {one.last}" for one in self._all), *logs])


async def kill(replica: Replica, how: signal.Signals = signal.SIGKILL) -> None:
    replica.process.send_signal(how)
    await asyncio.to_thread(replica.process.wait, ENDS_WITHIN)


async def eventually(question: Callable[[], bool], replicas: Replicas, *, within: float) -> None:
    try:
        async with asyncio.timeout(within):
            while not question():  # noqa: ASYNC110 - what other processes do sets no event here
                await asyncio.sleep(LOOKS_EVERY)
    except TimeoutError:
        raise AssertionError(f"not within {within:g} s\n{replicas.state()}") from None


def _terms_of(replica: Replica) -> list[Term]:
    """A mandate is over when it ended or when it was told to be gone, whichever came first."""
    found: dict[str, Term] = {}
    for before, line in pairwise([Line(at=0.0), *replica.lines]):
        if before.token and before.token != line.token:
            term = found[before.token]
            found[before.token] = msgspec.structs.replace(term, over=min(term.over, line.at))
        if line.token:
            term = found.get(line.token, Term(replica.name, line.token, line.at, line.ends))
            found[line.token] = msgspec.structs.replace(term, over=line.ends)
    return list(found.values())


PLACE_SECONDS = 5.0  # so long the stores keep a place on these terms
LEADS_AGAIN_WITHIN = PLACE_SECONDS + 2 * TERMS.lease_seconds + 4.0

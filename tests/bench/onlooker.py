"""What the witness has told so far: when something was first seen to come or go, or in whose hands, and what was not expected."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

from tests.bench.moments import WATCHING, Moment, next_moment
from tests.bench.processes import OUR_PYTHON, BenchFailed, running

WATCHING_WITHIN = 30.0
STRAY_SECONDS = 0.5


class Onlooker:
    def __init__(self, witness: asyncio.subprocess.Process) -> None:
        self._witness = witness
        self._strays = 0

    async def until_watching(self) -> None:
        try:
            async with asyncio.timeout(WATCHING_WITHIN):
                await self._until(WATCHING)
        except TimeoutError:
            raise BenchFailed(f"the witness did not watch within {WATCHING_WITHIN:.0f} s") from None

    async def see(self, what: str, names: Collection[str], within: float) -> dict[str, float]:
        """When it happened to each of these; those that are missing did not see it in this time."""
        seen: dict[str, float] = {}
        try:
            async with asyncio.timeout(within):
                while len(seen) < len(names):
                    moment = await next_moment(self._witness)
                    if moment.what == what and moment.node in names and moment.node not in seen:
                        seen[moment.node] = moment.at
                    else:
                        self._strays += 1
        except TimeoutError:
            return seen
        return seen

    async def first(self, names: Collection[str], after: float, within: float) -> Moment | None:
        """The first that concerned one of these and was not before then, if it came in this time."""
        try:
            async with asyncio.timeout(within):
                while True:
                    moment = await next_moment(self._witness)
                    if moment.node in names and moment.at >= after:
                        return moment
        except TimeoutError:
            return None

    async def strays(self) -> int:
        """How many came or went, since this was last asked, that should not have."""
        try:
            async with asyncio.timeout(STRAY_SECONDS):
                while True:
                    await next_moment(self._witness)
                    self._strays += 1
        except TimeoutError:
            found, self._strays = self._strays, 0
            return found

    async def _until(self, what: str) -> None:
        while (await next_moment(self._witness)).what != what:
            continue


@asynccontextmanager
async def looking_on(kind: str, kubeconfig: Path) -> AsyncIterator[Onlooker]:
    """It needs a kubeconfig with a token."""
    async with running(OUR_PYTHON, "tests.bench.witness", kind, "--kubeconfig", str(kubeconfig)) as witness:
        onlooker = Onlooker(witness)
        await onlooker.until_watching()
        yield onlooker

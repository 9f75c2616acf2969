"""When something happened to a node, a pod or a lock: one line of JSON for each, from the process that saw it to the one that judges.

All processes of the bench run on one machine, so their clocks agree.
"""

import asyncio

import msgspec

from tests.bench.processes import BenchFailed

WATCHING = "watching"
WRITTEN = "written"
CREATED = "created"
DELETED = "deleted"
HELD = "held"


class Moment(msgspec.Struct, frozen=True):
    what: str
    node: str = ""
    """Or the pod, where pods are seen; or whoever has a lock now, where locks are."""
    at: float = 0.0
    """In Unix time."""


def tell_moment(moment: Moment) -> None:
    print(msgspec.json.encode(moment).decode(), flush=True)  # noqa: T201 - it is how the processes talk


async def next_moment(process: asyncio.subprocess.Process) -> Moment:
    """The caller bounds the waiting."""
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise BenchFailed("a process of the bench ended too early; its own words are above")
    return msgspec.json.decode(line, type=Moment)


async def moments_of(process: asyncio.subprocess.Process, within: float) -> list[Moment]:
    """All that it tells, to its end."""
    assert process.stdout is not None
    try:
        async with asyncio.timeout(within):
            told = await process.stdout.read()
            code = await process.wait()
    except TimeoutError:
        raise BenchFailed(f"a process of the bench was not done within {within:.0f} s") from None
    if code:
        raise BenchFailed("a process of the bench failed; its own words are above")
    return [msgspec.json.decode(line, type=Moment) for line in told.splitlines()]

"""A thread that hangs costs its caller the deadline, its place the next call, and nobody else anything."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from defib.power.calls import Denied
from defib.power.threads import Threads

WITHIN = 10.0


class Gate:
    """Work that hangs until it is let go."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self.entered = threading.Event()

    def __call__(self) -> str:
        self.entered.set()
        assert self._open.wait(WITHIN)
        return "late"

    def let_go(self) -> None:
        self._open.set()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.let_go()


async def leave_behind(threads: Threads, place: str, work: Gate) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(0.05):
            await threads.run(place, work)


async def test_what_the_work_returns_or_raises_comes_back() -> None:
    threads = Threads()
    assert await threads.run("a", lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await threads.run("a", lambda: 1 // 0)
    assert threads.left_behind == 0


async def test_a_thread_that_hangs_is_left_behind_counted_and_blocks_its_place_alone(gate: Gate) -> None:
    threads = Threads()
    await leave_behind(threads, "a", gate)
    assert threads.left_behind == 1
    with pytest.raises(Denied, match="an earlier call to it hangs"):
        await threads.run("a", lambda: 7)
    assert await threads.run("b", lambda: 7) == 7
    gate.let_go()
    await eventually_free(threads, "a")
    assert threads.left_behind == 0


async def eventually_free(threads: Threads, place: str) -> None:
    async with asyncio.timeout(WITHIN):
        while True:
            with suppress(Denied):
                assert await threads.run(place, lambda: 7) == 7
                return
            await asyncio.sleep(0.001)  # the thread ends when the kernel lets it


async def test_there_are_never_more_threads_than_allowed(gate: Gate) -> None:
    threads = Threads(limit=3)
    for place in "abc":
        await leave_behind(threads, place, gate)
    with pytest.raises(Denied, match="3 earlier calls to other machines hang"):
        await threads.run("d", lambda: 7)
    assert threads.left_behind == 3


async def test_a_thread_that_hangs_does_not_hold_up_the_end_of_the_process(gate: Gate) -> None:
    await leave_behind(Threads(), "the-place-of-this-test", gate)
    assert gate.entered.is_set()
    assert [thread.daemon for thread in threading.enumerate() if thread.name == "the-place-of-this-test"] == [True]

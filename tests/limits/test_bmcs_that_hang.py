"""A call that hung in a thread leaves nothing behind once it has ended, however many machines there have been."""

import asyncio
import threading

from defib.power.threads import Threads
from tests.limits.weighing import weigh

MACHINES = 40


async def hang_and_end(threads: Threads, place: str) -> None:
    """Nobody waits for it any more when it ends."""
    begun, end = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work() -> None:
        loop.call_soon_threadsafe(begun.set)
        end.wait()

    async with asyncio.TaskGroup() as group:
        call = group.create_task(threads.run(place, work))
        await begun.wait()
        call.cancel()
    assert threads.left_behind == 1
    end.set()
    async with asyncio.timeout(5):
        while threads.left_behind:  # noqa: ASYNC110  a thread cannot be awaited
            await asyncio.sleep(0)


async def test_machines_that_are_gone_are_forgotten_by_their_threads() -> None:
    threads = Threads()
    await hang_and_end(threads, "bmc of a-first")
    before = weigh(threads)
    for number in range(MACHINES):
        await hang_and_end(threads, f"bmc of node-{number}")
    after = weigh(threads)
    assert after.count <= before.count, after.more_than(before)

"""The process in which one client is measured: a fresh interpreter that holds nothing else.

    python -m tests.bench.child CLIENT --kubeconfig FILE --nodes N --events N

Its stages: started, imported, listed, and watched once all events came, or once none has come for so long that
the rest is taken for lost.
"""

import argparse
import asyncio
import importlib
from collections.abc import Awaitable, Callable

from tests.bench.stages import Tally, tell

LISTED_WITHIN = 120.0
SILENCE_SECONDS = 60.0  # the writer makes hundreds of changes a second

Follow = Callable[[str, Tally], Awaitable[None]]
"""A client: it lists the nodes of the cluster of a kubeconfig, keeps them, and follows them until it is cancelled."""


async def measure(follow: Follow, kubeconfig: str, tally: Tally, rest_seconds: float) -> None:
    async with asyncio.TaskGroup() as group:
        following = group.create_task(_follow(follow, kubeconfig, tally))
        async with asyncio.timeout(LISTED_WITHIN):
            await tally.listed.wait()
        await asyncio.sleep(rest_seconds)  # some clients clean up after the list; that is part of its cost
        tell("listed")
        await _all_seen(tally)
        tell("watched", seen=tally.seen)
        following.cancel()


async def _follow(follow: Follow, kubeconfig: str, tally: Tally) -> None:
    await follow(kubeconfig, tally)
    raise AssertionError("the client stopped by itself")


async def _all_seen(tally: Tally) -> None:
    """Or none any more."""
    before = -1
    while before != tally.seen and not tally.watched.is_set():
        before = tally.seen
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                await tally.watched.wait()
        except TimeoutError:
            continue


def main() -> None:
    asked = _arguments()
    tell("started")
    client = importlib.import_module(f"tests.bench.clients.{asked.client}")
    tell("imported", version=client.VERSION)
    tally = Tally(asked.nodes, asked.events)
    asyncio.run(measure(client.follow, asked.kubeconfig, tally, client.REST_SECONDS))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.child")
    parser.add_argument("client")
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--events", type=int, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()

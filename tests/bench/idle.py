"""The process in which our whole operator is measured at rest: it watches nodes and heartbeats and makes its passes.

    python -m tests.bench.idle --kubeconfig FILE --nodes N --seconds S

Its stages: listed, then begun and ended with the heartbeats that came in between.
"""

import argparse
import asyncio
import os
from pathlib import Path

from defib.app import Operator
from defib.clock import Clock, SystemClock
from defib.config import Settings
from defib.kube.http import connect
from defib.kube.kinds import NODES
from defib.kube.transport import Transport
from defib.model.cluster import HEARTBEATS
from defib.telemetry.metrics import Metrics
from tests.bench.stages import tell

LISTED_WITHIN = 120.0
WARM_UP_SECONDS = 5.0


class Resting(Operator):
    """The operator, asked whether it knows all kinds, and with the heartbeats counted that reach it."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        super().__init__(transport, clock, Settings(), Metrics())
        self.heartbeats = 0
        self.listed = asyncio.Event()
        self._to_list = {str(NODES), HEARTBEATS}

    def changed(self, name: str) -> None: ...

    def heard(self, name: str, events: int, news: int) -> None:
        if name == HEARTBEATS:
            self.heartbeats += news
        super().heard(name, events, news)

    def relisted(self, name: str, reason: str) -> None:
        super().relisted(name, reason)
        self._to_list.discard(name)
        if not self._to_list:
            self.listed.set()


async def measure(asked: argparse.Namespace) -> None:
    clock = SystemClock()
    transport = await connect(Path(asked.kubeconfig), None, os.environ, clock)
    operator = Resting(transport, clock)
    try:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(operator.run())
            async with asyncio.timeout(LISTED_WITHIN):
                await operator.listed.wait()
            tell("listed")
            await asyncio.sleep(WARM_UP_SECONDS)  # until the writer has its pace
            cluster = operator.picture.cluster
            assert min(len(cluster.nodes), len(cluster.heartbeats)) == asked.nodes, "it does not know the whole fleet"
            tell("begun", seen=operator.heartbeats)
            await asyncio.sleep(asked.seconds)  # the load over this time is what is measured
            tell("ended", seen=operator.heartbeats)
            running.cancel()
    finally:
        await operator.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.idle")
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(measure(_arguments()))

"""The process to which the command line is compared: it fetches nodes and heartbeats, looks at nothing, and ends.

python -m tests.bench.bare FILE
"""

import asyncio
import os
import sys
from pathlib import Path

from defib.clock import SystemClock
from defib.kube.client import Client
from defib.kube.http import connect
from defib.kube.kinds import LEASES, NODES
from defib.kube.transport import Request
from tests.bench.fleet import HEARTBEAT_NAMESPACE


async def fetch(kubeconfig: Path) -> None:
    clock = SystemClock()
    client = Client(await connect(kubeconfig, None, os.environ, clock), clock)
    try:
        async with asyncio.TaskGroup() as group:
            for path in (NODES.collection(), LEASES.collection(HEARTBEAT_NAMESPACE)):
                group.create_task(client.ask(Request(method="GET", path=path)))
    finally:
        await client.close()


if __name__ == "__main__":
    asyncio.run(fetch(Path(sys.argv[1])))

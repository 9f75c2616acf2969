"""An API server that has nothing of ours, and an administrator's client on it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from defib.clock import SystemClock
from defib.kube.client import Client
from defib.kube.http import connect
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from testbed.settings import Settings


@asynccontextmanager
async def bare_cluster(programs: Programs) -> AsyncIterator[ControlPlane]:
    """From when things can be made in the namespace default."""
    async with ControlPlane(programs, Settings(api_only=True)) as plane:
        await plane.wait_for_namespace("default")
        yield plane


@asynccontextmanager
async def administrator(plane: ControlPlane) -> AsyncIterator[Client]:
    clock = SystemClock()
    client = Client(await connect(plane.kubeconfig, None, {}, clock), clock)
    try:
        yield client
    finally:
        await client.close()

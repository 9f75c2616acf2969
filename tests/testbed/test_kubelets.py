"""Hollow kubelets answer as real ones do: asked by the very function that asks those."""

import asyncio
from collections.abc import Callable

import pytest

from defib.clock import SystemClock
from defib.hollow.disk import Disks
from defib.hollow.node import HollowNode
from defib.hollow.nodes import HollowNodes
from defib.hollow.site import Blueprint, Site
from defib.hollow.timers import Timers
from defib.kube.client import Client
from defib.model.evidence import Says
from defib.power.kubelet import ask_kubelet
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from testbed.kubelets import LOOPBACK, kubelets
from tests.bench_failover.power_ways import a_certificate

ILLS: dict[str, Callable[[HollowNode], None]] = {
    "has no power": lambda node: node.machine.set_power(False),
    "hangs": lambda node: node.hang(),
    "is cut off": lambda node: node.partition(),
}


async def asked(make_ill: Callable[[HollowNode], None]) -> Says:
    clock = SystemClock()
    client = Client(InProcess(ApiServer(clock), client="kubelet"), clock)
    site = Site(client=client, clock=clock, timers=Timers(), disks=Disks(clock))
    nodes = HollowNodes(site, [Blueprint(name="n1", zone="a", address=LOOPBACK)])
    async with kubelets(nodes.values(), a_certificate(clock)):
        make_ill(nodes["n1"])
        says, _ = await ask_kubelet(LOOPBACK, nodes["n1"].kubelet_port, 0.5)
        return says


def test_a_node_that_is_well_answers() -> None:
    assert asyncio.run(asked(lambda _: None)) is Says.ANSWERS


def test_one_that_only_the_api_server_cannot_hear_answers_others() -> None:
    assert asyncio.run(asked(lambda node: node.partition(from_api_only=True))) is Says.ANSWERS


@pytest.mark.parametrize("ill", ILLS)
def test_one_that_is_ill_says_nothing(ill: str) -> None:
    assert asyncio.run(asked(ILLS[ill])) is Says.SILENT

"""etcd dies, comes back, and is restored from a backup: with the objects of then, and their versions."""

import os
from collections.abc import AsyncIterator

import pytest

from defib.clock import SystemClock
from defib.kube.client import Client, Merge
from defib.kube.http import connect
from defib.kube.kinds import NODES
from testbed.cluster import ControlPlane
from testbed.programs import Program, Programs
from testbed.settings import Settings
from tests.contract.api_server.steps import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]


@pytest.fixture
async def cluster(programs: Programs) -> AsyncIterator[ControlPlane]:
    async with ControlPlane(programs, Settings(api_only=True)) as cluster:
        yield cluster


@pytest.fixture
async def client(cluster: ControlPlane) -> AsyncIterator[Client]:
    clock = SystemClock()
    client = Client(await connect(cluster.kubeconfig, None, os.environ, clock), clock)
    yield client
    await client.close()


async def test_a_restore_brings_back_what_there_was_with_its_versions_and_nothing_else(
    cluster: ControlPlane, client: Client
) -> None:
    before = await client.create(NODES, {"metadata": {"name": "n1"}})
    await cluster.back_up("backup")
    changed = await client.patch(NODES.at("n1"), Merge({"metadata": {"annotations": {"is": "changed"}}}))
    await client.create(NODES, {"metadata": {"name": "n2"}})
    assert changed.metadata.resource_version != before.metadata.resource_version
    await cluster.restore("backup")
    (node,) = (await client.list_all(NODES)).items
    assert (node.uid, node.metadata.resource_version) == (before.uid, before.metadata.resource_version)
    assert "is" not in node.annotations


async def test_etcd_that_was_killed_comes_back_with_its_data(cluster: ControlPlane, client: Client) -> None:
    await client.create(NODES, {"metadata": {"name": "n1"}})
    await cluster.kill(Program.ETCD)
    await cluster.start(Program.ETCD)

    async def is_known() -> bool:
        return [node.name for node in (await client.list_all(NODES)).items] == ["n1"]

    await eventually(is_known, within=30)

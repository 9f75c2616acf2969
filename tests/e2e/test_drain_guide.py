"""What the guide to drains tells people to do, on a real API server: its policies are taken, and an approval works."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import pytest_asyncio

from defib.clock import SystemClock
from defib.console.approval import grant_drain
from defib.console.session import NotDone
from defib.kube.client import Client, Merge
from defib.kube.kinds import NODES, unstructured
from defib.model.node_drain import APPROVED_UNTIL
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from tests.e2e.crd_cluster import client_of, kubectl, with_crds
from tests.unit.test_drain_guide import GUIDES, blocks

pytestmark = [pytest.mark.real, pytest.mark.timeout(60, func_only=True), pytest.mark.asyncio(loop_scope="module")]

POLICIES = unstructured("defib.dev", "v1alpha1", "drainpolicies", "DrainPolicy", namespaced=False)
DRAINS = unstructured("defib.dev", "v1alpha1", "nodedrains", "NodeDrain", namespaced=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs) -> AsyncIterator[ControlPlane]:
    async with with_crds(programs) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(cluster: ControlPlane) -> AsyncIterator[Client]:
    async with client_of(cluster, (kind.collection() for kind in (POLICIES, DRAINS))) as client:
        yield client


async def test_every_policy_of_the_guides_is_taken(client: Client) -> None:
    for body in (body for page in GUIDES for body in blocks(page)):
        made = await client.create(POLICIES, body)
        assert made.name == body["metadata"]["name"]


async def test_a_drain_that_waits_is_approved_on_its_node(cluster: ControlPlane, client: Client) -> None:
    await client.create(POLICIES, {"metadata": {"name": "asks"}, "spec": {"mode": "Approve"}})
    await client.create(NODES, {"metadata": {"name": "n1"}})
    with pytest.raises(NotDone, match="Defib knows of no drain of it"):
        await grant_drain("n1", timedelta(hours=1), client, SystemClock())
    await client.create(DRAINS, {"metadata": {"name": "n1"}, "spec": {"policy": "asks"}})
    status = {"policy": "asks", "phase": "WaitingForApproval", "next": "evict 2 pods", "podsLeft": 2}
    await client.patch(DRAINS.at("n1"), Merge({"status": status}), subresource="status")
    line = await grant_drain("n1", timedelta(hours=1), client, SystemClock())
    assert line.endswith("DrainPolicy asks (WaitingForApproval): next, evict 2 pods")
    assert APPROVED_UNTIL in (await client.get(NODES.at("n1"))).annotations
    table = await kubectl(cluster, "get", "nodedrains")
    assert table.split("\n")[0].split() == ["NAME", "SOURCE", "PHASE", "PODS", "NEXT", "AT", "FAILED", "STARTED"]

"""The audit log of a real API server, while Defib power-cycles machines there, helps a drain and moves pods: what it asks
is what it asks on our tours, nothing of it is refused, and so what the tours prove of its rights holds there too.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from defib.kube.client import Merge
from defib.kube.kinds import NODES, unstructured
from defib.model.node_drain import WATCH_MARK
from testbed.chart import objects
from testbed.programs import Programs
from tests.e2e.audit import Request, requests_of
from tests.e2e.hollow_cluster import eventually
from tests.e2e.power_cluster import DEPLOY, PowerCluster, power_cluster
from tests.e2e.running_operator import defib_run
from tests.failover_corpus import SEED, a_policy
from tests.security.guarded import made
from tests.security.roles import Asked, Right, rights_of
from tests.security.tours import TOURS

pytestmark = [pytest.mark.real, pytest.mark.timeout(180, func_only=True), pytest.mark.asyncio(loop_scope="module")]

ON_TOURS = (
    "an old API server with every kind that is known",
    "a first start",
    "an election by Leases",
    "shards, and machines that are power-cycled",
    "a node is deleted on an old API server",
    "pods leave by a policy",
    "a drain in which everything is tried",
    "a drain that ends",
    "a drain of a pod with a volume",
)
DRAIN_POLICIES = unstructured("defib.dev", "v1alpha1", "drainpolicies", "DrainPolicy", namespaced=False)
DRAINS = unstructured("defib.dev", "v1alpha1", "nodedrains", "NodeDrain", namespaced=False)
POLICIES = unstructured("defib.dev", "v1alpha1", "podfailoverpolicies", "PodFailoverPolicy", namespaced=True)
MANY = 40  # rights that are used there at least


@pytest.fixture(scope="module")
def rights() -> frozenset[Right]:
    return rights_of(objects((DEPLOY / "install.yaml").read_text()))


@pytest.fixture(scope="module")
def on_tours(rights: frozenset[Right]) -> frozenset[Right]:
    used = [asked for tour in ON_TOURS for asked in made(TOURS[tour], rights).used]
    return frozenset(right for right in rights if any(right.allows(asked) for asked in used))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PowerCluster]:
    policy: Path = tmp_path_factory.mktemp("audit") / "policy.yaml"
    async with power_cluster(programs, policy) as cluster:
        yield cluster


async def recover(cluster: PowerCluster, node: str, workloads: str) -> None:
    ward = await cluster.ward(node, "redfish", workloads=workloads)
    await ward.eventually("it could be fenced", ward.is_fenceable)
    ward.node.hang()
    await ward.eventually("its database runs elsewhere", ward.runs_elsewhere)
    await ward.expect_recovered()


async def drain(cluster: PowerCluster, node: str) -> None:
    spec = {"timeout": "1s", "expectedDrainTime": "1s", "pdbForceDrainTimeout": "1s"}
    await cluster.client.create(DRAIN_POLICIES, {"metadata": {"name": "all"}, "spec": spec})
    mark = {"metadata": {"annotations": {WATCH_MARK: "true"}}, "spec": {"unschedulable": True}}
    await cluster.client.patch(NODES.at(node), Merge(mark))

    async def is_known() -> bool:
        return bool((await cluster.client.list_all(DRAINS)).items)

    await eventually(is_known)
    await cluster.client.patch(NODES.at(node), Merge({"spec": {"unschedulable": None}}))


def asked_in(request: Request) -> Asked:
    resource, _, part = request.what.partition("/")
    place, _, name = request.key.rpartition("/")
    if not place and request.verb in ("list", "watch"):  # of all that is in a namespace
        place, name = name, ""
    is_nameless = request.verb == "create" and not part
    return Asked(request.verb, resource, part, place, "" if is_nameless else name)


async def test_what_is_asked_on_a_real_server_is_what_is_asked_on_the_tours(
    cluster: PowerCluster, rights: frozenset[Right], on_tours: frozenset[Right]
) -> None:
    await cluster.client.create(POLICIES, a_policy(SEED, "theirs"), namespace="default")
    async with defib_run(cluster) as operator:
        async with asyncio.TaskGroup() as group:
            group.create_task(recover(cluster, "zone-a-1", "OutOfServiceTaint"))
            group.create_task(recover(cluster, "zone-a-2", "DeleteNode"))
            group.create_task(drain(cluster, "zone-b-1"))
        await operator.expect_nothing_refused(cluster)
    asked = {asked_in(one) for one in await requests_of(cluster.plane) if not one.what.startswith("/")}
    used = {right for right in rights if any(right.allows(one) for one in asked)}
    assert [str(one) for one in asked if not any(right.allows(one) for right in rights)] == []
    assert {str(right) for right in used - on_tours} == set()
    assert len(used) >= MANY, sorted(str(right) for right in used)

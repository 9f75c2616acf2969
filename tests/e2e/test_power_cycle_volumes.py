"""What holds a volume on a real control plane leaves a machine that was proved to be down, also where Kubernetes would
leave it there: the volume of a Node that was deleted, and of a pod that tolerates everything.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from defib.hollow.objects import PODS
from defib.hollow.storage import CLASS
from defib.kube.client import Merge, Scope
from defib.kube.errors import NotFound
from defib.kube.kinds import EVENTS, NODES
from defib.model.incident import Phase
from testbed.programs import Programs
from tests.e2e.hollow_cluster import STATEFUL_SETS
from tests.e2e.power_cluster import PowerCluster, Ward, power_cluster
from tests.e2e.running_operator import RunningOperator, defib_run

pytestmark = [pytest.mark.real, pytest.mark.timeout(120, func_only=True), pytest.mark.asyncio(loop_scope="module")]

# How often the controller manager looks whether what it has attached still is; a minute where nobody says otherwise.
LOOKS_AGAIN = "--attach-detach-reconcile-sync-period=5s"
CHOICE = "example.com/choice"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PowerCluster]:
    async with power_cluster(programs, tmp_path_factory.mktemp("audit") / "policy.yaml", LOOKS_AGAIN) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(cluster: PowerCluster) -> AsyncIterator[RunningOperator]:
    async with defib_run(cluster) as operator:
        yield operator


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def _all_is_well_afterwards(cluster: PowerCluster, operator: RunningOperator) -> AsyncIterator[None]:
    yield
    await operator.expect_nothing_refused(cluster)
    assert [verdict.story for verdict in cluster.hollow.disks.corrupted()] == []


async def attached_to(ward: Ward) -> list[str]:
    return [one.name for one in await ward.cluster.hollow.attachments() if one.spec.node_name == ward.name]


async def test_the_volume_of_a_deleted_node_is_attached_elsewhere_before_that_node_is_back(
    cluster: PowerCluster,
) -> None:
    """Kubernetes keeps it there for six minutes, or until the node is back and says that it has it no more."""
    ward = await cluster.ward("zone-a-1", workloads="DeleteNode")
    assert len(await attached_to(ward)) == 1
    ward.node.partition()  # so it starts anew, and cannot come back

    await ward.eventually("its database runs elsewhere", ward.runs_elsewhere)
    assert await attached_to(ward) == []
    with pytest.raises(NotFound):
        await cluster.hollow.node(ward.name)
    ward.node.heal()
    await ward.expect_recovered()


async def make_stubborn(cluster: PowerCluster, app: str) -> None:
    """A StatefulSet of one with a volume, whose pod tolerates everything. It goes where the label of its choice is."""
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": CLASS,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    wish = {"weight": 100, "preference": {"matchExpressions": [{"key": CHOICE, "operator": "Exists"}]}}
    mounts = [{"name": "data", "mountPath": "/data"}]
    pod: dict[str, Any] = {
        "containers": [{"name": "main", "image": "registry.example.com/app:1", "volumeMounts": mounts}],
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}},
    }
    spec = {
        "replicas": 1,
        "serviceName": app,
        "selector": {"matchLabels": {"app": app}},
        "template": {"metadata": {"labels": {"app": app}}, "spec": pod},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }
    await cluster.client.create(STATEFUL_SETS, {"metadata": {"name": app}, "spec": spec}, namespace="default")


async def choose(cluster: PowerCluster, node: str, *, no_more: str = "") -> None:
    await cluster.client.patch(NODES.at(node), Merge({"metadata": {"labels": {CHOICE: "yes"}}}))
    if no_more:
        await cluster.client.patch(NODES.at(no_more), Merge({"metadata": {"labels": {CHOICE: None}}}))


async def test_a_pod_that_tolerates_everything_is_freed_with_its_volume_and_a_bare_one_is_named(
    cluster: PowerCluster,
) -> None:
    """Kubernetes leaves the one where it is, for ever; of the other nobody would know that it has been there."""
    ward, app = await cluster.ward("zone-b-1", workloads="OutOfServiceTaint"), "stubborn"
    await choose(cluster, ward.name)
    await make_stubborn(cluster, app)
    bare = {"nodeName": ward.name, "containers": [{"name": "main", "image": "registry.example.com/app:1"}]}
    await cluster.client.create(PODS, {"metadata": {"name": "alone"}, "spec": bare}, namespace="default")

    async def is_there() -> bool:
        running = {pod.spec.node_name for pod in await cluster.hollow.running(app)}
        alone = await cluster.hollow.pod("alone")
        return running == {ward.name} and alone is not None and alone.phase == "Running"

    async def is_elsewhere() -> bool:
        return bool(await cluster.hollow.running(app, without=ward.name))

    await ward.eventually("all of them run there", is_there)
    assert len(await attached_to(ward)) >= 2  # perhaps the database of another test has come here as well
    await choose(cluster, "zone-b-2", no_more=ward.name)
    ward.node.partition()
    await ward.eventually("the stubborn one runs elsewhere", is_elsewhere)
    assert await attached_to(ward) == []
    ward.node.heal()
    incident = await ward.expect_recovered()
    assert await cluster.hollow.pod("alone") is None
    entries = [entry.message for entry in incident.status.timeline or () if entry.phase == Phase.FREEING]
    assert ["default/alone" in message for message in entries] == [True]
    told = (await cluster.client.list_all(EVENTS, Scope(namespace="default", fields="reason=BarePodsLost"))).items
    assert len(told) == 1

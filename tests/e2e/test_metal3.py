"""Machines and Metal3Remediations are served on a real control plane, under Defib's own account, as deploy/ gives it.

A hollow baremetal operator switches the hosts. What the role does not allow fails the test that needed it.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from defib.clock import SystemClock
from defib.hollow.conductor import Pace
from defib.hollow.metal3 import HollowMetal3, Metal3Settings
from defib.kube.client import Merge
from defib.kube.errors import NotFound
from defib.kube.kinds import NODES, unstructured
from defib.model.metal3 import TRIGGER
from testbed.chart import render
from testbed.programs import Programs
from testbed.scenario.hollow_cluster import alongside
from tests.e2e.audit import ACCOUNT
from tests.e2e.hollow_cluster import eventually
from tests.e2e.power_cluster import PowerCluster, Ward, power_cluster
from tests.e2e.running_operator import RunningOperator, defib_run

pytestmark = [pytest.mark.real, pytest.mark.timeout(120, func_only=True), pytest.mark.asyncio(loop_scope="module")]

CRDS = sorted((Path(__file__).parents[2] / "testbed" / "crds").glob("metal3-*.yaml"))
PLACE = "default"
HOSTS = unstructured("metal3.io", "v1alpha1", "baremetalhosts", "BareMetalHost", namespaced=True)
GROUP = "infrastructure.cluster.x-k8s.io"
REMEDIATIONS = unstructured(GROUP, "v1beta2", "metal3remediations", "Metal3Remediation", namespaced=True)
MACHINES = {
    "openshift": unstructured("machine.openshift.io", "v1beta1", "machines", "Machine", namespaced=True),
    "cluster-api": unstructured("cluster.x-k8s.io", "v1beta2", "machines", "Machine", namespaced=True),
}
FAST = Metal3Settings(pace=Pace().faster(20))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(
    programs: Programs, helm: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[PowerCluster]:
    async with power_cluster(programs, tmp_path_factory.mktemp("audit") / "policy.yaml") as cluster:
        rights = cluster.plane.directory / "metal3.yaml"
        rights.write_text(render(helm, {"features.metal3": True}, "--show-only=templates/metal3.yaml"))
        for file in (*CRDS, rights):
            await cluster.kubectl("apply", f"--filename={file}")
        await cluster.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=20s")

        async def may_patch_hosts() -> bool:
            said = await cluster.kubectl(
                "auth", "can-i", "list", "baremetalhosts.metal3.io", f"--as={ACCOUNT}", "--quiet"
            )
            return said == ""

        await eventually(may_patch_hosts)
        nodes = cluster.hollow.nodes
        machines = {name: node.machine for name, node in nodes.items()}
        async with alongside(HollowMetal3(cluster.client, SystemClock(), machines, FAST).run()):
            yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(cluster: PowerCluster) -> AsyncIterator[RunningOperator]:
    async with defib_run(cluster, "--serves=machine-annotation,metal3-remediation") as operator:
        yield operator


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def _all_is_well_afterwards(cluster: PowerCluster, operator: RunningOperator) -> AsyncIterator[None]:
    yield
    await operator.expect_nothing_refused(cluster)
    assert [verdict.story for verdict in cluster.hollow.disks.corrupted()] == []


async def a_host_with_machine(cluster: PowerCluster, node: str, family: str) -> Ward:
    """With a database on it."""
    ward, client, kind = Ward(cluster, node), cluster.client, MACHINES[family]
    await cluster.hollow.make_database(ward.app, prefers=node)
    await ward.eventually("its database runs there", ward.runs_here)
    spec = {"online": True, "image": {"url": "x"}}
    await client.create(HOSTS, {"metadata": {"name": node}, "spec": spec}, namespace=PLACE)
    machine = {"metadata": {"name": node}, "spec": {"providerID": f"metal3://{PLACE}/{node}/{node}"}}
    await client.create(kind, machine, namespace=PLACE)
    ref = {"status": {"nodeRef": {"name": node}}}
    await client.patch(kind.at(node, PLACE), Merge(ref), subresource="status")

    async def is_known_to_be_on() -> bool:
        return ((await client.get(HOSTS.at(node, PLACE))).status or {}).get("poweredOn") is True

    await ward.eventually("its host is on", is_known_to_be_on)
    return ward


async def expect_rest(ward: Ward) -> None:
    """The database runs elsewhere, the node is back and healthy, and nothing is left."""

    async def is_closed() -> bool:
        incident = await ward.incident()
        return incident is not None and incident.status.outcome == "Recovered" and not await ward.lock()

    await ward.eventually("its database runs elsewhere", ward.runs_elsewhere)
    await ward.eventually("its incident is closed", is_closed, within=60)
    host = await ward.client.get(HOSTS.at(ward.name, PLACE))
    assert [key for key in host.annotations if "reboot" in key] == []
    node = await ward.client.get(NODES.at(ward.name))
    assert (node.ready, ward.machine.is_on) == ("True", True)


@pytest.mark.parametrize(("node", "family"), [("zone-a-1", "openshift"), ("zone-a-2", "cluster-api")])
async def test_a_machine_with_the_annotation_is_power_cycled_and_loses_it_last(
    cluster: PowerCluster, node: str, family: str
) -> None:
    """RM-01, RM-07, RM-14: on a real API server, with the policy that guards the annotation."""
    ward = await a_host_with_machine(cluster, node, family)
    kind = MACHINES[family]
    before = await cluster.client.get(NODES.at(node))
    ward.node.hang()
    await cluster.client.patch(kind.at(node, PLACE), Merge({"metadata": {"annotations": {TRIGGER: ""}}}))
    await expect_rest(ward)
    assert TRIGGER not in (await cluster.client.get(kind.at(node, PLACE))).annotations
    assert (await cluster.client.get(NODES.at(node))).uid != before.uid


async def test_a_metal3_remediation_goes_through_its_phases_and_away(cluster: PowerCluster) -> None:
    """RM-22, RM-23, RM-24."""
    ward = await a_host_with_machine(cluster, "zone-b-1", "cluster-api")
    client, kind = cluster.client, MACHINES["cluster-api"]
    machine = await client.get(kind.at(ward.name, PLACE))
    owner = {"apiVersion": kind.api_version, "kind": "Machine", "name": machine.name, "uid": machine.uid}
    spec = {"strategy": {"type": "Reboot", "retryLimit": 1, "timeoutSeconds": 100}}
    ward.node.hang()
    body = {"metadata": {"name": ward.name, "ownerReferences": [owner]}, "spec": spec}
    await client.create(REMEDIATIONS, body, namespace=PLACE)
    seen: list[str] = []

    async def has_gone_through() -> bool:
        item = await client.get(REMEDIATIONS.at(ward.name, PLACE))
        seen.append(str((item.status or {}).get("phase", "")))
        return seen[-1] == "Waiting" and not item.metadata.finalizers

    await ward.eventually("it waits to be deleted", has_gone_through, within=60)
    assert list(dict.fromkeys(phase for phase in seen if phase)) == ["Running", "Waiting"]
    await expect_rest(ward)
    await cluster.kubectl("delete", "metal3remediation", ward.name, f"--namespace={PLACE}", "--timeout=20s")
    with pytest.raises(NotFound):
        await client.get(REMEDIATIONS.at(ward.name, PLACE))

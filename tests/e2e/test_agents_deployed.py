"""The agents of the chart under the real controllers: where they are, and what stays of them when the release goes."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from defib.hollow.objects import PODS
from defib.hollow.site import in_zones
from defib.kube.client import Merge, Scope
from defib.kube.kinds import NODES
from testbed.chart import NAMESPACE, WITH_AGENTS
from testbed.programs import Programs
from tests.e2e.helm_release import Release
from tests.e2e.hollow_cluster import OUT_OF_SERVICE, HollowCluster, eventually, hollow_cluster

pytestmark = [pytest.mark.real, pytest.mark.timeout(150), pytest.mark.asyncio(loop_scope="module")]

VALUES = tuple(f"--set={name}={str(value).lower()}" for name, value in WITH_AGENTS.items())
AGENTS = "app.kubernetes.io/name=defib-agent"
FAREWELL = [f"{kind}/defib-agent" for kind in ("role.rbac.authorization.k8s.io", "rolebinding.rbac.authorization.k8s.io", "serviceaccount")]  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs) -> AsyncIterator[HollowCluster]:
    """One node is cordoned, and one is said to be out of service."""
    async with hollow_cluster(programs, in_zones("ab", 2)) as cluster:
        cordoned, gone, *_ = sorted(cluster.nodes)
        await cluster.client.patch(NODES.at(cordoned), Merge({"spec": {"unschedulable": True}}))
        await cluster.client.patch(NODES.at(gone), Merge({"spec": {"taints": [OUT_OF_SERVICE]}}))
        yield cluster


async def places(cluster: HollowCluster) -> list[str]:
    pods = (await cluster.client.list_all(PODS, Scope(namespace=NAMESPACE, labels=AGENTS))).items
    return sorted(pod.spec.node_name for pod in pods if pod.phase == "Running" and not pod.is_deleted)


async def left(release: Release) -> list[str]:
    """What is not a pod, and not about a namespace."""
    found = await release.kubectl("get", "serviceaccounts,roles,rolebindings,daemonsets", f"-n={NAMESPACE}", f"-l={AGENTS}", "-o=name")  # fmt: skip
    return sorted(found.split())


async def is_understood(release: Release) -> bool:
    """A controller looks through each policy for what cannot be meant, and says when it has."""
    looked = "-o=jsonpath={.status.observedGeneration}{.status.typeChecking.expressionWarnings}"
    return await release.kubectl("get", "validatingadmissionpolicy", "leases-of-agents.defib.dev", looked) == "1"


async def test_an_agent_is_on_every_node_until_the_release_has_none_and_can_tell_that_it_ends(
    cluster: HollowCluster, helm: Path
) -> None:
    release = Release(helm, cluster.plane)
    await release.install(*VALUES)

    async def are_everywhere() -> bool:
        return await places(cluster) == sorted(cluster.nodes)

    await eventually(are_everywhere, within=60)
    await eventually(partial(is_understood, release))

    async def are_gone() -> bool:
        return await places(cluster) == []

    await release.upgrade("--set=agent.enabled=false")
    await eventually(are_gone, within=60)
    assert await left(release) == FAREWELL
    await release.upgrade(*VALUES)
    await eventually(are_everywhere, within=60)
    await release.uninstall()
    assert await left(release) == FAREWELL

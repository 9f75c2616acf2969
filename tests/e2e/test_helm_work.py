"""Installed by Helm on a real control plane, the operator does its work under exactly the account that the chart gave it.

What runs is what the Deployment of the release says, with its arguments and its environment, as processes of their own.
Nothing that they ask may be refused: a right that is missing in the chart fails here.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from defib.coordinate.seats import BUCKETS
from defib.coordinate.sharded import BUCKET_LEASE
from defib.hollow.objects import PODS
from defib.hollow.site import in_zones
from defib.kube.client import Client, Deletion, Merge, Scope
from defib.kube.errors import NotFound
from defib.kube.kinds import LEASES, NODE_HEALTH_CHECKS, NODES, Kind, unstructured
from defib.model.meta import Unstructured
from defib.model.node_drain import WATCH_MARK
from defib.model.pod_failover import DEFAULT_CHECK
from testbed.chart import NAMESPACE, ROOT
from testbed.programs import Programs
from testbed.settings import Settings
from tests.check_corpus import a_check, simple
from tests.drain_corpus import a_policy
from tests.e2e.audit import audited, requests_of
from tests.e2e.drain_stage import TIMES
from tests.e2e.helm_release import Release, said, until_one_leads
from tests.e2e.hollow_cluster import SETTINGS, HollowCluster, eventually, hollow_cluster
from tests.e2e.rights import may, until_allowed

pytestmark = [pytest.mark.real, pytest.mark.timeout(150, func_only=True), pytest.mark.asyncio(loop_scope="module")]

WITHIN = 60.0
STEADY = ("--lease-duration=6s", "--renew-deadline=4s", "--retry-period=1s")  # several on a busy machine
SHORT = ("--lease-duration=3s", "--renew-deadline=2s", "--retry-period=0.5s")
FAILOVERS = unstructured("defib.dev", "v1alpha1", "podfailoverremediations", "PodFailoverRemediation", namespaced=True)
FAILOVER_POLICIES = unstructured("defib.dev", "v1alpha1", "podfailoverpolicies", "PodFailoverPolicy", namespaced=True)
POWER_CYCLES = unstructured("defib.dev", "v1alpha1", "powercycleremediations", "PowerCycleRemediation", namespaced=True)
POLICIES = unstructured("defib.dev", "v1alpha1", "drainpolicies", "DrainPolicy", namespaced=False)
DRAINS = unstructured("defib.dev", "v1alpha1", "nodedrains", "NodeDrain", namespaced=False)
CHECKS = unstructured("remediation.medik8s.io", "v1alpha1", "nodehealthchecks", "NodeHealthCheck", namespaced=False)
BUDGETS = unstructured("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[HollowCluster]:
    """Nodes in two zones. Pods tolerate a lost node for five minutes, as they do everywhere."""
    policy = tmp_path_factory.mktemp("audit") / "policy.yaml"
    settings = Settings(controller_manager=SETTINGS.controller_manager, apiserver=await audited(policy))
    async with hollow_cluster(programs, in_zones("ab", 2), settings=settings) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def release(cluster: HollowCluster, helm: Path) -> Release:
    """The page on how to install it says so: first the namespace, which lets only restricted pods in."""
    release = Release(helm, cluster.plane)
    await release.kubectl("create", "namespace", NAMESPACE)
    await release.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    told = await release.install("--wait", "--timeout=80s")
    assert "STATUS: deployed" in told
    assert "Warning" not in told
    for right in (("create", "podfailoverremediations.defib.dev", ""), ("create", "pods/eviction", "default")):
        await until_allowed(cluster.client, *right)
    return release


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def _nothing_is_refused(cluster: HollowCluster) -> AsyncIterator[None]:
    yield
    assert [str(one) for one in await requests_of(cluster.plane) if one.code == 403] == []


async def hurry(cluster: HollowCluster) -> None:
    """The default check waits for five minutes."""

    async def is_there() -> bool:
        return DEFAULT_CHECK in [one.name for one in (await cluster.client.list_all(NODE_HEALTH_CHECKS)).items]

    await eventually(is_there, within=WITHIN)
    conditions = [{"type": "Ready", "status": status, "duration": "2s"} for status in ("False", "Unknown")]
    await cluster.client.patch(
        NODE_HEALTH_CHECKS.at(DEFAULT_CHECK), Merge({"spec": {"unhealthyConditions": conditions}})
    )


async def remediated(cluster: HollowCluster) -> int:
    return len((await cluster.client.list_all(FAILOVERS, Scope(namespace=NAMESPACE))).items)


async def command(release: Release, *arguments: str) -> str:
    """`defib`, with the rights of the release's own account."""
    kubeconfig = f"--kubeconfig={await release.log_in('asking')}"
    machine = {name: value for name, value in os.environ.items() if not name.startswith("DEFIB_")}
    return await said(Path(sys.executable), "-m", "defib", *arguments, kubeconfig, env=machine)


async def test_both_replicas_run_where_only_restricted_pods_may(release: Release, cluster: HollowCluster) -> None:
    assert release.plane is cluster.plane
    pods = (await cluster.client.list_all(PODS, Scope(namespace=NAMESPACE))).items
    assert len({pod.spec.node_name for pod in pods if pod.phase == "Running"}) == 2


async def test_a_failed_node_is_remediated_and_its_pods_run_elsewhere(release: Release, cluster: HollowCluster) -> None:
    await cluster.deploy("web", 8)

    async def all_run() -> bool:
        return len(await cluster.running("web")) == 8

    await eventually(all_run, within=WITHIN)
    async with release.replicas(*SHORT) as replicas:
        assert len(replicas) == 2
        await until_one_leads(cluster.client, set(replicas))
        await hurry(cluster)
        victim = (await cluster.running("web"))[0].spec.node_name
        cluster.nodes[victim].machine.set_power(False)

        async def run_elsewhere() -> bool:
            return len(await cluster.running("web", without=victim)) == 8

        await eventually(run_elsewhere, within=WITHIN)
        assert await remediated(cluster) == 1
        cluster.nodes[victim].machine.set_power(True)

        async def is_over() -> bool:
            return await remediated(cluster) == 0

        await eventually(is_over, within=WITHIN)
        assert {process.returncode for process in replicas.values()} == {None}


class Ignored(msgspec.Struct, frozen=True):
    """What somebody asks for although it is switched off."""

    kind: Kind[Unstructured]
    body: dict[str, Any]
    namespace: str = ""

    async def expect_untouched(self, client: Client) -> None:
        item = await client.get(self.kind.at(self.body["metadata"]["name"], self.namespace))
        assert (item.status, item.metadata.finalizers) == (None, None)
        await client.delete(self.kind.of(item), Deletion(uid=item.uid))


@asynccontextmanager
async def ignored(cluster: HollowCluster, *asked: Ignored) -> AsyncIterator[None]:
    """And a node is drained, under whatever policy is among them. At the end nobody has touched any of it."""
    node, client = max(cluster.nodes), cluster.client
    for one in asked:
        await client.create(one.kind, one.body, namespace=one.namespace)
    await client.patch(NODES.at(node), Merge(drained("true")))
    yield
    assert (await client.list_all(DRAINS)).items == []
    for one in asked:
        await one.expect_untouched(client)
    await client.patch(NODES.at(node), Merge(drained(None)))


def drained(mark: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": {WATCH_MARK: mark}}, "spec": {"unschedulable": mark is not None}}


DRAIN_POLICY = Ignored(POLICIES, a_policy(dict(TIMES), "ignored"))
POWER_CYCLE = Ignored(
    POWER_CYCLES, {"metadata": {"name": "zone-b-1"}, "spec": {"power": {"driver": "manual"}}}, NAMESPACE
)
FAILOVER = Ignored(FAILOVERS, {"metadata": {"name": "zone-b-1"}}, NAMESPACE)

# Of the operator of medik8s, with a remediator that gave its rights to nobody else.
FOREIGN = {
    "apiVersion": "test.defib.dev/v1alpha1",
    "kind": "FooRemediationTemplate",
    "name": "foo",
    "namespace": "default",
}
FOREIGN_CHECK = Ignored(CHECKS, a_check(simple(remediationTemplate=FOREIGN), "theirs"))


async def until_gone(cluster: HollowCluster, *asked: tuple[str, str, str]) -> None:
    async def are_gone() -> bool:
        return not any([await may(cluster.client, *right) for right in asked])

    await eventually(are_gone, within=WITHIN)


async def test_with_few_features_what_is_left_does_its_work(release: Release, cluster: HollowCluster) -> None:
    await release.upgrade("--set=features.powerCycle=false", "--set=features.drains=false", "--set=replicas=1")
    asked = ("get", "secrets", NAMESPACE), ("delete", "nodes", ""), ("create", "pods/eviction", "default")
    await until_gone(cluster, *asked)
    async with ignored(cluster, DRAIN_POLICY, POWER_CYCLE), release.replicas(*SHORT) as replicas:
        await until_one_leads(cluster.client, set(replicas))
        victim = (await cluster.running("web"))[0].spec.node_name
        cluster.nodes[victim].machine.set_power(False)

        async def run_elsewhere() -> bool:
            return len(await cluster.running("web", without=victim)) == 8

        await eventually(run_elsewhere, within=WITHIN)
        cluster.nodes[victim].machine.set_power(True)

        async def is_over() -> bool:
            return await remediated(cluster) == 0

        await eventually(is_over, within=WITHIN)


async def test_with_no_feature_at_all_it_watches_and_tells_teams_that_nothing_is_done(
    release: Release, cluster: HollowCluster
) -> None:
    off = ("checks", "defaultCheck", "podFailover", "powerCycle", "drains")
    await release.upgrade("--reset-values", "--set=replicas=1", *(f"--set=features.{name}=false" for name in off))
    await until_gone(
        cluster, ("delete", "pods", "default"), ("patch", "nodehealthchecks/status.remediation.medik8s.io", "")
    )
    team = await cluster.client.create(
        FAILOVER_POLICIES, {"metadata": {"name": "team"}, "spec": {"selector": {}}}, namespace="default"
    )
    await release.kubectl("apply", f"--filename={ROOT / 'testbed' / 'crds' / 'test-remediators.yaml'}")
    asked = (DRAIN_POLICY, POWER_CYCLE, FAILOVER, FOREIGN_CHECK)
    async with ignored(cluster, *asked), release.replicas(*SHORT) as replicas:
        await until_one_leads(cluster.client, set(replicas))

        async def is_told() -> bool:
            status = (await cluster.client.get(FAILOVER_POLICIES.of(team))).status or {}
            return [one["reason"] for one in status.get("conditions", ()) if one["type"] == "Valid"] == ["SwitchedOff"]

        await eventually(is_told, within=WITHIN)
    await cluster.client.delete(FAILOVER_POLICIES.of(team), Deletion(uid=team.uid))
    await release.upgrade("--reset-values")
    await until_allowed(cluster.client, "create", "pods/eviction", "default")


async def test_a_drain_that_hangs_on_a_budget_ends(release: Release, cluster: HollowCluster) -> None:
    await cluster.deploy("held", 4)
    budget = {"minAvailable": 4, "selector": {"matchLabels": {"app": "held"}}}
    await cluster.client.create(BUDGETS, {"metadata": {"name": "held"}, "spec": budget}, namespace="default")
    await cluster.client.create(POLICIES, a_policy(dict(TIMES), "all"))

    async def all_run() -> bool:
        return len(await cluster.running("held")) == 4

    await eventually(all_run, within=WITHIN)
    node = (await cluster.running("held"))[0].spec.node_name
    async with release.replicas(*SHORT) as replicas:
        await until_one_leads(cluster.client, set(replicas))
        await cluster.client.patch(NODES.at(node), Merge(drained("true")))

        async def have_left() -> bool:
            return len(await cluster.running("held", without=node)) == 4

        await eventually(have_left, within=WITHIN)
        assert [one.name for one in (await cluster.client.list_all(DRAINS)).items] == [node]
        await cluster.client.patch(NODES.at(node), Merge(drained(None)))


async def test_when_the_leader_dies_the_other_replica_leads(release: Release, cluster: HollowCluster) -> None:
    async with release.replicas(*SHORT) as replicas:
        first = await until_one_leads(cluster.client, set(replicas))
        replicas[first].kill()
        second = await until_one_leads(cluster.client, set(replicas) - {first})
        assert replicas[second].returncode is None


async def test_helm_test_asks_with_the_rights_of_the_release_whether_somebody_leads(
    release: Release, cluster: HollowCluster
) -> None:
    """No hollow node runs a program, so this test does what the pod would, and says how it ended."""
    async with release.replicas(*SHORT) as replicas, asyncio.TaskGroup() as tasks:
        await until_one_leads(cluster.client, set(replicas))
        testing = tasks.create_task(release.run("test", "defib", "--timeout=60s"), name="helm test")
        there = PODS.at("defib-test", NAMESPACE)

        async def is_made() -> bool:
            try:
                return (await cluster.client.get(there)).phase == "Running"
            except NotFound:
                return False

        await eventually(is_made, within=WITHIN)
        path = "-o=jsonpath={.spec.containers[0].args}"
        arguments = json.loads(await release.kubectl("get", "pod", "defib-test", f"-n={NAMESPACE}", path))
        assert "replica-" in await command(release, *arguments)
        await cluster.client.patch(there, Merge({"status": {"phase": "Succeeded"}}), subresource="status")
    assert "Phase:          Succeeded" in testing.result()


async def test_three_replicas_share_the_work_and_take_over_from_one_another(
    release: Release, cluster: HollowCluster
) -> None:
    await release.upgrade("--set=replicas=3", "--set=election=shards")
    async with release.replicas(*STEADY) as replicas:
        assert set(replicas) == {"replica-0", "replica-1", "replica-2"}
        await until_shared(cluster, set(replicas))
        replicas["replica-1"].kill()
        await replicas["replica-1"].wait()
        await until_shared(cluster, set(replicas) - {"replica-1"})


async def until_shared(cluster: HollowCluster, replicas: set[str]) -> None:
    """Every bucket of nodes is somebody's, and everybody has some."""

    async def is_so() -> bool:
        leases = (await cluster.client.list_all(LEASES, Scope(namespace=NAMESPACE))).items
        holders = [one.spec.holder_identity for one in leases if one.name.startswith(BUCKET_LEASE)]
        return len(holders) == BUCKETS and set(holders) == replicas

    await eventually(is_so, within=WITHIN)

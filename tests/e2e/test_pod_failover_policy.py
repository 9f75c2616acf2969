"""PodFailoverPolicies on a real control plane: pods of every owner leave a lost node at once, or wait, and it is told."""

import asyncio
import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from defib.hollow.objects import Pod
from defib.hollow.site import in_zones
from defib.model.failover_policy import State
from testbed.programs import Programs
from tests.contract.api_server.steps import install
from tests.e2e.failover_cluster import FailoverCluster, Team, failover_cluster, pod_spec, pod_template
from tests.e2e.running_operator import defib_run

pytestmark = [pytest.mark.real, pytest.mark.timeout(90, func_only=True), pytest.mark.asyncio(loop_scope="module")]

# The whole configuration of seed 000.
SEED = """
apiVersion: defib.dev/v1alpha1
kind: PodFailoverPolicy
metadata: {name: noobaa}
spec: {selector: {matchLabels: {app: noobaa}}}
"""
COLUMNS = ["NAMESPACE", "NAME", "SETTLED", "REASON", "FAILED NODES", "MOVED", "WAITING", "PROOFS", "AGE"]
DATABASES = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "databases.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "databases", "singular": "database", "kind": "Database", "listKind": "DatabaseList"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FailoverCluster]:
    path = tmp_path_factory.mktemp("failover") / "audit.yaml"
    async with failover_cluster(programs, in_zones("a", 5), path) as cluster:
        yield cluster


def keys(pods: list[Pod]) -> list[str]:
    return sorted(f"{pod.namespace}/{pod.name}" for pod in pods)


async def test_ev_20_ev_02_all_labelled_pods_of_a_stopped_node_are_deleted_and_run_elsewhere(
    cluster: FailoverCluster,
) -> None:
    """And nothing else is touched: no other label, no other namespace, no other node (EV-03)."""
    team, others = await cluster.team("storage"), await cluster.team("other")
    async with asyncio.TaskGroup() as tasks:
        for making in (team.deploy("noobaa", 15), team.deploy("web", 10), others.deploy("noobaa", 10)):
            tasks.create_task(making)
    await team.until_running(25)
    await others.until_running(10)
    async with defib_run(cluster) as operator:
        await cluster.kubectl("apply", "--namespace=storage", "-f", "-", stdin=SEED)
        await team.until_served("noobaa")
        victim = (await team.pods("noobaa"))[0].spec.node_name
        lost = [pod for pod in await team.pods("noobaa") if pod.spec.node_name == victim]
        spared = {pod.uid for pod in (*await team.pods(), *await others.pods())} - {pod.uid for pod in lost}
        cluster.hollow.nodes[victim].machine.set_power(False)
        await team.until_running(15, "noobaa", without=victim)
        status = await team.until_it_says("noobaa", "Moved")
        assert (await team.deleted(), await others.deleted()) == (keys(lost), [])
        assert (status.failed_nodes, status.moved, status.waiting) == (1, len(lost), 0)
        there = [*await team.pods(), *await others.pods()]
        assert spared <= {pod.uid for pod in there if not pod.is_deleted}
        assert not [pod for pod in there if pod.uid in {one.uid for one in lost}], "they were deleted by force"
        cluster.hollow.nodes[victim].machine.set_power(True)
        status = await team.until_it_says("noobaa", "Quiet")
        assert (status.failed_nodes, status.moved) == (0, len(lost))
        await operator.expect_nothing_refused(cluster)


async def test_ev_06_a_node_that_was_lost_before_the_operator_started_is_seen_to(cluster: FailoverCluster) -> None:
    team = await cluster.team("early")
    await team.deploy("web", 5)
    await team.until_running(5)
    (victim, *_) = {pod.spec.node_name for pod in await team.pods()}
    lost = [pod for pod in await team.pods() if pod.spec.node_name == victim]

    async def is_lost() -> bool:
        return not await cluster.is_ready(victim)

    await team.ask_for("web", selector={})
    cluster.hollow.nodes[victim].machine.set_power(False)
    await cluster.eventually("the node is given up", is_lost)
    async with defib_run(cluster):
        await team.until_running(5, without=victim)
        assert await team.deleted() == keys(lost)
        cluster.hollow.nodes[victim].machine.set_power(True)
        await team.until_it_says("web", "Quiet")


async def test_ev_12_ev_15_pods_leave_with_the_grace_of_their_policy_and_those_it_excludes_stay(
    cluster: FailoverCluster,
) -> None:
    """The databases that seed 000 had to be switched off for, which nobody could tell by a label."""
    team, victim = await cluster.team("careful"), "zone-a-4"
    database = pod_template("noobaa-db-pg", node=victim)
    await team.deploy("noobaa", 2, pod_template("noobaa", node=victim))
    await team.deploy("noobaa-db-pg", 1, database)
    await team.until_running(3)
    before = await team.pods()
    assert {pod.spec.node_name for pod in before} == {victim}
    async with defib_run(cluster):
        graceful = {"mode": "Graceful", "gracePeriodSeconds": 3}
        await team.ask_for("careful", selector={}, deletion=graceful, exclude={"names": ["noobaa-db-pg-*"]})
        await team.until_served("careful")
        cluster.hollow.nodes[victim].machine.set_power(False)
        await team.until_running(2, "noobaa", without=victim)
        await team.until_it_says("careful", "Moved")
        leaving = [pod for pod in await team.pods() if pod.is_deleted]
        assert sorted(pod.uid for pod in leaving) == sorted(pod.uid for pod in before if pod.labels["app"] == "noobaa")
        assert {pod.metadata.deletion_grace_period_seconds for pod in leaving} == {3}
        (kept,) = await team.pods("noobaa-db-pg")
        assert (kept.uid in {pod.uid for pod in before}, kept.is_deleted) == (True, False)
        entry = await team.entry("careful", victim)
        assert (entry.moved, entry.kept) == (2, 1)
        assert entry.message == "2 pods moved; 1 left in place: 1 excluded (exclude.names)"
        cluster.hollow.nodes[victim].machine.set_power(True)
        await team.until_it_says("careful", "Quiet")


async def test_pods_of_every_owner_leave_at_once_or_wait_or_stay_and_the_policy_says_which(
    cluster: FailoverCluster,
) -> None:
    team, victim = await cluster.team("owners"), "zone-a-3"
    await make_one_of_each(team, victim)
    await team.until_running(9)
    assert {pod.spec.node_name for pod in await team.pods()} == {victim}
    before = {pod.labels["app"]: pod for pod in await team.pods()}
    async with defib_run(cluster):
        await team.ask_for("all", selector={})
        await team.until_served("all")
        cluster.hollow.nodes[victim].partition()
        for app in ("copies", "job", "shared"):
            await team.until_running(1, app, without=victim)
        status = await team.until_it_says("all", "WaitingForProof")
        entry = await team.entry("all", victim)
        assert (entry.state, entry.moved, entry.waiting, entry.kept) == (State.WAITING, 4, 4, 1)
        assert (status.moved, status.waiting, status.proofs) == (4, 4, "A or B")
        assert entry.message.startswith("4 pods moved; 4 pods that must not run twice wait for a proof of grade A or B")
        assert "1 left in place: 1 without a controller that would make another one" in entry.message
        after = {pod.labels["app"]: pod for pod in await team.pods() if not pod.is_deleted}
        stayed = {app for app, pod in after.items() if pod.uid == before[app].uid}
        assert stayed == {"exclusive", "stateful", "with-data", "once", "bare"}
        assert "custom" not in after, "whoever owns it makes another one, which is not for us to do"
        await expect_a_person_can_read_it(cluster, victim)
        cluster.hollow.nodes[victim].heal()
        await team.until_it_says("all", "Quiet")


async def make_one_of_each(team: Team, node: str) -> None:
    """Under its owner's name each, and all of them on one node."""
    for name, mode in (("shared", "ReadWriteMany"), ("exclusive", "ReadWriteOnce"), ("pod-only", "ReadWriteOncePod")):
        await team.claim(name, mode)
    await team.claim("data", "ReadWriteOnce")
    await team.deploy("copies", 1, pod_template("copies", node=node))
    await team.deploy("shared", 1, pod_template("shared", node=node, claims=("shared",)))
    await team.deploy("exclusive", 1, pod_template("exclusive", node=node, claims=("exclusive",)))
    await team.deploy("once", 1, pod_template("once", node=node, claims=("pod-only", "shared")))
    await team.state("stateful", pod_template("stateful", node=node))
    await team.state("with-data", pod_template("with-data", node=node, claims=("data",)))
    job = pod_template("job", node=node)
    await team.make(
        "batch/v1", "Job", "job", spec={"template": job | {"spec": job["spec"] | {"restartPolicy": "Never"}}}
    )
    await team.make("v1", "Pod", "bare", metadata={"labels": {"app": "bare"}}, spec=pod_spec(node=node))
    databases = await install(team.client, DATABASES)
    owner = await team.client.create(databases, {"metadata": {"name": "pg"}}, namespace=team.name)
    reference = {"apiVersion": "example.com/v1", "kind": "Database", "name": "pg", "uid": owner.uid, "controller": True}
    custom = {"labels": {"app": "custom"}, "ownerReferences": [reference]}
    await team.make("v1", "Pod", "pg-1", metadata=custom, spec=pod_spec(node=node))


def rows_of(table: str, namespace: str) -> list[list[str]]:
    rows = [re.split(" {2,}", line.strip()) for line in table.splitlines()[1:]]
    return [row for row in rows if row[0] == namespace]


async def expect_a_person_can_read_it(cluster: FailoverCluster, node: str) -> None:
    table = await cluster.kubectl("get", "pfp", "--all-namespaces")
    assert re.split(" {2,}", table.splitlines()[0].strip()) == COLUMNS
    (row,) = rows_of(table, "owners")
    assert row[:-1] == ["owners", "all", "False", "WaitingForProof", "1", "4", "4", "A or B"]
    shown = await cluster.kubectl("describe", "pfp", "--namespace=owners", "all")
    told = shown.partition("Events:")[2]
    assert f"node {node}: 4 pods moved; 4 pods that must not run twice wait for a proof of grade A or B" in told


async def test_a_policy_that_is_not_served_does_not_look_as_if_all_were_well(cluster: FailoverCluster) -> None:
    """What the cluster operator does not allow is told where a person looks first, and nothing is done."""
    team = await cluster.team("bold")
    await team.ask_for("bold", selector={}, acceptedProofs=["None"])
    async with defib_run(cluster, "--failover-allowed-proofs=A,B"):
        status = await team.until_it_says("bold", "InvalidSpec")
        (row,) = rows_of(await cluster.kubectl("get", "pfp", "--all-namespaces"), "bold")
        assert row[:6] == ["bold", "bold", "Unknown", "InvalidSpec", "0", "0"]
        settled = status.condition("Settled")
        assert settled is not None
        assert "None is not allowed in this cluster (setting failover_allowed_proofs)" in settled.message
    async with defib_run(cluster, "--pod-failover-policies=off"):
        await team.until_it_says("bold", "SwitchedOff")

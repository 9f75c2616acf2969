"""A node loses its power on a real control plane: Defib, installed as its manifests say, lets pods run elsewhere.

Pods tolerate an unreachable node for five minutes here, as they do everywhere, so whatever leaves within the time of a
test was moved by us. The operator is a process of its own and logs in as the service account of deploy/install.yaml.
"""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from defib.hollow.objects import PODS, Pod
from defib.kube.client import Deletion, Merge, Scope
from defib.kube.kinds import LEASES, NODE_HEALTH_CHECKS, unstructured
from defib.model import medik8s
from defib.model.meta import Unstructured
from defib.model.pod_failover import DEFAULT_CHECK, FINALIZER
from testbed.programs import Programs
from testbed.settings import Settings
from tests.contract.api_server.steps import raw
from tests.e2e.hollow_cluster import SETTINGS, HollowCluster, eventually, hollow_cluster
from tests.e2e.rights import until_allowed

pytestmark = [pytest.mark.real, pytest.mark.timeout(90, func_only=True), pytest.mark.asyncio(loop_scope="module")]

DEPLOY = Path(__file__).parents[2] / "deploy"
FAILOVERS = unstructured("defib.dev", "v1alpha1", "podfailoverremediations", "PodFailoverRemediation", namespaced=True)
ACCOUNT = "system:serviceaccount:defib-system:defib"
PATIENCE_SECONDS = 20.0
UNHEALTHY_AFTER = "2s"
# Only the detection of lost nodes is faster than usual.
SLOW_TO_EVICT = Settings(controller_manager=SETTINGS.controller_manager)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs) -> AsyncIterator[HollowCluster]:
    async with hollow_cluster(programs, settings=SLOW_TO_EVICT) as cluster:
        await kubectl(cluster, "apply", "-f", str(DEPLOY / "install.yaml"))
        for verb, what, namespace in (
            ("patch", "podfailoverremediations.defib.dev", "defib-system"),
            ("create", "nodehealthchecks.remediation.medik8s.io", ""),
            ("watch", "leases.coordination.k8s.io", "kube-node-lease"),
            ("create", "leases.coordination.k8s.io", medik8s.LOCK_NAMESPACE),
            ("watch", "configmaps", "defib-system"),
            ("create", "events", "default"),
        ):
            await until_allowed(cluster.client, verb, what, namespace, within=PATIENCE_SECONDS)
        yield cluster


async def kubectl(cluster: HollowCluster, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        cluster.plane.kubectl, f"--kubeconfig={cluster.plane.kubeconfig}", *arguments, stdout=PIPE, stderr=STDOUT
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    return said.decode()


async def account(cluster: HollowCluster) -> Path:
    """The kubeconfig of the service account, as a pod would be it."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    asked = await raw(cluster.client, "POST", "/api/v1/namespaces/defib-system/serviceaccounts/defib/token", body)
    config = yaml.safe_load(await asyncio.to_thread(cluster.plane.kubeconfig.read_text))
    config["users"] = [{"name": user["name"], "user": {"token": asked["status"]["token"]}} for user in config["users"]]
    path = cluster.plane.directory / "operator.kubeconfig"
    await asyncio.to_thread(path.write_text, yaml.safe_dump(config))
    return path


@asynccontextmanager
async def operating(cluster: HollowCluster) -> AsyncIterator[Path]:
    """`defib run`, from its start to its orderly end; where its log is."""
    log = cluster.plane.directory / "operator.log"
    options = (f"--kubeconfig={await account(cluster)}", "--probes-address=127.0.0.1:0", "--log-format=json")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DEFIB_")}
    with await asyncio.to_thread(log.open, "ab") as out:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "defib", "run", *options), stdout=out, stderr=STDOUT, env=environment
        )
    try:
        yield log
        assert process.returncode is None, "it has ended by itself"
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await process.wait()


async def checks(cluster: HollowCluster) -> list[str]:
    return [check.name for check in (await cluster.client.list_all(NODE_HEALTH_CHECKS)).items]


async def failovers(cluster: HollowCluster, node: str) -> list[Unstructured]:
    known = (await cluster.client.list_all(FAILOVERS, Scope(namespace="defib-system"))).items
    return [one for one in known if one.annotations[medik8s.NODE_NAME] == node]


async def pods_on(cluster: HollowCluster, node: str) -> list[Pod]:
    return (await cluster.client.list_all(PODS, Scope(fields=f"spec.nodeName={node}"))).items


async def hurry(cluster: HollowCluster) -> None:
    """The default check waits for five minutes. Nobody else's check would make sense here."""
    await eventually(lambda: is_there(cluster))
    conditions = [{"type": "Ready", "status": status, "duration": UNHEALTHY_AFTER} for status in ("False", "Unknown")]
    patch = Merge({"spec": {"unhealthyConditions": conditions}})
    await cluster.client.patch(NODE_HEALTH_CHECKS.at(DEFAULT_CHECK), patch)


async def is_there(cluster: HollowCluster) -> bool:
    return await checks(cluster) == [DEFAULT_CHECK]


def condition(item: Unstructured, kind: str) -> dict[str, Any]:
    return next((one for one in (item.status or {}).get("conditions") or () if one["type"] == kind), {})


async def test_pods_of_a_deployment_run_elsewhere_long_before_kubernetes_would_move_them(
    cluster: HollowCluster,
) -> None:
    await cluster.deploy("web", 12)
    await cluster.make_database("db")

    async def all_run() -> bool:
        return len(await cluster.running("web")) == 12 and len(await cluster.running("db")) == 1

    await eventually(all_run)
    (database,) = await cluster.running("db")
    victim = database.spec.node_name
    if not [pod for pod in await cluster.running("web") if pod.spec.node_name == victim]:
        pytest.fail("the scheduler spreads equal pods over equal nodes")
    async with operating(cluster) as log:
        await hurry(cluster)
        cluster.nodes[victim].machine.set_power(False)

        async def moved() -> bool:
            return len(await cluster.running("web", without=victim)) == 12

        await eventually(moved)
        (failover,) = await failovers(cluster, victim)
        assert failover.metadata.finalizers == [FINALIZER]
        assert failover.name.startswith(f"{victim}-")

        async def needs_a_proof() -> bool:
            found = await failovers(cluster, victim)
            return condition(found[0], "Succeeded").get("reason") == "ProofNeeded"

        await eventually(needs_a_proof)
        await expect_only_copies_were_deleted(cluster, victim, database, log)
        cluster.nodes[victim].machine.set_power(True)

        async def tidy() -> bool:
            locks = (await cluster.client.list_all(LEASES, Scope(namespace=medik8s.LOCK_NAMESPACE))).items
            return not locks and not await failovers(cluster, victim)

        await eventually(tidy)
        assert (await cluster.node(victim)).ready == "True"
        await eventually(lambda: left_for_good(cluster, victim))


async def expect_only_copies_were_deleted(cluster: HollowCluster, victim: str, database: Pod, log: Path) -> None:
    """Each once, those of the Deployments alone, and before Kubernetes has thought of it."""
    (failover,) = await failovers(cluster, victim)
    status = failover.status or {}
    there = await pods_on(cluster, victim)
    leaving = {pod.uid: pod for pod in there if pod.is_deleted}
    assert database.uid in {pod.uid for pod in there} - leaving.keys()
    assert {pod.metadata.owner_references[0].kind for pod in leaving.values() if pod.metadata.owner_references} == {
        "ReplicaSet"
    }
    assert (status["node"], status["found"], status["moved"]) == (victim, len(leaving), len(leaving))
    waits = "1 pod that must not run twice waits for a proof of grade A or B that the node is down: default/db-0"
    assert waits in condition(failover, "Succeeded")["message"]
    assert all(pod.metadata.deletion_grace_period_seconds for pod in leaving.values()), "none was forced"
    told = await asyncio.to_thread(log.read_text)
    assert told.count("pod leaves its failed node") == len(leaving)
    fresh = f"--cache-dir={cluster.plane.directory / 'kubectl'}"  # it remembers which kinds there were
    header, row = (await kubectl(cluster, "get", "pfr", "--namespace=defib-system", fresh)).splitlines()
    assert header.split() == ["NAME", "NODE", "SUCCEEDED", "REASON", "MOVED", "WAITING", "AGE"]
    assert row.split()[1:6] == [victim, "False", "ProofNeeded", str(len(leaving)), "1"]
    all_of_defib = await kubectl(cluster, "get", "defib", "--namespace=defib-system", fresh)
    assert row.rpartition(" ")[0].rstrip() in all_of_defib  # its age may be another one by now
    told = (await kubectl(cluster, "describe", "pfr", "--namespace=defib-system", fresh)).partition("Events:")[2]
    assert f"node {victim}: {len(leaving)} pods moved; {waits}" in told


async def left_for_good(cluster: HollowCluster, victim: str) -> bool:
    return not [pod for pod in await pods_on(cluster, victim) if pod.is_deleted]


async def test_the_default_check_is_made_at_a_start_and_not_between_two(cluster: HollowCluster) -> None:
    async def is_gone() -> bool:
        return not await checks(cluster)

    async with operating(cluster) as log:
        await eventually(lambda: is_there(cluster))
        check = await cluster.client.get(NODE_HEALTH_CHECKS.at(DEFAULT_CHECK))
        assert check.labels == {"app.kubernetes.io/managed-by": "defib"}
        await cluster.client.delete(NODE_HEALTH_CHECKS.of(check), Deletion(uid=check.uid))
        await eventually(is_gone)
    assert await checks(cluster) == []
    async with operating(cluster):
        await eventually(lambda: is_there(cluster))
    told = await asyncio.to_thread(log.read_text)
    assert told.count("default check created") == 2
    assert "forbidden" not in told

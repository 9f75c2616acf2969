"""Each of examples/ does what its page says, on a real control plane, by Defib under its own account.

They are applied as they are, but for two things: their minutes are seconds here, and their BMCs are those of the test.
"""

import asyncio
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
from defib.kube.client import Scope
from defib.kube.errors import NotFound
from defib.kube.kinds import NODE_HEALTH_CHECKS, NODE_INCIDENTS, unstructured
from testbed.programs import Programs
from tests.e2e.hollow_cluster import eventually
from tests.e2e.power_cluster import PLACE, POWER_CYCLES, PowerCluster, power_cluster
from tests.e2e.running_operator import RunningOperator, defib_run

pytestmark = [pytest.mark.real, pytest.mark.timeout(120, func_only=True), pytest.mark.asyncio(loop_scope="module")]

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE_SECONDS = 60.0
FAILOVERS = unstructured("defib.dev", "v1alpha1", "podfailoverremediations", "PodFailoverRemediation", namespaced=True)
POLICIES = unstructured("defib.dev", "v1alpha1", "podfailoverpolicies", "PodFailoverPolicy", namespaced=True)
# Of a DrainPolicy, in the order in which its ladder needs them.
SECONDS = {"timeout": "1s", "expectedDrainTime": "1s", "pdbForceDrainTimeout": "3s"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PowerCluster]:
    async with power_cluster(programs, tmp_path_factory.mktemp("examples") / "policy.yaml") as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(cluster: PowerCluster) -> AsyncIterator[RunningOperator]:
    async with defib_run(cluster) as operator:
        yield operator


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def _all_is_well_afterwards(cluster: PowerCluster, operator: RunningOperator) -> AsyncIterator[None]:
    """Nothing was refused, no disk is corrupted, and the next example finds every node in service."""
    yield
    await operator.expect_nothing_refused(cluster)
    assert [verdict.story for verdict in cluster.hollow.disks.corrupted()] == []
    await eventually(cluster.hollow.can_be_scheduled_on, within=PATIENCE_SECONDS)


def hastened(body: dict[str, Any], cluster: PowerCluster) -> dict[str, Any]:
    spec = body.get("spec") or {}
    if body["kind"] == "NodeHealthCheck":
        assert spec["unhealthyConditions"]
        spec["unhealthyConditions"] = [one | {"duration": "1s"} for one in spec["unhealthyConditions"]]
    if body["kind"] == "PowerCycleRemediationTemplate":
        power = spec["template"]["spec"]["power"]
        assert power == {**power, "driver": "redfish", "credentials": {"name": "bmc"}}
        spec["template"]["spec"]["power"] = cluster.power("redfish")
    if body["kind"] == "DrainPolicy":
        assert SECONDS.keys() <= spec.keys()
        spec |= SECONDS
    return body


@asynccontextmanager
async def applied(cluster: PowerCluster, *files: str) -> AsyncIterator[None]:
    """Files of the examples, and nothing of them afterwards."""
    texts = [await asyncio.to_thread((EXAMPLES / file).read_text) for file in files]
    bodies = [hastened(body, cluster) for text in texts for body in yaml.safe_load_all(text)]
    path = cluster.plane.directory / files[0].replace("/", "-")
    await asyncio.to_thread(path.write_text, yaml.safe_dump_all(bodies))
    await cluster.kubectl("apply", "-f", str(path))
    yield
    checks = [body["metadata"]["name"] for body in bodies if body["kind"] == "NodeHealthCheck"]

    async def are_calm() -> bool:
        known = [await cluster.client.get(NODE_HEALTH_CHECKS.at(name)) for name in checks]
        return not any((one.status or {}).get("unhealthyNodes") for one in known)

    await expect(cluster, "no check has a node in work, so that it may be deleted", are_calm)
    await cluster.kubectl("delete", "-f", str(path))


@asynccontextmanager
async def lost(cluster: PowerCluster, node: str) -> AsyncIterator[None]:
    """It is cut off, and what runs there goes on, until its network is mended."""
    cluster.hollow.nodes[node].partition()
    try:
        yield
    finally:
        cluster.hollow.nodes[node].heal()


async def defib(cluster: PowerCluster, *arguments: str) -> tuple[int, str]:
    """Its exit code, and all that it says."""
    command = (sys.executable, "-m", "defib", *arguments, f"--kubeconfig={cluster.plane.kubeconfig}")
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=STDOUT)
    async with asyncio.timeout(PATIENCE_SECONDS):
        said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


async def expect(cluster: PowerCluster, what: str, holds: Any) -> None:
    try:
        await eventually(holds, within=PATIENCE_SECONDS)
    except TimeoutError:
        await cluster.fail(f"not within {PATIENCE_SECONDS:g} s: {what}")


async def deployed(cluster: PowerCluster, app: str, replicas: int) -> str:
    """So many pods that run, and a node that has some of them."""
    await cluster.hollow.deploy(app, replicas)

    async def runs() -> bool:
        return len(await cluster.hollow.running(app)) == replicas

    await expect(cluster, f"{app} runs", runs)
    return (await cluster.hollow.running(app))[0].spec.node_name


async def failovers(cluster: PowerCluster) -> list[str]:
    return [one.name for one in (await cluster.client.list_all(FAILOVERS, Scope(namespace=PLACE))).items]


async def pods_in(cluster: PowerCluster, namespace: str) -> list[Pod]:
    return (await cluster.client.list_all(PODS, Scope(namespace=namespace))).items


async def reason_of(cluster: PowerCluster, node: str) -> str:
    status = (await cluster.client.get(NODE_HEALTH_CHECKS.at("workers"))).status or {}
    return next((one["reason"] for one in status.get("unhealthyNodes") or () if one["name"] == node), "")


async def expect_gone(cluster: PowerCluster) -> None:
    """What was made for a node goes when it is well again."""

    async def is_gone() -> bool:
        cycles = (await cluster.client.list_all(POWER_CYCLES, Scope(namespace=PLACE))).items
        return not (await failovers(cluster) or cycles)

    await expect(cluster, "no remediation is left", is_gone)


async def test_02_pods_of_a_lost_worker_start_elsewhere(cluster: PowerCluster) -> None:
    victim = await deployed(cluster, "web", 12)

    async def all_elsewhere() -> bool:
        return len(await cluster.hollow.running("web", without=victim)) == 12

    async with applied(cluster, "02-protect-workers/check.yaml"):
        async with lost(cluster, victim):
            await expect(cluster, "all pods run elsewhere", all_elsewhere)
            assert await failovers(cluster) == [victim]
            code, answer = await defib(cluster, "why", victim)
            assert code == 0
            assert victim in answer
            assert "workers" in answer
        await expect_gone(cluster)
    await cluster.kubectl("delete", "deployment", "web")


async def expect_power_cycled(cluster: PowerCluster, app: str, node: str) -> None:
    """The database runs elsewhere, on a proof; and the machine comes back."""

    async def runs_elsewhere() -> bool:
        return bool(await cluster.hollow.running(app, without=node))

    async def is_closed() -> bool:
        try:
            incident = await cluster.client.get(NODE_INCIDENTS.at(node))
        except NotFound:
            return False
        proof = incident.status.proof
        return incident.status.outcome == "Recovered" and proof is not None and proof.grade == "A"

    await expect(cluster, "the database runs elsewhere", runs_elsewhere)
    cluster.hollow.nodes[node].heal()
    await expect(cluster, "its incident is closed, with a proof", is_closed)
    assert cluster.hollow.nodes[node].machine.is_on


async def database_on(cluster: PowerCluster, app: str, node: str) -> None:
    await cluster.hollow.make_database(app, prefers=node)

    async def runs_there() -> bool:
        return [pod.spec.node_name for pod in await cluster.hollow.running(app)] == [node]

    await expect(cluster, f"{app} runs on {node}", runs_there)


async def test_03_a_database_goes_on_to_the_thorough_step_at_once(cluster: PowerCluster) -> None:
    await database_on(cluster, "ledger", "zone-a-2")
    steps: set[str] = set()

    async def both_steps() -> bool:
        for one in (await cluster.client.list_all(FAILOVERS, Scope(namespace=PLACE))).items:
            steps.update(told["reason"] for told in (one.status or {}).get("conditions") or ())
        return "ProofNeeded" in steps and bool(
            (await cluster.client.list_all(POWER_CYCLES, Scope(namespace=PLACE))).items
        )

    async with applied(cluster, "03-escalation/templates.yaml", "03-escalation/check.yaml"):
        async with lost(cluster, "zone-a-2"):
            await expect(cluster, "the gentle step asks for a proof, and the thorough one has begun", both_steps)
            await expect_power_cycled(cluster, "ledger", "zone-a-2")
        await expect_gone(cluster)
    await cluster.kubectl("delete", "statefulset", "ledger")


async def test_04_a_machine_is_switched_off_and_on_by_redfish(cluster: PowerCluster) -> None:
    await database_on(cluster, "orders", "zone-b-1")
    files = [f"04-power-cycle-redfish/{name}.yaml" for name in ("secret", "template", "check")]

    async def all_can_be_fenced() -> bool:
        return "redfish redfish 10 10 True" in (await cluster.shown("pcrt")).get("redfish", "")

    async with applied(cluster, *files):
        await expect(cluster, "every machine could be fenced", all_can_be_fenced)
        async with lost(cluster, "zone-b-1"):
            await expect_power_cycled(cluster, "orders", "zone-b-1")
        await expect_gone(cluster)
    assert [change.on for change in cluster.hollow.nodes["zone-b-1"].machine.history[-2:]] == [False, True]
    await cluster.kubectl("delete", "statefulset", "orders")


async def test_05_pods_that_a_team_has_chosen_leave_without_any_check(cluster: PowerCluster) -> None:
    async def says(reason: str) -> bool:
        told = ((await cluster.client.get(POLICIES.at("web", "shop"))).status or {}).get("conditions") or ()
        return reason in [one["reason"] for one in told if one["type"] == "Settled"]

    async def four_run() -> bool:
        return [pod.phase for pod in await pods_in(cluster, "shop")] == ["Running"] * 4

    async with applied(cluster, "05-pod-failover-policy/web.yaml", "05-pod-failover-policy/policy.yaml"):
        await expect(cluster, "the pods run", four_run)
        await expect(cluster, "it is quiet", lambda: says("Quiet"))
        victim = (await pods_in(cluster, "shop"))[0].spec.node_name
        async with lost(cluster, victim):
            await expect(cluster, "it has moved them", lambda: says("Moved"))
            await expect(cluster, "four run again", four_run)
            assert victim not in [pod.spec.node_name for pod in await pods_in(cluster, "shop")]
        await expect(cluster, "it is quiet again", lambda: says("Quiet"))


async def test_06_a_drain_that_would_hang_ends(cluster: PowerCluster) -> None:
    async def runs() -> bool:
        return [pod.phase for pod in await pods_in(cluster, "stubborn")] == ["Running"]

    async with applied(cluster, "06-drains-that-end/stubborn.yaml"):
        await expect(cluster, "it runs", runs)
        code, forecast = await defib(cluster, "drain", "--forecast")
        assert code == 3
        assert "stubborn/stubborn" in forecast
        (pod,) = await pods_in(cluster, "stubborn")
        node = pod.spec.node_name
        async with applied(cluster, "06-drains-that-end/policy.yaml"):
            await cluster.kubectl("label", "node", node, "defib.dev/watch-drain=true")
            await cluster.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s")
            assert [one.uid for one in await pods_in(cluster, "stubborn") if one.spec.node_name == node] == []
            await cluster.kubectl("uncordon", node)
            await cluster.kubectl("label", "node", node, "defib.dev/watch-drain-")


async def test_07_nothing_is_done_before_a_person_has_approved(cluster: PowerCluster) -> None:
    victim = await deployed(cluster, "web", 12)

    async def waits() -> bool:
        return await reason_of(cluster, victim) == "Approval"

    async def has_begun() -> bool:
        return await failovers(cluster) == [victim]

    async with applied(cluster, "07-approve/check.yaml"):
        async with lost(cluster, victim):
            await expect(cluster, "it waits for approval", waits)
            code, answer = await defib(cluster, "why", victim)
            assert (code, f"defib approve {victim}" in answer) == (0, True)
            assert await failovers(cluster) == []
            assert (await defib(cluster, "approve", victim, "--for", "1h"))[0] == 0
            await expect(cluster, "its remediation has begun", has_begun)
        await expect_gone(cluster)
    await cluster.kubectl("delete", "deployment", "web")

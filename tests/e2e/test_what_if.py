"""Dumps, plans, what-ifs and checks of files, on a real API server: by the commands that a person types."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from defib.clock import SystemClock
from defib.console.check import problems_of
from defib.decide.rules import FailoverRules
from defib.kube.client import Client, Merge
from defib.kube.errors import Invalid, KubeError, Refused
from defib.kube.kinds import LEASES, NAMESPACES, NODE_HEALTH_CHECKS, NODES, PODS, unstructured
from defib.kube.transport import Request
from defib.model import medik8s
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from tests.e2e.crd_cluster import client_of, kubectl, with_crds
from tests.offline_corpus import BAD, GOOD, Body, Sample

pytestmark = [pytest.mark.real, pytest.mark.timeout(120, func_only=True), pytest.mark.asyncio(loop_scope="module")]

PATIENCE_SECONDS = 30.0
AT_ONCE = 8
GROUPS = ("/apis/defib.dev/v1alpha1", "/apis/remediation.medik8s.io/v1alpha1")
TEMPLATES = unstructured(
    "defib.dev", "v1alpha1", "podfailoverremediationtemplates", "PodFailoverRemediationTemplate", namespaced=True
)
ZONE = "topology.kubernetes.io/zone"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs) -> AsyncIterator[ControlPlane]:
    async with with_crds(programs) as cluster:
        await cluster.wait_for_namespace("default")
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin(cluster: ControlPlane) -> AsyncIterator[Client]:
    """Nine nodes in three zones, a1 of them Unknown for an hour; a check with a storm; a StatefulSet's pods in zone b."""
    checks = "/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks"
    async with client_of(cluster, [checks, "/apis/defib.dev/v1alpha1/podfailoverremediationtemplates"]) as client:
        for name in ("defib-system", medik8s.LOCK_NAMESPACE, "kube-node-lease"):
            await _unless_there(client, name)
        for zone in "abc":
            for number in range(1, 4):
                await add_node(client, f"{zone}{number}", zone, is_ready=(zone, number) != ("a", 1))
        template = {"metadata": {"name": "failover"}, "spec": {"template": {"spec": {}}}}
        await client.create(TEMPLATES, template, namespace="defib-system")
        reference = {"apiVersion": TEMPLATES.api_version, "kind": TEMPLATES.name}
        spec = {
            "remediationTemplate": reference | {"namespace": "defib-system", "name": "failover"},
            "maxUnhealthy": "20%",
            "stormCooldownDuration": "10m",
        }
        await client.create(NODE_HEALTH_CHECKS, {"metadata": {"name": "workers"}, "spec": spec})
        for number in (1, 2):
            await client.create(PODS, a_pod(f"db-{number}", f"b{number}"), namespace="default")
        yield client


async def _unless_there(client: Client, name: str) -> None:
    try:
        await client.get(NAMESPACES.at(name))
    except KubeError:
        await client.create(NAMESPACES, {"metadata": {"name": name}})


async def add_node(client: Client, name: str, zone: str, *, is_ready: bool) -> None:
    now = SystemClock().now()
    annotations = {"bmc.example/password": "letmein"}
    await client.create(NODES, {"metadata": {"name": name, "labels": {ZONE: zone}, "annotations": annotations}})
    since = f"{now - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    ready = {"type": "Ready", "status": "True" if is_ready else "Unknown", "lastTransitionTime": since}
    await client.patch(NODES.at(name), Merge({"status": {"conditions": [ready]}}), subresource="status")
    # It lasts for the whole module: no kubelet renews it here.
    renewed = now + timedelta(minutes=4) if is_ready else now - timedelta(hours=1)
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": f"{renewed:%Y-%m-%dT%H:%M:%S.%fZ}"}
    await client.create(LEASES, {"metadata": {"name": name}, "spec": spec}, namespace="kube-node-lease")


def a_pod(name: str, node: str) -> Body:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "db", "controller": True}
    env = [{"name": "DB_PASSWORD", "value": "letmein"}]
    return {
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i", "env": env}]},
    }


async def defib(cluster: ControlPlane, *arguments: str) -> tuple[int | None, str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = {
        "PATH": path,
        "KUBECONFIG": str(cluster.kubeconfig),
        "LANG": "C.UTF-8",
        "HOME": str(cluster.kubeconfig.parent),
    }
    process = await asyncio.create_subprocess_exec(
        str(cluster.kubectl), "defib", *arguments, env=environ, stdout=PIPE, stderr=PIPE
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def answered(cluster: ControlPlane, *arguments: str) -> Any:
    code, out, err = await defib(cluster, *arguments, "-o", "json")
    assert (code, err) == (0, "")
    return msgspec.json.decode(out)


@pytest.mark.usefixtures("admin")
async def test_a_dump_holds_the_failing_node_and_replay_gives_the_same_plan(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    file = str(tmp_path / "d.json.gz")
    dumped = await answered(cluster, "dump", file)
    assert (dumped["nodes"], dumped["pods"], dumped["frames"], dumped["unknown"]) == (9, 2, 1, [])
    live, kept = await answered(cluster, "plan"), await answered(cluster, "plan", "--dump", file)
    assert live["checks"][0]["deeds"][0]["what"].startswith(
        "remediate node a1: create PodFailoverRemediation defib-system/"
    )
    for told in (live, kept):
        assert [deed["action"] for deed in told["checks"][0]["deeds"]] == ["StartRemediation", "WriteStatus"]
        assert [node["node"] for node in told["checks"][0]["nodes"]] == ["a1"]
    code, out, err = await defib(cluster, "replay", file)
    assert (code, err) == (0, "")
    assert "the same is decided at every look" in out


@pytest.mark.usefixtures("admin")
async def test_no_secret_is_in_a_dump(cluster: ControlPlane, tmp_path: Path) -> None:
    file = tmp_path / "d.json.gz"
    assert (await defib(cluster, "dump", str(file)))[0] == 0
    process = await asyncio.create_subprocess_exec("zcat", str(file), stdout=PIPE)
    content, _ = await process.communicate()
    assert b'"bmc.example/password":"redacted"' in content
    assert b"letmein" not in content


@pytest.mark.usefixtures("admin")
async def test_the_loss_of_a_zone_is_held_back_as_a_storm(cluster: ControlPlane, tmp_path: Path) -> None:
    file = str(tmp_path / "d.json.gz")
    await answered(cluster, "dump", file)
    for more in ((), ("--dump", file)):
        told = await answered(cluster, "simulate", "--kill-zone", "b", *more)
        assert told["killed"] == ["b1", "b2", "b3"]
        assert {fate["heldBy"] for fate in told["fates"]} == {"Threshold"}
        assert "gate Storm CLOSES: too many nodes have failed at once: a storm" in [
            one["what"] for one in told["happenings"]
        ]
        assert told["checks"][0]["mostRemediating"] == 1  # a1, which was failing before
        assert [(one["name"], one["lost"], one["of"]) for one in told["blast"]["workloads"]] == [("db", 2, 2)]


@pytest.mark.usefixtures("admin")
async def test_a_recording_holds_what_changes(cluster: ControlPlane, admin: Client, tmp_path: Path) -> None:
    file = str(tmp_path / "d.json.gz")
    async with asyncio.TaskGroup() as group:
        recording = group.create_task(answered(cluster, "dump", file, "--for", "11s"))
        await asyncio.sleep(5)  # its looks are ten seconds apart: in between
        await admin.patch(NODES.at("c3"), Merge({"spec": {"unschedulable": True}}))
    assert recording.result()["frames"] == 3
    told = await answered(cluster, "replay", file)
    assert [one for frame in told["frames"][1:] for one in frame["happened"]] == ["c3 cordoned"]


async def test_somebody_who_may_see_only_nodes_and_checks_gets_what_there_is(
    cluster: ControlPlane, admin: Client, tmp_path: Path
) -> None:
    assert admin
    for verb in ("clusterrole", "clusterrolebinding"):
        words = (
            ("looker", "--verb=get,list", "--resource=nodes,nodehealthchecks.remediation.medik8s.io")
            if verb == "clusterrole"
            else ("looker", "--clusterrole=looker", "--user=ann")
        )
        await kubectl(cluster, "create", verb, *words)
    dumped = await answered(cluster, "dump", str(tmp_path / "d"), "--as", "ann")
    assert dumped["pods"] is None
    assert any(note.startswith("pods could not be read here") for note in dumped["unknown"])
    code, out, err = await defib(cluster, "plan", "--as", "nobody")
    assert (code, out) == (1, "")
    assert 'User "nobody" cannot list resource' in err
    assert "kubectl auth can-i list" in err


async def verdict_of(admin: Client, sample: Sample) -> bool:
    """Whether the API server takes it, strictly, as kubectl asks it to."""
    body = sample.body
    plurals = {"NodeHealthCheck": f"{GROUPS[1]}/nodehealthchecks", "DrainPolicy": f"{GROUPS[0]}/drainpolicies"}
    kind = str(body["kind"])
    plural = "podfailoverpolicies" if kind == "PodFailoverPolicy" else f"{kind.lower()}s"
    path = plurals.get(kind, f"{GROUPS[0]}/namespaces/default/{plural}")
    named = {**body, "metadata": {"name": "sample"}}
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    try:
        await admin.ask(Request(method="POST", path=path, query=query, body=json.dumps(named).encode()))
    except (Invalid, Refused):
        return False
    return True


async def test_check_admits_and_refuses_what_the_api_server_does(admin: Client) -> None:
    """One corpus on both."""
    samples = (*GOOD, *BAD)
    taken: dict[str, bool] = {}
    waiting = iter(samples)

    async def ask() -> None:
        for sample in waiting:
            taken[sample.name] = await verdict_of(admin, sample)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(ask())
    rules = FailoverRules()
    ours = {sample.name: not problems_of(sample.body, rules) for sample in samples}
    assert {name for name, is_taken in taken.items() if is_taken != ours[name]} == set()
    assert {True, False} == set(taken.values())

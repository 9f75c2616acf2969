"""What a person asks and tells by command, on a real API server: with its own words, its own rights, its own kubectl."""

import asyncio
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
from defib.decide.admission import APPROVED_UNTIL
from defib.kube.client import Client, Merge
from defib.kube.errors import NotFound
from defib.kube.http import connect
from defib.kube.kinds import CONFIG_MAPS, NAMESPACES, NODE_HEALTH_CHECKS, NODES, unstructured
from defib.model import medik8s
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from testbed.settings import Settings
from tests.contract.api_server.steps import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(60, func_only=True), pytest.mark.asyncio(loop_scope="module")]

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 20.0
NEEDED = ("deploy/crds/remediation.medik8s.io_nodehealthchecks.yaml", "testbed/crds/test-remediators.yaml")
TEMPLATES = unstructured(
    "test.defib.dev", "v1alpha1", "fooremediationtemplates", "FooRemediationTemplate", namespaced=True
)
REFERENCE = {"apiVersion": TEMPLATES.api_version, "kind": TEMPLATES.name, "namespace": "default", "name": "foo"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs) -> AsyncIterator[ControlPlane]:
    async with ControlPlane(programs, Settings(api_only=True)) as cluster:
        await cluster.wait_for_namespace("default")
        files = [word for path in NEEDED for word in ("-f", str(ROOT / path))]
        code, _, err = await said([str(cluster.kubectl), "apply", *files], cluster.kubeconfig)
        assert code == 0, err
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin(cluster: ControlPlane) -> AsyncIterator[Client]:
    """Five nodes, n1 of them Unknown for an hour; a check that waits for approval."""
    clock = SystemClock()
    client = Client(await connect(cluster.kubeconfig, None, {}, clock), clock)
    await eventually(lambda: is_served(client), within=PATIENCE_SECONDS)
    for name in ("defib-system", medik8s.LOCK_NAMESPACE):
        await client.create(NAMESPACES, {"metadata": {"name": name}})
    await client.create(
        TEMPLATES, {"metadata": {"name": "foo"}, "spec": {"template": {"spec": {}}}}, namespace="default"
    )
    since = f"{clock.now() - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    for number in range(1, 6):
        await client.create(NODES, {"metadata": {"name": f"n{number}"}})
        ready = {"type": "Ready", "status": "Unknown" if number == 1 else "True", "lastTransitionTime": since}
        await client.patch(NODES.at(f"n{number}"), Merge({"status": {"conditions": [ready]}}), subresource="status")
    spec = {"mode": "Approve", "remediationTemplate": REFERENCE}
    await client.create(NODE_HEALTH_CHECKS, {"metadata": {"name": "workers"}, "spec": spec})
    yield client
    await client.close()


async def is_served(client: Client) -> bool:
    try:
        await client.list_all(NODE_HEALTH_CHECKS)
        await client.list_all(TEMPLATES)
    except NotFound:
        return False
    return True


async def said(command: list[str], kubeconfig: Path) -> tuple[int | None, str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = {"PATH": path, "KUBECONFIG": str(kubeconfig), "LANG": "C.UTF-8", "HOME": str(kubeconfig.parent)}
    process = await asyncio.create_subprocess_exec(*command, env=environ, stdout=PIPE, stderr=PIPE)
    async with asyncio.timeout(PATIENCE_SECONDS):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def defib(cluster: ControlPlane, *arguments: str) -> str:
    code, out, err = await said([str(cluster.kubectl), "defib", *arguments], cluster.kubeconfig)
    assert (code, err) == (0, "")
    return out


async def the_case(cluster: ControlPlane, node: str = "n1") -> dict[str, Any]:
    read = msgspec.json.decode(await defib(cluster, "why", node, "-o", "json"))
    assert read["unknown"] == []
    (case,) = read["checks"]
    return dict(case)


@pytest.mark.usefixtures("admin")
async def test_kubectl_defib_why_explains_a_node(cluster: ControlPlane) -> None:
    out = await defib(cluster, "why", "n1")
    assert "CLOSED  Approval" in out
    assert "it goes on when a person approves it: defib approve n1" in out
    assert (await the_case(cluster, "n2"))["state"] == "Healthy"


async def test_the_brake_holds_everything_back_until_it_is_let_go(cluster: ControlPlane, admin: Client) -> None:
    assert (await defib(cluster, "pause", "--reason", "storage")).endswith(
        "by admin: storage; defib resume lets it go on\n"
    )
    assert (await the_case(cluster))["message"] == "the brake is on: storage (admin)"
    assert "paused already" in await defib(cluster, "pause")
    # As somebody would who has only kubectl at hand.
    brake = CONFIG_MAPS.at("defib-brake", "defib-system")
    await admin.patch(brake, Merge({"data": {"reason": "edited"}}))
    assert (await defib(cluster, "resume")).startswith("Defib goes on; it was paused since ")
    noted = (await admin.get(brake)).data or {}
    assert (noted["paused"], noted["reason"], noted["by"], noted["resumedBy"]) == ("false", "edited", "admin", "admin")
    assert (await the_case(cluster))["reason"] == "Approval"
    await defib(cluster, "pause")
    assert sorted((await admin.get(brake)).data or {}) == ["by", "paused", "reason", "since"]
    await defib(cluster, "resume")


async def test_an_approval_is_written_on_the_node(cluster: ControlPlane, admin: Client) -> None:
    out = await defib(cluster, "approve", "n1", "--for", "10m")
    assert "check workers (Unhealthy): the operator creates FooRemediation default/n1 at once" in out
    assert (await admin.get(NODES.at("n1"))).annotations[APPROVED_UNTIL] in out
    assert (await the_case(cluster))["reason"] == "Starting"


@pytest.mark.usefixtures("admin")
@pytest.mark.parametrize(
    ("arguments", "right"),
    [
        (("why", "n1"), "kubectl auth can-i list nodes"),
        (("pause",), "kubectl auth can-i get configmaps/defib-brake -n defib-system"),
        (("resume",), "kubectl auth can-i get configmaps/defib-brake -n defib-system"),
        (("approve", "n1"), "kubectl auth can-i list nodes"),
    ],
)
async def test_who_may_not_is_told_what_to_ask_for(
    cluster: ControlPlane, arguments: tuple[str, ...], right: str
) -> None:
    code, out, err = await said([str(cluster.kubectl), "defib", *arguments], cluster.restricted_kubeconfig)
    assert (code, out) == (1, "")
    assert 'User "restricted" cannot' in err
    assert right in err
    assert err.count("\n") == 1

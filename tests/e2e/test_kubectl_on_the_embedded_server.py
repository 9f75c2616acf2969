"""The real kubectl against the embedded server: what a person does in the demo."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from defib.clock import SystemClock
from defib.simulate import controllers
from defib.simulate.http import serving
from defib.simulate.server import ApiServer
from tests.unit.simulate.asking import a_pod

pytestmark = pytest.mark.real

Run = Callable[..., Awaitable[str]]

MANIFEST = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {node-role.kubernetes.io/worker: ""}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: default}
data: {color: COLOR}
"""
WIDGETS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: widgets, kind: Widget, shortNames: [wd]}
  versions:
    - name: v1
      served: true
      storage: true
      additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
      schema:
        openAPIV3Schema:
          type: object
          properties: {spec: {type: object, properties: {size: {type: integer, description: How big it is.}}}}
"""
WIDGET = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {size: 7}\n"


@pytest.fixture
def server() -> ApiServer:
    made = ApiServer(SystemClock())
    controllers.attach(made)
    return made


@pytest.fixture
async def run(server: ApiServer, kubectl: Path, tmp_path: Path) -> AsyncIterator[Run]:
    async with serving(server) as front:
        environment = {
            "KUBECONFIG": str(front.write_kubeconfig(tmp_path / "kubeconfig")),
            "HOME": str(tmp_path),
            "PATH": os.environ["PATH"],
        }

        async def kubectl_with(*arguments: str, stdin: str = "") -> str:
            process = await asyncio.create_subprocess_exec(
                kubectl,
                *arguments,
                env=environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            async with asyncio.timeout(15):
                said, _ = await process.communicate(stdin.encode())
            assert process.returncode == 0, said.decode()
            return said.decode()

        yield kubectl_with


async def test_apply_creates_then_keeps_then_changes(run: Run) -> None:
    for color, said in (("red", "configmap/settings created"), ("red", "unchanged"), ("blue", "configured")):
        assert said in await run("apply", "-f", "-", stdin=MANIFEST.replace("COLOR", color))
    assert "serverside-applied" in await run(
        "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=MANIFEST.replace("COLOR", "green")
    )
    assert await run("get", "cm", "settings", "-o", "jsonpath={.data.color}") == "green"


async def test_a_node_is_labelled_tainted_cordoned_and_described(run: Run, server: ApiServer) -> None:
    server.put("nodes", {"metadata": {"name": "n1"}})
    await run("label", "node", "n1", "zone=a")
    await run("annotate", "node", "n1", "note=x")
    await run("taint", "node", "n1", "key=value:NoSchedule")
    await run("cordon", "n1")
    assert "SchedulingDisabled" in await run("get", "nodes", "-l", "zone=a")
    described = await run("describe", "node", "n1")
    assert "key=value:NoSchedule" in described
    await run("uncordon", "n1")
    await run("taint", "node", "n1", "key-")
    assert "Taints:             <none>" in await run("describe", "node", "n1")


async def test_a_drain_evicts_and_a_rollout_and_scale_reach_the_workload(run: Run, server: ApiServer) -> None:
    server.put("nodes", {"metadata": {"name": "n1"}})
    pod = a_pod("p1")
    pod["metadata"]["namespace"] = "default"
    server.put("pods", pod)
    assert "n1" in await run("get", "pods", "-o", "wide")
    assert "node/n1 drained" in await run("drain", "n1", "--force", "--grace-period=0", "--timeout=10s")
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    server.put("deployments.apps", {"metadata": {"name": "d", "namespace": "default"}, "spec": spec})
    await run("scale", "deploy", "d", "--replicas=5")
    await run("rollout", "restart", "deploy/d")
    assert "0/5" in await run("get", "deploy", "d")


async def test_a_custom_kind_is_shown_with_its_columns_and_explained(run: Run) -> None:
    await run("apply", "-f", "-", stdin=WIDGETS)
    await run("apply", "-f", "-", stdin=WIDGET)
    assert (await run("get", "wd")).split() == ["NAME", "SIZE", "w", "7"]
    assert "How big it is." in await run("explain", "widgets.spec.size")
    assert "deleted" in await run("delete", "widgets", "w")


async def test_namespaces_come_and_go_with_their_content(run: Run) -> None:
    await run("create", "namespace", "team")
    await run("create", "configmap", "c", "-n", "team", "--from-literal=k=v")
    assert "deleted" in await run("delete", "namespace", "team")
    assert "team" not in await run("get", "ns")


async def test_kubectl_may_ask_what_it_may_do(run: Run) -> None:
    assert (await run("auth", "can-i", "get", "pods")).strip() == "yes"

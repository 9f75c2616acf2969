"""What makes a cluster one in which nodes are remediated: the kinds as they are installed, a template, and one check."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from defib.clock import SystemClock
from defib.kube.client import Client, Merge
from defib.kube.errors import NotFound
from defib.kube.http import connect
from defib.kube.kinds import NODE_HEALTH_CHECKS, Kind, unstructured
from defib.kube.transport import Request
from defib.model.health_check import CheckStatus
from defib.model.meta import Unstructured
from testbed.cluster import ControlPlane
from tests.bench.processes import ROOT, BenchFailed

MANIFESTS = ("deploy/install.yaml", "testbed/crds/test-remediators.yaml")
GROUP, VERSION = "test.defib.dev", "v1alpha1"
TEMPLATES = unstructured(GROUP, VERSION, "fooremediationtemplates", "FooRemediationTemplate", namespaced=True)
REMEDIATIONS = unstructured(GROUP, VERSION, "fooremediations", "FooRemediation", namespaced=True)
NAMESPACE = "default"
NAME = "bench"

UNHEALTHY_AFTER_SECONDS = 20
INSTALLED_WITHIN = 60.0
SERVED_WITHIN = 30.0
LOOK_EVERY = 0.2


def _reference(kind: Kind[Unstructured]) -> dict[str, str]:
    return {"apiVersion": kind.api_version, "kind": kind.name, "namespace": NAMESPACE, "name": NAME}


CHECK = {
    "metadata": {"name": NAME},
    "spec": {
        "unhealthyConditions": [
            {"type": "Ready", "status": status, "duration": f"{UNHEALTHY_AFTER_SECONDS}s"}
            for status in ("False", "Unknown")
        ],
        "remediationTemplate": _reference(TEMPLATES),
    },
}
TEMPLATE = {"metadata": {"name": NAME}, "spec": {"template": {"spec": {"strategy": "reboot"}}}}


class Ward:
    """The check, and what its status says."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def install(self, cluster: ControlPlane) -> None:
        files = [text for path in MANIFESTS for text in ("-f", str(ROOT / path))]
        await kubectl(cluster, "apply", *files)
        await cluster.wait_for_namespace(NAMESPACE)
        await self._until_served()
        await self.client.create(TEMPLATES, TEMPLATE, namespace=NAMESPACE)
        await self.client.create(NODE_HEALTH_CHECKS, CHECK)

    async def remediate_by(self, kind: Kind[Unstructured], template: Mapping[str, Any]) -> None:
        """From now on by another template. Nothing may be under way."""
        await self.client.create(kind, template, namespace=NAMESPACE)
        spec = {"remediationTemplate": _reference(kind)}
        await self.client.patch(NODE_HEALTH_CHECKS.at(NAME), Merge({"spec": spec}))

    async def status(self) -> CheckStatus:
        item = await self.client.get(NODE_HEALTH_CHECKS.at(NAME))
        return msgspec.convert(item.status or {}, CheckStatus)

    async def until(self, what: str, holds: Callable[[CheckStatus], bool], within: float) -> None:
        said = CheckStatus()
        try:
            async with asyncio.timeout(within):
                while not holds(said := await self.status()):  # noqa: ASYNC110  another process writes it
                    await asyncio.sleep(LOOK_EVERY)
        except TimeoutError:
            raise BenchFailed(
                f"the check did not say within {within:.0f} s that {what}; it says {_short(said)}"
            ) from None

    async def _until_served(self) -> None:
        """The API server learns of a kind a moment after it took its definition."""
        try:
            async with asyncio.timeout(SERVED_WITHIN):
                for kind in (TEMPLATES, REMEDIATIONS, NODE_HEALTH_CHECKS):
                    while not await self._is_served(kind.collection()):  # noqa: ASYNC110  the server does not tell
                        await asyncio.sleep(LOOK_EVERY)
        except TimeoutError:
            raise BenchFailed(f"the new kinds were not served within {SERVED_WITHIN:.0f} s") from None

    async def _is_served(self, path: str) -> bool:
        try:
            await self.client.ask(Request(method="GET", path=path))
        except NotFound:
            return False
        return True


@asynccontextmanager
async def warded(cluster: ControlPlane) -> AsyncIterator[Ward]:
    clock = SystemClock()
    client = Client(await connect(cluster.kubeconfig, None, os.environ, clock), clock)
    try:
        ward = Ward(client)
        await ward.install(cluster)
        yield ward
    finally:
        await client.close()


def all_watched(nodes: int) -> Callable[[CheckStatus], bool]:
    """Every node is known, healthy, and left alone."""
    return lambda status: status.phase == "Enabled" and status.healthy_nodes == nodes and not status.unhealthy_nodes


def all_remediated(nodes: int) -> Callable[[CheckStatus], bool]:
    """So many nodes are unhealthy, and each of them has its remediation."""
    return lambda status: (
        status.phase == "Remediating" and sum(bool(one.remediations) for one in status.unhealthy_nodes or ()) == nodes
    )


def _short(status: CheckStatus) -> str:
    return (
        f"{status.phase or 'nothing'}: {status.reason}; {status.healthy_nodes} of {status.observed_nodes} healthy, "
        f"{len(status.unhealthy_nodes or ())} unhealthy"
    )


async def kubectl(cluster: ControlPlane, *arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(
        cluster.kubectl,
        f"--kubeconfig={cluster.kubeconfig}",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(INSTALLED_WITHIN):
            said, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise BenchFailed(f"kubectl {arguments[0]} was not done within {INSTALLED_WITHIN:.0f} s") from None
    if process.returncode:
        raise BenchFailed(f"kubectl {arguments[0]} failed: {said.decode(errors='replace')}")

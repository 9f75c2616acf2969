"""A fleet as large as one likes, on the embedded API server over HTTP: its nodes are only objects, of the size real ones have."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import yaml

from defib.clock import SystemClock
from defib.kube.transport import MERGE_PATCH, Request
from defib.model import medik8s
from defib.model.incident import INCIDENTS
from defib.simulate.http import serving
from defib.simulate.kinds.crds import DEFINITIONS
from defib.simulate.patches.patching import STRATEGIC_PATCH
from defib.simulate.server import ApiServer
from tests.bench.fleet import (
    HEARTBEAT_NAMESPACE,
    a_failure,
    a_heartbeat,
    a_node,
    a_pod,
    a_renewal,
    a_running_pod,
    a_taint,
    name_of,
)

CRDS = sorted((Path(__file__).parents[2] / "deploy" / "crds").glob("*.yaml"))
HOME = "defib-system"
BEAT_SECONDS = 10.0
BEATS_AT_A_TIME = 20
LOOK_SECONDS = 0.1
_CREDENTIALS = {key: base64.b64encode(b"demo").decode() for key in ("username", "password")}
POD_FAILOVER, POWER_CYCLE = "PodFailoverRemediation", "PowerCycleRemediation"

Object = dict[str, Any]


class Remedy(msgspec.Struct, frozen=True):
    """By what the check over all nodes goes."""

    kind: str = POD_FAILOVER
    spec: Object = {}

    def template(self) -> Object:
        return {"metadata": {"name": "t", "namespace": HOME}, "spec": {"template": {"spec": self.spec}}}

    def check(self) -> Object:
        reference = {"apiVersion": "defib.dev/v1alpha1", "kind": f"{self.kind}Template", "name": "t", "namespace": HOME}
        spec = {
            "selector": {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]},
            "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "duration": "1s"}],
            "remediationTemplate": reference,
        }
        return {"metadata": {"name": "all"}, "spec": spec}


FAILOVER = Remedy()


class Fleet:
    def __init__(self, nodes: int, remedy: Remedy) -> None:
        self._clock = SystemClock()
        self._nodes = nodes
        self._silent: set[int] = set()
        self._remediations = f"{remedy.kind.lower()}s.defib.dev"
        self.server = ApiServer(self._clock)
        self.kubeconfig = Path()
        for definition in CRDS:
            self.server.put(DEFINITIONS, yaml.safe_load(definition.read_text()))
        for name in (HOME, medik8s.LOCK_NAMESPACE):
            self.server.put("namespaces", {"metadata": {"name": name}})
        self.server.put("secrets", {"metadata": {"name": "bmc", "namespace": HOME}, "data": _CREDENTIALS})
        self.server.put(f"{remedy.kind.lower()}templates.defib.dev", remedy.template())
        self.server.put(medik8s.CHECKS, remedy.check())
        for number in range(nodes):
            self.server.put("nodes", a_node(number))
            self.server.put("leases.coordination.k8s.io", a_heartbeat(number, self._clock.now()))

    def run_pods(self, numbers: Iterable[int], each: int) -> None:
        for number in numbers:
            for place in range(each):
                self.server.put("pods", a_pod(number, place) | a_running_pod(self._clock.now()))

    def fail(self, numbers: Iterable[int]) -> None:
        """Their kubelets fall silent, and the node lifecycle controller has seen it."""
        for number in numbers:
            self._silent.add(number)
            self._patch(f"/api/v1/nodes/{name_of(number)}/status", a_failure(self._clock.now()))
            self._patch(f"/api/v1/nodes/{name_of(number)}", a_taint(self._clock.now()))

    def all(self, resource: str) -> list[Object]:
        return [version.object for version in self.server.store.collection(resource).objects.values()]

    async def until_remediated(self, nodes: int, within: float = 60.0) -> None:
        """Each has its remediation, and its pods are asked to leave: kubelets that would end them there are none."""
        async with asyncio.timeout(within):
            while self.remediations() < nodes or any(_stays(pod) for pod in self.all("pods")):  # noqa: ASYNC110  another process does it
                await asyncio.sleep(LOOK_SECONDS)

    async def until_in_phase(self, phase: str, nodes: int, within: float = 60.0) -> None:
        """So many incidents of power cycles have come so far."""
        async with asyncio.timeout(within):
            while sum((one.get("status") or {}).get("phase") == phase for one in self.all(INCIDENTS)) < nodes:  # noqa: ASYNC110  another process writes it
                await asyncio.sleep(LOOK_SECONDS)

    async def until_watched(self, within: float = 60.0) -> None:
        """All nodes are known to the check, as its status says."""
        async with asyncio.timeout(within):
            while self._observed() < self._nodes:  # noqa: ASYNC110  another process writes it
                await asyncio.sleep(LOOK_SECONDS)

    def remediations(self) -> int:
        return len(self.all(self._remediations))

    def _observed(self) -> int:
        (check,) = self.all(medik8s.CHECKS)
        return int((check.get("status") or {}).get("observedNodes", 0))

    async def beat(self) -> None:
        """Every node renews its Lease, one after the other."""
        while True:
            for number in range(self._nodes):
                if number not in self._silent:
                    path = f"/apis/coordination.k8s.io/v1/namespaces/{HEARTBEAT_NAMESPACE}/leases/{name_of(number)}"
                    self._patch(path, a_renewal(self._clock.now()), MERGE_PATCH)
                if number % BEATS_AT_A_TIME == 0:
                    await asyncio.sleep(BEAT_SECONDS * BEATS_AT_A_TIME / self._nodes)  # spread, as kubelets are

    def _patch(self, path: str, body: Object, content_type: str = STRATEGIC_PATCH) -> None:
        request = Request(method="PATCH", path=path, body=msgspec.json.encode(body), content_type=content_type)
        answer = self.server.answer(request, "kubelet")
        assert answer.status == 200, answer.body


def _stays(pod: Object) -> bool:
    return "deletionTimestamp" not in pod["metadata"]


@asynccontextmanager
async def a_fleet(nodes: int, directory: Path, remedy: Remedy = FAILOVER) -> AsyncIterator[Fleet]:
    fleet = await asyncio.to_thread(Fleet, nodes, remedy)
    async with serving(fleet.server) as front, asyncio.TaskGroup() as group:
        fleet.kubeconfig = await asyncio.to_thread(front.write_kubeconfig, directory / "kubeconfig")
        beating = group.create_task(fleet.beat())
        yield fleet
        beating.cancel()

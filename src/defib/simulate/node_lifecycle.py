"""The part of the controller manager that gives a silent node up, for clusters that have no controller manager.

It looks at every node once per period: one whose Lease has not been renewed within the grace becomes Unknown and is
tainted as unreachable; one that speaks again loses the taints.
"""

import asyncio
from datetime import datetime
from typing import Any, NoReturn

import structlog

from defib.clock import Clock
from defib.hollow.pod_status import timestamp
from defib.hollow.timers import Timers
from defib.kube.client import Client, Merge, Scope
from defib.kube.errors import KubeError
from defib.kube.kinds import LEASES, unstructured
from defib.model.cluster import HEARTBEAT_NAMESPACE
from defib.model.meta import Unstructured
from defib.model.node import Lease

log = structlog.get_logger("lifecycle")

RAW_NODES = unstructured("", "v1", "nodes", "Node", namespaced=False)
KUBELETS_OWN = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"
EFFECTS = ("NoSchedule", "NoExecute")
SILENT = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
DEADLINE_SECONDS = 10.0


class NodeLifecycle:
    def __init__(self, client: Client, clock: Clock, timers: Timers) -> None:
        self._client = client
        self._clock = clock
        self._timers = timers
        # A Lease's own time is another machine's clock; what counts is when we saw it change.
        self._heard: dict[str, tuple[datetime | None, float]] = {}

    async def run(self) -> NoReturn:
        while True:
            try:
                await self._look()
            except KubeError as error:
                log.debug("round failed", why=str(error))
            await asyncio.sleep(self._timers.monitor_seconds)

    async def _look(self) -> None:
        leases = await self._client.list_all(LEASES, Scope(namespace=HEARTBEAT_NAMESPACE), deadline=DEADLINE_SECONDS)
        by_name = {lease.name: lease for lease in leases.items}
        nodes = await self._client.list_all(RAW_NODES, deadline=DEADLINE_SECONDS)
        for node in nodes.items:
            await self._try_to_judge(node, self._is_silent(node.name, by_name.get(node.name)))

    def _is_silent(self, name: str, lease: Lease | None) -> bool:
        renewed, now = lease.spec.renew_time if lease else None, self._clock.monotonic()
        known, since = self._heard.get(name, (None, now))
        if name not in self._heard or known != renewed:
            self._heard[name] = renewed, now
            return False
        return now - since > self._timers.grace_seconds

    async def _try_to_judge(self, node: Unstructured, silent: bool) -> None:
        """What cannot be written about one node, or was written by somebody else meanwhile, waits for the next round."""
        try:
            await self._judge(node, silent)
        except KubeError as error:
            log.debug("node not judged", node=node.name, why=str(error))

    async def _judge(self, node: Unstructured, silent: bool) -> None:
        version = {"metadata": {"resourceVersion": node.metadata.resource_version}}
        if silent and (unknown := _unknown(node, self._clock.now())):
            patch = Merge(version | {"status": {"conditions": unknown}})
            node = await self._client.patch(RAW_NODES.of(node), patch, subresource="status", deadline=DEADLINE_SECONDS)
            version = {"metadata": {"resourceVersion": node.metadata.resource_version}}
        taints = taints_due(node, self._clock.now())
        if taints != _known_taints(node):
            patch = Merge(version | {"spec": {"taints": taints}})
            await self._client.patch(RAW_NODES.of(node), patch, deadline=DEADLINE_SECONDS)


def _unknown(node: Unstructured, now: datetime) -> list[dict[str, Any]]:
    """What the kubelet says as Unknown, what others say as it is; nothing when all that is so already."""
    known = _conditions(node)
    if not any(condition["status"] != "Unknown" for condition in known if condition["type"] in KUBELETS_OWN):
        return []
    unknown = SILENT | {"status": "Unknown", "lastTransitionTime": timestamp(now)}
    return [condition | unknown if condition["type"] in KUBELETS_OWN else condition for condition in known]


def taints_due(node: Unstructured, now: datetime) -> list[dict[str, Any]]:
    """The taints that the Ready condition asks for, besides those that are none of our business."""
    ready = next((c["status"] for c in _conditions(node) if c["type"] == "Ready"), "Unknown")
    wanted = {"Unknown": UNREACHABLE, "False": NOT_READY}.get(ready, "")
    known = _known_taints(node)
    kept = [taint for taint in known if taint["key"] not in {UNREACHABLE, NOT_READY} or taint["key"] == wanted]
    present = {(taint["key"], taint["effect"]) for taint in kept}
    missing = [effect for effect in EFFECTS if wanted and (wanted, effect) not in present]
    return kept + [{"key": wanted, "effect": effect, "timeAdded": timestamp(now)} for effect in missing]


def _conditions(node: Unstructured) -> list[dict[str, Any]]:
    return (node.status or {}).get("conditions") or []


def _known_taints(node: Unstructured) -> list[dict[str, Any]]:
    return (node.spec or {}).get("taints") or []

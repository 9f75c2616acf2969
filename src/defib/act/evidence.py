"""Asking after a node that has fallen silent: its heartbeat as the API server has it now, its kubelet, its neighbours',

whoever else was installed to be asked, and, where that could change what is thought, the event log of its BMC.
"""

import asyncio
from ipaddress import ip_address
from typing import Any

from defib.act.means import Means, side_by_side
from defib.act.outcome import EvidenceGathered, Outcome, Stale
from defib.act.power import read_log
from defib.kube.errors import KubeError
from defib.kube.kinds import LEASES, unstructured
from defib.model.cluster import HEARTBEAT_NAMESPACE
from defib.model.evidence import Evidence, GatherEvidence, Says, Source
from defib.model.node import Lease
from defib.power.event_log import says as log_says
from defib.power.kubelet import PORT

KUBELET_SECONDS = 2.0  # one that lives answers in milliseconds; a lost packet is sent again after one second
NODES_WITH_ADDRESSES = unstructured("", "v1", "nodes", "Node", namespaced=False)


async def gather_evidence(means: Means, action: GatherEvidence) -> Outcome:
    at = means.clock.now()
    node, lease = await side_by_side(
        means.live(NODES_WITH_ADDRESSES.at(action.node)), means.live(LEASES.at(action.node, HEARTBEAT_NAMESPACE))
    )
    if node is None or node.uid != action.node_uid:
        return Stale(f"node {action.node} is gone, or another one now")
    heartbeat = Evidence(Source.HEARTBEAT, _of_heartbeat(lease, action), at)
    if heartbeat.says is Says.RENEWED:
        return EvidenceGathered((heartbeat,))
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(_of_kubelet(means, node.status or {}))
        near = [group.create_task(_of_neighbour(means, name)) for name in action.neighbours]
        others = group.create_task(means.drivers.witnesses.ask(action.node, KUBELET_SECONDS))
        log = group.create_task(_of_log(means, action))
    said = {
        Source.KUBELET: asked.result(),
        Source.NEIGHBOURS: (_of_most([one.result() for one in near]), ""),
        Source.OTHERS: others.result(),
        Source.LOG: log.result(),
    }
    return EvidenceGathered(
        (heartbeat, *(Evidence(source, word[0], at, word[1]) for source, word in said.items() if word is not None))
    )


async def _of_log(means: Means, action: GatherEvidence) -> tuple[Says, str] | None:
    """None where nobody wants to know."""
    if action.log is None or action.heard is None:
        return None
    try:
        return log_says(await read_log(means, action.node, action.log), action.heard)
    except KubeError as error:  # the way to the BMC leads through a Secret
        return Says.UNKNOWN, str(error)


async def _of_neighbour(means: Means, name: str) -> Says:
    """One that cannot be looked up says nothing: a silent one is to be asked after, not this one."""
    try:
        node = await means.live(NODES_WITH_ADDRESSES.at(name))
    except KubeError:
        return Says.UNKNOWN
    says, _ = await _of_kubelet(means, (node.status if node is not None else None) or {})
    return says


def _of_most(said: list[Says]) -> Says:
    heard = [one for one in said if one is not Says.UNKNOWN]
    if not heard:
        return Says.UNKNOWN
    alive = sum(one is not Says.SILENT for one in heard)  # whoever refuses is there, too
    return Says.ANSWERS if 2 * alive > len(heard) else Says.SILENT


def _of_heartbeat(lease: Lease | None, action: GatherEvidence) -> Says:
    if lease is None:
        return Says.UNKNOWN
    return Says.SAME if lease.spec.renew_time == action.renewed else Says.RENEWED


async def _of_kubelet(means: Means, status: dict[str, Any]) -> tuple[Says, str]:
    address = _address(status)
    if not address:
        return Says.UNKNOWN, "the node has no address"
    return await means.drivers.ask_kubelet(address, _port(status), KUBELET_SECONDS)


def _address(status: dict[str, Any]) -> str:
    listed = status.get("addresses")
    found = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    named = (str(one.get("address", "")) for one in found if one.get("type") == "InternalIP")
    return next((address for address in named if _is_address(address)), "")


def _is_address(text: str) -> bool:
    """A name would be looked up, by whoever and for however long."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _port(status: dict[str, Any]) -> int:
    endpoints = status.get("daemonEndpoints")
    endpoint = endpoints.get("kubeletEndpoint") if isinstance(endpoints, dict) else None
    port = endpoint.get("Port") if isinstance(endpoint, dict) else None
    return port if isinstance(port, int) and 0 < port < 2**16 else PORT

"""What the cluster itself says of the machine under a silent node: its Machine, and its BareMetalHost, where they are watched.

They are remarks for a person, but for one: a host that the baremetal operator found to be off after the last heartbeat.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from defib.decide.fencing.hosts import host_on
from defib.decide.fencing.machines import machines_in, text_in
from defib.model.cluster import Cluster
from defib.model.evidence import Evidence, Says, Source
from defib.model.meta import Unstructured
from defib.model.metal3 import why_untouchable
from defib.model.power import FenceCheck, PowerState

DETAIL_MAX = 200


def said_of_machine(node: str, fence: FenceCheck | None, heard: datetime, cluster: Cluster) -> Iterator[Evidence]:
    """`fence` is what its driver told: where that knows the power, nobody else is believed."""
    for machine in machines_in(cluster):
        if machine.node != node:
            continue
        if machine.item.metadata.deletion_timestamp is not None:
            yield _remark(f"{machine.target} is being deleted", cluster)
        elif (phase := text_in(machine.item.status, "phase")) == "Failed":
            yield _remark(f"{machine.target} is {phase}", cluster)
    host = host_on(fence.path if fence is not None else None, cluster)
    if host is None or fence is None:
        return
    if error := text_in(host.status, "errorMessage") or text_in(host.status, "errorType"):
        yield _remark(f"BareMetalHost {host.key}: {error}", cluster)
    if fence.state is PowerState.UNKNOWN and _went_off(host, heard, cluster.now):
        yield Evidence(Source.POWER, Says.OFF, cluster.now, f"BareMetalHost {host.key} has gone off")


def _went_off(host: Unstructured, heard: datetime, now: datetime) -> bool:
    """Its status changed after the node was last heard, and says off: what it said before may be a poll that is old."""
    status: dict[str, Any] = host.status or {}
    if status.get("poweredOn") is not False or status.get("errorType") or why_untouchable(host):
        return False
    try:
        updated = msgspec.convert(status.get("lastUpdated"), datetime)
    except msgspec.ValidationError:
        return False
    return updated.tzinfo is not None and heard < updated <= now


def _remark(text: str, cluster: Cluster) -> Evidence:
    return Evidence(Source.MACHINE, Says.UNKNOWN, cluster.now, text[:DETAIL_MAX])

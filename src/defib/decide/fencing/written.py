"""What is written into the incident of a power cycle so that people can read it later: how it began, went on and ended."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

import msgspec

from defib.decide.accounts.facts import FactsOf
from defib.decide.accounts.news import on_node
from defib.decide.accounts.timeline import lasted, said_short
from defib.decide.fencing.order import Order, cause_of
from defib.decide.ground import is_control_plane
from defib.model import medik8s
from defib.model.action import OpenIncident, Target
from defib.model.cluster import Cluster
from defib.model.incident import (
    MESSAGE_MAX,
    TIMELINE_MAX,
    US,
    Entry,
    EntryKind,
    IncidentSpec,
    IncidentStatus,
    NodeIncident,
    Phase,
)
from defib.model.reasons import EventReason

# What is entered by all others is something that is done.
_KINDS: Mapping[Phase, EntryKind] = MappingProxyType(
    {
        Phase.FREEING: EntryKind.PROOF,
        Phase.RESTING: EntryKind.DECISION,
        Phase.CANCELLING: EntryKind.DECISION,
        Phase.REPLACING: EntryKind.DECISION,
        Phase.NEEDS_PERSON: EntryKind.DECISION,
        Phase.CLOSED: EntryKind.END,
    }
)


def opening(order: Order, cluster: Cluster, facts: FactsOf, instead_of: Target | None) -> OpenIncident:
    node = cluster.nodes.get(order.node)
    check = order.lock_holder.removeprefix(medik8s.holder_of(""))
    is_of_check = check != order.lock_holder
    spec = msgspec.structs.replace(
        facts(check, order.node) if is_of_check else IncidentSpec(),
        node=order.node,
        cause=cause_of(order.cause),
        control_plane=node is not None and is_control_plane(node),
    )
    told = f"{order.cause} asks for a power cycle; see NodeIncident {order.name}"
    return OpenIncident(
        node=order.name,
        body={"metadata": {"name": order.name}, "spec": {"node": order.node, **msgspec.to_builtins(spec)}},
        instead_of=instead_of,
        tells=on_node(node, EventReason.INCIDENT_OPENED, told, cluster.now),
    )


def timeline(status: IncidentStatus, phase: Phase, message: str, now: datetime) -> list[Entry]:
    """With one entry more. Whoever writes it down puts their name in."""
    kind = _KINDS.get(phase, EntryKind.ACTION)
    entry = Entry(at=now, phase=phase, message=message[:MESSAGE_MAX], kind=kind.value, by=US)
    return [*(status.timeline or ()), entry][-TIMELINE_MAX:]


def ending(incident: NodeIncident, now: datetime) -> dict[str, Any]:
    length = lasted(incident, now)
    return {"closed_at": now, "seconds": round(length.total_seconds(), 3), "took": said_short(length)}

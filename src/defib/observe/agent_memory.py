"""What the lists of agents told, one after the other. It is lost with the process, and then everything is waited for anew."""

import math
from datetime import datetime

import msgspec

from defib.model.agents import AgentSeen, AgentsListed, AgentsSeen
from defib.model.node import Lease
from defib.model.self_fence import Order, domain_of, node_of, read_order, read_report


class _Known(msgspec.Struct, frozen=True, kw_only=True):
    """`renewed_after` and `renewed_before` enclose its newest renewal; `ordered` is when its order was first seen to stand."""

    lease: Lease
    order: Order | None
    renewed_after: float
    renewed_before: float
    ordered: float


class AgentMemory:
    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._last: AgentsListed | None = None

    def heard(self, listed: AgentsListed) -> None:
        last = self._last
        since = last.asked if last is not None else -math.inf
        self._known = {
            lease.name: _after(self._known.get(lease.name), lease, since, listed.answered) for lease in listed.leases
        }
        self._last = listed

    def forget(self) -> None:
        self._known, self._last = {}, None

    def seen(self, now: datetime, monotonic: float) -> AgentsSeen | None:
        """None while nobody has listened."""
        last = self._last
        if last is None:
            return None
        return AgentsSeen(
            at=last.at,
            by_node={node_of(one.lease): _seen(one, now, monotonic, last) for one in self._known.values()},
        )


def _after(before: _Known | None, lease: Lease, since: float, answered: float) -> _Known:
    order = read_order(lease)
    if before is None or before.lease.uid != lease.uid:
        return _Known(lease=lease, order=order, renewed_after=-math.inf, renewed_before=answered, ordered=answered)
    is_renewed = before.lease.spec.renew_time != lease.spec.renew_time
    return _Known(
        lease=lease,
        order=order,
        renewed_after=since if is_renewed else before.renewed_after,
        renewed_before=answered if is_renewed else before.renewed_before,
        ordered=before.ordered if before.order == order else answered,
    )


def _seen(known: _Known, now: datetime, monotonic: float, last: AgentsListed) -> AgentSeen:
    created = known.lease.metadata.creation_timestamp
    has_order = known.order is not None
    silent_seconds = monotonic - known.renewed_after
    renewed_at = known.lease.spec.renew_time
    said_seconds = (now - renewed_at).total_seconds() if renewed_at is not None else math.inf
    return AgentSeen(
        domain=domain_of(known.lease),
        report=read_report(known.lease),
        order=known.order,
        known_seconds=(now - created).total_seconds() if created is not None else 0.0,
        silent_seconds=silent_seconds,
        renewed_seconds=silent_seconds if math.isfinite(silent_seconds) else said_seconds,
        quiet_seconds=max(0.0, last.asked - known.renewed_before),
        ordered_seconds=max(0.0, last.asked - known.ordered) if has_order else 0.0,
    )

"""The record of a drain: made, kept up to date, told of, and dropped when the drain is over."""

from datetime import datetime
from typing import Any

import msgspec

from defib.decide.drains.standing import Standing
from defib.decide.drains.survey import Drained, Known, Record
from defib.decide.rules import INSTANT
from defib.model.action import ReportRemediation, Target, TellEvent
from defib.model.cluster import Cluster
from defib.model.drain_action import DropDrain, OpenDrain
from defib.model.drain_policy import POLICY, Times
from defib.model.duration import say
from defib.model.meta import Unstructured
from defib.model.node_drain import DRAIN, DrainStatus, Phase
from defib.model.reasons import EventReason

_FIELDS = tuple(field.encode_name for field in msgspec.structs.fields(DrainStatus))
_EVENTS = {
    Phase.FORCING: EventReason.DRAIN_FORCING,
    Phase.HELD: EventReason.DRAIN_HELD,
    Phase.OBSERVED: EventReason.DRAIN_OBSERVED,
    Phase.APPROVAL: EventReason.DRAIN_WAITS_FOR_APPROVAL,
    Phase.DRAINED: EventReason.DRAIN_ENDED,
    Phase.PAUSED: EventReason.DRAIN_PAUSED,
}
_WARNINGS = frozenset({Phase.HELD, Phase.APPROVAL})


def new_record(drained: Drained) -> OpenDrain:
    owner = drained.known.item
    body: dict[str, Any] = {
        "apiVersion": DRAIN.api_version,
        "kind": DRAIN.name,
        "metadata": {
            "name": drained.node.name,
            "ownerReferences": [
                {"apiVersion": POLICY.api_version, "kind": POLICY.name, "name": owner.name, "uid": owner.uid}
            ],
        },
        "spec": {"policy": owner.name},
    }
    return OpenDrain(node=drained.node.name, body=body)


def target_of(item: Unstructured) -> Target:
    return Target(kind=DRAIN, namespace="", name=item.name, uid=item.uid)


def report_drain(standing: Standing, record: Record, now: datetime) -> ReportRemediation | None:
    """What to write; None when it stands there already."""
    was, status = standing.look.was, standing.status
    if status == record.status:
        return None
    return _report(record, status, tuple(_news(record, was, status, now)))


def _report(record: Record, status: DrainStatus, tells: tuple[TellEvent, ...]) -> ReportRemediation:
    told: dict[str, Any] = msgspec.to_builtins(status) | {"phase": status.phase.value}  # people read that, always
    return ReportRemediation(
        target=target_of(record.item),
        version=record.item.metadata.resource_version,
        status={name: told.get(name) for name in _FIELDS},
        tells=tells,
    )


def _news(record: Record, was: DrainStatus, status: DrainStatus, now: datetime) -> list[TellEvent]:
    news = []
    if was.started_at is None:
        news.append(_event(record, EventReason.DRAIN_STARTED, status.why, now))
    if status.phase in _EVENTS and (status.phase, status.reason) != (was.phase, was.reason):
        is_warning = status.phase in _WARNINGS
        news.append(_event(record, _EVENTS[status.phase], status.message, now, is_warning=is_warning))
    if status.failed and not was.failed:
        news.append(_event(record, EventReason.DRAIN_FAILED, status.message, now, is_warning=True))
    return news


def _event(record: Record, reason: EventReason, message: str, now: datetime, *, is_warning: bool = False) -> TellEvent:
    return TellEvent(
        check=record.item.name,
        uid=record.item.uid,
        is_warning=is_warning,
        reason=reason,
        message=message,
        at=now,
        kind=DRAIN,
        node=record.item.name,
    )


def broken_off(
    record: Record, known: Known | None, cluster: Cluster
) -> tuple[ReportRemediation | DropDrain | None, datetime | None]:
    """What to do about a record of which nobody drains the node now, and when to look again.

    One that was drained is over: whoever drains it next begins anew. Others may go on within the window.
    """
    status, now = record.status, cluster.now
    policy = known.served if known is not None else None
    window = policy.times.flap_window if policy is not None else Times().flap_window
    node = cluster.nodes.get(record.item.name)
    is_same = node is not None and (not status.node_uid or status.node_uid == node.uid)
    is_over = not is_same or status.phase is Phase.DRAINED or status.started_at is None
    if is_over or (status.paused_at is not None and status.paused_at + window < now):
        return _drop(record), None
    if status.paused_at is not None:
        return None, status.paused_at + window + INSTANT
    paused = msgspec.structs.replace(
        status,
        phase=Phase.PAUSED,
        paused_at=now.replace(microsecond=0),
        begun=False,
        failed=False,
        reason="",
        message=f"{_why_paused(status, known)}; if that stays so for {say(window)}, the drain is over",
        next="",
        next_at=None,
        conditions=None,
    )
    news = (_event(record, _EVENTS[Phase.PAUSED], paused.message, now),)
    return _report(record, paused, news), None


def _why_paused(status: DrainStatus, known: Known | None) -> str:
    if known is None:
        return f"{POLICY.name} {status.policy} is gone, so nobody watches the drain now"
    if known.served is None:
        return f"{POLICY.name} {status.policy} does not make sense now or is being deleted, so nobody watches the drain"
    return "nobody drains the node now"


def _drop(record: Record) -> DropDrain:
    return DropDrain(node=record.item.name, drain=target_of(record.item), version=record.item.metadata.resource_version)

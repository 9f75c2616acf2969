"""Upgrades that a pipeline or a person announces, always with an end: for everything, for a node, or for a check.

An announcement that we do not understand, or that would last longer than anybody plans for, is none. Whoever made it
is told, because they rely on it.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from defib.decide.upgrade.signal import Mark, Signal, grouped, instant, moment, nodes_with, words
from defib.model import medik8s
from defib.model.cluster import Cluster
from defib.model.health_check import NodeHealthCheck

CONFIG_MAP = "defib-upgrade"
ANNOTATION = Mark.ANNOUNCED
FURTHEST = timedelta(days=7)
EXAMPLE = "2030-01-31T18:00:00Z"
NAMED = 3  # so many objects with the same mistake are named, the others counted

WHOM = {"Node": " of the node", "NodeHealthCheck": " for this check"}


class Announcement(msgspec.Struct, frozen=True, kw_only=True):
    """As somebody wrote it. `field` is where the end stands, `until` what stands there."""

    kind: str
    name: str
    field: str
    until: str | None
    reason: str = ""


def announced(cluster: Cluster, namespace: str) -> Iterator[Signal]:
    now = cluster.now
    known = ((one, moment(one.until)) for one in _announcements(cluster, namespace))
    active = (
        ((one.kind, until, one.reason), one.name)
        for one, until in known
        if until is not None and now < until and not _is_too_far(until, now)
    )
    for (kind, until, reason), names in grouped(active).items():
        because = f": {reason}" if reason else ""
        yield Signal(
            name="announced",
            message=f"an upgrade{WHOM.get(kind, '')} is announced until {instant(until)}{because}",
            nodes=names if kind == "Node" else None,
            checks=names if kind == "NodeHealthCheck" else None,
            until=until,
        )


def problems(cluster: Cluster, namespace: str = "defib-system") -> tuple[str, ...]:
    """Announcements that count as none: a sentence for each kind of mistake, however many objects have it."""
    wrong: dict[tuple[str, str], list[Announcement]] = {}
    for one in _announcements(cluster, namespace):
        if mistake := _mistake(one.until, cluster.now):
            wrong.setdefault((one.kind, mistake), []).append(one)
    return tuple(_told(kind, mistake, wrong[kind, mistake]) for kind, mistake in sorted(wrong))


def _announcements(cluster: Cluster, namespace: str) -> Iterator[Announcement]:
    key = f"{namespace}/{CONFIG_MAP}"
    config = cluster.config_map(key)
    if config is not None:
        said = config.data or {}
        reason = words(said.get("reason"))
        yield Announcement(kind="ConfigMap", name=key, field="data.until", until=said.get("until"), reason=reason)
    for node in nodes_with(cluster, ANNOTATION):
        yield Announcement(kind="Node", name=node.name, field=ANNOTATION, until=node.annotations[ANNOTATION])
    for check in cluster.all_of(medik8s.CHECKS, NodeHealthCheck).values():
        if ANNOTATION in check.annotations:
            until = check.annotations[ANNOTATION]
            yield Announcement(kind="NodeHealthCheck", name=check.name, field=ANNOTATION, until=until)


def _is_too_far(until: datetime, now: datetime) -> bool:
    return until - now > FURTHEST


def _mistake(text: str | None, now: datetime) -> str:
    until = moment(text)
    if until is None:
        return f"is not a time like {EXAMPLE}"
    return f"is more than {FURTHEST.days} days ahead" if _is_too_far(until, now) else ""


def _told(kind: str, mistake: str, wrong: list[Announcement]) -> str:
    wrong = sorted(wrong, key=lambda one: one.name)
    names = ", ".join(one.name for one in wrong[:NAMED])
    more = f" and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
    said = repr(words(wrong[0].until)) if wrong[0].until is not None else "(missing)"
    return f"{kind} {names}{more}: this announces no upgrade, because {wrong[0].field} {said} {mistake}"

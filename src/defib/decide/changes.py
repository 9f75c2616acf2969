"""What a person would want to hear about, between one look at the cluster and the next."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from defib.decide.census import changed_nodes
from defib.decide.suspicion import Suspicion
from defib.model.cluster import Cluster
from defib.model.node import Node
from defib.model.pulse import Pulse
from defib.model.same import Same

TOLD_EACH = 5  # of nodes that fall silent together, or are heard again


class What(StrEnum):
    JOINED = "joined"
    LEFT = "left"
    SILENT = "silent"
    HEARD = "heard again"
    NOT_READY = "not ready"
    READY = "ready"
    REBOOTED = "rebooted"
    CORDONED = "cordoned"
    UNCORDONED = "uncordoned"
    BLIND = "out of sight"
    SEES = "in sight"
    UNREAD = "cannot be read"


class Change(msgspec.Struct, frozen=True):
    """One sentence: `subject` `what`: `why`."""

    subject: str
    what: What
    why: str = ""

    def __str__(self) -> str:
        return f"{self.subject} {self.what}: {self.why}" if self.why else f"{self.subject} {self.what}"


def changes(before: Cluster, after: Cluster) -> tuple[Change, ...]:
    """Sorted by node, so that the same two looks always tell the same story."""
    return (*_sight(before, after), *_unread(before, after), *_nodes(before, after))


def silences(before: Suspicion, after: Suspicion, cluster: Cluster) -> Iterator[Change]:
    """Of nodes that Kubernetes calls ready: of all others, more is told."""
    if before.silent.keys() == after.silent.keys():
        return
    ready = {name for name in before.silent.keys() ^ after.silent.keys() if _is_ready(cluster.nodes.get(name))}
    fallen, heard = sorted(ready & after.silent.keys()), sorted(ready - after.silent.keys())
    whys = {name: _silence(after.silent[name], cluster.now) for name in fallen[:TOLD_EACH]}
    yield from _few(What.SILENT, fallen, whys)
    yield from _few(What.HEARD, heard, {})


def _silence(pulse: Pulse, now: datetime) -> str:
    return f"no heartbeat for {now.timestamp() - pulse.heard:.0f} s, where one comes every {pulse.every:.0f} s"


def _few(what: What, names: list[str], whys: Mapping[str, str]) -> Iterator[Change]:
    """One by one, or all at once: when thousands fall silent, it is one thing that has happened."""
    if len(names) > TOLD_EACH:
        yield Change(f"{len(names)} nodes", what, f"{', '.join(names[:TOLD_EACH])} and others")
        return
    for name in names:
        yield Change(name, what, whys.get(name, ""))


def _is_ready(node: Node | None) -> bool:
    return node is not None and node.ready == "True"


def _sight(before: Cluster, after: Cluster) -> Iterator[Change]:
    if not before.blind and not after.blind:
        return
    was = {blindness.kind for blindness in before.blind}
    now = {blindness.kind: blindness.why for blindness in after.blind}
    for kind in sorted(now.keys() - was):
        yield Change(kind, What.BLIND, now[kind])
    for kind in sorted(was - now.keys() - after.absent.keys()):
        yield Change(kind, What.SEES)


def _unread(before: Cluster, after: Cluster) -> Iterator[Change]:
    known = set(before.unread)
    for item in after.unread:
        if item not in known:
            yield Change(f"{item.kind} {item.key}", What.UNREAD, item.why)


def _nodes(before: Cluster, after: Cluster) -> Iterator[Change]:
    if before.nodes is after.nodes:
        return
    for name in sorted(changed_nodes(Same(before.nodes), Same(after.nodes))):
        yield from _node(name, before.nodes.get(name), after.nodes.get(name))


def _node(name: str, was: Node | None, now: Node | None) -> Iterator[Change]:
    if now is None:
        yield Change(name, What.LEFT)
        return
    if was is None or was.uid != now.uid:
        yield Change(name, What.JOINED)
        if now.ready != "True":
            yield Change(name, What.NOT_READY, _why_not_ready(now))
        return
    if was.status.node_info.boot_id != now.status.node_info.boot_id and was.status.node_info.boot_id:
        yield Change(name, What.REBOOTED, f"boot {now.status.node_info.boot_id}")
    if was.ready != now.ready:
        yield Change(name, What.READY) if now.ready == "True" else Change(name, What.NOT_READY, _why_not_ready(now))
    if was.spec.unschedulable != now.spec.unschedulable:
        yield Change(name, What.CORDONED if now.spec.unschedulable else What.UNCORDONED)


def _why_not_ready(node: Node) -> str:
    condition = node.condition("Ready")
    if condition is None:
        return "it has no Ready condition"
    return f"Ready is {condition.status}" + (f" ({condition.reason})" if condition.reason else "")

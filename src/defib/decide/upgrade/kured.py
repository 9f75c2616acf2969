"""kured reboots nodes one by one, or a few at a time, under a lock that it keeps in an annotation of its DaemonSet."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Annotated

import msgspec

from defib.decide.upgrade.signal import Mark, Signal, Watch, grouped, is_usable, moment, nodes_with, objects
from defib.model.cluster import Cluster
from defib.model.health_check import KindRef

# One DaemonSet is all that is needed; to watch those of all namespaces for it would be a waste.
DAEMON_SETS = Watch((KindRef("apps/v1", "DaemonSet"),), namespace="kube-system")
DAEMON_SET = "kube-system/kured"

# Newer versions have their own domain. With --annotate-nodes, the node says it too, wherever the DaemonSet lives.
LOCKS = ("kured.dev/kured-node-lock", "weave.works/kured-node-lock")
REBOOTS = (Mark.KURED, Mark.OLD_KURED)

MESSAGE = "kured has locked the node to reboot it"

Nanoseconds = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Lock(msgspec.Struct, frozen=True):
    node: str = msgspec.field(default="", name="nodeID")
    created: datetime | None = None
    ttl: Nanoseconds = msgspec.field(default=0, name="TTL")

    @property
    def since(self) -> datetime | None:
        return self.created if is_usable(self.created) else None

    @property
    def until(self) -> datetime | None:
        """None: until it is released."""
        length = timedelta(microseconds=self.ttl // 1000)
        return self.since + length if self.since is not None and self.ttl > 0 else None

    def is_held(self, now: datetime) -> bool:
        return self.ttl <= 0 or (self.until is not None and now < self.until)


class Value(Lock, frozen=True):
    """One lock, or with --concurrency a list of them."""

    locks: list[Lock] = []


def kured(cluster: Cluster, _namespace: str) -> Iterator[Signal]:
    for daemon_set in objects(cluster, DAEMON_SETS):
        if daemon_set.key == DAEMON_SET:
            for annotation in LOCKS:
                yield from _locked(daemon_set.annotations.get(annotation, ""), cluster)
    rebooting = (
        (since, node.name)
        for annotation in REBOOTS
        for node in nodes_with(cluster, annotation)
        if (since := moment(node.annotations.get(annotation)))
    )
    for since, nodes in grouped(rebooting).items():
        yield Signal(name="kured", message="kured is rebooting the node", nodes=nodes, since=since)


def _locked(text: str, cluster: Cluster) -> Iterator[Signal]:
    """A lock for a node that does not exist is how people keep kured from rebooting anything: it holds nothing back."""
    value = _read(text)
    for lock in (value, *value.locks):
        if lock.node in cluster.nodes and lock.is_held(cluster.now):
            nodes = frozenset({lock.node})
            yield Signal(name="kured", message=MESSAGE, nodes=nodes, until=lock.until, since=lock.since)


def _read(text: str) -> Value:
    try:
        return msgspec.json.decode(text, type=Value) if text else Value()
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return Value()

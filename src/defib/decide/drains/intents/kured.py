"""kured drains a node before it reboots it.

With --annotate-nodes the node says so itself, and since when. Without it, there is only the lock that kured keeps on
its DaemonSet, which names the node. A lock that ends by itself is not enough: it may stand there long after it ended.
"""

import msgspec

from defib.decide.drains.intent import Intent, is_cordoned
from defib.decide.drains.intents.sight import in_sight
from defib.decide.upgrade.kured import DAEMON_SET, LOCKS, REBOOTS, Lock, Value
from defib.decide.upgrade.signal import moment
from defib.model.cluster import Cluster, Wanted
from defib.model.drain_policy import Source
from defib.model.health_check import KindRef
from defib.model.node import Node

DAEMON_SETS = KindRef("apps/v1", "DaemonSet")
WATCHED = ((DAEMON_SETS, Wanted("kube-system", can_wait=True)),)


def kured(node: Node, cluster: Cluster) -> Intent | None:
    if not is_cordoned(node):
        return None
    for annotation in REBOOTS:
        if since := moment(node.annotations.get(annotation)):
            return Intent(source=Source.KURED, why="kured is rebooting the node", started_at=since)
    lock = _lock_of(node, cluster)
    if lock is None:
        return None
    return Intent(source=Source.KURED, why="kured has locked the node to reboot it", started_at=lock.since)


def _lock_of(node: Node, cluster: Cluster) -> Lock | None:
    daemon_set = (in_sight(DAEMON_SETS, cluster) or {}).get(DAEMON_SET)
    if daemon_set is None:
        return None
    values = [_read(daemon_set.annotations.get(annotation, "")) for annotation in LOCKS]
    locks = (lock for value in values for lock in (value, *value.locks))
    return next((lock for lock in locks if lock.node == node.name and lock.ttl <= 0), None)


def _read(text: str) -> Value:
    try:
        return msgspec.json.decode(text, type=Value) if text else Value()
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return Value()

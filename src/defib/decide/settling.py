"""How long nothing new begins after we have doubted our own sight. Pure: the time is an argument.

    doubt ──▶ it ends ──▶ settling, as long as it lasted, 10 to 30 s ──▶ as always
                ▲                │ doubt again
                └────────────────┘

When a doubt ends, what is seen is not yet what is: heartbeats come back one by one, and only after its own does Kubernetes
call a node ready again. Whoever acts in that moment takes those who are last for dead.
"""

import msgspec

from defib.decide.doubt import SELF_DOUBT, is_mostly_silent
from defib.decide.reading import read_status
from defib.decide.status import ALLOWED
from defib.model import medik8s
from defib.model.cluster import HEARTBEATS, Cluster
from defib.model.health_check import NodeHealthCheck

SHORTEST_SECONDS = 10.0  # within it every kubelet that lives renews its heartbeat once
# Heartbeat, whoever judges it, report of the kubelet: 10 s, 5 s and 10 s. Longer helps nobody, and who is dead indeed waits too.
LONGEST_SECONDS = 30.0
BLINK_SECONDS = 5.0  # a watch that is opened again within it tells all that it missed
ASK_SECONDS = 2.0  # while all is well: it goes through every heartbeat

_SEEN = frozenset({"nodes", HEARTBEATS})


class Settling(msgspec.Struct, frozen=True, kw_only=True):
    """Times are of the clock that only ever passes: another one may be what we doubt."""

    has_seen: bool = False  # before the first whole look there is nothing to settle
    began: float | None = None  # the doubt that lasts
    is_blink: bool = False  # so far only a watch broke
    asked: float = 0.0
    until: float = 0.0
    doubt: str = ""  # what is said until then; it stays the same, or the status would be written all the time


def settle(before: Settling, cluster: Cluster, trouble: str, monotonic: float) -> Settling:
    """`trouble` is why the API server is not trusted. That our clock has jumped is not for here: it settles by itself."""
    if not before.has_seen:
        before = _started(cluster, monotonic) if cluster.complete else before
    if not before.has_seen:
        return before
    is_due = before.began is not None or monotonic >= before.asked + ASK_SECONDS
    # Those we told to go off left out: what settles afterwards holds back those that go on, too, and they are waited for.
    is_silent = is_due and is_mostly_silent(cluster, goes_on=True)
    now = msgspec.structs.replace(
        before,
        asked=monotonic if is_due else before.asked,
        doubt=before.doubt if monotonic < before.until else "",
    )
    if is_silent or trouble or any(blindness.kind in _SEEN for blindness in cluster.blind):
        is_blink = not (is_silent or trouble) and (before.began is None or before.is_blink)
        return msgspec.structs.replace(
            now, began=monotonic if before.began is None else before.began, is_blink=is_blink
        )
    return _ended(now, cluster, monotonic)


def _ended(now: Settling, cluster: Cluster, monotonic: float) -> Settling:
    lasted = monotonic - now.began if now.began is not None else 0.0
    over = msgspec.structs.replace(now, began=None)
    if now.began is None or (now.is_blink and lasted < BLINK_SECONDS):
        return over
    return _wait(over, cluster, monotonic, min(max(lasted, SHORTEST_SECONDS), LONGEST_SECONDS))


def _started(cluster: Cluster, monotonic: float) -> Settling:
    """Whoever led before us was in doubt, or was settling, if that is written down; nobody knows for how long."""
    seen = Settling(has_seen=True)
    return _wait(seen, cluster, monotonic, LONGEST_SECONDS) if _is_doubt_written(cluster) else seen


def _wait(settling: Settling, cluster: Cluster, monotonic: float, seconds: float) -> Settling:
    if settling.until >= monotonic + seconds:
        return settling
    words = (
        f"it was in doubt until {cluster.now:%H:%M:%S} UTC, "
        f"and has to stay clear for {seconds:.0f} s before anything new begins"
    )
    return msgspec.structs.replace(settling, until=monotonic + seconds, doubt=words)


def _is_doubt_written(cluster: Cluster) -> bool:
    checks = cluster.all_of(medik8s.CHECKS, NodeHealthCheck).values()
    said = (read_status(item).condition(ALLOWED) for item in checks)
    if any(one is not None and one.reason == SELF_DOUBT for one in said):
        return True
    return any(one.is_open and one.status.reason == SELF_DOUBT for one in cluster.incidents().values())

"""Which heartbeats are overdue, by what their nodes wrote.

Thousands are renewed all the time, and hardly any ends. So those are gone through that were renewed since the last count, and
those that would end soon; now and then, all. The answer is the same as if all were gone through every time.
"""

from collections import deque
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from defib.model.cluster import Cluster
from defib.model.lock import length_of
from defib.model.moment import is_sensible
from defib.model.node import Lease, Node
from defib.model.same import changed, has_same_keys

# A kubelet's heartbeat lasts for 40 s, and is renewed when 30 are left: none of the living ends so soon.
AHEAD = timedelta(seconds=10)


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """Heartbeats by their keys, as they were at `now`."""

    heartbeats: Mapping[str, Lease]
    nodes: Mapping[str, Node]
    now: datetime
    until: datetime
    silent: frozenset[str]
    mute: frozenset[str]  # that say nothing, or are of nodes that are not there
    ending: frozenset[str]  # unless they are renewed, until then


_last: deque[Counted] = deque(maxlen=1)  # it spares work, and changes nothing


def count(cluster: Cluster) -> Counted:
    was = _last[0] if _last else None
    if was is None or not was.now <= cluster.now <= was.until or not has_same_keys(was.nodes, cluster.nodes):
        counted = _sorted_out(cluster, cluster.heartbeats, cluster.now + AHEAD)
    elif was.now != cluster.now or was.heartbeats is not cluster.heartbeats:
        counted = _since(was, cluster)
    else:
        return was
    _last.append(counted)
    return counted


def _since(was: Counted, cluster: Cluster) -> Counted:
    again = was.ending.union(changed(was.heartbeats, cluster.heartbeats))
    there = {key: lease for key in again if (lease := cluster.heartbeats.get(key)) is not None}
    now = _sorted_out(cluster, there, was.until)
    return msgspec.structs.replace(now, silent=(was.silent - again) | now.silent, mute=(was.mute - again) | now.mute)


def _sorted_out(cluster: Cluster, leases: Mapping[str, Lease], until: datetime) -> Counted:
    """The same as to ask each when it ends. But nearly all last equally long, so it is enough to know once for each length
    which renewals are too old, and which will be.
    """
    silent: list[str] = []
    mute: list[str] = []
    ending: list[str] = []
    too_old: dict[int, tuple[datetime, datetime]] = {}
    there = cluster.nodes
    for key, lease in leases.items():
        spec = lease.spec
        renewed, seconds = spec.renew_time, spec.lease_duration_seconds
        if (
            renewed is None
            or seconds is None
            or not spec.holder_identity
            or lease.metadata.name not in there
            or not is_sensible(renewed)
        ):
            mute.append(key)
            continue
        if seconds not in too_old:
            length = length_of(seconds)
            too_old[seconds] = cluster.now - length, until - length
        is_too_old, will_be = too_old[seconds]
        if renewed < is_too_old:
            silent.append(key)
        elif renewed < will_be:
            ending.append(key)
    return Counted(
        heartbeats=cluster.heartbeats,
        nodes=cluster.nodes,
        now=cluster.now,
        until=until,
        silent=frozenset(silent),
        mute=frozenset(mute),
        ending=frozenset(ending),
    )

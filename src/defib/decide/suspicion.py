"""Which nodes have fallen silent. That is a reason to look more closely, and never one to do anything to them.

Kubernetes calls a node Unknown 40 to 60 seconds after its last heartbeat; two that are missing can be known much sooner.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from defib.model.cluster import HEARTBEATS, Cluster
from defib.model.pulse import Pulse

MISSED = 2  # heartbeats
LOOK_EVERY = timedelta(
    seconds=5
)  # at the latest: who has come since, in a quick rhythm, may fall silent before the others


class Suspicion(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that are silent, and until when nobody else can be."""

    silent: Mapping[str, Pulse] = {}
    wake_at: datetime | None = None


NOBODY = Suspicion()


def suspect(cluster: Cluster, before: Suspicion) -> Suspicion:
    """`before` spares work and changes nothing but when somebody who has just come is asked after."""
    if not cluster.pulses or any(blindness.kind == HEARTBEATS for blindness in cluster.blind):
        return NOBODY
    now = cluster.now.timestamp()
    if before.wake_at is not None and cluster.now < before.wake_at:
        return msgspec.structs.replace(before, silent=_silent(cluster, before.silent, now))
    silent = _silent(cluster, cluster.pulses, now)
    next_one = min((pulse.due(MISSED) for name, pulse in cluster.pulses.items() if name not in silent), default=now)
    ahead = datetime.fromtimestamp(next_one, UTC) if next_one > now else cluster.now + LOOK_EVERY
    return Suspicion(silent=silent, wake_at=min(ahead, cluster.now + LOOK_EVERY))


def _silent(cluster: Cluster, names: Mapping[str, object], now: float) -> dict[str, Pulse]:
    pulses, nodes = cluster.pulses, cluster.nodes
    return {name: pulse for name in names if name in nodes and (pulse := pulses.get(name)) and pulse.due(MISSED) <= now}

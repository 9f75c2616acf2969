"""Who may act, as the Leases say: one for everything, or each replica for its share of the nodes."""

from datetime import datetime, timedelta

from defib.clock import Clock
from defib.coordinate.keys import ADMISSION
from defib.coordinate.seats import BUCKETS
from defib.coordinate.sharded import BUCKET_LEASE
from defib.coordinate.shards import bucket_of
from defib.simulate.store import DELETED, Change
from tests.simulation.shape import HOME

LEASES = "leases.coordination.k8s.io"
LEADER_LOCK = "defib-leader"


def lock_of(name: str) -> str:
    return f"{BUCKET_LEASE}{bucket_of(name, BUCKETS)}"


class LeaseTimes:
    """Until when each lock is held, by the time at which it was written: what is written in it is by somebody's clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[str, tuple[str, datetime]] = {}

    def written(self, change: Change) -> None:
        if change.resource != LEASES or change.now.object["metadata"]["namespace"] != HOME:
            return
        name, spec = change.now.object["metadata"]["name"], change.now.object["spec"]
        if change.kind == DELETED or not spec.get("holderIdentity"):
            self._held.pop(name, None)
        else:
            length = timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
            self._held[name] = spec["holderIdentity"], self._clock.now() + length

    def holder(self, lock: str) -> str:
        name, until = self._held.get(lock, ("", self._clock.now()))
        return name if self._clock.now() < until else ""

    @property
    def leader(self) -> str:
        """Of all, or where all share the work: whoever admits."""
        return self.holder(LEADER_LOCK) or self.holder(lock_of(ADMISSION))

    def held_by(self, replica: str) -> bool:
        """Any of the buckets."""
        return any(self.holder(f"{BUCKET_LEASE}{number}") == replica for number in range(BUCKETS))


def holder_for(leases: LeaseTimes, replica: str, nodes: set[str]) -> str:
    """Of what is done about a node: whoever has its bucket, or admits. Of everything else, whoever has any."""
    if not nodes:
        return replica if leases.held_by(replica) else ""
    holders = [leases.holder(lock_of(name)) for name in (*sorted(nodes), ADMISSION)]
    return replica if replica in holders else holders[0]

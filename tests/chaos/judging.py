"""What must be true of a run: all that checkers say of a simulated day, and that nothing was lost, done twice or too much."""

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from defib.hollow.node import HollowNode
from tests.chaos.story import Entry
from tests.e2e.replica_set import LOCK_KEY
from tests.simulation.checkers import judge
from tests.simulation.checkers.state import Finding, State, begun, node_of
from tests.simulation.history import Asked, Switched, Written
from tests.simulation.world import LEASES, ready_of

LEASE_SECONDS = 3.0
THAW_SECONDS = 1.0
LOOKED_AT_SECONDS = 5.0  # a remediation is made by what its maker saw no longer ago
_LOCK_PATH = "/apis/coordination.k8s.io/v1/namespaces/defib-system/leases"


def findings(entries: list[Entry], ends_at: float, thaws: list[float]) -> list[Finding]:
    """What the same checkers as in simulations find, and those of our own."""
    known = list(with_leaders(entries))
    found = [one for one in judge(known, ends_at) if not _came_late(one, thaws)]
    return sorted([*found, *needless(known)], key=lambda one: one.at)


def _came_late(finding: Finding, thaws: list[float]) -> bool:
    """An API server that stood still takes in what was sent in time when it goes on, and so it looks late."""
    return finding.invariant == "I13" and any(0 <= finding.at - thaw < THAW_SECONDS for thaw in thaws)


def with_leaders(entries: list[Entry]) -> Iterator[Entry]:
    """Who led at each deed, as etcd had it. The election itself is no deed."""
    holder, since = "", 0.0
    for entry in entries:
        if isinstance(entry, Written) and entry.resource == LEASES and entry.key == LOCK_KEY:
            lock = entry.change.now.object["spec"]
            holder, since = str(lock.get("holderIdentity") or ""), entry.at
        if isinstance(entry, Asked | Switched):
            if isinstance(entry, Asked) and entry.is_write and entry.request.path.startswith(_LOCK_PATH):
                continue
            leads = holder if entry.at - since < LEASE_SECONDS else ""
            yield msgspec.structs.replace(entry, holder=leads)
        else:
            yield entry


def needless(entries: list[Entry]) -> Iterator[Finding]:
    """No remediation is begun of a node that has been well for a while: that would be one too many."""
    state, well_since = State(), dict[str, float]()
    for entry in entries:
        if not isinstance(entry, Written):
            continue
        state.take(entry)
        if entry.resource == "nodes":
            if ready_of(entry.change.now.object) == "True":
                well_since.setdefault(entry.key, entry.at)
            else:
                well_since.pop(entry.key, None)
        made = begun(entry)
        since = well_since.get(node_of(made)) if made is not None else None
        if made is not None and since is not None and entry.at - since > LOOKED_AT_SECONDS:
            what = f"{node_of(made)} is remediated, and has been well for {entry.at - since:.1f} s"
            yield Finding("duplicate", entry.at, what)


def begins(entries: list[Entry]) -> Counter[str]:
    """How often a remediation of each node was begun."""
    return Counter(node_of(made) for made in map(begun, entries) if made is not None)


def switched_too_often(
    entries: list[Entry], nodes: Mapping[str, HollowNode], pulled: Counter[str], restores: int
) -> list[str]:
    """A machine goes off once for each remediation, and for each time that its cord was pulled.

    A restore may bring back a remediation from before its machine went off: then it goes off once more.
    """
    begun_of, wrong = begins(entries), []
    for name, node in nodes.items():
        offs = sum(not change.on for change in node.machine.history)
        allowed = begun_of[name] + pulled[name] + restores
        if offs > allowed:
            wrong.append(
                f"{name} went off {offs} times, by {begun_of[name]} remediations and {pulled[name]} pulled cords"
            )
    return wrong

"""I5: nothing destructive while there is reason to doubt what is seen; I9: in Observe nothing is done at all."""

from collections.abc import Iterator

from defib.decide.admission import APPROVED_UNTIL
from defib.model import medik8s
from defib.model.health_check import Mode
from tests.simulation.checkers.quiet import ACTS_SECONDS
from tests.simulation.checkers.state import (
    HEARTBEATS,
    Finding,
    Lately,
    State,
    begun,
    is_over,
    node_of,
    owner_of,
    switched_off,
    taken_by_force,
)
from tests.simulation.history import Asked, Entry, Switched, Written
from tests.simulation.shape import HOME
from tests.simulation.world import LEASES, REMEDIATIONS

MADE = tuple(f"/{resource.partition('.')[0]}" for resource in REMEDIATIONS)
BRAKES = ("configmaps", f"{HOME}/defib-brake")


def sure_of_its_sight(entry: Entry, state: State) -> Iterator[Finding]:
    """I5: nothing destructive begins while most heartbeats are long overdue."""
    what = _destroyed(entry, state)
    if not what:
        return
    nodes = state.of("nodes")
    leases = state.of(LEASES).items()
    # Whoever is proved to be down is missing for a reason that is known.
    down = {name for name in nodes if state.incident(name) and state.proof(name, entry.at)}
    awaited = {f"{HEARTBEATS}{name}" for name in nodes.keys() - down}
    beats = [lease for key, lease in leases if key in awaited]
    long_ago = entry.at - state.quiet.held_seconds(entry.at) - state.skew
    silent = sum(is_over(lease, long_ago) for lease in beats)
    if 2 * silent > len(beats):
        yield Finding("I5", entry.at, f"{what} while {silent} of {len(beats)} nodes were long silent")


def sees_what_it_must(entry: Entry, state: State) -> Iterator[Finding]:
    """I5: nothing destructive by whoever has long known that its own watches are broken."""
    if (
        isinstance(entry, Asked | Switched)
        and entry.blind_seconds > ACTS_SECONDS
        and (what := _destroyed(entry, state))
    ):
        yield Finding("I5", entry.at, f"{what} by {entry.replica}, which was blind for {entry.blind_seconds:.0f} s")


class Braked:
    """I5: nothing destructive while a person has pulled the brake, and everybody could have seen it."""

    def __init__(self) -> None:
        self._since: float | None = None

    def check(self, entry: Entry, state: State) -> Iterator[Finding]:
        resource, key = BRAKES
        if isinstance(entry, Written) and entry.resource == resource and entry.key == key:
            self._since = entry.at if key in state.of(resource) else None
        is_on = self._since is not None and entry.at - self._since > state.quiet.held_seconds(entry.at)
        if is_on and (what := _destroyed(entry, state)):
            yield Finding("I5", entry.at, f"{what} while the brake was on")


class OnlyWatches:
    """I9: where every check observes, and always did, nothing is written but statuses, incidents and events."""

    def __init__(self) -> None:
        self._acts = False

    def check(self, entry: Entry, state: State) -> Iterator[Finding]:
        if isinstance(entry, Written) and entry.resource == medik8s.CHECKS:
            checks = (state.check(name) for name in state.of(medik8s.CHECKS))
            self._acts = self._acts or any(check is None or check.mode is not Mode.OBSERVE for check in checks)
        if not self._acts and state.of(medik8s.CHECKS):
            yield from only_watches(entry, state)


def only_watches(entry: Entry, _: State) -> Iterator[Finding]:
    if isinstance(entry, Switched):
        yield Finding("I9", entry.at, f"{entry} in Observe")
    if isinstance(entry, Asked) and entry.is_write:
        path = entry.request.path
        if not (path.endswith("/status") or "/events" in path or "/nodeincidents" in path):
            yield Finding("I9", entry.at, f"{entry} in Observe")


class Allowed:
    """I9: in Approve nothing begins before a person has approved it; nor, in any mode, on a node that one has excluded."""

    def __init__(self) -> None:
        self._lately = Lately()

    def check(self, entry: Entry, state: State) -> Iterator[Finding]:
        made = begun(entry)
        if made is not None and node_of(made) in state.of("nodes") and owner_of(made) in state.of(medik8s.CHECKS):
            key = f"{owner_of(made)} {node_of(made)}"
            if not self._lately.held(key, entry.at, state.quiet.stale_seconds(entry.at)):
                yield Finding("I9", entry.at, f"{node_of(made)} was begun, and no person allows that")
        if isinstance(entry, Written) and entry.resource in ("nodes", medik8s.CHECKS):
            names = {entry.key} & state.of("nodes").keys() if entry.resource == "nodes" else state.of("nodes")
            for check in state.of(medik8s.CHECKS):
                for name in names:
                    self._lately.look(f"{check} {name}", entry.at, holds=_is_allowed(check, name, state))


def _is_allowed(name: str, node: str, state: State) -> bool:
    check, meta = state.check(name), state.of("nodes")[node]["metadata"]
    if (meta.get("labels") or {}).get(medik8s.EXCLUDED) == "true":
        return False
    return check is None or check.mode is not Mode.APPROVE or APPROVED_UNTIL in (meta.get("annotations") or {})


def _destroyed(entry: Entry, state: State) -> str:
    """What somebody begins to destroy; empty for everything else."""
    if node := switched_off(entry):
        return f"{node} was switched off"
    if (made := begun(entry)) is not None:
        return f"a remediation of {node_of(made)} began"
    if isinstance(entry, Asked) and entry.request.method == "POST" and entry.request.path.endswith(MADE):
        return "a remediation was asked for"
    pod = taken_by_force(entry, state)
    return f"{pod['metadata']['name']} was taken by force" if pod is not None else ""

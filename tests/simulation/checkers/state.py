"""The cluster as the API server had it at one moment of a history, and the questions that checkers ask about it."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import msgspec

from defib.decide.fencing.policy import read_policy, read_self_fence
from defib.decide.reading import read_check, read_check_again
from defib.model import medik8s
from defib.model.health_check import Broken, Check, NodeHealthCheck
from defib.model.incident import INCIDENTS, Phase
from defib.model.power_cycle import Policy
from defib.simulate.store import DELETED
from defib.simulate.virtual_time import START
from tests.simulation.checkers.quiet import Quiet
from tests.simulation.history import Asked, Entry, Object, Switched, Written
from tests.simulation.world import LEASES, REMEDIATIONS, phase_of

LIVE_SECONDS = 60.0  # a look before something destructive is no older
WIPED_SECONDS = 10.0  # a request that was sent may take so long
NODE_NAME = medik8s.NODE_NAME
HEARTBEATS = "kube-node-lease/"
CONTROL_PLANE_LABELS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


class Finding(msgspec.Struct, frozen=True):
    invariant: str
    at: float
    what: str

    def __str__(self) -> str:
        return f"{self.invariant} at {self.at:.3f} s: {self.what}"


class State:
    """`skew`: by so many seconds the time that replicas show may differ from the one that the history goes by."""

    def __init__(self, skew: float = 0.0) -> None:
        self.skew = skew
        self.quiet = Quiet()
        self._objects: dict[str, dict[str, Object]] = {}
        self._read: dict[str, tuple[Object, NodeHealthCheck, Check | Broken]] = {}
        self._wiped: dict[str, tuple[float, Object]] = {}

    def see(self, entry: Entry) -> None:
        self.quiet.see(entry)
        if isinstance(entry, Written):
            self.take(entry)

    def take(self, entry: Written) -> None:
        if entry.resource == INCIDENTS and (
            proof := proof_in(entry.change.before.object if entry.change.before else {})
        ):
            self._wiped[entry.key] = (entry.at, proof)
        collection = self._objects.setdefault(entry.resource, {})
        if entry.change.kind == DELETED:
            collection.pop(entry.key, None)
        else:
            collection[entry.key] = entry.change.now.object

    def of(self, resource: str) -> dict[str, Object]:
        return self._objects.get(resource, {})

    @property
    def in_flight(self) -> set[str]:
        return {node_of(item) for item in self.remediations()}

    def remediations(self, check: str | None = None) -> Iterator[Object]:
        """Those that the check made, or that anybody did."""
        for resource in REMEDIATIONS:
            for item in self.of(resource).values():
                if check is None or owner_of(item) == check:
                    yield item

    def check(self, name: str) -> Check | None:
        """As it is understood; None where it is gone, or makes no sense."""
        item = self.of(medik8s.CHECKS).get(name)
        if item is None:
            return None
        known = self._read.get(name)
        if known is None or known[0] is not item:
            now = msgspec.convert(item, NodeHealthCheck)
            read = read_check(now) if known is None else read_check_again(now, *known[1:])
            known = self._read[name] = (item, now, read)
        return known[2] if isinstance(known[2], Check) else None

    def incident(self, node: str) -> Object | None:
        """The one of a power cycle of this node, while it is open."""
        found = self.of(INCIDENTS).get(node)
        return found if found is not None and phase_of(found) != Phase.CLOSED else None

    def proof(self, node: str, at: float) -> Object | None:
        """As it is written down, or was a moment ago: somebody may wipe it while we act on what we have just read."""
        wiped_at, wiped = self._wiped.get(node, (at - WIPED_SECONDS, None))
        return proof_in(self.of(INCIDENTS).get(node) or {}) or (wiped if at - wiped_at < WIPED_SECONDS else None)

    def lock(self, node: str) -> Object | None:
        return self.of(LEASES).get(f"{medik8s.LOCK_NAMESPACE}/{medik8s.lock_of(node)}")


Checker = Callable[[Entry, State], Iterator[Finding]]

_POWER, _, _SELF = REMEDIATIONS
FENCING: dict[str, Callable[[Object | None], Policy | tuple[str, ...]]] = {_POWER: read_policy, _SELF: read_self_fence}


def policy_of(resource: str, remediation: Object) -> Policy | None:
    """How a remediation fences; None where it does not, or cannot be read."""
    read = FENCING[resource](remediation.get("spec")) if resource in FENCING else None
    return read if isinstance(read, Policy) else None


def node_of(remediation: Object) -> str:
    meta = remediation["metadata"]
    return str((meta.get("annotations") or {}).get(NODE_NAME) or meta["name"])


def owner_of(item: Object) -> str:
    """The NodeHealthCheck that made it; empty where none did."""
    owners = item["metadata"].get("ownerReferences") or ()
    return next((str(owner["name"]) for owner in owners if owner["kind"] == medik8s.CHECK_KIND), "")


def proof_in(incident: Object) -> Object | None:
    return (incident.get("status") or {}).get("proof") or None


def begun(entry: Entry) -> Object | None:
    """The remediation that a check has just begun, if that is what happened."""
    if not isinstance(entry, Written) or entry.resource not in REMEDIATIONS or entry.change.before is not None:
        return None
    made = entry.change.now.object
    return made if owner_of(made) else None


def switched_off(entry: Entry) -> str:
    """The node whose machine is told to go off, if that is what happened."""
    return entry.node if isinstance(entry, Switched) and entry.power == "off" else ""


def deleted_pod(entry: Entry, state: State) -> Object | None:
    if not isinstance(entry, Asked) or entry.request.method != "DELETE":
        return None
    parts = entry.request.path.split("/")
    return state.of("pods").get(f"{parts[-3]}/{parts[-1]}") if parts[-2] == "pods" else None


def said(entry: Asked) -> Object:
    return msgspec.json.decode(entry.request.body, type=dict) if entry.request.body else {}


def is_forced(entry: Asked) -> bool:
    return said(entry).get("gracePeriodSeconds") == 0


def taken_by_force(entry: Entry, state: State) -> Object | None:
    """The pod that is taken from its node by force, if that is what happened."""
    pod = deleted_pod(entry, state)
    if pod is None or not isinstance(entry, Asked) or not is_forced(entry):
        return None
    meant = said(entry).get("preconditions", {}).get("uid")
    return pod if meant in (None, pod["metadata"]["uid"]) else None  # of another one the API server takes nothing


def is_control_plane(node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    return any(label in labels for label in CONTROL_PLANE_LABELS)


def is_over(lease: Object, at: float) -> bool:
    spec = lease["spec"]
    if not spec.get("renewTime"):
        return True
    ends = datetime.fromisoformat(spec["renewTime"]) + timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
    return ends < START + timedelta(seconds=at)


def seconds_of(moment: datetime) -> float:
    """A moment of the day as seconds of the history."""
    return (moment - START).total_seconds()


class Lately:
    """When something was last so, of several things that come and go: what held a moment ago may be acted on still."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._now: dict[str, bool] = {}

    def look(self, key: str, at: float, *, holds: bool) -> None:
        if holds or self._now.get(key):
            self._last[key] = at
        self._now[key] = holds

    def held(self, key: str, at: float, within: float) -> bool:
        return self._now.get(key, False) or at - self._last.get(key, -within) < within

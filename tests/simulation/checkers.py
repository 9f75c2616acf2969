"""What must never have happened, checked over the history of a run. Each finding names its invariant and its moment.

A checker folds over the entries and keeps what it needs of the state; nothing is asked of the operator itself.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import msgspec

from defib.model import medik8s
from defib.model.incident import INCIDENTS, Phase
from defib.simulate.store import DELETED
from defib.simulate.virtual_time import START
from tests.simulation.history import Asked, Entry, Object, Switched, Written
from tests.simulation.shape import CONTROL_PLANE, SHOP, Shape
from tests.simulation.troubles import MAINTENANCE
from tests.simulation.world import LEASES, REMEDIATIONS, World, phase_of, ready_of

LIVE_SECONDS = 60.0  # a look before something destructive is no older
NODE_NAME = "remediation.medik8s.io/node-name"
HEARTBEATS = "kube-node-lease/"


class Finding(msgspec.Struct, frozen=True):
    invariant: str
    at: float
    what: str

    def __str__(self) -> str:
        return f"{self.invariant} at {self.at:.3f} s: {self.what}"


class State:
    """The cluster as the API server had it at one moment of the history."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, Object]] = {}

    def take(self, entry: Written) -> None:
        collection = self._objects.setdefault(entry.resource, {})
        if entry.change.kind == DELETED:
            collection.pop(entry.key, None)
        else:
            collection[entry.key] = entry.change.now.object

    def of(self, resource: str) -> dict[str, Object]:
        return self._objects.get(resource, {})

    @property
    def in_flight(self) -> set[str]:
        return {node_of(item) for resource in REMEDIATIONS for item in self.of(resource).values()}


Checker = Callable[[Entry, State], Iterator[Finding]]


def node_of(remediation: Object) -> str:
    meta = remediation["metadata"]
    return str((meta.get("annotations") or {}).get(NODE_NAME) or meta["name"])


def check(world: World, entries: list[Entry]) -> list[Finding]:
    checkers = _checkers(world.shape)
    state, found = State(), list[Finding]()
    for entry in entries:
        if isinstance(entry, Written):
            state.take(entry)
        for checker in checkers:
            found += checker(entry, state)
    return [*found, *_at_the_end(world, entries)]


def _checkers(shape: Shape) -> list[Checker]:
    always: list[Checker] = [proved, unlocked, one_control_plane_node, _Live().check, led, sure_of_its_sight]
    if shape.max_in_flight is not None:
        always.append(_within(shape.max_in_flight))
    if shape.observes:
        always.append(only_watches)
    return always


def proved(entry: Entry, state: State) -> Iterator[Finding]:
    """I1: pods that must not run twice are taken by force only after a proof, and where they really do not run."""
    pod = _deleted_pod(entry, state)
    if pod is None or not isinstance(entry, Asked) or not _is_forced(entry) or not _runs_once(pod):
        return
    name, node = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
    incident = state.of(INCIDENTS).get(node)
    if incident is None or not (incident.get("status") or {}).get("proof"):
        yield Finding("I1", entry.at, f"{entry.replica} took {name} from {node} by force, without a proof")
    if entry.runs_there:
        yield Finding("I1", entry.at, f"{entry.replica} took {name} from {node} by force while it ran there")


def unlocked(entry: Entry, state: State) -> Iterator[Finding]:
    """I2: nobody switches a machine, or begins a remediation, whose node somebody else has locked."""
    node = entry.node if isinstance(entry, Switched) and entry.power == "off" else ""
    if isinstance(entry, Written) and entry.resource in REMEDIATIONS and entry.change.before is None:
        node = node_of(entry.change.now.object)
    lock = state.of(LEASES).get(f"{medik8s.LOCK_NAMESPACE}/{medik8s.lock_of(node)}") if node else None
    if lock is not None and lock["spec"].get("holderIdentity") == MAINTENANCE and not _is_over(lock, entry.at):
        yield Finding("I2", entry.at, f"{node} was touched while {MAINTENANCE} had its lock")
    if isinstance(entry, Written) and entry.resource in REMEDIATIONS:
        nodes = [node_of(item) for item in state.of(entry.resource).values()]
        for name in {one for one in nodes if nodes.count(one) > 1}:
            yield Finding("I2", entry.at, f"{name} has two remediations of one kind")


def _within(limit: int) -> Checker:
    """I3: at no instant are more nodes under remediation than the check allows."""

    def check_limit(entry: Entry, state: State) -> Iterator[Finding]:
        if isinstance(entry, Written) and entry.resource in REMEDIATIONS and entry.change.before is None:
            nodes = sorted(state.in_flight)
            if len(nodes) > limit:
                yield Finding("I3", entry.at, f"{', '.join(nodes)} are in flight, and {limit} may be")

    return check_limit


def one_control_plane_node(entry: Entry, state: State) -> Iterator[Finding]:
    """I4: at most one node of the control plane is under remediation."""
    if not isinstance(entry, Written) or entry.resource not in REMEDIATIONS or entry.change.before is not None:
        return
    members = {name for name, node in state.of("nodes").items() if _is_control_plane(node)}
    if len(out := members & state.in_flight) > 1:
        yield Finding("I4", entry.at, f"{', '.join(sorted(out))} of the control plane are out at once")


def sure_of_its_sight(entry: Entry, state: State) -> Iterator[Finding]:
    """I5: no remediation begins while most heartbeats are long overdue."""
    if not isinstance(entry, Written) or entry.resource not in REMEDIATIONS or entry.change.before is not None:
        return
    beats = [lease for key, lease in state.of(LEASES).items() if key.startswith(HEARTBEATS)]
    silent = sum(_is_over(lease, entry.at - LIVE_SECONDS) for lease in beats)
    if 2 * silent > len(beats):
        yield Finding("I5", entry.at, f"a remediation began while {silent} of {len(beats)} nodes were long silent")


class _Live:
    """I6: a live look comes before every deletion of a pod, node or attachment, and it names the UID."""

    def __init__(self) -> None:
        self._looks: dict[tuple[str, str], float] = {}

    def check(self, entry: Entry, state: State) -> Iterator[Finding]:
        if not isinstance(entry, Asked):
            return
        path = entry.request.path
        if not entry.is_write:
            self._looks[entry.replica, path] = entry.at
            return
        parts = path.split("/")
        if entry.request.method != "DELETE" or parts[-2] not in ("pods", "nodes", "volumeattachments"):
            return
        if not _said(entry).get("preconditions", {}).get("uid"):
            yield Finding("I6", entry.at, f"{entry.replica} asked {entry.request} without a UID")
        pod = _deleted_pod(entry, state)
        node = f"/api/v1/nodes/{pod['spec'].get('nodeName', '')}" if pod else ""
        looked = max(self._looks.get((entry.replica, one), -LIVE_SECONDS) for one in (path, node))
        if parts[-2] != "volumeattachments" and entry.at - looked >= LIVE_SECONDS:
            yield Finding("I6", entry.at, f"{entry.replica} asked {entry.request} without a look")


def only_watches(entry: Entry, _: State) -> Iterator[Finding]:
    """I9: in Observe, nothing is written but statuses, incidents and events."""
    if isinstance(entry, Switched):
        yield Finding("I9", entry.at, f"{entry} in Observe")
    if isinstance(entry, Asked) and entry.is_write:
        path = entry.request.path
        if not (path.endswith("/status") or "/events" in path or "/nodeincidents" in path):
            yield Finding("I9", entry.at, f"{entry} in Observe")


def led(entry: Entry, _: State) -> Iterator[Finding]:
    """I13: whoever writes or switches has the lock at that moment, and its time is not over."""
    if not isinstance(entry, Switched | Asked) or (isinstance(entry, Asked) and not entry.is_write):
        return
    if entry.holder != entry.replica:
        yield Finding("I13", entry.at, f"{entry}, and the lock has {entry.holder or 'nobody'}")


def _at_the_end(world: World, entries: list[Entry]) -> Iterator[Finding]:
    now = world.history.now
    for verdict in world.cluster.disks.corrupted():
        yield Finding("I1", now, verdict.story)
    told = {item["metadata"]["name"] for item in world.all(INCIDENTS) if phase_of(item) != Phase.CLOSED}
    switched = {entry.node for entry in entries if isinstance(entry, Switched)}
    for name, node in world.nodes.items():
        if name in switched and not node.is_on and name not in told:
            yield Finding("I8", now, f"{name} was switched off, is off, and nobody is told")
    open_ones = [line for line in world.unsettled() if not _is_explained(line, world)]
    if open_ones:
        yield Finding("I11", now, f"troubles are long over, and {'; '.join(open_ones)}")


def _is_explained(line: str, world: World) -> bool:
    """What waits for a person is told to them; whoever is ill because of that, too."""
    waiting = {item["metadata"]["name"] for item in world.all(INCIDENTS) if phase_of(item) == Phase.NEEDS_PERSON}
    if not waiting:
        return False
    ill = {node["metadata"]["name"] for node in world.all("nodes") if ready_of(node) != "True"}
    return ("pods serve" in line and bool(ill & waiting)) or any(f" {name} " in f"{line} " for name in waiting)


def _deleted_pod(entry: Entry, state: State) -> Object | None:
    if not isinstance(entry, Asked) or entry.request.method != "DELETE":
        return None
    parts = entry.request.path.split("/")
    return state.of("pods").get(f"{parts[-3]}/{parts[-1]}") if parts[-2] == "pods" else None


def _said(entry: Asked) -> Object:
    return msgspec.json.decode(entry.request.body, type=dict) if entry.request.body else {}


def _is_forced(entry: Asked) -> bool:
    return _said(entry).get("gracePeriodSeconds") == 0


def _runs_once(pod: Object) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    is_database = pod["metadata"]["namespace"] == SHOP and any(owner["kind"] == "StatefulSet" for owner in owners)
    return is_database or any("persistentVolumeClaim" in volume for volume in pod["spec"].get("volumes") or ())


def _is_control_plane(node: Object) -> bool:
    return f"node-role.kubernetes.io/{CONTROL_PLANE}" in (node["metadata"].get("labels") or {})


def _is_over(lease: Object, at: float) -> bool:
    spec = lease["spec"]
    if not spec.get("renewTime"):
        return True
    ends = datetime.fromisoformat(spec["renewTime"]) + timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
    return ends < START + timedelta(seconds=at)

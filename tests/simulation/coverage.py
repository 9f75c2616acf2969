"""What days have reached: states, rows of the table of transitions, deeds, troubles; and what some day must reach."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from defib.decide.fencing.table import TRANSITIONS, Row
from defib.model.incident import INCIDENTS, Phase
from defib.model.node import TAINTED_BY_US
from defib.simulate.store import DELETED
from tests.simulation.faults import LAYERS, LIES, RARER, Trouble
from tests.simulation.history import Entry, Happened, Object, Switched, Written
from tests.simulation.shape import EXTRAS
from tests.simulation.world import LEADER_LEASE, LEASES, REMEDIATIONS, phase_of

# Over so many days and more, each of these must have come to pass: else what is rare is never tried.
SOMETIMES: Mapping[int, tuple[str, ...]] = {
    200: (
        "another replica leads",
        "begun podfailoverremediations",
        "begun powercycleremediations",
        "switched off",
        "switched on",
        "node was deleted by us",
        "node was out of service",
        "phase Open -> Closed",
        "phase Open -> LookingAtPower",
        "phase LookingAtPower -> PoweringOff",
        "phase LookingAtPower -> TestingPower",
        "phase TestingPower -> PoweringOff",
        "phase PoweringOff -> FreeingWorkloads",
        "phase PoweringOff -> WaitingToRetry",
        "phase FreeingWorkloads -> PoweringOn",
        "phase PoweringOn -> WaitingForNode",
        "phase WaitingForNode -> Restoring",
        "phase WaitingForNode -> Cancelling",
        "phase WaitingToRetry -> LookingAtPower",
        "phase Cancelling -> Restoring",
        "phase Restoring -> Closed",
    ),
    5000: (
        "replica dies with a machine off",
        "phase LookingAtPower -> Cancelling",
        "phase LookingAtPower -> WaitingToRetry",
        "phase TestingPower -> Cancelling",
        "phase TestingPower -> WaitingToRetry",
        "phase PoweringOff -> Cancelling",
        "phase PoweringOff -> NeedsPerson",
        "phase FreeingWorkloads -> Cancelling",
        "phase WaitingToRetry -> Cancelling",
        "phase Cancelling -> Closed",
        "phase NeedsPerson -> Closed",
        "phase NeedsPerson -> Restoring",
        *(f"trouble {layer}: {what}" for layer, whats in (*LAYERS, *RARER) for what in whats),
        *(f"trouble bmc: {what}" for what in LIES),
        *(f"shape: {name}" for name in EXTRAS),
    ),
}
# No machine of a simulated day can be replaced or is switched by hand, none is a Metal3 host, all can be read, nobody
# takes our rights away; and nodes take themselves down in a series of their own.
OUT_OF_REACH = frozenset(
    row
    for row in TRANSITIONS
    if Phase.REPLACING in (row.source, row.target)
    or "Metal3" in row.name
    or row.name in ("only a person can switch this machine", "it cannot be read", "its node may not be touched")
    or row.name in ("the same boot reports after it had to be dead", "the node has started anew")
    or (row.source, row.target) == (Phase.POWERING_OFF, Phase.RESTORING)
)


def reached_by(entries: Iterable[Entry], troubles: Iterable[Trouble]) -> Counter[str]:
    """How often each state, transition, deed and trouble came to pass."""
    reached = Counter(f"trouble {trouble.name}" for trouble in troubles)
    off = set[str]()
    for entry in entries:
        match entry:
            case Written():
                for what in _told_by(entry):
                    reached[what] += 1
            case Switched():
                reached[f"switched {entry.power}"] += 1
                (off.add if entry.power == "off" else off.discard)(entry.node)
            case Happened() if entry.what.endswith("starts"):
                reached["replica starts"] += 1
                reached["replica dies with a machine off"] += bool(off)
            case Happened() if not entry.what.startswith(("begins:", "ends:")):
                reached[entry.what] += 1
    return +reached


def _told_by(entry: Written) -> Iterator[str]:
    before = entry.change.before.object if entry.change.before else None
    now = entry.change.now.object
    if entry.resource == INCIDENTS and before is not None and phase_of(before) != phase_of(now):
        yield f"phase {phase_of(before)} -> {phase_of(now)}"
        if row := row_of(before, now):
            yield row_name(row)
    elif entry.resource in REMEDIATIONS and before is None:
        yield f"begun {entry.resource.partition('.')[0]}"
    elif entry.resource == LEASES and entry.key == LEADER_LEASE:
        holder = now["spec"].get("holderIdentity")
        if holder and holder != ((before or {}).get("spec") or {}).get("holderIdentity"):
            yield "another replica leads"
    elif entry.resource == "nodes" and entry.by:
        yield from _done_to_node(entry)


def _done_to_node(entry: Written) -> Iterator[str]:
    if entry.change.kind == DELETED:
        yield "node was deleted by us"
    elif TAINTED_BY_US in (entry.change.now.object["metadata"].get("annotations") or {}):
        yield "node was out of service"


def row_of(before: Object, now: Object) -> Row | None:
    """The row of the table by which an incident went on: the one whose words stand there, else the last that fits."""
    fitting = [row for row in TRANSITIONS if row.source == phase_of(before) and row.target == phase_of(now)]
    status = now.get("status") or {}
    told = " ".join([str(status.get("message", "")), *(one["message"] for one in (status.get("timeline") or ())[-1:])])
    named = [row for row in fitting if row.name in told]
    return next(iter(named or fitting[-1:]), None)


def row_name(row: Row) -> str:
    return f"row {row.source} -> {row.target}: {row.name}"


def never_reached(reached: Counter[str]) -> tuple[str, ...]:
    """Rows of the table that no day has gone by, of those that one could."""
    return tuple(row_name(row) for row in TRANSITIONS if row not in OUT_OF_REACH and not reached[row_name(row)])


def missed(reached: Counter[str], seeds: int, sometimes: Mapping[int, tuple[str, ...]] = SOMETIMES) -> tuple[str, ...]:
    """What so many days should have reached, and did not."""
    wanted = (what for least, whats in sometimes.items() if seeds >= least for what in whats)
    return tuple(what for what in wanted if not reached[what])

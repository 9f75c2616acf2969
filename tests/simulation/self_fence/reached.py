"""What days with agents have reached, and what some of them must: else what is rare is never tried."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from defib.model.incident import INCIDENTS
from tests.simulation.checkers.state import proof_in
from tests.simulation.faults import Trouble
from tests.simulation.history import Entry, OnNode, Written
from tests.simulation.self_fence.drawing import BESIDES
from tests.simulation.self_fence.guarded import BY_ILL_AGENT, BY_ORDER, BY_SILENCE
from tests.simulation.self_fence.guarding import Guarding
from tests.simulation.self_fence.judges import counted, distrusted
from tests.simulation.self_fence.machines import BOOTED, IN_VAIN, LOST_POWER

BY_TIME, BY_NEW_BOOT = "counted as dead: its time is over", "counted as dead: another boot reports"
EXPOSED = "exposed: it never rebooted"
OUTAGE = "the API server is down for all, for longer than a node lives without a word, and nobody dies"

SOMETIMES: Mapping[int, tuple[str, ...]] = {
    200: (
        BY_TIME,
        BY_NEW_BOOT,
        EXPOSED,
        OUTAGE,
        f"machine {BY_ORDER}",
        f"machine {BY_SILENCE}",
        f"machine {BY_ILL_AGENT}",
        f"machine {IN_VAIN}",
        f"machine {LOST_POWER}",
        "another replica leads",
        "begun selffenceremediations",
        "begun podfailoverremediations",
        "node was deleted by us",
        "node was out of service",
        "phase PoweringOff -> PoweringOn",
        "phase PoweringOff -> FreeingWorkloads",
        "phase FreeingWorkloads -> PoweringOn",
        "phase PoweringOff -> NeedsPerson",
        "phase Restoring -> Closed",
        *(f"trouble {name}" for name in BESIDES),
    ),
}


def reached_in(entries: list[Entry], troubles: Iterable[Trouble], guarding: Guarding) -> Counter[str]:
    reached: Counter[str] = Counter()
    for entry in entries:
        reached.update(_told_by(entry))
    falls = [entry.at for entry in entries if isinstance(entry, OnNode) and entry.what != BOOTED]
    for trouble in troubles:
        if trouble.name == "server: is down" and trouble.seconds > guarding.dies_seconds:
            reached[OUTAGE] += not any(trouble.at <= at <= trouble.ends for at in falls)
    return +reached


def _told_by(entry: Entry) -> Iterator[str]:
    if isinstance(entry, OnNode) and entry.what != BOOTED:
        yield f"machine {entry.what}"
    if not isinstance(entry, Written):
        return
    now = entry.change.now.object
    if entry.resource == INCIDENTS and counted(entry):
        proof = proof_in(now) or {}
        yield BY_NEW_BOOT if "another boot" in proof.get("how", "") else BY_TIME
    if distrusted(entry):
        yield EXPOSED

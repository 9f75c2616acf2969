"""What must never have happened, checked over the history of a run. Each finding names its invariant and its moment.

A checker folds over the entries and keeps what it needs of the state; nothing is asked of the operator itself. They
know the cluster, the checks in it and who asked for what: so the same ones judge a simulated day and a real one.
"""

from collections import defaultdict
from collections.abc import Iterable

from defib.model import medik8s
from defib.model.incident import INCIDENTS
from tests.simulation.checkers.budgets import ControlPlane, Limits, Rates, Threshold
from tests.simulation.checkers.endings import at_the_end
from tests.simulation.checkers.foreign import Foreign
from tests.simulation.checkers.locks import HeldWhileActing, OneForEachNode, led, unlocked
from tests.simulation.checkers.plans import decided_alike
from tests.simulation.checkers.proofs import Live, detached_when_proved, out_of_service_when_proved, proved
from tests.simulation.checkers.sight import Allowed, Braked, OnlyWatches, sees_what_it_must, sure_of_its_sight
from tests.simulation.checkers.state import HEARTBEATS, Checker, Finding, State, node_of
from tests.simulation.checkers.waits import Cleaning, Commands, Deadlines
from tests.simulation.history import Asked, Entry, Happened, OnNode, Planned, Switched, Written
from tests.simulation.world import LEASES, REMEDIATIONS, World

__all__ = ["Checker", "Finding", "State", "check", "judge", "led", "node_of", "proved"]

# What an entry is about: who cares for it is a table, since a day has thousands.
LOOKS, WRITES, SWITCHES, HAPPENS, PLANS = "looks", "writes", "switches", "happens", "plans"
MACHINES = "machines"
HEARTS, OTHERS = "heartbeats", "others"
CONFIG_MAPS, NODES = "configmaps", "nodes"
STORED = frozenset({NODES, CONFIG_MAPS, LEASES, INCIDENTS, medik8s.CHECKS, *REMEDIATIONS})


def check(world: World, entries: list[Entry]) -> list[Finding]:
    skew = max((abs(gait.ahead_seconds) for gait in world.shape.gaits), default=0.0)
    return [*judge(entries, world.history.now, skew), *at_the_end(world, entries)]


def judge(entries: Iterable[Entry], ends_at: float, skew: float = 0.0) -> list[Finding]:
    """What the history alone tells, of whichever cluster. `skew`: by so many seconds clocks of replicas may differ."""
    deadlines = Deadlines()
    caring = _caring(deadlines)
    state, found = State(skew), list[Finding]()
    for entry in entries:
        state.see(entry)
        for checker in caring[topic_of(entry)]:
            found += checker(entry, state)
    return [*found, *deadlines.at_the_end(ends_at, state)]


def topic_of(entry: Entry) -> str:
    match entry:
        case Written():
            resource = entry.resource
            is_beat = resource == LEASES and entry.key.startswith(HEARTBEATS)
            return HEARTS if is_beat else resource if resource in STORED else OTHERS
        case Asked():
            return WRITES if entry.is_write else LOOKS
        case Switched():
            return SWITCHES
        case Happened():
            return HAPPENS
        case Planned():
            return PLANS
        case OnNode():
            return MACHINES


def _caring(deadlines: Deadlines) -> dict[str, list[Checker]]:
    acts = (*REMEDIATIONS, SWITCHES)
    table: tuple[tuple[Checker, tuple[str, ...]], ...] = (
        (proved, (WRITES,)),
        (out_of_service_when_proved, (NODES,)),
        (detached_when_proved, (WRITES,)),
        (unlocked, acts),
        (HeldWhileActing().check, (LEASES, *acts)),
        (OneForEachNode().check, REMEDIATIONS),
        (Limits().check, (NODES, medik8s.CHECKS, *REMEDIATIONS)),
        (Threshold().check, (NODES, medik8s.CHECKS, *REMEDIATIONS)),
        (Rates().check, REMEDIATIONS),
        (ControlPlane().check, (NODES, *acts)),
        (sure_of_its_sight, (WRITES, *acts)),
        (sees_what_it_must, (WRITES, *acts)),
        (Braked().check, (CONFIG_MAPS, WRITES, *acts)),
        (Live().check, (LOOKS, WRITES)),
        (Foreign().check, (WRITES, OTHERS, *STORED)),
        (Commands().check, (SWITCHES, INCIDENTS)),
        (deadlines.check, (HAPPENS, LEASES, INCIDENTS, *REMEDIATIONS)),
        (OnlyWatches().check, (medik8s.CHECKS, WRITES, SWITCHES)),
        (Allowed().check, (NODES, medik8s.CHECKS, *REMEDIATIONS)),
        (decided_alike, (PLANS,)),
        (led, (WRITES, SWITCHES)),
        (Cleaning().check, (HAPPENS, NODES, LEASES, medik8s.CHECKS, *REMEDIATIONS)),
    )
    caring = defaultdict[str, list[Checker]](list)
    for checker, topics in table:
        for topic in topics:
            caring[topic].append(checker)
    return caring

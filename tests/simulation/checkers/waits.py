"""I10 and I14: every wait ends when it says it does, every attempt is counted, and cleaning up waits for no guard.

What a replica can do depends on whether it can reach anything. So time counts only while nothing disturbs it: from a
while after the last trouble of those that do, until the next one.
"""

import math
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

import msgspec

from defib.model import medik8s
from defib.model.health_check import Check
from defib.model.incident import INCIDENTS, Phase
from defib.model.power_cycle import Policy
from defib.simulate.store import DELETED
from tests.simulation.checkers.budgets import is_troubled
from tests.simulation.checkers.quiet import ACTS_SECONDS
from tests.simulation.checkers.state import FENCING, Finding, State, node_of, policy_of
from tests.simulation.history import Entry, Object, Switched, Written
from tests.simulation.world import REMEDIATIONS, phase_of

SLACK_SECONDS = 30.0  # so long after its time something may still be under way
CLEANS_SECONDS = 20.0  # and so long after its node is well, a remediation may still be there
CLOCKS_DIFFER = 1.25  # the slowest clock that is legal needs so much longer for the same time
# Of one life of a replica: one every ten seconds, while its phase lasts; what is refused is tried again after a second,
# then two, then four, until one is accepted.
IN_A_SHORT_PHASE, IN_A_LONG_ONE = 16, 184
LATE_OFF = timedelta(seconds=30)
AT_ONCE_SECONDS = 0.5  # whoever was told so lately is told for nothing: even what is refused waits for a second

# A brake, and doubt, hold these back for as long as they last.
_HELD = frozenset({Phase.POWERING_OFF, Phase.FREEING, Phase.REPLACING})
_SHORT = frozenset({Phase.POWERING_OFF, Phase.POWERING_ON, Phase.TESTING})


class _Stay(msgspec.Struct):
    """An incident in one phase, and for how many seconds it may be."""

    phase: str
    since: float
    limit: float
    is_told: bool = False


class Deadlines:
    """I10: no incident stays in a phase for longer than is stated; none is tried more often than is allowed."""

    def __init__(self) -> None:
        self._stays: dict[str, _Stay] = {}
        self._policies: dict[str, Policy] = {}

    def check(self, entry: Entry, state: State) -> Iterator[Finding]:
        yield from self._late(entry.at, state)
        if isinstance(entry, Written) and entry.resource in FENCING:
            self._read(entry.resource, entry.change.now.object)
        if isinstance(entry, Written) and entry.resource == INCIDENTS:
            yield from self._enter(entry)

    def _read(self, resource: str, order: Object) -> None:
        policy = policy_of(resource, order)
        if policy is not None:
            self._policies[order["metadata"]["uid"]] = policy

    def _enter(self, entry: Written) -> Iterator[Finding]:
        incident, name = entry.change.now.object, entry.key
        policy = self._policies.get((incident["spec"].get("cause") or {}).get("uid", ""))
        phase, status = phase_of(incident), incident.get("status") or {}
        if entry.change.kind == DELETED or phase == Phase.CLOSED or policy is None:
            self._stays.pop(name, None)
            return
        attempt = int(status.get("attempt") or 1)
        if attempt > policy.attempts:
            yield Finding("I10", entry.at, f"{name} is in attempt {attempt}, and {policy.attempts} are allowed")
        known = self._stays.get(name)
        limit = limit_of(phase, policy)
        if known is None or known.phase != phase:
            known = self._stays[name] = _Stay(phase, entry.at, math.inf)
        if limit is not None:
            known.limit = limit.total_seconds() + _dies_seconds(status)

    def _late(self, at: float, state: State) -> Iterator[Finding]:
        for name, stay in self._stays.items():
            may_wait = stay.phase in _HELD and not state.quiet.is_over
            begins = max(stay.since, state.quiet.since(at))
            ends = begins + stay.limit * CLOCKS_DIFFER + SLACK_SECONDS + 2 * state.skew
            if at > ends and not may_wait and not stay.is_told:
                stay.is_told = True
                yield Finding("I10", at, f"{name} is in {stay.phase} since {stay.since:.0f} s")

    def at_the_end(self, at: float, state: State) -> Iterator[Finding]:
        yield from self._late(at, state)


def _dies_seconds(status: Object) -> float:
    """How much longer it takes until a node is down that takes itself down."""
    is_awaited = status.get("phase") == Phase.POWERING_OFF
    return float((status.get("safeTime") or {}).get("seconds", 0.0)) if is_awaited else 0.0


def limit_of(phase: str, policy: Policy) -> timedelta | None:
    """How long an incident may stay in a phase, as docs say; None where only something else can end it."""
    return {
        Phase.LOOKING: policy.off_within,
        Phase.TESTING: policy.on_within,
        Phase.POWERING_OFF: policy.off_within,
        Phase.FREEING: policy.free_within,
        Phase.POWERING_ON: policy.on_within,
        Phase.RETURNING: policy.back_within,
        Phase.RESTORING: policy.back_within,
        Phase.CANCELLING: LATE_OFF + policy.on_within + policy.back_within,
        Phase.REPLACING: policy.back_within * 6,
    }.get(Phase(phase))


class Commands:
    """I8 and I10: a machine goes off only while its incident says so, and is told no more often than makes sense."""

    def __init__(self) -> None:
        self._sent: Counter[tuple[str, ...]] = Counter()
        self._latest: dict[tuple[str, ...], float] = {}
        self._told: dict[str, tuple[float, Object]] = {}

    def check(self, entry: Entry, _: State) -> Iterator[Finding]:
        if isinstance(entry, Written):
            self._remember(entry)
        if isinstance(entry, Switched):
            at, incident = self._told.get(entry.node, (-math.inf, {}))
            if entry.at - at > ACTS_SECONDS:
                yield Finding("I8", entry.at, f"{entry}, and no open incident tells of it")
            else:
                yield from self._judge(entry, incident)

    def _remember(self, entry: Written) -> None:
        """The version that counts, until a moment after it is over: somebody may wipe or delete it meanwhile."""
        for version in (entry.change.before, entry.change.now if entry.change.kind != DELETED else None):
            tells = version is not None and (version.object.get("status") or {}).get("command")
            if version is not None and tells and phase_of(version.object) != Phase.CLOSED:
                self._told[entry.key] = math.inf if version is entry.change.now else entry.at, version.object

    def _judge(self, entry: Switched, incident: Object) -> Iterator[Finding]:
        if entry.power == "off" and phase_of(incident) != Phase.POWERING_OFF:
            yield Finding("I10", entry.at, f"{entry} in {phase_of(incident)}")
        # A person may have wiped the record, and it begins from the beginning.
        begun = str((incident["status"].get("timeline") or [{}])[0].get("at"))
        told = (incident["metadata"]["uid"], begun, phase_of(incident), entry.replica, entry.power)
        if entry.at - self._latest.get(told, -math.inf) < AT_ONCE_SECONDS:
            yield Finding("I10", entry.at, f"{entry}, as it was a moment ago")
        self._latest[told] = entry.at
        # What was held back begins its time anew when it goes on.
        key = (incident["metadata"]["uid"], str(incident["status"].get("since")), entry.replica, entry.power)
        self._sent[key] += 1
        most = IN_A_SHORT_PHASE if phase_of(incident) in _SHORT else IN_A_LONG_ONE
        if self._sent[key] == most + 1:
            yield Finding("I10", entry.at, f"{entry} more than {most} times")


class Cleaning:
    """I14: the remediation of a node that is well again is being removed within a third of a minute, whatever holds others back."""

    def __init__(self) -> None:
        self._well: dict[tuple[str, str], tuple[float, float]] = {}  # of a check and a node: since when, and the delay
        self._told: set[tuple[str, str]] = set()

    def check(self, entry: Entry, state: State) -> Iterator[Finding]:
        for key, (since, delay) in self._well.items():
            due = max(since, state.quiet.since(entry.at)) + delay * CLOCKS_DIFFER + CLEANS_SECONDS + 2 * state.skew
            if entry.at > due and key not in self._told:
                self._told.add(key)
                check, node = key
                yield Finding("I14", entry.at, f"{node} is well since {since:.0f} s, and {check} goes on with it")
        if isinstance(entry, Written) and entry.resource in ("nodes", medik8s.CHECKS, *REMEDIATIONS):
            self._look(entry, state)

    def _look(self, entry: Written, state: State) -> None:
        name = node_of(entry.change.now.object) if entry.resource in REMEDIATIONS else entry.key
        checks = state.of(medik8s.CHECKS)
        nodes = state.of("nodes") if entry.resource == medik8s.CHECKS else {name}
        for check_name in checks:
            for node in nodes:
                self._judge(check_name, node, entry.at, state)

    def _judge(self, name: str, node: str, at: float, state: State) -> None:
        key, check, item = (name, node), state.check(name), state.of("nodes").get(node)
        delay = _delay(check)
        is_well = check is not None and delay is not None and item is not None and not is_troubled(item, check)
        there = [one for one in state.remediations(name) if node_of(one) == node]
        if is_well and delay is not None and any("deletionTimestamp" not in one["metadata"] for one in there):
            self._well.setdefault(key, (at, delay))
        else:
            self._well.pop(key, None)
            self._told.discard(key)


def _delay(check: Check | None) -> float | None:
    """None where only a person can say when a node is well, or the check is on its way out."""
    if check is None or check.is_being_deleted:
        return None
    delay = (check.healthy_delay or timedelta()).total_seconds()
    return delay if delay >= 0 else None

"""The demo's story in lines: who did what, when. Pure: what was seen before and after in, sentences out."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from defib.decide.changes import Change, What
from defib.decide.drains.plan import Drains
from defib.decide.plan import Plan
from defib.model.incident import NodeIncident, Phase
from defib.model.node_drain import PodEntry
from defib.model.verdict import State, Verdict
from defib.picture import Picture, Told
from defib.telemetry.printable import printable

POWER, KUBERNETES, DEFIB, DEMO = "power", "kube", "defib", "demo"
OF_A_KIND = {What.BLIND, What.SEES}
OF_OUR_SIGHT = OF_A_KIND | {What.UNREAD}
BAD = {What.NOT_READY, What.BLIND, What.LEFT, What.UNREAD}


class Spoken(msgspec.Struct, frozen=True):
    """One line of the story. `by` is who does it or knows it: the machine room, Kubernetes, or Defib."""

    at: datetime
    by: str
    text: str
    bad: bool = False

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S}  {self.by:5}  {self.text}"


def changes_told(told: tuple[Told, ...]) -> Iterator[Spoken]:
    """What Defib saw change. Nodes that join in the same look are one line, however many."""
    joined: list[Told] = []
    known: set[str] = set()
    for one in told:
        change = one.change
        if change.what is What.JOINED:
            joined.append(one)
        elif change.what not in OF_A_KIND or change.subject in known:
            by = DEFIB if change.what in OF_OUR_SIGHT else KUBERNETES
            yield Spoken(one.at, by, printable(_sentence(change)), change.what in BAD)
        if change.what is What.SEES:  # how a kind first comes into sight is no story
            known.add(change.subject)
    for at in sorted({one.at for one in joined}):
        names = [one.change.subject for one in joined if one.at == at]
        text = f"{names[0]} joined" if len(names) == 1 else f"{len(names)} nodes joined"
        yield Spoken(at, KUBERNETES, printable(text))


def _sentence(change: Change) -> str:
    match change.what:
        case What.SEES:
            return f"sees the {change.subject} again"
        case What.BLIND:
            return f"lost sight of the {change.subject}: {change.why}"
        case _:
            return str(change)


def deeds(before: Picture, after: Picture, at: datetime) -> Iterator[Spoken]:
    """What Defib came to think and do between two pictures."""
    if before is after:
        return
    was, now = _verdicts(before.plan), _verdicts(after.plan)
    for key in sorted(was.keys() | now.keys()):
        if said := _turn(was.get(key), now.get(key), after.cluster.now):
            text, bad = said
            yield Spoken(at, DEFIB, printable(text), bad)
    yield from _fenced(before.cluster.incidents(), after.cluster.incidents(), at)
    yield from _drained(before.own.drains, after.own.drains, at)


def _fenced(before: Mapping[str, NodeIncident], after: Mapping[str, NodeIncident], at: datetime) -> Iterator[Spoken]:
    """A step of a power cycle is one line, in the words of its incident."""
    for node in sorted(after):
        was, now = before.get(node), after[node].status
        if was is not None and was.status.phase is now.phase:
            continue
        if now.message:
            yield Spoken(at, DEFIB, printable(f"{node} {now.phase}: {now.message}"), now.phase is Phase.NEEDS_PERSON)


def _drained(before: Drains, after: Drains, at: datetime) -> Iterator[Spoken]:
    for node in sorted(after.standings):
        known = {(one.uid, one.rung) for one in _steps(before, node)}
        for step in _steps(after, node):
            if (step.uid, step.rung) not in known:
                yield Spoken(at, DEFIB, printable(f"drain of {node}: {step.rung} {step.name}: {step.why}"))


def _steps(drains: Drains, node: str) -> Sequence[PodEntry]:
    standing = drains.standings.get(node)
    return (standing.status.pods or ()) if standing is not None else ()


def pods_said(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def _verdicts(plan: Plan) -> dict[tuple[str, str], Verdict]:
    return {(node, name): verdict for name, check in plan.checks.items() for node, verdict in check.verdicts.items()}


def _turn(was: Verdict | None, now: Verdict | None, moment: datetime) -> tuple[str, bool] | None:
    """What to say when a node's verdict turns, and whether it is bad; None when there is nothing new."""
    begun = was is not None and was.state in (State.REMEDIATING, State.RECOVERING)
    if now is None:
        return (f"{was.node} is well again: its remediation is removed", False) if was is not None and begun else None
    if was is not None and _gist(was) == _gist(now):
        return None
    match now.state:
        case State.SUSPECT if now.since is not None:
            left = max((now.since - moment).total_seconds(), 0.0)
            return f"{now.node} is suspect: unhealthy if that lasts {left:.1f} s more", True
        case State.UNHEALTHY:
            return f"{now.node} is unhealthy, but held back: {now.message}", True
        case State.REMEDIATING if not begun:
            return f"{now.node} is unhealthy, every gate is open: remediation begins", True
        case _:
            return None


def _gist(verdict: Verdict) -> tuple[State, str]:
    """Why it is held back is news each time it changes; what else a verdict says changes too often."""
    return verdict.state, verdict.reason if verdict.state is State.UNHEALTHY else ""

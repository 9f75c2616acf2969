"""What Defib would do if nodes, a zone or the API server failed now: tried on a copy of the cluster, in no time.

The copy goes through its days as the operator would see them: things happen, Defib decides, what it decides is done to
the copy, and time moves on to the next moment at which it would look again.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from defib.clock import SystemClock
from defib.config import Settings
from defib.console.blast import Blast, blast_of
from defib.console.deeds import ACTS, deed_of
from defib.console.mishap import Course, Mishap, Turn, course_of
from defib.console.plan import gate_told, held_by
from defib.console.recording import read_recording
from defib.console.session import connected
from defib.console.stage import Stage
from defib.console.thorough import PodsByNode, Seen, Thought, look_at_all
from defib.decide.answers.failover import failover_of
from defib.decide.answers.told import GateTold, Told
from defib.decide.explain import explain
from defib.decide.failover.words import count
from defib.decide.outlook import STARTING
from defib.decide.plan import NOTHING, Plan, decide
from defib.decide.remediators import NO_WORK, OwnWork, plan_own_work
from defib.decide.rules import Rules
from defib.model.action import Action, MovePod, StartRemediation
from defib.model.pod import pods_on
from defib.model.verdict import State, Verdict

ROUNDS_MAX = 12  # at one instant: what is not settled by then never is
# Where nothing comes of looking again and again, as in doubt, time moves on in ever larger parts, from here to there.
SMALLEST_PART, LARGEST_PART = 1 / 600, 1 / 60
NAMES_SHOWN = 8
OUT_OF_SIGHT = "the pods of the cluster could not be read"


class Happening(Told, frozen=True, kw_only=True):
    """At one moment, the same of one or many nodes."""

    at: datetime
    after_seconds: float
    who: str  # a check, or Kubernetes, or Defib for its own work
    what: str
    count: int  # nodes
    nodes: tuple[str, ...]  # the first of them


class Fate(Told, frozen=True, kw_only=True):
    """What became of one node that failed, under one check."""

    node: str
    check: str
    state: str
    message: str
    unhealthy_at: datetime | None
    remediated_at: datetime | None
    by: str  # the remediation
    held_by: str  # the gate that is in the way at the end
    pods: tuple[str, ...] = ()  # what pod failover says of its pods at the end


class CheckAfter(Told, frozen=True, kw_only=True):
    check: str
    phase: str
    reason: str
    remediating: int
    most_remediating: int  # at any one time
    gates: tuple[GateTold, ...]


class WhatIf(Told, frozen=True, kw_only=True):
    source: str
    begins: datetime
    ends: datetime
    nodes: int
    killed: tuple[str, ...]
    assumptions: tuple[str, ...]
    happenings: tuple[Happening, ...]
    fates: tuple[Fate, ...]
    checks: tuple[CheckAfter, ...]
    blast: Blast | None
    unknown: tuple[str, ...]


async def what_if_now(mishap: Mishap, length: timedelta, settings: Settings, rules: Rules) -> WhatIf:
    """Raises NotDone."""
    async with connected(settings, SystemClock()) as session:
        seen = await look_at_all(session.client, session.clock, rules, with_pods=True)
    return what_if(mishap, length, seen, rules, source="")


def what_if_of_dump(mishap: Mishap, length: timedelta, path: Path) -> WhatIf:
    """On its last frame, by the rules that it was made with. Raises NotDone."""
    recording = read_recording(path)
    seen = Seen(recording.last, recording.header.unknown, recording.pods)
    return what_if(mishap, length, seen, recording.header.rules, source=str(path))


def what_if(mishap: Mishap, length: timedelta, seen: Seen, rules: Rules, source: str) -> WhatIf:
    course = course_of(mishap, seen.cluster, length)
    play = _Play(course, seen, rules)
    play.run()
    killed = tuple(sorted(course.killed))
    return WhatIf(
        source=source,
        begins=course.begins,
        ends=course.ends,
        nodes=len(seen.cluster.nodes),
        killed=killed,
        assumptions=_assumptions(course),
        happenings=tuple(play.happenings),
        fates=tuple(play.fates()),
        checks=tuple(play.checks()),
        blast=blast_of(killed, seen.pods) if seen.pods is not None and killed else None,
        unknown=seen.unknown,
    )


def _assumptions(course: Course) -> tuple[str, ...]:
    told = []
    if course.killed:
        grace = int((course.not_ready_at - (course.api_back or course.begins)).total_seconds())
        told += [
            f"Kubernetes calls a node Unknown {grace} s after its last heartbeat, and the nodes that died stay dead",
            "what machines and other remediators do is not played; only what Defib does, and what holds it back",
            "a volume claim that cannot be read here counts as one that only one pod may use",
        ]
    if course.api_back is not None:
        minutes = (course.api_back - course.begins).total_seconds() / 60
        told.append(f"the API server is away for {minutes:g} min, and back with all that it knew")
    return tuple(told)


class _Play:
    def __init__(self, course: Course, seen: Seen, rules: Rules) -> None:
        self._course = course
        self._pods = seen.pods
        self._rules = rules
        self._cluster = course.at(seen.cluster, course.begins)
        self._plan: Plan = NOTHING
        self._own: OwnWork = NO_WORK
        self._version = 0
        self._told: dict[tuple[str, str], str] = {}  # what was last told of a gate or a node, by check and name
        self._not_played: set[str] = set()
        self._unhealthy_at: dict[tuple[str, str], datetime] = {}
        self._begun: dict[tuple[str, str], StartRemediation] = {}
        self._begun_at: dict[tuple[str, str], datetime] = {}
        self._most: dict[str, int] = {}
        self.happenings: list[Happening] = []

    def run(self) -> None:
        turns = list(self._course.turns)
        length = self._course.ends - self._course.begins
        least = SMALLEST_PART * length
        now = self._course.begins
        for what in self._course.beginning:
            self._happened("Kubernetes", what, ())
        while True:
            has_news = self._settle()
            if now >= self._course.ends:
                return
            now = self._next(now, timedelta() if has_news else least, turns)
            least = SMALLEST_PART * length if has_news else min(2 * least, LARGEST_PART * length)
            self._cluster = msgspec.structs.replace(self._cluster, now=now)
            while turns and turns[0].at <= now:
                self._turn(turns.pop(0))

    def _next(self, now: datetime, least: timedelta, turns: list[Turn]) -> datetime:
        wanted = [moment for moment in (self._plan.wake_at, *self._own.moments) if moment is not None and moment > now]
        soon = max(min(wanted, default=self._course.ends), now + least)
        ahead = [turn.at for turn in turns]
        return min(soon, self._course.ends, *ahead)

    def _turn(self, turn: Turn) -> None:
        self._cluster = self._course.at(self._cluster, self._cluster.now)
        self._happened("Kubernetes", turn.what, ())

    # Deciding, and doing what was decided, until there is nothing left to do at this instant

    def _settle(self) -> bool:
        before = len(self.happenings)
        for _ in range(ROUNDS_MAX):
            self._plan = decide(self._cluster, self._rules, self._plan)
            self._own = plan_own_work(self._cluster, self._rules, self._plan, self._own)
            self._tell_gates()
            self._tell_nodes()
            is_cut = bool(self._cluster.blind)
            done = () if is_cut else self._carry_out(Thought(self._plan, self._own).actions)
            if not done and not self._show_pods():
                break
        return len(self.happenings) > before

    def _carry_out(self, actions: Iterable[Action]) -> tuple[Action, ...]:
        wanted = tuple(actions)
        stage = Stage(self._cluster, self._rules.lock_namespace, self._version)
        done = stage.carry_out(wanted)
        self._version = stage.version
        if done:
            self._cluster = stage.after()
        ids = {id(action) for action in done}
        for action in wanted:
            if id(action) not in ids:
                self._tell_unplayed(action)
            elif isinstance(action, StartRemediation):
                self._begun[action.check, action.node] = action
                self._begun_at.setdefault((action.check, action.node), self._cluster.now)
        self._tell_deeds(done)
        return done

    def _show_pods(self) -> bool:
        """The pods of nodes that are looked after now, as an operator would ask for them."""
        missing = [node for node in self._own.nodes if pods_on(node) not in self._cluster.others]
        if not missing:
            return False
        known: PodsByNode = self._pods or {}
        shelves = {pods_on(node): {pod.key: pod for pod in known.get(node, ())} for node in missing}
        absent = {} if self._pods is not None else dict.fromkeys(shelves, OUT_OF_SIGHT)
        self._cluster = msgspec.structs.replace(
            self._cluster,
            others={**self._cluster.others, **shelves},
            absent={**self._cluster.absent, **absent},
        )
        return True

    # Telling what happens

    def _happened(self, who: str, what: str, nodes: Iterable[str]) -> None:
        listed = sorted(nodes)
        self.happenings.append(
            Happening(
                at=self._cluster.now,
                after_seconds=round((self._cluster.now - self._course.begins).total_seconds(), 3),
                who=who,
                what=what,
                count=len(listed),
                nodes=tuple(listed[:NAMES_SHOWN]),
            )
        )

    def _tell_gates(self) -> None:
        for name, one in self._plan.checks.items():
            for gate in one.gates:
                is_news = self._is_news(name, f"gate {gate.name}", "" if gate.is_open else "closed")
                if is_news:
                    said = "opens" if gate.is_open else f"CLOSES: {gate.message}"
                    self._happened(f"check {name}", f"gate {gate.name} {said}", ())

    def _tell_nodes(self) -> None:
        """Nodes of which the same can be said are told together."""
        found: dict[tuple[str, str], list[str]] = {}
        for name, one in self._plan.checks.items():
            for verdict in one.verdicts.values():
                if verdict.state is State.UNHEALTHY and verdict.since is not None:
                    self._unhealthy_at.setdefault((name, verdict.node), verdict.since)
                said = _said(verdict)
                if said and self._is_news(name, verdict.node, said):
                    found.setdefault((name, said), []).append(verdict.node)
            remediating = sum(verdict.state is State.REMEDIATING for verdict in one.verdicts.values())
            self._most[name] = max(self._most.get(name, 0), remediating)
        for (name, said), nodes in found.items():
            self._happened(f"check {name}", said, nodes)

    def _tell_deeds(self, done: Iterable[Action]) -> None:
        """Remediations and pods are many: each kind of deed once, with its nodes."""
        found: dict[tuple[str, str], list[str]] = {}
        for action in done:
            deed = deed_of(action)
            if deed.effect == ACTS:
                who = f"check {deed.check}" if deed.check else "Defib"
                found.setdefault((who, _deed_in_short(action, deed.what)), []).append(deed.node)
        for (who, what), nodes in found.items():
            self._happened(who, what.format(count(len(nodes))), set(nodes))

    def _tell_unplayed(self, action: Action) -> None:
        if action.key not in self._not_played and deed_of(action).effect == ACTS:
            self._not_played.add(action.key)
            self._happened("Defib", f"would {deed_of(action).what}; not played any further", ())

    def _is_news(self, check: str, about: str, said: str) -> bool:
        """What is as usual is no news the first time."""
        was = self._told.get((check, about), "")
        self._told[check, about] = said
        return was != said

    # How it ends

    def fates(self) -> Iterable[Fate]:
        for node in sorted(self._course.killed):
            for verdict in explain(node, self._cluster, self._plan):
                key = (verdict.check, node)
                begun = self._begun.get(key)
                yield Fate(
                    node=node,
                    check=verdict.check,
                    state=verdict.state.value,
                    message=verdict.message,
                    unhealthy_at=self._unhealthy_at.get(key) or (self._begun_at.get(key)),
                    remediated_at=self._begun_at.get(key),
                    by=f"{begun.kind.name} {begun.body['metadata']['name']}" if begun is not None else "",
                    held_by=held_by(verdict),
                    pods=tuple(f"{one.state}: {one.message}" for one in failover_of(node, self._cluster)),
                )

    def checks(self) -> Iterable[CheckAfter]:
        for name, one in self._plan.checks.items():
            states: Mapping[str, Verdict] = one.verdicts
            yield CheckAfter(
                check=name,
                phase=one.status.phase,
                reason=one.status.reason,
                remediating=sum(verdict.state is State.REMEDIATING for verdict in states.values()),
                most_remediating=self._most.get(name, 0),
                gates=tuple(gate_told(gate) for gate in one.gates),
            )


def _said(verdict: Verdict) -> str:
    """Without what only the time changes. What is begun is told as a deed."""
    match verdict.state:
        case State.SUSPECT:
            at = f" at {verdict.since:%H:%M:%S} UTC" if verdict.since is not None else ""
            return f"not well: will count as unhealthy{at}"
        case State.UNHEALTHY if verdict.reason != STARTING:
            return f"unhealthy and HELD BACK by {held_by(verdict) or verdict.reason}: {verdict.message}"
        case State.RECOVERING:
            return "well again"
    return ""


def _deed_in_short(action: Action, what: str) -> str:
    if isinstance(action, StartRemediation):
        return f"remediated: {action.kind.name} is created"
    if isinstance(action, MovePod):
        return "{} deleted, to run elsewhere"
    return what.replace("{", "{{").replace("}", "}}")

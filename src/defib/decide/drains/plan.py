"""What to do about drains: each is recorded, watched, helped along when its time has come, and told of.

    somebody drains a node ──▶ NodeDrain is made ──▶ Watching ──▶ something is due ──▶ Forcing ──▶ Drained
                                  │                                │ mode, brake, lock, remediation, budget: Held
                                  └ nobody drains it any more: Paused ──▶ for longer than the window: the record goes

First it is written into the record, then it is done: that a node is forced at all, and every step for every pod.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

import msgspec

from defib.decide.check_plan import CheckPlan
from defib.decide.doubt import why_held
from defib.decide.drains.budgets import UNSEEN, Budgets, budgets_in
from defib.decide.drains.compatibility import KINDS as NODEKEEPERS
from defib.decide.drains.intents import Intents, find_intent, find_intents, kinds_for
from defib.decide.drains.policy_report import report_policy
from defib.decide.drains.record import broken_off, new_record, report_drain
from defib.decide.drains.standing import Standing, standing_of
from defib.decide.drains.steps import reads_for, steps_for
from defib.decide.drains.survey import (
    Drained,
    Known,
    Record,
    Remembered,
    known_policies,
    known_records,
    look_again,
    policy_for,
    sights_of,
)
from defib.decide.drains.turns import Held, Turns, others_at_work
from defib.decide.drains.waiting import Asking
from defib.decide.entries import release
from defib.decide.failover.plan import Failover
from defib.decide.rules import Rules
from defib.model import medik8s
from defib.model.action import Action, HoldLock
from defib.model.budget import BUDGET
from defib.model.cluster import Cluster, Served, Wanted
from defib.model.drain_action import PodStep
from defib.model.drain_policy import POLICY, Policy, Source
from defib.model.health_check import KindRef
from defib.model.lock import Claim, ends_at, is_held
from defib.model.node import Lease
from defib.model.node_drain import DRAIN, LOCK_HOLDER, Phase

SEEN_AT_ONCE = 200  # nodes of which the pods are in sight at a time, however many are drained
HELD_AGAIN = timedelta(seconds=10)  # not all that holds a drain back tells us that it has ended
LOCK_LENGTH, LOCK_RENEWED = timedelta(minutes=2), timedelta(minutes=1)


class Drains(msgspec.Struct, frozen=True, kw_only=True):
    """What to do, and what is remembered until the next pass, which only spares work."""

    actions: tuple[Action, ...] = ()
    nodes: frozenset[str] = frozenset()  # of which the pods must be in sight
    wake_at: datetime | None = None
    kinds: Mapping[KindRef, Wanted] = {}
    claims: frozenset[str] = frozenset()
    standings: Mapping[str, Standing] = {}  # by node
    known: Mapping[str, Known] = {}
    records: Mapping[str, Record] = {}
    budgets: Budgets = UNSEEN
    intents: Intents = Intents()
    looks: Mapping[str, Remembered] = {}


NOTHING = Drains()


def plan_drains(
    cluster: Cluster, rules: Rules, checks: Mapping[str, CheckPlan], failover: Failover, before: Drains = NOTHING
) -> Drains:
    known, records = known_policies(cluster, before.known), known_records(cluster, before.records)
    if not known and not records and not _locks(cluster):
        return NOTHING
    sources = frozenset(source for one in known.values() if (policy := one.served) for source in policy.sources)
    intents = find_intents(cluster, sources, before.intents)
    drained = _drained(cluster, known, intents)
    budgets = budgets_in(cluster, before.budgets)
    sights = sights_of(cluster, budgets)
    looks = {name: look_again(one, records.get(name), sights, before.looks.get(name)) for name, one in drained.items()}
    turns = Turns(cluster, rules, others_at_work(cluster, checks, failover), records)
    standings = _standings(looks, records, turns, _hold(cluster, rules))
    kinds = _kinds(known, sources)
    work = _Work(cluster, turns, Asking(sights.evictions, cluster.now))
    work.go_on(standings, drained)
    sees_all = _sees_all(kinds, cluster)
    if sees_all:
        work.end({name: record for name, record in records.items() if name not in drained}, known)
        work.report(known, standings)
    work.give_back(standings, sees_all=sees_all)
    return Drains(
        actions=tuple(work.actions),
        nodes=_nodes(standings),
        wake_at=min(work.moments, default=None),
        kinds=kinds | ({BUDGET: Wanted()} if drained else {}),
        claims=frozenset(claim for one in standings.values() for claim in one.claims),
        standings=standings,
        known=known,
        records=records,
        budgets=budgets,
        intents=intents,
        looks=looks,
    )


def _drained(cluster: Cluster, known: Mapping[str, Known], intents: Intents) -> dict[str, Drained]:
    """Nodes that somebody drains in a way that their policy watches."""
    found: dict[str, Drained] = {}
    for name, intent in sorted(intents.by_node.items()):
        node = cluster.nodes[name]
        if (watching := policy_for(node, known)) is None:
            continue
        one, policy = watching
        fits = intent if intent.source in policy.sources else find_intent(node, cluster, policy.sources)
        if fits is not None:
            found[name] = Drained(node=node, known=one, policy=policy, intent=fits)
    return found


def _hold(cluster: Cluster, rules: Rules) -> Held | None:
    """Why nothing may be forced anywhere."""
    kinds = (cluster.kinds.get(kind) for kind in (POLICY, DRAIN, BUDGET))
    needed = {"nodes", "heartbeats", "configmaps", *(one.collection for one in kinds if isinstance(one, Served))}
    needed |= {"locks"} - cluster.absent.keys()
    reason, message = why_held(frozenset(needed), cluster, rules)
    return Held(reason, message) if reason else None


def _standings(
    looks: Mapping[str, Remembered], records: Mapping[str, Record], turns: Turns, hold: Held | None
) -> dict[str, Standing]:
    """Whoever began first has the first turn."""
    in_turn = sorted(looks.items(), key=lambda one: (one[1].look.schedule.started_at, one[0]))
    return {name: standing_of(one.look, records.get(name), turns, hold) for name, one in in_turn}


def _nodes(standings: Mapping[str, Standing]) -> frozenset[str]:
    """Those that have begun first of all, then the longest drained; those of which nothing was left last of all."""
    statuses = {name: one.status for name, one in standings.items()}
    in_turn = sorted(statuses, key=lambda name: (not statuses[name].begun, statuses[name].phase is Phase.DRAINED))
    return frozenset(in_turn[:SEEN_AT_ONCE])


def _kinds(known: Mapping[str, Known], sources: frozenset[Source]) -> dict[KindRef, Wanted]:
    """What tells of drains, and what policies follow."""
    is_nodekeepers = any(isinstance(one.written, Policy) and one.written.is_nodekeepers for one in known.values())
    return {**kinds_for(sources), **(NODEKEEPERS if is_nodekeepers else {})}


def _sees_all(kinds: Iterable[KindRef], cluster: Cluster) -> bool:
    """Whether a drain that we do not see is none. After a start, and while a watch is lost, nobody can tell."""
    answers = [cluster.kinds.get(kind) for kind in (POLICY, DRAIN, *kinds)]
    needed = {"nodes", *(one.collection for one in answers if isinstance(one, Served))}
    return None not in answers and needed.isdisjoint(blindness.kind for blindness in cluster.blind)


def _locks(cluster: Cluster) -> list[Lease]:
    """Those that we hold for drains."""
    return [lease for lease in cluster.locks.values() if lease.spec.holder_identity == LOCK_HOLDER]


class _Work:
    """Gathers what is to be done, and when to look again."""

    def __init__(self, cluster: Cluster, turns: Turns, asking: Asking) -> None:
        self._cluster = cluster
        self._turns = turns
        self._asking = asking
        self.actions: list[Action] = []
        self.moments: list[datetime] = []

    def go_on(self, standings: Mapping[str, Standing], drained: Mapping[str, Drained]) -> None:
        for name, one in standings.items():
            if one.record is None:
                self.actions.append(new_record(drained[name]))
                continue
            report = report_drain(one, one.record, self._cluster.now)
            if report is not None:
                self.actions.append(report)
            self.actions += reads_for(one)
            if one.status.phase is Phase.FORCING:
                self.actions += self._lock(one)
                if self._has_lock(name):
                    self.actions += steps_for(one, one.record, self._asking)
            if one.status.phase is Phase.HELD:
                self.moments.append(self._cluster.now + HELD_AGAIN)
            self.moments += one.moments
        self.moments += self._asking.moments

    def end(self, records: Mapping[str, Record], known: Mapping[str, Known]) -> None:
        """Those of which nobody drains the node now."""
        for record in records.values():
            deed, again = broken_off(record, known.get(record.status.policy), self._cluster)
            self.actions += [deed] if deed is not None else []
            self.moments += [again] if again is not None else []

    def give_back(self, standings: Mapping[str, Standing], *, sees_all: bool) -> None:
        """The locks that we hold for drains, of nodes on which nothing is forced any more, nor being asked for.

        Somebody may wait for one. So where not all drains are seen, those are given back that belong to one that is.
        """
        busy = {one.pod.node for one in self._cluster.underway if isinstance(one, PodStep)}
        busy |= {name for name, one in standings.items() if one.status.phase is Phase.FORCING}
        for lease in _locks(self._cluster):
            node = lease.name.removeprefix(medik8s.lock_of(""))
            if node not in busy and (sees_all or node in standings):
                self.actions.append(release(node, lease))

    def report(self, known: Mapping[str, Known], standings: Mapping[str, Standing]) -> None:
        reports = (report_policy(one, standings.values(), self._cluster) for one in known.values())
        self.actions += [report for report in reports if report is not None]

    def _has_lock(self, node: str) -> bool:
        lease = self._turns.lease(node)
        return lease is not None and is_held(lease, self._cluster.now) and lease.spec.holder_identity == LOCK_HOLDER

    def _lock(self, one: Standing) -> Iterator[Action]:
        node, lease, now = one.look.node, self._turns.lease(one.look.node.name), self._cluster.now
        ends = ends_at(lease) if lease is not None and self._has_lock(node.name) else None
        if ends is not None and now < ends - LOCK_RENEWED:
            self.moments.append(ends - LOCK_RENEWED)
            return
        claim = Claim(node=node.name, node_uid=node.uid, holder=LOCK_HOLDER, length=LOCK_LENGTH, known=lease)
        yield HoldLock(claim=claim)  # when it ends, or may be tried again, there is a pass

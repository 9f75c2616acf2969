"""What comes next for one pod of a node that is being drained, when, and why. The mildest step that can help.

    not terminating ──▶ Evict ──▶ Delete, when that was tried; past its budgets only when these have had their time
    terminating, and it should have ended long ago:
        a finalizer holds it ──▶ RemoveFinalizers, of those that may be removed
        else ──▶ Kill: its kubelet kills it ──▶ ForceDelete, unless it must not run twice or a finalizer still holds it

Nearly everything follows from the pod as it is now: what was done before shows in the pod itself. Only that a deletion
was decided, and when the last step was taken, stands in the record. Whatever happens in between, the next step is never
milder than what the pod has seen already.
"""

from datetime import datetime, timedelta

import msgspec

from defib.decide.drains.schedule import Schedule
from defib.decide.drains.targets import left_alone
from defib.decide.drains.waiting import is_refused
from defib.decide.failover.pods import Claims, claims_to_read, needs_proof
from defib.model.action import ReadClaim
from defib.model.budget import Budget
from defib.model.drain_action import BLOCKED, TOO_BUSY
from defib.model.drain_policy import Policy, Strategy
from defib.model.duration import say
from defib.model.failure import Failure
from defib.model.moment import is_sensible
from defib.model.node import Node
from defib.model.node_drain import PodEntry, Rung
from defib.model.pod import Pod
from defib.model.pod_failover import Wish

EVICTION_TRIES = 2  # after so many that failed for another reason than a budget, it is deleted instead
KILL_SECONDS = 1  # of grace, as a kubelet is told that is to kill a pod
WAITS_FOR_PROOF = "it must not run twice, so it is not forced before its node is proved to be down"
_AS_CHOSEN = Wish(is_chosen=True)  # only what is known to be exclusive needs a proof


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One pod, and all that what comes next depends on."""

    pod: Pod
    node: Node
    policy: Policy
    schedule: Schedule
    budgets: tuple[Budget, ...] = ()
    knows_budgets: bool = True  # else every pod counts as protected
    claims: Claims = {}
    unreadable: frozenset[str] = frozenset()  # claims
    entry: PodEntry | None = None  # what stands in the record about this very pod
    eviction: Failure | None = None
    now: datetime

    @property
    def is_protected(self) -> bool:
        if self.eviction is not None and self.eviction.why.startswith(BLOCKED):
            return True  # the API server knows best
        return bool(self.budgets) or not self.knows_budgets

    @property
    def is_to_be_deleted(self) -> bool:
        """So it was decided, and written down. The eviction that came before is forgotten by then."""
        return self.entry is not None and self.entry.rung is Rung.DELETE

    @property
    def eviction_was_tried(self) -> bool:
        """In earnest: whoever is not protected may have met a mishap that passes."""
        if self.is_to_be_deleted or self.eviction is None:
            return self.is_to_be_deleted
        if self.eviction.why.startswith(TOO_BUSY):
            return False
        return self.is_protected or self.eviction.times >= EVICTION_TRIES

    @property
    def deleted_by(self) -> tuple[Strategy, ...]:
        """The strategies that would. Of a budget that only a refused eviction told of, nobody knows once that is forgotten."""
        if self.is_protected:
            return (Strategy.PDB_DELETE,)
        return (Strategy.DELETE, Strategy.PDB_DELETE) if self.is_to_be_deleted else (Strategy.DELETE,)

    @property
    def needs_proof(self) -> bool:
        """Whether it must not run twice. Undecided while there is something `to_read`; what cannot be read is exclusive."""
        if not self.policy.needs_proof or self.to_read:
            return False
        return needs_proof(self.pod, _AS_CHOSEN, self.claims)

    @property
    def unknown(self) -> dict[str, ReadClaim]:
        """Claims that decide whether it may be forced, and of which nothing is known yet."""
        return claims_to_read(self.pod, _AS_CHOSEN, self.claims) if self.policy.needs_proof else {}

    @property
    def to_read(self) -> tuple[ReadClaim, ...]:
        """What would settle it; nothing when one of them could not be read."""
        unknown = self.unknown
        return tuple(unknown.values()) if unknown.keys().isdisjoint(self.unreadable) else ()

    @property
    def is_heard(self) -> bool:
        """Whether there is a kubelet that does what it is told."""
        return self.node.ready == "True"

    @property
    def held_by(self) -> tuple[str, ...]:
        return tuple(self.pod.metadata.finalizers or ())

    @property
    def removable(self) -> tuple[str, ...]:
        return tuple(one for one in self.held_by if self.policy.may_remove(one))

    @property
    def is_past_its_kubelet(self) -> bool:
        """Nothing but finalizers keeps it. To the API server a deletion of which it knows no grace is one without any."""
        return self.pod.is_leaving and not self.pod.metadata.deletion_grace_period_seconds

    @property
    def only_finalizers_hold_it(self) -> bool:
        return self.is_past_its_kubelet or self.pod.is_finished

    @property
    def may_still_run(self) -> bool:
        """Without its finalizers it would vanish, and nobody has said that it has ended."""
        return self.is_past_its_kubelet and not self.pod.is_finished

    @property
    def overdue_at(self) -> datetime:
        """From when on a terminating pod counts as stuck."""
        ends = self.pod.metadata.deletion_timestamp
        assert ends is not None, "only of pods that are terminating"
        return _later(ends, self.schedule.times.extra_grace)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What comes next: `rung` strictly after `at`. Without a rung nothing will be done, and `why` says why not.

    `why` is the reason for the record and for people. `to_read` must be known before it can be done; without a rung it
    is what could not be read, and would change that.
    """

    why: str
    rung: Rung | None = None
    strategy: Strategy | None = None
    at: datetime | None = None
    finalizers: tuple[str, ...] = ()  # to be removed
    to_read: tuple[ReadClaim, ...] = ()
    refused_since: datetime | None = None  # when an eviction was first asked for that its budgets do not allow

    def is_due(self, now: datetime) -> bool:
        return self.rung is not None and self.at is not None and self.at < now


def next_step(case: Case) -> Step:
    if why := left_alone(case.pod, case.policy):
        return Step(why=why)
    return _of_leaving(case) if case.pod.is_leaving else _of_staying(case)


def _of_staying(case: Case) -> Step:
    schedule, on = case.schedule, case.schedule.strategies
    deleted_by = [one for one in case.deleted_by if one in on]
    delete_at = min((schedule.due_at(one) for one in deleted_by), default=None)
    if delete_at is not None and delete_at < case.now and case.eviction_was_tried:
        return Step(rung=Rung.DELETE, strategy=deleted_by[0], at=delete_at, why=_why_deleted(case))
    moments = [(delete_at, deleted_by[0])] if delete_at is not None else []
    if Strategy.DELETE in on or (on and schedule.evicts):
        moments.append((schedule.evicts_at, Strategy.DELETE))
    if moments:
        at, strategy = min(moments)
        # Before they are passed over, budgets are asked once more.
        is_last = delete_at is not None and delete_at < case.now
        since = None if is_last else _refused_since(case)
        return Step(rung=Rung.EVICT, strategy=strategy, at=at, why=_why_evicted(case), refused_since=since)
    return Step(why=_switched_off(case.deleted_by[0]))


def _refused_since(case: Case) -> datetime | None:
    last = case.entry
    was_asked_for = last is not None and last.rung is Rung.EVICT
    return last.at if last is not None and was_asked_for and is_refused(case.pod, case.budgets) else None


def _of_leaving(case: Case) -> Step:
    strategy = Strategy.PDB_FINALIZERS if case.is_protected else Strategy.FINALIZERS
    waits_for_proof = case.may_still_run and case.needs_proof
    if case.removable and strategy in case.schedule.strategies and not waits_for_proof:
        at = max(case.schedule.due_at(strategy), case.overdue_at)
        why = f"it should have ended, and is held by {', '.join(case.held_by)}"
        to_read = case.to_read if case.may_still_run else ()
        return Step(rung=Rung.FINALIZERS, strategy=strategy, at=at, why=why, finalizers=case.removable, to_read=to_read)
    if case.held_by and case.only_finalizers_hold_it:
        return _held(case)
    if Strategy.STUCK not in case.schedule.strategies:
        return Step(why=_switched_off(Strategy.STUCK))
    return _of_stuck(case)


def _of_stuck(case: Case) -> Step:
    """Pods with a budget have the time of their budget here too."""
    waited = Strategy.PDB_DELETE if case.is_protected else Strategy.STUCK
    at = max(case.schedule.due_at(waited), case.overdue_at)
    grace = case.pod.metadata.deletion_grace_period_seconds
    if case.is_heard and grace is not None and grace > KILL_SECONDS:
        why = f"it was to end {grace} s after it was told to, and has not"
        return Step(rung=Rung.KILL, strategy=Strategy.STUCK, at=at, why=why)
    if case.held_by:
        return _held(case)
    if case.needs_proof:
        return Step(why=WAITS_FOR_PROOF, to_read=tuple(case.unknown.values()))
    last = case.entry
    if last is not None and last.rung is not Rung.FORCE:  # it has its time to take effect
        at = max(at, _later(last.at, case.schedule.times.extra_grace))
    why = (
        "its kubelet was told to kill it, and has not" if case.is_heard else "its node is not ready, so nobody ends it"
    )
    return Step(rung=Rung.FORCE, strategy=Strategy.STUCK, at=at, why=why, to_read=case.to_read)


def _held(case: Case) -> Step:
    """To delete it by force would not take it away."""
    names = ", ".join(case.held_by)
    if not case.removable:
        return Step(why=f"it is held by {names}, which the policy does not allow to be removed (spec.finalizers)")
    if case.may_still_run and case.needs_proof:
        return Step(why=f"it is held by {names}; {WAITS_FOR_PROOF}", to_read=tuple(case.unknown.values()))
    return Step(why=f"it is held by {names}, and the strategy for that is switched off")


def _later(moment: datetime, by: timedelta) -> datetime:
    return moment + by if is_sensible(moment) else moment


def _why_evicted(case: Case) -> str:
    if case.is_protected:
        return f"it is asked to leave within {_budgets(case)}"
    return (
        "it is asked to leave, since the drain takes too long" if not case.schedule.evicts else "it is asked to leave"
    )


def _why_deleted(case: Case) -> str:
    if case.is_protected:
        return (
            f"{_budgets(case)} had {say(case.schedule.times.expected + case.schedule.times.pdb_timeout)} to let it go"
        )
    if case.eviction is not None:
        return f"it cannot be evicted: {case.eviction.why}"
    return case.entry.why if case.entry is not None and case.entry.why else "the drain takes too long"


def _budgets(case: Case) -> str:
    if case.budgets:
        noun = "disruption budget" if len(case.budgets) == 1 else "disruption budgets"
        return f"{noun} {', '.join(budget.name for budget in case.budgets)}"
    return "its disruption budgets, which are not in sight" if not case.knows_budgets else "its disruption budget"


def _switched_off(strategy: Strategy) -> str:
    return f"the strategy {strategy.value} is switched off"

"""What to do about a node that is unhealthy, or about to be: start, wait, give up, or say what holds it back."""

from datetime import datetime, timedelta

import msgspec

from defib.decide.admission import Ledger, node_gates
from defib.decide.census import Trouble
from defib.decide.course import Course, Turn, course_of, has_begun, lock_length, time_for
from defib.decide.entries import mark, release, stamp, stamp_exactly, started
from defib.decide.gates import CheckGates, first_closed
from defib.decide.rules import INSTANT, LOCK_SLACK, LOOK_AGAIN, OLD_AFTER
from defib.decide.stuck import STUCK, leaving
from defib.decide.templates import machine_of, remediation_from
from defib.decide.view import View, holder
from defib.model import medik8s
from defib.model.action import Action, HoldLock, MarkRemediation, StartRemediation
from defib.model.health_check import UnhealthyNode
from defib.model.lock import Claim, ends_at, held_by_another, is_held
from defib.model.node import Lease, Node
from defib.model.remediation import SILENT_BECAUSE, SILENT_SINCE, Remediation
from defib.model.target import HEARTBEAT
from defib.model.verdict import Gate, State, Verdict

TOLD_MAX = 1000  # of what was found out of a silent node


class NodePlan(msgspec.Struct, frozen=True, kw_only=True):
    """`entry` is what the status will say of the node; None when it no longer speaks of it."""

    verdict: Verdict
    actions: tuple[Action, ...] = ()
    entry: UnhealthyNode | None = None
    wake_at: datetime | None = None


class Ill(msgspec.Struct, frozen=True):
    """An ill node under one check."""

    view: View
    node: Node
    trouble: Trouble

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def lock(self) -> Lease | None:
        return self.view.ground.lock_of(self.node.name)

    def claim(self, length: timedelta) -> Claim:
        return Claim(
            node=self.name, node_uid=self.node.uid, holder=holder(self.view.check), length=length, known=self.lock
        )

    def plan(
        self, state: State, reason: str, message: str, *actions: Action, over: Remediation | None = None
    ) -> NodePlan:
        verdict = Verdict(
            node=self.name,
            check=self.view.check.name,
            state=state,
            reason=reason,
            message=message,
            since=self.trouble.unhealthy_at,
        )
        entry = UnhealthyNode(
            name=self.name,
            remediations=started(self.view, self.name, over),
            reason=reason,
            message=message,
            since=self.trouble.unhealthy_at,
        )
        return NodePlan(verdict=verdict, actions=actions, entry=entry)


def plan_unhealthy(ill: Ill, gates: CheckGates, ledger: Ledger) -> NodePlan:
    course = course_of(ill.view, ill.name)
    if ill.name in ill.view.starting:
        return _tended(ill.plan(State.REMEDIATING, "Starting", STARTING), ill)
    if course is None:
        message = "every remediation has been tried and the node is still unhealthy; a person is needed"
        state = State.REMEDIATING if ill.view.remediations(ill.name) else State.UNHEALTHY
        return _tended(ill.plan(state, "NoTemplateLeft", message, *_forget_recovery(ill)), ill)
    if course.turn is Turn.WAIT:
        return _tended(_wait(ill, course), ill, course)
    if course.turn is Turn.OVER and (doubt := _doubt(gates)):
        return _tended(_not_yet_over(ill, course, doubt), ill, course)
    plan = _next(ill, course, gates, ledger)
    holds_back = course.turn is Turn.START and not any(isinstance(one, StartRemediation) for one in plan.actions)
    return _tended(plan, ill, course if holds_back else None)


def _next(ill: Ill, course: Course, gates: CheckGates, ledger: Ledger) -> NodePlan:
    match course.turn:
        case Turn.START:
            return _start(ill, course, gates, ledger)
        case Turn.OVER:
            return _give_up(ill, course)
        case _:
            return _until_it_is_gone(ill, course)


def _until_it_is_gone(ill: Ill, course: Course) -> NodePlan:
    assert course.remediation is not None
    delay = leaving([course.remediation], ill.view.now)
    message = f"{course.remediation} is being deleted; a new one can be created when it is gone"
    if delay.message:
        return ill.plan(State.REMEDIATING, STUCK, f"{delay.message}; a new one can be created when it is gone")
    plan = ill.plan(State.REMEDIATING, "WaitsForDeletion", message)
    return msgspec.structs.replace(plan, wake_at=delay.wake_at)


STARTING = "its remediation is being created"


def plan_suspect(ill: Ill) -> NodePlan:
    """It may become unhealthy. What is there stays as it is; what was noted about its recovery is void."""
    because, at = ill.trouble.because, ill.trouble.unhealthy_at
    message = f"{because.type}={because.status}; unhealthy from {at:%H:%M:%S} UTC on"
    plan = ill.plan(State.SUSPECT, "Suspect", message, *_forget_recovery(ill))
    plan = msgspec.structs.replace(plan, entry=_before_it_counts(ill, plan.entry), wake_at=at + INSTANT)
    return _tended(plan, ill, course_of(ill.view, ill.name))


def _before_it_counts(ill: Ill, entry: UnhealthyNode | None) -> UnhealthyNode | None:
    """The status speaks only of what was begun earlier, and of no time that is yet to come."""
    recorded = ill.view.recorded.get(ill.name)
    if entry is None or not (recorded or ill.view.remediations(ill.name)):
        return None
    return msgspec.structs.replace(entry, since=recorded.since if recorded else None)


def plan_unselected(ill: Ill, gates: CheckGates) -> NodePlan:
    """The check no longer means this node, but has begun to remediate it: what was begun is not torn down halfway.

    Nor is it waited for longer than for others: then the node is a person's, and its lock whoever's needs it.
    """
    course = course_of(ill.view, ill.name)
    if course is not None and course.turn is Turn.OVER:
        doubt = _doubt(gates)
        return _tended(_not_yet_over(ill, course, doubt), ill, course) if doubt else _tended(_give_up(ill, course), ill)
    message = "the check no longer selects the node; its remediation stays until the node is healthy"
    plan = ill.plan(State.REMEDIATING, "NoLongerSelected", message, *_forget_recovery(ill))
    if course is not None and course.turn is Turn.WAIT:
        plan = msgspec.structs.replace(plan, wake_at=course.ends and course.ends + INSTANT)
    return _tended(plan, ill, course if course is not None and _is_at_work(ill, course) else None)


def _is_at_work(ill: Ill, course: Course) -> bool:
    """Whether something that was begun, be it by a step that the check no longer has, may still be waited for."""
    now = ill.view.now
    return any(
        medik8s.TIMED_OUT not in one.annotations and now <= (one.created or now) + time_for(course.step)
        for one in ill.view.remediations(ill.name)
    )


def _start(ill: Ill, course: Course, gates: CheckGates, ledger: Ledger) -> NodePlan:
    is_new = not has_begun(ill.view, ill.name)
    asked = (*(gates.all if is_new else gates.always), *node_gates(ill.node, course, ledger, is_new=is_new))
    closed = first_closed(asked)
    if closed is not None:
        return _held(ill, closed, asked)
    ledger.admit(ill.node, is_new=is_new)
    action = _creation(ill, course)
    failure = ill.view.ground.cluster.failures.get(action.key)
    if failure is None:
        return _with_gates(ill.plan(State.REMEDIATING, "Starting", STARTING, action, *_forget_recovery(ill)), asked)
    message = f"its remediation could not be created ({failure.times} times): {failure.why}"
    plan = ill.plan(State.UNHEALTHY, "CreationFailed", message, action, *_forget_recovery(ill))
    return _with_gates(plan, asked)


def _creation(ill: Ill, course: Course) -> StartRemediation:
    ref = course.step.template
    item = ill.view.ground.template(ref.kind, ref.key)
    assert item is not None, "a check whose template is missing is disabled, and starts nothing"
    body, because = remediation_from(course.step, item, ill.view.check, ill.node), ill.trouble.because
    if because.type == HEARTBEAT and because.since is not None:
        told = {SILENT_BECAUSE: because.told[:TOLD_MAX]} if because.told else {}
        body["metadata"]["annotations"] |= {SILENT_SINCE: stamp_exactly(because.since)} | told
    return StartRemediation(
        check=ill.view.check.name,
        node=ill.name,
        node_uid=ill.node.uid,
        because=because,
        kind=ref.makes,
        namespace=ref.namespace,
        body=body,
        claim=ill.claim(lock_length(course.step)),
        machine=machine_of(ill.node, ref),
    )


def _held(ill: Ill, closed: Gate, gates: tuple[Gate, ...]) -> NodePlan:
    plan = ill.plan(State.UNHEALTHY, closed.name, closed.message, *_forget_recovery(ill))
    return msgspec.structs.replace(_with_gates(plan, gates), wake_at=closed.opens_at)


_SAYS = {
    "True": "says that it has succeeded; the node is not healthy yet",
    "False": "says that it has failed, and no other step is left",
}


def _wait(ill: Ill, course: Course) -> NodePlan:
    found = course.remediation
    assert found is not None
    message = f"{found} {_SAYS.get(found.succeeded, 'is at work')}"
    if by := held_by_another(ill.lock, holder(ill.view.check), ill.view.now):
        message += f"; the lock of the node is held by {by}"
    plan = ill.plan(State.REMEDIATING, "Remediating", message, *_forget_recovery(ill))
    return msgspec.structs.replace(plan, wake_at=course.ends and course.ends + INSTANT)


def _doubt(gates: CheckGates) -> Gate | None:
    """Our clock or our sight may be wrong, so nobody can say that time is up."""
    return next((gate for gate in gates.always if gate.name == "SelfDoubt" and not gate.is_open), None)


def _not_yet_over(ill: Ill, course: Course, doubt: Gate) -> NodePlan:
    message = f"{course.why_over}, as far as we can tell; it is not given up yet: {doubt.message}"
    plan = ill.plan(State.REMEDIATING, "Remediating", message, *_forget_recovery(ill))
    return msgspec.structs.replace(plan, wake_at=doubt.opens_at)


def _give_up(ill: Ill, course: Course) -> NodePlan:
    found = course.remediation
    assert found is not None
    actions: list[Action] = []
    if found.succeeded != "True":
        actions.append(mark(found, {medik8s.TIMED_OUT: stamp(ill.view.now)}))
    lease = ill.lock
    goes_on = ill.view.check.escalates and ill.name in ill.view.census.selected
    if not goes_on and lease is not None and lease.spec.holder_identity == holder(ill.view.check):
        actions.append(release(ill.name, lease))
    plan = ill.plan(State.REMEDIATING, "TimedOut", course.why_over, *actions, over=found)
    return msgspec.structs.replace(plan, wake_at=ill.view.now + LOOK_AGAIN)


def _tended(plan: NodePlan, ill: Ill, course: Course | None = None) -> NodePlan:
    """Whatever else is to be done: the lock is kept while one is at work in this course, and old ones are marked."""
    lock: tuple[Action, ...] = ()
    again = None
    if course is not None and not all(r.is_deleting for r in ill.view.remediations(ill.name)):
        lock, again = _keep_lock(ill, lock_length(course.step))
    marked = {action.target.uid for action in plan.actions if isinstance(action, MarkRemediation)}
    young = [r for r in ill.view.remediations(ill.name) if medik8s.OLD_REMEDIATION not in r.annotations]
    ages = [(r, r.created + OLD_AFTER) for r in young if r.created is not None and not r.is_deleting]
    old = tuple(
        mark(r, {medik8s.OLD_REMEDIATION: medik8s.OLD_REMEDIATION_ON})
        for r, at in ages
        if ill.view.now > at and r.uid not in marked
    )
    moments = (plan.wake_at, again, *(at + INSTANT for _, at in ages if at >= ill.view.now))
    return msgspec.structs.replace(
        plan,
        actions=(*plan.actions, *lock, *old),
        wake_at=min((moment for moment in moments if moment is not None), default=None),
    )


def _keep_lock(ill: Ill, length: timedelta) -> tuple[tuple[Action, ...], datetime | None]:
    """Take or renew what is free or ours; leave what is another's. And when to look at it again."""
    ends = ends_at(ill.lock) if ill.lock is not None else None
    if ends is not None and held_by_another(ill.lock, holder(ill.view.check), ill.view.now):
        return (), ends + INSTANT
    if ends is not None and is_held(ill.lock, ill.view.now) and ends > ill.view.now + length - LOCK_SLACK:
        return (), ends - (length - LOCK_SLACK)
    return (HoldLock(claim=ill.claim(length)),), None


def _forget_recovery(ill: Ill) -> tuple[Action, ...]:
    """The node has relapsed: the next time it is healthy, the delay begins anew."""
    return tuple(
        mark(remediation, {medik8s.HEALTHY_DELAY: None})
        for remediation in ill.view.remediations(ill.name)
        if medik8s.HEALTHY_DELAY in remediation.annotations and not remediation.is_deleting
    )


def _with_gates(plan: NodePlan, gates: tuple[Gate, ...]) -> NodePlan:
    return msgspec.structs.replace(plan, verdict=msgspec.structs.replace(plan.verdict, gates=gates))

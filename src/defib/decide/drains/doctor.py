"""What is the matter with the drain of one node: who drains it, what is still there and why, what comes next and when.

Of a node that nobody drains it says what would be in the way. Everything follows from one look at the cluster, by the
rules that the operator plans by.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from defib.decide.doubt import brake_reason
from defib.decide.drains.budgets import Budgets, budgets_in
from defib.decide.drains.failing import fails_at
from defib.decide.drains.findings import Details, Finding, Patient, Told, findings_of, unready_words
from defib.decide.drains.intent import Intent, cordoned_at
from defib.decide.drains.intents import find_intent
from defib.decide.drains.intents.defib_mark import waits_for_cordon
from defib.decide.drains.intents.sight import in_sight, is_missing
from defib.decide.drains.ladder import Step
from defib.decide.drains.refusals import of_replacements, refusal
from defib.decide.drains.survey import (
    Drained,
    DrainLook,
    Known,
    PodLook,
    Record,
    known_policies,
    known_records,
    look_at,
    policy_for,
    sights_of,
)
from defib.decide.drains.targets import must_leave, stays
from defib.decide.drains.waiting import asked_at
from defib.decide.explain import lock_of
from defib.decide.failover.sight import out_of_sight
from defib.decide.rules import Rules
from defib.model.cluster import Cluster
from defib.model.drain_policy import ALL_SOURCES, POLICY, Policy, Strategy
from defib.model.health_check import Mode
from defib.model.lock import held_by_another
from defib.model.moment import read_moment
from defib.model.node import Node
from defib.model.node_drain import APPROVED_UNTIL, LOCK_HOLDER, WATCH_MARK, DrainStatus, Rung
from defib.model.pod import Pod, pods_on

NO_DETAILS = Details()

# As in `Defib … it` and in `Defib would … it`.
_DOES = {
    Rung.EVICT: ("asks for its eviction", "ask for its eviction"),
    Rung.DELETE: ("deletes it, with its own grace", "delete it, with its own grace"),
    Rung.FINALIZERS: ("removes finalizers", "remove finalizers"),
    Rung.KILL: ("has its kubelet kill it", "have its kubelet kill it"),
    Rung.FORCE: ("deletes it by force", "delete it by force"),
}


class State(StrEnum):
    IN_SERVICE = "InService"
    PARKED = "Parked"  # cordoned, and nobody is known to drain it
    DRAINING = "Draining"
    DRAINED = "Drained"


class Moment(Told, frozen=True, kw_only=True):
    """Something that happens, or has happened. Without `at` it is now, or nobody can say when."""

    message: str
    at: datetime | None = None


class PodDiagnosis(Told, frozen=True, kw_only=True):
    pod: str  # namespace/name
    owner: str  # `ReplicaSet web-5d4`, or empty
    findings: tuple[Finding, ...]  # what blocks it comes first
    last: Moment | None = None  # what Defib did, or was about to do
    next: Moment | None = None  # None where Defib has no part in it
    later: Moment | None = None

    @property
    def is_blocked(self) -> bool:
        return any(finding.blocks for finding in self.findings)


class RecordTold(Told, frozen=True, kw_only=True):
    """What the operator wrote into the NodeDrain when it last had something to say."""

    phase: str
    reason: str
    message: str
    is_begun: bool = msgspec.field(name="begun")
    has_failed: bool = msgspec.field(name="failed")
    paused_at: datetime | None


class Diagnosis(Told, frozen=True, kw_only=True):
    node: str
    now: datetime
    state: State
    summary: str
    since: datetime | None  # of the drain, or of the cordon
    unready: str  # empty while the kubelet is alive
    source: str
    policy: str
    mode: str
    defib: str  # what Defib has to do with it
    peer_deadline: datetime | None
    fails_at: datetime | None
    record: RecordTold | None
    holds: tuple[str, ...]  # why Defib would force nothing now
    pods: tuple[PodDiagnosis, ...]
    staying: Mapping[str, int]  # pods that no drain waits for: why, and how many
    unknown: tuple[str, ...] = ()
    is_sure: bool = msgspec.field(default=True, name="sure")  # its pods and their budgets are in sight

    @property
    def blocked(self) -> tuple[PodDiagnosis, ...]:
        return tuple(pod for pod in self.pods if pod.is_blocked)

    @property
    def is_stuck(self) -> bool:
        return bool(self.blocked) or (self.record is not None and self.record.has_failed)


def diagnose(node: Node, cluster: Cluster, rules: Rules, details: Details = NO_DETAILS) -> Diagnosis:
    known = known_policies(cluster, {})
    case = _case_of(node, cluster, known, details)
    look, found, anybody, pods = case.look, case.found, case.anybody, case.diagnose_pods()
    unseen = out_of_sight(node.name, cluster)
    state = _state(case, has_pods=bool(pods) or unseen is not None)
    return Diagnosis(
        node=node.name,
        now=cluster.now,
        state=state,
        summary=_summary(state, case, pods),
        since=_since(case),
        unready=f"the node is {unready_words(node, cluster.now)}" if node.ready != "True" else "",
        source=anybody.source.value if anybody is not None else "",
        policy=found[0].item.name if found is not None else "",
        mode=found[1].mode.value if found is not None else "",
        defib=_part_of_defib(case, known),
        peer_deadline=anybody.deadline if anybody is not None else None,
        fails_at=fails_at(look, cluster.now) if look is not None else None,
        record=_recorded(case.status) if case.status is not None else None,
        holds=tuple(_holds(node.name, cluster, rules)) if found is not None else (),
        pods=pods,
        staying=Counter(why for pod in case.all_pods if (why := stays(pod))),
        unknown=tuple(one for one in (case.budgets.unseen, unseen.why if unseen is not None else "") if one),
        is_sure=unseen is None and not case.budgets.unseen,
    )


class _Case(msgspec.Struct, frozen=True, kw_only=True):
    """A node, and all that is known of its drain."""

    node: Node
    cluster: Cluster
    details: Details
    found: tuple[Known, Policy] | None
    anybody: Intent | None  # who drains it, also where no policy watches that
    look: DrainLook | None  # where one does
    status: DrainStatus | None  # what is written down about this very drain
    budgets: Budgets

    @property
    def all_pods(self) -> tuple[Pod, ...]:
        return tuple(self.cluster.all_of(pods_on(self.node.name), Pod).values())

    def diagnose_pods(self) -> tuple[PodDiagnosis, ...]:
        """What cannot leave comes first."""
        looks = {one.pod.uid: one for one in self.look.pods} if self.look is not None else {}
        told = [self._diagnose(pod, looks.get(pod.uid)) for pod in must_leave(self.all_pods)]
        return tuple(sorted(told, key=lambda one: (not one.is_blocked, one.pod)))

    def _diagnose(self, pod: Pod, one: PodLook | None) -> PodDiagnosis:
        look = self.look
        policy = self.found[1] if self.found is not None else None
        patient = Patient(
            pod=pod,
            node=self.node,
            policy=policy,
            claims=self.cluster.claims,
            details=self.details,
            now=self.cluster.now,
        )
        findings = (*self._refusals(pod), *findings_of(patient))
        entry = self.status.entry(pod.uid) if self.status is not None else None
        return PodDiagnosis(
            pod=pod.key,
            owner=f"{pod.controller.kind} {pod.controller.name}" if pod.controller is not None else "",
            findings=tuple(sorted(findings, key=lambda finding: not finding.blocks)),
            last=Moment(message=f"{entry.rung.value}: {entry.why}", at=entry.at) if entry is not None else None,
            next=_next(look, one, self.cluster.now) if look is not None and one is not None else None,
            later=_later(look, one) if look is not None and one is not None else None,
        )

    def _refusals(self, pod: Pod) -> Iterator[Finding]:
        found = refusal(pod, self.budgets.of(pod), self.budgets)
        if found is None:
            return
        yield found
        if (waits := of_replacements(found, self.details.pending, self.budgets)) is not None:
            yield waits


def _case_of(node: Node, cluster: Cluster, known: Mapping[str, Known], details: Details) -> _Case:
    found, budgets = policy_for(node, known), budgets_in(cluster)
    watched = find_intent(node, cluster, found[1].sources) if found is not None else None
    record = known_records(cluster, {}).get(node.name)
    look = None
    if found is not None and watched is not None:
        drained = Drained(node=node, known=found[0], policy=found[1], intent=watched)
        look = look_at(drained, record, sights_of(cluster, budgets))
    return _Case(
        node=node,
        cluster=cluster,
        details=details,
        found=found,
        anybody=watched or find_intent(node, cluster, ALL_SOURCES),
        look=look,
        status=_status(node, record, look),
        budgets=budgets,
    )


def _status(node: Node, record: Record | None, look: DrainLook | None) -> DrainStatus | None:
    """One of an earlier drain, or of a node that was called the same, is none."""
    if record is None or record.status.node_uid not in ("", node.uid):
        return None
    return record.status if look is None or look.was == record.status else None


def _since(case: _Case) -> datetime | None:
    """As the operator counts, where it does."""
    if case.look is not None:
        return case.look.schedule.started_at
    said = case.anybody.started_at if case.anybody is not None else None
    return said or cordoned_at(case.node)


def _state(case: _Case, *, has_pods: bool) -> State:
    if case.anybody is not None:
        return State.DRAINING if has_pods else State.DRAINED
    return State.PARKED if case.node.spec.unschedulable else State.IN_SERVICE


def _summary(state: State, case: _Case, pods: tuple[PodDiagnosis, ...]) -> str:
    by = case.anybody.why if case.anybody is not None else ""
    match state:
        case State.DRAINED:
            return f"drained: no pod is left that would have to leave; {by}"
        case State.DRAINING:
            return f"being drained: {by}; {_counted(pods, is_real=True)}"
        case State.PARKED:
            parked = "not being drained: it is cordoned, but nobody we know drains it (parked)"
            return f"{parked}; {_counted(pods, is_real=False)}"
    forgotten = waits_for_cordon(case.node)
    return f"not being drained: {forgotten or 'it is not cordoned'}; {_counted(pods, is_real=False)}"


def _counted(pods: tuple[PodDiagnosis, ...], *, is_real: bool) -> str:
    if not pods:
        return "no pod would have to leave"
    blocked = sum(pod.is_blocked for pod in pods)
    verb, can = ("has" if len(pods) == 1 else "have", "cannot") if is_real else ("would have", "could not")
    noun, their = ("1 pod", "its") if len(pods) == 1 else (f"{len(pods)} pods", "their")
    way = f"{blocked} of which {can} leave now" if blocked else f"and nothing is in {their} way"
    return f"{noun} {verb} to leave, {way}"


def _part_of_defib(case: _Case, known: Mapping[str, Known]) -> str:
    if in_sight(POLICY, case.cluster) is None and not is_missing(POLICY, case.cluster):
        return "is not known to do anything: DrainPolicies cannot be read"
    if case.found is None:
        broken = next((one for one in known.values() if not isinstance(one.policy, Policy)), None)
        if broken is not None and isinstance(broken.policy, tuple):
            why = "; ".join(broken.policy)
            return f"does nothing: no DrainPolicy selects the node, and {broken.item.name} makes no sense: {why}"
        return f"does nothing: {'no DrainPolicy selects the node' if known else 'the cluster has no DrainPolicy'}"
    name, mode = case.found[0].item.name, case.found[1].mode
    if case.anybody is None:
        hint = f"; if kubectl drains it, mark it for Defib to see to the end: {WATCH_MARK}=true"
        would = f"does nothing while nobody drains the node; DrainPolicy {name}, mode {mode.value}, would watch that"
        return f"{would}{hint if case.node.spec.unschedulable else ''}"
    if case.look is None:
        source = case.anybody.source.value
        return f"does nothing: DrainPolicy {name} does not watch drains of {source} (spec.sources)"
    unwritten = "" if case.status is not None else "; no operator has recorded the drain yet (does one run?)"
    return f"watches the drain, by DrainPolicy {name}, mode {mode.value}{unwritten}"


def _holds(node: str, cluster: Cluster, rules: Rules) -> Iterator[str]:
    if why := brake_reason(cluster, rules):
        yield f"the brake is on: {why}"
    if holder := held_by_another(lock_of(node, cluster), LOCK_HOLDER, cluster.now):
        yield f"{holder} works on the node and holds its lock"
    incident = cluster.incidents().get(node)
    if incident is not None and incident.is_open:
        yield f"the node is being remediated: its NodeIncident is in phase {incident.status.phase}"


def _recorded(status: DrainStatus) -> RecordTold:
    return RecordTold(
        phase=status.phase.value,
        reason=status.reason,
        message=status.message,
        is_begun=status.begun,
        has_failed=status.failed,
        paused_at=status.paused_at,
    )


def _next(look: DrainLook, one: PodLook, now: datetime) -> Moment:
    step = one.step
    if step.rung is None:
        return Moment(message=f"nothing: {step.why}")
    does, would = _DOES[step.rung]
    which = f" {', '.join(step.finalizers)}" if step.rung is Rung.FINALIZERS else ""
    if look.policy.mode is Mode.OBSERVE:
        said = f"Defib would {would}{which}, but the policy only observes"
    elif look.policy.mode is Mode.APPROVE and not _is_approved(look.node, now):
        said = f"Defib {does}{which}, once a person approves it (defib approve {look.node.name} --drain)"
    elif (at := _asked_again_at(step, now)) is not None:
        return Moment(message=f"Defib {does} again, or as soon as its budget lets it go: {step.why}", at=at)
    else:
        said = f"Defib {does}{which}"
    return Moment(message=f"{said}: {step.why}", at=None if step.is_due(now) else step.at)


def _asked_again_at(step: Step, now: datetime) -> datetime | None:
    """None where it is asked for now, or does not wait for a budget."""
    at = asked_at(step.refused_since, now) if step.refused_since is not None and step.is_due(now) else now
    return at if at > now else None


def _later(look: DrainLook, one: PodLook) -> Moment | None:
    """An eviction may be refused for long; then it matters when Defib stops asking."""
    is_on = Strategy.PDB_DELETE in look.schedule.strategies and look.policy.mode is not Mode.OBSERVE
    if one.step.rung is not Rung.EVICT or not one.is_protected or not is_on:
        return None
    at = look.schedule.due_at(Strategy.PDB_DELETE)
    return Moment(message="if its budget still refuses, it is deleted past it", at=at)


def _is_approved(node: Node, now: datetime) -> bool:
    until = read_moment(node.annotations.get(APPROVED_UNTIL, ""))
    return until is not None and now < until

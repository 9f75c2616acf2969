"""What comes next for a node, when, and what a person could do about it: the end of every explanation."""

from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType

import msgspec

from defib.decide.check_plan import CheckPlan
from defib.decide.course import time_for
from defib.decide.explain import LEFT_TO_ANOTHER, NOT_SELECTED, lock_of, remediations_of
from defib.decide.gates import first_closed
from defib.decide.plan import Plan
from defib.decide.stuck import NOT_REPLACED, STUCK
from defib.decide.templates import LOOKING
from defib.model import medik8s
from defib.model.action import StartRemediation
from defib.model.cluster import Cluster
from defib.model.duration import say
from defib.model.health_check import Check, Mode, StartedRemediation, Step
from defib.model.lock import ends_at
from defib.model.moment import read_moment
from defib.model.verdict import Gate, State, Verdict

STARTING = "Starting"


class Outlook(msgspec.Struct, frozen=True):
    """`at` is the moment it is about, where there is one."""

    message: str
    at: datetime | None = None


# What opens each gate, for a node that it holds back. `{node}` is its name.
OPENERS: Mapping[str, str] = MappingProxyType(
    {
        "Disabled": "it goes on by itself when what the check names is mended",
        "BeingDeleted": "nothing more, as the check is going away",
        "Brake": "it goes on when the brake is off (defib resume, or the setting brake)",
        "Paused": "it goes on when spec.pauseRequests of the check is empty",
        "ModeObserve": "nothing more, while the mode of the check is Observe",
        "SelfDoubt": "it goes on by itself when there is no reason for doubt any more",
        "Threshold": "it goes on by itself when enough nodes are healthy, or when the limit of the check is changed",
        "Storm": "it goes on by itself when it has been calm for long enough",
        "Upgrade": "it goes on by itself when the upgrade is over, or has taken too long to be believed",
        "Excluded": f"it goes on when the label {medik8s.EXCLUDED} is taken off the node",
        "Approval": "it goes on when a person approves it: defib approve {node}",
        "Lock": "it goes on by itself when the lock is given back or runs out",
        "ForeignRemediation": "it goes on by itself when that remediation is gone",
        "ControlPlane": "it goes on by itself when the other control-plane node is done with",
        "Quorum": "it goes on by itself when enough other control-plane nodes are ready",
        "NodeUpgrade": "it goes on by itself when the node's upgrade is over, or has taken too long to be believed",
        "Flapping": "it goes on by itself when the node has been left alone for long enough",
        "InFlight": "it goes on by itself when another remediation is over",
        "RateLimit": "it goes on by itself when enough time has passed",
        "FailureDomain": "it goes on by itself when another remediation in that domain is over",
    }
)

# Those that hold back every new remediation, also of a node that is being remediated already.
ALWAYS = frozenset({"Disabled", "BeingDeleted", "Brake", "Paused", "ModeObserve", "SelfDoubt"})


def outlook(verdict: Verdict, cluster: Cluster, plan: Plan) -> Outlook:
    one = plan.checks.get(verdict.check)
    if one is None or not isinstance(one.known.check, Check):
        return _unseen(verdict)
    case = _Case(verdict, cluster, plan, one, one.known.check)
    return _starting(case) if verdict.reason == STARTING else _NEXT[verdict.state](case)


class _Case(msgspec.Struct, frozen=True):
    """One node under one check that makes sense."""

    verdict: Verdict
    cluster: Cluster
    plan: Plan
    check_plan: CheckPlan
    check: Check

    @property
    def closed(self) -> Gate | None:
        return first_closed(self.verdict.gates)

    @property
    def held(self) -> Gate | None:
        """What would hold back also the next step of a node that was admitted already."""
        return first_closed(tuple(gate for gate in self.verdict.gates if gate.name in ALWAYS))

    @property
    def left(self) -> list[Step]:
        """The steps that have not run out of time: the first of them is, or will be, the one at work."""
        over = [record for record in self._records if record.timed_out is not None]
        return [step for step in self.check.steps if not any(_is_of(record, step) for record in over)]

    @property
    def at_work(self) -> StartedRemediation | None:
        return next((one for one in self._records if self.left and _is_of(one, self.left[0])), None)

    @property
    def _records(self) -> list[StartedRemediation]:
        entry = self.check_plan.status.node(self.verdict.node)
        return (entry.remediations if entry else None) or []


def _is_of(record: StartedRemediation, step: Step) -> bool:
    makes = step.template.makes
    same = (record.resource.api_version, record.resource.kind) == (makes.api_version, makes.name)
    return same and record.template_name in ("", step.template.name)


def _unseen(verdict: Verdict) -> Outlook:
    if verdict.reason == NOT_SELECTED:
        return Outlook("nothing: whatever happens to the node, it is not remediated")
    return Outlook("nothing, until the check is corrected: kubectl edit nodehealthcheck " + verdict.check)


def _healthy(case: _Case) -> Outlook:
    wanted = [f"{one.type} is {one.status} for longer than {say(one.duration)}" for one in case.check.conditions]
    if not wanted:
        return Outlook("nothing: the check calls no condition unhealthy")
    return Outlook(f"nothing, unless {' or '.join(wanted)}")


def _suspect(case: _Case) -> Outlook:
    at = case.verdict.since
    if case.at_work is not None:
        return Outlook("if it does not recover it is unhealthy again, and its remediation goes on", at)
    if case.closed is not None:
        return Outlook(f"if it does not recover it is unhealthy, and held back: {case.closed.message}", at)
    return Outlook(f"if it does not recover it is unhealthy, and {_begins(case, case.left)}", at)


def _begins(case: _Case, left: list[Step]) -> str:
    if not left:
        return "nothing more is begun"
    if case.held is not None:
        return f"remediation with {left[0].template} is held back: {case.held.message}"
    return f"remediation with {left[0].template} begins"


def _unhealthy(case: _Case) -> Outlook:
    match case.verdict.reason:
        case "NoTemplateLeft":
            return _for_a_person(case)
        case "CreationFailed":
            return Outlook("the operator tries again, after longer and longer pauses")
        case reason if reason == LOOKING:
            return Outlook("it is decided when the kinds that the check names have been found")
        case reason if reason == LEFT_TO_ANOTHER:
            return Outlook("nothing, while the MachineHealthCheck is there")
    if case.closed is None:
        return Outlook("the operator decides in its next pass")
    at = None
    lock = lock_of(case.verdict.node, case.cluster)
    if case.closed.name == "Lock" and lock is not None:
        at = ends_at(lock)
    opener = OPENERS[case.closed.name].format(node=case.verdict.node)
    return Outlook(opener, at)


def _for_a_person(case: _Case) -> Outlook:
    words = "a person has to mend the node"
    if remediations_of(case.verdict.node, case.cluster, case.plan):
        words += "; its remediations are removed when it is healthy again"
    return Outlook(words)


def _remediating(case: _Case) -> Outlook:
    match case.verdict.reason:
        case "Remediating":
            return _until_its_time_is_up(case)
        case "TimedOut":
            return Outlook(_begins(case, case.left)) if case.left else _for_a_person(case)
        case "WaitsForDeletion":
            return Outlook(f"when the old one is gone, {_begins(case, case.left)}")
        case reason if reason == STUCK:
            return Outlook(f"{_FREE_IT}; then {_begins(case, case.left)}")
        case "NoLongerSelected":
            return Outlook("its remediation is removed when the node is healthy again")
        case _:
            return _for_a_person(case)


def _starting(case: _Case) -> Outlook:
    made = "its remediation"
    for action in case.check_plan.actions:
        if isinstance(action, StartRemediation) and action.node == case.verdict.node:
            where = f"{action.namespace}/" if action.namespace else ""
            made = f"{action.kind.name} {where}{action.body['metadata']['name']}"
    return Outlook(f"the operator creates {made} at once")


def _until_its_time_is_up(case: _Case) -> Outlook:
    if not case.left[1:] and _has_failed(case):
        return _for_a_person(case)
    then = _begins(case, case.left[1:]) if case.left[1:] else "a person has to look"
    begun = case.at_work.started if case.at_work is not None else None
    at = begun + time_for(case.left[0]) if begun is not None else None
    return Outlook(f"if the node is not healthy by then, {then}", at)


def _has_failed(case: _Case) -> bool:
    """It says so itself, and need not be waited for."""
    if case.at_work is None:
        return False
    its = case.at_work.resource
    found = remediations_of(case.verdict.node, case.cluster, case.plan)
    return any(one.succeeded == "False" for one in found if (one.kind.name, one.name) == (its.kind, its.name))


_FREE_IT = "a person has to find out why its remediator does not let the remediation go"


def _recovering(case: _Case) -> Outlook:
    if case.check.mode is Mode.OBSERVE:
        return Outlook(OPENERS["ModeObserve"])
    if case.verdict.reason in (STUCK, NOT_REPLACED):
        return Outlook(_FREE_IT)
    if case.verdict.reason == "NodeGone":
        return Outlook("nothing: when its remediation is gone, nothing is left of the node")
    node = case.cluster.nodes.get(case.verdict.node)
    if case.check.healthy_delay is None or node is None or medik8s.CONFIRMED_HEALTHY in node.annotations:
        return Outlook("nothing: when its remediation is gone, the node counts as healthy")
    began = [
        read_moment(one.annotations.get(medik8s.HEALTHY_DELAY, ""))
        for one in remediations_of(node.name, case.cluster, case.plan)
        if one.owner == case.check.name
    ]
    ends = [moment + case.check.healthy_delay for moment in began if moment is not None]
    if case.check.healthy_delay.total_seconds() < 0:
        how = f"kubectl annotate node {node.name} {medik8s.CONFIRMED_HEALTHY}=true"
        return Outlook(f"its remediation is removed when a person says that the node is healthy: {how}")
    return Outlook("its remediation is removed", max(ends, default=None))


_NEXT: Mapping[State, Callable[[_Case], Outlook]] = MappingProxyType(
    {
        State.HEALTHY: _healthy,
        State.SUSPECT: _suspect,
        State.UNHEALTHY: _unhealthy,
        State.REMEDIATING: _remediating,
        State.RECOVERING: _recovering,
    }
)

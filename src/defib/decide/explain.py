"""What is thought of one node, whether or not anything is to be done about it: a verdict and its gates for every check.

A plan speaks only of nodes that give reason to. A person may ask about any.
"""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from defib.decide.census import Trouble
from defib.decide.check_plan import CheckPlan
from defib.decide.gates import disabled_gate
from defib.decide.plan import Plan
from defib.decide.templates import LOOKING, Disabled
from defib.model import medik8s
from defib.model.cluster import Cluster
from defib.model.health_check import Broken, Check
from defib.model.node import Lease, Node
from defib.model.remediation import Remediation, read_remediation
from defib.model.verdict import State, Verdict

HEALTHY = "Healthy"
NOT_SELECTED = "NotSelected"
INVALID = "InvalidSpecification"
LEFT_TO_ANOTHER = "LeftToMachineHealthCheck"


def explain(node: str, cluster: Cluster, plan: Plan) -> tuple[Verdict, ...]:
    """In the order of the checks' names. Empty when neither the node nor anything that was begun for it is there."""
    verdicts = tuple(_verdicts(node, cluster, plan))
    if node not in cluster.nodes:
        return tuple(verdict for verdict in verdicts if verdict.state is not State.UNSEEN)
    if any(verdict.state is not State.UNSEEN for verdict in verdicts):
        return verdicts
    message = "no NodeHealthCheck selects the node" if plan.checks else "the cluster has no NodeHealthCheck"
    return (*verdicts, Verdict(node=node, check="", state=State.UNSEEN, reason=NOT_SELECTED, message=message))


def _verdicts(node: str, cluster: Cluster, plan: Plan) -> Iterator[Verdict]:
    for name in sorted(plan.checks):
        one = plan.checks[name]
        check = one.known.check
        if isinstance(check, Broken):
            yield _unreadable(node, check)
        elif node in one.verdicts:
            yield _with_gates(one.verdicts[node], one)
        elif one.census is not None and node in one.census.selected:
            yield _with_gates(_unspoken(one.census.nodes[node], one, cluster), one)


def _with_gates(verdict: Verdict, plan: CheckPlan) -> Verdict:
    """Where nothing was to be begun, nobody has asked the gates of the node; those of the check still say something."""
    return verdict if verdict.gates else msgspec.structs.replace(verdict, gates=plan.gates)


def _unreadable(node: str, check: Broken) -> Verdict:
    gate = disabled_gate(Disabled(INVALID, "; ".join(check.problems)))
    message = "the check makes no sense as it is written, so nobody can say whether it means this node"
    return Verdict(node=node, check=check.name, state=State.UNSEEN, reason=INVALID, message=message, gates=(gate,))


def _unspoken(node: Node, plan: CheckPlan, cluster: Cluster) -> Verdict:
    """Of a node that the plan says nothing of: well, or ill in a way that this check leaves alone for now."""
    trouble = plan.census.troubled.get(node.name) if plan.census else None
    state, reason, message = _left_alone(trouble, plan, cluster)
    since = trouble.unhealthy_at if trouble else _ready_since(node)
    return Verdict(node=node.name, check=plan.name, state=state, reason=reason, message=message, since=since)


def _left_alone(trouble: Trouble | None, plan: CheckPlan, cluster: Cluster) -> tuple[State, str, str]:
    if trouble is None:
        return State.HEALTHY, HEALTHY, "the node shows no condition that the check calls unhealthy"
    because = f"{trouble.because.type} is {trouble.because.status}"
    state = State.UNHEALTHY if trouble.is_unhealthy(cluster.now) else State.SUSPECT
    if any(gate.value == LOOKING for gate in plan.gates):
        return state, LOOKING, f"{because}; the kinds that the check names are still being looked for"
    return state, LEFT_TO_ANOTHER, f"{because}; the node is terminating, which is left to a MachineHealthCheck"


def _ready_since(node: Node) -> datetime | None:
    ready = node.condition("Ready")
    return ready.last_transition_time if ready is not None and ready.status == "True" else None


def remediations_of(node: str, cluster: Cluster, plan: Plan) -> tuple[Remediation, ...]:
    """Of this node, whoever made them, as far as they are of kinds that some check uses."""
    checks = [one.known.check for one in plan.checks.values()]
    kinds = {step.template.makes for check in checks if isinstance(check, Check) for step in check.steps}
    found = [read_remediation(item, kind) for kind in kinds for item in cluster.every(kind)]
    mine = [remediation for remediation in found if remediation.node == node]
    return tuple(sorted(mine, key=lambda one: (one.kind.api_version, one.kind.name, one.key)))


def lock_of(node: str, cluster: Cluster) -> Lease | None:
    return next((lease for lease in cluster.locks.values() if lease.name == medik8s.lock_of(node)), None)

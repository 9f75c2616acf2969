"""Sentences for tests of checks: a cluster with a check, its template, remediations and locks, and what is decided."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from defib.decide.machine_checks import MACHINE_HEALTH_CHECK
from defib.decide.plan import NOTHING, Plan, decide
from defib.decide.quorum import CLUSTER_VERSION
from defib.decide.rules import Rules
from defib.decide.topology import INFRASTRUCTURE
from defib.model import medik8s
from defib.model.action import Action, EndRemediation, StartRemediation, WriteStatus
from defib.model.cluster import Cluster, Missing, Served
from defib.model.config_map import ConfigMap
from defib.model.health_check import CheckStatus, KindRef, NodeHealthCheck, StatusCondition, UnhealthyNode
from defib.model.meta import Meta, OwnerReference, Resource, Unstructured
from defib.model.node import Condition, Lease, LeaseSpec, Node
from defib.model.node_drain import DRAIN
from defib.model.verdict import Gate
from tests.builders import T0, a_node

API = "test.defib.dev/v1alpha1"
FOO, FOO_TEMPLATE = KindRef(API, "FooRemediation"), KindRef(API, "FooRemediationTemplate")
BAR, BAR_TEMPLATE = KindRef(API, "BarRemediation"), KindRef(API, "BarRemediationTemplate")
KINDS: dict[KindRef, Served | Missing] = {
    FOO: Served("foos", namespaced=True),
    FOO_TEMPLATE: Served("footemplates", namespaced=True),
    BAR: Served("bars", namespaced=True),
    BAR_TEMPLATE: Served("bartemplates", namespaced=True),
    DRAIN: Missing("there are no drains here"),
    **{kind: Missing("this is no OpenShift") for kind in (CLUSTER_VERSION, INFRASTRUCTURE, MACHINE_HEALTH_CHECK)},
}
LONG_AGO = T0 - timedelta(hours=1)


def a_template(name: str = "foo", *, many: bool = False, spec: Any = None) -> Unstructured:
    annotations = {medik8s.MULTIPLE_TEMPLATES: "true"} if many else None
    return Unstructured(
        metadata=Meta(name=name, namespace="ns", uid=f"uid-{name}", annotations=annotations),
        spec={"template": {"spec": {"size": 1}}} if spec is None else spec,
    )


def template_ref(name: str = "foo", kind: KindRef = FOO_TEMPLATE) -> dict[str, str]:
    return {"apiVersion": kind.api_version, "kind": kind.name, "name": name, "namespace": "ns"}


def a_check(
    name: str = "workers", *, status: Any = None, annotations: dict[str, str] | None = None, **spec: Any
) -> NodeHealthCheck:
    if "escalatingRemediations" not in spec:
        spec.setdefault("remediationTemplate", template_ref())
    meta = Meta(name=name, uid=f"uid-{name}", resource_version="7", generation=1, annotations=annotations)
    return NodeHealthCheck(metadata=meta, spec=spec, status=status)


def a_remediation(
    node: str,
    *,
    check: str = "workers",
    name: str = "",
    created: datetime = T0,
    template: str = "foo",
    conditions: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    deleting: bool = False,
) -> Unstructured:
    name = name or node
    owner = OwnerReference(api_version=medik8s.API_VERSION, kind=medik8s.CHECK_KIND, name=check, uid=f"uid-{check}")
    named = {medik8s.NODE_NAME: node, medik8s.TEMPLATE_NAME: template}
    return Unstructured(
        metadata=Meta(
            name=name,
            namespace="ns",
            uid=f"uid-of-{name}",
            resource_version="9",
            creation_timestamp=created,
            deletion_timestamp=T0 if deleting else None,
            annotations=named | dict(annotations or {}),
            labels=dict(labels or {}),
            owner_references=[owner] if check else None,
        ),
        status={"conditions": [{"type": kind, "status": value} for kind, value in (conditions or {}).items()]},
    )


def a_lock(node: str, holder: str, *, renewed: datetime = T0, seconds: int = 660) -> Lease:
    return Lease(
        metadata=Meta(name=f"node-{node}", namespace="medik8s-leases", uid=f"lock-{node}", resource_version="5"),
        spec=LeaseSpec(
            holder_identity=holder, lease_duration_seconds=seconds, acquire_time=renewed, renew_time=renewed
        ),
    )


def the_cluster(
    checks: NodeHealthCheck | Sequence[NodeHealthCheck],
    *nodes: Node,
    now: datetime = T0,
    foos: Sequence[Unstructured] = (),
    bars: Sequence[Unstructured] = (),
    templates: Sequence[Unstructured] | None = None,
    locks: Sequence[Lease] = (),
    config: Mapping[str, dict[str, str]] | None = None,
    **more: Any,
) -> Cluster:
    listed = [checks] if isinstance(checks, NodeHealthCheck) else checks
    known = [a_template("foo"), a_template("bar")] if templates is None else templates
    others: dict[str, Mapping[str, Resource]] = {
        medik8s.CHECKS: {check.name: check for check in listed},
        "footemplates": {item.key: item for item in known},
        "bartemplates": {item.key: item for item in known},
        "foos": {item.key: item for item in foos},
        "bars": {item.key: item for item in bars},
        "configmaps": {
            f"defib-system/{name}": ConfigMap(metadata=Meta(name=name, namespace="defib-system"), data=data)
            for name, data in (config or {}).items()
        },
    }
    others |= more.pop("others", {})
    return Cluster(
        now=now,
        nodes={node.name: node for node in nodes},
        others=others,
        kinds=more.pop("kinds", KINDS),
        locks={lease.key: lease for lease in locks},
        **more,
    )


def ill(name: str, *, ready: str = "Unknown", since: datetime = LONG_AGO, **more: Any) -> Node:
    """A node that has not been ready for an hour."""
    return a_node(name, ready=ready, since=since, **more)


def healthy(count: int, prefix: str = "w", **more: Any) -> list[Node]:
    return [a_node(f"{prefix}{place}", since=LONG_AGO, **more) for place in range(1, count + 1)]


def showing(node: Node, kind: str, status: str, since: datetime = LONG_AGO) -> Node:
    """The same node with one more condition."""
    fresh = Condition(type=kind, status=status, last_transition_time=since)
    status_of_node = msgspec.structs.replace(node.status, conditions=[*(node.status.conditions or ()), fresh])
    return msgspec.structs.replace(node, status=status_of_node)


def a_ladder(*steps: tuple[str, str] | tuple[str, str, KindRef]) -> list[dict[str, Any]]:
    """Escalation by these templates, each with its timeout and, where it is not Foo, its kind."""
    return [
        {"remediationTemplate": template_ref(step[0], *step[2:]), "order": place, "timeout": step[1]}
        for place, step in enumerate(steps)
    ]


def plan_of(cluster: Cluster, rules: Rules | None = None, before: Plan = NOTHING) -> Plan:
    return decide(cluster, rules or Rules(), before)


def started(plan: Plan) -> list[str]:
    return [action.node for action in plan.actions if isinstance(action, StartRemediation)]


def ended(plan: Plan) -> list[str]:
    return [action.target.name for action in plan.actions if isinstance(action, EndRemediation)]


def of_type(plan: Plan, kind: type[Action]) -> list[Any]:
    return [action for action in plan.actions if isinstance(action, kind)]


def written(plan: Plan) -> dict[str, Any]:
    """The status as it is written; empty when it is not."""
    writes = of_type(plan, WriteStatus)
    return writes[0].status if writes else {}


def told(plan: Plan) -> list[str]:
    """The reasons of the events that go with the status."""
    return [event.reason for write in of_type(plan, WriteStatus) for event in write.tells]


def status_of(plan: Plan, check: str = "workers") -> CheckStatus:
    return plan.checks[check].status


def node_of(plan: Plan, node: str, check: str = "workers") -> UnhealthyNode:
    found = status_of(plan, check).node(node)
    assert found is not None, f"the status does not speak of {node}"
    return found


def condition_of(plan: Plan, kind: str, check: str = "workers") -> StatusCondition:
    found = status_of(plan, check).condition(kind)
    assert found is not None, f"the status has no condition {kind}"
    return found


def gate_of(plan: Plan, name: str, node: str = "", check: str = "workers") -> Gate:
    """A gate as it stood for a node, or without a node for the check."""
    of_check = plan.checks[check]
    gates = of_check.verdicts[node].gates if node else of_check.gates
    return next(gate for gate in gates if gate.name == name)


def after(cluster: Cluster, plan: Plan, **changes: Any) -> Cluster:
    """The next look, when the statuses have been written and time has passed."""
    checks = dict(cluster.others[medik8s.CHECKS])
    for write in of_type(plan, WriteStatus):
        item = checks[write.check]
        assert isinstance(item, NodeHealthCheck)
        merged = {**(item.status or {}), **write.status}
        kept = {key: value for key, value in merged.items() if value is not None}
        checks[write.check] = msgspec.structs.replace(item, status=kept)
    return msgspec.structs.replace(cluster, others={**cluster.others, medik8s.CHECKS: checks}, **changes)

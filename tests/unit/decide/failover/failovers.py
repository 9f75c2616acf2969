"""Sentences for tests of pod failover: `a_pod("web-1")`, `a_failover("n1")`, `a_policy("web")`, and what is planned."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from defib.decide.check_plan import CheckPlan
from defib.decide.failover.plan import NOTHING, Failover, plan_failover
from defib.decide.rules import FailoverRules, Rules
from defib.model import medik8s
from defib.model.action import Action, MovePod, ReportRemediation, SetFinalizers, TellEvent
from defib.model.cluster import Cluster, Missing, Served
from defib.model.failover_policy import POLICY, FailedNode, PolicyStatus, read_policy_status
from defib.model.health_check import KindRef
from defib.model.meta import Meta, OwnerReference, Unstructured
from defib.model.node import NOT_READY_TAINTS, Node, Taint
from defib.model.node_drain import DRAIN
from defib.model.pod import Pod, PodSpec, PodStatus, Toleration, pods_on
from defib.model.pod_failover import FINALIZER, REMEDIATION
from tests.builders import HOUR, T0, a_node

FAILED_AT = T0 - timedelta(minutes=5)
LONG_AGO = T0 - HOUR
COLLECTION = "failovers"
POLICIES = "policies"
PLACE = "apps"
KINDS: dict[KindRef, Served | Missing] = {
    REMEDIATION: Served(COLLECTION, namespaced=True),
    POLICY: Served(POLICIES, namespaced=True),
    DRAIN: Missing("there are no drains here"),
}

REPLICA_SET = ("apps/v1", "ReplicaSet")
STATEFUL_SET = ("apps/v1", "StatefulSet")
DAEMON_SET = ("apps/v1", "DaemonSet")
JOB = ("batch/v1", "Job")
CLUSTER = ("postgresql.cnpg.io/v1", "Cluster")

RWO, RWX = frozenset({"ReadWriteOnce"}), frozenset({"ReadWriteMany"})

change = msgspec.structs.replace


def a_claim_volume(claim: str = "data") -> dict[str, Any]:
    return {"name": "data", "persistentVolumeClaim": {"claimName": claim}}


def a_pod(
    name: str,
    *,
    owner: tuple[str, str] | None = REPLICA_SET,
    owned_by: str = "owner",
    node: str = "n1",
    namespace: str = PLACE,
    labels: Mapping[str, str] | None = None,
    volumes: Iterable[Mapping[str, Any]] = (),
    claims: Iterable[str] = (),
    annotations: Mapping[str, str] | None = None,
    phase: str = "Running",
    leaving: bool = False,
    created: datetime | None = LONG_AGO,
    priority: int = 0,
    tolerations: Iterable[Toleration] = (),
    **meta: Any,
) -> Pod:
    owners = [OwnerReference(api_version=owner[0], kind=owner[1], name=owned_by, controller=True)] if owner else None
    mounted = [dict(volume) for volume in (*volumes, *(a_claim_volume(claim) for claim in claims))]
    return Pod(
        metadata=Meta(
            name=name,
            namespace=namespace,
            uid=f"uid-{name}",
            creation_timestamp=created,
            deletion_timestamp=T0 if leaving else None,
            labels=dict(labels or {}),
            annotations=dict(annotations or {}),
            owner_references=owners,
            **meta,
        ),
        spec=PodSpec(node_name=node, volumes=mounted, priority=priority, tolerations=list(tolerations)),
        status=PodStatus(phase=phase),
    )


def a_failover(
    node: str = "n1",
    *,
    name: str = "",
    held: bool = True,
    spec: Any = None,
    status: Any = None,
    annotations: Mapping[str, str] | None = None,
    **meta: Any,
) -> Unstructured:
    """`held`: we have put our finalizer on it."""
    return Unstructured(
        metadata=Meta(
            name=name or f"{node}-abcde",
            namespace="defib-system",
            uid=f"uid-of-{name or node}",
            resource_version="9",
            generation=1,
            annotations={medik8s.NODE_NAME: node, **(annotations or {})},
            **{"creation_timestamp": T0, "finalizers": [FINALIZER] if held else None} | meta,
        ),
        spec={} if spec is None else spec,
        status=status,
    )


def a_policy(name: str = "web", *, namespace: str = PLACE, status: Any = None, **spec: Any) -> Unstructured:
    """All pods of its namespace, unless it says otherwise."""
    return Unstructured(
        metadata=Meta(
            name=name, namespace=namespace, uid=f"uid-{namespace}-{name}", resource_version="7", generation=1
        ),
        spec={"selector": {}} | spec,
        status=status,
    )


def a_failed_node(name: str = "n1", *, since: datetime | None = FAILED_AT, **fields: Any) -> Node:
    return as_kubernetes_taints(a_node(name, ready=fields.pop("ready", "Unknown"), since=since, **fields))


def as_kubernetes_taints(node: Node) -> Node:
    """A moment after its condition has changed: no pods are sent to a node that is not ready. Other taints stay."""
    others = [one for one in node.spec.taints or () if one.key not in NOT_READY_TAINTS]
    if node.ready == "True":
        return tainted(node, *others)
    key = "node.kubernetes.io/unreachable" if node.ready == "Unknown" else "node.kubernetes.io/not-ready"
    return tainted(node, *others, *(Taint(key=key, effect=effect) for effect in ("NoSchedule", "NoExecute")))


def tainted(node: Node, *taints: Taint) -> Node:
    return change(node, spec=change(node.spec, taints=list(taints)))


def healthy_nodes(count: int = 4) -> list[Node]:
    return [a_node(f"well-{place}", since=LONG_AGO) for place in range(count)]


def the_cluster(
    item: Unstructured | Iterable[Unstructured],
    *nodes: Node,
    pods: Iterable[Pod] | None = (),
    now: datetime = T0,
    **fields: Any,
) -> Cluster:
    """`pods` are those of n1; None means that they are not followed yet."""
    items = [item] if isinstance(item, Unstructured) else list(item)
    others = {COLLECTION: {one.key: one for one in items}, **fields.pop("others", {})}
    if pods is not None:
        others[pods_on("n1")] = {pod.key: pod for pod in pods}
    return Cluster(
        now=now,
        nodes={node.name: node for node in (nodes or (a_failed_node(),))},
        others=others,
        kinds=KINDS,
        **fields,
    )


def a_fleet(
    policies: Unstructured | Iterable[Unstructured],
    *failed: Node,
    pods: Iterable[Pod] = (),
    well: int = 4,
    now: datetime = T0,
    **fields: Any,
) -> Cluster:
    """These policies, these nodes, and some that are well. The pods of the failed ones are in sight."""
    items = [policies] if isinstance(policies, Unstructured) else list(policies)
    nodes = {node.name: node for node in (*(failed or (a_failed_node(),)), *healthy_nodes(well))}
    others: dict[str, Any] = {POLICIES: {one.key: one for one in items}}
    pods = list(pods)
    for node in nodes:
        if not node.startswith("well-"):
            others[pods_on(node)] = {pod.key: pod for pod in pods if pod.spec.node_name == node}
    others |= fields.pop("others", {})
    return Cluster(now=now, nodes=nodes, others=others, kinds=KINDS, **fields)


def plan_of(
    cluster: Cluster, before: Failover = NOTHING, checks: Mapping[str, CheckPlan] | None = None, **rules: Any
) -> Failover:
    return plan_failover(cluster, Rules(**rules), checks or {}, before)


def within(**limits: Any) -> dict[str, Any]:
    """What the cluster operator allows."""
    return {"failover": FailoverRules(**limits)}


def moves(plan: Failover) -> list[MovePod]:
    return [action for action in plan.actions if isinstance(action, MovePod)]


def moved(plan: Failover) -> list[str]:
    return [action.name for action in moves(plan)]


def reported(plan: Failover) -> dict[str, Any]:
    """The status that is to be written; empty when there is nothing to say."""
    written = [action for action in plan.actions if isinstance(action, ReportRemediation)]
    return written[0].status if written else {}


def told(plan: Failover) -> list[TellEvent]:
    return [tell for action in plan.actions if isinstance(action, ReportRemediation) for tell in action.tells]


def conditions(plan: Failover) -> dict[str, str]:
    """The status of each, and the reason that all of them give."""
    said = reported(plan).get("conditions") or ()
    reasons = {one["reason"] for one in said}
    assert len(reasons) == 1
    return {one["type"]: one["status"] for one in said} | {"reason": reasons.pop()}


def message(plan: Failover) -> str:
    return str(reported(plan)["conditions"][0]["message"])


def after(
    cluster: Cluster, plan: Failover, *, pods: Iterable[Pod] | None = None, seconds: float = 1, **changes: Any
) -> Cluster:
    """The same cluster when the finalizers and reports of the plan are in it, and a moment has passed."""
    others = {**cluster.others}
    for collection in (COLLECTION, POLICIES):
        items: Any = dict(cluster.others.get(collection, {}))
        for action in plan.actions:
            items |= {key: written(item, action) for key, item in items.items()}
        others[collection] = items
    if pods is not None:
        pods = list(pods)
        for name in [name for name in others if name.startswith("pods on ")]:
            others[name] = {pod.key: pod for pod in pods if pods_on(pod.spec.node_name) == name}
    return change(cluster, others=others, now=cluster.now + timedelta(seconds=seconds), **changes)


def written(item: Unstructured, action: Action) -> Unstructured:
    """The object when this is done to it; the same when it is about another one."""
    if isinstance(action, SetFinalizers) and action.target.uid == item.uid:
        return change(item, metadata=change(item.metadata, finalizers=list(action.finalizers)))
    if isinstance(action, ReportRemediation) and action.target.uid == item.uid:
        told = {name: value for name, value in action.status.items() if value is not None}
        return change(item, status=msgspec.json.decode(msgspec.json.encode(told)))
    return item


def outcome(cluster: Cluster, plan: Failover) -> Any:
    """What is to be done, and how it stands then. Only who has looked before can count pods that came and went since."""
    deeds = [one for one in plan.actions if not isinstance(one, ReportRemediation) or one.target.kind != POLICY]
    policies: Any = after(cluster, plan).others.get(POLICIES, {})
    entries = [(key, entry) for key, item in policies.items() for entry in read_policy_status(item).nodes or ()]
    stands = [(key, change(entry, found=0, moved=0, message="")) for key, entry in entries]
    return deeds, stands, plan.nodes, plan.moments, plan.claims


# Of policies.


def go_on(cluster: Cluster, before: Failover = NOTHING, passes: int = 1, **rules: Any) -> tuple[Cluster, Failover]:
    """So many passes, each with what the one before has written; no pod leaves."""
    plan = before
    for _ in range(passes):
        plan = plan_of(cluster, plan, **rules)
        cluster = after(cluster, plan)
    return cluster, plan


def on(node: str, *names: str, **fields: Any) -> list[Pod]:
    return [a_pod(name, node=node, **fields) for name in names]


def status_of(cluster: Cluster, name: str = "web", namespace: str = PLACE) -> PolicyStatus:
    item: Any = cluster.others[POLICIES][f"{namespace}/{name}"]
    return read_policy_status(item)


def entry_of(cluster: Cluster, node: str = "n1", policy: str = "web") -> FailedNode | None:
    """What stands in the status of a policy about a node."""
    return next((one for one in status_of(cluster, policy).nodes or () if one.name == node), None)


def settled(cluster: Cluster, policy: str = "web") -> tuple[str, str]:
    condition = status_of(cluster, policy).condition("Settled")
    assert condition is not None
    return condition.status, condition.reason


def valid(cluster: Cluster, policy: str = "web") -> tuple[str, str, str]:
    condition = status_of(cluster, policy).condition("Valid")
    assert condition is not None
    return condition.status, condition.reason, condition.message

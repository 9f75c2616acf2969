"""Sentences for tests of pod failover: `a_pod("web-1")`, `a_failover("n1")`, and what is planned for them."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from defib.decide.pod_failover import Failover, plan_failover
from defib.decide.rules import Rules
from defib.model import medik8s
from defib.model.action import Action, MovePod, ReportRemediation, SetFinalizers
from defib.model.cluster import Cluster, Served
from defib.model.meta import Meta, OwnerReference, Unstructured
from defib.model.node import Node
from defib.model.pod import Pod, PodSpec, PodStatus, pods_on
from defib.model.pod_failover import FINALIZER, REMEDIATION
from tests.builders import HOUR, T0, a_node

FAILED_AT = T0 - timedelta(minutes=5)
LONG_AGO = T0 - HOUR
COLLECTION = "failovers"
REPLICA_SET = ("apps/v1", "ReplicaSet")


def a_pod(
    name: str,
    *,
    owner: tuple[str, str] | None = REPLICA_SET,
    volumes: Iterable[Mapping[str, Any]] = (),
    annotations: Mapping[str, str] | None = None,
    phase: str = "Running",
    leaving: bool = False,
    created: datetime | None = LONG_AGO,
) -> Pod:
    owners = [OwnerReference(api_version=owner[0], kind=owner[1], name="owner", controller=True)] if owner else None
    return Pod(
        metadata=Meta(
            name=name,
            namespace="apps",
            uid=f"uid-{name}",
            creation_timestamp=created,
            deletion_timestamp=T0 if leaving else None,
            annotations=dict(annotations or {}),
            owner_references=owners,
        ),
        spec=PodSpec(node_name="n1", volumes=[dict(volume) for volume in volumes]),
        status=PodStatus(phase=phase),
    )


def a_failover(
    node: str = "n1",
    *,
    name: str = "",
    held: bool = True,
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
        spec={},
        status=status,
    )


def a_failed_node(name: str = "n1", *, since: datetime = FAILED_AT, **fields: Any) -> Node:
    return a_node(name, ready=fields.pop("ready", "Unknown"), since=since, **fields)


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
        kinds={REMEDIATION: Served(COLLECTION, namespaced=True)},
        **fields,
    )


def plan_of(cluster: Cluster, **rules: Any) -> Failover:
    return plan_failover(cluster, Rules(**rules))


def moved(plan: Failover) -> list[str]:
    return [action.name for action in plan.actions if isinstance(action, MovePod)]


def reported(plan: Failover) -> dict[str, Any]:
    """The status that is to be written; empty when there is nothing to say."""
    written = [action for action in plan.actions if isinstance(action, ReportRemediation)]
    return written[0].status if written else {}


def conditions(plan: Failover) -> dict[str, str]:
    """The status of each, and the reason that all of them give."""
    said = reported(plan).get("conditions") or ()
    reasons = {one["reason"] for one in said}
    assert len(reasons) == 1
    return {one["type"]: one["status"] for one in said} | {"reason": reasons.pop()}


def message(plan: Failover) -> str:
    return str(reported(plan)["conditions"][0]["message"])


def after(cluster: Cluster, plan: Failover, *, pods: Iterable[Pod] | None = None, **changes: Any) -> Cluster:
    """The same cluster when the finalizers and reports of the plan are in it, and a moment has passed."""
    items = {item.key: item for item in cluster.every(REMEDIATION)}
    for action in plan.actions:
        items |= {key: _written(item, action) for key, item in items.items()}
    others = {**cluster.others, COLLECTION: items}
    if pods is not None:
        others[pods_on("n1")] = {pod.key: pod for pod in pods}
    return msgspec.structs.replace(cluster, others=others, now=cluster.now + timedelta(seconds=1), **changes)


def _written(item: Unstructured, action: Action) -> Unstructured:
    if isinstance(action, SetFinalizers) and action.target.uid == item.uid:
        meta = msgspec.structs.replace(item.metadata, finalizers=list(action.finalizers))
        return msgspec.structs.replace(item, metadata=meta)
    if isinstance(action, ReportRemediation) and action.target.uid == item.uid:
        told = {name: value for name, value in action.status.items() if value is not None}
        return msgspec.structs.replace(item, status=msgspec.json.decode(msgspec.json.encode(told)))
    return item

"""Sentences for tests of drains: `find(a_cordoned_node("a", {WATCH_MARK: "true"}))`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from defib.decide.drains.intent import UNSCHEDULABLE, Intent
from defib.decide.drains.intents import find_intent, kinds_for
from defib.model.cluster import Cluster, Missing, Served
from defib.model.drain_policy import ALL_SOURCES
from defib.model.health_check import KindRef
from defib.model.meta import Meta, OwnerReference, Unstructured
from defib.model.node import Node, NodeSpec, Taint
from tests.builders import MINUTE, T0

CORDONED_AT = T0 - 5 * MINUTE
CORDON = Taint(key=UNSCHEDULABLE, effect="NoSchedule", time_added=CORDONED_AT)
WATCHED = tuple(kinds_for(ALL_SOURCES))


def a_draining_node(
    name: str,
    annotations: Mapping[str, str] | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    taints: tuple[Taint, ...] = (CORDON,),
    unschedulable: bool | None = None,
    owner: str = "",
) -> Node:
    """Cordoned, unless other taints are given instead."""
    return Node(
        metadata=Meta(
            name=name,
            uid=f"uid-{name}",
            labels=dict(labels or {}),
            annotations=dict(annotations or {}),
            owner_references=[OwnerReference(api_version="karpenter.sh/v1", kind="NodeClaim", name=owner)],
        ),
        spec=NodeSpec(unschedulable=CORDON in taints if unschedulable is None else unschedulable, taints=list(taints)),
    )


def an_object(name: str, namespace: str = "", *, spec: Any = None, status: Any = None, **meta: Any) -> Unstructured:
    return Unstructured(metadata=Meta(name=name, namespace=namespace, **meta), spec=spec, status=status)


def collection_of(kind: KindRef) -> str:
    return f"{kind.name}.{kind.api_version}"


def seeing(
    *nodes: Node, objects: Mapping[KindRef, tuple[Unstructured, ...]] | None = None, now: datetime = T0
) -> Cluster:
    """Kinds without a word about them are not there."""
    seen = objects or {}
    kinds = {kind: Served(collection_of(kind), namespaced=True) for kind in seen}
    missing = {kind: Missing("no such kind") for kind in WATCHED if kind not in seen}
    return Cluster(
        now=now,
        nodes={node.name: node for node in nodes},
        kinds={**missing, **kinds},
        others={collection_of(kind): {item.key: item for item in items} for kind, items in seen.items()},
    )


def find(node: Node, objects: Mapping[KindRef, tuple[Unstructured, ...]] | None = None) -> Intent | None:
    return find_intent(node, seeing(node, objects=objects), ALL_SOURCES)


def rfc3339(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"

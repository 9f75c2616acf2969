"""Sentences for tests: `a_node("n1", ready="Unknown")`, `a_cluster(a_node("n1"))`."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from defib.model.cluster import Blindness, Cluster
from defib.model.meta import Meta
from defib.model.node import Condition, Node, NodeInfo, NodeSpec, NodeStatus

T0 = datetime(2030, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def a_node(
    name: str,
    *,
    ready: str = "True",
    version: int = 1,
    uid: str = "",
    boot: str = "boot-1",
    cordoned: bool = False,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    since: datetime | None = None,
) -> Node:
    return Node(
        metadata=Meta(
            name=name,
            uid=uid or f"uid-{name}",
            resource_version=str(version),
            labels=dict(labels or {}),
            annotations=dict(annotations or {}),
        ),
        spec=NodeSpec(unschedulable=cordoned),
        status=NodeStatus(
            conditions=[
                Condition(
                    type="Ready",
                    status=ready,
                    reason="" if ready == "True" else "NodeStatusUnknown",
                    last_transition_time=since,
                )
            ],
            node_info=NodeInfo(boot_id=boot),
        ),
    )


def a_cluster(*nodes: Node, now: datetime = T0, blind: tuple[Blindness, ...] = ()) -> Cluster:
    return Cluster(now=now, nodes={node.name: node for node in nodes}, blind=blind)

"""Scenes of the demo for tests: `a_picture(a_node("n1"), a_verdict("n1", State.SUSPECT))`."""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from defib.cli.demo_view import Outage, Pace, Scene
from defib.decide.census import take_census
from defib.decide.check_plan import CheckPlan, Known
from defib.decide.plan import Plan
from defib.model.cluster import Cluster, Served
from defib.model.health_check import Check, CheckStatus, NodeHealthCheck
from defib.model.meta import Meta, Unstructured
from defib.model.node import Lease, LeaseSpec, Node
from defib.model.pod_failover import REMEDIATION
from defib.model.verdict import State, Verdict
from defib.picture import Picture, Told
from tests.builders import SECOND, T0, a_cluster, a_node

CHECK = "nhc"
NAMES = [f"zone-{zone}-{number}" for zone in "abc" for number in (1, 2, 3)]
PACE = Pace(speed=10, grace_seconds=5, patience_seconds=3, toleration_seconds=30)


def a_verdict(
    node: str, state: State, *, reason: str = "", message: str = "so it is", since: datetime | None = None
) -> Verdict:
    return Verdict(node=node, check=CHECK, state=state, reason=reason or state.value, message=message, since=since)


def a_remediation(node: str, *, moved: int, succeeded: str = "True") -> Unstructured:
    status: dict[str, Any] = {"node": node, "moved": moved, "conditions": [{"type": "Succeeded", "status": succeeded}]}
    return Unstructured(metadata=Meta(name=f"{node}-1", namespace="d", uid=f"uid-{node}"), status=status)


def a_picture(
    *nodes: Node,
    verdicts: tuple[Verdict, ...] = (),
    remediations: tuple[Unstructured, ...] = (),
    told: tuple[Told, ...] = (),
    silent: timedelta = SECOND,
) -> Picture:
    """Of nodes that one check selects."""
    cluster = a_cluster(*(nodes or [a_node(name) for name in NAMES]))
    cluster = msgspec.structs.replace(
        cluster,
        heartbeats=_heartbeats(cluster, silent),
        kinds={REMEDIATION: Served("failovers", namespaced=True)},
        others={"failovers": {item.key: item for item in remediations}},
    )
    check = Check(name=CHECK)
    known = Known(item=NodeHealthCheck(metadata=Meta(name=CHECK)), check=check, status=CheckStatus())
    plan = CheckPlan(
        known=known,
        status=CheckStatus(),
        verdicts={verdict.node: verdict for verdict in verdicts},
        census=take_census(check, cluster.nodes, None),
    )
    return Picture(cluster, Plan(checks={CHECK: plan}), story=told)


def _heartbeats(cluster: Cluster, age: timedelta) -> dict[str, Lease]:
    spec = LeaseSpec(renew_time=cluster.now - age)
    return {f"kube-node-lease/{name}": Lease(metadata=Meta(name=name), spec=spec) for name in cluster.nodes}


def a_scene(picture: Picture | None = None, *, outage: Outage | None = None) -> Scene:
    picture = picture or a_picture()
    return Scene(
        now=T0,
        picture=picture,
        lines=(),
        outage=outage,
        pods=dict.fromkeys(picture.cluster.nodes, 2),
        machines=9,
        replicas=18,
        pace=PACE,
        kubeconfig="/tmp/defib-demo-abcdefgh/kubeconfig",
    )


def an_outage(
    node: str, *, has_power: bool = False, served_after: float | None = None, by_defib: bool = True
) -> Outage:
    return Outage(
        node=node,
        since=T0 - 10 * SECOND,
        pods=2,
        has_power=has_power,
        served_after_seconds=served_after,
        by_defib=by_defib,
    )

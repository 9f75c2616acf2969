"""Moments of the demo for tests: `shown(a_picture(a_node("n1"), verdicts=(a_verdict("n1", State.SUSPECT),)))`."""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from defib.cli.demo.view import Shown
from defib.decide.census import take_census
from defib.decide.check_plan import CheckPlan, Known
from defib.decide.plan import Plan
from defib.model.cluster import Cluster
from defib.model.health_check import Check, CheckStatus, NodeHealthCheck
from defib.model.incident import INCIDENTS, IncidentSpec, IncidentStatus, NodeIncident, Phase
from defib.model.meta import Meta
from defib.model.node import Lease, LeaseSpec, Node
from defib.model.verdict import State, Verdict
from defib.picture import Picture, Told
from tests.builders import SECOND, T0, a_cluster, a_node

CHECK = "nhc"
NAMES = [f"zone-{zone}-{number}" for zone in "abc" for number in (1, 2, 3)]


def a_verdict(
    node: str, state: State, *, reason: str = "", message: str = "so it is", since: datetime | None = None
) -> Verdict:
    return Verdict(node=node, check=CHECK, state=state, reason=reason or state.value, message=message, since=since)


def an_incident(node: str, phase: Phase, message: str = "so it is") -> NodeIncident:
    return NodeIncident(
        metadata=Meta(name=node, uid=f"uid-{node}"),
        spec=IncidentSpec(node=node),
        status=IncidentStatus(phase=phase, message=message),
    )


def a_picture(
    *nodes: Node,
    verdicts: tuple[Verdict, ...] = (),
    incidents: tuple[NodeIncident, ...] = (),
    told: tuple[Told, ...] = (),
    silent: timedelta = SECOND,
) -> Picture:
    """Of nodes that one check selects."""
    cluster = a_cluster(*(nodes or [a_node(name) for name in NAMES]))
    cluster = msgspec.structs.replace(
        cluster,
        heartbeats=_heartbeats(cluster, silent),
        others={INCIDENTS: {item.key: item for item in incidents}},
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


def shown(picture: Picture | None = None, **changes: Any) -> Shown:
    picture = picture or a_picture()
    scene = Shown(
        now=T0,
        picture=picture,
        lines=(),
        caption="All is well: every node answers, every pod runs. Press a key, or wait for what happens next.",
        playing="",
        pods=dict.fromkeys(picture.cluster.nodes, 2),
        power=dict.fromkeys(picture.cluster.nodes, True),
        databases={"db-0": "zone-a-1", "db-1": "zone-b-1", "db-2": "zone-c-1"},
        replicas=("defib-0", "defib-1"),
        leader="defib-0",
        speed=10,
        grace_seconds=5,
        keys=(("1", "A node hangs"), ("2", "A zone is lost"), ("3", "A drain hangs"), ("4", "The leader is killed")),
        page="http://127.0.0.1:8080/",
        kubeconfig="/tmp/defib-demo-abcdefgh/kubeconfig",
    )
    return msgspec.structs.replace(scene, **changes)

"""Sentences for tests about power cycles: `a_case(Phase.POWERING_OFF, at=3, seen=seen(off(1), off(2), told=OFF))`.

Times are seconds after T0, which is when the phase began.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from defib.decide.fencing.case import VOLUME_ATTACHMENT, Case
from defib.decide.fencing.order import Obstacle, Order
from defib.decide.fencing.table import next_row
from defib.model.action import Target
from defib.model.cluster import Cluster, Served
from defib.model.failure import Failure
from defib.model.incident import Command, Grade, IncidentSpec, IncidentStatus, NodeIncident, Phase, PowerReading, Proof
from defib.model.meta import Meta, OwnerReference, Unstructured
from defib.model.metal3 import HOST
from defib.model.node import OUT_OF_SERVICE_TAINT, Lease, LeaseSpec, Node, NodeSpec, Taint
from defib.model.pod import Pod, PodSpec, PodStatus, Toleration, pods_on
from defib.model.power import UNSEEN, Look, PowerPath, PowerSeen, PowerState, Reading, Sent
from defib.model.power_cycle import LOCK_HOLDER, REMEDIATION, Policy, Way
from tests.builders import SECOND, T0, a_node

ON, OFF, UNKNOWN = PowerState.ON, PowerState.OFF, PowerState.UNKNOWN
PATH = PowerPath(driver="redfish", address="https://bmc-n1")
METAL3_PATH = PowerPath(driver="metal3", address="metal/n1", options={"key": "reboot.metal3.io/defib"})
BY_HAND = PowerPath(driver="manual")
CAUSE = Target(kind=REMEDIATION, namespace="ops", name="n1", uid="pcr-1")
NODE = a_node("n1", ready="Unknown")
PROOF = Proof(grade=Grade.POWER, at=T0, how="read twice")
SEEN_ON = PowerReading(state="On", at=T0)
BRAKE = Obstacle("Brake", "the brake is on")

_OF_THE_LOOK = frozenset(
    {"at", "node", "heartbeat", "pods", "volumes", "server", "failures", "kinds", "others", "blind", "absent", "fences"}
)

change = msgspec.structs.replace


def after(seconds: float) -> datetime:
    return T0 + seconds * SECOND


def a_policy(**fields: Any) -> Policy:
    return Policy(way=Way(driver="redfish", address="https://bmc-{node}"), **fields)


def an_order(**fields: Any) -> Order:
    usual: dict[str, Any] = {
        "cause": CAUSE,
        "node": "n1",
        "name": "n1",
        "path": PATH,
        "policy": a_policy(),
        "lock_holder": LOCK_HOLDER,
    }
    return Order(**(usual | fields))


def an_incident(phase: Phase = Phase.OPEN, *, spec: IncidentSpec | None = None, **status: Any) -> NodeIncident:
    usual: dict[str, Any] = {"since": T0, "node_uid": "uid-n1", "boot_id": "boot-1", "power": PATH}
    return NodeIncident(
        metadata=Meta(name="n1", uid="i-1", resource_version="7", creation_timestamp=T0),
        spec=spec or IncidentSpec(node="n1"),
        status=IncidentStatus(**(usual | {"phase": phase} | status)),
    )


def a_command(power: PowerState, at: float = 0) -> Command:
    return Command(power=power.value, at=after(at), attempt=1, token="t")


def look_at(state: PowerState, seconds: float, *, heartbeat: datetime | None = T0) -> Look:
    return Look(Reading(state, after(seconds)), heartbeat)


def on(seconds: float) -> Look:
    return look_at(ON, seconds)


def off(seconds: float, *, heartbeat: datetime | None = T0) -> Look:
    return look_at(OFF, seconds, heartbeat=heartbeat)


def seen(*looks: Look, told: PowerState | None = None, at: float = 0, can_read: bool = True) -> PowerSeen:
    """What this process remembers: what it sent, and what it has read since."""
    return PowerSeen(looks=looks, sent=Sent(told, after(at)) if told is not None else None, can_read=can_read)


def a_heartbeat(at: datetime | None) -> Lease:
    return Lease(metadata=Meta(name="n1", namespace="kube-node-lease"), spec=LeaseSpec(renew_time=at))


def a_pod(name: str = "p", *, owner: str = "ReplicaSet", created: float = -60, **fields: Any) -> Pod:
    """`owner` is the kind of its controller; none is a pod on its own."""
    given = ("annotations", "deletion_timestamp")
    meta: dict[str, Any] = {key: fields.pop(key) for key in given if key in fields}
    owners = [OwnerReference(kind=owner, name="o", controller=True)] if owner else []
    meta |= {"creation_timestamp": after(created), "owner_references": owners}
    spec = PodSpec(node_name="n1", priority=fields.pop("priority", 0), tolerations=fields.pop("tolerations", None))
    return Pod(
        metadata=Meta(name=name, namespace="d", uid=f"uid-{name}", **meta),
        spec=spec,
        status=PodStatus(phase=fields.pop("phase", "Running")),
    )


def tolerates_everything() -> list[Toleration]:
    return [Toleration(operator="Exists")]


def an_attachment(node: str, *, created: float = -60, **meta: Any) -> Unstructured:
    meta |= {"name": f"va-{node}", "uid": f"va-{node}", "creation_timestamp": after(created)}
    return Unstructured(metadata=Meta(**meta), spec={"nodeName": node})


def a_host(*, kept: bool = True, **status: Any) -> dict[str, Any]:
    """What is seen of its BareMetalHost; `kept`: our annotation is there."""
    annotations = {"reboot.metal3.io/defib": ""} if kept else {}
    meta = Meta(name="n1", namespace="metal", uid="h-1", annotations=annotations)
    host = Unstructured(metadata=meta, spec={"online": True}, status=status)
    return {
        "kinds": {HOST: Served("baremetalhosts", namespaced=True)},
        "others": {"baremetalhosts": {host.key: host}},
    }


def tainted(node: Node, *taints: Taint) -> Node:
    return change(node, spec=NodeSpec(taints=[*(taints or (OUT_OF_SERVICE_TAINT,))]))


def back(boot: str = "boot-2", uid: str = "uid-n1") -> Node:
    return a_node("n1", ready="True", boot=boot, uid=uid)


def a_look(
    *,
    at: float = 0,
    node: Node | None = NODE,
    heartbeat: datetime | None = T0,
    pods: Iterable[Pod] | None = (),
    volumes: Iterable[Unstructured] = (),
    **fields: Any,
) -> Cluster:
    others: dict[str, Any] = {"volumeattachments": {one.key: one for one in volumes}}
    if pods is not None:
        others[pods_on("n1")] = {pod.key: pod for pod in pods}
    others |= fields.pop("others", {})
    kinds = {VOLUME_ATTACHMENT: Served("volumeattachments", namespaced=False)} | fields.pop("kinds", {})
    return Cluster(
        now=after(at),
        nodes={node.name: node} if node is not None else {},
        heartbeats={"kube-node-lease/n1": a_heartbeat(heartbeat)} if heartbeat is not None else {},
        others=others,
        kinds=kinds,
        server=fields.pop("server", (1, 30)),
        **fields,
    )


def a_case(phase: Phase, **more: Any) -> Case:
    """Fields of the case, of the look and of the incident's status are told apart by their names."""
    held, spec, order = more.pop("hold", None), more.pop("spec", None), more.pop("order", None)
    cluster, obstacle, known = more.pop("cluster", None), more.pop("obstacle", None), more.pop("seen", UNSEEN)
    look = {key: more.pop(key) for key in tuple(more) if key in _OF_THE_LOOK}
    cluster = cluster or a_look(**look)
    return Case(
        cluster=cluster,
        order=order or an_order(),
        incident=an_incident(phase, spec=spec, **more),
        node=cluster.nodes.get("n1"),
        seen=known,
        hold=lambda: held,
        obstacle=obstacle,
    )


def goes_to(case: Case) -> Phase | None:
    """The phase that it enters next; None when it stays where it is."""
    row = next_row(case)
    return row.target if row is not None else None


def writes(case: Case) -> dict[str, Any]:
    """What is written down beside the phase when it enters the next one."""
    row = next_row(case)
    assert row is not None, "it stays where it is"
    return row.also(case)


def failed(*keys: str, why: str = "the BMC said no") -> dict[str, Failure]:
    return {key: Failure(why=why, times=1, again_in=SECOND) for key in keys}

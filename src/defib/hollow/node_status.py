"""What a kubelet says about its node. Pure."""

import uuid
from datetime import datetime
from typing import Any

import msgspec

from defib.hollow.objects import KnownNode
from defib.hollow.pod_status import timestamp
from defib.hollow.site import Blueprint
from defib.model.node import ZONE_LABEL

KUBELET_VERSION = "v1.37.1"
ROLE_LABEL = "node-role.kubernetes.io/"
ATTACHED_BY_CONTROLLER = "volumes.kubernetes.io/controller-managed-attach-detach"
PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")

Json = dict[str, Any]


class Says(msgspec.Struct, frozen=True, kw_only=True):
    """A condition as its author means it; the moments are added when it is posted."""

    status: str
    reason: str = ""
    message: str = ""


HEALTHY: dict[str, Says] = {
    kind: Says(
        status="False",
        reason=f"KubeletHasSufficient{kind.removesuffix('Pressure')}",
        message=f"kubelet has no {kind}",
    )
    for kind in PRESSURES
} | {"Ready": Says(status="True", reason="KubeletReady", message="kubelet is posting ready status")}


def node_body(blueprint: Blueprint) -> Json:
    """The node as it registers, without its status."""
    labels = {
        "kubernetes.io/hostname": blueprint.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        ZONE_LABEL: blueprint.zone,
    }
    labels |= {f"{ROLE_LABEL}{role}": "" for role in blueprint.roles}
    metadata = {
        "name": blueprint.name,
        "labels": labels | blueprint.labels,
        "annotations": {ATTACHED_BY_CONTROLLER: "true"},
    }
    return {"metadata": metadata, "spec": {"taints": list(blueprint.taints)} if blueprint.taints else {}}


def status_of(blueprint: Blueprint, boot_id: str, port: int) -> Json:
    """What does not change within one boot."""
    return {
        "capacity": blueprint.capacity,
        "allocatable": blueprint.capacity,
        "addresses": [
            {"type": "InternalIP", "address": blueprint.address},
            {"type": "Hostname", "address": blueprint.name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": boot_id,
            "containerRuntimeVersion": "hollow://1",
            "kernelVersion": "6.12.0-hollow",
            "kubeProxyVersion": "",
            "kubeletVersion": KUBELET_VERSION,
            "machineID": uuid.uuid5(uuid.NAMESPACE_DNS, blueprint.name).hex,
            "operatingSystem": "linux",
            "osImage": "Hollow Linux",
            "systemUUID": str(uuid.uuid5(uuid.NAMESPACE_OID, blueprint.name)),
        },
    }


def conditions(known: KnownNode | None, ours: dict[str, Says], now: datetime) -> list[Json]:
    """Ours, since when they are so, and those of others as they are."""
    before = known.conditions if known else {}
    mine = []
    for kind, says in ours.items():
        same = kind in before and before[kind]["status"] == says.status
        since = before[kind].get("lastTransitionTime") if same else None
        mine.append(
            {
                "type": kind,
                "status": says.status,
                "reason": says.reason,
                "message": says.message,
                "lastHeartbeatTime": timestamp(now),
                "lastTransitionTime": since or timestamp(now),
            }
        )
    return mine + [condition for kind, condition in before.items() if kind not in ours]


def csi_node(blueprint: Blueprint, uid: str) -> Json:
    """Which volumes this node can take."""
    drivers = [
        {"name": driver, "nodeID": blueprint.name, "topologyKeys": [], "allocatable": {"count": blueprint.volumes_max}}
        for driver in blueprint.drivers
    ]
    return {
        "metadata": {"name": blueprint.name, "ownerReferences": owner(blueprint.name, uid)},
        "spec": {"drivers": drivers},
    }


def owner(name: str, uid: str) -> list[Json]:
    return [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}]

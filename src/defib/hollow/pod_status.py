"""What a kubelet says about a pod. Pure: the work as it stands and the status as the API server has it, to the new one."""

import uuid
from datetime import datetime
from typing import Any

from defib.hollow.objects import Container
from defib.hollow.pod_work import PodWork, Stage

OURS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")

Json = dict[str, Any]


def timestamp(moment: datetime) -> str:
    """To the second, as the API server keeps it."""
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def status_of(work: PodWork, host_address: str, now: datetime) -> Json:
    """Only the fields that a kubelet owns; conditions of others stay among them as they are."""
    known = work.pod.status or {}
    status = {
        "phase": work.phase,
        "hostIP": host_address,
        "hostIPs": [{"ip": host_address}],
        "startTime": known.get("startTime") or timestamp(work.admitted_at),
        "conditions": _conditions(work, known.get("conditions") or [], now),
        "containerStatuses": [_container(work, container) for container in work.pod.spec.containers or ()],
        "observedGeneration": work.pod.metadata.generation,
    }
    if work.started_at:
        address = host_address if work.pod.spec.host_network else work.address
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    if work.pod.spec.init_containers:
        status["initContainerStatuses"] = [_initialized(work, one) for one in work.pod.spec.init_containers]
    return status


def differ(known: Json, wanted: Json) -> bool:
    """Is there news? Details that the API server may write in another way do not count."""
    return _essence(known) != _essence(wanted)


def _essence(status: Json) -> tuple[object, ...]:
    conditions = {one["type"]: one["status"] for one in status.get("conditions") or () if one["type"] in OURS}
    containers = [
        (one["name"], one.get("ready"), one.get("restartCount"), next(iter(one.get("state") or {}), ""))
        for one in status.get("containerStatuses") or ()
    ]
    return status.get("phase"), status.get("podIP"), conditions, containers


def _conditions(work: PodWork, known: list[Json], now: datetime) -> list[Json]:
    has_sandbox = work.stage in (Stage.RUNNING, Stage.STOPPING)
    wanted = {
        "PodReadyToStartContainers": has_sandbox,
        "Initialized": True,
        "Ready": work.is_ready,
        "ContainersReady": work.is_ready,
        "PodScheduled": True,
    }
    before = {condition["type"]: condition for condition in known}
    ours = []
    for kind, holds in wanted.items():
        condition: Json = {"type": kind, "status": str(holds), "lastTransitionTime": timestamp(now)}
        if kind in before and before[kind]["status"] == str(holds):
            condition["lastTransitionTime"] = before[kind].get("lastTransitionTime") or timestamp(now)
        if kind in ("Ready", "ContainersReady") and not holds:
            condition["reason"] = "PodCompleted" if work.phase == "Succeeded" else "ContainersNotReady"
        ours.append(condition)
    return ours + [condition for condition in known if condition["type"] not in OURS]


def _container(work: PodWork, container: Container) -> Json:
    runs = work.stage in (Stage.RUNNING, Stage.STOPPING)
    status: Json = {
        "name": container.name,
        "image": container.image,
        "imageID": f"hollow://{container.image}" if work.started_at else "",
        "ready": work.is_ready,
        "started": runs,
        "restartCount": work.restarts,
        "state": _state(work, container),
        "lastState": {},
    }
    if work.started_at:
        status["containerID"] = _container_id(work, container, work.restarts)
    if work.restarts and work.stage is not Stage.STOPPED:
        status["lastState"] = {"terminated": _terminated(work, container, work.restarts - 1)}
    return status


def _state(work: PodWork, container: Container) -> Json:
    match work.stage:
        case Stage.WAITING:
            return {"waiting": {"reason": "ContainerCreating" if work.habits.starts else "ImagePullBackOff"}}
        case Stage.STARTING:
            crashed = work.restarts and work.started_at
            return {"waiting": {"reason": "CrashLoopBackOff" if crashed else "ContainerCreating"}}
        case Stage.RUNNING | Stage.STOPPING:
            assert work.started_at
            return {"running": {"startedAt": timestamp(work.started_at)}}
        case Stage.STOPPED:
            return {"terminated": _terminated(work, container, work.restarts)}


def _terminated(work: PodWork, container: Container, life: int) -> Json:
    if not work.started_at or not work.finished_at:  # it ended with the boot before this one, unseen
        return {"exitCode": work.exit_code, "reason": "ContainerStatusUnknown"}
    return {
        "exitCode": work.exit_code,
        "reason": "Error" if work.exit_code else "Completed",
        "startedAt": timestamp(work.started_at),
        "finishedAt": timestamp(work.finished_at),
        "containerID": _container_id(work, container, life),
    }


def _initialized(work: PodWork, container: Container) -> Json:
    done = {"exitCode": 0, "reason": "Completed", "containerID": _container_id(work, container, 0)}
    return {
        "name": container.name,
        "image": container.image,
        "imageID": f"hollow://{container.image}",
        "ready": True,
        "started": False,
        "restartCount": 0,
        "state": {"terminated": done},
        "lastState": {},
    }


def _container_id(work: PodWork, container: Container, life: int) -> str:
    return f"hollow://{uuid.uuid5(uuid.NAMESPACE_OID, f'{work.pod.uid}/{container.name}/{life}').hex}"

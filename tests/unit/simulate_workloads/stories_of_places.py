"""Stories about where pods and disks may be, and when they must leave. Each returns what must be alike on every control plane."""

from collections import Counter
from typing import Any

import msgspec

from defib.kube.transport import Request
from tests.unit.simulate_workloads.looking import all_ready, picked
from tests.unit.simulate_workloads.stage import (
    ATTACHMENTS,
    CLAIMS,
    CLASSES,
    DEPLOYMENTS,
    NODES,
    OUT_OF_SERVICE,
    PODS,
    STATEFUL_SETS,
    VOLUMES,
    Stage,
    a_claim,
    a_class,
    a_pod,
    a_pod_spec,
    a_stateful_set_with_disks,
    a_volume,
    a_workload,
    node_of,
    says,
)

EVENTS = "/api/v1/namespaces/{}/events"
REPAIR = {"key": "example.com/repair", "effect": "NoExecute"}
HOST = "kubernetes.io/hostname"

Outcome = Any


async def taint_with_patience(stage: Stage) -> Outcome:
    await stage.add_node("n1")
    toleration = {"key": "example.com/repair", "operator": "Exists", "effect": "NoExecute"}
    for name, tolerations in (
        ("never", [toleration]),
        ("soon", [{**toleration, "tolerationSeconds": 3}]),
        ("now", None),
        ("twice", [{**toleration, "tolerationSeconds": 3}, {**toleration, "tolerationSeconds": 1}]),
    ):
        await stage.make(PODS, a_pod(name, tolerations=tolerations))
    await stage.until(lambda: all_ready(stage, 4))
    stage.dead.add("n1")
    await stage.taint("n1", REPAIR)
    seen = []
    for seconds in (1.5, 3.0):
        await stage.rest(seconds)
        pods = await stage.pods()
        seen.append({name: bool(pod.metadata.deletion_timestamp) for name, pod in pods.items()})
    why = picked(says((await stage.pods())["soon"], "DisruptionTarget"), "status", "reason", "message")
    return seen, why, says((await stage.pods())["never"], "DisruptionTarget")


async def out_of_service(stage: Stage) -> Outcome:
    """Collection takes pods from the node that is not ready, and leaves those on the one that says it is."""
    for name in ("lost", "liar", "spare"):
        await stage.add_node(name)
    for node in ("lost", "liar"):
        await stage.make(PODS, a_pod(f"on-{node}", nodeSelector={HOST: node}))
    await stage.until(lambda: all_ready(stage, 2))
    stage.dead |= {"lost", "liar"}
    await stage.set_ready("lost", "False")
    await stage.taint("lost", OUT_OF_SERVICE)
    await stage.taint("liar", OUT_OF_SERVICE)

    async def collected() -> bool:
        return "on-lost" not in await stage.pods()

    await stage.until(collected, within=30)
    await stage.rest(0.5)
    (left,) = (await stage.pods()).values()
    return left.name, bool(left.metadata.deletion_timestamp), says(left, "DisruptionTarget")["reason"]


async def attached(stage: Stage) -> list[tuple[str, str, Any, bool | None]]:
    return sorted(
        (a.name, (a.spec or {})["nodeName"], (a.spec or {})["source"], (a.status or {}).get("attached"))
        for a in await stage.all(ATTACHMENTS)
    )


async def is_attached_to(stage: Stage, *nodes: str) -> bool:
    return [row[1] for row in await attached(stage)] == list(nodes)


async def messages(stage: Stage, reason: str) -> list[str]:
    answer = await stage.client.ask(Request(method="GET", path=EVENTS.format(stage.namespace)))
    return [event["message"] for event in msgspec.json.decode(answer)["items"] if event["reason"] == reason]


async def a_disk(stage: Stage, name: str) -> None:
    """And a claim `disk` for it. A volume that is new to the real binder would be found only after 15 s."""
    await stage.make(VOLUMES, a_volume(name, storage_class="by-hand"))

    async def is_known() -> bool:
        return ((await stage.get(VOLUMES, name)).status or {}).get("phase") == "Available"

    await stage.until(is_known)
    await stage.make(CLAIMS, a_claim("disk", "by-hand"))


async def moving_disk(stage: Stage) -> Outcome:
    """A second pod on another node waits for the disk, is told so, and gets it when the first is gone."""
    for name in ("n1", "n2"):
        await stage.add_node(name)
    await a_disk(stage, "moving")
    await stage.make(PODS, a_pod("old", claim="disk", nodeSelector={HOST: "n1"}))
    await stage.until(lambda: all_ready(stage, 1))
    first = await attached(stage)
    told = (await stage.get(NODES, "n1")).status or {}
    await stage.make(PODS, a_pod("new", claim="disk", nodeSelector={HOST: "n2"}))

    async def warned() -> bool:
        return bool(await messages(stage, "FailedAttachVolume"))

    await stage.until(warned)
    (warning,) = await messages(stage, "FailedAttachVolume")
    meanwhile = await attached(stage)
    await stage.delete(PODS, "old")
    await stage.until(lambda: all_ready(stage, 1))
    await stage.rest(0.5)
    left = [picked((await stage.get(NODES, name)).status, "volumesAttached", "volumesInUse") for name in ("n1", "n2")]
    return first, told["volumesAttached"], warning, meanwhile, await attached(stage), left


async def lost_disk(stage: Stage) -> Outcome:
    """Without its node's word a disk stays where it is; out of service sets it free as soon as its pod is gone."""
    await stage.add_node("n1")
    await a_disk(stage, "lost")
    await stage.make(PODS, a_pod("p", claim="disk"))
    await stage.until(lambda: all_ready(stage, 1))
    await stage.rest(0.5)
    stage.dead.add("n1")
    await stage.set_ready("n1", "Unknown")
    await stage.delete(PODS, "p")
    await stage.rest(1)
    while_terminating = await is_attached_to(stage, "n1")
    await stage.delete(PODS, "p", grace_seconds=0)
    await stage.rest(2)
    without_pod = await is_attached_to(stage, "n1")
    await stage.taint("n1", OUT_OF_SERVICE)
    await stage.until(lambda: is_attached_to(stage))
    return while_terminating, without_pod


async def failed_pod_with_disk(stage: Stage) -> Outcome:
    """Out of service alone does not free a disk whose pod still has an object; marked Failed, the pod wants it no more."""
    await stage.add_node("n1")
    await a_disk(stage, "failed")
    await stage.make(PODS, a_pod("p", claim="disk", tolerations=[{"operator": "Exists"}]))
    await stage.until(lambda: all_ready(stage, 1))
    await stage.rest(0.5)
    stage.dead.add("n1")
    await stage.set_ready("n1", "Unknown")
    await stage.taint("n1", OUT_OF_SERVICE)
    await stage.rest(1)
    before = await is_attached_to(stage, "n1")
    await stage.change(PODS, "p", {"status": {"phase": "Failed"}}, "status")
    await stage.until(lambda: is_attached_to(stage))
    return before, list(await stage.pods())


async def first_consumer(stage: Stage) -> Outcome:
    """A StatefulSet's claim is bound after its pod is placed in thought, and before it is placed in deed."""
    for name in ("n1", "n2"):
        await stage.add_node(name)
    await stage.make(CLASSES, a_class())
    stage.slow_driver = True
    await stage.make(STATEFUL_SETS, a_stateful_set_with_disks("db", 1))
    asked = "volume.kubernetes.io/storage-provisioner"

    async def is_asked_for() -> bool:
        return any(asked in claim.annotations for claim in await stage.all(CLAIMS))

    await stage.until(is_asked_for)
    claim = await stage.get(CLAIMS, "data-db-0")
    waiting = sorted(claim.annotations), claim.labels, node_of((await stage.pods())["db-0"])
    stage.slow_driver = False
    await stage.until(lambda: all_ready(stage, 1))
    claim = await stage.get(CLAIMS, "data-db-0")
    volume = await stage.get(VOLUMES, (claim.spec or {})["volumeName"])
    placed = node_of((await stage.pods())["db-0"]) == claim.annotations["volume.kubernetes.io/selected-node"]
    phases = (claim.status or {})["phase"], (volume.status or {})["phase"]
    return waiting, placed, phases, sorted(claim.annotations), picked(claim.status, "accessModes", "capacity")


async def unschedulable(stage: Stage) -> Outcome:
    await stage.add_node("n1", most_pods=1)
    await stage.make(PODS, a_pod("first"))
    await stage.until(lambda: all_ready(stage, 1))
    await stage.make(PODS, a_pod("second"))
    await stage.make(PODS, a_pod("elsewhere", nodeSelector={HOST: "nowhere"}))
    await stage.make(PODS, a_pod("homeless", claim="none"))

    async def all_judged() -> bool:
        return all(says(pod, "PodScheduled") for pod in (await stage.pods()).values())

    await stage.until(all_judged)
    pods = await stage.pods()
    why = {name: picked(says(pods[name], "PodScheduled"), "status", "reason") for name in pods}
    message = says(pods["second"], "PodScheduled")["message"].partition(". ")[0].rstrip(".")
    await stage.delete(PODS, "first")
    await stage.until(lambda: _placed(stage, "second"))
    return why, message


async def _placed(stage: Stage, name: str) -> bool:
    return bool(node_of((await stage.pods())[name]))


async def keeping_apart(stage: Stage) -> Outcome:
    for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b")):
        await stage.add_node(name, zone=zone)
    term = {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "db"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    await stage.make(DEPLOYMENTS, a_workload("db", 3, spec=a_pod_spec(affinity=affinity)))

    async def two_are_placed() -> bool:
        return sum(bool(node_of(pod)) for pod in await stage.all(PODS)) == 2

    await stage.until(two_are_placed)
    await stage.rest(0.5)
    zones = {"": "", "n1": "a", "n2": "a", "n3": "b"}
    return Counter(zones[node_of(pod)] for pod in await stage.all(PODS))

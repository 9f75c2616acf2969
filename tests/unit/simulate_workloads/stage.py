"""A stage for little stories about workloads: nodes, kubelets and a storage driver, all played by hand.

Everything goes through a client, so a story plays on the embedded server in virtual time and on a real control plane.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from defib.kube.client import Client, Deletion, Merge, Scope
from defib.kube.errors import AlreadyExists, Conflict, NotFound
from defib.kube.kinds import Kind, unstructured
from defib.model.meta import Unstructured

Body = dict[str, Any]

NODES = unstructured("", "v1", "nodes", "Node", namespaced=False)
PODS = unstructured("", "v1", "pods", "Pod", namespaced=True)
EVENTS = unstructured("", "v1", "events", "Event", namespaced=True)
CLAIMS = unstructured("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True)
VOLUMES = unstructured("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
DEPLOYMENTS = unstructured("apps", "v1", "deployments", "Deployment", namespaced=True)
REPLICA_SETS = unstructured("apps", "v1", "replicasets", "ReplicaSet", namespaced=True)
STATEFUL_SETS = unstructured("apps", "v1", "statefulsets", "StatefulSet", namespaced=True)
DAEMON_SETS = unstructured("apps", "v1", "daemonsets", "DaemonSet", namespaced=True)
JOBS = unstructured("batch", "v1", "jobs", "Job", namespaced=True)
ATTACHMENTS = unstructured("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False)
CLASSES = unstructured("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)

DRIVER = "disks.example.com"
FINALIZER = "external-attacher/disks-example-com"
OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
STEP_SECONDS = 0.1


def ready(pod: Unstructured) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in (pod.status or {}).get("conditions") or ())


def node_of(pod: Unstructured) -> str:
    return str((pod.spec or {}).get("nodeName", ""))


def says(pod: Unstructured, kind: str) -> Body:
    """One condition of an object; empty when it has none of that kind."""
    return next((c for c in (pod.status or {}).get("conditions") or () if c["type"] == kind), {})


class Stage:
    """`dead` nodes do nothing any more: no pod starts there, and none is confirmed as gone."""

    def __init__(self, client: Client, namespace: str = "default") -> None:
        self.client = client
        self.namespace = namespace
        self.dead: set[str] = set()
        self.slow_driver = False  # while set, no volume is attached, detached or made

    async def make(self, kind: Kind[Unstructured], body: Body) -> Unstructured:
        return await self.client.create(kind, body, namespace=self.namespace if kind.namespaced else "")

    async def get(self, kind: Kind[Unstructured], name: str) -> Unstructured:
        return await self.client.get(kind.at(name, self.namespace if kind.namespaced else ""))

    async def all(self, kind: Kind[Unstructured]) -> list[Unstructured]:
        scope = Scope(namespace=self.namespace) if kind.namespaced else Scope()
        return list((await self.client.list_all(kind, scope)).items)

    async def change(self, kind: Kind[Unstructured], name: str, body: Body, subresource: str = "") -> None:
        ref = kind.at(name, self.namespace if kind.namespaced else "")
        await self.client.patch(ref, Merge(body), subresource=subresource)

    async def delete(self, kind: Kind[Unstructured], name: str, grace_seconds: int | None = None) -> None:
        found = await self.get(kind, name)
        await self.client.delete(kind.of(found), Deletion(uid=found.uid, grace_seconds=grace_seconds))

    async def pods(self) -> dict[str, Unstructured]:
        return {pod.name: pod for pod in await self.all(PODS)}

    async def add_node(self, name: str, *, zone: str = "a", most_pods: int = 110) -> None:
        body = {
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone},
                "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
            },
            "status": {
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
                "allocatable": {"pods": str(most_pods), "cpu": "8", "memory": "32Gi"},
                "capacity": {"pods": str(most_pods), "cpu": "8", "memory": "32Gi"},
            },
        }
        await self.make(NODES, body)

    async def set_ready(self, node: str, status: str) -> None:
        said = [{"type": "Ready", "status": status, "reason": "PlayedByHand"}]
        await self.change(NODES, node, {"status": {"conditions": said}}, "status")

    async def taint(self, node: str, *taints: Body) -> None:
        await self.change(NODES, node, {"spec": {"taints": list(taints) or None}})

    async def lose_node(self, node: str) -> None:
        """Its power fails, and the lifecycle controller has noticed."""
        self.dead.add(node)
        await self.set_ready(node, "Unknown")

    async def until(self, question: Callable[[], Awaitable[bool]], *, within: float = 20.0) -> None:
        """Plays on until something is true. In virtual time this costs nothing but its steps."""
        async with asyncio.timeout(within):
            while True:
                await self.play()
                if await question():
                    return
                await asyncio.sleep(STEP_SECONDS)

    async def rest(self, seconds: float = 2.0) -> None:
        """Plays on for a while."""
        for _ in range(round(seconds / STEP_SECONDS)):
            await self.play()
            await asyncio.sleep(STEP_SECONDS)

    async def play(self) -> None:
        """One look of every kubelet and of the storage driver at what they have to do."""
        nodes = {node.name: node for node in await self.client_list(NODES)}
        for pod in await self.all(PODS):
            node = nodes.get(node_of(pod))
            if node and node.name not in self.dead:
                # Somebody else may have been faster; the next look will tell.
                with suppress(NotFound, Conflict):
                    await self._kubelet(node, pod)
        for node in nodes.values():
            if node.name not in self.dead:
                await self._report_volumes(node)
        if not self.slow_driver:
            await self._attacher()
            await self._provisioner()

    async def client_list(self, kind: Kind[Unstructured]) -> list[Unstructured]:
        return list((await self.client.list_all(kind)).items)

    async def _kubelet(self, node: Unstructured, pod: Unstructured) -> None:
        if pod.metadata.deletion_timestamp:
            await self.client.delete(PODS.of(pod), Deletion(uid=pod.uid, grace_seconds=0))
            return
        attached = {volume["name"] for volume in (node.status or {}).get("volumesAttached") or ()}
        if (pod.status or {}).get("phase") == "Pending" and await self._volumes_of(pod) <= attached:
            running = {"name": "app", "ready": True, "restartCount": 0, "image": "app:1", "imageID": "app:1"}
            running["state"] = {"running": {"startedAt": "2030-01-01T00:00:00Z"}}
            status = {
                "phase": "Running",
                "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
                "containerStatuses": [running],
            }
            await self.client.patch(PODS.of(pod), Merge({"status": status}), subresource="status")

    async def _volumes_of(self, pod: Unstructured) -> set[str]:
        """As nodes name them."""
        claims = [v["persistentVolumeClaim"]["claimName"] for v in (pod.spec or {}).get("volumes") or () if _claims(v)]
        found = set()
        for name in claims:
            claim = await self.get(CLAIMS, name)
            volume = await self.get(VOLUMES, (claim.spec or {})["volumeName"])
            handle = (volume.spec or {})["csi"]["volumeHandle"]
            found.add(f"kubernetes.io/csi/{DRIVER}^{handle}")
        return found

    async def _report_volumes(self, node: Unstructured) -> None:
        here = [pod for pod in await self.all(PODS) if node_of(pod) == node.name]
        used: set[str] = set()
        for pod in here:
            used |= await self._volumes_of(pod)
        if sorted(used) != sorted((node.status or {}).get("volumesInUse") or ()):
            await self.change(NODES, node.name, {"status": {"volumesInUse": sorted(used) or None}}, "status")

    async def _attacher(self) -> None:
        for attachment in await self.client_list(ATTACHMENTS):
            ref = ATTACHMENTS.of(attachment)
            if attachment.metadata.deletion_timestamp:
                await self.client.patch(ref, Merge({"metadata": {"finalizers": None}}))
            elif not (attachment.status or {}).get("attached"):
                await self.client.patch(ref, Merge({"metadata": {"finalizers": [FINALIZER]}}))
                await self.client.patch(ref, Merge({"status": {"attached": True}}), subresource="status")

    async def _provisioner(self) -> None:
        for claim in await self.all(CLAIMS):
            asked = claim.annotations.get("volume.kubernetes.io/storage-provisioner") == DRIVER
            if asked and not (claim.spec or {}).get("volumeName"):
                with suppress(AlreadyExists):
                    await self.make(VOLUMES, a_volume(f"pvc-{claim.uid}", storage_class="disks", claim=claim))


def _claims(volume: Body) -> bool:
    return "persistentVolumeClaim" in volume


def a_pod_spec(*, claim: str = "", tolerations: list[Body] | None = None, **more: Any) -> Body:
    spec: Body = {"containers": [{"name": "app", "image": "app:1"}], **more}
    if claim:
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    if tolerations:
        spec["tolerations"] = tolerations
    return spec


def a_pod(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> Body:
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": a_pod_spec(**spec)}


def a_workload(name: str, replicas: int | None, *, spec: Body | None = None, **more: Any) -> Body:
    """A Deployment, ReplicaSet, StatefulSet or, without a number, a DaemonSet."""
    template = {"metadata": {"labels": {"app": name}}, "spec": spec or a_pod_spec()}
    whole = {"selector": {"matchLabels": {"app": name}}, "template": template, **more}
    return {"metadata": {"name": name}, "spec": whole if replicas is None else {**whole, "replicas": replicas}}


def a_claim_spec(storage_class: str = "") -> Body:
    asked = {"requests": {"storage": "1Gi"}}
    return {"accessModes": ["ReadWriteOnce"], "resources": asked, "storageClassName": storage_class}


def a_claim(name: str, storage_class: str = "") -> Body:
    return {"metadata": {"name": name}, "spec": a_claim_spec(storage_class)}


def a_stateful_set_with_disks(name: str, replicas: int, **more: Any) -> Body:
    template = {"metadata": {"name": "data"}, "spec": a_claim_spec("disks")}
    return a_workload(name, replicas, serviceName=name, volumeClaimTemplates=[template], **more)


def a_class(name: str = "disks", *, mode: str = "WaitForFirstConsumer") -> Body:
    return {"metadata": {"name": name}, "provisioner": DRIVER, "volumeBindingMode": mode, "reclaimPolicy": "Retain"}


def a_volume(
    name: str,
    *,
    storage_class: str = "",
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    claim: Unstructured | None = None,
) -> Body:
    spec: Body = {
        "capacity": {"storage": "1Gi"},
        "accessModes": list(modes),
        "storageClassName": storage_class,
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": DRIVER, "volumeHandle": f"disk-{name}"},
    }
    if claim:
        reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
        spec["claimRef"] = {**reference, "namespace": claim.namespace, "name": claim.name, "uid": claim.uid}
    return {"metadata": {"name": name}, "spec": spec}

"""What hollow nodes and hollow storage read from the API server: as much of each kind as they need."""

from typing import Any

from defib.kube.kinds import Kind, unstructured
from defib.model.meta import Meta, Resource, Wire

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"


class PodMeta(Meta, frozen=True):
    deletion_grace_period_seconds: int | None = None


class Container(Wire, frozen=True):
    name: str = ""
    image: str = ""
    lifecycle: dict[str, Any] | None = None


class ClaimSource(Wire, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class PodVolume(Wire, frozen=True):
    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: dict[str, Any] | None = None


class PodSpec(Wire, frozen=True):
    node_name: str = ""
    restart_policy: str = "Always"
    termination_grace_period_seconds: int = 30
    host_network: bool = False
    volumes: list[PodVolume] | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None


class Pod(Resource, frozen=True):
    """The status stays as it came: whoever writes a part of it must know the rest."""

    metadata: PodMeta = PodMeta()
    spec: PodSpec = PodSpec()
    status: dict[str, Any] | None = None

    @property
    def phase(self) -> str:
        return str((self.status or {}).get("phase", ""))

    @property
    def is_finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_deleted(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def is_mirror(self) -> bool:
        """It stands for a pod that the kubelet runs on its own; deleting it stops nothing."""
        return MIRROR_ANNOTATION in self.annotations

    def claims(self) -> list[ClaimSource]:
        found = []
        for volume in self.spec.volumes or ():
            if volume.persistent_volume_claim:
                found.append(volume.persistent_volume_claim)
            elif volume.ephemeral is not None:
                found.append(ClaimSource(claim_name=f"{self.name}-{volume.name}"))
        return found


class AttachedVolume(Wire, frozen=True):
    name: str = ""


class NodeStatus(Wire, frozen=True):
    conditions: list[dict[str, Any]] | None = None
    volumes_attached: list[AttachedVolume] | None = None
    volumes_in_use: list[str] | None = None


class KnownNode(Resource, frozen=True):
    """A node as its own kubelet reads it back."""

    status: NodeStatus = NodeStatus()

    @property
    def conditions(self) -> dict[str, dict[str, Any]]:
        return {condition["type"]: condition for condition in self.status.conditions or ()}


class ClaimSpec(Wire, frozen=True):
    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: list[str] | None = None
    volume_mode: str | None = None
    resources: dict[str, Any] | None = None


class Claim(Resource, frozen=True):
    spec: ClaimSpec = ClaimSpec()


class CsiSource(Wire, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class VolumeSpec(Wire, frozen=True):
    access_modes: list[str] | None = None
    persistent_volume_reclaim_policy: str = "Retain"
    csi: CsiSource | None = None


class VolumeStatus(Wire, frozen=True):
    phase: str = ""


class Volume(Resource, frozen=True):
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()

    @property
    def mode(self) -> str:
        """The widest access that it gives decides what harms it."""
        modes = self.spec.access_modes or ["ReadWriteOnce"]
        return "ReadWriteMany" if "ReadWriteMany" in modes else modes[0]


class AttachmentSource(Wire, frozen=True):
    persistent_volume_name: str = ""


class AttachmentSpec(Wire, frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class AttachmentStatus(Wire, frozen=True):
    attached: bool = False


class Attachment(Resource, frozen=True):
    spec: AttachmentSpec = AttachmentSpec()
    status: AttachmentStatus = AttachmentStatus()

    @property
    def volume(self) -> str:
        return self.spec.source.persistent_volume_name

    @property
    def is_deleted(self) -> bool:
        return self.metadata.deletion_timestamp is not None


PODS = Kind(version="v1", plural="pods", name="Pod", namespaced=True, type=Pod)
KNOWN_NODES = Kind(version="v1", plural="nodes", name="Node", namespaced=False, type=KnownNode)
CLAIMS = Kind(version="v1", plural="persistentvolumeclaims", name="PersistentVolumeClaim", namespaced=True, type=Claim)
VOLUMES = Kind(version="v1", plural="persistentvolumes", name="PersistentVolume", namespaced=False, type=Volume)
ATTACHMENTS = Kind(
    group="storage.k8s.io",
    version="v1",
    plural="volumeattachments",
    name="VolumeAttachment",
    namespaced=False,
    type=Attachment,
)
CSI_NODES = unstructured("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
CSI_DRIVERS = unstructured("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
STORAGE_CLASSES = unstructured("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)

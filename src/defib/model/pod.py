"""A pod, as far as we look at it: who runs it, what it holds, and whether it is on its way out."""

from typing import Any

from defib.model.meta import OwnerReference, Resource, Wire
from defib.model.node import Taint

MIRROR = "kubernetes.io/config.mirror"
DISRUPTED, FREED_BY_US = "DisruptionTarget", "DeletionByDefib"  # the condition of a pod that is ended, and our reason

# Any number of copies of a pod may have these at once. Whatever is not among them may belong to one pod alone.
_SHARED_BY_COPIES = frozenset(
    {"configMap", "secret", "projected", "downwardAPI", "emptyDir", "hostPath", "image", "csi"}
)


class Toleration(Wire, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class PodSpec(Wire, frozen=True):
    node_name: str = ""
    volumes: list[dict[str, Any]] | None = None
    priority: int = 0
    tolerations: list[Toleration] | None = None
    termination_grace_period_seconds: int | None = None


class PodStatus(Wire, frozen=True):
    phase: str = ""
    conditions: list[dict[str, Any]] | None = None


class Pod(Resource, frozen=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def controller(self) -> OwnerReference | None:
        return next((owner for owner in self.metadata.owner_references or () if owner.controller), None)

    @property
    def is_bare(self) -> bool:
        """Nobody would make another one."""
        return self.controller is None and not self.is_mirror

    @property
    def is_of_daemon_set(self) -> bool:
        """It belongs to its node, and is never put elsewhere."""
        return self.controller is not None and self.controller.kind == "DaemonSet"

    @property
    def is_leaving(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def is_forced(self) -> bool:
        """It was deleted without asking its kubelet. If it is still there, a finalizer holds it, and not its node."""
        return self.is_leaving and self.metadata.deletion_grace_period_seconds == 0

    @property
    def ends_at_once(self) -> bool:
        """An ordinary deletion takes it away without asking its kubelet, as a forced one does."""
        return self.spec.termination_grace_period_seconds == 0

    @property
    def is_finished(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def is_freed_by_us(self) -> bool:
        """Marked as ended because its machine is down; it is deleted right after."""
        conditions = self.status.conditions or ()
        return any((one.get("type"), one.get("reason")) == (DISRUPTED, FREED_BY_US) for one in conditions)

    @property
    def is_mirror(self) -> bool:
        """It stands for a pod that the kubelet runs on its own; deleting it stops nothing."""
        return MIRROR in self.annotations

    def tolerates(self, taint: Taint) -> bool:
        """Whether it stays for ever on a node with this taint."""
        return any(
            one.toleration_seconds is None
            and one.effect in ("", taint.effect)
            and (
                one.key in ("", taint.key)
                if one.operator == "Exists"
                else (one.key, one.value) == (taint.key, taint.value)
            )
            for one in self.spec.tolerations or ()
        )

    @property
    def claims(self) -> tuple[str, ...]:
        """The names of the PersistentVolumeClaims that it uses; of its own namespace."""
        sources = (volume.get("persistentVolumeClaim") for volume in self.spec.volumes or ())
        return tuple(str(source.get("claimName", "")) for source in sources if isinstance(source, dict))

    @property
    def holds_data_itself(self) -> bool:
        """Whether a second copy of it could reach for the same data, other than by a claim."""
        sources = {source for volume in self.spec.volumes or () for source in volume if source != "name"}
        return not sources <= _SHARED_BY_COPIES | {"persistentVolumeClaim"}


def pods_on(node: str) -> str:
    """What the pods of one node are called, where they are followed node by node. No kind has a space in its name."""
    return f"{PODS_ON}{node}"


PODS_ON = "pods on "

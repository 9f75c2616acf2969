"""A node and its heartbeat, as far as we look at them."""

from datetime import datetime

import msgspec

from defib.model.meta import Resource, Wire
from defib.model.moment import read_moment

ZONE_LABEL = "topology.kubernetes.io/zone"


class Condition(Wire, frozen=True):
    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class Taint(Wire, frozen=True):
    key: str
    effect: str = ""
    value: str = ""
    time_added: datetime | None = None


OUT_OF_SERVICE = (
    "node.kubernetes.io/out-of-service"  # nothing runs there: pods and volumes may be taken from it at once
)
OUT_OF_SERVICE_TAINT = Taint(key=OUT_OF_SERVICE, value="nodeshutdown", effect="NoExecute")
# On a node: which of its taints is ours, by the moment at which we added it. The taint itself has no place for a name.
TAINTED_BY_US = "defib.dev/out-of-service-since"

_HARSH = ("NoSchedule", "NoExecute")
NOT_READY_TAINTS = (
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/not-ready",
)  # Kubernetes sets and removes them


class NodeSpec(Wire, frozen=True):
    unschedulable: bool = False
    taints: list[Taint] | None = None
    provider_id: str = msgspec.field(default="", name="providerID")


class NodeInfo(Wire, frozen=True):
    boot_id: str = msgspec.field(default="", name="bootID")
    kubelet_version: str = ""
    kernel_version: str = ""
    os_image: str = ""


class NodeStatus(Wire, frozen=True):
    conditions: list[Condition] | None = None
    node_info: NodeInfo = NodeInfo()


class Node(Resource, frozen=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    def condition(self, kind: str) -> Condition | None:
        return next((c for c in self.status.conditions or () if c.type == kind), None)

    @property
    def ready(self) -> str:
        """`True`, `False` or `Unknown`, as the Ready condition says; a node without one is Unknown."""
        condition = self.condition("Ready")
        return condition.status if condition else "Unknown"

    def taints_among(self, keys: tuple[str, ...]) -> tuple[Taint, ...]:
        """Those that keep pods away or drive them out, with one of these keys; "*" is any but those of a failed node."""
        harsh = (one for one in self.spec.taints or () if one.effect in _HARSH)
        return tuple(one for one in harsh if one.key in keys or ("*" in keys and one.key not in NOT_READY_TAINTS))

    @property
    def our_taint(self) -> Taint | None:
        """The out-of-service taint that we set. One that was set by somebody else, or instead of ours, is not."""
        since = read_moment(self.annotations.get(TAINTED_BY_US, ""))
        taints = (one for one in self.spec.taints or () if one.key == OUT_OF_SERVICE)
        return next((one for one in taints if since is not None and one.time_added == since), None)

    @property
    def zone(self) -> str:
        return self.labels.get(ZONE_LABEL, "")


class LeaseSpec(Wire, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int | None = None


class Lease(Resource, frozen=True):
    """A heartbeat (in kube-node-lease), a lock on a node, or who leads."""

    spec: LeaseSpec = LeaseSpec()

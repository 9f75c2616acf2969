"""A cluster in which somebody has left something, seen again and again: sentences for tests of what is taken away."""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from defib.decide.leftovers import NOTHING, Leftovers, plan_leftovers
from defib.decide.plan import Plan, decide
from defib.decide.rules import Rules
from defib.model import medik8s, pod_failover, power_cycle, self_fencing
from defib.model.cluster import Blindness, Cluster, Served
from defib.model.health_check import KindRef, NodeHealthCheck
from defib.model.incident import INCIDENTS, IncidentSpec, IncidentStatus, NodeIncident, Phase
from defib.model.leftover import BY_US, MANAGED_BY, MembersSeen
from defib.model.meta import Meta, OwnerReference, Resource, Unstructured
from defib.model.metal3 import HOST, KEPT_OFF_BY, KEPT_OFF_FOR, REBOOT_HARD
from defib.model.node import OUT_OF_SERVICE, TAINTED_BY_US, Lease, LeaseSpec, Node, NodeSpec, Taint
from defib.model.power import PowerPath
from tests.builders import SECOND, T0, a_node

AGE = Rules().leftover_age
STAMP = f"{T0:%Y-%m-%dT%H:%M:%SZ}"
HOST_KEY = "reboot.metal3.io/defib"
COLLECTIONS = {
    HOST: "hosts",
    pod_failover.REMEDIATION: "failovers",
    power_cycle.REMEDIATION: "cycles",
    self_fencing.REMEDIATION: "self-fences",
    self_fencing.TEMPLATE: "self-fence-templates",
}

change = msgspec.structs.replace


def a_tainted_node(name: str = "n1", *, mark: str = STAMP, added: datetime | None = T0, ready: str = "True") -> Node:
    """Without a mark, the taint is somebody else's."""
    taint = Taint(key=OUT_OF_SERVICE, value="nodeshutdown", effect="NoExecute", time_added=added)
    node = a_node(name, ready=ready, annotations={TAINTED_BY_US: mark} if mark else {})
    return change(node, spec=NodeSpec(taints=[Taint(key="example.com/gpu", effect="NoSchedule"), taint]))


def a_host(name: str = "h1", *, mark: str = HOST_KEY, kept_for: str = "") -> Unstructured:
    """Without a mark, somebody else keeps it off; and of those of before nobody knows for whom."""
    marks = {KEPT_OFF_BY: mark, KEPT_OFF_FOR: kept_for}
    annotations = {HOST_KEY: REBOOT_HARD} | {key: text for key, text in marks.items() if text}
    meta = Meta(name=name, namespace="metal", uid=f"uid-{name}", resource_version="3", annotations=annotations)
    return Unstructured(metadata=meta, spec={"online": True}, status={"poweredOn": False})


def a_remediation(
    name: str = "n1", *, owners: tuple[str, ...] = ("uid-gone",), is_leaving: bool = False
) -> Unstructured:
    """Each owner is the UID of a NodeHealthCheck."""
    references = [
        OwnerReference(api_version=medik8s.API_VERSION, kind=medik8s.CHECK_KIND, name="all", uid=uid) for uid in owners
    ]
    meta = Meta(
        name=name,
        namespace="ops",
        uid=f"uid-r-{name}",
        creation_timestamp=T0,
        deletion_timestamp=T0 if is_leaving else None,
        owner_references=references,
    )
    return Unstructured(metadata=meta, spec={})


def a_power_cycle(*, driver: str = "metal3", succeeded: str = "", **annotations: str) -> Unstructured:
    """That the check `uid-a` has made for n1."""
    item = a_remediation("n1", owners=("uid-a",))
    meta = change(item.metadata, annotations=annotations, finalizers=["defib.dev/power-cycle"], generation=1)
    condition = {"type": "Succeeded", "status": succeeded, "reason": "x", "message": "", "observedGeneration": 1}
    status = {"conditions": [condition]} if succeeded else None
    return change(item, metadata=meta, spec={"power": {"driver": driver}}, status=status)


def an_incident(
    node: str = "n1", phase: Phase = Phase.FREEING, *, address: str = "", way: PowerPath | None = None
) -> NodeIncident:
    """The address is that of a host."""
    power = PowerPath(driver="metal3", address=address) if address else way
    return NodeIncident(
        metadata=Meta(name=node, uid=f"uid-i-{node}", creation_timestamp=T0),
        spec=IncidentSpec(node=node),
        status=IncidentStatus(phase=phase, since=T0, power=power),
    )


def a_member(name: str = "defib-member-a", *, version: str = "1", label: str = BY_US, lasts: int = 15) -> Lease:
    meta = Meta(
        name=name, namespace="defib-system", uid=f"uid-{name}", resource_version=version, labels={MANAGED_BY: label}
    )
    return Lease(metadata=meta, spec=LeaseSpec(holder_identity="a", lease_duration_seconds=lasts, renew_time=T0))


class Watch:
    """One replica that looks at the cluster now and then."""

    def __init__(self, *nodes: Node, rules: Rules | None = None) -> None:
        self.rules = rules or Rules()
        self.nodes = {node.name: node for node in nodes}
        self.items: dict[str, dict[str, Resource]] = {name: {} for name in (*COLLECTIONS.values(), INCIDENTS)}
        self.items[medik8s.CHECKS] = {}
        self.members: tuple[Lease, ...] = ()
        self.fields: dict[str, Any] = {}
        self.last: Leftovers = NOTHING

    def put(self, kind: KindRef, *items: Unstructured) -> None:
        self.items[COLLECTIONS[kind]] = {item.key: item for item in items}

    def incidents(self, *incidents: NodeIncident) -> None:
        self.items[INCIDENTS] = {incident.name: incident for incident in incidents}

    def checks(self, *uids: str) -> None:
        metas = [Meta(name=f"c-{uid}", uid=uid) for uid in uids]
        self.items[medik8s.CHECKS] = {meta.name: NodeHealthCheck(metadata=meta) for meta in metas}

    def blind(self, *kinds: str) -> None:
        self.fields["blind"] = tuple(Blindness(kind, T0, "no answer") for kind in kinds)

    def cluster(self, after: timedelta) -> Cluster:
        kinds = {kind: Served(name, namespaced=True) for kind, name in COLLECTIONS.items()}
        seen = MembersSeen(T0 + after, self.members) if self.rules.has_members else None
        usual: dict[str, Any] = {"kinds": kinds, "members": seen, "others": dict(self.items), "nodes": self.nodes}
        return Cluster(now=T0 + after, **(usual | self.fields))

    def look(self, after: timedelta) -> Leftovers:
        cluster = self.cluster(after)
        self.last = plan_leftovers(cluster, self.rules, self._plan(cluster), self.last)
        return self.last

    def collected(self, after: timedelta) -> list[str]:
        """What would be taken away at that moment, by key."""
        return [action.key for action in self.look(after).actions]

    def _plan(self, cluster: Cluster) -> Plan:
        return decide(cluster, self.rules)


def wait(watch: Watch, until: timedelta, step: timedelta = 30 * SECOND) -> list[str]:
    """It looks all the while; what it would take away in the end."""
    found: list[str] = []
    after = timedelta()
    while after <= until:
        found = watch.collected(after)
        after += step
    return found

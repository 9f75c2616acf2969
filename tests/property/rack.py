"""Machines, their nodes and an API server, as small as they can be: what was planned is done to them, and time goes on.

A machine goes on and off a while after it was told to, boots, and sends heartbeats while it runs. Its node is said to
be ready until its heartbeats have been missing for a while, as in a real cluster: what is read of it may be old.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from defib.decide.fencing.case import VOLUME_ATTACHMENT
from defib.decide.fencing.plan import Fencing, plan_fencing
from defib.decide.rules import Rules
from defib.model import medik8s
from defib.model.action import (
    Action,
    DeleteAttachment,
    DeleteNode,
    FreePod,
    HoldLock,
    OpenIncident,
    ReadPower,
    ReleaseLock,
    ReportRemediation,
    RestoreNode,
    SetFinalizers,
    SwitchPower,
    TaintNode,
    Target,
    UntaintNode,
)
from defib.model.cluster import Cluster, Served
from defib.model.failure import Failure
from defib.model.incident import INCIDENT, INCIDENTS, Confirmation, IncidentStatus, NodeIncident, Phase
from defib.model.lock import held_by_another
from defib.model.meta import Meta, Unstructured
from defib.model.node import OUT_OF_SERVICE, OUT_OF_SERVICE_TAINT, Lease, LeaseSpec, Node, NodeSpec
from defib.model.pod import Pod, PodSpec, pods_on
from defib.model.power import MANUAL, UNSEEN, Look, PowerSeen, PowerState, Reading, Sent
from defib.model.power_cycle import REMEDIATION
from defib.model.saved import missing, to_save
from tests.builders import T0, a_node
from tests.property.machine import NEVER, Machine

REMEDIATIONS = "powercycleremediations.defib.dev"
SILENT_AFTER = timedelta(seconds=40)
LOOKS_MAX = 10
TRIED_AGAIN = timedelta(seconds=5)
BLIND = "blind"  # a driver that switches, and cannot read

change = msgspec.structs.replace


class Rack:
    def __init__(self, machines: Iterable[Machine], *, masters: Iterable[str] = (), rules: Rules | None = None) -> None:
        self.now = T0
        self.rules = rules or Rules()
        self.machines = {machine.name: machine for machine in machines}
        role = {"node-role.kubernetes.io/control-plane": ""}
        self.nodes = {
            name: a_node(name, labels=(role if name in masters else {}) | {"rack": "7"}) for name in self.machines
        }
        self.pods = {name: {f"d/p-{name}": _pod(name)} for name in self.machines}
        self.attachments = {f"va-{name}": _attachment(name) for name in self.machines}
        self.remediations: dict[str, Unstructured] = {}
        self.incidents: dict[str, NodeIncident] = {}
        self.locks: dict[str, Lease] = {}
        self.power: dict[str, PowerSeen] = {}
        self.doubts: tuple[str, ...] = ()
        self.brake = False
        self.switched: set[str] = set()
        self.refused: dict[str, datetime] = {}  # what did not work is tried again from then on
        self._version = 0

    def __repr__(self) -> str:
        """For whoever reads which rack broke a property."""
        asked = {name: item.spec for name, item in self.remediations.items()}
        return f"Rack({[*self.machines.values()]}, {asked})"

    # What can be seen

    def look(self) -> Cluster:
        return Cluster(
            now=self.now,
            nodes={name: self._shown(node) for name, node in self.nodes.items()},
            heartbeats={f"kube-node-lease/{name}": _lease(name, one) for name, one in self.machines.items()},
            others={
                REMEDIATIONS: dict(self.remediations),
                INCIDENTS: dict(self.incidents),
                "volumeattachments": dict(self.attachments),
                "configmaps": {},
                **{pods_on(name): dict(pods) for name, pods in self.pods.items()},
            },
            kinds={
                REMEDIATION: Served(REMEDIATIONS, namespaced=True),
                VOLUME_ATTACHMENT: Served("volumeattachments", namespaced=False),
            },
            locks=dict(self.locks),
            doubts=self.doubts,
            power=dict(self.power),
            failures={key: Failure(why="no", times=1, again_in=TRIED_AGAIN) for key in self.refused},
            server=(1, 30),
        )

    def plan(self) -> Fencing:
        return plan_fencing(self.look(), change(self.rules, brake_setting=self.brake))

    def _shown(self, node: Node) -> Node:
        machine = self.machines[node.name]
        ready = "True" if self.now - machine.heartbeat < SILENT_AFTER else "Unknown"
        shown = a_node(node.name, ready=ready, uid=node.uid, boot=f"boot-{machine.boots}", labels=node.labels)
        # A boot ID is told by the kubelet: until it runs, the node says what it said before.
        if not machine.has_started:
            shown = change(shown, status=change(shown.status, node_info=node.status.node_info))
        else:
            self.nodes[node.name] = change(node, status=shown.status)
        return change(shown, spec=node.spec, metadata=change(shown.metadata, resource_version="1"))

    # What time does

    def advance(self, to: datetime) -> None:
        self.now = max(to, self.now)
        for machine in self.machines.values():
            machine.live(self.now)
            if machine.wants_node and machine.name not in self.nodes:
                uid = f"uid-{machine.name}-{machine.boots}-{self._next()}"
                self.nodes[machine.name] = a_node(machine.name, uid=uid, boot=f"boot-{machine.boots}")
            machine.wants_node = False

    def live(self, length: timedelta, watch: Callable[["Rack", Fencing], None]) -> None:
        """The operator wakes when it asked to, and when something happens; what it plans is done at once."""
        end = self.now + length
        while True:
            plan = self.settle(watch)
            moments = [plan.wake_at or NEVER, *self.refused.values()]
            for machine in self.machines.values():
                moments += [machine.next_event, machine.heartbeat + SILENT_AFTER]
            soon = min((moment for moment in moments if moment > self.now), default=NEVER)
            if soon > end:
                self.advance(end)
                return
            self.advance(soon)

    def settle(self, watch: Callable[["Rack", Fencing], None], passes: int = 60) -> Fencing:
        for _ in range(passes):
            plan = self.plan()
            watch(self, plan)
            version = self._version
            for action in plan.actions:
                self.carry_out(action)
            if version == self._version:
                return plan
        raise AssertionError(f"this never settles: {plan.actions}")

    # What others do

    def ask(self, name: str, spec: dict[str, Any], *, node: str = "") -> None:
        """Somebody wants a power cycle."""
        annotations = {medik8s.NODE_NAME: node} if node else {}
        meta = Meta(
            name=name,
            namespace="ops",
            uid=f"pcr-{name}-{self._next()}",
            resource_version=self._next(),
            generation=1,
            annotations=annotations,
        )
        self.remediations[f"ops/{name}"] = Unstructured(
            api_version=REMEDIATION.api_version, kind=REMEDIATION.name, metadata=meta, spec=spec
        )

    def withdraw(self, name: str, *, by_force: bool = False) -> None:
        item = self.remediations.get(f"ops/{name}")
        if item is None:
            return
        if by_force or not item.metadata.finalizers:
            del self.remediations[item.key]
        else:
            self.remediations[item.key] = change(item, metadata=change(item.metadata, deletion_timestamp=self.now))

    def time_out(self, name: str) -> None:
        item = self.remediations.get(f"ops/{name}")
        if item is not None:
            annotations = item.annotations | {medik8s.TIMED_OUT: "now"}
            self.remediations[item.key] = change(item, metadata=change(item.metadata, annotations=annotations))

    def confirm(self, node: str) -> None:
        """A person has switched the machine off, and says so."""
        incident = self.incidents.get(node)
        if incident is not None and incident.is_open:
            self.machines[node].is_on, self.machines[node].pending = False, []
            spec = change(incident.spec, confirmed_off=Confirmation(by="ann", at=self.now))
            meta = change(incident.metadata, resource_version=self._next())
            self.incidents[node] = change(incident, spec=spec, metadata=meta)

    def crash(self) -> None:
        self.power = {}

    # What the executor and the API server do

    def carry_out(self, action: Action) -> None:  # noqa: C901  a case for each
        match action:
            case OpenIncident():
                self._open(action)
            case ReportRemediation():
                self._report(action.target, action.version, action.status)
            case SetFinalizers():
                self._hold_on(action)
            case SwitchPower():
                self._switch(action)
            case ReadPower():
                self._read(action)
            case TaintNode():
                self._taint(action)
            case UntaintNode():
                self._untaint(action)
            case DeleteNode():
                self._delete_node(action)
            case RestoreNode():
                self._restore(action)
            case FreePod():
                self._free(action)
            case DeleteAttachment():
                self._detach(action)
            case HoldLock() | ReleaseLock():
                self._lock(action)

    def _open(self, action: OpenIncident) -> None:
        there = self.incidents.get(action.node)
        if there is not None and (there.is_open or action.instead_of is None or there.uid != action.instead_of.uid):
            return
        body = {**action.body, "metadata": {}, "status": {}}
        meta = Meta(
            name=action.node, uid=f"i-{self._next()}", resource_version=self._next(), creation_timestamp=self.now
        )
        self.incidents[action.node] = change(msgspec.convert(body, NodeIncident), metadata=meta)

    def _report(self, target: Target, version: str, status: dict[str, Any]) -> bool:
        if target.kind == INCIDENT:
            incident = self.incidents.get(target.name)
            if incident is None or (incident.uid, incident.metadata.resource_version) != (target.uid, version):
                return False
            merged = merge(msgspec.to_builtins(incident.status), msgspec.json.decode(msgspec.json.encode(status)))
            meta = change(incident.metadata, resource_version=self._next())
            self.incidents[target.name] = change(
                incident, status=msgspec.convert(merged, IncidentStatus), metadata=meta
            )
            return True
        item = self.remediations.get(f"{target.namespace}/{target.name}")
        if item is None or (item.uid, item.metadata.resource_version) != (target.uid, version):
            return False
        merged = merge(item.status or {}, msgspec.json.decode(msgspec.json.encode(status)))
        meta = change(item.metadata, resource_version=self._next())
        self.remediations[item.key] = change(item, status=merged, metadata=meta)
        return True

    def _hold_on(self, action: SetFinalizers) -> None:
        item = self.remediations.get(f"{action.target.namespace}/{action.target.name}")
        if item is None or (item.uid, item.metadata.resource_version) != (action.target.uid, action.version):
            return
        if item.metadata.deletion_timestamp is not None and not action.finalizers:
            del self.remediations[item.key]
            self._next()
            return
        meta = change(item.metadata, finalizers=list(action.finalizers), resource_version=self._next())
        self.remediations[item.key] = change(item, metadata=meta)

    def _switch(self, action: SwitchPower) -> None:
        machine = self.machines[action.node]
        command = {"power": action.power.value, "at": self.now.isoformat(), "attempt": action.attempt, "token": "t"}
        if self.refused.get(action.key, T0) > self.now:
            return
        if not self._report(action.incident, action.version, {"command": command}):
            return
        if machine.bmc == "refuses" or action.path.driver == MANUAL:
            self.refused[action.key] = self.now + TRIED_AGAIN
            return
        self.refused.pop(action.key, None)
        if action.power is PowerState.OFF:
            self.switched.add(action.node)
        if machine.bmc != "says off":
            machine.told(action.power, self.now)
        self.power[action.incident.uid] = PowerSeen(sent=Sent(action.power, self.now))
        machine.live(self.now)

    def _read(self, action: ReadPower) -> None:
        machine = self.machines[action.node]
        known = self.power.get(action.incident_uid, UNSEEN)
        if known.looks and known.looks[-1].reading.at == self.now:
            return
        is_blind = action.path.driver in (MANUAL, BLIND)
        look = Look(Reading(PowerState.UNKNOWN if is_blind else machine.reads(), self.now), machine.heartbeat)
        looks = (*known.looks, look)[-LOOKS_MAX:]
        self.power[action.incident_uid] = change(known, looks=looks, can_read=not is_blind)
        self._next()

    def _may_destroy(self, target: Target) -> bool:
        incident = self.incidents.get(target.name)
        if incident is None or incident.uid != target.uid or incident.status.phase is not Phase.FREEING:
            return False
        return incident.status.proof is not None

    def _taint(self, action: TaintNode) -> None:
        node = self.nodes.get(action.node)
        if node is not None and node.uid == action.node_uid and self._may_destroy(action.incident):
            taints = [*(node.spec.taints or ()), OUT_OF_SERVICE_TAINT]
            self._put(change(node, spec=NodeSpec(taints=taints)))

    def _untaint(self, action: UntaintNode) -> None:
        node = self.nodes.get(action.node)
        if node is not None and node.uid == action.node_uid:
            kept = [taint for taint in node.spec.taints or () if taint.key != OUT_OF_SERVICE]
            self._put(change(node, spec=NodeSpec(taints=kept or None)))

    def _delete_node(self, action: DeleteNode) -> None:
        node = self.nodes.get(action.node)
        if node is None or node.uid != action.node_uid or not self._may_destroy(action.incident):
            return
        if to_save(node, action.saved) == action.saved:
            del self.nodes[action.node]
            self._next()

    def _restore(self, action: RestoreNode) -> None:
        node = self.nodes.get(action.node)
        if node is not None and node.uid == action.node_uid:
            labels, annotations, taints = missing(node, action.saved)
            meta = change(node.metadata, labels=node.labels | labels, annotations=node.annotations | annotations)
            self._put(change(node, metadata=meta, spec=NodeSpec(taints=[*(node.spec.taints or ()), *taints] or None)))

    def _free(self, action: FreePod) -> None:
        key = f"{action.namespace}/{action.name}"
        if self._may_destroy(action.incident) and key in self.pods[action.node]:
            del self.pods[action.node][key]
            self._next()

    def _detach(self, action: DeleteAttachment) -> None:
        if self._may_destroy(action.incident) and action.name in self.attachments:
            del self.attachments[action.name]
            self._next()

    def _lock(self, action: HoldLock | ReleaseLock) -> None:
        if isinstance(action, ReleaseLock):
            self.locks.pop(f"{action.namespace}/{action.name}", None)
            self._next()
            return
        claim, name = action.claim, medik8s.lock_of(action.claim.node)
        key = f"{self.rules.lock_namespace}/{name}"
        if held_by_another(self.locks.get(key), claim.holder, self.now):
            return
        spec = LeaseSpec(
            holder_identity=claim.holder,
            lease_duration_seconds=int(claim.length.total_seconds()),
            renew_time=self.now,
        )
        meta = Meta(name=name, namespace=self.rules.lock_namespace, uid=f"uid-{name}", resource_version=self._next())
        self.locks[key] = Lease(metadata=meta, spec=spec)

    def _put(self, node: Node) -> None:
        self.nodes[node.name] = node
        self._next()

    def _next(self) -> str:
        self._version += 1
        return str(self._version)


def merge(old: Any, patch: Any) -> Any:
    """As RFC 7386 says."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def _pod(node: str) -> Pod:
    return Pod(metadata=Meta(name=f"p-{node}", namespace="d", uid=f"pod-{node}"), spec=PodSpec(node_name=node))


def _attachment(node: str) -> Unstructured:
    return Unstructured(metadata=Meta(name=f"va-{node}", uid=f"va-{node}"), spec={"nodeName": node})


def _lease(name: str, machine: Machine) -> Lease:
    return Lease(metadata=Meta(name=name, namespace="kube-node-lease"), spec=LeaseSpec(renew_time=machine.heartbeat))

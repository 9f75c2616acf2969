"""A hall of machines for tests of readiness: nodes, templates, checks, and BMCs that answer as they are told."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from defib.decide.fencing.readiness import NOTHING, Readiness, plan_readiness
from defib.decide.plan import NOTHING as NO_PLAN
from defib.decide.plan import Plan, decide
from defib.decide.rules import Rules
from defib.model import medik8s
from defib.model.action import CheckPower, ReportRemediation
from defib.model.cluster import Blindness, Cluster, Served
from defib.model.failure import Failure
from defib.model.health_check import NodeHealthCheck
from defib.model.incident import INCIDENTS, IncidentSpec, IncidentStatus, NodeIncident, Phase
from defib.model.meta import Meta, Unstructured
from defib.model.node import Lease, LeaseSpec, Node
from defib.model.power import FenceCheck, PowerState
from defib.model.power_cycle import REMEDIATION, TEMPLATE
from tests.builders import T0, a_node

PAUSE = timedelta(minutes=10)
POWER = {"driver": "redfish", "address": "https://{node}.bmc", "credentials": {"name": "bmc-{node}"}}
change = msgspec.structs.replace

Bmc = Callable[[CheckPower, datetime], FenceCheck]


def works(action: CheckPower, at: datetime) -> FenceCheck:
    return FenceCheck(action.path, at, "", PowerState.ON)


def refuses(action: CheckPower, at: datetime) -> FenceCheck:
    return FenceCheck(action.path, at, "it does not accept our credentials")


def says_off(action: CheckPower, at: datetime) -> FenceCheck:
    return FenceCheck(action.path, at, "", PowerState.OFF)


def cannot_tell(action: CheckPower, at: datetime) -> FenceCheck:
    return FenceCheck(action.path, at, "", PowerState.UNKNOWN)


class Hall:
    """Nodes, templates, checks, and BMCs that answer as they are told. Each pass carries out what the one before planned."""

    def __init__(self, *names: str, **spec: Any) -> None:
        self.now = T0
        self.nodes: Mapping[str, Node] = {name: a_node(name) for name in names}
        self.templates: Mapping[str, Unstructured] = {}
        self.checks: dict[str, NodeHealthCheck] = {}
        self.incidents: Mapping[str, NodeIncident] = {}
        self.heartbeats: dict[str, Lease] = {}
        self.failures: dict[str, Failure] = {}
        self.blind: tuple[Blindness, ...] = ()
        self.fences: dict[str, FenceCheck] = {}
        self.bmcs: dict[str, Bmc | None] = {}
        self.tries: list[tuple[datetime, str]] = []
        self.reports = 0
        self.most = 0
        self.plan: Plan = NO_PLAN
        self.last: Readiness = NOTHING
        self.put_template("pcr", **spec)
        self.use("pcr")

    def put_template(self, name: str, power: Any = POWER, **spec: Any) -> None:
        old = self.templates.get(f"ns/{name}")
        generation = old.metadata.generation + 1 if old is not None else 1
        meta = Meta(name=name, namespace="ns", uid=f"uid-{name}", generation=generation, resource_version="1")
        item = Unstructured(
            metadata=meta,
            spec={"template": {"spec": {"power": power, **spec}}},
            status=old.status if old is not None else None,
        )
        self.templates = {**self.templates, item.key: item}

    def use(self, *templates: str, check: str = "all", labels: Mapping[str, str] | None = None) -> None:
        kind = {"apiVersion": TEMPLATE.api_version, "kind": TEMPLATE.name}
        steps = [
            {"remediationTemplate": {**kind, "name": name, "namespace": "ns"}, "order": order, "timeout": "5m"}
            for order, name in enumerate(templates)
        ]
        spec = {"selector": {"matchLabels": dict(labels or {})}, "escalatingRemediations": steps}
        meta = Meta(name=check, uid=f"uid-{check}", resource_version="1", generation=1)
        self.checks[check] = NodeHealthCheck(metadata=meta, spec=spec)

    def put_node(self, node: Node) -> None:
        self.nodes = {**self.nodes, node.name: node}

    def put_incident(self, node: str, phase: Phase) -> None:
        status = IncidentStatus(phase=phase)
        self.incidents = {node: NodeIncident(metadata=Meta(name=node), spec=IncidentSpec(node=node), status=status)}

    def beat(self, node: str) -> None:
        lease = Lease(metadata=Meta(name=node, namespace="kube-node-lease"), spec=LeaseSpec(renew_time=self.now))
        self.heartbeats = {**self.heartbeats, lease.key: lease}

    def look(self) -> Cluster:
        return Cluster(
            now=self.now,
            nodes=self.nodes,
            heartbeats=self.heartbeats,
            others={"pcrts": self.templates, medik8s.CHECKS: dict(self.checks), INCIDENTS: self.incidents, "pcrs": {}},
            kinds={TEMPLATE: Served("pcrts", namespaced=True), REMEDIATION: Served("pcrs", namespaced=True)},
            fences=dict(self.fences),
            failures=dict(self.failures),
            blind=self.blind,
        )

    def step(self) -> Readiness:
        for action in self.last.actions:
            self._carry_out(action)
        cluster = self.look()
        self.plan = decide(cluster, Rules(), self.plan)
        self.last = plan_readiness(cluster, Rules(fence_check_pause=PAUSE), self.plan, self.last)
        self.most = max(self.most, len(self.asked))
        return self.last

    def _carry_out(self, action: Any) -> None:
        if isinstance(action, CheckPower):
            answer = self.bmcs.get(action.node, works)
            if answer is not None:
                self.fences[action.node] = answer(action, self.now)
                self.tries.append((self.now, action.node))
        else:
            self.write(action)

    def write(self, action: ReportRemediation) -> None:
        self.reports += 1
        key = f"{action.target.namespace}/{action.target.name}"
        old = self.templates[key]
        assert action.version == old.metadata.resource_version
        merged = {**(old.status or {}), **action.status}
        version = str(int(old.metadata.resource_version) + 1)
        item = change(
            old,
            status={name: value for name, value in merged.items() if value is not None},
            metadata=change(old.metadata, resource_version=version),
        )
        self.templates = {**self.templates, key: item}

    def wait(self, length: timedelta) -> Readiness:
        """Time passes; it wakes when it asked to, and after each thing that was carried out."""
        end = self.now + length
        while True:
            plan = self.step()
            soon = self.now + timedelta(milliseconds=100)
            wake = soon if plan.actions else max(plan.wake_at or end, soon)
            if wake > end:
                self.now = end
                return self.step()
            self.now = wake

    @property
    def asked(self) -> list[str]:
        return [action.node for action in self.last.actions if isinstance(action, CheckPower)]

    def status(self, name: str = "pcr") -> dict[str, Any]:
        return self.templates[f"ns/{name}"].status or {}

    def condition(self, name: str = "pcr") -> tuple[str, str]:
        (said,) = self.status(name)["conditions"]
        return said["status"], said["reason"]

    def not_ready(self, name: str = "pcr") -> dict[str, str]:
        return {one["node"]: one["why"] for one in self.status(name).get("notReady", ())}

    def tried(self, node: str) -> list[datetime]:
        return [at for at, name in self.tries if name == node]


def many(count: int) -> Hall:
    return Hall(*(f"n{number:04}" for number in range(count)))

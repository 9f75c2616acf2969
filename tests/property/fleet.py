"""A cluster of nodes, pods and PodFailoverPolicies to decide about, pass by pass: what is decided is done in part or whole.

Nothing here is asynchronous. Nodes fail and recover, people change their minds, writes are lost, and pods leave only
when a MovePod that finds its node as bad as it was takes them away.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from defib.act.pod_failover import why_it_stays
from defib.decide.failover.plan import NOTHING, Failover, plan_failover
from defib.decide.plan import NOTHING as NO_PLAN
from defib.decide.plan import decide
from defib.decide.rules import FailoverRules, Rules
from defib.model import medik8s
from defib.model.action import Action, MovePod, ReadClaim, ReportRemediation, SetFinalizers
from defib.model.amount import Amount
from defib.model.cluster import Cluster
from defib.model.config_map import ConfigMap
from defib.model.failure import Failure
from defib.model.health_check import NodeHealthCheck
from defib.model.meta import Meta, Unstructured
from defib.model.node import Lease, Node, Taint
from defib.model.pod import Pod, pods_on
from tests.builders import SECOND, T0, a_node
from tests.unit.decide.checks import KINDS as CHECK_KINDS
from tests.unit.decide.checks import a_lock, a_template
from tests.unit.decide.failover.failovers import (
    COLLECTION,
    KINDS,
    LONG_AGO,
    POLICIES,
    RWO,
    RWX,
    as_kubernetes_taints,
    written,
)

NAMES = tuple(f"n{place}" for place in range(7))
GONE = "gone"
TRUE_MODES = {"rwx": RWX, "rwo": RWO, GONE: frozenset[str]()}
TAINT = Taint(key="example.com/maintenance", effect="NoSchedule", time_added=LONG_AGO)
ONE = Amount(1)
UNREADABLE = Failure(why="forbidden", times=1, again_in=SECOND)

change = msgspec.structs.replace


class Fleet:
    def __init__(
        self,
        policies: Iterable[Unstructured],
        pods: Iterable[Pod],
        checks: Iterable[NodeHealthCheck] = (),
        remediations: Iterable[Unstructured] = (),
        most: Amount = ONE,
    ) -> None:
        self.now = T0
        self.most = most
        self.is_on = True
        self.policies = {one.key: one for one in policies}
        self.remediations = {one.key: one for one in remediations}
        self.checks = {one.name: one for one in checks}
        self.nodes = {name: a_node(name, since=LONG_AGO, labels=labels_of(name)) for name in NAMES}
        self.pods = {pod.uid: pod for pod in pods}
        self.before: Failover = NOTHING
        self.underway: list[Action] = []
        self.claims: dict[str, frozenset[str]] = {}
        self.unreadable = False
        self.brake = False
        self.doubts: tuple[str, ...] = ()
        self.locks: dict[str, Lease] = {}
        self.asked: set[str] = set()
        self._version = 100

    def __repr__(self) -> str:
        """For whoever reads which fleet broke a property."""
        policies = {key: one.spec for key, one in self.policies.items()}
        pods = {pod.name: (pod.spec.node_name, pod.labels, pod.claims) for pod in self.pods.values()}
        return f"Fleet({policies=}, {pods=}, checks={[one.spec for one in self.checks.values()]}, most={self.most})"

    # Looking and deciding

    @property
    def rules(self) -> Rules:
        return Rules(failover=FailoverRules(max_unhealthy=self.most, serves_policies=self.is_on))

    def look(self, *, seen: Iterable[str] | None = None) -> Cluster:
        """The pods of `seen` are in sight; by default, of those that the last plan has asked for."""
        shelves = {pods_on(name): self.pods_of(name) for name in (self.before.nodes if seen is None else seen)}
        brake = {"defib-system/defib-brake": ConfigMap(metadata=Meta(name="defib-brake"), data={})}
        templates = {item.key: item for item in (a_template("foo"),)}
        others: dict[str, Mapping[str, Any]] = {
            POLICIES: dict(self.policies),
            COLLECTION: dict(self.remediations),
            "configmaps": brake if self.brake else {},
            medik8s.CHECKS: dict(self.checks),
            "foos": {},
            "footemplates": templates,
            **shelves,
        }
        return Cluster(
            now=self.now,
            nodes=dict(self.nodes),
            others=others,
            kinds={**CHECK_KINDS, **KINDS},
            doubts=self.doubts,
            locks=dict(self.locks),
            underway=tuple(self.underway),
            claims=dict(self.claims),
            failures=dict.fromkeys(self.asked, UNREADABLE),
        )

    def pods_of(self, node: str) -> dict[str, Pod]:
        return {pod.key: pod for pod in self.pods.values() if pod.spec.node_name == node}

    def plan(self, cluster: Cluster, before: Failover = NOTHING) -> Failover:
        return plan_failover(cluster, self.rules, decide(cluster, self.rules, NO_PLAN).checks, before)

    def decide(self) -> tuple[Cluster, Failover]:
        cluster = self.look()
        self.before = self.plan(cluster, self.before)
        asked = {action.key for action in self.before.actions if isinstance(action, ReadClaim)}
        self.asked &= asked  # what is no longer wanted is forgotten
        return cluster, self.before

    def forget(self) -> None:
        """Another replica goes on. Whatever was under way has been done, or never will be."""
        self.before, self.underway, self.claims, self.asked = NOTHING, [], {}, set()

    # What we do

    def carry_out(self, action: Action) -> None:
        match action:
            case MovePod():
                self._move(action)
            case ReadClaim() if self.unreadable or action.name == GONE:
                self.asked.add(action.key)
            case ReadClaim():
                self.asked.discard(action.key)
                self.claims[f"{action.namespace}/{action.name}"] = TRUE_MODES[action.name]
            case ReportRemediation() | SetFinalizers():
                for shelf in (self.policies, self.remediations):
                    self._write(shelf, action)

    def _write(self, shelf: dict[str, Unstructured], action: ReportRemediation | SetFinalizers) -> None:
        """Only the version that was judged; anything else is stale."""
        for key, item in shelf.items():
            if (item.uid, item.metadata.resource_version) == (action.target.uid, action.version):
                shelf[key] = self.newer(written(item, action))

    def newer(self, item: Unstructured, **meta: Any) -> Unstructured:
        self._version += 1
        return change(item, metadata=change(item.metadata, resource_version=str(self._version), **meta))

    def _move(self, action: MovePod) -> None:
        pod = self.pods.get(action.uid)
        node = self.nodes.get(action.node)
        if pod is None or why_it_stays(node, action):
            return
        assert node is not None
        own = 30 if pod.spec.termination_grace_period_seconds is None else pod.spec.termination_grace_period_seconds
        grace = own if action.grace_seconds is None else action.grace_seconds
        if pod.metadata.finalizers or (grace and node.ready != "True"):
            meta = change(pod.metadata, deletion_timestamp=self.now, deletion_grace_period_seconds=grace)
            self.pods[pod.uid] = change(pod, metadata=meta)
        else:
            del self.pods[pod.uid]

    # What others do

    def turn(self, name: str, ready: str, since: datetime | None = None) -> None:
        old = self.nodes[name]
        taints = old.spec.taints
        node = a_node(name, ready=ready, since=since or self.now, uid=old.uid, labels=old.labels)
        self.nodes[name] = as_kubernetes_taints(change(node, spec=change(node.spec, taints=taints)))

    def replace(self, name: str) -> None:
        node = a_node(name, ready="Unknown", since=self.now, uid=f"{name} at {self.now}", labels=labels_of(name))
        self.nodes[name] = as_kubernetes_taints(node)

    def taint(self, name: str, *taints: Taint) -> None:
        node = self.nodes[name]
        self.nodes[name] = as_kubernetes_taints(change(node, spec=change(node.spec, taints=list(taints))))

    def label(self, name: str, labels: Mapping[str, str]) -> None:
        node = self.nodes[name]
        self.nodes[name] = change(node, metadata=change(node.metadata, labels=dict(labels)))

    def lock(self, name: str) -> None:
        lease = a_lock(name, "node-maintenance", renewed=self.now, seconds=600)
        self.locks[lease.key] = lease

    def edit(self, key: str, spec: Any) -> None:
        item = self.newer(self.policies[key])
        self.policies[key] = change(
            item, spec=spec, metadata=change(item.metadata, generation=item.metadata.generation + 1)
        )

    def put(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod

    def calm(self) -> None:
        """All that could hold anything back ceases."""
        self.brake, self.doubts, self.locks, self.unreadable = False, (), {}, False
        self.asked = set()
        for name in NAMES:
            self.label(name, labels_of(name))
        if not self.is_on:
            self.forget()
            self.is_on = True

    def heal(self) -> None:
        """The same, and what was under way is done."""
        for action in self.underway:
            self.carry_out(action)
        self.underway = []
        self.calm()

    def settle(self, passes: int) -> None:
        """So many passes, of which everything is done."""
        for _ in range(passes):
            _, plan = self.decide()
            for action in plan.actions:
                self.carry_out(action)
            self.now += timedelta(seconds=1)


def labels_of(name: str) -> dict[str, str]:
    return {"pool": "a" if name < "n2" else "b"}


def is_out(node: Node, touched: MovePod) -> bool:
    """Whether it is the same node, and has not been well since. A taint counts if pods were to leave because of it."""
    return node.uid == touched.node_uid and (node.ready != "True" or bool(node.taints_among(touched.taints)))

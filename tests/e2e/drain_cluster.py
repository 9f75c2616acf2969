"""A real control plane with Defib installed as its manifests say, and nodes that are drained, each by a policy of its own.

Who has to leave such a node finds a place on one that nobody drains: the others are tainted, so that nobody comes there
who was not sent. Everything that the operator asks about a pod is read from what the API server wrote
down, with the UID for which it asked.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from defib.clock import SystemClock
from defib.decide.drains.intent import cordoned_at
from defib.hollow.habits import PREFIX
from defib.hollow.node import HollowNode
from defib.hollow.objects import Pod
from defib.hollow.site import Blueprint
from defib.kube.client import Merge
from defib.kube.errors import NotFound
from defib.kube.kinds import NODES, unstructured
from defib.model import medik8s
from defib.model.node_drain import WATCH_MARK, DrainStatus, Phase, Rung, read_drain_status
from testbed.programs import Programs
from testbed.settings import Settings
from tests.e2e.audit import Request, audited, requests_of
from tests.e2e.check_cluster import last_words
from tests.e2e.failover_cluster import (
    DEPLOY,
    FILES,
    RIGHTS,
    Body,
    FailoverCluster,
    Team,
    pod_spec,
    pod_template,
)
from tests.e2e.hollow_cluster import SETTINGS, hollow_cluster
from tests.e2e.rights import until_allowed

POLICIES = unstructured("defib.dev", "v1alpha1", "drainpolicies", "DrainPolicy", namespaced=False)
DRAINS = unstructured("defib.dev", "v1alpha1", "nodedrains", "NodeDrain", namespaced=False)
BUDGETS = unstructured("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
AGENT = "agent"
DRILL = "drill"  # label and taint of a node, with its own name as the value
REFUGES = 2  # nodes that nobody drains, the last ones
PATIENCE_SECONDS = 60.0
# Roles come into force a moment after they were written.
DRAIN_RIGHTS = (
    *RIGHTS,
    ("watch", "drainpolicies.defib.dev", ""),
    ("create", "nodedrains.defib.dev", ""),
    ("patch", "pods", "default"),
    ("watch", "poddisruptionbudgets.policy", ""),
    ("watch", "daemonsets.apps", "kube-system"),
    ("create", "podfailoverremediations.defib.dev", "defib-system"),
)
_RUNGS = {None: Rung.DELETE, 1: Rung.KILL, 0: Rung.FORCE}


class Deed(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator asked for about one pod, as the API server received and answered it."""

    rung: Rung
    key: str
    uid: str  # for which it asked: without one, nothing is asked
    code: int
    at: datetime
    ended: datetime

    @property
    def has_worked(self) -> bool:
        return self.code < 300

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S.%f} {self.rung} {self.key} {self.uid}: {self.code}"


def deed_of(request: Request) -> Deed:
    match request.verb, request.what, request.body:
        case "create", "pods/eviction", {"deleteOptions": {"preconditions": {"uid": uid}}}:
            rung = Rung.EVICT
        case "delete", "pods", {"preconditions": {"uid": uid}}:
            rung = _RUNGS[request.body.get("gracePeriodSeconds")]
        case "patch", "pods", [{"op": "test", "path": "/metadata/uid", "value": uid}, *_]:
            rung = Rung.FINALIZERS
        case _:
            raise AssertionError(f"{request} with {request.body}")
    return Deed(rung=rung, key=request.key, uid=uid, code=request.code, at=request.received, ended=request.answered)


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """That somebody held the lock of a node: they had it `since`, and gave it back not before `until`."""

    holder: str
    since: datetime
    until: datetime | None = None

    def has(self, deed: Deed) -> bool:
        return self.since <= deed.at and (self.until is None or deed.ended <= self.until)


class DrainCluster(FailoverCluster):
    async def drill(self, name: str, node: str, **spec: Any) -> "Drill":
        """A node, a DrainPolicy for this one, and a team whose pods are there; both have the name."""
        selector = {"matchLabels": {DRILL: node}}
        await self.client.create(POLICIES, {"metadata": {"name": name}, "spec": {"nodeSelector": selector, **spec}})
        return Drill(self, await self.team(name), node)

    async def reserve(self, nodes: Iterable[str]) -> None:
        """For pods that are sent there. DrainPolicies know these nodes by a label."""
        for node in nodes:
            taint = {"key": DRILL, "value": node, "effect": "NoSchedule"}
            patch = Merge({"metadata": {"labels": {DRILL: node}}, "spec": {"taints": [taint]}})
            await self.client.patch(NODES.at(node), patch)

    async def start_agents(self) -> None:
        """A DaemonSet, whose pods are on every node."""
        spec = pod_spec() | {"tolerations": [{"operator": "Exists"}]}
        template = {"metadata": {"labels": {"app": AGENT}}, "spec": spec}
        whole = {"selector": {"matchLabels": {"app": AGENT}}, "template": template}
        await Team(self, "default").make("apps/v1", "DaemonSet", AGENT, spec=whole)

    async def deeds(self) -> list[Deed]:
        """All that it has asked about pods so far, in order."""
        asked = [one for one in await requests_of(self.plane) if one.is_write and one.what.partition("/")[0] == "pods"]
        return sorted(map(deed_of, asked), key=lambda one: one.at)

    async def holds(self, node: str) -> list[Hold]:
        """Who held the lock of the node, one after the other."""
        key = f"{medik8s.LOCK_NAMESPACE}/{medik8s.lock_of(node)}"
        asked = [one for one in await requests_of(self.plane) if one.key == key and one.is_write]
        found: list[Hold] = []
        for one in sorted((one for one in asked if one.has_worked), key=lambda one: one.answered):
            holder = one.body["spec"]["holderIdentity"] if one.verb != "delete" else ""
            if found and found[-1].until is None and found[-1].holder != holder:
                found[-1] = msgspec.structs.replace(found[-1], until=one.received)
            if holder and (not found or found[-1].until is not None):
                found.append(Hold(holder=holder, since=one.answered))
        return found

    async def fail(self, why: str) -> None:
        """With what the records say, what was done, and the end of what the operator said."""
        self.plane.keep()
        drains = (await self.client.list_all(DRAINS)).items
        told = [f"{one.name}: {json.dumps(one.status)}" for one in drains]
        pytest.fail("\n".join([why, *told, *map(str, await self.deeds()), *await last_words(self.plane)]))


class Drill:
    """One node that is to be drained, and who is there."""

    def __init__(self, cluster: DrainCluster, team: Team, node: str) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.team = team
        self.name = team.name
        self.node = node
        self.there: dict[str, Pod] = {}  # by UID, when the drain began

    @property
    def machine(self) -> HollowNode:
        return self.cluster.hollow.nodes[self.node]

    @property
    def _sent(self) -> Body:
        return {"key": DRILL, "value": self.node}

    def template(self, app: str, *, grace: int = 5, habits: Mapping[str, str] | None = None) -> Body:
        """For pods that are here as long as they can be."""
        whole = pod_template(app, node=self.node)
        whole["metadata"]["annotations"] = hollow(habits or {})
        whole["spec"]["terminationGracePeriodSeconds"] = grace
        whole["spec"]["tolerations"] = [self._sent]
        return whole

    async def deploy(self, app: str, replicas: int = 1, **template: Any) -> None:
        await self.team.deploy(app, replicas, self.template(app, **template))

    async def put(self, name: str, team: Team | None = None, **metadata: Any) -> None:
        """A pod without a controller, right here."""
        whole = {"labels": {"app": name}, **metadata}
        spec = pod_spec() | {"nodeName": self.node, "restartPolicy": "Never", "tolerations": [self._sent]}
        await (team or self.team).make("v1", "Pod", name, metadata=whole, spec=spec)

    async def protect(self, app: str, min_available: int) -> None:
        """By a disruption budget, from when the controller manager has counted its pods."""
        spec = {"minAvailable": min_available, "selector": {"matchLabels": {"app": app}}}
        await self.client.create(BUDGETS, {"metadata": {"name": app}, "spec": spec}, namespace=self.name)
        await self.cluster.eventually(f"budget {self.name}/{app} is counted", lambda: self._is_counted(app))

    async def tighten(self, app: str, min_available: int) -> None:
        await self.client.patch(BUDGETS.at(app, self.name), Merge({"spec": {"minAvailable": min_available}}))

    async def _is_counted(self, app: str) -> bool:
        budget = await self.client.get(BUDGETS.at(app, self.name))
        status = budget.status or {}
        wanted = len(await self.team.running(app))
        return bool(status.get("currentHealthy") == status.get("expectedPods") == wanted)

    async def until_here(self, *apps: str) -> None:
        async def are_here() -> bool:
            here = {pod.labels.get("app") for pod in await self.cluster.pods_on(self.node) if pod.phase == "Running"}
            return here >= set(apps)

        await self.cluster.eventually(f"{', '.join(apps)} run on {self.node}", are_here)

    async def note_who_is_there(self) -> None:
        self.there = {pod.uid: pod for pod in await self.cluster.pods_on(self.node)}

    async def begin(self, mark: str = WATCH_MARK, why: str = "true") -> None:
        """As a person does who drains by hand, and wants it watched."""
        await self.note_who_is_there()
        await self.mark(mark, why)
        await self.cordon()

    async def mark(self, mark: str = WATCH_MARK, why: str = "true") -> None:
        await self.client.patch(NODES.at(self.node), Merge({"metadata": {"annotations": {mark: why}}}))

    async def cordon(self, *, cordoned: bool = True) -> None:
        await self.client.patch(NODES.at(self.node), Merge({"spec": {"unschedulable": cordoned}}))

    async def flap(self) -> None:
        """It is uncordoned for a moment; its taint tells of the second time only."""
        before = cordoned_at(await self.cluster.hollow.node(self.node))

        async def is_free() -> bool:
            return cordoned_at(await self.cluster.hollow.node(self.node)) is None

        async def is_cordoned_again() -> bool:
            at = cordoned_at(await self.cluster.hollow.node(self.node))
            return at is not None and before is not None and at > before

        await self.cordon(cordoned=False)
        await self.cluster.eventually(f"{self.node} is uncordoned", is_free)
        await self.cordon()
        await self.cluster.eventually(f"{self.node} is cordoned again", is_cordoned_again)

    async def is_ready(self) -> bool:
        return await self.cluster.is_ready(self.node)

    def pods(self, *apps: str) -> list[Pod]:
        """As they were when the drain began."""
        return [pod for pod in self.there.values() if pod.labels.get("app") in apps]

    def uids(self, *apps: str) -> set[str]:
        return {pod.uid for pod in self.pods(*apps)}

    async def status(self) -> DrainStatus | None:
        try:
            return read_drain_status(await self.client.get(DRAINS.at(self.node)))
        except NotFound:
            return None

    async def until(self, what: str, holds: Callable[[DrainStatus], bool]) -> DrainStatus:
        """What the record says when it says so."""
        found: list[DrainStatus] = []

        async def is_so() -> bool:
            status = await self.status()
            found[:] = [status] if status is not None else []
            return status is not None and holds(status)

        await self.cluster.eventually(f"{self.name} ({self.node}): {what}", is_so, within=PATIENCE_SECONDS)
        return found[0]

    async def until_phase(self, phase: Phase) -> DrainStatus:
        return await self.until(f"its record says {phase}", lambda status: status.phase is phase)

    async def until_overdue(self, seconds: float) -> DrainStatus:
        """So many seconds after it began, as its record has it."""
        clock, length = SystemClock(), timedelta(seconds=seconds)
        return await self.until(
            f"{seconds:g} s are over", lambda one: one.started_at is not None and clock.now() >= one.started_at + length
        )

    async def deeds(self, *rungs: Rung) -> list[Deed]:
        """Those about pods that were there when it began."""
        asked = [one for one in await self.cluster.deeds() if one.uid in self.there]
        return [one for one in asked if not rungs or one.rung in rungs]


def hollow(habits: Mapping[str, str]) -> dict[str, str]:
    return {f"{PREFIX}{name}": value for name, value in habits.items()}


@asynccontextmanager
async def drain_cluster(programs: Programs, blueprints: list[Blueprint], policy: Path) -> AsyncIterator[DrainCluster]:
    """`policy` is a file to be written: the API server reads there what to write down."""
    settings = Settings(controller_manager=SETTINGS.controller_manager, apiserver=await audited(policy))
    async with hollow_cluster(programs, blueprints, settings=settings) as hollow:
        cluster = DrainCluster(hollow)
        await cluster.reserve(list(hollow.nodes)[:-REFUGES])
        await cluster.kubectl("apply", *(option for file in FILES for option in ("-f", str(DEPLOY / file))))
        for right in DRAIN_RIGHTS:
            await until_allowed(cluster.client, *right)
        yield cluster

"""Drains on a real API server while others act in between: nobody is hit who was not meant, and no budget is passed by.

Whatever happens here happens after our last look and before our request, where only the API server can help.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
import yaml

from defib.act.apply import apply
from defib.act.means import Means
from defib.act.outcome import Done, Failed, Outcome, Stale
from defib.clock import SystemClock
from defib.kube.client import Client, Deletion, Merge
from defib.kube.discovery import Discovery
from defib.kube.http import connect
from defib.kube.kinds import LEASES, NAMESPACES, NODES, PODS, unstructured
from defib.kube.transport import Request, Response, Transport
from defib.model import medik8s
from defib.model.drain_action import BLOCKED, DeletePod, EvictPod, Leaving, PodStep, RemoveFinalizers
from defib.model.mandate import Mandate
from defib.model.node_drain import DRAIN, LOCK_HOLDER, DrainStatus, Phase, PodEntry, Rung
from defib.model.pod import Pod
from defib.model.target import Target
from defib.power.registry import Drivers
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from testbed.settings import Settings
from tests.contract.api_server.objects import BUDGETS, a_budget, a_pod, pod_status
from tests.contract.api_server.steps import install, is_gone

pytestmark = [pytest.mark.real, pytest.mark.timeout(60, func_only=True), pytest.mark.asyncio(loop_scope="module")]

DRAINS = unstructured("defib.dev", "v1alpha1", "nodedrains", "NodeDrain", namespaced=False)
CRD = Path(__file__).parents[2] / "deploy/crds/defib.dev_nodedrains.yaml"
LOCKS = medik8s.LOCK_NAMESPACE
HOLD, OTHER = "example.com/hold", "example.com/other"
LABELS = {"app": "web"}

NUMBERS = count(1)

Happening = Callable[[], Awaitable[None]]


class Between:
    """Passes everything on. Once, when our last look before a step has been answered, something happens."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.happens: Happening | None = None

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        async with self._transport.send(request) as response:
            yield response
        if self.happens and str(request).startswith("GET /api/v1/nodes/"):
            happens, self.happens = self.happens, None
            await happens()

    def describe(self) -> str:
        return self._transport.describe()

    async def close(self) -> None:
        await self._transport.close()


class Scene:
    """A cordoned node under our lock, with one pod. Nobody else is there: no kubelet, and no controllers."""

    def __init__(self, client: Client, us: Client, between: Between, node: str) -> None:
        self.client = client
        self.between = between
        self.node = node
        self.ref = PODS.at(node, "default")  # the pod has the name of its node
        clock = SystemClock()
        self._means = Means(
            client=us,
            discovery=Discovery(us),
            clock=clock,
            lock_namespace=LOCKS,
            namespace="defib-system",
            stop=str,
            note=lambda _kind, _item: None,
            drivers=Drivers(clock),
        )

    async def add_pod(self, *finalizers: str) -> Pod:
        body = a_pod(self.node, node=self.node, labels=LABELS)
        body["metadata"]["finalizers"] = list(finalizers)
        await self.client.create(PODS, body, namespace="default")
        return await self.client.patch(self.ref, Merge(pod_status("Running", ready=True)), subresource="status")

    async def remove_pod(self) -> None:
        pod = await self.client.patch(self.ref, Merge({"metadata": {"finalizers": None}}))
        await self.client.delete(self.ref, Deletion(uid=pod.uid, grace_seconds=0))

    async def let_pod_leave(self) -> Pod:
        await self.client.delete(self.ref, Deletion(uid=(await self.pod()).uid))
        return await self.pod()

    async def pod(self) -> Pod:
        return await self.client.get(self.ref)

    async def leaving(self, pod: Pod, rung: Rung) -> Leaving:
        """Node, lock and record are as they have to be, and the record says that this is to be done."""
        node = await self.client.create(NODES, {"metadata": {"name": self.node}, "spec": {"unschedulable": True}})
        renewed = f"{self._means.clock.now():%Y-%m-%dT%H:%M:%S.%fZ}"
        spec = {"holderIdentity": LOCK_HOLDER, "leaseDurationSeconds": 600, "renewTime": renewed}
        lock = {"metadata": {"name": medik8s.lock_of(self.node)}, "spec": spec}
        await self.client.create(LEASES, lock, namespace=LOCKS)
        drain = await self.client.create(DRAINS, {"metadata": {"name": self.node}, "spec": {"policy": "p1"}})
        await self.write_down(pod.uid, rung)
        return Leaving(
            drain=Target(kind=DRAIN, namespace="", name=drain.name, uid=drain.uid),
            node=self.node,
            node_uid=node.uid,
            taint="",
            namespace="default",
            name=pod.name,
            uid=pod.uid,
            because="the drain takes too long",
        )

    async def write_down(self, uid: str, rung: Rung) -> None:
        at = self._means.clock.now().replace(microsecond=0)
        entry = PodEntry(namespace="default", name=self.node, uid=uid, rung=rung, at=at)
        status = msgspec.to_builtins(DrainStatus(phase=Phase.FORCING, pods=[entry]))
        await self.client.patch(DRAINS.at(self.node), Merge({"status": status}), subresource="status")

    async def step(self, rung: Rung) -> PodStep:
        pod = await self.add_pod(*((HOLD, OTHER) if rung is Rung.FINALIZERS else ()))
        if rung in (Rung.KILL, Rung.FORCE, Rung.FINALIZERS):
            pod = await self.let_pod_leave()
        leaving = await self.leaving(pod, rung)
        match rung:
            case Rung.EVICT:
                return EvictPod(pod=leaving)
            case Rung.FINALIZERS:
                return RemoveFinalizers(pod=leaving, version=pod.metadata.resource_version, finalizers=(HOLD,))
            case _:
                return DeletePod(pod=leaving, grace_seconds={Rung.KILL: 1, Rung.FORCE: 0}.get(rung))

    async def do(self, step: PodStep, happens: Happening | None = None) -> Outcome:
        self.between.happens = happens
        outcome = await apply(self._means, step, Mandate("test"))
        assert self.between.happens is None, "what was to happen in between has happened"
        return outcome


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs) -> AsyncIterator[ControlPlane]:
    async with ControlPlane(programs, Settings(api_only=True)) as cluster:
        await cluster.wait_for_namespace("default")
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(cluster: ControlPlane) -> AsyncIterator[Client]:
    clock = SystemClock()
    client = Client(await connect(cluster.kubeconfig, None, {}, clock), clock)
    try:
        await install(client, yaml.safe_load(CRD.read_text()))
        await client.create(NAMESPACES, {"metadata": {"name": LOCKS}})
        yield client
    finally:
        await client.close()


@pytest_asyncio.fixture(loop_scope="module")
async def scene(cluster: ControlPlane, client: Client) -> AsyncIterator[Scene]:
    clock = SystemClock()
    between = Between(await connect(cluster.kubeconfig, None, {}, clock))
    us = Client(between, clock)
    try:
        yield Scene(client, us, between, f"n{next(NUMBERS)}")
    finally:
        await us.close()


async def shown(scene: Scene) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins(await scene.pod())
    return built


@pytest.mark.parametrize("rung", list(Rung))
async def test_a_pod_that_came_under_the_same_name_after_we_looked_is_not_touched(scene: Scene, rung: Rung) -> None:
    step = await scene.step(rung)
    came: list[dict[str, Any]] = []

    async def replaced() -> None:
        await scene.remove_pod()
        await scene.add_pod(HOLD)
        came.append(await shown(scene))

    assert await scene.do(step, replaced) == Done()
    assert await shown(scene) == came[0]
    assert came[0]["metadata"]["uid"] != step.pod.uid


@pytest.mark.parametrize("rung", list(Rung))
async def test_dk_18_a_pod_that_is_gone_after_we_looked_is_a_success(scene: Scene, rung: Rung) -> None:
    step = await scene.step(rung)
    assert await scene.do(step, scene.remove_pod) == Done()
    assert await is_gone(scene.client, scene.ref)


async def test_dk_23_a_budget_that_comes_after_we_looked_keeps_the_pod(scene: Scene) -> None:
    step = await scene.step(Rung.EVICT)

    async def comes() -> None:
        """Its controller has not judged it yet, so it says no in any case."""
        await scene.client.create(BUDGETS, a_budget(scene.node, LABELS), namespace="default")

    outcome = await scene.do(step, comes)
    assert isinstance(outcome, Failed)
    assert outcome.why.startswith(f"{BLOCKED}: The disruption budget {scene.node}")
    assert not (await scene.pod()).is_leaving
    await scene.client.create(BUDGETS, a_budget(f"{scene.node}-too", LABELS), namespace="default")
    outcome = await scene.do(step)
    assert isinstance(outcome, Failed)
    assert outcome.why.startswith(f"{BLOCKED}: This pod has more than one PodDisruptionBudget")
    assert not (await scene.pod()).is_leaving
    for name in (scene.node, f"{scene.node}-too"):
        budget = await scene.client.get(BUDGETS.at(name, "default"))
        await scene.client.delete(BUDGETS.of(budget), Deletion(uid=budget.uid))


async def test_dk_12_a_pod_that_changed_after_we_looked_keeps_its_finalizers(scene: Scene) -> None:
    step = await scene.step(Rung.FINALIZERS)

    async def changes() -> None:
        await scene.client.patch(scene.ref, Merge({"metadata": {"labels": {"new": "yes"}}}))

    assert await scene.do(step, changes) == Stale(f"pod default/{scene.node} has changed in between")
    pod = await scene.pod()
    assert pod.metadata.finalizers == [HOLD, OTHER]
    assert isinstance(step, RemoveFinalizers)
    again = msgspec.structs.replace(step, version=pod.metadata.resource_version)
    assert await scene.do(again) == Done()
    assert (await scene.pod()).metadata.finalizers == [OTHER], "the others stay"


async def test_dk_11_a_stuck_pod_is_killed_by_its_kubelet_and_then_deleted_without_it(scene: Scene) -> None:
    kill = await scene.step(Rung.KILL)
    assert await scene.do(kill) == Done()
    assert (await scene.pod()).metadata.deletion_grace_period_seconds == 1
    await scene.write_down(kill.pod.uid, Rung.FORCE)
    assert await scene.do(DeletePod(pod=kill.pod, grace_seconds=0)) == Done()
    assert await is_gone(scene.client, scene.ref)


@pytest.mark.parametrize("rung", [Rung.EVICT, Rung.DELETE])
async def test_one_that_leaves_by_itself_after_we_looked_keeps_its_time(scene: Scene, rung: Rung) -> None:
    step = await scene.step(rung)

    async def leaves() -> None:
        await scene.client.delete(scene.ref, Deletion(uid=step.pod.uid, grace_seconds=300))

    assert await scene.do(step, leaves) == Done()
    assert (await scene.pod()).metadata.deletion_grace_period_seconds == 300

"""What the steps of a drain meet: the cordoned node n1 whose lock is ours, its record, and pods that do not leave."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from defib.act.executor import Executor
from defib.act.outcome import Outcome
from defib.kube.client import Deletion, Merge
from defib.kube.kinds import NODES, PODS, Ref, unstructured
from defib.model.drain_action import DeletePod, EvictPod, Leaving, PodStep, RemoveFinalizers
from defib.model.mandate import Mandate
from defib.model.node_drain import DRAIN, LOCK_HOLDER, Phase, Rung
from defib.model.target import Target
from defib.simulate.faults import Fault, Slow
from defib.simulate.virtual_time import START
from tests.unit.act.stage import Stage, a_crd, play, stamp

DRAINS = unstructured("defib.dev", "v1alpha1", "nodedrains", "NodeDrain", namespaced=False)
BUDGETS = unstructured("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
CRDS = "customresourcedefinitions.apiextensions.k8s.io"
HOLD, OTHER = "example.com/hold", "example.com/other"
LABELS = {"app": "web"}


class Scene(msgspec.Struct, kw_only=True):
    stage: Stage
    drain: Target
    entries: list[dict[str, Any]] = []

    async def add_pod(self, name: str = "web-1", *finalizers: str, **spec: Any) -> Leaving:
        """It runs on n1 and is ready."""
        whole_spec = {"nodeName": "n1", "containers": [{"name": "main", "image": "x"}]} | spec
        meta = {"name": name, "namespace": "default", "labels": LABELS, "finalizers": list(finalizers)}
        self.stage.server.put("pods", {"metadata": meta, "spec": whole_spec})
        await self.show(name, "Running")
        return Leaving(
            drain=self.drain,
            node="n1",
            node_uid=self.stage.uid("nodes", "n1"),
            taint="",
            namespace="default",
            name=name,
            uid=self.stage.uid("pods", f"default/{name}"),
            because="the drain takes too long",
        )

    async def show(self, name: str, phase: str) -> None:
        status = {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]}
        ref = PODS.at(name, "default")
        await self.stage.world.patch(ref, Merge({"status": status}), subresource="status")

    async def remove_pod(self, name: str = "web-1") -> None:
        await self.remove(PODS.at(name, "default"), grace_seconds=0)

    async def let_pod_leave(self, name: str = "web-1") -> None:
        await self.remove(PODS.at(name, "default"))

    async def remove(self, ref: Ref[Any], *, grace_seconds: int | None = None) -> None:
        uid = (await self.stage.world.get(ref)).uid
        await self.stage.world.delete(ref, Deletion(uid=uid, grace_seconds=grace_seconds))

    async def write_down(self, pod: Leaving, rung: Rung) -> None:
        """What is about to be done about a pod, in the record."""
        entry = {
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
            "rung": rung.value,
            "at": stamp(START),
            "why": "it is time",
        }
        self.entries = [*(one for one in self.entries if one["uid"] != pod.uid), entry]
        await self.note(phase=Phase.FORCING.value, pods=self.entries)

    async def note(self, **status: Any) -> None:
        ref = DRAINS.at(self.drain.name)
        await self.stage.world.patch(ref, Merge({"status": status}), subresource="status")

    async def replace_record(self) -> None:
        await self.remove(DRAINS.at("n1"))
        self.stage.server.put(str(DRAINS), {"metadata": {"name": "n1"}})

    async def mend_node(self, **patch: Any) -> None:
        await self.stage.world.patch(NODES.at("n1"), Merge(patch))

    async def uncordon(self) -> None:
        await self.mend_node(spec={"unschedulable": None})

    async def add_budget(self, name: str = "guard", *, allowed: int = 0) -> None:
        """Judged by its controller already."""
        meta = {"name": name, "namespace": "default"}
        spec = {"minAvailable": 1, "selector": {"matchLabels": LABELS}}
        budget = self.stage.server.put(str(BUDGETS), {"metadata": meta, "spec": spec}).object
        status = {
            "observedGeneration": budget["metadata"]["generation"],
            "disruptionsAllowed": allowed,
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
        }
        ref = BUDGETS.at(name, "default")
        await self.stage.world.patch(ref, Merge({"status": status}), subresource="status")

    async def evict(self, name: str = "web-1", *finalizers: str) -> EvictPod:
        """A pod that is to be evicted, with all that this needs."""
        pod = await self.add_pod(name, *finalizers)
        await self.write_down(pod, Rung.EVICT)
        return EvictPod(pod=pod)

    async def delete(self, name: str = "web-1", **spec: Any) -> DeletePod:
        pod = await self.add_pod(name, **spec)
        await self.write_down(pod, Rung.DELETE)
        return DeletePod(pod=pod)

    async def kill(self, seconds: int = 1, *finalizers: str) -> DeletePod:
        """One that was told to leave and has not; by its kubelet, or without it."""
        pod = await self.add_pod("web-1", *finalizers)
        await self.let_pod_leave()
        await self.write_down(pod, Rung.KILL if seconds else Rung.FORCE)
        return DeletePod(pod=pod, grace_seconds=seconds)

    async def free(self, *held_by: str, leaves: bool = True) -> RemoveFinalizers:
        """One that is held by these, of which the first is to be removed."""
        pod = await self.add_pod("web-1", *held_by)
        if leaves:
            await self.let_pod_leave()
        await self.write_down(pod, Rung.FINALIZERS)
        return RemoveFinalizers(pod=pod, version=self.pod()["metadata"]["resourceVersion"], finalizers=held_by[:1])

    async def step(self, rung: Rung) -> PodStep:
        """Of this sort, about the pod web-1."""
        match rung:
            case Rung.EVICT:
                return await self.evict()
            case Rung.DELETE:
                return await self.delete()
            case Rung.KILL:
                return await self.kill(1)
            case Rung.FORCE:
                return await self.kill(0)
            case Rung.FINALIZERS:
                return await self.free(HOLD)

    async def do(self, action: Any, mandate: Mandate | None = None) -> Outcome:
        return await self.stage.do(action, mandate)

    async def meanwhile(self, action: Any, reading: str, happen: Callable[[], Awaitable[None]]) -> Outcome:
        """Something happens between our look at a thing and what we do next: the answer takes a while."""
        self.stage.fault(Fault(effect=Slow(seconds=2), verbs=("get",), resource=reading, client="defib", times=1))
        async with asyncio.TaskGroup() as tasks:
            done = tasks.create_task(self.do(action))
            await asyncio.sleep(1)  # virtual: half of what the answer takes
            await happen()
        return done.result()

    def pod(self, name: str = "web-1") -> Any:
        stored = self.stage.server.store.get("pods", f"default/{name}")
        return stored.object if stored else None

    def is_leaving(self, name: str = "web-1") -> bool:
        return "deletionTimestamp" in self.pod(name)["metadata"]

    def writes(self) -> list[str]:
        """What we wrote, or tried to."""
        return [asked for asked in self.stage.asked() if not asked.startswith(("get ", "list "))]


Story = Callable[[Scene], Awaitable[None]]
Acts = Callable[[Scene, Executor], Awaitable[None]]


def drain(story: Story) -> None:
    async def scenario(stage: Stage) -> None:
        stage.server.put(CRDS, a_crd(DRAINS))
        await stage.turn("True")
        stage.put_lock(LOCK_HOLDER, renewed=START, seconds=3600)
        await stage.world.patch(NODES.at("n1"), Merge({"spec": {"unschedulable": True}}))
        stage.server.put(str(DRAINS), {"metadata": {"name": "n1"}})
        uid = stage.uid(str(DRAINS), "n1")
        await story(Scene(stage=stage, drain=Target(kind=DRAIN, namespace="", name="n1", uid=uid)))

    play(scenario)


def drain_by_executor(acts: Acts) -> None:
    async def story(scene: Scene) -> None:
        executor = scene.stage.executor()
        async with asyncio.TaskGroup() as group:
            running = group.create_task(executor.run())
            await asyncio.sleep(0)
            await acts(scene, executor)
            running.cancel()

    drain(story)

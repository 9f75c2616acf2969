"""Six nodes at once, and everything on which drains hang: what is on them, and who begins to drain them."""

import asyncio
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from defib.hollow.objects import PODS
from defib.kube.client import Merge
from defib.model.node_drain import CLUSTER_API_SKIP, DO_NOT_DISRUPT, DRAIN_MARK
from defib.model.pod_failover import KEEP
from tests.e2e.drain_cluster import AGENT, PATIENCE_SECONDS, DrainCluster, Drill, hollow
from tests.e2e.failover_cluster import Team

TIMEOUT, EXPECTED, PDB, EXTRA = 4, 2, 6, 2  # seconds
TIMES = {
    "timeout": f"{TIMEOUT}s",
    "expectedDrainTime": f"{EXPECTED}s",
    "pdbForceDrainTimeout": f"{PDB}s",
    "extraGrace": f"{EXTRA}s",
}
PATIENT = TIMES | {"extraGrace": "4s"}  # a kubelet on a busy machine takes a while to confirm a kill
OURS, FOREIGN = "example.com/ours", "example.com/foreign"
STUBBORN = {"ignores-sigterm": "true", "outlives-grace": "true"}


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """Six nodes at once: five are drained, and one is only parked."""

    budget: Drill
    finalizers: Drill
    stubborn: Drill
    dead: Drill
    mixed: Drill
    parked: Drill
    kubectl: Process  # which drains the first

    @property
    def drained(self) -> tuple[Drill, ...]:
        return self.budget, self.finalizers, self.stubborn, self.dead, self.mixed


@asynccontextmanager
async def set_stage(cluster: DrainCluster) -> AsyncIterator[Stage]:
    """From when all drains have begun, at about the same time."""
    budget = await cluster.drill("budget", "zone-a-1", **TIMES)
    finalizers = await cluster.drill("finalizers", "zone-a-2", finalizers=[OURS], **TIMES)
    stubborn = await cluster.drill("stubborn", "zone-a-3", **PATIENT)
    dead = await cluster.drill("dead", "zone-a-4", **TIMES)
    mixed = await cluster.drill("mixed", "zone-a-5", ignoredNamespaces=["spared-*"], **TIMES)
    parked = await cluster.drill("parked", "zone-a-6", **dict.fromkeys(TIMES, "0s"))
    spared = await cluster.team("spared-team")
    await stubborn.deploy("stubborn", grace=3, habits=STUBBORN)
    await dead.deploy("web", 2, grace=2)
    await dead.team.state("db", dead.template("db", grace=2))
    await parked.deploy("web")
    await cluster.start_agents()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(fill_budget(budget))
        tasks.create_task(fill_finalizers(finalizers))
        tasks.create_task(stubborn.until_here("stubborn", AGENT))
        tasks.create_task(dies(dead, "web", "db", AGENT))
        tasks.create_task(fill_mixed(mixed, spared))
        tasks.create_task(parked.until_here("web", AGENT))
    await budget.note_who_is_there()
    await parked.note_who_is_there()
    await parked.cordon()
    await stubborn.begin(DRAIN_MARK, "a new kernel")
    for one in (finalizers, dead, mixed):
        await one.begin()
    kubectl = await drain_by_kubectl(budget)
    try:
        yield Stage(
            budget=budget,
            finalizers=finalizers,
            stubborn=stubborn,
            dead=dead,
            mixed=mixed,
            parked=parked,
            kubectl=kubectl,
        )
    finally:
        if kubectl.returncode is None:
            kubectl.kill()
            await kubectl.wait()


async def fill_budget(drill: Drill) -> None:
    """None of its pods may be missing, so none can ever be evicted."""
    await drill.deploy("web", 2)
    await drill.team.until_running(2)
    await drill.until_here("web")
    await drill.protect("web", min_available=2)


async def fill_finalizers(drill: Drill) -> None:
    for app, finalizer in (("ours", OURS), ("foreign", FOREIGN)):
        await drill.deploy(app)
        await drill.until_here(app)
        (pod,) = await drill.team.pods(app)
        await drill.client.patch(PODS.of(pod), Merge({"metadata": {"finalizers": [finalizer]}}))


async def fill_mixed(drill: Drill, spared: Team) -> None:
    """One that has to go, and all who may stay."""
    await drill.put("goes")
    await drill.put("kept", annotations={KEEP: "it is being looked at"})
    await drill.put("busy", annotations={DO_NOT_DISRUPT: "true"})
    await drill.put("skipped", labels={"app": "skipped", CLUSTER_API_SKIP: "skip"})
    await drill.put("ended", annotations=hollow({"run-seconds": "0.1"}))
    await drill.put("spared", spared)
    await drill.until_here("goes", "kept", "busy", "skipped", "spared", AGENT)


async def dies(drill: Drill, *apps: str) -> None:
    """It loses its power, and is given up."""

    async def is_lost() -> bool:
        return not await drill.is_ready()

    await drill.until_here(*apps)
    drill.machine.machine.set_power(False)
    await drill.cluster.eventually(f"{drill.node} is given up", is_lost)


async def drain_by_kubectl(drill: Drill) -> Process:
    """As somebody types it: it cordons the node, and evicts until it is empty."""
    await drill.mark()
    plane = drill.cluster.plane
    options = ("drain", drill.node, "--ignore-daemonsets", f"--timeout={PATIENCE_SECONDS:g}s")
    return await asyncio.create_subprocess_exec(
        str(plane.kubectl), f"--kubeconfig={plane.kubeconfig}", *options, stdout=PIPE, stderr=STDOUT
    )

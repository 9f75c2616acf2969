"""A node that falls silent is given up, and taken back when it speaks again: in virtual time on the embedded server."""

import asyncio
from collections.abc import Awaitable, Callable

from defib.hollow.site import in_zones
from defib.hollow.timers import Timers
from defib.kube.client import Client, Merge
from defib.kube.kinds import NODES
from defib.model.node import Node
from defib.simulate.cluster import SimulatedCluster
from defib.simulate.faults import Fault, Hang
from defib.simulate.virtual_time import VirtualClock, run

UNREACHABLE = {("node.kubernetes.io/unreachable", "NoSchedule"), ("node.kubernetes.io/unreachable", "NoExecute")}
TIMERS = Timers()
NOTICED_SECONDS = TIMERS.grace_seconds + 2 * TIMERS.monitor_seconds
BOOTED_SECONDS = TIMERS.boot_seconds + 2 * TIMERS.monitor_seconds


class Day:
    """A cluster of six nodes, and a person who looks at it."""

    def __init__(self, clock: VirtualClock) -> None:
        self.cluster = SimulatedCluster(clock, TIMERS, in_zones("ab", 3))
        self.person = Client(self.cluster.transport("person"), clock)

    async def node(self, name: str) -> Node:
        return await self.person.get(NODES.at(name))

    def beats(self, name: str) -> int:
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"
        return sum(1 for asked in self.cluster.server.audit if asked.path == path and asked.status == 200)


def live(story: Callable[[Day], Awaitable[None]], seed: int = 0) -> None:
    async def main(clock: VirtualClock) -> None:
        day = Day(clock)
        async with asyncio.TaskGroup() as group:
            living = group.create_task(day.cluster.run())
            await pass_seconds(1)
            await story(day)
            living.cancel()

    run(main, seed=seed)


async def pass_seconds(seconds: float) -> None:
    await asyncio.sleep(seconds)  # virtual: it takes no time


def taints(node: Node) -> set[tuple[str, str]]:
    return {(taint.key, taint.effect) for taint in node.spec.taints or ()}


def test_a_silent_node_is_given_up_after_the_grace_and_not_before() -> None:
    async def story(day: Day) -> None:
        day.cluster.nodes["zone-a-1"].machine.set_power(False)
        await pass_seconds(TIMERS.grace_seconds - TIMERS.renew_seconds)
        assert (await day.node("zone-a-1")).ready == "True"
        await pass_seconds(NOTICED_SECONDS)
        lost = await day.node("zone-a-1")
        assert lost.ready == "Unknown"
        assert taints(lost) == UNREACHABLE
        other = await day.node("zone-a-2")
        assert (other.ready, taints(other)) == ("True", set())

    live(story)


def test_a_node_that_boots_again_is_ready_without_taints_and_has_a_new_boot() -> None:
    async def story(day: Day) -> None:
        first = await day.node("zone-a-1")
        day.cluster.nodes["zone-a-1"].machine.set_power(False)
        await pass_seconds(NOTICED_SECONDS)
        day.cluster.nodes["zone-a-1"].machine.set_power(True)
        await pass_seconds(BOOTED_SECONDS)
        again = await day.node("zone-a-1")
        assert (again.ready, taints(again), again.uid) == ("True", set(), first.uid)
        assert again.status.node_info.boot_id != first.status.node_info.boot_id

    live(story)


def test_taints_of_others_are_left_alone() -> None:
    async def story(day: Day) -> None:
        ours = {"key": "example.com/repair", "effect": "NoSchedule"}
        await day.person.patch(NODES.at("zone-a-1"), Merge({"spec": {"taints": [ours]}}))
        day.cluster.nodes["zone-a-1"].machine.set_power(False)
        await pass_seconds(NOTICED_SECONDS)
        assert taints(await day.node("zone-a-1")) == UNREACHABLE | {("example.com/repair", "NoSchedule")}
        day.cluster.nodes["zone-a-1"].machine.set_power(True)
        await pass_seconds(BOOTED_SECONDS)
        assert taints(await day.node("zone-a-1")) == {("example.com/repair", "NoSchedule")}

    live(story)


def test_an_api_server_that_is_away_for_a_while_costs_no_node_its_life() -> None:
    async def story(day: Day) -> None:
        day.cluster.server.stop()
        await pass_seconds(20)
        day.cluster.server.start()
        await pass_seconds(60)
        assert [(await day.node(f"zone-{zone}-{n}")).ready for zone in "ab" for n in (1, 2, 3)] == ["True"] * 6

    live(story)


def test_an_answer_that_one_node_waits_for_delays_no_other() -> None:
    async def story(day: Day) -> None:
        day.cluster.server.faults.inject(Fault(effect=Hang(), name="zone-a-1", client="kubelet"))
        before = day.beats("zone-a-2")
        await pass_seconds(600)
        assert day.beats("zone-a-2") - before == 60
        assert (await day.node("zone-a-1")).ready == "Unknown"
        assert (await day.node("zone-a-2")).ready == "True"

    live(story)


def test_what_others_say_about_a_silent_node_stays_as_they_said_it() -> None:
    async def story(day: Day) -> None:
        day.cluster.nodes["zone-a-1"].set_condition("KernelDeadlock", "True", "TaskHung")
        await pass_seconds(2)
        day.cluster.nodes["zone-a-1"].machine.set_power(False)
        await pass_seconds(NOTICED_SECONDS)
        lost = await day.node("zone-a-1")
        deadlock = lost.condition("KernelDeadlock")
        assert deadlock
        assert (lost.ready, deadlock.status) == ("Unknown", "True")

    live(story)

"""Three operators share the work: every machine is power-cycled once, by one of them, whatever becomes of the others."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from defib.coordinate.keys import ADMISSION
from defib.hollow.machine import Machine
from defib.kube.client import Merge
from defib.kube.kinds import NODE_HEALTH_CHECKS, NODES
from defib.model.incident import Phase
from defib.simulate.faults import Fault, LateEvents
from defib.simulate.store import Change
from defib.simulate.virtual_time import VirtualClock, run
from tests.mortal_operator import NEVER, Doom, Life
from tests.power_cycle_crash import Plot, begin, end
from tests.power_cycle_stage import HOME, REMEDIATIONS, VICTIM, WAYS, Stage, a_stage, ready_of, spec_of
from tests.sharded_replicas import SETTLED_SECONDS, Holders, holders_on, seconds

NAMES = ("a", "b", "c")
MANY = tuple(f"n{number}" for number in range(1, 10))
HOLLOW, TAINT = WAYS["hollow"], "OutOfServiceTaint"
INCIDENTS = "nodeincidents.defib.dev"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
LAG_SECONDS = 0.3
THREE_NODES = ("n1", "n2", "n3")

Scene = Callable[[Stage], Awaitable[None]]


def play(scene: Scene, nodes: tuple[str, ...] = MANY) -> None:
    async def main(clock: VirtualClock) -> None:
        async with a_stage(clock, machines=[Machine(name, clock) for name in nodes]) as stage:
            # What others wrote each replica sees a moment later than they do.
            stage.server.faults.inject(Fault(effect=LateEvents(seconds=LAG_SECONDS), client="defib"))
            await scene(stage)
            # The stage knows of one machine only, and takes a remediation of another one for its own.
            assert [
                wrong for wrong in stage.wrongs if "was let go" not in wrong or len(nodes) <= len(THREE_NODES)
            ] == []

    run(main, limit=timedelta(hours=2))


@asynccontextmanager
async def sharing(
    stage: Stage, dooms: Mapping[str, Doom] | None = None, **settings: Any
) -> AsyncIterator[dict[str, Life]]:
    """All three, each with what it would rather have."""
    async with AsyncExitStack() as stack:
        lives = {
            name: await stack.enter_async_context(operator(stage, name, (dooms or {}).get(name, NEVER), **settings))
            for name in NAMES
        }
        await seconds(SETTLED_SECONDS)
        assert set(holders(stage).shares) == set(NAMES)
        yield lives


def operator(stage: Stage, name: str, doom: Doom = NEVER, **settings: Any) -> Any:
    return stage.operator(doom, election="shards", replica_name=name, **settings)


def holders(stage: Stage) -> Holders:
    return holders_on(stage.server, stage.clock.now())


def in_different_hands(stage: Stage, count: int) -> list[str]:
    """Nodes that different replicas look after, and not the one that admits as long as there is another."""
    by_holder: dict[str, str] = {}
    for node in MANY:
        by_holder.setdefault(holders(stage).of_node(node), node)
    admits = holders(stage).of_node(ADMISSION)
    return [by_holder[name] for name in sorted(by_holder, key=lambda name: name == admits)][:count]


async def order(stage: Stage, node: str) -> None:
    await stage.person.create(
        REMEDIATIONS, {"metadata": {"name": node}, "spec": spec_of(HOLLOW, TAINT)}, namespace=HOME
    )


def phase_of(stage: Stage, node: str) -> str:
    incident = stage.one(INCIDENTS, node)
    return "" if incident is None else str((incident.get("status") or {}).get("phase", Phase.OPEN))


def is_out(stage: Stage, node: str) -> bool:
    return phase_of(stage, node) not in ("", Phase.OPEN, Phase.CLOSED)


def cycled(stage: Stage, node: str) -> list[bool]:
    return [change.on for change in stage.machines[node].history]


def watch_at_once(stage: Stage, nodes: tuple[str, ...] = MANY) -> list[int]:
    """How many machines are being switched at a time, noted whenever something changes."""
    counts: list[int] = []

    def noticed(change: Change) -> None:
        if change.resource == INCIDENTS:
            counts.append(sum(is_out(stage, node) for node in nodes))

    stage.server.reactions.append(noticed)
    return counts


def test_sh_07_every_machine_is_cycled_once_and_by_the_holder_of_its_bucket_alone() -> None:
    async def scene(stage: Stage) -> None:
        async with sharing(stage) as lives:
            await stage.check(HOLLOW, TAINT)
            failing = in_different_hands(stage, 3)
            for node in failing:
                stage.hollow.nodes[node].hang()
            assert await stage.until(lambda: all(cycled(stage, node) == [False, True] for node in failing), 300)
            assert await stage.until(lambda: all(ready_of(stage.one("nodes", n)) == "True" for n in failing), 120)
            assert await stage.until(lambda: not stage.remediations, 120)
            for node in failing:
                doers = [name for name, life in lives.items() if f"power off {node}" in life.deeds]
                assert doers == [holders(stage).of_node(node)]
                assert lives[doers[0]].deeds.count(f"power off {node}") == 1
            made = [
                name
                for name, life in lives.items()
                for deed in life.deeds
                if deed.startswith("POST") and "powercycle" in deed
            ]
            assert made == [holders(stage).of_node(ADMISSION)] * 3

    play(scene)


def test_sh_08_no_more_are_remediated_at_once_than_the_check_allows() -> None:
    async def scene(stage: Stage) -> None:
        async with sharing(stage):
            counts = watch_at_once(stage)
            await stage.check(HOLLOW, TAINT)
            await stage.person.patch(NODE_HEALTH_CHECKS.at("all"), Merge({"spec": {"guards": {"maxInFlight": 1}}}))
            failing = in_different_hands(stage, 3)
            for node in failing:
                stage.hollow.nodes[node].hang()
            assert await stage.until(lambda: all(cycled(stage, node) == [False, True] for node in failing), 900)
            assert max(counts) == 1

    play(scene)


class SecondWrite(Doom, frozen=True, kw_only=True):
    """About an incident: by which a power cycle begins, when the first has said what it waits for."""

    seen: list[str]

    def means(self, number: int, deed: str) -> bool:  # noqa: ARG002  that number counts all of them
        self.seen.extend([deed] if "/nodeincidents/" in deed else [])
        return len(self.seen) == 2


def test_sh_08_of_the_control_plane_one_goes_at_a_time_whoever_asks() -> None:
    """People order power cycles for two at the same moment, and two replicas would each begin with its own.

    Each would write that it begins when the other does, before either can know.
    """

    async def scene(stage: Stage) -> None:
        arrived: list[int] = []

        async def wait_for_the_other() -> None:
            arrived.append(1)
            await stage.until(lambda: len(arrived) == 2, 5)

        dooms = {name: SecondWrite(seen=[], twist=wait_for_the_other, spares=True) for name in ("a", "b")}
        async with sharing(stage, dooms):
            pair = in_different_hands(stage, 2)
            assert holders(stage).of_node(ADMISSION) == "c"
            others = [node for node in MANY if node not in pair][:3]  # which are a quorum by themselves
            for node in (*pair, *others):
                await stage.person.patch(NODES.at(node), Merge({"metadata": {"labels": {CONTROL_PLANE: ""}}}))
            for node in pair:
                stage.hollow.nodes[node].hang()
            await seconds(stage.pace.down_seconds)
            counts = watch_at_once(stage)
            for node in sorted(pair, reverse=True):  # all replicas would let the first by name go first
                await order(stage, node)
                await seconds(2 * LAG_SECONDS)
            assert await stage.until(lambda: all(cycled(stage, node) == [False, True] for node in pair), 600)
            assert max(counts) == 1

    play(scene)


def test_sh_05_what_is_under_way_ends_before_its_bucket_changes_hands() -> None:
    """A third replica comes that should have the bucket, while a command to its machine still hangs."""

    async def scene(stage: Stage) -> None:
        seen: list[str] = []

        async def hang() -> None:
            await stage.until(lambda: "c" in holders(stage).shares, 25)
            for _ in range(3):
                seen.append(holders(stage).of_node(VICTIM))
                await seconds(1)

        doom = Doom(words=f"power off {VICTIM}", twist=hang, spares=True)
        async with operator(stage, "a", doom), operator(stage, "b"):
            await seconds(SETTLED_SECONDS)
            await begin(stage, Plot(way="hollow", workloads=TAINT, fault="hangs"))
            assert await stage.until(lambda: stage.phase == Phase.POWERING_OFF, 60)
            async with operator(stage, "c"):
                assert await end(stage) == []
                assert holders(stage).of_node(VICTIM) == "c"
                assert seen == ["a", "a", "a"]
                assert cycled(stage, VICTIM) == [False, True]

    play(scene, nodes=THREE_NODES)


@pytest.mark.parametrize("is_control_plane", [False, True])
def test_the_machine_under_a_replica_is_switched_off_by_another_one(is_control_plane: bool) -> None:
    """Its kubelet hangs, which the replica on it does not feel. Of the control plane, whoever admits has let it begin."""

    async def scene(stage: Stage) -> None:
        async with AsyncExitStack() as stack:
            lives = {
                name: await stack.enter_async_context(operator(stage, name, node_name=under[name])) for name in NAMES
            }
            await seconds(SETTLED_SECONDS)
            assert holders(stage).of_node(under["a"]) == "a"
            for node in under.values() if is_control_plane else ():
                await stage.person.patch(NODES.at(node), Merge({"metadata": {"labels": {CONTROL_PLANE: ""}}}))
            stage.hollow.nodes[under["a"]].hang()
            await seconds(stage.pace.down_seconds)
            await order(stage, under["a"])
            assert await stage.until(lambda: cycled(stage, under["a"]) == [False, True], 600)
            assert await stage.until(lambda: phase_of(stage, under["a"]) == Phase.CLOSED, 120)
            assert not [deed for deed in lives["a"].deeds if deed.startswith("power")]
            assert await stage.until(lambda: set(holders(stage).shares) == set(NAMES), 200), "it comes back"

    under = {"a": "n3", "b": "n2", "c": "n1"}
    play(scene)

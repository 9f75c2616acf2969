"""Bad days of clusters whose nodes take themselves down: nobody is counted as dead that lives. `make soak` has more."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from defib.agent.asking import ANSWER_SECONDS
from defib.decide.fencing.policy import read_self_fence
from defib.kube.client import Merge
from defib.kube.kinds import LEASES
from defib.model.power_cycle import Policy
from defib.model.self_fence import ORDER, Order, Pace, lease_name, text_of
from defib.simulate.virtual_time import VirtualClock
from tests.simulation.coverage import missed
from tests.simulation.faults import Trouble
from tests.simulation.furniture import furniture
from tests.simulation.history import OnNode
from tests.simulation.many import Days, live_all
from tests.simulation.runs import SELF_FENCE, drawn_for
from tests.simulation.self_fence.guarded import BY_ILL_AGENT, BY_ORDER, BY_SILENCE, GuardedNodes
from tests.simulation.self_fence.guarding import QUICK, SLOW, USUAL, Guarding
from tests.simulation.self_fence.machines import BOOTED, IN_VAIN, LOST_POWER
from tests.simulation.self_fence.network import API, Network, TalkingLoop
from tests.simulation.self_fence.reached import SOMETIMES
from tests.simulation.self_fence.troubles import links_of
from tests.simulation.shape import HOME, SELF, Shape
from tests.simulation.shrinking import Shrunk
from tests.simulation.world import World

ROOT = Path(__file__).parents[2]
RARE_WITHIN = 100  # days, in which everything is reached that must be
PARTS, SEEDS_OF_A_PART = 10, 10  # of the days after those; parts, so that all cores have something to do
MANY = max(SOMETIMES)


@pytest.mark.timeout(600)
def test_on_the_first_days_everything_that_is_rare_comes_to_pass_and_no_invariant_breaks() -> None:
    days = Days()
    for some in live_all(range(1, RARE_WITHIN + 1), jobs=1, shrinks=False, series=SELF_FENCE):
        days += some
        if not missed(days.reached, MANY, SOMETIMES):
            break
    assert [str(bad) for bad in days.bad] == []
    assert missed(days.reached, MANY, SOMETIMES) == ()


@pytest.mark.timeout(200)
@pytest.mark.parametrize("part", range(PARTS))
def test_on_bad_days_no_invariant_breaks(part: int) -> None:
    first = RARE_WITHIN + 1 + part * SEEDS_OF_A_PART
    seeds = range(first, first + SEEDS_OF_A_PART)
    days = sum(live_all(seeds, jobs=1, shrinks=False, series=SELF_FENCE), Days())
    assert [str(bad) for bad in days.bad] == []


@pytest.mark.timeout(90)
def test_a_seed_gives_the_same_history_byte_for_byte_however_strings_are_hashed() -> None:
    def told(hashed_by: str) -> bytes:
        command = (sys.executable, "-m", "tests.simulation", "--series", SELF_FENCE, "--seed", "3")
        env = {"PYTHONHASHSEED": hashed_by, "PYTHONPATH": f"{ROOT}/src:{ROOT}"}
        return subprocess.run(command, capture_output=True, check=True, cwd=ROOT, env=env, timeout=40).stdout

    history = told("1")
    assert history.splitlines()[-1].startswith(b"history ")
    assert history == told("2")


def test_a_day_of_this_series_is_replayed_by_a_command_that_names_it() -> None:
    command = Shrunk(7, (0,), series=SELF_FENCE).command
    assert command == "python -m tests.simulation --series self-fence --seed 7 --only '0'"


def test_whatever_is_drawn_the_operator_understands_it() -> None:
    for seed in range(1, 60):
        shape, _ = drawn_for(seed, SELF_FENCE)
        templates = [item for resource, item in furniture(shape) if resource.startswith(SELF.lower())]
        assert [type(read_self_fence(item["spec"]["template"]["spec"])) for item in templates] == [Policy]


# The nodes themselves, without an operator


def a_shape(split: str = "abc", **guarding: object) -> Shape:
    shape, _ = drawn_for(1, SELF_FENCE)
    own = Guarding(**guarding)  # type: ignore[arg-type]  # whatever a test wants
    return Shape(**{name: getattr(shape, name) for name in shape.__struct_fields__} | _cluster(split, own))


def _cluster(split: str, guarding: Guarding) -> dict[str, object]:
    return {"nodes": len(split), "zones": len(set(split)), "split": split, "guarding": guarding, "ladder": (SELF,)}


class Room:
    """A cluster with agents, in which nobody gives orders but a test."""

    def __init__(self, world: World) -> None:
        assert world.guarded is not None
        self.world = world
        self.nodes: GuardedNodes = world.guarded

    async def order(self, node: str, boot_id: str | None = None) -> None:
        text = text_of(Order(remediation="x", boot_id=boot_id or self.nodes[node].node.boot_id))
        ref = LEASES.at(lease_name(node), HOME)
        await self.world.person.patch(ref, Merge({"metadata": {"annotations": {ORDER: text}}}))

    def cut(self, what: str, node: str) -> Trouble:
        trouble = Trouble(layer="network", what=what, whom=node, at=0.0, seconds=0.0)
        self.nodes.cut(links_of(trouble, self.world.shape))
        return trouble

    def told(self) -> list[tuple[str, str]]:
        """What became of machines after they had started."""
        found = [entry for entry in self.world.history.entries if isinstance(entry, OnNode) and entry.at > 0]
        return [(entry.node, entry.what) for entry in found]


def play(shape: Shape, scenario: Callable[[Room], Awaitable[None]]) -> list[tuple[str, str]]:
    async def main() -> list[tuple[str, str]]:
        room = Room(World(VirtualClock(loop), loop, shape))
        async with asyncio.TaskGroup() as group:
            cluster = group.create_task(room.world.cluster.run())
            room.nodes.live_in(group, shape.zone_of)
            await asyncio.sleep(15)  # virtual: all have armed their watchdogs
            await scenario(room)
            cluster.cancel()
            for one in room.nodes.values():
                one.agent.end()
            await asyncio.sleep(ANSWER_SECONDS)  # virtual: nobody asks any more
        return room.told()

    loop = TalkingLoop(timedelta(hours=1))
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main())


def test_a_calm_cluster_lives() -> None:
    async def scenario(_: Room) -> None:
        await asyncio.sleep(300)  # virtual

    assert play(a_shape(), scenario) == []


def test_a_node_that_reads_its_order_is_reset_and_starts_as_another_boot() -> None:
    async def scenario(room: Room) -> None:
        before = room.nodes["n2"].node.boot_id
        await room.order("n2")
        await asyncio.sleep(60)  # virtual
        assert room.nodes["n2"].node.boot_id != before
        assert room.nodes["n2"].node.is_up

    assert play(a_shape(), scenario) == [("n2", BY_ORDER), ("n2", BOOTED)]


def test_an_order_for_another_boot_harms_nobody() -> None:
    async def scenario(room: Room) -> None:
        await room.order("n2", "another")
        await asyncio.sleep(60)  # virtual

    assert play(a_shape(), scenario) == []


def test_a_node_that_hears_nobody_is_reset_and_the_others_live() -> None:
    async def scenario(room: Room) -> None:
        room.cut("is isolated", "n1")
        await asyncio.sleep(QUICK.patience_seconds + 6 + 4)  # virtual: patience, its watchdog, and the reset

    assert play(a_shape(), scenario)[0] == ("n1", BY_SILENCE)


def test_a_node_that_hears_its_peers_lives_without_the_api_server() -> None:
    async def scenario(room: Room) -> None:
        room.cut("is cut off from the API server", "n1")
        await asyncio.sleep(200)  # virtual

    assert play(a_shape(), scenario) == []


def test_a_node_is_told_of_its_order_by_its_peers() -> None:
    async def scenario(room: Room) -> None:
        room.cut("is cut off from the API server", "n1")
        await asyncio.sleep(60)  # virtual
        await room.order("n1")
        await asyncio.sleep(40)  # virtual

    assert play(a_shape(), scenario)[0] == ("n1", BY_ORDER)


def test_when_answers_of_peers_are_lost_on_their_way_a_node_is_as_good_as_alone() -> None:
    async def scenario(room: Room) -> None:
        room.cut("is cut off from the API server", "n1")
        room.nodes.cut([("n2", "n1"), ("n3", "n1")])
        await asyncio.sleep(40)  # virtual

    assert play(a_shape(), scenario)[0] == ("n1", BY_SILENCE)


@pytest.mark.parametrize("paces", [(QUICK,), (QUICK, SLOW), (QUICK, SLOW, SLOW), (SLOW, SLOW, USUAL, SLOW, QUICK)])
def test_when_the_api_server_is_down_for_all_nobody_dies(paces: tuple[Pace, ...]) -> None:
    """Not those either who notice it long before the others do."""

    async def scenario(room: Room) -> None:
        await asyncio.sleep(60)  # virtual: also the slow ones know all others
        room.world.server.stop()
        await asyncio.sleep(200)  # virtual

    assert play(a_shape("aabbc", paces=paces), scenario) == []


def test_a_frozen_agent_takes_its_node_along_and_the_next_boot_has_another() -> None:
    async def scenario(room: Room) -> None:
        room.nodes["n3"].agent.freeze()
        await asyncio.sleep(60)  # virtual
        assert room.nodes["n3"].agent.calm_since < 75

    assert play(a_shape(), scenario) == [("n3", BY_ILL_AGENT), ("n3", BOOTED)]


def test_an_agent_that_was_killed_is_back_before_a_slow_watchdog_fires() -> None:
    async def scenario(room: Room) -> None:
        room.nodes["n3"].agent.kill()
        await asyncio.sleep(100)  # virtual

    assert play(a_shape(watchdog_seconds=40.0), scenario) == []


def test_an_agent_that_is_stopped_in_order_disarms_its_watchdog() -> None:
    async def scenario(room: Room) -> None:
        room.nodes["n3"].agent.stop()
        await asyncio.sleep(100)  # virtual

    assert play(a_shape(), scenario) == []


def test_a_broken_watchdog_lets_its_node_live() -> None:
    async def scenario(room: Room) -> None:
        await room.order("n1")
        await asyncio.sleep(100)  # virtual

    assert play(a_shape(broken=("n1",)), scenario) == [("n1", IN_VAIN)]


def test_a_watchdog_counts_by_the_clock_of_its_node() -> None:
    async def scenario(room: Room) -> None:
        room.nodes["n1"].agent.freeze()
        room.nodes["n2"].agent.freeze()
        await asyncio.sleep(55)  # virtual

    slow_and_fast = a_shape(watchdog_seconds=60.0, rates=(0.9, 1.1, 1.0))
    assert play(slow_and_fast, scenario)[0] == ("n2", BY_ILL_AGENT)
    assert ("n1", BY_ILL_AGENT) not in play(slow_and_fast, scenario)


def test_a_machine_without_a_cord_stays_off_whatever_its_watchdog_had_begun() -> None:
    async def scenario(room: Room) -> None:
        await room.order("n1")
        await asyncio.sleep(5)  # virtual
        room.nodes["n1"].pull_cord()
        await asyncio.sleep(60)  # virtual
        assert not room.nodes["n1"].node.is_on

    assert play(a_shape(), scenario) == [("n1", LOST_POWER)]


# The network


def test_a_link_has_one_direction_and_is_mended_as_often_as_it_was_cut() -> None:
    network = Network(lambda: 5.0)
    network.cut([("n1", API), ("n1", API)])
    assert not network.passes("n1", API)
    assert network.passes(API, "n1")
    network.mend([("n1", API)])
    assert not network.passes("n1", API)
    network.mend([("n1", API)])
    assert network.passes("n1", API)


def test_nodes_hear_each_other_since_the_last_link_between_them_was_mended() -> None:
    network = Network(lambda: 5.0)
    network.cut([("n1", "n2"), ("n1", API)])
    assert network.nodes_talk_since() == float("inf")
    network.mend([("n1", "n2")])
    assert network.nodes_talk_since() == 5.0


@pytest.mark.parametrize(
    ("what", "whom", "passing"),
    [
        ("is isolated", "n1", {("n2", "n3"), ("n2", API)}),
        ("is cut off from the API server", "n1", {("n1", "n2"), ("n2", API)}),
        ("gets no answers", "n1", {("n1", API), ("n1", "n2")}),
        ("is isolated with its zone", "n3", {("n3", "n4"), ("n1", API), ("n1", "n2")}),
        ("is cut off with its zone", "n3", {("n3", "n1"), ("n1", API)}),
        ("is split off with most zones", "n1", {("n1", "n2"), ("n3", API), ("n3", "n4")}),
    ],
)
def test_each_trouble_of_the_network_cuts_what_it_says_and_no_more(
    what: str, whom: str, passing: set[tuple[str, str]]
) -> None:
    links = links_of(Trouble(layer="network", what=what, whom=whom, at=0, seconds=1), a_shape("abccc"))
    assert links
    assert not links & passing

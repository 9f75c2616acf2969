"""What is drawn for a simulated day is legal, and what somebody does there is what they are said to do."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from random import Random

import msgspec
import pytest

from defib.decide.drains.reading import read_policy as read_drain_policy
from defib.decide.failover.reading import read_policy, read_wish
from defib.decide.fencing.policy import read_policy as read_power_cycle
from defib.decide.reading import read_check
from defib.decide.rules import FailoverRules
from defib.hollow.machine import Command
from defib.model import medik8s
from defib.model.drain_policy import Policy as DrainPolicy
from defib.model.failover_policy import Policy
from defib.model.health_check import Check, NodeHealthCheck
from defib.model.pod_failover import Wish
from defib.model.power_cycle import Policy as PowerCycle
from defib.simulate.virtual_time import VirtualClock
from tests.simulation import people, strangers
from tests.simulation.clocks import FASTEST, SLOWEST, Gait, OwnClock, draw_gaits
from tests.simulation.faults import EDITS, FIGHTS, WISHES
from tests.simulation.freezing import REPLICA, FreezingLoop, TimeStandsStill
from tests.simulation.furniture import furniture
from tests.simulation.shape import EXTRAS, HOME, Object, Shape, draw_shape, with_extras
from tests.simulation.sharing import LEADER_LOCK, LEASES, LeaseTimes, holder_for, lock_of
from tests.simulation.world import Reach, World

DAY = timedelta(hours=1)
ANSWERS = ("approves", "rejects")


def with_extra(name: str) -> Shape:
    """A cluster that can have it; by chance the first may not."""
    for seed in range(50):
        chance = Random(seed)
        usual = msgspec.structs.replace(draw_shape(chance), extras=())
        shape = with_extras(chance, usual, [name])
        if shape.extras:
            return shape
    pytest.fail(f"no cluster can have {name}")


@pytest.mark.parametrize("name", sorted(EXTRAS))
def test_whatever_few_clusters_have_the_operator_understands_it(name: str) -> None:
    shape = with_extra(name)
    read: dict[str, tuple[Callable[[Object], object], type]] = {
        medik8s.CHECKS: (lambda item: read_check(msgspec.convert(item, NodeHealthCheck)), Check),
        "podfailoverpolicies.defib.dev": (lambda item: read_policy(item["spec"], FailoverRules()), Policy),
        "drainpolicies.defib.dev": (lambda item: read_drain_policy(item["spec"]), DrainPolicy),
        "podfailoverremediationtemplates.defib.dev": (lambda item: read_wish(item["spec"]["template"]["spec"]), Wish),
        "powercycleremediationtemplates.defib.dev": (
            lambda item: read_power_cycle(item["spec"]["template"]["spec"], "n1"),
            PowerCycle,
        ),
    }
    for resource, item in furniture(shape):
        if resource in read:
            how, kind = read[resource]
            assert isinstance(how(item), kind), (resource, how(item))


def test_every_wish_edit_and_fight_that_can_be_drawn_is_something_that_is_done() -> None:
    assert {*WISHES, *EDITS, *ANSWERS} == people.ON_NODE.keys() | people.DEEDS.keys()
    assert set(FIGHTS) == strangers.DEEDS.keys()


def test_clocks_of_replicas_stay_within_the_rates_at_which_two_can_never_lead() -> None:
    gaits = draw_gaits(Random(1), 1000)
    assert all(SLOWEST <= gait.rate <= FASTEST for gait in gaits)
    assert FASTEST / SLOWEST < 1.5


def test_whoever_has_a_fast_clock_waits_for_less() -> None:
    async def waits() -> tuple[float, float, float]:
        true = VirtualClock(loop)
        own = OwnClock(true, Gait(1.25, 60.0))
        REPLICA.set("r0")
        began, mine = true.monotonic(), own.monotonic()
        await asyncio.sleep(10.0)  # virtual
        return true.monotonic() - began, own.monotonic() - mine, (own.now() - true.now()).total_seconds()

    loop = FreezingLoop(DAY)
    loop.rates["r0"] = 1.25
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        assert runner.run(waits()) == pytest.approx((8.0, 10.0, 60.0))


def a_lease(name: str, holder: str) -> Object:
    spec = {"holderIdentity": holder, "renewTime": "1999-01-01T00:00:00.000000Z", "leaseDurationSeconds": 15}
    return {"metadata": {"name": name, "namespace": HOME}, "spec": spec}


def in_world(shape: Shape) -> tuple[World, FreezingLoop]:
    loop = FreezingLoop(DAY)
    return World(VirtualClock(loop), loop, shape), loop


def test_a_lock_is_held_from_when_it_was_written_whatever_time_is_written_in_it() -> None:
    world, loop = in_world(with_extra("two checks"))
    times = LeaseTimes(world.clock)
    world.server.reactions.append(times.written)
    world.server.put(LEASES, a_lease(LEADER_LOCK, "r0-0"))
    assert times.leader == "r0-0"
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(asyncio.sleep(16.0))  # virtual
    assert times.leader == ""


def test_where_work_is_shared_a_node_is_the_business_of_whoever_has_its_bucket_or_admits() -> None:
    world, loop = in_world(with_extra("replicas share the work"))
    times = LeaseTimes(world.clock)
    world.server.reactions.append(times.written)
    world.server.put(LEASES, a_lease(lock_of("n1"), "r1-0"))
    world.server.put(LEASES, a_lease(lock_of("admission"), "r2-0"))
    assert holder_for(times, "r1-0", {"n1"}) == "r1-0"
    assert holder_for(times, "r2-0", {"n1"}) == "r2-0"
    assert holder_for(times, "r0-0", {"n1"}) == "r1-0"
    assert holder_for(times, "r0-0", set()) == ""
    loop.close()


def test_a_replica_that_is_cut_off_from_a_bmc_is_the_only_one_that_does_not_find_it() -> None:
    world, loop = in_world(with_extra("two checks"))
    cuts = {("r0", "n1")}
    assert Reach(world.machines, "r0", cuts).get("n1") is None
    assert Reach(world.machines, "r0", cuts)["n2"] is world.machines["n2"]
    assert Reach(world.machines, "r1", cuts)["n1"] is world.machines["n1"]
    loop.close()


def test_a_machine_does_what_it_was_told_although_whoever_told_it_is_frozen() -> None:
    world, loop = in_world(with_extra("two checks"))
    machine = world.machines["n1"]

    async def command() -> None:
        REPLICA.set("r0")
        machine.carry_out(Command.OFF)

    async def day() -> bool:
        async with asyncio.TaskGroup() as group:
            group.create_task(command())
        loop.freeze("r0")
        await asyncio.sleep(10.0)  # virtual
        return machine.is_on

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        assert not runner.run(day())


def test_a_day_on_which_somebody_tries_without_a_pause_ends_and_says_so() -> None:
    async def tries_for_ever() -> None:
        while True:  # noqa: ASYNC110  it is the mistake that is meant
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=lambda: FreezingLoop(DAY)) as runner, pytest.raises(TimeStandsStill, match="at 0"):
        runner.run(tries_for_ever())

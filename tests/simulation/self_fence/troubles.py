"""Makes happen what goes wrong with agents, their Leases, their machines and the links between them."""

from collections.abc import Awaitable, Callable, Iterator
from itertools import product

from defib.kube.client import Deletion, Merge
from defib.kube.kinds import LEASES
from defib.model.self_fence import ORDER, lease_name
from tests.simulation.faults import Trouble
from tests.simulation.self_fence.drawing import most_zones_with
from tests.simulation.self_fence.guarded import GuardedNodes
from tests.simulation.self_fence.network import API, Link
from tests.simulation.shape import HOME, Shape
from tests.simulation.world import World

Act = Callable[[World, Trouble], Awaitable[None]]


def links_of(trouble: Trouble, shape: Shape) -> frozenset[Link]:
    """Those that a trouble cuts."""
    node, others = trouble.whom, [name for name in shape.node_names if name != trouble.whom]
    zone = [name for name in shape.node_names if shape.zone_of(name) == shape.zone_of(node)]
    side = most_zones_with(node, shape)
    peer = others[int(trouble.number) % len(others)]
    cuts: dict[str, Callable[[], Iterator[Link]]] = {
        "is isolated": lambda: _between([node], [*others, API]),
        "is cut off from the API server": lambda: _between([node], [API]),
        "gets no answers": lambda: iter([(API, node)]),
        "does not hear a peer": lambda: iter([(peer, node)]),
        "is isolated with its zone": lambda: _between(zone, [API, *(name for name in others if name not in zone)]),
        "is cut off with its zone": lambda: _between(zone, [API]),
        "is split off with most zones": lambda: _between(side, [API, *(name for name in others if name not in side)]),
    }
    return frozenset(cuts[trouble.what]())


def _between(some: list[str], others: list[str]) -> Iterator[Link]:
    for one, other in product(some, others):
        yield one, other
        yield other, one


async def _cut(world: World, trouble: Trouble) -> None:
    _guarded(world).cut(links_of(trouble, world.shape))


async def _mend(world: World, trouble: Trouble) -> None:
    _guarded(world).mend(links_of(trouble, world.shape))


async def _harm_agent(world: World, trouble: Trouble) -> None:
    agent = _guarded(world)[trouble.whom].agent
    {"is killed": agent.kill, "is stopped": agent.stop, "freezes": agent.freeze}[trouble.what]()


async def _spare_agent(world: World, trouble: Trouble) -> None:
    if trouble.what == "freezes":
        _guarded(world)[trouble.whom].agent.thaw()


async def _harm_lease(world: World, trouble: Trouble) -> None:
    """By a person who means well, and knows no better."""
    ref = LEASES.at(lease_name(trouble.whom), HOME)
    if trouble.what == "is deleted":
        lease = await world.person.get(ref)
        await world.person.delete(ref, Deletion(uid=lease.uid))
    else:
        await world.person.patch(ref, Merge({"metadata": {"annotations": {ORDER: None}}}))


async def _harm_machine(world: World, trouble: Trouble) -> None:
    one = _guarded(world)[trouble.whom]
    if trouble.what == "loses power":
        one.pull_cord()
    else:
        one.hangs_on = True
        one.node.hang()


async def _mend_machine(world: World, trouble: Trouble) -> None:
    one = _guarded(world)[trouble.whom]
    if trouble.what == "loses power":
        one.put_cord_in()
    else:
        one.hangs_on = False
        one.node.resume()


async def _nothing(world: World, trouble: Trouble) -> None:
    """It was over at once."""
    del world, trouble


def _guarded(world: World) -> GuardedNodes:
    assert world.guarded is not None, "only such days have such troubles"
    return world.guarded


BEGIN: dict[str, Act] = {"network": _cut, "agent": _harm_agent, "lease": _harm_lease, "machine": _harm_machine}
END: dict[str, Act] = {"network": _mend, "agent": _spare_agent, "lease": _nothing, "machine": _mend_machine}

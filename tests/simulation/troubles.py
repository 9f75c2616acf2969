"""Makes the troubles of a schedule happen to a world, and takes them away again."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial

from defib.hollow import machine as bmc
from defib.kube.errors import KubeError
from defib.simulate import faults as wire
from tests.simulation.faults import SPANS, Trouble
from tests.simulation.people import MAINTENANCE, think_better, wish
from tests.simulation.replicas import Doom
from tests.simulation.self_fence import troubles as self_fence
from tests.simulation.shape import BROKEN
from tests.simulation.strangers import fight, give_in
from tests.simulation.world import World

__all__ = ["MAINTENANCE", "play"]

FROZEN_IN = ("/leases/node-", "switch", "/nodeincidents/", "")  # what it was about to do; nothing is anything
FROZEN_SECONDS = 50.0  # by then another one leads
CHANCE = 0.5  # of one request to be met, so that others get through and things half happen

Act = Callable[[World, Trouble], Awaitable[None]]


async def play(world: World, troubles: Iterable[Trouble]) -> None:
    """Returns when all of it is over and everything is mended."""
    deeds = [(one.at, number, one, begin) for number, one in enumerate(troubles)]
    deeds += [(one.ends, number, one, end) for _, number, one, _ in tuple(deeds)]
    for at, _, trouble, act in sorted(deeds, key=lambda deed: deed[:2]):
        await asyncio.sleep(max(at - world.clock.monotonic(), 0.0))
        world.history.happened(f"{'begins' if act is begin else 'ends'}: {trouble}")
        with suppress(KubeError):  # a person who is refused tries no harder
            await act(world, trouble)
    await asyncio.sleep(max(SPANS[world.shape.size].over - world.clock.monotonic(), 0.0))
    world.server.faults.clear()
    world.history.happened("all troubles are over")


async def begin(world: World, trouble: Trouble) -> None:
    await _BEGIN[trouble.layer](world, trouble)


async def end(world: World, trouble: Trouble) -> None:
    await _END[trouble.layer](world, trouble)


async def _fall_ill(world: World, trouble: Trouble) -> None:
    node, number = world.nodes[trouble.whom], trouble.number
    begins: dict[str, Callable[[], None]] = {
        "hangs": node.hang,
        "loses power": partial(node.machine.set_power, False),
        "is cut off": node.partition,
        "is cut off from the API server": partial(node.partition, from_api_only=True),
        "flaps": partial(node.flap, silent_seconds=20.0 + 10 * number, alive_seconds=5.0 + 5 * number),
        "is slow": partial(node.slow, number),
        "loses its disks": partial(_lose_disks, world, trouble.whom),
        "says it is not ready": partial(node.set_condition, "Ready", "False", "KubeletNotReady"),
        "reports a broken disk": partial(node.set_condition, BROKEN, "True", "Smart"),
    }
    begins[trouble.what]()
    for slot in world.slots_on(trouble.whom) if "cut off" in trouble.what else ():
        world.server.partition(slot)  # whoever runs there is cut off with it


async def _get_well(world: World, trouble: Trouble) -> None:
    node = world.nodes[trouble.whom]
    ends: dict[str, Callable[[], None]] = {
        "hangs": node.resume,
        "loses power": partial(node.machine.set_power, True),
        "is cut off": node.heal,
        "is cut off from the API server": node.heal,
        "flaps": node.steady,
        "is slow": partial(node.slow, 0.0),
        "loses its disks": partial(_find_disks, world, trouble.whom),
        "says it is not ready": partial(node.set_condition, "Ready", "True", "KubeletReady"),
        "reports a broken disk": partial(node.set_condition, BROKEN, "False", "Smart"),
    }
    ends[trouble.what]()
    for slot in world.slots_on(trouble.whom) if "cut off" in trouble.what else ():
        world.server.heal(slot)


def _lose_disks(world: World, node: str) -> None:
    for disk in world.cluster.disks:
        disk.fence(node)


def _find_disks(world: World, node: str) -> None:
    for disk in world.cluster.disks:
        disk.unfence(node)


def _wire_fault(trouble: Trouble, client: str) -> wire.Fault:
    number = trouble.number
    effects: dict[str, wire.RequestEffect | wire.WatchEffect] = {
        "requests are lost": wire.LoseRequest(),
        "answers are lost": wire.LoseAnswer(),
        "requests hang": wire.Hang(),
        "answers never come": wire.Hang(applied=True),
        "writes conflict": wire.Refuse(code=409),
        "the server fails": wire.Refuse(code=500),
        "too many requests": wire.Refuse(code=429, retry_after_seconds=1),
        "answers are slow": wire.Slow(seconds=number, jitter_seconds=1.0),
        "writes are slow": wire.Slow(seconds=2 * number, jitter_seconds=1.0),
        "lists are stale": wire.StaleRead(revisions=10 + int(number * 5)),
        "watches expire": wire.FailWatch(code=410, after=int(number)),
        "watches are cut": wire.CutWatch(after=int(number), mid_event=number > 5),
        "watches fall silent": wire.SilenceWatch(after=int(number)),
        "events come late": wire.LateEvents(seconds=number),
        "events are reordered": wire.ReorderEvents(window_seconds=number),
        "events come twice": wire.DuplicateEvents(),
    }
    writes = ("create", "update", "patch", "delete") if trouble.what.startswith("writes") else ()
    return wire.Fault(effect=effects[trouble.what], client=client, chance=CHANCE, verbs=writes)


async def _disturb(world: World, trouble: Trouble) -> None:
    world.wire_faults[trouble] = fault = _wire_fault(trouble, world.slot_of(trouble))
    world.server.faults.inject(fault)
    if trouble.layer == "stream":  # what is open already would never meet it
        for watch in world.server.watches.of(world.slot_of(trouble)):
            watch.cut()


async def _disturb_no_more(world: World, trouble: Trouble) -> None:
    world.server.faults.remove(world.wire_faults.pop(trouble))
    for watch in world.server.watches.of(world.slot_of(trouble)):
        watch.cut()


async def _upset_server(world: World, trouble: Trouble) -> None:
    match trouble.what:
        case "restarts":
            world.server.restart()
        case "is down":
            world.server.stop()
        case "forgets its history":
            world.server.compact()
            world.server.restart()


async def _calm_server(world: World, trouble: Trouble) -> None:
    if trouble.what == "is down":
        world.server.start()


async def _meet_fate(world: World, trouble: Trouble) -> None:
    slot = world.slot_of(trouble)
    replica = world.replicas.there[slot]
    match trouble.what:
        case "is cut off":
            world.server.partition(slot)
        case "reaches no BMC":
            world.out_of_reach |= {(slot, node) for node in world.nodes}
        case "freezes":
            world.loop.freeze(slot)
        case "dies":
            replica.kill()
        case "leaves":
            replica.leave()
        case "freezes in a deed":
            freeze = partial(world.loop.freeze, slot, FROZEN_SECONDS)
            replica.doom = Doom(replica.deeds + 1, words=FROZEN_IN[int(trouble.number) % len(FROZEN_IN)], freeze=freeze)
        case _:
            replica.doom = Doom(replica.deeds + 1 + int(trouble.number), after="after" in trouble.what)


async def _escape_fate(world: World, trouble: Trouble) -> None:
    slot = world.slot_of(trouble)
    match trouble.what:
        case "is cut off":
            world.server.heal(slot)
        case "reaches no BMC":
            world.out_of_reach -= {(slot, node) for node in world.nodes}
        case "freezes":
            world.loop.thaw(slot)
        case "freezes in a deed":
            world.replicas.there[slot].doom = Doom()


def _flaw(trouble: Trouble) -> bmc.Fault:
    flaws: dict[str, bmc.Fault] = {
        "hangs": bmc.Hangs(),
        "is out of reach": bmc.Unreachable(),
        "fails": bmc.Fails(),
        "talks nonsense": bmc.Garbage(),
        "has another password": bmc.WrongPassword(),
        "is slow": bmc.Slow(seconds=trouble.number),
        "ignores commands": bmc.IgnoresCommands(times=1 + int(trouble.number / 4)),
        "says it is off": bmc.Claims(on=False),
        "says it is on": bmc.Claims(on=True),
        "begins to say it is on": bmc.Claims(on=True),
    }
    return flaws[trouble.what]


async def _break_bmc(world: World, trouble: Trouble) -> None:
    board = world.nodes[trouble.whom].machine.bmc
    board.suffer(*board.faults, _flaw(trouble))


async def _mend_bmc(world: World, trouble: Trouble) -> None:
    """A liar stays one for as long as it was drawn to be."""
    board = world.nodes[trouble.whom].machine.bmc
    lies: list[bmc.Fault] = [fault for fault in board.faults if isinstance(fault, bmc.Claims)]
    if (flaw := _flaw(trouble)) in lies:
        lies.remove(flaw)
    board.suffer(*lies)


_BEGIN: dict[str, Act] = {
    "node": _fall_ill,
    "api": _disturb,
    "stream": _disturb,
    "server": _upset_server,
    "replica": _meet_fate,
    "bmc": _break_bmc,
    "person": wish,
    "stranger": fight,
    "bystander": _disturb,
    **self_fence.BEGIN,
}
_END: dict[str, Act] = {
    "node": _get_well,
    "api": _disturb_no_more,
    "stream": _disturb_no_more,
    "server": _calm_server,
    "replica": _escape_fate,
    "bmc": _mend_bmc,
    "person": think_better,
    "stranger": give_in,
    "bystander": _disturb_no_more,
    **self_fence.END,
}

"""Makes the troubles of a schedule happen to a world, and takes them away again."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial

from defib.hollow import machine as bmc
from defib.kube.client import Deletion, Merge
from defib.kube.errors import KubeError
from defib.kube.kinds import CONFIG_MAPS, LEASES, NODES, PODS, unstructured
from defib.model import medik8s
from defib.simulate import faults as wire
from tests.simulation.faults import OVER_SECONDS, Trouble
from tests.simulation.replicas import Doom
from tests.simulation.shape import HOME, SHOP
from tests.simulation.world import World

MAINTENANCE = "node-maintenance"
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
    await asyncio.sleep(max(OVER_SECONDS - world.clock.monotonic(), 0.0))
    world.server.faults.clear()
    world.history.happened("all troubles are over")


async def begin(world: World, trouble: Trouble) -> None:
    await _BEGIN[trouble.layer](world, trouble)


async def end(world: World, trouble: Trouble) -> None:
    await _END[trouble.layer](world, trouble)


async def _fall_ill(world: World, trouble: Trouble) -> None:
    node = world.nodes[trouble.whom]
    match trouble.what:
        case "hangs":
            node.hang()
        case "loses power":
            node.machine.set_power(False)
        case "is cut off":
            node.partition()
        case "is cut off from the API server":
            node.partition(from_api_only=True)
        case "flaps":
            node.flap(silent_seconds=20.0 + 10 * trouble.number, alive_seconds=5.0 + 5 * trouble.number)
        case "is slow":
            node.slow(trouble.number)


async def _get_well(world: World, trouble: Trouble) -> None:
    node = world.nodes[trouble.whom]
    match trouble.what:
        case "hangs":
            node.resume()
        case "loses power":
            node.machine.set_power(True)
        case "flaps":
            node.steady()
        case "is slow":
            node.slow(0.0)
        case _:
            node.heal()


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
        "lists are stale": wire.StaleRead(revisions=10 + int(number * 5)),
        "watches expire": wire.FailWatch(code=410, after=int(number)),
        "watches are cut": wire.CutWatch(after=int(number), mid_event=number > 5),
        "watches fall silent": wire.SilenceWatch(after=int(number)),
        "events come late": wire.LateEvents(seconds=number),
        "events are reordered": wire.ReorderEvents(window_seconds=number),
        "events come twice": wire.DuplicateEvents(),
    }
    writes = ("create", "update", "patch", "delete") if trouble.what == "writes conflict" else ()
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
        case "freezes":
            world.loop.thaw(slot)
        case "freezes in a deed":
            world.replicas.there[slot].doom = Doom()


async def _break_bmc(world: World, trouble: Trouble) -> None:
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
    }
    board = world.nodes[trouble.whom].machine.bmc
    board.suffer(*board.faults, flaws[trouble.what])


async def _mend_bmc(world: World, trouble: Trouble) -> None:
    """A liar stays one until the day is over."""
    board = world.nodes[trouble.whom].machine.bmc
    liar = board.fault(bmc.Claims)
    board.suffer(*([liar] if liar and trouble.seconds < OVER_SECONDS else []))


async def _wish(world: World, trouble: Trouble) -> None:
    person, node = world.person, NODES.at(trouble.whom)
    match trouble.what:
        case "cordons":
            await person.patch(node, Merge({"spec": {"unschedulable": True}}))
        case "excludes":
            await person.patch(node, Merge({"metadata": {"labels": {medik8s.EXCLUDED: "true"}}}))
        case "pulls the brake":
            await person.create(CONFIG_MAPS, {"metadata": {"name": "defib-brake"}}, namespace=HOME)
        case "takes the lock":
            await _take_lock(world, trouble)
        case "deletes a pod":
            await _delete_pod(world, trouble.whom)
        case "deletes the remediation":
            await _delete_remediations(world)


async def _take_lock(world: World, trouble: Trouble) -> None:
    """Only where nobody has it, as the tools of medik8s do."""
    now = f"{world.clock.now():%Y-%m-%dT%H:%M:%S.%fZ}"
    spec = {"holderIdentity": MAINTENANCE, "renewTime": now, "leaseDurationSeconds": max(int(trouble.seconds), 1)}
    body = {"metadata": {"name": medik8s.lock_of(trouble.whom)}, "spec": spec | {"acquireTime": now}}
    await world.person.create(LEASES, body, namespace=medik8s.LOCK_NAMESPACE)


async def _delete_pod(world: World, node: str) -> None:
    for pod in world.all("pods"):
        meta = pod["metadata"]
        if meta["namespace"] == SHOP and pod["spec"].get("nodeName") == node:
            await world.person.delete(PODS.at(meta["name"], SHOP), Deletion(uid=meta["uid"]))


async def _delete_remediations(world: World) -> None:
    for resource, item in world.remediations:
        plural = resource.partition(".")[0]
        kind = unstructured("defib.dev", "v1alpha1", plural, plural, namespaced=True)
        meta = item["metadata"]
        await world.person.delete(kind.at(meta["name"], meta["namespace"]), Deletion(uid=meta["uid"]))


async def _think_better(world: World, trouble: Trouble) -> None:
    person, node = world.person, NODES.at(trouble.whom)
    match trouble.what:
        case "cordons":
            await person.patch(node, Merge({"spec": {"unschedulable": None}}))
        case "excludes":
            await person.patch(node, Merge({"metadata": {"labels": {medik8s.EXCLUDED: None}}}))
        case "pulls the brake":
            brake = await person.get(CONFIG_MAPS.at("defib-brake", HOME))
            await person.delete(CONFIG_MAPS.of(brake), Deletion(uid=brake.uid))
        case "takes the lock":
            lock = await person.get(LEASES.at(medik8s.lock_of(trouble.whom), medik8s.LOCK_NAMESPACE))
            if lock.spec.holder_identity == MAINTENANCE:
                await person.delete(LEASES.of(lock), Deletion(uid=lock.uid))


_BEGIN: dict[str, Act] = {
    "node": _fall_ill,
    "api": _disturb,
    "stream": _disturb,
    "server": _upset_server,
    "replica": _meet_fate,
    "bmc": _break_bmc,
    "person": _wish,
}
_END: dict[str, Act] = {
    "node": _get_well,
    "api": _disturb_no_more,
    "stream": _disturb_no_more,
    "server": _calm_server,
    "replica": _escape_fate,
    "bmc": _mend_bmc,
    "person": _think_better,
}

"""A machine, its node, its incident and two replicas, as small as they can be: what they do by themselves, and time.

A tick is longer than a BMC may take to obey, and shorter than Defib waits for an off that may still be on its way. All
times are ticks ago, and what is older than it could matter is as old as it can matter.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from defib.decide.fencing.case import Case
from defib.decide.fencing.table import TRANSITIONS, Row
from defib.decide.fencing.work import work
from defib.model.action import Action
from defib.model.incident import Phase
from defib.model.power import PowerState
from defib.model.power_cycle import Policy
from tests.builders import SECOND
from tests.models.explore import Move

TICK = 25 * SECOND
POLICY = Policy(attempts=1, backoff=TICK, off_within=3 * TICK, free_within=TICK, on_within=3 * TICK, back_within=TICK)
SILENT = 2  # ticks without a heartbeat after which a node is no longer ready
LONGEST = 9  # what is as old as this counts as much older
FRESH = 1  # so old may be what something is freed by
BMCS = ("well", "says off", "says on", "ignores", "silent")
HUNG, DARK, WELL = (True, False), (False, False), (True, True)  # whether it is on, and its kubelet is heard
BEGINS = (HUNG, DARK, WELL)
ON, OFF, UNKNOWN = PowerState.ON, PowerState.OFF, PowerState.UNKNOWN


class Machine(NamedTuple):
    """With its node as the API server shows it. `runs`: its kubelet, and it is heard."""

    bmc: str
    is_on: bool = True
    runs: bool = False
    boot: int = 1
    off_by_us: bool = False  # and still is
    coming: tuple[tuple[bool, int], ...] = ()  # commands that are on their way, on or off, since when
    silent: int = SILENT
    shown_boot: int = 1
    is_tainted: bool = False
    has_pod: bool = True


class Record(NamedTuple):
    """What is written down in the incident."""

    phase: Phase = Phase.OPEN
    since: int = 0
    attempt: int = 1
    boot: int = 1
    was_off: bool = False
    seen_on: bool = False
    command: str = ""
    proof: bool = False
    is_tainted: bool = False


PROVED = Record(
    phase=Phase.FREEING, boot=0, seen_on=True, command=PowerState.OFF.value, proof=True, is_tainted=True
)  # before it was started anew


class Seen(NamedTuple):
    """A reading, when, and whether the last heartbeat that was known then still is the last one."""

    state: PowerState
    ago: int
    is_same: bool = True


class Replica(NamedTuple):
    sent: tuple[PowerState, int] | None = None
    looks: tuple[Seen, ...] = ()  # the last two: no more are ever compared
    plan: tuple["Deed", ...] = ()
    plan_ago: int = 0


class Deed(NamedTuple):
    what: str
    power: PowerState = UNKNOWN
    record: Record | None = None


READ = Deed("reads")


class World(NamedTuple):
    machine: Machine
    record: Record = Record()
    replicas: tuple[Replica, Replica] = (Replica(), Replica())
    leads: int = 0
    is_wanted: bool = True
    troubles: int = 0
    freed_while_on: bool = False


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """How it is done. Whatever differs from the default is a mistake that somebody could make."""

    rows: tuple[Row, ...] = TRANSITIONS
    troubles: int = 1  # crashes, changes of the leader, hangs and withdrawals, all in all
    bmcs: tuple[str, ...] = BMCS
    begins: tuple[tuple[bool, bool], ...] = BEGINS
    needs_mandate: bool = True  # looked at once more before a command is sent
    compares: bool = True  # the record is written only onto the version that was seen
    needs_proof: bool = True  # looked at, live, before anything is freed
    policy: Policy = POLICY
    works: Callable[[Case], tuple[Action, ...]] = work
    is_restored: bool = False  # it begins with a record from a backup, in which it is proved to be down
    slow: int = 0  # so many ticks old a plan may be when it is carried out
    late: int = 1  # so many ticks a command may be on its way


def is_compared(plan: tuple[Deed, ...]) -> bool:
    return bool(plan) and plan[0].what in ("enters", "writes down")


def is_open(world: World) -> bool:
    return world.record.phase is not Phase.CLOSED


def with_replica(world: World, place: int, one: Replica) -> World:
    first, second = world.replicas
    return world._replace(replicas=(one, second) if place == 0 else (first, one))


def reads(machine: Machine) -> PowerState:
    says = {"says off": OFF, "says on": ON, "silent": UNKNOWN}
    return says.get(machine.bmc, ON if machine.is_on else OFF)


# What the machine does by itself


def of_machine(world: World) -> Iterator[Move[World]]:
    machine = world.machine
    for command in machine.coming:
        left = tuple(one for one in machine.coming if one != command)
        yield Move(
            f"it goes {'on' if command[0] else 'off'}", _switched(world, machine._replace(coming=left), command[0])
        )
    if machine.is_on and not machine.runs:
        beating = machine._replace(runs=True, silent=0, shown_boot=machine.boot)
        yield Move("its kubelet runs", _heard(world._replace(machine=beating)))


def _switched(world: World, machine: Machine, on: bool) -> World:
    if on == machine.is_on:
        return world._replace(machine=machine)
    boot = max(machine.boot, machine.shown_boot, world.record.boot) + 1 if on else machine.boot
    return world._replace(machine=machine._replace(is_on=on, runs=False, boot=boot, off_by_us=not on))


def _heard(world: World) -> World:
    """A heartbeat: what was read before it was read before it."""
    first, second = (
        one._replace(looks=tuple(look._replace(is_same=False) for look in one.looks)) for one in world.replicas
    )
    return world._replace(replicas=(first, second))


# Time

_LIMITS = {
    Phase.LOOKING: 3,
    Phase.TESTING: 3,
    Phase.POWERING_OFF: 3,
    Phase.FREEING: 1,
    Phase.POWERING_ON: 3,
    Phase.RETURNING: 1,
    Phase.RESTORING: 1,
    Phase.RESTING: 4,
    Phase.CANCELLING: 6,
}  # in ticks, as the policy has them
LONG_ENOUGH = 5  # for everything that a person's incident waits for


def time_passes(world: World, way: Way) -> Iterator[Move[World]]:
    """What takes longer than a tick is given up before it is done. Whoever leads comes in time for a deadline."""
    record, machine = world.record, world.machine
    limit = _LIMITS.get(record.phase)
    if (limit is not None and record.since >= limit) or any(ago >= way.late for _, ago in machine.coming):
        return
    held = world.replicas if way.needs_mandate else (world.replicas[world.leads],)
    if any(one.plan and one.plan_ago >= way.slow for one in held):
        return
    coming = tuple(sorted((on, ago + 1) for on, ago in machine.coming))
    silent = 0 if machine.runs else min(machine.silent + 1, SILENT)
    first, second = (_older(one) for one in world.replicas)
    world = world._replace(
        machine=machine._replace(coming=coming, silent=silent),
        record=_older_record(record),
        replicas=(first, second),
    )
    yield Move("a tick", _heard(world) if machine.runs else world)


def _older_record(record: Record) -> Record:
    if record.phase in (Phase.OPEN, Phase.CLOSED):
        return record
    return record._replace(since=min(record.since + 1, LONG_ENOUGH if record.phase not in _LIMITS else LONGEST))


def _older(one: Replica) -> Replica:
    return one._replace(
        sent=(one.sent[0], min(one.sent[1] + 1, LONGEST)) if one.sent is not None else None,
        looks=tuple(look._replace(ago=min(look.ago + 1, LONGEST)) for look in one.looks),
        plan=tuple(
            deed._replace(record=_older_record(deed.record)) if deed.record is not None else deed for deed in one.plan
        ),
        plan_ago=min(one.plan_ago + 1, 1) if one.plan else 0,
    )


def tidy(world: World) -> World:
    """The same world, with its boots numbered anew; of what is over nobody remembers anything."""
    boots: dict[int, int] = {}
    machine, record = world.machine, world.record
    planned = [deed.record for one in world.replicas for deed in one.plan if deed.record is not None]
    for boot in (machine.boot, machine.shown_boot, record.boot, *(one.boot for one in planned)):
        boots.setdefault(boot, len(boots) + 1)
    first, second = (_tidied(one, record, boots) for one in world.replicas)
    return world._replace(
        machine=machine._replace(boot=boots[machine.boot], shown_boot=boots[machine.shown_boot]),
        record=record._replace(boot=boots[record.boot]),
        replicas=(first, second),
    )


def _tidied(one: Replica, record: Record, boots: dict[int, int]) -> Replica:
    """What was sent before this phase is forgotten: nobody asks for it. So is what was read, but for its last."""
    if record.phase is Phase.CLOSED:
        return Replica()
    plan = tuple(
        deed._replace(record=deed.record._replace(boot=boots[deed.record.boot])) if deed.record is not None else deed
        for deed in one.plan
    )
    sent = one.sent if one.sent is not None and one.sent[1] <= record.since else None
    looks = tuple(
        look if look.ago <= max(record.since, FRESH) else look._replace(ago=LONGEST)
        for place, look in enumerate(one.looks)
        if look.ago <= record.since or (place == len(one.looks) - 1 and record.phase is Phase.FREEING)
    )
    return Replica(sent, looks, plan, one.plan_ago if plan else 0)

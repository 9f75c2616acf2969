"""One machine, its node, its incident and two replicas: every order of looks, writes, commands, crashes and ticks.

What to do is decided by the real table and the real work of `decide.fencing`, from real values that are made of a small
state (`machine_room`).

Whoever leads plans on what it sees, and does that later, deed by deed: what it saw may be old by then. When it is killed,
or another one leads, the rest is not done; but one write that is on its way may still arrive, and is compared.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import lru_cache
from typing import Any

from defib.decide.fencing.case import Case
from defib.decide.fencing.table import Row
from defib.model.action import FreePod, ReadPower, SwitchPower, TaintNode, UntaintNode
from defib.model.incident import Phase
from defib.model.power import Look, PowerSeen, PowerState, Reading, Sent
from defib.model.power_cycle import Policy
from tests.builders import SECOND, T0, a_node
from tests.models.explore import Model, Move
from tests.models.machine_room import (
    LONGEST,
    OFF,
    ON,
    PROVED,
    READ,
    SILENT,
    TICK,
    UNKNOWN,
    Deed,
    Machine,
    Record,
    Replica,
    Seen,
    Way,
    World,
    is_compared,
    is_open,
    of_machine,
    reads,
    tidy,
    time_passes,
    with_replica,
)
from tests.unit.decide.fencing import cases


def model(way: Way) -> Model[World]:
    begins = tuple(
        World(
            Machine(bmc, is_on, runs, silent=0 if runs else SILENT, shown_boot=0 if way.is_restored else 1),
            PROVED if way.is_restored else Record(),
            troubles=way.troubles,
        )
        for bmc in way.bmcs
        for is_on, runs in way.begins
    )
    return Model(begins=begins, moves=_Moves(way), wrong=wrong, is_good=is_good)


def wrong(world: World) -> str:
    machine = world.machine
    if world.freed_while_on:
        return "its workloads were freed while it was on"
    is_over = world.record.phase is Phase.CLOSED and not machine.coming
    if is_over and machine.off_by_us and machine.bmc != "says on":  # that one could tell us anything
        return "we switched it off, and nobody cares any more"
    return ""


def is_good(world: World) -> bool:
    return world.record.phase in (Phase.CLOSED, Phase.NEEDS_PERSON)


# What is decided


def case_of(record: Record, machine: Machine, replica: Replica, is_wanted: bool, policy: Policy) -> Case:
    """Real values, of which the table and the work can ask what they like. Now is always T0."""
    node = a_node("n1", ready="True" if machine.silent < SILENT else "Unknown", boot=f"boot-{machine.shown_boot}")
    heartbeat = T0 - machine.silent * TICK
    look = cases.a_look(
        node=cases.tainted(node) if machine.is_tainted else node,
        heartbeat=heartbeat,
        pods=[cases.a_pod()] if machine.has_pod else [],
    )
    looks = tuple(
        Look(Reading(one.state, _moment(one.ago)), heartbeat if one.is_same else heartbeat - SECOND)
        for one in replica.looks
    )
    sent = Sent(replica.sent[0], _moment(replica.sent[1])) if replica.sent is not None else None
    return cases.a_case(
        record.phase,
        cluster=look,
        seen=PowerSeen(looks=looks, sent=sent),
        order=cases.an_order(policy=policy, withdrawn="" if is_wanted else "it is gone"),
        since=_moment(record.since),
        attempt=record.attempt,
        boot_id=f"boot-{record.boot}",
        was_off=record.was_off,
        seen_on=cases.SEEN_ON if record.seen_on else None,
        command=cases.a_command(PowerState(record.command)) if record.command else None,
        proof=cases.PROOF if record.proof else None,
        tainted=record.is_tainted,
    )


def _moment(ago: int) -> datetime:
    return T0 - (ago if ago < LONGEST else 2 * LONGEST) * TICK


def _planned(way: Way, case: Case, record: Record) -> tuple[Deed, ...]:
    """The next row, or the work of the phase."""
    row = next((one for one in way.rows if one.source is record.phase and one.when(case)), None)
    if row is not None:
        return (Deed("enters", record=_entered(record, row, row.also(case))),)
    deeds: list[Deed] = []
    for action in way.works(case):
        match action:
            case SwitchPower():
                deeds += [Deed("writes down", action.power), Deed("sends", action.power)]
            case ReadPower():
                deeds.append(READ)
            case TaintNode():
                deeds.append(Deed("taints"))
            case UntaintNode():
                deeds.append(Deed("untaints"))
            case FreePod():
                deeds.append(Deed("frees"))
            case _:
                raise AssertionError(f"nobody has thought of {action}")
    # A reading tells of the moment in which it is made: after something else it is made by the next plan.
    return tuple(deed for deed in deeds if deed is not READ) or tuple(deeds)


def _entered(record: Record, row: Row, also: dict[str, Any]) -> Record:
    return Record(
        phase=row.target,
        attempt=also.get("attempt", record.attempt),
        boot=int(also["boot_id"].removeprefix("boot-")) if "boot_id" in also else record.boot,
        was_off=also.get("was_off", record.was_off),
        seen_on=bool(also.get("seen_on", record.seen_on)),
        command=record.command,
        proof=bool(also.get("proof", record.proof)),
        is_tainted=also.get("tainted", record.is_tainted),
    )


class _Moves:
    def __init__(self, way: Way) -> None:
        self.way = way
        self._plan: Callable[[Record, Machine, Replica, bool], tuple[Deed, ...]] = lru_cache(maxsize=None)(
            lambda record, machine, replica, is_wanted: _planned(
                way, case_of(record, machine, replica, is_wanted, way.policy), record
            )
        )

    def __call__(self, world: World) -> Iterator[Move[World]]:
        for move in self._all(world):
            yield Move(move.name, tidy(move.to), move.is_trouble)

    def _all(self, world: World) -> Iterator[Move[World]]:
        yield from of_machine(world)
        yield from time_passes(world, self.way)
        for place in (0, 1):
            yield from self._of_replica(world, place)
        if world.troubles and is_open(world):
            less = world._replace(troubles=world.troubles - 1)
            if world.is_wanted:
                yield Move("it is withdrawn", less._replace(is_wanted=False), True)
            yield Move("another one leads", self._handed_over(less), True)
            yield Move("the leader is killed", with_replica(less, world.leads, Replica()), True)
            if world.machine.runs:
                yield Move("its kubelet hangs", less._replace(machine=world.machine._replace(runs=False)), True)

    def _of_replica(self, world: World, place: int) -> Iterator[Move[World]]:
        one, name = world.replicas[place], "ab"[place]
        leads = world.leads == place
        if not one.plan:
            plan = self._plan(world.record, _shown(world.machine), one, world.is_wanted) if leads else ()
            if plan == (READ,):
                looks = (*one.looks, Seen(reads(world.machine), 0))[-2:]
                yield Move(f"{name} reads", with_replica(world, place, one._replace(looks=looks)))
            elif plan:
                yield Move(f"{name} plans", with_replica(world, place, one._replace(plan=plan, plan_ago=0)))
            return
        deed = one.plan[0]
        rest = one._replace(plan=one.plan[1:] if leads or not self.way.needs_mandate else ())
        phase = f" {deed.record.phase}" if deed.record is not None else ""
        what = f"{name} {deed.what}{phase}" + (f" {deed.power.value}" if deed.power is not UNKNOWN else "")
        yield Move(what, self._done(with_replica(world, place, rest), place, deed))

    def _done(self, world: World, place: int, deed: Deed) -> World:
        match deed.what:
            case "enters":
                assert deed.record is not None
                return self._written(world, place, deed.record)
            case "writes down":
                if deed.power is OFF and not world.is_wanted:  # it is looked at once more, live
                    return with_replica(world, place, world.replicas[place]._replace(plan=()))
                return self._written(world, place, world.record._replace(command=deed.power.value))
            case "sends":
                return _sent(world, place, deed.power)
            case _:
                return self._on_node(world, deed.what)

    def _on_node(self, world: World, what: str) -> World:
        machine, record = world.machine, world.record
        if what == "untaints":
            return world._replace(machine=machine._replace(is_tainted=False))
        if self.way.needs_proof and not (record.phase is Phase.FREEING and record.proof):
            return world
        freed = machine._replace(is_tainted=True) if what == "taints" else machine._replace(has_pod=False)
        return world._replace(machine=freed, freed_while_on=machine.is_on)

    def _written(self, world: World, place: int, record: Record) -> World:
        """Whatever another one was about to write onto the version before this one is refused."""
        world, other = world._replace(record=record), world.replicas[1 - place]
        is_refused = self.way.compares and is_compared(other.plan)
        return with_replica(world, 1 - place, other._replace(plan=())) if is_refused else world

    def _handed_over(self, world: World) -> World:
        """What was begun ends with the mandate, but for what is on its way to be compared."""
        one = world.replicas[world.leads]
        plan = one.plan if is_compared(one.plan) or not self.way.needs_mandate else ()
        return with_replica(world, world.leads, one._replace(plan=plan))._replace(leads=1 - world.leads)


def _sent(world: World, place: int, power: PowerState) -> World:
    """What was read before says nothing about what comes of it. A silent BMC refuses."""
    one, machine = world.replicas[place], world.machine
    if machine.bmc == "silent":
        return world
    if machine.bmc in ("well", "says on"):
        coming = tuple(sorted({*machine.coming, (power is ON, 0)}))
        world = world._replace(machine=machine._replace(coming=coming))
    return with_replica(world, place, one._replace(sent=(power, 0), looks=()))


def _shown(machine: Machine) -> Machine:
    """What the API server knows of it."""
    return Machine(
        "",
        silent=machine.silent,
        shown_boot=machine.shown_boot,
        is_tainted=machine.is_tainted,
        has_pod=machine.has_pod,
    )

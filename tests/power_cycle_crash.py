"""One power cycle that is disturbed once: by the death of the operator, by somebody who withdraws it, or by both.

    told = play(Plot(way="hollow", workloads="DeleteNode", fault="hangs"), Disturbance(at=7))

Every plot ends in the same questions: is the machine on, is the node as it was, is nothing of ours left, was nothing
freed without a proof, and was the disk never written by two. An empty `told.left` is the answer that is wanted.
"""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import msgspec

from defib.hollow.machine import Command
from defib.model import medik8s
from defib.model.incident import Outcome, Phase
from defib.simulate.virtual_time import VirtualClock, run
from testbed.scenario.hollow_cluster import alongside
from tests.mortal_operator import Doom, Twist, nothing_else
from tests.power_cycle_stage import VICTIM, WAYS, Stage, Way, a_stage, ready_of, succeeded

FAULTS = ("hangs", "is cut off", "loses power")
ORDERED_BY = ("a person", "a check")
WORKLOADS = ("OutOfServiceTaint", "DeleteNode")
TWISTS = ("", "deleted", "timed out", "gone by force")
GONE_WITHIN = 60.0
LATE_SECONDS = 30.0
ANSWERS_WITHIN = 5.0


class Plot(msgspec.Struct, frozen=True, kw_only=True):
    way: str
    workloads: str
    fault: str
    ordered_by: str = "a person"

    def __str__(self) -> str:
        return f"{self.way}, {self.workloads}, {VICTIM} {self.fault}, by {self.ordered_by}"


class Disturbance(msgspec.Struct, frozen=True, kw_only=True):
    """With the deed of this number, or the first of this name, before or after it: the operator dies, unless it is
    spared, and a twist happens to the remediation. The next operator comes so much later.
    """

    at: float = math.inf
    words: str = ""
    after: bool = False
    twist: str = ""
    spares: bool = False
    rest_seconds: float = 0.0

    def __str__(self) -> str:
        who = "nobody dies" if self.spares else "the operator dies"
        what = f", the remediation is {self.twist}" if self.twist else ""
        when = "after" if self.after else "before"
        return f"{when} deed {self.words or self.at}: {who}{what}; {self.rest_seconds:g} s"


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """How it went. `was_struck` is false where the plot was over before the disturbance came."""

    was_struck: bool
    deeds: list[str]
    left: list[str]
    seconds: float


def play(plot: Plot, disturbance: Disturbance) -> Told:
    async def main(clock: VirtualClock) -> Told:
        async with a_stage(clock, metal3=plot.way == "metal3") as stage, served(stage, plot):
            return await _play(stage, plot, disturbance)

    return run(main, limit=timedelta(hours=4))


@asynccontextmanager
async def served(stage: Stage, plot: Plot) -> AsyncIterator[None]:
    """A person stands by, where one is needed."""
    async with alongside(*((stage.serve_by_hand(),) if WAYS[plot.way].by_hand else ())):
        yield


async def _play(stage: Stage, plot: Plot, disturbance: Disturbance) -> Told:
    await begin(stage, plot)
    doom = Doom(
        at=disturbance.at,
        words=disturbance.words,
        after=disturbance.after,
        twist=_twist(stage, disturbance.twist),
        spares=disturbance.spares,
    )
    return await live_through(stage, doom, withdraws=disturbance.twist != "", rest_seconds=disturbance.rest_seconds)


async def live_through(stage: Stage, doom: Doom, *, withdraws: bool = False, rest_seconds: float = 0.0) -> Told:
    """From the first operator to the end, and what is left then."""
    began = stage.clock.monotonic()
    bad: list[str] = []
    async with stage.operator(doom) as life:
        await stage.until(lambda: life.was_struck or stage.is_over)
        await stage.until(lambda: life.was_struck, ANSWERS_WITHIN)  # a fence agent may be the last to know
        ending = end_withdrawn if life.was_struck and withdraws else end
        if not life.is_dead:
            bad = await ending(stage)
    if life.is_dead:
        await asyncio.sleep(rest_seconds)  # nobody is there for a while
        async with stage.operator():
            bad = await ending(stage)
    return Told(
        was_struck=life.was_struck,
        deeds=life.deeds,
        left=[*bad, *stage.leftovers()],
        seconds=stage.clock.monotonic() - began,
    )


async def end(stage: Stage) -> list[str]:
    """What is wrong with how it went, once the machine has had its power cycle and nobody wants anything any more."""
    bad = [] if await stage.until(lambda: stage.is_over) else [f"it does not end: {stage.phase}, {stage.reason}"]
    await stage.calm()
    bad += [f"it has not succeeded: {item['status']}" for item in stage.remediations if succeeded(item) != "True"]
    incident = stage.incident or {"status": {}}
    if incident["status"].get("outcome") != Outcome.RECOVERED:
        bad.append(f"the incident's outcome is {incident['status'].get('outcome')}")
    return [*bad, *await _let_go(stage)]


async def end_withdrawn(stage: Stage) -> list[str]:
    """The same where somebody does not want it any more: what we switched off is on, by us; the rest others mend."""
    resting = ("", Phase.CLOSED, Phase.NEEDS_PERSON)
    bad = [] if await stage.until(lambda: stage.phase in resting) else [f"it does not end: {stage.phase}"]
    await stage.calm()
    machine = stage.machines[VICTIM]
    bad += ["a person is needed"] if stage.phase == Phase.NEEDS_PERSON and not stage.is_by_hand else []
    bad += ["the machine was left off"] if Command.OFF in machine.bmc.taken and not machine.is_on else []
    stage.mend()
    await stage.until(lambda: stage.phase in resting[:2] and ready_of(stage.node) == "True" and stage.pod_runs_on != "")
    await stage.calm()
    return [*bad, *await _let_go(stage)]


async def _let_go(stage: Stage) -> list[str]:
    """Whoever asked for it takes that back, and is not held up."""
    await stage.withdraw()
    gone = await stage.until(lambda: not stage.remediations, GONE_WITHIN)
    await stage.calm()
    return [] if gone else ["the remediation cannot be deleted"]


async def begin(stage: Stage, plot: Plot, way: Way | None = None) -> None:
    """The node has failed, everybody knows, and somebody has asked for a power cycle."""
    stage.fail(plot.fault)
    await asyncio.sleep(stage.pace.down_seconds)  # until everybody knows
    order = stage.order if plot.ordered_by == "a person" else stage.check
    await order(way or WAYS[plot.way], plot.workloads)


def _twist(stage: Stage, name: str) -> Twist:
    async def time_out() -> None:
        await stage.patch_remediations({"annotations": {medik8s.TIMED_OUT: "2030-01-01T00:00:00Z"}})

    async def tear_away() -> None:
        stage.is_torn = True
        await stage.withdraw()
        await stage.patch_remediations({"finalizers": None})

    return {"": nothing_else, "deleted": stage.withdraw, "timed out": time_out, "gone by force": tear_away}[name]


class Swept(msgspec.Struct, kw_only=True):
    """Many disturbances of one kind of power cycle, at one deed after the other until it is over before the next."""

    struck: int = 0
    bad: list[str] = []


def sweep(way: str, workloads: str, *, every: int = 1, twists: tuple[str, ...] = ("",)) -> Swept:
    """At each `every`-th deed. Faults, who ordered it, before and after, and how soon the next operator comes, in turn.

    A twist happens to an operator that lives on, and to one that dies, in turn. What a NodeHealthCheck wants it would
    want again, so only what a person wants is withdrawn.
    """
    swept = Swept()
    turn, number, missed = 0, 1, 0
    while missed < (len(FAULTS) * len(ORDERED_BY) if every == 1 else 2):  # some are over sooner than others
        for after in (False, True) if every == 1 else (turn % 2 == 1,):
            twist = twists[turn // 3 % len(twists)]
            ordered_by = ORDERED_BY[0] if twist else ORDERED_BY[turn // 3 % 2]
            plot = Plot(way=way, workloads=workloads, fault=FAULTS[turn % 3], ordered_by=ordered_by)
            disturbance = Disturbance(
                at=number,
                after=after,
                twist=twist,
                spares=twist != "" and turn // 2 % 2 == 1,
                rest_seconds=LATE_SECONDS if turn % 7 == 0 else 0.0,
            )
            told = play(plot, disturbance)
            swept.struck += told.was_struck
            swept.bad += [f"{plot}; {disturbance}: {left}" for left in told.left]
            missed = 0 if told.was_struck else missed + 1
            turn += 1
        number += every
    return swept

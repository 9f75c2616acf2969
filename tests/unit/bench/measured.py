"""Measurements of growth and of hearing that are good, to be made worse by whoever wants to see what is judged."""

from typing import Any

from tests.bench.growth import SIZES, Fallen, Growing, Step, failing_of, pace_of, verdicts
from tests.bench.heard import HASTY, HEARD, UNHEARD, Hearing
from tests.bench.heard import verdicts as verdicts_of_hearing
from tests.bench.results import Machine
from tests.bench.stretches import Stretch

MACHINE = Machine(cores=2, load=0.5, python="3.11", kubernetes="v1.37.1")


def a_stretch(**fields: Any) -> Stretch:
    usual: dict[str, Any] = {
        "seconds": 60.0,
        "cpu_seconds": 0.6,
        "requests": {"PATCH": 30, "WATCH": 12},
        "heartbeats": 30_000,
        "passes": 12,
        "asked": 0,
        "resident_mib": 80.0,
    }
    return Stretch(**usual | fields)


def a_fall(failing: int, **fields: Any) -> Fallen:
    usual: dict[str, Any] = {
        "failing": failing,
        "followed": failing,
        "strays": 0,
        "p50_seconds": 0.2,
        "p99_seconds": 0.4,
        "max_seconds": 0.5,
        "cpu_seconds": 0.1 + failing / 100,
        "requests": 7.0 * failing,
    }
    return Fallen(**usual | fields)


def a_step(nodes: int, **fields: Any) -> Step:
    usual: dict[str, Any] = {
        "nodes": nodes,
        "pace": pace_of(nodes),
        "start_seconds": 1.0 + nodes / 3_000,
        "start_cpu_seconds": 0.8 + nodes / 10_000,
        "rest": a_stretch(heartbeats=int(60 * pace_of(nodes)), resident_mib=60 + nodes / 100),
        "one": a_fall(1),
        "many": a_fall(failing_of(nodes)),
        "peak_mib": 70 + nodes / 80,
        "load": 0.5,
    }
    return Step(**usual | fields)


def the_steps(**largest: Any) -> list[Step]:
    """Of all sizes, with something else about the largest."""
    *smaller, last = SIZES
    return [*(a_step(nodes) for nodes in smaller), a_step(last, **largest)]


def a_growth(judged: bool = True) -> Growing:
    steps = the_steps()
    return Growing(judged=judged, steps=steps, verdicts=verdicts(steps))


def the_stretches(**hasty: Any) -> dict[str, Stretch]:
    unheard = a_stretch(cpu_seconds=0.1, heartbeats=0, resident_mib=70.0)
    return {UNHEARD: unheard, HEARD: a_stretch(), HASTY: a_stretch(**hasty)}


def a_hearing() -> Hearing:
    found = the_stretches()
    return Hearing(
        nodes=5_000,
        judged=True,
        load_before=0.5,
        load_after=1.5,
        pace=500.0,
        stretches=found,
        verdicts=verdicts_of_hearing(found, 500.0),
    )

"""Which remediations rate limits and flap damping remember: across restarts, and only while somebody counts."""

from datetime import datetime
from typing import Any

from defib.model.health_check import HISTORY_MAX
from tests.builders import HOUR, MINUTE, SECOND, T0
from tests.unit.decide.checks import (
    BAR_TEMPLATE,
    a_check,
    a_ladder,
    a_remediation,
    healthy,
    ill,
    plan_of,
    started,
    status_of,
    the_cluster,
)
from tests.unit.decide.world import World

RATE = {"rateLimit": {"remediations": 1, "per": "1h"}}


def remembered(world: World) -> list[tuple[str, datetime]]:
    return [(one.node, one.started) for one in world.status().history or ()]


def test_nothing_is_remembered_while_nobody_counts() -> None:
    world = World(a_check(), [ill("n1"), *healthy(2)])
    world.settle()
    assert world.status().history is None


def test_a_new_remediation_is_remembered_once() -> None:
    world = World(a_check(guards=RATE), [ill("n1"), *healthy(2)])
    world.wait(10 * MINUTE)
    assert remembered(world) == [("n1", T0)]


def test_the_steps_of_a_ladder_are_one_remediation() -> None:
    ladder = a_ladder(("foo", "60s"), ("bar", "60s", BAR_TEMPLATE))
    world = World(a_check(guards=RATE, escalatingRemediations=ladder), [ill("n1"), *healthy(2)])
    world.wait(10 * MINUTE)
    assert remembered(world) == [("n1", T0)]


def test_what_nobody_counts_any_more_is_forgotten() -> None:
    world = World(a_check(guards=RATE), [ill("n1"), *healthy(2)])
    world.settle()
    world.turn("n1", "True")
    world.settle()
    world.wait(HOUR)
    assert world.status().history is None


def test_what_is_in_flight_counts_even_if_the_status_was_never_written() -> None:
    foos = [a_remediation("n1", created=T0 - MINUTE)]
    plan = plan_of(the_cluster(a_check(guards=RATE), ill("n1"), ill("n2"), *healthy(3), foos=foos))
    assert started(plan) == []
    assert [(one.node, one.started) for one in status_of(plan).history or ()] == [("n1", T0 - MINUTE)]


def test_a_guard_that_is_removed_takes_its_memory_along() -> None:
    world = World(a_check(guards=RATE), [ill("n1"), *healthy(2)])
    world.settle()
    world.spec("workers", guards=None)
    world.settle()
    assert world.status().history is None


def test_the_longest_of_both_memories_is_kept() -> None:
    guards: dict[str, Any] = {
        "rateLimit": {"remediations": 5, "per": "1m"},
        "flapDamping": {"remediations": 5, "within": "2h"},
    }
    world = World(a_check(guards=guards), [ill("n1"), *healthy(2)])
    world.settle()
    world.turn("n1", "True")
    world.settle()
    world.wait(HOUR)
    world.put(ill("w1", since=world.now - HOUR))
    world.settle()
    assert [node for node, _ in remembered(world)] == ["n1", "w1"]


def test_the_memory_is_bounded_and_the_latest_stay() -> None:
    history = [
        {"node": f"n{place}", "started": f"{T0 - 50 * MINUTE + place * SECOND:%Y-%m-%dT%H:%M:%SZ}"}
        for place in range(HISTORY_MAX + 200)
    ]
    guards = {"rateLimit": {"remediations": 1000, "per": "1h"}}
    plan = plan_of(the_cluster(a_check(guards=guards, status={"history": history}), ill("x"), *healthy(2)))
    kept = status_of(plan).history or []
    assert started(plan) == []
    assert (len(kept), kept[-1].node) == (HISTORY_MAX, f"n{HISTORY_MAX + 199}")


def test_what_was_written_down_as_yet_to_come_did_not_happen() -> None:
    def plan(moment: str) -> list[str]:
        status = {"history": [{"node": "x", "started": moment}]}
        return started(plan_of(the_cluster(a_check(guards=RATE, status=status), ill("n1"), *healthy(5))))

    assert plan("2030-01-01T00:01:00Z") == []  # clocks differ a little
    assert plan("2030-01-01T00:01:01Z") == ["n1"]

"""Events: everything worth telling is told once, in the words of the status, and nothing is told twice."""

from typing import Any

import pytest

from defib.model import medik8s
from defib.model.action import Ended, TellEvent, WriteStatus
from tests.builders import HOUR, MINUTE, SECOND, T0
from tests.unit.decide.checks import (
    BAR_TEMPLATE,
    a_check,
    a_ladder,
    healthy,
    ill,
    node_of,
    of_type,
    plan_of,
    the_cluster,
    told,
)
from tests.unit.decide.world import World


def events(world: World, reason: str) -> list[TellEvent]:
    return [event for event in world.events if event.reason == reason]


def test_a_remediation_from_beginning_to_end_is_told_in_order() -> None:
    world = World(a_check(), [ill("n1"), *healthy(2)])
    world.settle()
    world.wait(5 * MINUTE)
    world.turn("n1", "True")
    world.settle()
    assert world.told() == ["Enabled", "DetectedUnhealthy", "RemediationCreated", "RemediationRemoved"]
    assert not any(event.is_warning for event in world.events)
    assert world.events[1].message == "node n1 is unhealthy: Ready is Unknown"
    assert world.events[2].message == "FooRemediation ns/n1 was created for node n1"


def test_an_event_is_about_the_check_and_has_its_time() -> None:
    (write,) = of_type(plan_of(the_cluster(a_check(), *healthy(2))), WriteStatus)
    (event,) = write.tells
    assert (event.check, event.uid, event.at) == ("workers", "uid-workers", T0)


def test_nothing_is_told_again_while_nothing_changes() -> None:
    world = World(a_check(minHealthy=3), [ill("n1"), ill("n2"), *healthy(2)])
    world.wait(6 * HOUR)
    assert sorted(world.told()) == ["DetectedUnhealthy", "DetectedUnhealthy", "Enabled", "RemediationSkipped"]


def test_nothing_is_told_that_was_not_written() -> None:
    """The status is the memory of what was told; a write that fails is told by the next one."""
    world = World(a_check(pauseRequests=["stop"]), [ill("n1"), *healthy(2)])
    first = world.decide()
    world.forget()
    second = world.decide()
    assert told(first) == told(second)


@pytest.mark.parametrize(
    ("spec", "warning"),
    [({"pauseRequests": ["stop"]}, False), ({"mode": "Observe"}, False), ({"minHealthy": "100%"}, True)],
)
def test_being_held_back_on_purpose_is_no_warning(spec: dict[str, Any], warning: bool) -> None:
    world = World(a_check(**spec), [ill("n1"), *healthy(2)])
    world.settle()
    (skipped,) = events(world, "RemediationSkipped")
    assert skipped.is_warning is warning


def test_status_and_event_say_the_same_sentence() -> None:
    world = World(a_check(), [ill("n1", labels={medik8s.EXCLUDED: "true"}), *healthy(2)])
    plan = world.settle()
    (skipped,) = events(world, "RemediationSkipped")
    assert skipped.message == f"node n1: {node_of(plan, 'n1').message}"


def test_the_next_reason_for_holding_a_node_back_is_told() -> None:
    world = World(a_check(), [ill("n1", labels={medik8s.EXCLUDED: "true"}), *healthy(2)])
    world.settle()
    world.label("n1", {})
    world.spec("workers", mode="Approve")
    world.settle()
    assert len(events(world, "RemediationSkipped")) == 2
    assert "approval" in events(world, "RemediationSkipped")[1].message


def test_a_ladder_tells_each_step() -> None:
    ladder = a_ladder(("foo", "60s"), ("bar", "60s", BAR_TEMPLATE))
    world = World(a_check(escalatingRemediations=ladder), [ill("n1"), *healthy(2)])
    world.wait(10 * MINUTE)
    assert world.told() == [
        "Enabled",
        "DetectedUnhealthy",
        "RemediationCreated",
        "RemediationTimedOut",
        "RemediationCreated",
        "RemediationTimedOut",
        "NoTemplateLeft",
    ]


def lived(world: World, passes: int = 4) -> list[Ended]:
    """What is said to be over in the next passes."""
    return [one for _ in range(passes) for write in of_type(world.step(), WriteStatus) for one in write.ended]


def test_a_status_after_a_remediation_says_how_long_it_took() -> None:
    world = World(a_check(), [ill("n1"), *healthy(2)])
    world.settle()
    world.now += 90 * SECOND
    world.turn("n1", "True")
    (one,) = lived(world)
    assert (one.node, one.namespace, one.kind, one.seconds) == ("n1", "ns", "FooRemediation", 90.0)


def test_the_end_of_a_remediation_is_counted_also_if_the_node_is_ill_again_by_then() -> None:
    world = World(a_check(), [ill("n1"), *healthy(2)], finalizers=True)
    world.settle()
    world.turn("n1", "True")
    assert lived(world) == []
    world.turn("n1", "Unknown")
    world.leave()
    assert [one.node for one in lived(world)] == ["n1"]
    world.turn("n1", "True")
    assert lived(world) == []

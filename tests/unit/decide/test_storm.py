"""Storms: too many nodes at once, then calm, then a cooldown, and only then something new."""

from typing import Any

import pytest

from tests.builders import HOUR, MINUTE, SECOND, T0
from tests.unit.decide.checks import a_check, after, gate_of, healthy, ill, node_of, plan_of, started, the_cluster
from tests.unit.decide.world import World


def calm(world: World, count: int) -> None:
    """So many of the failed nodes are ready again."""
    for place in range(count):
        world.turn(f"x{place}", "True")


def stormy(**spec: Any) -> World:
    """Of ten nodes, at least five must be healthy, and six have failed."""
    asked: dict[str, Any] = {"stormCooldownDuration": "10m", "minHealthy": 5} | spec
    return World(a_check(**asked), [*(ill(f"x{place}") for place in range(6)), *healthy(4)])


def is_true(world: World) -> tuple[bool, bool]:
    status = world.status()
    return status.is_true("StormActive"), status.is_true("StormCooldownActive")


def test_without_the_setting_there_are_no_storms() -> None:
    world = stormy(stormCooldownDuration=None)
    world.checks["workers"].spec.pop("stormCooldownDuration")
    world.settle()
    assert world.status().condition("StormActive") is None
    calm(world, 2)
    world.settle()
    assert len(world.in_flight()) == 4


def test_before_the_first_storm_nothing_is_said_about_storms() -> None:
    world = World(a_check(stormCooldownDuration="10m"), [ill("n1"), *healthy(3)])
    world.settle()
    assert world.status().condition("StormActive") is None
    assert world.in_flight() == {"n1"}


def test_a_storm_begins_when_the_threshold_is_broken() -> None:
    world = stormy()
    world.settle()
    assert is_true(world) == (True, False)
    assert not world.in_flight()
    assert world.told().count("StormRecoveryStarted") == 1
    active = world.status().condition("StormActive")
    assert active is not None
    assert active.reason == "HealthyNodeThresholdChange"


def test_after_a_storm_it_must_stay_calm_for_the_whole_cooldown() -> None:
    world = stormy()
    world.settle()
    calm(world, 2)
    plan = world.settle()
    assert is_true(world) == (True, True)
    assert world.told().count("StormRecoveryCooldownStarted") == 1
    assert node_of(plan, "x5").reason == "Storm"
    assert (gate_of(plan, "Storm").is_open, gate_of(plan, "Storm").limit) == (False, "00:10:00")
    world.wait(10 * MINUTE - SECOND)
    assert not world.in_flight()
    world.wait(2 * SECOND)
    assert is_true(world) == (False, False)
    assert world.in_flight() == {"x2", "x3", "x4", "x5"}
    assert world.told().count("StormRecoveryEnded") == 1


def test_a_second_storm_within_the_cooldown_starts_it_anew() -> None:
    world = stormy()
    world.settle()
    calm(world, 2)
    world.wait(5 * MINUTE)
    first = world.status().condition("StormCooldownActive")
    world.put(ill("x0"), ill("x1"))
    world.settle()
    assert is_true(world) == (True, False)
    world.wait(MINUTE)
    calm(world, 2)
    world.settle()
    second = world.status().condition("StormCooldownActive")
    assert first is not None
    assert second is not None
    assert (first.last_transition_time, second.last_transition_time) == (T0, T0 + 6 * MINUTE)
    world.wait(9 * MINUTE)
    assert not world.in_flight()
    world.wait(MINUTE + SECOND)
    assert world.in_flight()
    assert world.told().count("StormRecoveryStarted") == 1


def test_a_storm_ends_also_when_no_node_is_unhealthy_any_more() -> None:
    world = stormy()
    world.settle()
    calm(world, 6)
    assert world.settle().wake_at == T0 + 10 * MINUTE
    world.wait(10 * MINUTE + SECOND)
    assert is_true(world) == (False, False)
    assert world.told().count("StormRecoveryEnded") == 1
    world.now += 24 * HOUR
    world.put(ill("x0", since=world.now - HOUR))
    world.settle()
    assert world.in_flight() == {"x0"}


@pytest.mark.parametrize("calms", [False, True])
def test_a_setting_that_is_removed_ends_the_storm(calms: bool) -> None:
    world = stormy()
    world.settle()
    if calms:
        calm(world, 2)
        world.settle()
    world.spec("workers", stormCooldownDuration=None)
    world.settle()
    assert is_true(world) == (False, False)
    assert world.told().count("StormRecoveryEnded") == 1
    assert bool(world.in_flight()) == calms


def test_a_storm_survives_a_restart() -> None:
    world = stormy()
    world.settle()
    calm(world, 2)
    world.wait(5 * MINUTE)
    world.forget()
    world.wait(4 * MINUTE)
    assert not world.in_flight()
    world.forget()
    world.wait(MINUTE + SECOND)
    assert len(world.in_flight()) == 4


def test_a_storm_that_the_go_operator_has_recorded_goes_on() -> None:
    storm = [
        {"type": kind, "status": "True", "reason": "HealthyNodeThresholdChange", "lastTransitionTime": when}
        for kind, when in (("StormActive", "2029-12-31T23:40:00Z"), ("StormCooldownActive", "2029-12-31T23:55:00Z"))
    ]
    check = a_check(stormCooldownDuration="10m", status={"conditions": storm})
    world = World(check, [ill("n1"), *healthy(3)])
    world.wait(4 * MINUTE)
    assert not world.in_flight()
    world.wait(MINUTE + SECOND)
    assert world.in_flight() == {"n1"}
    assert "StormRecoveryStarted" not in world.told()


def test_a_cooldown_of_no_time_is_none() -> None:
    world = stormy(stormCooldownDuration="0s")
    world.settle()
    assert world.status().condition("StormActive") is None


def test_a_cooldown_that_began_in_the_future_begins_now() -> None:
    future = {"status": "True", "lastTransitionTime": "2999-01-01T00:00:00Z"}
    status = {"conditions": [{"type": kind} | future for kind in ("StormActive", "StormCooldownActive")]}
    cluster = the_cluster(a_check(stormCooldownDuration="1m", status=status), ill("n1"), *healthy(5))
    plan = plan_of(cluster)
    assert (node_of(plan, "n1").reason, gate_of(plan, "Storm").opens_at) == ("Storm", T0 + MINUTE)
    assert started(plan_of(after(cluster, plan, now=T0 + MINUTE))) == ["n1"]

"""Which nodes a check means, and from when on a node counts as unhealthy."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from defib.decide.census import take_census
from defib.decide.reading import read_check
from defib.model.health_check import Check
from defib.model.meta import Meta
from defib.model.node import Node
from defib.model.verdict import State
from tests.builders import HOUR, MINUTE, SECOND, T0, a_node
from tests.unit.decide.checks import (
    BAR_TEMPLATE,
    a_check,
    a_ladder,
    a_remediation,
    ended,
    healthy,
    ill,
    node_of,
    plan_of,
    showing,
    started,
    status_of,
    the_cluster,
)
from tests.unit.decide.world import World

INSTANT = timedelta(microseconds=1)
SINCE = T0 - timedelta(seconds=300)


@pytest.mark.parametrize(("late", "starts"), [(-SECOND, []), (timedelta(), []), (INSTANT, ["n1"])])
def test_a_node_is_unhealthy_strictly_after_its_deadline(late: timedelta, starts: list[str]) -> None:
    cluster = the_cluster(a_check(), ill("n1", since=SINCE - late), *healthy(2))
    assert started(plan_of(cluster)) == starts


def test_without_conditions_in_the_check_not_ready_for_five_minutes_is_unhealthy() -> None:
    nodes = [ill("no", ready="False", since=SINCE - SECOND), ill("unknown", since=SINCE - SECOND)]
    cluster = the_cluster(a_check(), *nodes, ill("soon", since=SINCE + SECOND), *healthy(3))
    assert started(plan_of(cluster)) == ["no", "unknown"]


def test_an_empty_list_of_conditions_means_that_nothing_is_ever_unhealthy() -> None:
    plan = plan_of(the_cluster(a_check(unhealthyConditions=[]), ill("n1"), *healthy(2)))
    assert (started(plan), status_of(plan).healthy_nodes, plan.wake_at) == ([], 3, None)


CUSTOM = [
    {"type": "Ready", "status": "Unknown", "duration": "10m"},
    {"type": "DiskBroken", "status": "True", "duration": "1m"},
]


def test_of_several_conditions_the_one_that_counts_first_makes_a_node_unhealthy() -> None:
    node = showing(ill("n1", since=T0 - MINUTE), "DiskBroken", "True", T0 - 2 * MINUTE)
    plan = plan_of(the_cluster(a_check(unhealthyConditions=CUSTOM), node, *healthy(2)))
    assert plan.actions[0].because.type == "DiskBroken"  # type: ignore[union-attr]


def test_while_no_condition_has_lasted_long_enough_the_check_wakes_for_the_first_that_will() -> None:
    node = showing(ill("n1", since=T0 - MINUTE), "DiskBroken", "True", T0 - 10 * SECOND)
    plan = plan_of(the_cluster(a_check(unhealthyConditions=CUSTOM), node, *healthy(2)))
    assert started(plan) == []
    assert plan.wake_at is not None
    assert T0 + 50 * SECOND < plan.wake_at < T0 + 51 * SECOND


def test_a_condition_that_the_node_does_not_have_says_nothing() -> None:
    node = Node(metadata=Meta(name="n1", uid="u", creation_timestamp=T0 - HOUR))
    plan = plan_of(the_cluster(a_check(), node))
    assert (started(plan), status_of(plan).healthy_nodes) == ([], 1)


def test_a_condition_without_a_time_has_lasted_since_the_node_was_made() -> None:
    node = msgspec.structs.replace(
        a_node("n1", ready="Unknown"), metadata=Meta(name="n1", uid="u", creation_timestamp=SINCE - SECOND)
    )
    assert started(plan_of(the_cluster(a_check(), node, *healthy(2)))) == ["n1"]


@pytest.mark.parametrize("year", [1, 1969, 9999])
def test_a_condition_from_outside_the_calendar_proves_nothing(year: int) -> None:
    plan = plan_of(the_cluster(a_check(), ill("n1", since=T0.replace(year=year)), *healthy(2)))
    assert started(plan) == []


def test_a_node_on_its_way_to_unhealthy_is_counted_on_neither_side() -> None:
    plan = plan_of(the_cluster(a_check(), ill("n1", since=T0 - MINUTE), *healthy(2)))
    status = status_of(plan)
    assert (status.observed_nodes, status.healthy_nodes, status.unhealthy_count) == (3, 2, 0)
    assert status.unhealthy_nodes is None
    assert plan.checks["workers"].verdicts["n1"].state is State.SUSPECT


def test_a_condition_that_changes_within_its_new_duration_keeps_the_remediation() -> None:
    cluster = the_cluster(
        a_check(), ill("n1", ready="False", since=T0 - SECOND), *healthy(2), foos=[a_remediation("n1")]
    )
    plan = plan_of(cluster)
    assert (started(plan), ended(plan)) == ([], [])
    assert node_of(plan, "n1").remediations


def test_a_node_that_is_only_on_its_way_does_not_climb_the_ladder() -> None:
    ladder = a_ladder(("foo", "60s"), ("bar", "60s", BAR_TEMPLATE))
    world = World(a_check(escalatingRemediations=ladder), [ill("n1"), *healthy(2)])
    world.settle()
    world.now += 30 * SECOND
    world.turn("n1", "False")
    world.wait(4 * MINUTE)
    assert not world.remediations("bars")
    assert "n1" in world.remediations("foos")
    world.wait(2 * MINUTE)
    assert "n1" in world.remediations("bars")


# Selection


def test_without_a_selector_every_node_is_meant() -> None:
    assert status_of(plan_of(the_cluster(a_check(), *healthy(3)))).observed_nodes == 3


def test_an_empty_selector_means_every_node() -> None:
    assert status_of(plan_of(the_cluster(a_check(selector={}), *healthy(3)))).observed_nodes == 3


def test_a_selector_means_the_nodes_that_it_selects() -> None:
    check = a_check(selector={"matchExpressions": [{"key": "control-plane", "operator": "DoesNotExist"}]})
    cluster = the_cluster(check, ill("cp", labels={"control-plane": ""}), ill("w1"), *healthy(2, "x"))
    plan = plan_of(cluster)
    assert started(plan) == ["w1"]
    assert status_of(plan).observed_nodes == 3


def test_a_node_that_gains_the_label_is_observed_from_then_on() -> None:
    world = World(a_check(selector={"matchLabels": {"pool": "a"}}), [*healthy(2, labels={"pool": "a"}), a_node("late")])
    world.settle()
    assert world.status().observed_nodes == 2
    world.label("late", {"pool": "a"})
    world.settle()
    assert world.status().observed_nodes == 3


# The census itself


def a_census_check(**spec: Any) -> Check:
    check = read_check(a_check(**spec))
    assert isinstance(check, Check)
    return check


def test_a_census_of_the_same_nodes_is_the_same_census() -> None:
    nodes = {"n1": ill("n1"), "n2": a_node("n2")}
    first = take_census(a_census_check(), nodes, None)
    assert take_census(a_census_check(), nodes, first) is first


def test_a_census_after_the_selector_has_changed_counts_anew() -> None:
    nodes = {"n1": ill("n1", labels={"pool": "a"}), "n2": a_node("n2")}
    first = take_census(a_census_check(), nodes, None)
    narrow = a_census_check(selector={"matchLabels": {"pool": "a"}})
    assert take_census(narrow, nodes, first).selected == {"n1"}


def test_a_census_that_counts_only_changes_says_the_same_as_one_that_counts_all() -> None:
    before = {"gone": ill("gone"), "ill": ill("ill"), "same": a_node("same"), "moved": a_node("moved")}
    after = {"ill": a_node("ill", version=2), "same": before["same"], "moved": ill("moved"), "new": ill("new")}
    check = a_census_check()
    assert take_census(check, after, take_census(check, before, None)) == take_census(check, after, None)

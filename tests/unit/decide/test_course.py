"""Up the ladder: which step a node is on, when the next one comes, and what a crash in between changes: nothing."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from defib.model import medik8s
from defib.model.action import HoldLock, MarkRemediation, ReleaseLock, StartRemediation, WriteStatus
from defib.model.health_check import NodeHealthCheck
from defib.model.meta import Unstructured
from tests.builders import HOUR, MINUTE, SECOND, T0
from tests.unit.decide.checks import (
    BAR,
    BAR_TEMPLATE,
    FOO,
    a_check,
    a_ladder,
    a_lock,
    a_remediation,
    a_template,
    after,
    healthy,
    ill,
    node_of,
    of_type,
    plan_of,
    started,
    template_ref,
    the_cluster,
    told,
)
from tests.unit.decide.world import World

TWO = a_ladder(("foo", "60s"), ("bar", "5m", BAR_TEMPLATE))
FOUR = a_ladder(("foo", "60s"), ("bar", "2m", BAR_TEMPLATE), ("many-1", "3m"), ("many-2", "4m"))
TEMPLATES = [a_template("foo", many=True), a_template("bar"), a_template("many-1", many=True)]
TEMPLATES.append(a_template("many-2", many=True, spec={"template": {"spec": {"size": 2}}}))
LOCK = "medik8s-leases/node-n1"


def made(world: World) -> list[tuple[float, str, str]]:
    """Which remediations were created, by the second."""
    return [
        (
            (item.metadata.creation_timestamp - T0).total_seconds(),
            str(item.kind),
            item.annotations[medik8s.TEMPLATE_NAME],
        )
        for items in (world.remediations("foos"), world.remediations("bars"))
        for item in items.values()
        if item.metadata.creation_timestamp
    ]


def climb(check: NodeHealthCheck) -> World:
    return World(check, [ill("n1"), *healthy(2)], templates=TEMPLATES)


def test_four_steps_follow_each_other_and_two_of_one_kind_are_two() -> None:
    world = climb(a_check(escalatingRemediations=FOUR))
    world.wait(15 * MINUTE)
    assert sorted(made(world)) == [
        (0, "FooRemediation", "foo"),
        (60, "BarRemediation", "bar"),
        (180, "FooRemediation", "many-1"),
        (360, "FooRemediation", "many-2"),
    ]
    entries = world.status().node("n1").remediations or []  # type: ignore[union-attr]
    assert [entry.template_name for entry in entries] == ["foo", "bar", "many-1", "many-2"]
    assert all(entry.timed_out for entry in entries)
    assert len({entry.resource.uid for entry in entries}) == 4
    assert world.told().count("RemediationCreated") == 4
    assert world.told().count("NoTemplateLeft") == 1


def test_remediations_of_one_kind_for_one_node_have_different_names_that_are_not_left_to_chance() -> None:
    first, second = climb(a_check(escalatingRemediations=FOUR)), climb(a_check(escalatingRemediations=FOUR))
    for world in (first, second):
        world.wait(15 * MINUTE)
    names = set(first.remediations())
    assert len(names) == 3
    assert all(name.startswith("n1-") for name in names)
    assert names == set(second.remediations())
    assert set(first.remediations("bars")) == {"n1"}


def test_the_order_of_the_steps_is_their_number_not_their_place() -> None:
    world = climb(a_check(escalatingRemediations=list(reversed(TWO))))
    world.settle()
    assert (set(world.remediations()), set(world.remediations("bars"))) == ({next(iter(world.remediations()))}, set())


def test_when_the_node_is_healthy_all_its_remediations_and_its_lock_go() -> None:
    world = climb(a_check(escalatingRemediations=FOUR))
    world.wait(7 * MINUTE)
    assert len(made(world)) == 4
    world.turn("n1", "True")
    world.settle()
    assert (made(world), world.locks, world.status().unhealthy_nodes) == ([], {}, None)


def test_the_lock_lasts_as_long_as_the_step_whose_turn_it_is() -> None:
    world = climb(a_check(escalatingRemediations=FOUR))
    world.settle()
    assert world.locks[LOCK].spec.lease_duration_seconds == 120
    world.wait(61 * SECOND)
    assert world.locks[LOCK].spec.lease_duration_seconds == 180


def test_a_step_has_timed_out_strictly_after_its_timeout() -> None:
    check = a_check(escalatingRemediations=TWO)
    nodes = [ill("n1"), *healthy(2)]
    foos = [a_remediation("n1", created=T0 - MINUTE)]
    assert of_type(plan_of(the_cluster(check, *nodes, foos=foos)), MarkRemediation) == []
    late = the_cluster(check, *nodes, foos=foos, now=T0 + timedelta(microseconds=1))
    (mark,) = of_type(plan_of(late), MarkRemediation)
    assert mark.annotations == {medik8s.TIMED_OUT: "2030-01-01T00:00:00Z"}


def test_a_step_that_has_timed_out_is_told_with_a_warning() -> None:
    foos = [a_remediation("n1", created=T0 - HOUR)]
    plan = plan_of(the_cluster(a_check(escalatingRemediations=TWO), ill("n1"), *healthy(2), foos=foos))
    (entry,) = node_of(plan, "n1").remediations or []
    assert (entry.timed_out, node_of(plan, "n1").reason) == (T0, "TimedOut")
    assert "RemediationTimedOut" in told(plan)
    assert started(plan) == []  # first it is written down that its time is over


def test_a_step_that_says_it_has_failed_is_over_at_once() -> None:
    world = climb(a_check(escalatingRemediations=a_ladder(("foo", "5m"), ("bar", "5m", BAR_TEMPLATE))))
    world.settle()
    world.report(next(iter(world.remediations())), {medik8s.SUCCEEDED: "False"})
    world.settle()
    assert set(world.remediations("bars")) == {"n1"}


def test_a_step_that_says_it_has_succeeded_is_not_told_to_stop_when_its_time_is_over() -> None:
    world = climb(a_check(escalatingRemediations=TWO))
    world.settle()
    (name,) = world.remediations()
    world.report(name, {medik8s.SUCCEEDED: "True"})
    world.wait(61 * SECOND)
    assert medik8s.TIMED_OUT not in world.remediations()[name].annotations
    assert set(world.remediations("bars")) == {"n1"}


def test_what_a_remediator_says_about_progress_changes_nothing() -> None:
    world = climb(a_check(escalatingRemediations=TWO))
    world.settle()
    world.report(next(iter(world.remediations())), {"Processing": "False"})
    world.wait(59 * SECOND)
    assert not world.remediations("bars")


def test_earlier_steps_stay_until_the_node_is_healthy() -> None:
    world = climb(a_check(escalatingRemediations=TWO))
    world.wait(2 * MINUTE)
    (name,) = world.remediations()
    assert world.remediations()[name].annotations[medik8s.TIMED_OUT] == "2030-01-01T00:01:00Z"
    assert world.remediations()[name].metadata.deletion_timestamp is None


def test_when_every_step_has_had_its_turn_a_person_is_called_once() -> None:
    world = climb(a_check(escalatingRemediations=TWO))
    world.wait(2 * HOUR)
    assert world.told().count("NoTemplateLeft") == 1
    node = world.status().node("n1")
    assert node is not None
    assert node.reason == "NoTemplateLeft"
    assert "a person is needed" in node.message


# A single template


def test_a_single_template_has_three_times_its_time_and_then_gives_the_lock_back() -> None:
    world = climb(a_check())
    world.wait(30 * MINUTE)
    (name,) = world.remediations()
    assert medik8s.TIMED_OUT not in world.remediations()[name].annotations
    assert LOCK in world.locks
    world.wait(SECOND)
    assert world.remediations()[name].annotations[medik8s.TIMED_OUT] == "2030-01-01T00:30:00Z"
    assert LOCK not in world.locks
    assert (world.status().node("n1").reason, len(world.creations)) == ("NoTemplateLeft", 1)  # type: ignore[union-attr]


def test_a_single_template_that_says_it_has_failed_is_not_over() -> None:
    foos = [a_remediation("n1", conditions={medik8s.SUCCEEDED: "False"})]
    plan = plan_of(the_cluster(a_check(), ill("n1"), *healthy(2), foos=foos))
    assert (of_type(plan, MarkRemediation), node_of(plan, "n1").reason) == ([], "Remediating")


def test_a_single_template_that_has_succeeded_is_never_told_to_stop() -> None:
    foos = [a_remediation("n1", conditions={medik8s.SUCCEEDED: "True"}, created=T0 - 2 * HOUR)]
    plan = plan_of(the_cluster(a_check(), ill("n1"), *healthy(2), foos=foos))
    assert of_type(plan, MarkRemediation) == []
    (entry,) = node_of(plan, "n1").remediations or []
    assert entry.timed_out == T0


def test_a_lock_of_another_is_not_given_back_when_time_is_over() -> None:
    foos = [a_remediation("n1", created=T0 - 2 * HOUR)]
    lock = a_lock("n1", "node-maintenance")
    plan = plan_of(the_cluster(a_check(), ill("n1"), *healthy(2), foos=foos, locks=[lock]))
    assert of_type(plan, ReleaseLock) == []


# Locks while something is in flight


def test_a_lock_is_renewed_before_less_than_a_remediation_is_left_of_it() -> None:
    world = climb(a_check())
    world.settle()
    before = world.locks[LOCK].spec.renew_time
    plan = world.settle()
    assert plan.wake_at == T0 + MINUTE
    world.wait(2 * MINUTE)
    after = world.locks[LOCK].spec.renew_time
    assert before is not None
    assert after is not None
    assert after > before


def test_a_lock_that_is_missing_or_over_is_taken_for_what_is_in_flight() -> None:
    foos = [a_remediation("n1")]
    for locks in ([], [a_lock("n1", "node-maintenance", renewed=T0 - HOUR)]):
        plan = plan_of(the_cluster(a_check(), ill("n1"), *healthy(2), foos=foos, locks=locks))
        assert [action.claim.node for action in of_type(plan, HoldLock)] == ["n1"]


def test_a_lock_that_another_has_taken_meanwhile_is_left_until_it_ends_and_then_taken() -> None:
    world = climb(a_check())
    world.settle()
    world.locks[LOCK] = a_lock("n1", "node-maintenance", seconds=300)
    plan = world.settle()
    assert "held by node-maintenance" in node_of(plan, "n1").message
    world.wait(5 * MINUTE + SECOND)
    assert world.locks[LOCK].spec.holder_identity == "NodeHealthCheck-workers"


def test_the_lock_of_a_node_that_is_only_on_its_way_to_unhealthy_is_renewed_while_its_remediation_is_at_work() -> None:
    hour = [{"type": "Ready", "status": status, "duration": "1h"} for status in ("False", "Unknown")]
    world = World(a_check(unhealthyConditions=hour), [ill("n1", since=T0 - 2 * HOUR), *healthy(2)])
    world.settle()
    world.turn("n1", "False")
    world.wait(20 * MINUTE)
    renewed = world.locks[LOCK].spec.renew_time
    assert renewed is not None
    assert renewed > T0 + 15 * MINUTE


# Old remediations


@pytest.mark.parametrize("spec", [{}, {"escalatingRemediations": TWO}])
def test_a_remediation_of_two_days_is_marked_as_old_once(spec: dict[str, Any]) -> None:
    world = climb(a_check(**spec))
    world.wait(48 * HOUR)
    (name,) = world.remediations()
    assert medik8s.OLD_REMEDIATION not in world.remediations()[name].annotations
    world.wait(MINUTE)
    assert world.remediations()[name].annotations[medik8s.OLD_REMEDIATION] == "flagon"
    assert world.decide().actions == ()


# Crashes between two writes


def marked_only(action: Any) -> bool:
    return isinstance(action, MarkRemediation)


def written_only(action: Any) -> bool:
    return isinstance(action, WriteStatus)


@pytest.mark.parametrize("only", [marked_only, written_only])
def test_a_crash_between_the_mark_and_the_status_does_not_stop_the_climb(only: Any) -> None:
    world = climb(a_check(escalatingRemediations=TWO))
    world.settle()
    world.now += 61 * SECOND
    world.step(only)
    world.forget()
    world.settle()
    assert [start.kind for start in world.creations] == [FOO, BAR]
    entry, _ = world.status().node("n1").remediations or []  # type: ignore[union-attr]
    assert entry.timed_out == T0 + 61 * SECOND


def test_a_crash_after_the_creation_and_before_the_status_creates_nothing_twice() -> None:
    world = climb(a_check(escalatingRemediations=TWO))
    world.step(lambda action: isinstance(action, StartRemediation))
    world.forget()
    world.settle()
    assert len(world.creations) == 1
    assert world.told().count("RemediationCreated") == 1


def test_a_remediation_that_the_status_knows_and_somebody_has_deleted_is_created_anew() -> None:
    world = climb(a_check(escalatingRemediations=TWO))
    world.settle()
    world.drop(next(iter(world.remediations())))
    world.forget()
    world.settle()
    assert [start.kind for start in world.creations] == [FOO, FOO]
    assert world.told().count("RemediationRemoved") == 1


def test_a_step_whose_time_was_over_is_not_tried_again_when_its_remediation_is_gone() -> None:
    world = climb(a_check(escalatingRemediations=TWO))
    world.wait(2 * MINUTE)
    world.drop(next(iter(world.remediations())))
    world.forget()
    world.wait(MINUTE)
    assert [start.kind for start in world.creations] == [FOO, BAR]


def test_while_a_remediation_is_being_deleted_its_step_waits_for_it() -> None:
    foos = [a_remediation("n1", deleting=True)]
    plan = plan_of(the_cluster(a_check(), ill("n1"), *healthy(2), foos=foos))
    assert (started(plan), node_of(plan, "n1").reason) == ([], "WaitsForDeletion")


# A template that is renamed midway


@pytest.mark.parametrize("many", [False, True])
def test_a_remediation_in_the_place_of_a_step_is_that_steps_though_its_template_is_called_otherwise_by_now(
    many: bool,
) -> None:
    renamed = a_check(remediationTemplate=template_ref("new"))
    templates = [a_template("new", many=many)]
    (creation,) = of_type(plan_of(the_cluster(renamed, ill("n1"), *healthy(5), templates=templates)), StartRemediation)
    there = a_remediation("n1", name=creation.body["metadata"]["name"], template="old")
    plan = plan_of(the_cluster(renamed, ill("n1"), *healthy(5), templates=templates, foos=[there]))
    assert (started(plan), node_of(plan, "n1").reason) == ([], "Remediating")
    late = the_cluster(renamed, ill("n1"), *healthy(5), templates=templates, foos=[there], now=T0 + HOUR)
    plan = plan_of(late)
    assert [mark.annotations.keys() for mark in of_type(plan, MarkRemediation)] == [{medik8s.TIMED_OUT}]
    assert node_of(plan_of(after(late, plan)), "n1").reason == "NoTemplateLeft"


def test_a_remediation_of_one_step_is_not_in_the_place_of_another() -> None:
    ladder = a_check(escalatingRemediations=a_ladder(("foo", "1m"), ("bar", "1m", BAR_TEMPLATE)))
    there = a_remediation("n1", annotations={medik8s.TIMED_OUT: "2030-01-01T00:00:00Z"})
    assert [
        one.kind
        for one in of_type(plan_of(the_cluster(ladder, ill("n1"), *healthy(5), foos=[there])), StartRemediation)
    ] == [BAR]


def test_a_remediation_of_another_name_or_namespace_is_in_nobodys_place() -> None:
    renamed = a_check(remediationTemplate=template_ref("new"))
    for there in (a_remediation("n1", name="n1-other", template="old"), elsewhere(a_remediation("n1", template="old"))):
        cluster = the_cluster(renamed, ill("n1"), *healthy(5), templates=[a_template("new")], foos=[there])
        assert started(plan_of(cluster)) == ["n1"]


def elsewhere(item: Unstructured) -> Unstructured:
    return msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, namespace="elsewhere"))

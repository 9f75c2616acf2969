"""What the status of a check says, and which patch gets it there."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from defib.decide.status import FIELDS
from defib.model import medik8s
from defib.model.action import WriteStatus
from defib.model.health_check import CheckStatus
from tests.builders import HOUR, MINUTE, SECOND, T0
from tests.unit.decide.checks import (
    BAR_TEMPLATE,
    a_check,
    a_ladder,
    a_remediation,
    after,
    condition_of,
    healthy,
    ill,
    node_of,
    of_type,
    plan_of,
    started,
    status_of,
    the_cluster,
    told,
    written,
)
from tests.unit.decide.world import World

ODD = T0 + timedelta(microseconds=654_321)


def test_a_check_without_trouble_says_so() -> None:
    status = status_of(plan_of(the_cluster(a_check(), *healthy(3))))
    assert (status.phase, status.reason) == ("Enabled", "all 3 nodes are healthy")
    assert (status.observed_nodes, status.healthy_nodes, status.unhealthy_count) == (3, 3, 0)
    assert status.observed_generation == 1


def test_the_status_of_a_check_without_nodes_counts_zero() -> None:
    assert written(plan_of(the_cluster(a_check())))["observedNodes"] == 0


@pytest.mark.parametrize(
    ("spec", "phase"),
    [
        ({}, "Remediating"),
        ({"pauseRequests": ["stop"]}, "Paused"),
        ({"pauseRequests": ["stop"], "remediationTemplate": {"kind": "no"}}, "Disabled"),
        ({"mode": "Observe"}, "Remediating"),
    ],
)
def test_the_phase_is_the_first_of_disabled_paused_remediating_enabled(spec: dict[str, Any], phase: str) -> None:
    plan = plan_of(the_cluster(a_check(**spec), ill("n1"), *healthy(2), foos=[a_remediation("n1")]))
    assert status_of(plan).phase == phase


def test_the_reason_counts_all_unhealthy_nodes_and_those_being_remediated() -> None:
    nodes = [ill("n1"), ill("n2"), *healthy(5)]
    plan = plan_of(the_cluster(a_check(guards={"maxInFlight": 1}), *nodes, foos=[a_remediation("n1")]))
    assert status_of(plan).reason == "2 unhealthy nodes, 1 being remediated"


def test_a_remediation_in_the_status_is_named_in_full() -> None:
    plan = plan_of(the_cluster(a_check(), ill("n1"), *healthy(2), foos=[a_remediation("n1", created=T0 - MINUTE)]))
    (entry,) = written(plan)["unhealthyNodes"][0]["remediations"]
    assert entry == {
        "resource": {
            "apiVersion": "test.defib.dev/v1alpha1",
            "kind": "FooRemediation",
            "namespace": "ns",
            "name": "n1",
            "uid": "uid-of-n1",
        },
        "started": "2029-12-31T23:59:00Z",
        "templateName": "foo",
    }


def test_an_unhealthy_node_says_since_when_and_why_it_waits() -> None:
    plan = plan_of(the_cluster(a_check(pauseRequests=["stop"]), ill("n1"), *healthy(2)))
    (entry,) = written(plan)["unhealthyNodes"]
    assert entry == {
        "name": "n1",
        "reason": "Paused",
        "message": "paused: stop",
        "since": "2029-12-31T23:05:00Z",
    }


# Writing


def test_a_status_that_says_the_same_is_not_written_again() -> None:
    cluster = the_cluster(a_check(), ill("n1"), *healthy(2), foos=[a_remediation("n1")], locks=[])
    first = plan_of(cluster)
    again = plan_of(after(cluster, first, now=T0 + SECOND))
    assert of_type(first, WriteStatus)
    assert of_type(again, WriteStatus) == []


def test_the_time_of_the_last_update_changes_only_with_something_else() -> None:
    world = World(a_check(), [ill("n1"), *healthy(2)])
    world.settle()
    world.wait(5 * MINUTE)
    assert world.status().last_update_time == T0
    world.turn("n1", "True")
    world.settle()
    assert world.status().last_update_time == T0 + 5 * MINUTE


def test_a_write_is_for_the_version_that_was_judged() -> None:
    (write,) = of_type(plan_of(the_cluster(a_check(), *healthy(1))), WriteStatus)
    assert (write.check, write.uid, write.version) == ("workers", "uid-workers", "7")


def test_what_the_status_no_longer_says_becomes_null() -> None:
    status = {
        "unhealthyNodes": [{"name": "n9"}],
        "history": [{"node": "n9", "started": "2029-12-31T23:00:00Z"}],
        "inFlightRemediations": {"n9": "2029-12-31T23:00:00Z"},
        "observedNodes": 4,
        "ours": "no",
    }
    patch = written(plan_of(the_cluster(a_check(status=status), *healthy(3))))
    assert (patch["unhealthyNodes"], patch["history"], patch["inFlightRemediations"]) == (None, None, None)
    assert "ours" not in patch


def test_a_field_of_old_that_must_go_is_reason_enough_to_write() -> None:
    cluster = the_cluster(a_check(), *healthy(3))
    once = after(cluster, plan_of(cluster))
    check = once.others["nodehealthchecks.remediation.medik8s.io"]["workers"]
    status = check.status | {"inFlightRemediations": {}}  # type: ignore[attr-defined]
    stale = the_cluster(a_check(status=status), *healthy(3))
    assert written(plan_of(stale))["inFlightRemediations"] is None
    assert of_type(plan_of(after(stale, plan_of(stale))), WriteStatus) == []


def test_every_field_of_the_status_is_known_to_the_patch() -> None:
    assert {field.encode_name for field in msgspec.structs.fields(CheckStatus)} <= FIELDS


def times(value: object) -> list[str]:
    """All texts in a status that are times."""
    if isinstance(value, dict):
        return [time for part in value.values() for time in times(part)]
    if isinstance(value, list):
        return [time for part in value for time in times(part)]
    try:
        return [value] if isinstance(value, str) and datetime.fromisoformat(value) else []
    except ValueError:
        return []


def test_times_are_whole_seconds() -> None:
    ladder = a_ladder(("foo", "60s"), ("bar", "60s", BAR_TEMPLATE))
    check = a_check(
        escalatingRemediations=ladder,
        stormCooldownDuration="1m",
        minHealthy=3,
        guards={"rateLimit": {"remediations": 5, "per": "1h"}},
    )
    foos = [a_remediation("n1", created=ODD - HOUR), a_remediation("w1", created=ODD - HOUR)]
    nodes = [ill("n1", since=ODD - HOUR), ill("n2", since=ODD - HOUR), *healthy(2)]
    found = times(written(plan_of(the_cluster(check, *nodes, foos=foos, now=ODD))))
    assert len(found) > 8
    assert [time for time in found if len(time) != len("2030-01-01T00:00:00Z") or not time.endswith("Z")] == []


def test_a_status_of_nonsense_is_replaced_by_one_that_makes_sense() -> None:
    status = {"unhealthyNodes": "many", "conditions": [3], "phase": 7, "history": {"x": 1}, "observedNodes": "all"}
    plan = plan_of(the_cluster(a_check(status=status), ill("n1"), *healthy(2)))
    assert started(plan) == ["n1"]
    patch = written(plan)
    assert (patch["observedNodes"], patch["phase"], patch["history"]) == (3, "Enabled", None)


# Conditions


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    world = World(a_check(), [ill("n1"), *healthy(2)])
    world.settle()
    world.now += MINUTE
    world.spec("workers", pauseRequests=["stop"])
    world.settle()
    disabled, allowed = world.status().condition("Disabled"), world.status().condition("RemediationAllowed")
    assert disabled is not None
    assert allowed is not None
    assert (disabled.last_transition_time, disabled.observed_generation) == (T0, 2)
    assert (allowed.last_transition_time, allowed.status, allowed.reason) == (T0 + MINUTE, "False", "Paused")


def test_conditions_of_others_are_left_alone() -> None:
    foreign = {"type": "Mine", "status": "True", "lastTransitionTime": "2029-01-01T00:00:00Z"}
    patch = written(plan_of(the_cluster(a_check(status={"conditions": [foreign]}), *healthy(1))))
    assert foreign in patch["conditions"]


def test_a_check_that_may_remediate_says_so() -> None:
    allowed = condition_of(plan_of(the_cluster(a_check(), *healthy(1))), "RemediationAllowed")
    assert (allowed.status, allowed.reason) == ("True", "AllGatesOpen")


# A check that makes no sense


def test_a_check_that_makes_no_sense_says_what_is_wrong_and_does_nothing() -> None:
    plan = plan_of(the_cluster(a_check(minHealthy="many"), ill("n1"), *healthy(2), foos=[a_remediation("w1")]))
    assert [type(action).__name__ for action in plan.actions] == ["WriteStatus"]
    assert (status_of(plan).phase, condition_of(plan, "Disabled").reason) == ("Disabled", "InvalidSpecification")
    assert "spec.minHealthy" in status_of(plan).reason
    assert told(plan) == ["Disabled"]


def test_a_check_that_makes_no_sense_allows_no_remediation() -> None:
    world = World(a_check(), [ill("n1"), *healthy(2)])
    world.settle()
    assert world.status().is_true("RemediationAllowed")
    world.spec("workers", minHealthy="many")
    world.settle()
    assert not world.status().is_true("RemediationAllowed")


def test_what_a_check_knew_before_it_became_nonsense_stays_known() -> None:
    world = World(a_check(), [ill("n1"), *healthy(2)])
    world.settle()
    world.spec("workers", minHealthy="many")
    world.settle()
    assert world.status().node("n1").remediations  # type: ignore[union-attr]
    world.spec("workers", minHealthy=None)
    world.settle()
    assert len(world.creations) == 1
    assert world.told().count("RemediationCreated") == 1


def test_a_check_that_makes_no_sense_is_written_once_and_told_once_for_each_mistake() -> None:
    world = World(a_check(minHealthy="many"), healthy(2))
    world.settle()
    world.wait(HOUR)
    assert world.told() == ["Disabled"]
    world.spec("workers", minHealthy="few")
    world.settle()
    assert world.told() == ["Disabled", "Disabled"]


def test_a_check_that_makes_no_sense_does_not_hold_up_others() -> None:
    plan = plan_of(the_cluster([a_check("bad", minHealthy="many"), a_check()], ill("n1"), *healthy(2)))
    assert started(plan) == ["n1"]


def test_a_node_that_failed_to_recover_in_time_is_called_so_in_its_entry() -> None:
    plan = plan_of(the_cluster(a_check(), ill("n1"), *healthy(2), foos=[a_remediation("n1", created=T0 - HOUR)]))
    assert node_of(plan, "n1").reason == "TimedOut"


# Very many nodes


def test_a_status_of_more_than_a_thousand_nodes_has_no_messages_and_all_the_rest() -> None:
    thousand = [ill(f"n{place}") for place in range(1000)]
    assert all(node.message for node in status_of(plan_of(the_cluster(a_check(), *thousand))).unhealthy_nodes or ())
    plan = plan_of(the_cluster(a_check(), *thousand, ill("one-more")))
    nodes = status_of(plan).unhealthy_nodes or []
    assert len(nodes) == 1001
    assert {(node.reason, node.message) for node in nodes} == {("Threshold", "")}
    assert status_of(plan).reason.endswith("of 1001 nodes are healthy, at least 510 must be")


def test_a_status_lists_no_more_than_2500_nodes_first_those_with_remediations_then_the_longest_unhealthy() -> None:
    foos = [a_remediation(name) for name in ("late", "later")]
    young = [
        ill("late", since=T0 - 10 * MINUTE),
        ill("later", since=T0 - 9 * MINUTE),
        ill("spare", since=T0 - HOUR / 2),
    ]
    plan = plan_of(the_cluster(a_check(), *young, *(ill(f"n{place:04}") for place in range(2600)), foos=foos))
    names = [node.name for node in status_of(plan).unhealthy_nodes or ()]
    assert names == ["late", "later", *(f"n{place:04}" for place in range(2498))]
    assert status_of(plan).unhealthy_count == written(plan)["unhealthyCount"] == 2603


def test_an_event_of_a_node_without_a_message_says_its_reason() -> None:
    excluded = ill("x", labels={medik8s.EXCLUDED: "true"})
    check = a_check(maxUnhealthy="100%")
    plan = plan_of(the_cluster(check, excluded, *(ill(f"n{place}") for place in range(1000))))
    (write,) = of_type(plan, WriteStatus)
    assert [tell.message for tell in write.tells if tell.reason == "RemediationSkipped"] == ["node x: Excluded"]


def test_a_condition_that_changed_in_the_future_has_changed_now() -> None:
    entry = {"type": "Disabled", "status": "False", "lastTransitionTime": "2999-01-01T00:00:00Z"}
    plan = plan_of(the_cluster(a_check(status={"conditions": [entry]}), *healthy(5)))
    assert condition_of(plan, "Disabled").last_transition_time == T0

"""What happens to the remediations of nodes that are healthy again, gone, or no longer meant."""

from datetime import timedelta
from typing import Any

import pytest

from defib.model import medik8s
from defib.model.action import ClearNodeAnnotation, EndRemediation, MarkRemediation, ReleaseLock, StartRemediation
from defib.model.cluster import Blindness, Unread
from defib.model.verdict import State
from tests.builders import HOUR, MINUTE, SECOND, T0, a_node
from tests.unit.decide.checks import (
    a_check,
    a_lock,
    a_remediation,
    ended,
    healthy,
    ill,
    node_of,
    of_type,
    plan_of,
    showing,
    started,
    status_of,
    the_cluster,
)
from tests.unit.decide.world import World

LOCK = "medik8s-leases/node-n1"


def recovered(*, finalizers: bool = False, **spec: Any) -> World:
    """A node that was remediated and has just become ready again, a minute after the beginning."""
    world = World(a_check(**spec), [ill("n1"), *healthy(2)], finalizers=finalizers)
    world.settle()
    world.now = T0 + MINUTE
    world.turn("n1", "True")
    return world


def test_the_remediation_of_a_healthy_node_goes_at_once_and_its_lock_with_it() -> None:
    world = recovered()
    world.settle()
    assert (world.remediations(), world.locks, world.status().unhealthy_nodes) == ({}, {}, None)
    assert (world.status().healthy_nodes, world.status().phase) == (3, "Enabled")
    assert world.told()[-1] == "RemediationRemoved"


def test_a_node_is_not_healthy_before_its_remediation_is_really_gone() -> None:
    world = recovered(finalizers=True)
    world.settle()
    status, node = world.status(), world.status().node("n1")
    assert node is not None
    assert (status.healthy_nodes, status.phase, node.reason) == (2, "Remediating", "Recovering")
    assert node.conditions_healthy_timestamp == T0 + MINUTE
    assert LOCK in world.locks
    world.now += HOUR
    world.leave()
    world.settle()
    assert (world.status().healthy_nodes, world.status().unhealthy_nodes, world.locks) == (3, None, {})


def test_ending_carries_what_would_speak_against_it() -> None:
    plan = recovered().decide()
    (end,) = of_type(plan, EndRemediation)
    assert end.unless == (("Ready", "False"), ("Ready", "Unknown"))
    assert (end.node, end.node_is_gone) == ("n1", False)


def test_remediations_of_others_are_left_alone() -> None:
    foos = [a_remediation("w1", check="others"), a_remediation("w2", check="")]
    plan = plan_of(the_cluster(a_check(), *healthy(3), foos=foos))
    assert (ended(plan), status_of(plan).healthy_nodes) == ([], 3)


def test_a_lock_of_another_stays_while_the_status_is_cleaned() -> None:
    world = recovered()
    world.locks[LOCK] = a_lock("n1", "node-maintenance", seconds=3600)
    world.settle()
    assert world.locks[LOCK].spec.holder_identity == "node-maintenance"
    assert world.status().unhealthy_nodes is None


def test_a_lock_of_ours_for_a_node_that_needs_none_is_given_back_in_the_version_we_know() -> None:
    lock = a_lock("w1", "NodeHealthCheck-workers")
    (release,) = of_type(plan_of(the_cluster(a_check(), *healthy(3), locks=[lock])), ReleaseLock)
    assert (release.name, release.uid, release.version) == ("node-w1", "lock-w1", "5")


# healthyDelay


def test_a_delay_keeps_the_remediation_for_as_long_as_it_says() -> None:
    world = recovered(healthyDelay="3m")
    world.settle()
    node = world.status().node("n1")
    assert node is not None
    assert node.healthy_delayed is True
    assert world.remediations()["n1"].annotations[medik8s.HEALTHY_DELAY] == "2030-01-01T00:01:00Z"
    world.wait(3 * MINUTE - SECOND)
    assert "n1" in world.remediations()
    world.wait(SECOND)
    assert not world.remediations()


def test_a_delay_of_nothing_is_none() -> None:
    world = recovered(healthyDelay="0s")
    world.settle()
    assert not world.remediations()


def test_a_delay_survives_a_crash() -> None:
    world = recovered(healthyDelay="3m")
    world.settle()
    world.forget()
    world.wait(3 * MINUTE)
    assert not world.remediations()


def test_a_relapse_restarts_the_delay() -> None:
    world = recovered(healthyDelay="3m")
    world.wait(2 * MINUTE)
    world.turn("n1", "Unknown")
    world.settle()
    assert medik8s.HEALTHY_DELAY not in world.remediations()["n1"].annotations
    node = world.status().node("n1")
    assert node is not None
    assert (node.conditions_healthy_timestamp, node.healthy_delayed) == (None, None)
    world.wait(10 * SECOND)
    world.turn("n1", "True")
    world.wait(3 * MINUTE - SECOND)
    assert "n1" in world.remediations()
    world.wait(SECOND)
    assert not world.remediations()


def test_a_start_of_the_delay_that_makes_no_sense_is_written_anew() -> None:
    foos = [a_remediation("w1", annotations={medik8s.HEALTHY_DELAY: "whenever"})]
    plan = plan_of(the_cluster(a_check(healthyDelay="3m"), *healthy(3), foos=foos))
    (mark,) = of_type(plan, MarkRemediation)
    assert mark.annotations == {medik8s.HEALTHY_DELAY: "2030-01-01T00:00:00Z"}


def test_a_delay_that_is_taken_away_while_it_runs_is_over() -> None:
    world = recovered(healthyDelay="3h")
    world.settle()
    world.spec("workers", healthyDelay=None)
    world.settle()
    assert not world.remediations()


def test_a_negative_delay_waits_for_a_person() -> None:
    world = recovered(healthyDelay="-1s")
    plan = world.wait(72 * HOUR)
    assert "n1" in world.remediations()
    assert plan.wake_at is None
    assert medik8s.CONFIRMED_HEALTHY in node_of(plan, "n1").message
    world.annotate("n1", medik8s.CONFIRMED_HEALTHY, "")
    world.settle()
    assert not world.remediations()
    assert world.nodes["n1"].annotations == {}


def test_a_person_can_cut_a_delay_short() -> None:
    world = recovered(healthyDelay="3h")
    world.settle()
    world.annotate("n1", medik8s.CONFIRMED_HEALTHY, "by ann")
    world.settle()
    assert not world.remediations()


def test_a_confirmation_is_removed_once_and_for_all_after_the_remediation_is_gone() -> None:
    world = recovered(finalizers=True, healthyDelay="-1s")
    world.annotate("n1", medik8s.CONFIRMED_HEALTHY, "by ann")
    world.settle()
    assert medik8s.CONFIRMED_HEALTHY in world.nodes["n1"].annotations
    world.leave()
    world.settle()
    assert medik8s.CONFIRMED_HEALTHY not in world.nodes["n1"].annotations


def test_a_confirmation_is_removed_only_if_it_still_says_the_same() -> None:
    node = a_node("w1", annotations={medik8s.CONFIRMED_HEALTHY: "by ann"})
    (clear,) = of_type(plan_of(the_cluster(a_check(), node, *healthy(2, "x"))), ClearNodeAnnotation)
    assert (clear.node, clear.node_uid, clear.value) == ("w1", "uid-w1", "by ann")


def test_a_confirmation_for_a_node_that_is_unhealthy_means_nothing() -> None:
    node = ill("n1", annotations={medik8s.CONFIRMED_HEALTHY: "by ann"})
    plan = plan_of(the_cluster(a_check(), node, *healthy(2), foos=[a_remediation("n1")]))
    assert (ended(plan), of_type(plan, ClearNodeAnnotation)) == ([], [])


# Relapses


def test_a_node_that_fails_again_before_its_remediation_is_gone_waits_for_that_and_gets_a_new_one() -> None:
    world = recovered(finalizers=True)
    world.settle()
    world.turn("n1", "Unknown")
    world.wait(6 * MINUTE)
    assert len(world.creations) == 1
    world.leave()
    world.settle()
    assert len(world.creations) == 2


def test_a_node_that_fails_again_later_begins_at_the_first_step() -> None:
    world = recovered()
    world.settle()
    world.turn("n1", "Unknown")
    world.wait(6 * MINUTE)
    assert [start.node for start in world.creations] == ["n1", "n1"]
    assert world.told().count("DetectedUnhealthy") == 2


# Nodes that are gone


def test_the_remediation_of_a_node_that_is_gone_goes_too() -> None:
    world = World(a_check(), [ill("n1"), *healthy(2)])
    world.settle()
    del world.nodes["n1"]
    plan = world.decide()
    (end,) = of_type(plan, EndRemediation)
    assert (end.node_is_gone, end.unless) == (True, ())
    world.settle()
    assert (world.remediations(), world.locks, world.status().unhealthy_nodes) == ({}, {}, None)
    assert world.status().observed_nodes == 2


@pytest.mark.parametrize("succeeded", ["", "False", "Unknown"])
def test_a_remediation_that_replaces_the_node_stays_until_it_has_succeeded(succeeded: str) -> None:
    world = World(a_check(), [ill("n1"), *healthy(2)])
    world.settle()
    conditions = {medik8s.PERMANENT_DELETION: "True"} | ({medik8s.SUCCEEDED: succeeded} if succeeded else {})
    world.report("n1", conditions)
    del world.nodes["n1"]
    plan = world.settle()
    assert "n1" in world.remediations()
    assert node_of(plan, "n1").reason == "NodeGone"
    world.report("n1", conditions | {medik8s.SUCCEEDED: "True"})
    world.settle()
    assert (world.remediations(), world.status().unhealthy_nodes) == ({}, None)


def test_a_node_that_vanishes_without_a_remediation_vanishes_from_the_status() -> None:
    world = World(a_check(pauseRequests=["stop"]), [ill("n1"), *healthy(2)])
    world.settle()
    assert world.status().node("n1") is not None
    del world.nodes["n1"]
    world.settle()
    assert world.status().node("n1") is None


def test_a_new_node_of_an_old_name_is_judged_by_itself() -> None:
    world = World(a_check(), [ill("n1"), *healthy(2)])
    world.settle()
    world.put(a_node("n1", uid="another", since=T0))
    world.settle()
    assert (world.remediations(), world.status().healthy_nodes) == ({}, 3)


# Nodes that the check no longer selects


def relabelled() -> World:
    check = a_check(selector={"matchLabels": {"pool": "a"}})
    world = World(check, [ill("n1", labels={"pool": "a"}), *healthy(2, labels={"pool": "a"})])
    world.settle()
    world.label("n1", {"pool": "b"})
    return world


def test_the_remediation_of_a_relabelled_node_stays_until_the_node_is_healthy() -> None:
    world = relabelled()
    plan = world.wait(MINUTE)
    node = node_of(plan, "n1")
    assert node.reason == "NoLongerSelected"
    assert node.remediations
    assert plan.checks["workers"].verdicts["n1"].state is State.REMEDIATING
    assert (status_of(plan).observed_nodes, status_of(plan).healthy_nodes) == (2, 2)
    world.turn("n1", "True")
    world.settle()
    assert (world.remediations(), world.locks, world.status().unhealthy_nodes) == ({}, {}, None)


def test_the_lock_of_a_relabelled_node_is_held_while_its_remediation_is_at_work() -> None:
    world = relabelled()
    world.wait(20 * MINUTE)
    renewed = world.locks[LOCK].spec.renew_time
    assert renewed is not None
    assert renewed > T0 + 15 * MINUTE


def test_a_relabelled_node_without_a_remediation_is_forgotten() -> None:
    world = World(
        a_check(selector={"matchLabels": {"pool": "a"}}, pauseRequests=["stop"]), [ill("n1", labels={"pool": "a"})]
    )
    world.settle()
    world.label("n1", {})
    world.settle()
    assert world.status().unhealthy_nodes is None


def test_a_relabelled_node_that_its_new_check_selects_is_left_to_the_old_one_until_it_is_done() -> None:
    checks = [a_check(pool, selector={"matchLabels": {"pool": pool}}, maxUnhealthy="100%") for pool in ("a", "b")]
    world = World(checks, [ill("n1", labels={"pool": "a"}), *healthy(2, labels={"pool": "b"})])
    world.settle()
    world.label("n1", {"pool": "b"})
    plan = world.wait(5 * MINUTE)
    assert (world.in_flight("a"), world.in_flight("b")) == ({"n1"}, set())
    assert node_of(plan, "n1", "b").reason == "Lock"


def test_nothing_new_is_begun_for_a_node_that_is_not_selected() -> None:
    world = relabelled()
    world.drop("n1")
    world.wait(HOUR)
    assert len(world.creations) == 1


def test_a_suspect_node_says_when_it_will_be_unhealthy_but_not_since_when_it_is() -> None:
    """Its status entry is there because of an earlier remediation."""
    node = ill("n1", since=T0 - MINUTE)
    plan = plan_of(the_cluster(a_check(), node, *healthy(2), foos=[a_remediation("n1")]))
    assert node_of(plan, "n1").since is None or node_of(plan, "n1").since <= T0  # type: ignore[operator]
    assert "00:04:00" in node_of(plan, "n1").message


def test_a_node_with_other_troubles_than_its_check_names_is_healthy() -> None:
    node = showing(a_node("n1"), "DiskPressure", "True")
    plan = plan_of(the_cluster(a_check(), node, *healthy(2)))
    assert (started(plan), status_of(plan).healthy_nodes) == ([], 3)


def test_what_a_delay_waits_for_is_the_moment_at_which_the_check_wakes() -> None:
    world = recovered(healthyDelay="3m")
    plan = world.settle()
    assert plan.wake_at == T0 + 4 * MINUTE
    assert plan.wake_at - world.now == timedelta(minutes=3)


def test_a_node_that_recovers_from_a_remediation_without_success_and_fails_again_gets_a_new_one() -> None:
    """Also when it fails again before the last of the old one is gone."""
    world = World(a_check(), [ill("n1"), *healthy(2)], finalizers=True)
    world.wait(31 * MINUTE)
    assert world.told().count("NoTemplateLeft") == 1
    world.turn("n1", "True")
    world.settle()
    world.turn("n1", "Unknown")
    world.settle()
    world.leave()
    world.wait(6 * MINUTE)
    assert len(world.creations) == 2
    assert world.told().count("NoTemplateLeft") == 1


def test_a_node_that_fails_again_within_its_delay_goes_on_where_it_was() -> None:
    world = World(a_check(healthyDelay="10m"), [ill("n1"), *healthy(2)])
    world.wait(31 * MINUTE)
    world.turn("n1", "True")
    world.wait(MINUTE)
    world.turn("n1", "Unknown")
    world.wait(6 * MINUTE)
    assert len(world.creations) == 1
    assert world.status().node("n1").reason == "NoTemplateLeft"  # type: ignore[union-attr]


# Locks of checks that are gone


def test_the_lock_of_a_check_that_does_not_exist_any_more_is_given_back() -> None:
    world = World(a_check(), healthy(2))
    for holder in ("NodeHealthCheck-gone", "node-maintenance"):
        lock = a_lock(holder.lower(), holder)
        world.locks[lock.key] = lock
    world.settle()
    assert [lock.spec.holder_identity for lock in world.locks.values()] == ["node-maintenance"]


def test_the_lock_of_a_check_whose_remediation_is_still_there_stays() -> None:
    cluster = the_cluster(
        a_check(), *healthy(2), foos=[a_remediation("w1", check="gone")], locks=[a_lock("w1", "NodeHealthCheck-gone")]
    )
    assert of_type(plan_of(cluster), ReleaseLock) == []


@pytest.mark.parametrize(
    "more",
    [
        {"blind": (Blindness(medik8s.CHECKS, T0, "connection refused"),)},
        {"absent": {medik8s.CHECKS: "forbidden"}},
        {"unread": (Unread(medik8s.CHECKS, "gone", "Expected `object`"),)},
    ],
    ids=lambda more: next(iter(more)),
)
def test_a_check_that_we_cannot_see_may_well_exist(more: dict[str, Any]) -> None:
    plan = plan_of(the_cluster(a_check(), *healthy(2), locks=[a_lock("w1", "NodeHealthCheck-gone")], **more))
    assert of_type(plan, ReleaseLock) == []


# What a person wrote on a node is for all checks

DISKS: dict[str, Any] = {"unhealthyConditions": [{"type": "DiskPressure", "status": "True", "duration": "1s"}]}


@pytest.mark.parametrize("annotation", [medik8s.CONFIRMED_HEALTHY, "defib.dev/approved-until", "defib.dev/rejected"])
@pytest.mark.parametrize("how", ["unhealthy", "suspect", "owned", "starting"])
def test_what_a_person_wrote_stays_while_another_check_has_to_do_with_the_node(annotation: str, how: str) -> None:
    """The first check looks at disks only, and is done with the node."""
    done = a_check("a", status={"unhealthyNodes": [{"name": "n1"}]}, **DISKS)
    other = a_check("b", healthyDelay="-1s" if annotation != medik8s.CONFIRMED_HEALTHY else "1h")
    words = {annotation: "2030-01-01T01:00:00Z"}
    ailing = {"unhealthy": T0 - HOUR, "suspect": T0 - SECOND}
    node = ill("n1", since=ailing[how], annotations=words) if how in ailing else a_node("n1", annotations=words)
    more: dict[str, Any] = {}
    if how == "owned":
        more["foos"] = [a_remediation("n1", check="b", deleting=True)]
    if how == "starting":
        begun = plan_of(the_cluster(other, ill("n1"), *healthy(5)))
        more["underway"] = tuple(of_type(begun, StartRemediation))
    assert of_type(plan_of(the_cluster([done, other], node, *healthy(5), **more)), ClearNodeAnnotation) == []
    well = the_cluster([done, other], a_node("n1", annotations=words), *healthy(5))
    assert {one.annotation for one in of_type(plan_of(well), ClearNodeAnnotation)} == {annotation}


def test_the_lock_of_a_node_stays_while_its_remediation_is_being_created() -> None:
    begun = plan_of(the_cluster(a_check(), ill("n1"), *healthy(5)))
    underway = tuple(of_type(begun, StartRemediation))
    lock = a_lock("n1", "NodeHealthCheck-workers")
    cluster = the_cluster(a_check(), a_node("n1"), *healthy(5), locks=[lock], underway=underway)
    assert of_type(plan_of(cluster), ReleaseLock) == []
    settled = the_cluster(a_check(), a_node("n1"), *healthy(5), locks=[lock])
    assert [one.node for one in of_type(plan_of(settled), ReleaseLock)] == ["n1"]

"""Each weakness of the Go operator that concerns deciding, as a rule that it breaks and we keep.

The numbers are those of the list of its weak points.
"""

from typing import Any

import pytest

from defib.model import medik8s
from defib.model.action import ClearNodeAnnotation, StartRemediation
from defib.model.failure import Failure
from tests.builders import HOUR, MINUTE, SECOND, T0
from tests.unit.decide.checks import (
    BAR_TEMPLATE,
    a_check,
    a_ladder,
    a_lock,
    a_remediation,
    a_template,
    ended,
    healthy,
    ill,
    of_type,
    plan_of,
    started,
    template_ref,
    the_cluster,
)
from tests.unit.decide.world import World


def test_1_a_node_whose_time_is_over_does_not_wipe_out_the_timer_of_another() -> None:
    world = World(a_check(), [ill("n1"), *healthy(3)])
    world.wait(28 * MINUTE)
    world.turn("w1", "Unknown")
    world.wait(2 * MINUTE + SECOND)  # the time of n1 is over now, and its lock given back
    plan = world.settle()
    assert plan.wake_at is not None
    assert plan.wake_at < T0 + 33 * MINUTE + SECOND
    world.wait(3 * MINUTE)
    assert [start.node for start in world.creations] == ["n1", "w1"]


def test_2_the_second_template_of_a_kind_is_tracked_times_out_and_holds_up_nobody() -> None:
    ladder = a_ladder(("foo", "60s"), ("second", "60s"), ("third", "60s"))
    templates = [a_template(name, many=True) for name in ("foo", "second", "third")]
    world = World(
        a_check(escalatingRemediations=ladder, maxUnhealthy="100%"),
        [ill("n1"), ill("n2"), *healthy(3)],
        templates=templates,
    )
    world.wait(4 * MINUTE)
    for node in ("n1", "n2"):
        entries = world.status().node(node).remediations or []  # type: ignore[union-attr]
        assert [entry.template_name for entry in entries] == ["foo", "second", "third"]
        assert all(entry.timed_out for entry in entries)


def test_3_a_storm_ends_when_no_node_is_unhealthy_and_when_the_setting_is_removed() -> None:
    for removed in (False, True):
        world = World(a_check(minHealthy=2, stormCooldownDuration="5m"), [ill("n1"), ill("n2"), *healthy(1)])
        world.settle()
        assert world.status().is_true("StormActive")
        world.turn("n1", "True")
        world.turn("n2", "True")
        if removed:
            world.spec("workers", stormCooldownDuration=None)
        world.wait(HOUR)
        assert not world.status().is_true("StormActive")
        assert not world.status().is_true("StormCooldownActive")


def test_4_a_relapse_restarts_the_delay() -> None:
    world = World(a_check(healthyDelay="5m"), [ill("n1"), *healthy(2)])
    world.settle()
    for _ in range(3):
        world.turn("n1", "True")
        world.wait(4 * MINUTE)
        world.turn("n1", "Unknown")
        world.wait(MINUTE)
    world.turn("n1", "True")
    world.wait(4 * MINUTE)
    assert "n1" in world.remediations()


def test_5_a_confirmation_that_cannot_be_removed_holds_up_nobody() -> None:
    world = World(a_check(), [ill("n1"), *healthy(2)])
    world.annotate("w1", medik8s.CONFIRMED_HEALTHY, "")
    world.step(lambda action: not isinstance(action, ClearNodeAnnotation))
    assert [start.node for start in world.creations] == ["n1"]


@pytest.mark.parametrize(("spec", "starts"), [({"minHealthy": "2"}, ["n1"]), ({"maxUnhealthy": "0"}, [])])
def test_6_a_quoted_number_is_a_number_also_at_the_time_of_an_incident(spec: dict[str, Any], starts: list[str]) -> None:
    assert started(plan_of(the_cluster(a_check(**spec), ill("n1"), *healthy(2)))) == starts


def test_7_vanished_nodes_leave_the_status_and_relabelled_ones_keep_their_remediation() -> None:
    check = a_check(selector={"matchLabels": {"pool": "a"}}, maxUnhealthy="100%")
    labels = {"pool": "a"}
    world = World(check, [ill("n1", labels=labels), ill("n2", labels=labels | {medik8s.EXCLUDED: "true"})])
    world.settle()
    del world.nodes["n2"]
    world.label("n1", {})
    world.settle()
    assert world.status().node("n2") is None
    assert world.remediations()["n1"].metadata.deletion_timestamp is None


def test_8_two_creations_of_one_remediation_have_the_same_name_and_collide() -> None:
    cluster = the_cluster(a_check(), ill("n1"), *healthy(2), templates=[a_template("foo", many=True)])
    first, second = (of_type(plan_of(cluster), StartRemediation)[0] for _ in range(2))
    assert first.body["metadata"]["name"] == second.body["metadata"]["name"]


def test_9_a_foreign_remediation_is_explained_and_ours_follows_when_it_is_gone() -> None:
    world = World(a_check(), [ill("n1"), *healthy(2)])
    foreign = a_remediation("n1", check="")
    world.others["foos"] = {foreign.key: foreign}
    world.settle()
    assert "RemediationSkipped" in world.told()
    world.others["foos"] = {}
    world.settle()
    assert [start.node for start in world.creations] == ["n1"]


def test_10_two_checks_with_different_kinds_never_take_two_control_plane_nodes() -> None:
    role = {"node-role.kubernetes.io/control-plane": ""}
    checks = [
        a_check("a", selector={"matchLabels": {"pool": "a"}}, maxUnhealthy="100%"),
        a_check(
            "b",
            selector={"matchLabels": {"pool": "b"}},
            maxUnhealthy="100%",
            remediationTemplate=template_ref("bar", BAR_TEMPLATE),
        ),
    ]
    well = [ill(f"cp{place}", ready="True", labels=role) for place in range(3)]
    sick = [ill(f"x-{pool}", labels=role | {"pool": pool}) for pool in "ab"]
    world = World(checks, [*well, *sick])
    world.wait(HOUR)
    assert [start.node for start in world.creations] == ["x-a"]


def test_11_a_template_that_was_broken_at_first_is_used_when_it_is_mended() -> None:
    world = World(a_check(), [ill("n1"), *healthy(2)], templates=[a_template("foo", spec={})])
    world.settle()
    mended = a_template("foo")
    world.others["footemplates"] = {mended.key: mended}
    world.settle()
    assert [start.node for start in world.creations] == ["n1"]


def test_12_a_gate_freezes_neither_the_ladder_nor_the_lock_nor_the_cleaning_up() -> None:
    ladder = a_ladder(("foo", "60s"), ("bar", "60s", BAR_TEMPLATE))
    world = World(a_check(escalatingRemediations=ladder, minHealthy=3), [ill("n1"), ill("n2"), *healthy(3)])
    world.settle()
    world.put(ill("w1"), ill("w2"))  # too few are healthy now
    world.turn("n2", "True")
    world.wait(90 * SECOND)
    assert world.in_flight() == {"n1"}
    assert "n1" in world.remediations("bars")
    assert set(world.locks) == {"medik8s-leases/node-n1"}
    assert world.status().healthy_nodes == 2


def test_13_what_fails_for_one_node_holds_up_no_other() -> None:
    """A Machine that does not exist, a webhook that refuses: the others have their turn in the same pass."""
    cluster = the_cluster(a_check(maxUnhealthy="100%"), ill("n1"), ill("n2"), *healthy(2))
    key = of_type(plan_of(cluster), StartRemediation)[0].key
    failures = {key: Failure(why="machines.machine.openshift.io not found", times=9, again_in=5 * MINUTE)}
    more = the_cluster(
        a_check(maxUnhealthy="100%"),
        *cluster.nodes.values(),
        failures=failures,
        foos=[a_remediation("w1")],
        locks=[a_lock("w2", "NodeHealthCheck-workers")],
    )
    plan = plan_of(more)
    assert set(started(plan)) == {"n1", "n2"}
    assert ended(plan) == ["w1"]

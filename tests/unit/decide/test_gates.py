"""What holds back a whole check: each gate with its value, its limit and its sentence, and how far it reaches."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from defib.decide.rules import Rules
from defib.model import medik8s
from defib.model.cluster import Blindness, Unread
from defib.model.health_check import NodeHealthCheck
from tests.builders import HOUR, MINUTE, SECOND, T0, a_node
from tests.unit.decide.checks import (
    BAR_TEMPLATE,
    a_check,
    a_ladder,
    a_remediation,
    after,
    condition_of,
    ended,
    gate_of,
    healthy,
    ill,
    node_of,
    plan_of,
    started,
    status_of,
    the_cluster,
    told,
)
from tests.unit.decide.world import World

UPGRADE_RULES = Rules(upgrade_signals=("announced",))


def an_upgrade(until: str = "2030-01-01T06:00:00Z") -> dict[str, dict[str, str]]:
    return {"defib-upgrade": {"until": until, "reason": "to 1.37"}}


# The threshold


@pytest.mark.parametrize(
    ("spec", "fewest"),
    [
        ({"minHealthy": 8}, 8),
        ({"minHealthy": "8"}, 8),
        ({"minHealthy": "80%"}, 8),
        ({"minHealthy": "75%"}, 8),
        ({"minHealthy": "0%"}, 0),
        ({"minHealthy": "100%"}, 10),
        ({"minHealthy": 12}, 12),
        ({"maxUnhealthy": 8}, 2),
        ({"maxUnhealthy": "8"}, 2),
        ({"maxUnhealthy": "80%"}, 2),
        ({"maxUnhealthy": "75%"}, 2),
        ({"maxUnhealthy": "0%"}, 10),
        ({"maxUnhealthy": "100%"}, 0),
        ({"maxUnhealthy": 12}, 0),
        ({}, 5),
        ({"minHealthy": "100%", "guards": {"alwaysAllowOne": True}}, 9),
        ({"maxUnhealthy": 0, "guards": {"alwaysAllowOne": True}}, 9),
        ({"maxUnhealthy": 2, "guards": {"alwaysAllowOne": True}}, 8),
    ],
)
def test_shares_of_ten_nodes_are_rounded_up(spec: dict[str, Any], fewest: int) -> None:
    gate = gate_of(plan_of(the_cluster(a_check(**spec), *healthy(10))), "Threshold")
    assert gate.limit == f"at least {fewest} of 10"


@pytest.mark.parametrize(("well", "starts"), [(8, 2), (7, 0)])
def test_nothing_is_begun_below_the_fewest_healthy_nodes(well: int, starts: int) -> None:
    nodes = [*healthy(well), *(ill(f"x{place}") for place in range(10 - well))]
    plan = plan_of(the_cluster(a_check(minHealthy="75%"), *nodes))
    assert len(started(plan)) == starts


def test_a_check_below_its_threshold_lists_all_unhealthy_nodes_and_says_why_once() -> None:
    plan = plan_of(the_cluster(a_check(minHealthy=2), *(ill(f"x{place}") for place in range(4)), *healthy(1)))
    status, gate = status_of(plan), gate_of(plan, "Threshold")
    assert (status.phase, status.unhealthy_count, status.healthy_nodes) == ("Enabled", 4, 1)
    assert [node.remediations for node in status.unhealthy_nodes or ()] == [None] * 4
    assert (gate.is_open, gate.value, gate.limit) == (False, "1 healthy", "at least 2 of 5")
    assert {node.message for node in status.unhealthy_nodes or ()} == {gate.message}
    assert condition_of(plan, "RemediationAllowed").message == gate.message
    assert gate.message in status.reason
    assert told(plan).count("RemediationSkipped") == 1


def test_a_node_on_its_way_to_unhealthy_counts_against_the_threshold() -> None:
    nodes = [ill("n1"), ill("soon", since=T0 - MINUTE), *healthy(3)]
    assert started(plan_of(the_cluster(a_check(minHealthy=4), *nodes))) == []


def test_a_node_whose_remediation_is_not_gone_yet_counts_against_the_threshold() -> None:
    nodes = [ill("n1"), *healthy(4)]
    leaving = a_remediation("w1", deleting=True)
    assert started(plan_of(the_cluster(a_check(minHealthy=4), *nodes))) == ["n1"]
    assert started(plan_of(the_cluster(a_check(minHealthy=4), *nodes, foos=[leaving]))) == []


def test_a_limit_that_allows_no_failure_at_all_says_how_to_allow_one() -> None:
    check = a_check(maxUnhealthy="0%")
    gate = gate_of(plan_of(the_cluster(check, ill("n1"), *healthy(2))), "Threshold")
    assert not gate.is_open
    assert "alwaysAllowOne" in gate.message


@pytest.mark.parametrize("spec", [{"minHealthy": "100%"}, {"minHealthy": 5}, {"maxUnhealthy": 0}])
def test_with_always_allow_one_a_small_pool_never_deadlocks(spec: dict[str, Any]) -> None:
    check = a_check(**spec, guards={"alwaysAllowOne": True})
    assert started(plan_of(the_cluster(check, ill("n1"), *healthy(2)))) == ["n1"]
    assert started(plan_of(the_cluster(check, ill("n1")))) == ["n1"]


def test_always_allow_one_allows_one_and_not_two() -> None:
    check = a_check(maxUnhealthy=0, guards={"alwaysAllowOne": True})
    assert started(plan_of(the_cluster(check, ill("n1"), ill("n2"), *healthy(1)))) == []
    busy = [a_remediation("n1")]
    assert started(plan_of(the_cluster(check, ill("n1"), ill("n2"), *healthy(1), foos=busy))) == []


# The brake, pauses and modes


def test_the_brake_is_a_config_map_and_says_who_and_why() -> None:
    config = {"defib-brake": {"paused": "true", "reason": "network work", "by": "ann"}}
    plan = plan_of(the_cluster(a_check(), ill("n1"), *healthy(2), config=config))
    assert started(plan) == []
    assert node_of(plan, "n1").reason == "Brake"
    assert gate_of(plan, "Brake").message == "the brake is on: network work (ann)"


def test_a_brake_that_says_nothing_is_on() -> None:
    assert started(plan_of(the_cluster(a_check(), ill("n1"), *healthy(2), config={"defib-brake": {}}))) == []


def test_a_brake_that_is_taken_off_holds_nothing_back() -> None:
    config = {"defib-brake": {"paused": "false"}}
    assert started(plan_of(the_cluster(a_check(), ill("n1"), *healthy(2), config=config))) == ["n1"]


def test_a_brake_in_another_namespace_is_none_of_ours() -> None:
    cluster = the_cluster(a_check(), ill("n1"), *healthy(2), config={"defib-brake": {}})
    assert started(plan_of(cluster, Rules(namespace="elsewhere"))) == ["n1"]


def test_the_brake_can_be_a_setting() -> None:
    plan = plan_of(the_cluster(a_check(), ill("n1"), *healthy(2)), Rules(brake_setting=True))
    assert (started(plan), node_of(plan, "n1").reason) == ([], "Brake")


def test_a_paused_check_counts_on_and_says_who_asks_for_the_pause() -> None:
    plan = plan_of(the_cluster(a_check(pauseRequests=["upgrade", "test"]), ill("n1"), *healthy(2)))
    status, gate = status_of(plan), gate_of(plan, "Paused")
    assert started(plan) == []
    assert (status.phase, status.observed_nodes, status.healthy_nodes) == ("Paused", 3, 2)
    assert (gate.is_open, gate.value, gate.limit, gate.message) == (False, "2", "0", "paused: upgrade; test")


def test_an_observing_check_says_so() -> None:
    plan = plan_of(the_cluster(a_check(mode="Observe"), ill("n1"), *healthy(2)))
    assert (started(plan), node_of(plan, "n1").reason) == ([], "ModeObserve")
    assert gate_of(plan, "ModeObserve").value == "Observe"


def test_an_observing_check_leaves_alone_what_was_begun_before_it_observed() -> None:
    world = World(a_check(), [ill("n1"), *healthy(2)])
    world.settle()
    world.spec("workers", mode="Observe")
    world.turn("n1", "True")
    plan = world.settle()
    assert "n1" in world.remediations()
    assert node_of(plan, "n1").reason == "Recovering"


# Upgrades


def test_nothing_is_begun_during_an_upgrade() -> None:
    plan = plan_of(the_cluster(a_check(), ill("n1"), *healthy(2), config=an_upgrade()), UPGRADE_RULES)
    status = status_of(plan)
    assert started(plan) == []
    assert node_of(plan, "n1").reason == "Upgrade"
    assert "to 1.37" in node_of(plan, "n1").message
    assert (status.phase, status.observed_nodes, status.healthy_nodes) == ("Enabled", 3, 2)
    assert condition_of(plan, "Upgrading").status == "True"
    assert condition_of(plan, "UpgradeStuck").status == "False"


def test_an_upgrade_that_ends_lets_remediation_begin_at_that_moment() -> None:
    world = World(a_check(), [ill("n1"), *healthy(2)], rules=UPGRADE_RULES)
    world.config("defib-upgrade", an_upgrade("2030-01-01T00:10:30Z")["defib-upgrade"])
    world.wait(10 * MINUTE)
    assert not world.creations
    world.wait(30 * SECOND)
    assert [one.node for one in world.creations] == ["n1"]
    assert world.status().is_true("Upgrading") is False


def test_an_upgrade_that_takes_too_long_holds_nothing_back_any_more_and_says_so_loudly() -> None:
    world = World(a_check(), [ill("n1"), *healthy(2)], rules=UPGRADE_RULES)
    world.config("defib-upgrade", an_upgrade("2030-01-05T00:00:00Z")["defib-upgrade"])
    world.wait(3 * HOUR)
    assert not world.creations
    plan = world.wait(SECOND)
    assert [one.node for one in world.creations] == ["n1"]
    assert world.status().is_true("UpgradeStuck")
    assert world.told().count("UpgradeStuck") == 1
    gate = gate_of(plan, "Upgrade")
    assert (gate.is_open, gate.limit) == (True, "3h")


def test_the_limit_of_an_upgrade_is_a_setting() -> None:
    rules = Rules(upgrade_signals=("announced",), upgrade_limit=10 * MINUTE)
    world = World(a_check(), [ill("n1"), *healthy(2)], rules=rules)
    world.config("defib-upgrade", an_upgrade()["defib-upgrade"])
    world.wait(11 * MINUTE)
    assert [one.node for one in world.creations] == ["n1"]


def test_the_clock_of_an_upgrade_runs_on_while_all_nodes_are_healthy_for_a_while() -> None:
    """Nodes go down one after the other in an upgrade; each of them would restart a clock that stops in between."""
    world = World(a_check(), [ill("n1"), *healthy(3)], rules=UPGRADE_RULES)
    world.config("defib-upgrade", an_upgrade("2030-01-05T00:00:00Z")["defib-upgrade"])
    world.wait(2 * HOUR)
    world.turn("n1", "True")
    world.wait(30 * MINUTE)
    assert world.status().is_true("Upgrading")
    world.turn("w1", "Unknown")
    world.wait(31 * MINUTE)
    assert [one.node for one in world.creations] == ["w1"]


def test_the_end_of_an_upgrade_is_noticed_also_while_all_nodes_are_healthy() -> None:
    world = World(a_check(), [ill("n1"), *healthy(3)], rules=UPGRADE_RULES)
    world.config("defib-upgrade", an_upgrade("2030-01-01T01:00:00Z")["defib-upgrade"])
    world.settle()
    world.turn("n1", "True")
    assert world.settle().wake_at == T0 + HOUR
    world.wait(2 * HOUR)
    assert not world.status().is_true("Upgrading")


def test_an_upgrade_of_one_check_holds_back_that_check_only() -> None:
    checks = [
        a_check("a", selector={"matchLabels": {"pool": "a"}}, annotations={"defib.dev/upgrading-until": SOON}),
        a_check("b", selector={"matchLabels": {"pool": "b"}}),
    ]
    nodes = [ill(name, labels={"pool": name[0]}) for name in ("a1", "b1")]
    more = [a_node(name, labels={"pool": name[0]}) for name in ("a2", "b2")]
    plan = plan_of(the_cluster(checks, *nodes, *more), UPGRADE_RULES)
    assert started(plan) == ["b1"]
    assert node_of(plan, "a1", "a").reason == "Upgrade"


SOON = "2030-01-01T01:00:00Z"


def test_an_upgrade_of_one_node_holds_back_that_node_only() -> None:
    nodes = [ill("n1", annotations={"defib.dev/upgrading-until": SOON}), ill("n2"), *healthy(3)]
    plan = plan_of(the_cluster(a_check(), *nodes), UPGRADE_RULES)
    assert started(plan) == ["n2"]
    assert node_of(plan, "n1").reason == "NodeUpgrade"
    gate = gate_of(plan, "NodeUpgrade", "n1")
    assert (gate.is_open, gate.value, gate.limit) == (False, "announced", "3h")


def test_an_upgrade_of_one_node_that_takes_too_long_holds_it_back_no_more() -> None:
    node = ill("n1", annotations={"defib.dev/upgrading-until": "2030-01-03T00:00:00Z"})
    world = World(a_check(), [node, *healthy(3)], rules=UPGRADE_RULES)
    world.wait(2 * HOUR)
    assert not world.creations  # it has been unhealthy for 55 minutes more than that
    world.wait(5 * MINUTE + SECOND)
    assert [one.node for one in world.creations] == ["n1"]
    assert world.status().is_true("UpgradeStuck")
    assert world.told().count("UpgradeStuck") == 1


def test_a_node_that_openshift_moves_to_another_configuration_is_held_back_alone() -> None:
    """Also in hosted control planes, where no ClusterVersion of this cluster tells of the upgrade."""
    prefix = "machineconfiguration.openshift.io"
    moving = ill("n1", annotations={f"{prefix}/currentConfig": "old", f"{prefix}/desiredConfig": "new"})
    rules = Rules(upgrade_signals=("machine-config",))
    plan = plan_of(the_cluster(a_check(), moving, ill("n2"), *healthy(3)), rules)
    assert (started(plan), node_of(plan, "n1").reason) == (["n2"], "NodeUpgrade")


# How far the gates reach

Close = Callable[[World], None]


def too_many(world: World) -> None:
    world.put(*(ill(f"x{place}") for place in range(9)))


def a_storm(world: World) -> None:
    world.spec("workers", stormCooldownDuration="1h")
    too_many(world)
    world.settle()
    for place in range(9):
        del world.nodes[f"x{place}"]


def upgrading(world: World) -> None:
    world.config("defib-upgrade", an_upgrade()["defib-upgrade"])


def braked(world: World) -> None:
    world.config("defib-brake", {})


def paused(world: World) -> None:
    world.spec("workers", pauseRequests=["stop"])


def approving(world: World) -> None:
    world.spec("workers", mode="Approve")


def doubting(world: World) -> None:
    world.extra = {"doubts": ("the API server fails",)}


def blind(world: World) -> None:
    world.extra = {"blind": (Blindness("nodes", T0, "connection refused"),)}


def excluded(world: World) -> None:
    world.label("n1", {medik8s.EXCLUDED: "true"})


def without_template(world: World) -> None:
    world.others["footemplates"] = {}


def climbing() -> World:
    """A node on the first step of its ladder, whose second step is due in a minute."""
    ladder = a_ladder(("foo", "60s"), ("bar", "60s", BAR_TEMPLATE))
    world = World(a_check(escalatingRemediations=ladder), [ill("n1"), *healthy(3)], rules=UPGRADE_RULES)
    world.settle()
    assert list(world.remediations("foos")) == ["n1"]
    return world


@pytest.mark.parametrize("close", [too_many, a_storm, upgrading])
def test_a_node_that_was_admitted_climbs_on_under_gates_for_new_nodes(close: Close) -> None:
    world = climbing()
    close(world)
    world.wait(2 * MINUTE)
    assert list(world.remediations("bars")) == ["n1"]


@pytest.mark.parametrize(
    "close", [braked, paused, approving, doubting, blind, excluded, without_template], ids=lambda one: one.__name__
)
def test_other_gates_hold_back_every_new_remediation(close: Close) -> None:
    world = climbing()
    close(world)
    world.wait(2 * MINUTE)
    assert list(world.remediations("foos")) == ["n1"]
    assert not world.remediations("bars")


ALL = [too_many, a_storm, upgrading, braked, paused, approving, doubting, excluded, without_template]


@pytest.mark.parametrize("close", ALL, ids=lambda one: one.__name__)
def test_under_every_gate_the_lock_of_a_node_in_flight_is_renewed(close: Close) -> None:
    world = World(a_check(), [ill("n1"), *healthy(3)], rules=UPGRADE_RULES)
    world.settle()
    close(world)
    world.wait(20 * MINUTE)
    renewed = world.locks["medik8s-leases/node-n1"].spec.renew_time
    assert renewed is not None
    assert renewed > T0 + 18 * MINUTE


@pytest.mark.parametrize("close", ALL, ids=lambda one: one.__name__)
def test_under_every_gate_the_remediation_of_a_recovered_node_goes(close: Close) -> None:
    world = World(a_check(), [ill("n1"), *healthy(3)], rules=UPGRADE_RULES)
    world.settle()
    close(world)
    world.turn("n1", "True")
    world.settle()
    assert not world.remediations()
    assert not world.locks
    assert world.status().node("n1") is None


@pytest.mark.parametrize("close", ALL, ids=lambda one: one.__name__)
def test_under_every_gate_the_counts_are_real(close: Close) -> None:
    world = World(a_check(), [ill("n1"), *healthy(3)], rules=UPGRADE_RULES)
    close(world)
    world.settle()
    status = world.status()
    assert status.observed_nodes == len(world.nodes)
    assert status.healthy_nodes == 3


def test_the_first_closed_gate_is_the_reason_and_all_are_listed() -> None:
    check = a_check(mode="Observe", pauseRequests=["stop"])
    plan = plan_of(the_cluster(check, ill("n1"), *healthy(2), config={"defib-brake": {}}))
    closed = [gate.name for gate in plan.checks["workers"].verdicts["n1"].gates if not gate.is_open]
    assert closed == ["Brake", "Paused", "ModeObserve"]
    assert condition_of(plan, "RemediationAllowed").reason == "Brake"


def test_a_node_that_is_held_back_lists_the_gates_of_the_check_and_its_own() -> None:
    plan = plan_of(the_cluster(a_check(pauseRequests=["stop"]), ill("n1"), *healthy(2)))
    names = [gate.name for gate in plan.checks["workers"].verdicts["n1"].gates]
    assert names == [
        "Disabled",
        "BeingDeleted",
        "Brake",
        "Paused",
        "Mode",
        "SelfDoubt",
        "Threshold",
        "Storm",
        "Upgrade",
        "Excluded",
        "Approval",
        "Lock",
        "ForeignRemediation",
        "ControlPlane",
        "Quorum",
        "NodeUpgrade",
        "Flapping",
        "RateLimit",
        "InFlight",
    ]


def test_every_gate_says_something_open_or_closed() -> None:
    plan = plan_of(the_cluster(a_check(), ill("n1"), *healthy(2)))
    assert all(gate.message and gate.is_open for gate in plan.checks["workers"].verdicts["n1"].gates)
    assert ended(plan) == []


# A check that is being deleted


def leaving(item: NodeHealthCheck) -> NodeHealthCheck:
    return msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, deletion_timestamp=T0))


def test_a_check_that_is_being_deleted_begins_nothing_and_says_so() -> None:
    plan = plan_of(the_cluster(leaving(a_check()), ill("n1"), *healthy(5)))
    assert (started(plan), node_of(plan, "n1").reason) == ([], "BeingDeleted")
    assert gate_of(plan, "BeingDeleted").message == "the check is being deleted"


def test_a_check_that_is_being_deleted_still_cleans_up() -> None:
    plan = plan_of(the_cluster(leaving(a_check()), *healthy(5), foos=[a_remediation("w1")]))
    assert ended(plan) == ["w1"]


def test_a_brake_that_cannot_be_read_is_on() -> None:
    unread = (Unread("configmaps", "defib-system/defib-brake", "not valid UTF-8"),)
    plan = plan_of(the_cluster(a_check(), ill("n1"), *healthy(5), unread=unread))
    assert (started(plan), node_of(plan, "n1").reason) == ([], "Brake")
    elsewhere = (
        Unread("configmaps", "other/defib-brake", "not valid UTF-8"),
        Unread("nodes", "defib-system/defib-brake", ""),
    )
    assert started(plan_of(the_cluster(a_check(), ill("n1"), *healthy(5), unread=elsewhere))) == ["n1"]


def test_an_upgrade_that_was_noticed_in_the_future_was_noticed_now_and_gets_stuck_in_time() -> None:
    entry = {"type": "Upgrading", "status": "True", "lastTransitionTime": "2999-01-01T00:00:00Z"}
    check = a_check(status={"conditions": [entry]})
    cluster = the_cluster(check, ill("n1"), *healthy(5), config=an_upgrade(until="2030-01-02T00:00:00Z"))
    plan = plan_of(cluster, UPGRADE_RULES)
    assert (started(plan), condition_of(plan, "Upgrading").last_transition_time) == ([], T0)
    assert started(plan_of(after(cluster, plan, now=T0 + 3 * HOUR + SECOND), UPGRADE_RULES)) == ["n1"]

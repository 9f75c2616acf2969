"""What holds back one node, and whose turn it is when not all may be remediated at once."""

from collections import Counter
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from defib.decide.rules import Rules
from defib.model import medik8s
from defib.model.action import Because, StartRemediation
from defib.model.cluster import Served
from defib.model.failure import Failure
from defib.model.lock import Claim
from defib.model.meta import Meta, Unstructured
from defib.model.node import LeaseSpec
from defib.model.node_drain import DRAIN
from tests.builders import HOUR, MINUTE, SECOND, T0, a_node
from tests.unit.decide.checks import (
    BAR_TEMPLATE,
    FOO,
    LONG_AGO,
    a_check,
    a_ladder,
    a_lock,
    a_remediation,
    condition_of,
    gate_of,
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

ZONE = "topology.kubernetes.io/zone"


def being_started(node: str, check: str = "workers") -> StartRemediation:
    """One that the executor has begun and not ended."""
    return StartRemediation(
        check=check,
        node=node,
        node_uid=f"uid-{node}",
        because=Because("Ready", "Unknown"),
        kind=FOO,
        namespace="ns",
        body={"metadata": {"name": node}},
        claim=Claim(node=node, node_uid=f"uid-{node}", holder=medik8s.holder_of(check), length=11 * MINUTE),
    )


# Exclusion


@pytest.mark.parametrize(("value", "starts"), [("true", []), ("false", ["n1"]), ("", ["n1"]), ("True", ["n1"])])
def test_only_the_value_true_excludes_a_node(value: str, starts: list[str]) -> None:
    cluster = the_cluster(a_check(), ill("n1", labels={medik8s.EXCLUDED: value}), *healthy(2))
    assert started(plan_of(cluster)) == starts


def test_an_excluded_node_is_unhealthy_all_the_same_and_a_person_is_told() -> None:
    plan = plan_of(the_cluster(a_check(), ill("n1", labels={medik8s.EXCLUDED: "true"}), *healthy(2)))
    assert node_of(plan, "n1").reason == "Excluded"
    assert gate_of(plan, "Excluded", "n1").value == "true"
    assert "RemediationSkipped" in told(plan)
    assert condition_of(plan, "RemediationAllowed").status == "True"


def test_an_exclusion_without_a_value_is_ignored_with_a_warning() -> None:
    plan = plan_of(the_cluster(a_check(), ill("n1", labels={medik8s.EXCLUDED: ""}), *healthy(2)))
    assert "InvalidNodeLabel" in told(plan)


def test_a_node_is_let_go_when_its_exclusion_is_taken_away() -> None:
    world = World(a_check(), [ill("n1", labels={medik8s.EXCLUDED: "true"}), *healthy(2)])
    world.settle()
    world.label("n1", {})
    world.settle()
    assert world.in_flight() == {"n1"}


# Approval


def approved(until: str) -> dict[str, str]:
    return {"defib.dev/approved-until": until}


@pytest.mark.parametrize(
    ("annotations", "starts", "says"),
    [
        ({}, [], "waits for a person's approval: defib approve n1"),
        (approved("2030-01-01T00:00:01Z"), ["n1"], ""),
        (approved("2030-01-01T02:00:01+02:00"), ["n1"], ""),
        (approved("2030-01-01T00:00:00Z"), [], "the approval ended at 2030-01-01T00:00:00Z"),
        (approved("2030-01-01T00:00:01"), [], "is not a time"),
        (approved("tomorrow"), [], "the approval 'tomorrow' is not a time"),
        (approved("9999-12-31T23:59:59Z"), [], "is not a time"),
    ],
)
def test_a_check_that_asks_waits_for_an_approval_that_has_not_ended(
    annotations: dict[str, str], starts: list[str], says: str
) -> None:
    plan = plan_of(the_cluster(a_check(mode="Approve"), ill("n1", annotations=annotations), *healthy(2)))
    assert started(plan) == starts
    assert says in gate_of(plan, "Approval", "n1").message
    if not starts:
        assert node_of(plan, "n1").reason == "Approval"


@pytest.mark.parametrize(
    ("rejected", "starts", "says"),
    [
        (
            "2030-01-01T00:00:01Z ann: copying",
            [],
            "ann has said no until 2030-01-01T00:00:01Z (copying): defib approve n1",
        ),
        ("2030-01-01T00:00:00Z ann", ["n1"], "a person has approved it until 2030-01-01T01:00:00Z"),
        ("no", [], "the annotation defib.dev/rejected says no, and its 'no' does not begin with a time"),
    ],
)
def test_whoever_says_no_is_heard_before_whoever_says_yes(rejected: str, starts: list[str], says: str) -> None:
    words = approved("2030-01-01T01:00:00Z") | {"defib.dev/rejected": rejected}
    plan = plan_of(the_cluster(a_check(mode="Approve"), ill("n1", annotations=words), *healthy(2)))
    assert started(plan) == starts
    assert says in gate_of(plan, "Approval", "n1").message


def test_a_rejection_means_nothing_to_a_check_that_does_not_ask() -> None:
    words = {"defib.dev/rejected": "2031-01-01T00:00:00Z ann"}
    assert started(plan_of(the_cluster(a_check(), ill("n1", annotations=words), *healthy(2)))) == ["n1"]


def test_an_approval_means_nothing_to_a_check_that_does_not_ask() -> None:
    cluster = the_cluster(a_check(), ill("n1", annotations=approved("2020-01-01T00:00:00Z")), *healthy(2))
    assert started(plan_of(cluster)) == ["n1"]


def test_each_step_of_a_ladder_needs_an_approval_that_has_not_ended() -> None:
    ladder = a_ladder(("foo", "60s"), ("bar", "60s", BAR_TEMPLATE))
    node = ill("n1", annotations=approved("2030-01-01T00:00:30Z"))
    world = World(a_check(mode="Approve", escalatingRemediations=ladder), [node, *healthy(2)])
    world.wait(5 * MINUTE)
    assert not world.remediations("bars")
    world.annotate("n1", "defib.dev/approved-until", "2030-01-01T00:10:00Z")
    world.settle()
    assert "n1" in world.remediations("bars")


def test_an_approval_is_removed_when_the_node_is_healthy_again() -> None:
    world = World(a_check(mode="Approve"), [ill("n1"), *healthy(2)])
    world.annotate("n1", "defib.dev/approved-until", "2030-01-01T05:00:00Z")
    world.settle()
    world.turn("n1", "True")
    world.settle()
    assert not world.remediations()
    assert world.nodes["n1"].annotations == {}


# Locks


@pytest.mark.parametrize(
    ("spec", "starts"),
    [
        (LeaseSpec(holder_identity="node-maintenance", lease_duration_seconds=3600, renew_time=T0), []),
        (LeaseSpec(holder_identity="node-maintenance", lease_duration_seconds=3600, renew_time=T0 - HOUR), []),
        (LeaseSpec(holder_identity="node-maintenance", lease_duration_seconds=60, renew_time=T0 - HOUR), ["n1"]),
        (LeaseSpec(holder_identity="node-maintenance", lease_duration_seconds=60, renew_time=T0 + HOUR), ["n1"]),
        (LeaseSpec(holder_identity="node-maintenance", renew_time=T0), ["n1"]),
        (LeaseSpec(holder_identity="node-maintenance", lease_duration_seconds=60), ["n1"]),
        (LeaseSpec(holder_identity="NodeHealthCheck-workers", lease_duration_seconds=60, renew_time=T0), ["n1"]),
        (LeaseSpec(holder_identity="NodeHealthCheck-others", lease_duration_seconds=60, renew_time=T0), []),
        (LeaseSpec(holder_identity="", lease_duration_seconds=60, renew_time=T0), ["n1"]),
    ],
)
def test_a_lock_that_another_holds_is_honoured(spec: LeaseSpec, starts: list[str]) -> None:
    lock = msgspec.structs.replace(a_lock("n1", "x"), spec=spec)
    assert started(plan_of(the_cluster(a_check(), ill("n1"), *healthy(2), locks=[lock]))) == starts


def test_a_node_under_a_foreign_lock_is_tried_when_the_lock_ends() -> None:
    world = World(a_check(), [ill("n1"), *healthy(2)])
    world.locks["medik8s-leases/node-n1"] = a_lock("n1", "node-maintenance", seconds=600)
    plan = world.settle()
    assert node_of(plan, "n1").reason == "Lock"
    assert gate_of(plan, "Lock", "n1").value == "node-maintenance"
    assert plan.wake_at is not None
    assert T0 + 10 * MINUTE < plan.wake_at < T0 + 10 * MINUTE + SECOND
    world.wait(10 * MINUTE + SECOND)
    assert world.in_flight() == {"n1"}
    assert world.locks["medik8s-leases/node-n1"].spec.holder_identity == "NodeHealthCheck-workers"


def test_a_new_lock_lasts_a_minute_longer_than_a_remediation_may_take() -> None:
    (start,) = of_type(plan_of(the_cluster(a_check(), ill("n1"), *healthy(2))), StartRemediation)
    assert (start.claim.holder, start.claim.length) == ("NodeHealthCheck-workers", 11 * MINUTE)


def test_locks_live_where_the_settings_say() -> None:
    world = World(a_check(), [ill("n1"), *healthy(2)], rules=Rules(lock_namespace="locks"))
    world.locks["medik8s-leases/node-n1"] = a_lock("n1", "node-maintenance")
    world.settle()
    assert world.in_flight() == {"n1"}
    assert "locks/node-n1" in world.locks


# Remediations of others


@pytest.mark.parametrize("owner", ["", "others"])
def test_a_remediation_that_somebody_else_made_is_respected_and_left_alone(owner: str) -> None:
    world = World(a_check(), [ill("n1"), *healthy(2)])
    foreign = a_remediation("n1", check=owner)
    world.others["foos"] = {foreign.key: foreign}
    plan = world.settle()
    assert node_of(plan, "n1").reason == "ForeignRemediation"
    assert node_of(plan, "n1").remediations is None
    assert gate_of(plan, "ForeignRemediation", "n1").value == "FooRemediation ns/n1"
    world.turn("n1", "True")
    world.settle()
    assert world.remediations()["n1"] is foreign


def test_a_foreign_remediation_that_goes_makes_room_for_ours() -> None:
    world = World(a_check(), [ill("n1"), *healthy(2)])
    foreign = a_remediation("n1", check="")
    world.others["foos"] = {foreign.key: foreign}
    world.settle()
    world.drop("n1")
    world.settle()
    assert world.in_flight() == {"n1"}


def test_two_checks_never_begin_with_the_same_node_in_one_pass() -> None:
    checks = [a_check("a"), a_check("b", remediationTemplate=template_ref("bar", BAR_TEMPLATE))]
    plan = plan_of(the_cluster(checks, ill("n1"), *healthy(2)))
    assert [(one.check, one.node) for one in of_type(plan, StartRemediation)] == [("a", "n1")]
    assert node_of(plan, "n1", "b").reason == "Lock"


def test_a_node_that_another_check_is_about_to_remediate_is_left_to_it() -> None:
    checks = [a_check("a"), a_check("b", remediationTemplate=template_ref("bar", BAR_TEMPLATE))]
    plan = plan_of(the_cluster(checks, ill("n1"), *healthy(2), underway=(being_started("n1", "b"),)))
    assert started(plan) == []


def test_a_second_check_with_another_template_does_not_remediate_the_same_node() -> None:
    checks = [a_check("a"), a_check("b", remediationTemplate=template_ref("bar", BAR_TEMPLATE))]
    world = World(checks, [ill("n1"), *healthy(2)])
    world.wait(5 * MINUTE)
    assert (world.in_flight("a"), world.in_flight("b")) == ({"n1"}, set())
    assert world.status("b").unhealthy_count == 1


# How many at once


@pytest.mark.parametrize(("limit", "starts"), [(0, 0), (1, 1), (3, 3), ("25%", 2), ("1%", 1), (50, 4)])
def test_no_more_nodes_are_in_flight_than_the_check_allows(limit: int | str, starts: int) -> None:
    nodes = [*(ill(f"x{place}") for place in range(4)), *healthy(4)]
    plan = plan_of(the_cluster(a_check(maxUnhealthy="100%", guards={"maxInFlight": limit}), *nodes))
    assert len(started(plan)) == starts


def test_a_full_budget_says_how_full_it_is() -> None:
    nodes = [*(ill(f"x{place}") for place in range(3)), *healthy(4)]
    plan = plan_of(the_cluster(a_check(guards={"maxInFlight": 2}), *nodes))
    gate = gate_of(plan, "InFlight", "x2")
    assert (gate.is_open, gate.value, gate.limit) == (False, "2", "2")
    assert node_of(plan, "x2").reason == "InFlight"


def test_what_is_being_created_and_what_is_being_deleted_is_in_flight() -> None:
    check = a_check(guards={"maxInFlight": 2})
    leaving = a_remediation("w1", deleting=True)
    cluster = the_cluster(check, ill("x1"), *healthy(4), ill("x2"), foos=[leaving], underway=(being_started("x1"),))
    assert started(plan_of(cluster)) == []


def test_the_remediation_of_a_node_that_is_gone_is_in_flight() -> None:
    check = a_check(guards={"maxInFlight": 1})
    waiting = a_remediation("gone", conditions={medik8s.PERMANENT_DELETION: "True"})
    assert started(plan_of(the_cluster(check, ill("x1"), *healthy(4), foos=[waiting]))) == []


def test_the_node_that_has_been_unhealthy_for_longest_goes_first() -> None:
    nodes = [ill("a", since=LONG_AGO), ill("b", since=LONG_AGO - SECOND), ill("c", since=LONG_AGO), *healthy(5)]
    assert started(plan_of(the_cluster(a_check(guards={"maxInFlight": 2}), *nodes))) == ["b", "a"]


def test_a_node_whose_remediation_cannot_be_created_does_not_hold_up_the_others() -> None:
    nodes = [ill("a", since=LONG_AGO - HOUR), ill("b"), *healthy(5)]
    failures = {being_started("a").key: Failure(why="denied by a webhook", times=3, again_in=4 * SECOND)}
    plan = plan_of(the_cluster(a_check(guards={"maxInFlight": 1}), *nodes, failures=failures))
    assert started(plan) == ["b"]


def test_a_remediation_that_cannot_be_created_says_why_and_is_tried_again() -> None:
    failures = {being_started("a").key: Failure(why="denied by a webhook", times=3, again_in=4 * SECOND)}
    plan = plan_of(the_cluster(a_check(), ill("a"), *healthy(5), failures=failures))
    assert started(plan) == ["a"]
    assert node_of(plan, "a").reason == "CreationFailed"
    assert "denied by a webhook" in node_of(plan, "a").message
    assert "RemediationFailed" in told(plan)


def test_a_node_between_two_steps_whose_first_remediation_was_taken_away_needs_a_place_again() -> None:
    ladder = a_ladder(("foo", "60s"), ("bar", "60s", BAR_TEMPLATE))
    resource = {"apiVersion": FOO.api_version, "kind": FOO.name, "namespace": "ns", "name": "a", "uid": "1"}
    entry = {"resource": resource, "started": "2029-12-31T23:50:00Z", "timedOut": "2029-12-31T23:51:00Z"}
    status = {"unhealthyNodes": [{"name": "a", "remediations": [entry | {"templateName": "foo"}]}]}
    check = a_check(escalatingRemediations=ladder, guards={"maxInFlight": 1}, status=status)
    nodes = [ill("a", since=LONG_AGO - HOUR), ill("b"), *healthy(5)]
    plan = plan_of(the_cluster(check, *nodes, foos=[a_remediation("b")]))
    assert (started(plan), node_of(plan, "a").reason) == ([], "InFlight")
    (start,) = of_type(plan_of(the_cluster(check, *nodes)), StartRemediation)
    assert (start.node, start.kind.name) == ("a", "BarRemediation")


# Failure domains


def in_zone(zone: str, *names: str) -> list[Any]:
    return [ill(name, labels={ZONE: zone}) for name in names]


def test_each_value_of_a_label_has_its_own_budget() -> None:
    check = a_check(maxUnhealthy="100%", guards={"failureDomains": [{"label": ZONE, "maxInFlight": 1}]})
    nodes = [*in_zone("a", "a1", "a2"), *in_zone("b", "b1", "b2"), ill("c1"), ill("c2")]
    plan = plan_of(the_cluster(check, *nodes))
    assert started(plan) == ["a1", "b1", "c1"]
    gate = gate_of(plan, "FailureDomain", "a2")
    assert (gate.is_open, gate.value, gate.limit) == (False, "1", "1")
    assert f"{ZONE}=a" in gate.message


def test_a_share_is_of_the_selected_nodes_in_that_domain_rounded_up() -> None:
    spec = {"label": ZONE, "maxInFlight": "50%"}
    check = a_check(selector={"matchLabels": {"pool": "x"}}, maxUnhealthy="100%", guards={"failureDomains": [spec]})
    selected = [ill(f"a{place}", labels={ZONE: "a", "pool": "x"}) for place in range(3)]
    others = [ill(f"o{place}", labels={ZONE: "a"}) for place in range(6)]
    assert len(started(plan_of(the_cluster(check, *selected, *others)))) == 2


def test_a_node_must_fit_into_all_its_domains() -> None:
    domains = [{"label": ZONE, "maxInFlight": 2}, {"label": "rack", "maxInFlight": 1}]
    check = a_check(maxUnhealthy="100%", guards={"failureDomains": domains})
    places = [("n1", "a", "r1"), ("n2", "a", "r1"), ("n3", "a", "r2"), ("n4", "a", "r3"), ("n5", "b", "r3")]
    nodes = [ill(name, labels={ZONE: zone, "rack": rack}) for name, zone, rack in places]
    assert started(plan_of(the_cluster(check, *nodes))) == ["n1", "n3", "n5"]


def test_what_is_in_flight_fills_the_domain_of_its_node() -> None:
    check = a_check(maxUnhealthy="100%", guards={"failureDomains": [{"label": ZONE, "maxInFlight": 1}]})
    nodes = [*in_zone("a", "a1", "a2"), *in_zone("b", "b1")]
    assert started(plan_of(the_cluster(check, *nodes, foos=[a_remediation("a2")]))) == ["b1"]


@pytest.mark.parametrize(("forced", "begun"), [("a2", ["b1"]), ("a1", ["a1", "b1"]), ("elsewhere", ["a1", "b1"])])
def test_shx_03_a_node_that_is_drained_by_force_fills_its_domain_for_others(forced: str, begun: list[str]) -> None:
    check = a_check(maxUnhealthy="100%", guards={"failureDomains": [{"label": ZONE, "maxInFlight": 1}]})
    nodes = [ill("a1", labels={ZONE: "a"}), a_node("a2", labels={ZONE: "a"}), *in_zone("b", "b1", "b2")]
    cluster = the_cluster(check, *nodes)
    drain = Unstructured(metadata=Meta(name=forced), status={"begun": True})
    cluster = msgspec.structs.replace(
        cluster,
        kinds={**cluster.kinds, DRAIN: Served("drains", namespaced=False)},
        others={**cluster.others, "drains": {forced: drain}},
    )
    assert started(plan_of(cluster)) == begun


# How many over time


def rate(count: int, per: str = "10m") -> dict[str, Any]:
    return {"rateLimit": {"remediations": count, "per": per}}


def flaps(count: int, within: str = "1h") -> dict[str, Any]:
    return {"flapDamping": {"remediations": count, "within": within}}


def test_no_more_nodes_are_newly_remediated_within_a_time_than_the_check_allows() -> None:
    world = World(a_check(maxUnhealthy="100%", guards=rate(2)), [*(ill(f"x{place}") for place in range(5))])
    plan = world.settle()
    assert world.in_flight() == {"x0", "x1"}
    gate = gate_of(plan, "RateLimit", "x2")
    assert (gate.is_open, gate.value, gate.limit) == (False, "2", "2")
    world.wait(10 * MINUTE)
    assert world.in_flight() == {"x0", "x1", "x2", "x3"}
    world.wait(10 * MINUTE)
    assert len(world.in_flight()) == 5


def test_a_held_node_goes_at_the_very_moment_at_which_the_rate_allows_it() -> None:
    world = World(a_check(maxUnhealthy="100%", guards=rate(1)), [ill("x0"), ill("x1"), *healthy(2)])
    assert world.settle().wake_at is not None
    world.turn("x0", "True")
    world.wait(10 * MINUTE - timedelta(milliseconds=1))
    assert not world.in_flight()
    world.now = T0 + 10 * MINUTE
    world.settle()
    assert world.in_flight() == {"x1"}


def test_a_rate_counts_remediations_that_are_over() -> None:
    world = World(a_check(maxUnhealthy="100%", guards=rate(1)), [ill("x0"), ill("x1"), *healthy(2)])
    world.settle()
    world.turn("x0", "True")
    world.settle()
    world.forget()
    world.wait(5 * MINUTE)
    assert not world.in_flight()
    assert [one.node for one in world.creations] == ["x0"]


def test_the_next_step_of_a_ladder_is_no_new_remediation_to_a_rate() -> None:
    ladder = a_ladder(("foo", "60s"), ("bar", "60s", BAR_TEMPLATE))
    check = a_check(escalatingRemediations=ladder, guards=rate(1, "1h") | flaps(1))
    world = World(check, [ill("n1"), *healthy(3)])
    world.wait(2 * MINUTE)
    assert "n1" in world.remediations("bars")


def test_a_node_that_was_remediated_too_often_is_left_alone_for_a_while() -> None:
    world = World(a_check(guards=flaps(2)), [ill("n1"), *healthy(3)])
    for _ in range(2):
        world.settle()
        assert world.in_flight() == {"n1"}
        world.now += 5 * MINUTE
        world.turn("n1", "True")
        world.settle()
        world.now += 5 * MINUTE
        world.turn("n1", "Unknown")
        world.wait(5 * MINUTE + SECOND)
    plan = world.settle()
    assert node_of(plan, "n1").reason == "Flapping"
    gate = gate_of(plan, "Flapping", "n1")
    assert (gate.is_open, gate.value, gate.limit) == (False, "2", "2")
    world.wait(T0 + HOUR - world.now - SECOND)
    assert not world.in_flight()
    world.wait(SECOND)
    assert world.in_flight() == {"n1"}


def test_flap_damping_counts_each_node_for_itself() -> None:
    world = World(a_check(maxUnhealthy="100%", guards=flaps(1)), [ill("n1"), ill("n2"), *healthy(3)])
    world.settle()
    assert world.in_flight() == {"n1", "n2"}


def test_what_was_remediated_before_a_node_is_tried_again_is_not_forgotten_meanwhile() -> None:
    """While a remediation is being created, the status is written too."""
    history = [{"node": "n1", "started": f"2029-12-31T23:{minute}:00Z"} for minute in (20, 40)]
    check = a_check(guards=flaps(3), status={"history": history})
    plan = plan_of(the_cluster(check, ill("n1"), *healthy(3), underway=(being_started("n1"),)))
    kept = Counter(one.node for one in plan.checks["workers"].status.history or ())
    assert kept == {"n1": 2}


# The control plane: one at a time, under whichever check

CONTROL_PLANE = {"node-role.kubernetes.io/control-plane": ""}


def control_plane(well: int, *, sick: tuple[str, ...] = ()) -> list[Any]:
    ready = [ill(f"cp{place}", ready="True", labels=CONTROL_PLANE) for place in range(well)]
    return [*ready, *(ill(name, labels=CONTROL_PLANE) for name in sick)]


def test_of_two_unhealthy_control_plane_nodes_one_is_remediated_and_workers_are_not_held_up() -> None:
    world = World(a_check(maxUnhealthy="100%"), [*control_plane(3, sick=("x1", "x2")), ill("w1")], finalizers=True)
    plan = world.settle()
    assert world.in_flight() == {"x1", "w1"}
    gate = gate_of(plan, "ControlPlane", "x2")
    assert (gate.is_open, gate.value, gate.limit) == (False, "x1", "one at a time")
    skipped = [event.message for event in world.events if event.reason == "RemediationSkipped"]
    assert len(skipped) == 1
    assert "x2" in skipped[0]
    world.turn("x1", "True")
    world.settle()
    assert "x2" not in world.in_flight()  # the remediation of x1 is being deleted, not gone
    world.leave()
    world.settle()
    assert "x2" in world.in_flight()


@pytest.mark.parametrize("label", ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"])
def test_two_checks_in_one_pass_take_one_control_plane_node_together(label: str) -> None:
    checks = [
        a_check("a", selector={"matchLabels": {"pool": "a"}}, maxUnhealthy="100%"),
        a_check(
            "b",
            selector={"matchLabels": {"pool": "b"}},
            maxUnhealthy="100%",
            remediationTemplate=template_ref("bar", BAR_TEMPLATE),
        ),
    ]
    nodes = [
        ill("x1", labels={label: "", "pool": "a"}),
        ill("x2", labels={label: "", "pool": "b"}),
        *(ill(f"cp{place}", ready="True", labels={label: ""}) for place in range(3)),
    ]
    plan = plan_of(the_cluster(checks, *nodes))
    assert started(plan) == ["x1"]
    assert node_of(plan, "x2", "b").reason == "ControlPlane"


def test_a_control_plane_node_that_is_being_started_or_was_taken_out_by_others_is_out() -> None:
    check = a_check(maxUnhealthy="100%")
    nodes = control_plane(3, sick=("x1", "x2"))
    assert started(plan_of(the_cluster(check, *nodes, underway=(being_started("x1"),)))) == []
    assert started(plan_of(the_cluster(check, *nodes, foos=[a_remediation("cp0", check="")]))) == []


def test_a_control_plane_node_that_is_gone_is_out_while_its_remediation_says_so() -> None:
    replaced = a_remediation(
        "old", labels={medik8s.IS_CONTROL_PLANE: ""}, conditions={medik8s.PERMANENT_DELETION: "True"}
    )
    nodes = control_plane(4, sick=("x1",))
    plan = plan_of(the_cluster(a_check(maxUnhealthy="100%"), *nodes, foos=[replaced]))
    assert started(plan) == []
    assert node_of(plan, "x1").reason == "ControlPlane"


def test_the_remediation_of_a_control_plane_node_says_that_it_is_one() -> None:
    plan = plan_of(the_cluster(a_check(), *control_plane(2, sick=("x1",))))
    (start,) = of_type(plan, StartRemediation)
    assert start.body["metadata"]["labels"][medik8s.IS_CONTROL_PLANE] == ""


# What nodes say of limits stays the same while the counts change


@pytest.mark.parametrize(
    ("guards", "reason", "message"),
    [
        ({"maxInFlight": 1}, "InFlight", "no more nodes may be remediated: at most 1 at once"),
        (
            {"failureDomains": [{"label": ZONE, "maxInFlight": 1}]},
            "FailureDomain",
            f"no more nodes with {ZONE}=a may be remediated: at most 1 at once",
        ),
        (
            {"rateLimit": {"remediations": 1, "per": "1h"}},
            "RateLimit",
            "no more nodes may be newly remediated: at most 1 within 1h",
        ),
        (
            {"flapDamping": {"remediations": 1, "within": "1h"}},
            "Flapping",
            "the node may not be remediated once more: at most 1 times within 1h",
        ),
    ],
)
def test_a_limit_is_told_without_the_count(guards: Any, reason: str, message: str) -> None:
    history = [{"node": "n1", "started": "2029-12-31T23:59:00Z"}]
    for count in (1, 2):
        foos = [a_remediation(f"w{place}") for place in range(1, count + 1)]
        check = a_check(guards=guards, status={"history": history})
        labels = {ZONE: "a"}
        plan = plan_of(the_cluster(check, ill("n1", labels=labels), *healthy(9, labels=labels), foos=foos))
        assert (node_of(plan, "n1").reason, node_of(plan, "n1").message) == (reason, message)


# A creation whose answer was lost: there may be a remediation that nobody has seen yet


def lost(*nodes: str, check: str = "workers") -> dict[str, Failure]:
    return {
        f"remediate {node}": Failure(why="timeout", times=1, again_in=SECOND, check=check, node=node) for node in nodes
    }


@pytest.mark.parametrize(
    "guards", [{"maxInFlight": 1}, {"failureDomains": [{"label": ZONE, "maxInFlight": 1}]}], ids=["all", "domain"]
)
def test_a_node_whose_creation_may_have_worked_counts_for_others_and_not_for_itself(guards: Any) -> None:
    check = a_check(guards=guards)
    nodes = [ill("n1", labels={ZONE: "a"}), ill("n2", labels={ZONE: "a"}), *healthy(9)]
    assert started(plan_of(the_cluster(check, *nodes, failures=lost("n2")))) == ["n2"]
    assert started(plan_of(the_cluster(check, *nodes, failures=lost("n1", "n2")))) == []
    assert started(plan_of(the_cluster(check, *nodes))) == ["n1"]


def test_a_creation_that_may_have_worked_counts_for_its_own_check_only() -> None:
    check = a_check(guards={"maxInFlight": 1})
    cluster = the_cluster(check, ill("n1"), ill("n2"), *healthy(9), failures=lost("n2", check="another"))
    assert started(plan_of(cluster)) == ["n1"]


def test_a_control_plane_node_whose_creation_may_have_worked_holds_back_the_others() -> None:
    labels = {"node-role.kubernetes.io/control-plane": ""}
    nodes = [ill("c1", labels=labels), ill("c2", labels=labels), *healthy(5, labels=labels)]
    plan = plan_of(the_cluster(a_check(), *nodes, failures=lost("c2")))
    assert (started(plan), node_of(plan, "c1").reason) == (["c2"], "ControlPlane")


# What is being created right now


def test_a_node_whose_remediation_is_being_created_is_not_healthy() -> None:
    """Though it shows nothing that is wrong any more, and nothing of it is to be seen yet."""
    (action,) = of_type(plan_of(the_cluster(a_check(), ill("w1"), *healthy(5, "x"))), StartRemediation)
    plan = plan_of(the_cluster(a_check(minHealthy=5), ill("n1"), *healthy(5), underway=(action,)))
    assert (started(plan), node_of(plan, "n1").reason) == ([], "Threshold")
    assert gate_of(plan, "Threshold").value == "4 healthy"

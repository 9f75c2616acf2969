"""What holds a policy back, how many nodes it empties at a time, and what becomes of it when it is edited on the way."""

from datetime import timedelta
from typing import Any

import pytest

from defib.decide.failover.plan import NOTHING, Failover
from defib.decide.failover.policies import LOOKED_AT_ONCE
from defib.model import medik8s
from defib.model.action import ReadClaim, ReportRemediation
from defib.model.amount import Amount
from defib.model.cluster import Blindness, Cluster
from defib.model.config_map import ConfigMap
from defib.model.failover_policy import State
from defib.model.failure import Failure
from defib.model.meta import Meta
from defib.model.pod import pods_on
from tests.builders import HOUR, MINUTE, SECOND, T0, a_node
from tests.unit.decide.failover.failovers import (
    FAILED_AT,
    POLICIES,
    RWX,
    a_failed_node,
    a_fleet,
    a_pod,
    a_policy,
    after,
    change,
    entry_of,
    go_on,
    moved,
    moves,
    on,
    plan_of,
    settled,
    status_of,
    told,
    valid,
    within,
)

WEB = (a_pod("web-1"), a_pod("web-2"))
ONE = within(max_unhealthy=Amount(1))
BRAKE = {"configmaps": {"defib-system/defib-brake": ConfigMap(metadata=Meta(name="defib-brake"), data={})}}


# What holds everything back.


def test_the_brake_holds_and_says_so_and_it_goes_on_after_it() -> None:
    cluster, plan = go_on(a_fleet(a_policy(), pods=WEB), passes=2)
    braked = change(cluster, others={**cluster.others, **BRAKE})
    cluster, plan = go_on(braked, plan)
    assert (moved(plan), settled(cluster)) == ([], ("False", "Brake"))
    assert [(event.reason, event.is_warning) for event in told(plan)] == [("FailoverHeld", True)]
    cluster, plan = go_on(cluster, plan, passes=3)
    assert plan.actions == ()
    free = change(cluster, others={**cluster.others, "configmaps": {}})
    cluster, plan = go_on(free, plan, passes=2)
    assert moved(plan) == ["web-1", "web-2"]
    cluster, plan = go_on(after(cluster, plan, pods=[]), plan)
    assert status_of(cluster).moved == 2


@pytest.mark.parametrize(
    "doubt",
    [
        {"doubts": ("most requests fail",)},
        {"blind": (Blindness("heartbeats", T0, "refused"),)},
        {"blind": (Blindness(POLICIES, T0, "refused"),)},
        {"blind": (Blindness("locks", T0, "refused"),)},
        {"blind": (Blindness(medik8s.CHECKS, T0, "refused"),)},
        {"absent": {"configmaps": "forbidden"}},
    ],
)
def test_self_doubt_holds_and_looks_again_soon(doubt: dict[str, Any]) -> None:
    cluster, plan = go_on(a_fleet(a_policy(), pods=WEB), passes=2)
    cluster, plan = go_on(change(cluster, **doubt), plan)
    assert (moved(plan), settled(cluster)) == ([], ("False", "SelfDoubt"))
    assert plan.policies.todo.wake_at == cluster.now


def test_a_cluster_without_health_checks_is_no_reason_to_doubt() -> None:
    cluster, _ = go_on(a_fleet(a_policy(), pods=WEB, absent={medik8s.CHECKS: "no such kind"}))
    assert moved(plan_of(cluster)) == ["web-1", "web-2"]


def test_when_more_than_half_of_all_nodes_fail_at_once_it_may_be_us() -> None:
    """I5: a control plane that loses its network must not delete every pod of the cluster."""
    nodes = [a_failed_node(f"n{place}") for place in range(1, 6)]
    pods = [pod for node in nodes for pod in on(node.name, f"web-{node.name}")]
    cluster, plan = go_on(a_fleet(a_policy(), *nodes, pods=pods, well=4), passes=3)
    assert (moved(plan), settled(cluster)) == ([], ("False", "SelfDoubt"))
    cluster, plan = go_on(a_fleet(a_policy(), *nodes[:4], pods=pods, well=4), passes=3)
    assert moved(plan) != []


def test_while_nodes_are_out_of_sight_nothing_is_concluded() -> None:
    cluster, plan = go_on(a_fleet(a_policy(), pods=WEB), passes=2)
    blind = change(cluster, blind=(Blindness("nodes", T0, "refused"),), nodes={})
    assert plan_of(blind, plan).actions == plan_of(blind).actions == ()
    again = change(blind, blind=(), nodes=cluster.nodes)
    assert moved(plan_of(again, plan_of(blind, plan))) == ["web-1", "web-2"]


def test_pods_that_were_lost_out_of_sight_are_not_deleted_from_memory() -> None:
    cluster, plan = go_on(a_fleet(a_policy(), pods=WEB), passes=2)
    blind = change(cluster, blind=(Blindness(pods_on("n1"), T0, "refused"),))
    unseen = plan_of(blind, plan)
    assert (unseen.actions, unseen.nodes) == ((), frozenset({"n1"}))
    assert plan_of(blind).actions == (), "what stands written stays"


def test_who_would_move_pods_that_nobody_can_see_is_told_when_it_lasts() -> None:
    """All is not quiet just because nobody knows which pods there are."""
    nobody_knows = (Blindness(pods_on("n1"), T0 - MINUTE, "forbidden"),)
    policies = [
        a_policy(),
        a_policy("yet-to-come", dwell="1h"),
        a_policy("elsewhere", nodeSelector={"matchLabels": {"a": "b"}}),
    ]
    cluster, plan = go_on(a_fleet(policies, pods=WEB, blind=nobody_knows))
    assert (moved(plan), plan.nodes, settled(cluster)) == ([], frozenset({"n1"}), ("False", "SelfDoubt"))
    entry = entry_of(cluster)
    assert entry is not None
    assert (entry.state, entry.message) == (State.HELD, "the pods of node n1 are out of sight: forbidden")
    assert settled(cluster, "yet-to-come") == settled(cluster, "elsewhere") == ("True", "Quiet")
    _, plan = go_on(cluster, plan)
    assert (plan.actions, plan.moments[0] is not None) == ((), True), "it is said once, and looked at again"
    _, plan = go_on(change(cluster, blind=()), plan, passes=2)
    assert moved(plan) == ["web-1", "web-2"]


# How many nodes at a time.


def storm(count: int, **spec: Any) -> Cluster:
    """The lower the number, the longer ago it failed."""
    nodes = [a_failed_node(f"n{place}", since=FAILED_AT + place * SECOND) for place in range(count)]
    pods = [pod for node in nodes for pod in on(node.name, f"web-{node.name}")]
    return a_fleet(a_policy(**spec), *nodes, pods=pods, well=count + 1)


def test_twenty_nodes_fail_in_a_second_and_exactly_the_budget_is_moved_and_the_rest_explained() -> None:
    two = within(max_unhealthy=Amount(2))
    cluster, plan = go_on(storm(20), passes=3, **two)
    assert sorted({move.node for move in moves(plan)}) == ["n0", "n1"], "the longest not ready first"
    entries = status_of(cluster).nodes or []
    assert [entry.state for entry in entries].count(State.HELD) == 18
    held = next(entry for entry in entries if entry.state is State.HELD)
    assert held.reason == "Budget"
    assert "at most 2 nodes" in held.message
    assert "failover_max_unhealthy" in held.message
    assert settled(cluster) == ("False", "Budget")


def test_a_node_keeps_its_place_until_it_is_ready_or_gone_and_then_the_next_is_moved() -> None:
    cluster, plan = go_on(storm(2), passes=2, **ONE)
    left = on("n1", "web-n1")
    cluster, plan = go_on(after(cluster, plan, pods=left), plan, passes=5, **ONE)
    assert (moved(plan), moved(plan_of(cluster, **ONE))) == ([], []), "n0 has been moved, and is not back"
    back = {**cluster.nodes, "n0": a_node("n0", since=T0)}
    cluster, plan = go_on(change(cluster, nodes=back), plan, passes=3, **ONE)
    assert moved(plan) == ["web-n1"]


def test_a_node_that_fails_anew_does_not_keep_the_place_that_it_had() -> None:
    """The policy that was to forget it could not write that, and meanwhile the place was given to another node."""
    policies = [a_policy("a", nodeSelector=chosen("n0")), a_policy("b", nodeSelector=chosen("n1"))]
    cluster = with_names(change(storm(2), others={**storm(2).others, POLICIES: {one.key: one for one in policies}}))
    cluster, plan = go_on(cluster, passes=2, **ONE)
    assert moved(plan) == ["web-n0"]
    well = {**cluster.nodes, "n0": a_node("n0", since=T0, labels={"name": "n0"})}
    cluster = change(cluster, nodes=well)
    plan = plan_of(cluster, plan, **ONE)
    cluster = after(cluster, only(plan, "b"))
    again = {**cluster.nodes, "n0": a_failed_node("n0", since=T0 + SECOND, labels={"name": "n0"})}
    cluster, plan = go_on(change(cluster, nodes=again), plan, passes=3, **ONE)
    assert moved(plan) == ["web-n1"]


def chosen(node: str) -> dict[str, Any]:
    return {"matchLabels": {"name": node}}


def with_names(cluster: Cluster) -> Cluster:
    """Each node has its name as a label."""
    nodes = {
        name: change(node, metadata=change(node.metadata, labels={"name": name}))
        for name, node in cluster.nodes.items()
    }
    return change(cluster, nodes=nodes)


def only(plan: Failover, policy: str) -> Failover:
    """As if only what this policy writes had been done."""
    actions = tuple(one for one in plan.actions if isinstance(one, ReportRemediation) and one.target.name == policy)
    return change(plan, policies=change(plan.policies, todo=change(plan.policies.todo, actions=actions)))


def test_what_is_being_written_counts_as_written() -> None:
    """Else two policies could write at once that the last place is theirs."""
    policies = [a_policy("a", nodeSelector=chosen("n1")), a_policy("b", nodeSelector=chosen("n0"), dwell="10m")]
    cluster = with_names(change(storm(2), others={**storm(2).others, POLICIES: {one.key: one for one in policies}}))
    plan = plan_of(cluster, **ONE)
    (first,) = [one for one in plan.actions if isinstance(one, ReportRemediation) and one.target.name == "a"]
    late = change(after(cluster, only(plan, "b")), now=FAILED_AT + HOUR, underway=(first,))
    both = after(late, plan_of(late, plan, **ONE))
    both = after(both, only(plan, "a"), underway=())
    assert {move.node for move in moves(plan_of(both, **ONE))} == {"n1"}


def test_what_was_begun_and_is_held_keeps_its_place() -> None:
    """A deletion may be under way that nobody has seen the end of."""
    cluster, plan = go_on(storm(2), passes=2, **ONE)
    assert moved(plan) == ["web-n0"]
    excluded = {"remediation.medik8s.io/exclude-from-remediation": "true"}
    nodes = {**cluster.nodes, "n0": a_failed_node("n0", since=FAILED_AT, labels=excluded)}
    cluster, plan = go_on(change(cluster, nodes=nodes), plan, passes=3, **ONE)
    entry = entry_of(cluster, "n0")
    assert entry is not None
    assert (entry.state, entry.reason) == (State.HELD, "Excluded")
    assert moved(plan) == []
    cluster, plan = go_on(after(cluster, plan, pods=on("n1", "web-n1")), plan, passes=3, **ONE)
    assert moved(plan) == []


def test_a_node_that_fails_in_another_way_while_it_is_held_keeps_its_place() -> None:
    """From NotReady to Unknown: another time is written, and it has not been well in between."""
    cluster, plan = go_on(storm(2), passes=2, **ONE)
    assert moved(plan) == ["web-n0"]
    cluster, plan = go_on(change(cluster, others={**cluster.others, **BRAKE}), plan, passes=2, **ONE)
    nodes = {**cluster.nodes, "n0": a_failed_node("n0", since=T0)}
    cluster, plan = go_on(change(cluster, nodes=nodes), plan, passes=2, **ONE)
    free = change(cluster, others={**cluster.others, "configmaps": {}})
    for before in (plan, NOTHING):
        assert {move.node for move in moves(go_on(free, before, passes=3, **ONE)[1])} == {"n0"}


# Policies that change or go.


def put(cluster: Cluster, *policies: Any) -> Cluster:
    return change(cluster, others={**cluster.others, POLICIES: {one.key: one for one in policies}})


def edited(cluster: Cluster, name: str = "web", **spec: Any) -> Cluster:
    """The policy says something else now; what stands in its status stays."""
    others: Any = dict(cluster.others[POLICIES])
    old = others[f"apps/{name}"]
    others[old.key] = change(old, spec={"selector": {}} | spec, metadata=change(old.metadata, generation=2))
    return put(cluster, *others.values())


@pytest.mark.parametrize(
    "spec",
    [
        {"dwell": "soon"},
        {"nodeSelector": {"matchLabels": {"pool": "b"}}},
        {"dwell": "24h"},
        {"selector": {"matchLabels": {"app": "other"}}},
        {"exclude": {"selector": {}}},
    ],
    ids=["invalid", "other nodes", "longer", "other pods", "excluded"],
)
def test_a_policy_that_is_edited_on_the_way_stops_and_its_nodes_keep_their_places(spec: dict[str, Any]) -> None:
    cluster, plan = go_on(
        put(storm(2), a_policy("web", nodeSelector={}), a_policy("z", namespace="z")), passes=2, **ONE
    )
    assert moved(plan) == ["web-n0"]
    other = a_pod("z-1", namespace="z", node="n1")
    cluster = change(
        edited(cluster, **spec), others={**edited(cluster, **spec).others, pods_on("n1"): {"z/z-1": other}}
    )
    cluster, plan = go_on(cluster, plan, passes=4, **ONE)
    assert moved(plan) == []
    entry = entry_of(cluster, "n0")
    assert entry is not None
    assert entry.begun
    assert entry.state is not State.MOVING
    restarted = go_on(cluster, passes=4, **ONE)
    assert moved(restarted[1]) == []


def test_a_policy_that_makes_no_sense_says_so_and_moves_nothing() -> None:
    cluster, plan = go_on(a_fleet(a_policy(dwell="soon"), pods=WEB), passes=3)
    assert (plan.actions, plan.nodes) == ((), frozenset())
    status, reason, message = valid(cluster)
    assert (status, reason) == ("False", "InvalidSpec")
    assert "spec.dwell" in message


def test_where_policies_are_switched_off_each_says_so_and_nothing_is_moved() -> None:
    off = within(serves_policies=False)
    cluster, plan = go_on(a_fleet(a_policy(), pods=WEB), passes=3, **off)
    assert (plan.actions, plan.nodes) == ((), frozenset())
    assert valid(cluster)[:2] == ("False", "SwitchedOff")
    cluster, plan = go_on(cluster, passes=2)
    assert (valid(cluster)[0], moved(plan)) == ("True", ["web-1", "web-2"])


def test_one_that_is_being_deleted_moves_nothing_more() -> None:
    cluster, plan = go_on(a_fleet(a_policy(), pods=WEB), passes=2)
    (item,) = cluster.others[POLICIES].values()
    leaving = change(item, metadata=change(item.metadata, deletion_timestamp=T0))
    assert moved(plan_of(put(cluster, leaving), plan)) == []


def test_without_policies_there_is_nothing_to_do_and_nothing_is_remembered() -> None:
    cluster, plan = go_on(a_fleet(a_policy(), pods=WEB), passes=2)
    assert plan_of(put(cluster), plan) == NOTHING


# Sight.


def in_sight(cluster: Cluster, plan: Failover) -> Cluster:
    """With the pods of those nodes only that the last plan has asked for."""
    others = {
        name: shelf
        for name, shelf in cluster.others.items()
        if name == POLICIES or name.removeprefix("pods on ") in plan.nodes
    }
    return change(cluster, others=others)


def test_of_very_many_failed_nodes_only_some_are_in_sight_at_a_time_and_all_get_their_turn() -> None:
    cluster, plan = storm(LOOKED_AT_ONCE + 20), NOTHING
    for _ in range(12):
        plan = plan_of(in_sight(cluster, plan), plan, **ONE)
        assert len(plan.nodes) <= LOOKED_AT_ONCE
        cluster = after(cluster, plan)
    assert len(status_of(cluster).nodes or ()) == LOOKED_AT_ONCE + 20
    assert {move.node for move in moves(plan)} == {"n0"}


def test_nodes_whose_pods_cannot_be_deleted_keep_no_others_out_of_sight() -> None:
    cluster, plan = storm(LOOKED_AT_ONCE + 20), NOTHING
    tried: set[str] = set()
    for _ in range(12):
        failures = {f"move uid-web-{node}": Failure(why="denied", times=1, again_in=SECOND) for node in tried}
        plan = plan_of(change(in_sight(cluster, plan), failures=failures), plan)
        tried |= {move.node for move in moves(plan)}
        cluster = after(cluster, plan)
    assert len(tried) == LOOKED_AT_ONCE + 20


def test_a_pod_that_was_on_its_way_to_the_node_when_it_failed_is_moved_too() -> None:
    """The scheduler had not heard yet. It comes into sight after all the others have left."""
    cluster, plan = go_on(a_fleet(a_policy(), a_failed_node(since=T0 - SECOND), pods=WEB), passes=2)
    cluster, plan = go_on(after(cluster, plan, pods=[]), plan, passes=2)
    assert plan.nodes == {"n1"}
    cluster, plan = go_on(after(cluster, plan, pods=[a_pod("late", created=T0 - MINUTE)]), plan, passes=2)
    assert moved(plan) == ["late"]
    cluster, plan = go_on(after(cluster, plan, pods=[], seconds=120), plan, passes=2)
    assert (plan.nodes, status_of(cluster).moved) == (frozenset(), 3)


def test_a_claim_that_must_be_known_is_read_first_and_asked_for_as_long_as_it_cannot_be() -> None:
    ask = ReadClaim("apps", "data")
    cluster = a_fleet(a_policy(), pods=[a_pod("web-1"), a_pod("wiki-1", claims=["data"])])
    cluster, plan = go_on(cluster)
    assert ask in plan.actions
    assert entry_of(cluster) is None, "nothing is said before it is known"
    failed = {ask.key: Failure(why="forbidden", times=1, again_in=timedelta(seconds=1))}
    unreadable, plan = go_on(change(cluster, failures=failed), plan)
    for _ in range(3):
        unreadable, plan = go_on(unreadable, plan)
        assert ask in plan.actions
    assert moved(plan) == ["web-1"]
    _, plan = go_on(change(cluster, claims={"apps/data": RWX}), plan, passes=2)
    assert moved(plan) == ["web-1", "wiki-1"]
    assert plan.claims == {"apps/data"}


def test_quiet_policies_are_not_written_again_and_again() -> None:
    cluster = a_fleet([a_policy("a"), a_policy("b")], a_node("n1"), pods=())
    cluster, plan = go_on(cluster)
    assert len(plan.actions) == 2
    again = plan_of(cluster, plan)
    assert (again.actions, again.moments) == ((), (None, None))
    assert again.policies.quiet == {"apps/a", "apps/b"}
    assert plan_of(after(cluster, again), again).actions == plan_of(cluster).actions == ()

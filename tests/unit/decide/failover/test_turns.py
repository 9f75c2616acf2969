"""Whose turn it is: limits of the cluster and of NodeHealthChecks, places that are kept, and what holds one node back."""

from typing import Any

import pytest

from defib.decide.failover.turns import Turns, is_out, is_still_so
from defib.decide.plan import decide
from defib.decide.rules import FailoverRules, Rules
from defib.model.amount import Amount
from defib.model.cluster import Cluster
from defib.model.failover_policy import MOST_NODES, FailedNode, PolicyStatus, State
from defib.model.node import Node, Taint
from defib.model.node_drain import DRAIN
from tests.builders import HOUR, SECOND, T0, a_node
from tests.unit.decide import checks
from tests.unit.decide.failover.failovers import FAILED_AT, a_failed_node, change, tainted

NODES = [a_failed_node(f"n{place}") for place in range(4)]
WELL = [a_node(f"w{place}") for place in range(6)]
EXCLUDE = "remediation.medik8s.io/exclude-from-remediation"
ONE = Amount(1)
TAINT = Taint(key="a", effect="NoSchedule")


def an_entry(name: str, state: State = State.MOVING, **fields: Any) -> FailedNode:
    usual: dict[str, Any] = {"uid": f"uid-{name}", "not_ready_since": FAILED_AT, "begun": True}
    return FailedNode(name=name, state=state, **usual | fields)


def turns(
    *entries: FailedNode,
    most: Amount = ONE,
    nodes: list[Node] | None = None,
    health_checks: Any = (),
    **fields: Any,
) -> Turns:
    cluster = checks.the_cluster(list(health_checks), *(nodes or [*NODES, *WELL]), **fields)
    return turns_in(cluster, *entries, most=most)


def turns_in(cluster: Cluster, *entries: FailedNode, most: Amount = ONE) -> Turns:
    rules = Rules(failover=FailoverRules(max_unhealthy=most))
    plan = decide(cluster, rules)
    return Turns(cluster, rules, plan.checks, [PolicyStatus(nodes=[entry]) for entry in entries])


def why(turns: Turns, node: Node) -> str:
    held = turns.hold(node)
    return held.reason if held is not None else ""


def test_so_many_nodes_at_a_time_as_the_setting_says() -> None:
    some = turns(most=Amount(2))
    taken = []
    for node in NODES:
        if some.hold(node) is None:
            some.take(node)
            taken.append(node.name)
    assert taken == ["n0", "n1"]
    assert why(some, NODES[0]) == "", "it has its place"
    held = some.hold(NODES[2])
    assert held is not None
    assert (held.reason, "at most 2 nodes" in held.message) == ("Budget", True)


@pytest.mark.parametrize(
    ("amount", "nodes", "most"),
    [
        (Amount(49, is_percent=True), 10, 5),
        (Amount(1, is_percent=True), 10, 1),
        (Amount(100, is_percent=True), 10, 10),
        (Amount(100, is_percent=True), MOST_NODES + 50, MOST_NODES),
        (Amount(10**9), MOST_NODES + 50, MOST_NODES),
    ],
)
def test_a_share_is_of_all_nodes_and_never_more_than_a_status_can_hold(amount: Amount, nodes: int, most: int) -> None:
    failed = [a_failed_node(f"n{place}") for place in range(nodes)]
    some = turns_in(Cluster(now=T0, nodes={node.name: node for node in failed}, kinds=checks.KINDS), most=amount)
    count = 0
    for node in failed:
        if some.hold(node) is None:
            some.take(node)
            count += 1
    assert count == most


@pytest.mark.parametrize("state", list(State))
def test_what_was_begun_keeps_its_place_in_whatever_state_it_is(state: State) -> None:
    some = turns(an_entry("n0", state))
    assert (why(some, NODES[0]), why(some, NODES[1])) == ("", "Budget")
    unbegun = turns(an_entry("n0", state, begun=False))
    assert why(unbegun, NODES[1]) == ""


@pytest.mark.parametrize(
    "node",
    [
        a_node("n0", since=T0),
        a_failed_node("n0", uid="another"),
        tainted(a_node("n0"), change(TAINT, effect="PreferNoSchedule")),
    ],
)
def test_a_node_that_is_well_or_another_one_has_lost_its_place(node: Node) -> None:
    assert why(turns(an_entry("n0"), nodes=[node, *NODES[1:], *WELL]), NODES[1]) == ""
    assert why(turns(an_entry("n0"), nodes=[*NODES[1:], *WELL]), NODES[1]) == ""


def test_a_node_that_has_failed_anew_counts_and_has_no_right_to_its_place() -> None:
    again = a_failed_node("n0", since=T0)
    nodes = [again, *NODES[1:], *WELL]
    assert why(turns(an_entry("n0"), nodes=nodes), NODES[1]) == "Budget"
    assert why(turns(an_entry("n0"), nodes=nodes), again) == ""
    assert why(turns(an_entry("n0"), an_entry("n1"), nodes=nodes), again) == "Budget"


def test_what_is_written_is_about_one_failure_of_one_node() -> None:
    assert is_still_so(an_entry("n0"), NODES[0])
    assert not is_still_so(an_entry("n0"), None)
    assert not is_still_so(an_entry("n0", uid="another"), NODES[0])
    assert not is_still_so(an_entry("n0", not_ready_since=T0), NODES[0])
    drained = tainted(a_node("n0", since=LONG_WELL), TAINT)
    for_that = an_entry("n0", not_ready_since=None, taint=TAINT.key)
    assert is_still_so(for_that, drained)
    assert not is_still_so(for_that, a_node("n0"))
    assert not is_still_so(an_entry("n0", not_ready_since=None), drained)
    assert not is_still_so(an_entry("n0"), drained)


def test_a_node_that_is_ready_again_gives_its_place_back_whatever_taints_it_has_for_other_reasons() -> None:
    gpu = tainted(a_node("n0"), Taint(key="dedicated", value="gpu", effect="NoSchedule"))
    assert not is_out(an_entry("n0"), gpu)
    assert is_out(an_entry("n0", taint="dedicated"), gpu)
    assert not is_out(an_entry("n0", taint="another"), gpu)


LONG_WELL = T0 - 5 * HOUR


# NodeHealthChecks have their say.


def a_check(name: str = "c", **spec: Any) -> Any:
    slow = [{"type": "Ready", "status": "Unknown", "duration": "100h"}]
    return checks.a_check(name, unhealthyConditions=slow, **spec)


@pytest.mark.parametrize(
    ("spec", "most"),
    [
        ({"maxUnhealthy": "100%"}, 3),
        ({"maxUnhealthy": 2}, 2),
        ({"minHealthy": 9}, 1),
        ({"maxUnhealthy": 0}, 0),
        ({"maxUnhealthy": "100%", "guards": {"maxInFlight": 1}}, 1),
        ({"maxUnhealthy": 0, "selector": {"matchLabels": {"pool": "other"}}}, 3),
    ],
)
def test_no_more_nodes_of_a_check_than_it_allows(spec: dict[str, Any], most: int) -> None:
    some = turns(most=Amount(3), health_checks=[a_check(**spec)])
    count = 0
    for node in NODES:
        held = some.hold(node)
        if held is None:
            some.take(node)
            count += 1
        elif most < 3:
            assert "NodeHealthCheck c allows at most" in held.message
    assert count == most


def test_nodes_that_a_check_remediates_itself_count() -> None:
    """The node that is being remediated may be emptied by a policy as well: it is out already."""
    entry = {"name": "n0", "remediations": [{"resource": {"apiVersion": "a/v1", "kind": "K", "name": "n0"}}]}
    check = a_check(maxUnhealthy=1, status={"unhealthyNodes": [entry]})
    foo = checks.a_remediation("n0", check="c")
    cluster = checks.the_cluster(check, *NODES, *WELL, foos=[foo])
    some = turns_in(cluster, most=Amount(3))
    assert (why(some, NODES[1]), why(some, NODES[0])) == ("Budget", "")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [({"pauseRequests": ["an outage"]}, "Paused"), ({"mode": "Observe"}, "ModeObserve"), ({"mode": "Approve"}, "")],
)
def test_a_check_that_holds_everything_back_holds_its_nodes(spec: dict[str, Any], reason: str) -> None:
    held = turns(health_checks=[a_check(**spec)]).hold(NODES[0])
    assert (held.reason if held is not None else "") == reason
    if held is not None:
        assert held.message.startswith("NodeHealthCheck c holds back: ")
    elsewhere = a_check(**spec, selector={"matchLabels": {"pool": "other"}})
    assert why(turns(health_checks=[elsewhere]), NODES[0]) == ""


def test_a_check_that_makes_no_sense_has_no_say() -> None:
    assert why(turns(health_checks=[a_check(maxUnhealthy="some")]), NODES[0]) == ""


# One node.


def test_an_excluded_node_is_left_alone_even_when_it_was_begun() -> None:
    node = a_failed_node("n0", labels={EXCLUDE: "true"})
    nodes = [node, *NODES[1:], *WELL]
    assert why(turns(an_entry("n0"), nodes=nodes), node) == "Excluded"
    assert why(turns(nodes=nodes), a_failed_node("n1", labels={EXCLUDE: "false"})) == ""


@pytest.mark.parametrize(
    ("holder", "reason"),
    [("node-maintenance", "Lock"), ("NodeHealthCheck-c", ""), ("defib-power-cycle", "")],
)
def test_a_lock_of_somebody_else_holds_a_node_and_one_of_ours_does_not(holder: str, reason: str) -> None:
    assert why(turns(locks=[checks.a_lock("n0", holder)]), NODES[0]) == reason


def test_a_lock_that_has_ended_holds_nobody() -> None:
    ended = checks.a_lock("n0", "node-maintenance", renewed=T0 - HOUR, seconds=60)
    assert why(turns(locks=[ended]), NODES[0]) == ""
    assert why(turns(locks=[checks.a_lock("n1", "node-maintenance", renewed=T0 - SECOND)]), NODES[0]) == ""


def test_shx_01_the_lock_is_told_of_only_where_nothing_else_holds_the_node() -> None:
    """A drain gives it back for that reason alone."""
    held = [checks.a_lock("n0", "defib-drain")]
    assert why(turns(locks=held), NODES[0]) == "Lock"
    assert why(turns(an_entry("n1"), locks=held), NODES[0]) == "Budget"
    paused = a_check(pauseRequests=["a person"], maxUnhealthy="100%")
    assert why(turns(locks=held, health_checks=[paused]), NODES[0]) == "Paused"


def test_shx_03_before_it_is_known_which_nodes_are_drained_by_force_no_other_has_its_turn() -> None:
    cluster = checks.the_cluster([], *NODES, *WELL)
    unasked = change(cluster, kinds={kind: answer for kind, answer in cluster.kinds.items() if kind != DRAIN})
    assert why(turns_in(unasked), NODES[0]) == "Budget"
    assert why(turns_in(unasked, an_entry("n0")), NODES[0]) == "", "it has its place already"

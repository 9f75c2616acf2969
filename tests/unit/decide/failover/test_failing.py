"""Which nodes count as failed, in which way and since when, whatever their clocks and conditions say."""

from datetime import UTC, datetime
from typing import Any

import pytest

from defib.decide.failover.failing import Failing, Failure, failure_of, look_for_failed
from defib.model.failover_policy import Policy
from defib.model.node import Node, Taint
from defib.model.pod_failover import Wish
from defib.model.selector import Requirement, Selector
from tests.builders import HOUR, MINUTE, SECOND, T0, a_node
from tests.unit.decide.failover.failovers import FAILED_AT, LONG_AGO, a_failed_node, change, tainted

ANY = Policy(wish=Wish())
TAINTED = Policy(wish=Wish(), taints=("a", "b"))
A, B, MILD = (
    Taint(key="a", effect="NoExecute", time_added=FAILED_AT),
    Taint(key="b", effect="NoSchedule"),
    Taint(key="a", effect="PreferNoSchedule", time_added=FAILED_AT),
)


def made(node: Node, at: datetime | None = LONG_AGO) -> Node:
    return change(node, metadata=change(node.metadata, creation_timestamp=at))


def without_conditions(node: Node) -> Node:
    return change(node, status=change(node.status, conditions=None))


def failure(node: Node, policy: Policy = ANY, *, seen: datetime = T0) -> Failure | None:
    """Of one that was first seen then."""
    return failure_of(node, policy, look_for_failed({node.name: node}, seen, Failing()))


def test_a_node_has_failed_since_it_has_not_been_ready() -> None:
    assert failure(a_failed_node()) == Failure(FAILED_AT, FAILED_AT)
    assert failure(a_node("n1")) is None


def test_a_node_that_does_not_say_since_when_has_failed_since_it_was_first_seen_so() -> None:
    for silent in (without_conditions(a_node("n1")), a_failed_node(since=None)):
        assert failure(made(silent)) == Failure(None, T0), "it may have been well since it was made"


@pytest.mark.parametrize("odd", [T0 + HOUR, datetime(9999, 12, 31, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)])
def test_a_time_that_makes_no_sense_or_is_yet_to_come_counts_from_when_it_was_first_seen(odd: datetime) -> None:
    """What was written down is kept as it is, so that the same failure stays the same."""
    assert failure(a_failed_node(since=odd)) == Failure(odd, T0)


@pytest.mark.parametrize("since", [T0 + HOUR, None])
def test_a_failure_counts_from_the_same_moment_however_often_it_is_looked_at(since: datetime | None) -> None:
    """Else a policy would never have waited for long enough, and whatever is put there would seem to be older."""
    seen = Failing()
    for seconds in (0, 1, 2 * 3600):
        node = a_failed_node(since=since, labels={"looked-at": str(seconds)})
        seen = look_for_failed({"n1": node}, T0 + seconds * SECOND, seen)
        assert failure_of(node, ANY, seen) == Failure(since, T0)


@pytest.mark.parametrize(
    "again",
    [a_failed_node(since=T0 + SECOND), a_failed_node(since=T0 + SECOND, ready="False"), a_failed_node(uid="another")],
)
def test_a_node_that_has_failed_again_counts_from_then_even_if_nobody_saw_it_ready(again: Node) -> None:
    """What was put there while it was well must not stay for having come later than the failure before."""
    before = look_for_failed({"n1": a_failed_node(since=None)}, LONG_AGO, Failing())
    before = look_for_failed({"n1": a_failed_node(since=LONG_AGO)}, LONG_AGO, before)
    found = look_for_failed({"n1": again}, T0 + MINUTE, before)
    assert failure_of(again, ANY, found) == failure(again, seen=T0 + MINUTE)


def test_a_node_that_was_seen_well_fails_anew() -> None:
    seen = Failing()
    for seconds, node in enumerate([a_failed_node(since=None), a_node("n1"), a_failed_node(since=None)]):
        seen = look_for_failed({"n1": node}, T0 + seconds * SECOND, seen)
    assert seen.seen == {"n1": T0 + 2 * SECOND}


def test_times_are_kept_in_whole_seconds_as_they_will_be_read_again() -> None:
    assert failure(a_failed_node(since=FAILED_AT.replace(microsecond=7))) == Failure(FAILED_AT, FAILED_AT)


def test_only_selected_nodes_fail() -> None:
    policy = change(ANY, nodes=Selector((Requirement("pool", "In", frozenset({"a"})),)))
    assert failure(a_failed_node(labels={"pool": "b"}), policy) is None
    assert failure(a_failed_node(labels={"pool": "a"}), policy) is not None


def test_a_taint_counts_only_while_the_node_is_ready_and_since_it_was_added() -> None:
    well = made(a_node("n1"))
    assert failure(tainted(well, A), TAINTED) == Failure(None, FAILED_AT, (A,))
    assert failure(tainted(well, B), TAINTED) == Failure(None, T0, (B,)), "nobody says when"
    assert failure(tainted(well, B, A), TAINTED) == Failure(None, FAILED_AT, (B, A))
    assert failure(tainted(well, MILD), TAINTED) is None
    assert failure(tainted(well, A)) is None
    dead = failure(tainted(a_failed_node(), A), TAINTED)
    assert dead == Failure(FAILED_AT, FAILED_AT)


def test_a_taint_counts_from_when_it_was_seen_itself_whatever_others_the_node_has_had_before() -> None:
    gpu = Taint(key="nvidia.com/gpu", effect="NoSchedule")
    before = look_for_failed({"n1": tainted(a_node("n1"), gpu)}, LONG_AGO, Failing())
    both = tainted(a_node("n1"), gpu, B)
    found = look_for_failed({"n1": both}, T0, before)
    assert failure_of(both, TAINTED, found) == Failure(None, T0, (B,))
    assert failure_of(both, change(TAINTED, taints=(gpu.key,)), found) == Failure(None, LONG_AGO, (gpu,))


def look(nodes: dict[str, Node], before: Failing | None = None) -> tuple[set[str], set[str]]:
    found = look_for_failed(nodes, T0, before or Failing())
    assert set(found.seen) == {*found.not_ready, *found.tainted}
    assert set(found.taints_seen) == set(found.tainted)
    return set(found.not_ready), set(found.tainted)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (a_node("n1"), (set(), set())),
        (a_failed_node(), ({"n1"}, set())),
        (a_failed_node(ready="False"), ({"n1"}, set())),
        (without_conditions(a_node("n1")), ({"n1"}, set())),
        (tainted(a_node("n1"), A), (set(), {"n1"})),
        (tainted(a_node("n1"), MILD), (set(), set())),
        (tainted(a_failed_node(), A), ({"n1"}, set())),
    ],
)
def test_a_look_finds_the_same_with_and_without_an_earlier_one(node: Node, expected: Any) -> None:
    others = {"n2": a_failed_node("n2")}
    earlier = [
        look_for_failed({**others, "n1": was}, T0, Failing())
        for was in (a_node("n1"), a_failed_node(since=T0), tainted(a_node("n1"), B))
    ]
    for before in (Failing(), look_for_failed({}, T0, Failing()), *earlier):
        assert look({"n1": node}, before) == expected


def test_what_has_not_changed_is_not_looked_at_again() -> None:
    nodes = {"n1": a_failed_node()}
    before = look_for_failed(nodes, T0, Failing())
    assert look_for_failed(nodes, T0 + SECOND, before) is before
    assert look_for_failed(dict(nodes), T0 + SECOND, before).not_ready["n1"] is nodes["n1"]

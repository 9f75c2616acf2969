"""Which nodes count as failed, in which way and since when, whatever their clocks and conditions say."""

from datetime import UTC, datetime
from typing import Any

import pytest

from defib.decide.failover.failing import Failing, Failure, failure_of, look_for_failed
from defib.model.failover_policy import Policy
from defib.model.node import Node, Taint
from defib.model.pod_failover import Wish
from defib.model.selector import Requirement, Selector
from tests.builders import HOUR, SECOND, T0, a_node
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


def test_a_node_has_failed_since_it_has_not_been_ready() -> None:
    assert failure_of(a_failed_node(), ANY, T0) == Failure(FAILED_AT, FAILED_AT)
    assert failure_of(a_node("n1"), ANY, T0) is None


def test_a_node_that_does_not_say_how_it_is_has_failed_for_as_long_as_it_is_there() -> None:
    silent = without_conditions(a_node("n1"))
    assert failure_of(made(silent), ANY, T0) == Failure(None, LONG_AGO)
    assert failure_of(silent, ANY, T0) == Failure(None, T0), "and where even that is unknown, from now on"
    assert failure_of(made(a_failed_node(since=None)), ANY, T0) == Failure(None, LONG_AGO)


@pytest.mark.parametrize("odd", [T0 + HOUR, datetime(9999, 12, 31, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)])
def test_a_time_that_makes_no_sense_or_is_yet_to_come_counts_as_now(odd: datetime) -> None:
    """What was written down is kept as it is, so that the same failure stays the same."""
    assert failure_of(a_failed_node(since=odd), ANY, T0) == Failure(odd, T0)


def test_times_are_kept_in_whole_seconds_as_they_will_be_read_again() -> None:
    failure = failure_of(a_failed_node(since=FAILED_AT.replace(microsecond=7)), ANY, T0)
    assert failure == Failure(FAILED_AT, FAILED_AT)


def test_only_selected_nodes_fail() -> None:
    policy = change(ANY, nodes=Selector((Requirement("pool", "In", frozenset({"a"})),)))
    assert failure_of(a_failed_node(labels={"pool": "b"}), policy, T0) is None
    assert failure_of(a_failed_node(labels={"pool": "a"}), policy, T0) is not None


def test_a_taint_counts_only_while_the_node_is_ready_and_since_it_was_added() -> None:
    well = made(a_node("n1"))
    assert failure_of(tainted(well, A), TAINTED, T0) == Failure(None, FAILED_AT, A)
    assert failure_of(tainted(well, B), TAINTED, T0) == Failure(None, LONG_AGO, B), "nobody says when"
    assert failure_of(tainted(well, MILD), TAINTED, T0) is None
    assert failure_of(tainted(well, A), ANY, T0) is None
    dead = failure_of(tainted(a_failed_node(), A), TAINTED, T0)
    assert dead == Failure(FAILED_AT, FAILED_AT)


def look(nodes: dict[str, Node], before: Failing | None = None) -> tuple[set[str], set[str]]:
    found = look_for_failed(nodes, before or Failing())
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
        look_for_failed({**others, "n1": was}, Failing())
        for was in (a_node("n1"), a_failed_node(since=T0), tainted(a_node("n1"), B))
    ]
    for before in (Failing(), look_for_failed({}, Failing()), *earlier):
        assert look({"n1": node}, before) == expected


def test_what_has_not_changed_is_not_looked_at_again() -> None:
    nodes = {"n1": a_failed_node()}
    before = look_for_failed(nodes, Failing())
    assert look_for_failed(nodes, before) is before
    assert look_for_failed(dict(nodes), before).not_ready["n1"] is nodes["n1"]
    assert T0 > T0 - SECOND

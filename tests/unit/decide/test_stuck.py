"""A remediation that does not go although it should is said aloud; what is no longer meant is given up in time."""

from datetime import datetime
from typing import Any

import msgspec
import pytest

from defib.decide.explain import explain
from defib.decide.outlook import outlook
from defib.decide.plan import Plan
from defib.decide.rules import INSTANT
from defib.model import medik8s
from defib.model.action import HoldLock, MarkRemediation, ReleaseLock
from defib.model.cluster import Cluster
from defib.model.node import Node
from tests.builders import HOUR, MINUTE, SECOND, T0, a_node
from tests.unit.decide.checks import (
    a_check,
    a_ladder,
    a_lock,
    a_remediation,
    after,
    healthy,
    ill,
    node_of,
    of_type,
    plan_of,
    the_cluster,
    told,
)

NODES: list[list[Node]] = [[a_node("n1")], [], [ill("n1")]]  # recovering, gone, unhealthy
LATE = T0 + 10 * MINUTE + SECOND


def at(now: datetime, *nodes: Node, **more: Any) -> Cluster:
    return the_cluster(a_check(), *nodes, *healthy(5), now=now, foos=[a_remediation("n1", deleting=True)], **more)


@pytest.mark.parametrize("nodes", NODES)
def test_a_remediation_that_is_being_deleted_for_ten_minutes_is_stuck(nodes: list[Node]) -> None:
    plan = plan_of(at(LATE, *nodes))
    entry = node_of(plan, "n1")
    assert entry.reason == "DeletionStuck"
    assert "FooRemediation ns/n1 has been on its way out for longer than 10m" in entry.message
    assert "finalizer of its remediator" in entry.message
    assert "DeletionStuck" in told(plan)
    assert "DeletionStuck" not in told(plan_of(after(at(LATE, *nodes), plan)))


@pytest.mark.parametrize("nodes", NODES)
def test_until_then_nothing_is_wrong_and_that_moment_is_waited_for(nodes: list[Node]) -> None:
    plan = plan_of(at(T0 + 10 * MINUTE, *nodes))
    assert node_of(plan, "n1").reason in ("Recovering", "NodeGone", "WaitsForDeletion")
    assert plan.wake_at == T0 + 10 * MINUTE + INSTANT


@pytest.mark.parametrize("nodes", NODES)
def test_the_outlook_of_a_stuck_deletion_is_that_a_person_must_look(nodes: list[Node]) -> None:
    assert "a person has to find out" in outlook_of(at(LATE, *nodes))


def outlook_of(cluster: Cluster) -> str:
    plan = plan_of(cluster)
    (verdict,) = explain("n1", cluster, plan)
    return outlook(verdict, cluster, plan).message


def replaced(now: datetime) -> Cluster:
    """The node was deleted on purpose, and its remediator is not done."""
    waiting = a_remediation("n1", conditions={medik8s.PERMANENT_DELETION: "True"})
    return the_cluster(a_check(), *healthy(5), now=now, foos=[waiting])


def test_a_replacement_that_takes_longer_than_a_day_is_stuck() -> None:
    plan = plan_of(replaced(T0 + 24 * HOUR))
    assert (node_of(plan, "n1").reason, plan.wake_at) == ("NodeGone", T0 + 24 * HOUR + INSTANT)
    plan = plan_of(replaced(T0 + 24 * HOUR + SECOND))
    assert node_of(plan, "n1").reason == "ReplacementStuck"
    assert "FooRemediation ns/n1 has waited for longer than 24h" in node_of(plan, "n1").message
    assert "ReplacementStuck" in told(plan)
    assert "a person has to find out" in outlook_of(replaced(T0 + 24 * HOUR + SECOND))


# Nodes that the check no longer selects


def unselected(now: datetime, **more: Any) -> Cluster:
    check = a_check(selector={"matchLabels": {"pool": "x"}}, **more.pop("spec", {}))
    lock = a_lock("n1", "NodeHealthCheck-workers", renewed=now)
    more.setdefault("foos", [a_remediation("n1")])
    return the_cluster(check, ill("n1"), *healthy(5), now=now, locks=[lock], **more)


def given_up(plan: Plan) -> bool:
    marked = [mark for mark in of_type(plan, MarkRemediation) if medik8s.TIMED_OUT in mark.annotations]
    assert bool(marked) == bool(of_type(plan, ReleaseLock))
    return bool(marked)


@pytest.mark.parametrize(
    ("spec", "time"),
    [({}, 30 * MINUTE), ({"escalatingRemediations": a_ladder(("foo", "5m"), ("bar", "5m"))}, 5 * MINUTE)],
)
def test_a_node_that_is_no_longer_selected_is_given_up_after_the_time_of_its_step(spec: Any, time: Any) -> None:
    plan = plan_of(unselected(T0 + time, spec=spec))
    assert not given_up(plan)
    assert (node_of(plan, "n1").reason, plan.wake_at) == ("NoLongerSelected", T0 + time + INSTANT)
    late = unselected(T0 + time + SECOND, spec=spec)
    plan = plan_of(late)
    assert given_up(plan)
    assert (node_of(plan, "n1").reason, "RemediationTimedOut" in told(plan)) == ("TimedOut", True)
    marked = [a_remediation("n1", annotations={medik8s.TIMED_OUT: "2030-01-01T00:00:00Z"})]
    shelf = {item.key: item for item in marked}
    plan = plan_of(after(msgspec.structs.replace(late, others={**late.others, "foos": shelf}, locks={}), plan))
    assert (node_of(plan, "n1").reason, of_type(plan, HoldLock)) == ("NoLongerSelected", [])


def test_what_an_earlier_version_of_the_check_has_begun_for_it_keeps_its_lock_only_as_long() -> None:
    for now, locks in ((T0 + 30 * MINUTE, 1), (T0 + 30 * MINUTE + SECOND, 0)):
        cluster = unselected(now, foos=[a_remediation("n1", name="old", template="old")])
        plan = plan_of(msgspec.structs.replace(cluster, locks={}))
        assert len(of_type(plan, HoldLock)) == locks


def test_it_is_not_given_up_while_we_doubt_our_sight() -> None:
    plan = plan_of(unselected(T0 + HOUR, doubts=("our clock is wrong",)))
    assert not given_up(plan)
    assert "our clock is wrong" in node_of(plan, "n1").message

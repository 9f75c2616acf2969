"""What a pass plans about drains: what is written first, what is done then, what is looked at, and when next."""

from typing import Any

import pytest

from defib.decide.drains.plan import NOTHING, SEEN_AT_ONCE
from defib.decide.rules import INSTANT, Rules
from defib.model.action import HoldLock, ReleaseLock, ReportRemediation
from defib.model.budget import BUDGET
from defib.model.cluster import Blindness, Cluster
from defib.model.drain_action import DropDrain, EvictPod, OpenDrain
from defib.model.drain_policy import POLICY
from defib.model.node_drain import DRAIN, LOCK_HOLDER
from tests.builders import MINUTE, SECOND, T0, a_node
from tests.unit.decide.drains.ward import WEB, a_budget, a_leaving_pod, a_web_pod
from tests.unit.decide.drains.wing import (
    NOT_THERE,
    a_lock,
    a_wing,
    drained,
    entry,
    planned,
    policy,
    record,
    said,
    stands,
    steps,
    told,
    written,
)
from tests.unit.decide.failover.failovers import change

POD = a_web_pod()
FORCING: dict[str, Any] = {"phase": "Forcing", "begun": True}


def blind(cluster: Cluster, kind: str) -> Cluster:
    return change(cluster, blind=(Blindness(kind, T0, "its watch is lost"),))


def test_without_policies_records_and_locks_there_is_nothing_to_plan() -> None:
    assert planned(a_wing(drained(), POD, policies=[])) is NOTHING


def test_a_drain_is_first_given_a_record_that_its_policy_owns_and_nothing_else_is_done() -> None:
    drains = planned(a_wing(drained(), POD))
    opened = next(one for one in drains.actions if isinstance(one, OpenDrain))
    assert opened.body["metadata"]["ownerReferences"][0]["name"] == "workers"
    assert opened.body["spec"] == {"policy": "workers"}
    assert (steps(drains.actions), written(drains), stands(drains)) == ([], None, "Watching")
    assert (drains.nodes, BUDGET in drains.kinds) == (frozenset({"n1"}), True)


def test_a_node_that_nobody_drains_needs_neither_its_pods_nor_budgets_in_sight() -> None:
    drains = planned(a_wing([a_node("n1")], POD))
    assert (drains.nodes, BUDGET in drains.kinds, drains.wake_at) == (frozenset(), False, None)


def test_what_is_due_is_written_with_the_place_and_the_lock_is_asked_for_before_anything_is_done() -> None:
    drains = planned(a_wing(drained(minutes=35), POD, records=[record(minutes=35)]))
    status = written(drains)
    assert status is not None
    assert (status["phase"], status["begun"], [one["rung"] for one in status["pods"]]) == ("Forcing", True, ["Evict"])
    assert steps(drains.actions) == []
    assert [one.claim.holder for one in drains.actions if isinstance(one, HoldLock)] == [LOCK_HOLDER]
    assert told(drains) == ["DrainForcing"]


@pytest.mark.parametrize(
    ("status", "has_lock", "is_done"),
    [
        (FORCING | {"pods": [entry(POD, "Evict")]}, True, True),
        (FORCING | {"pods": [entry(POD, "Evict")]}, False, False),
        (FORCING | {"pods": [entry(POD, "Kill")]}, True, False),  # something else was written
        (FORCING, True, False),
        ({"phase": "Held", "pods": [entry(POD, "Evict")]}, True, False),
    ],
)
def test_a_step_is_taken_only_when_it_stands_in_the_record_and_we_have_the_lock(
    status: dict[str, Any], has_lock: bool, is_done: bool
) -> None:
    cluster = a_wing(
        drained(minutes=40), POD, records=[record(minutes=40, **status)], locks=[a_lock()] if has_lock else []
    )
    assert [type(one) for one in steps(planned(cluster).actions)] == ([EvictPod] if is_done else [])


def test_a_lock_is_renewed_a_minute_before_it_ends_and_not_before() -> None:
    def renewals(seconds_left: float) -> int:
        forcing = record(**FORCING, pods=[entry(POD, "Evict")])
        drains = planned(a_wing(drained(), POD, records=[forcing], locks=[a_lock(seconds_left=seconds_left)]))
        return sum(isinstance(one, HoldLock) for one in drains.actions)

    assert [renewals(seconds) for seconds in (110, 61, 60, 5)] == [0, 0, 1, 1]


def test_locks_that_nobody_needs_any_more_are_given_back_also_where_no_policy_is_left() -> None:
    free = planned(a_wing([a_node("n1")], policies=[], locks=[a_lock("n1"), a_lock("n2", "somebody")]))
    assert [one.node for one in free.actions if isinstance(one, ReleaseLock)] == ["n1"]


KINDS_NEEDED = [POLICY, DRAIN, *NOT_THERE]


@pytest.mark.parametrize("kind", KINDS_NEEDED, ids=str)
def test_until_all_that_tells_of_drains_was_looked_for_nothing_is_ended_given_back_or_reported(kind: object) -> None:
    cluster = a_wing([a_node("n1")], records=[record(**FORCING)], locks=[a_lock()])
    seen = planned(cluster)
    assert [type(one) for one in seen.actions] == [ReportRemediation, ReportRemediation, ReleaseLock]
    unasked = change(cluster, kinds={one: answer for one, answer in cluster.kinds.items() if one != kind})
    assert planned(unasked).actions == ()


@pytest.mark.parametrize("kind", ["nodes", "policies", "drains"])
def test_while_a_watch_is_lost_a_drain_that_is_not_seen_is_not_over(kind: str) -> None:
    cluster = a_wing([a_node("n1")], records=[record(**FORCING)], locks=[a_lock()])
    assert planned(blind(cluster, kind)).actions == ()


def test_the_record_of_a_node_that_is_gone_or_another_one_is_dropped() -> None:
    gone = planned(a_wing([a_node("n2")], records=[record()]))
    other = planned(a_wing([a_node("n1", uid="other")], records=[record()]))
    for drains in (gone, other):
        assert [one.node for one in drains.actions if isinstance(one, DropDrain)] == ["n1"]


def test_while_an_eviction_is_blocked_the_next_look_is_when_its_budgets_had_their_time() -> None:
    forcing = record(minutes=40, **FORCING, pods=[entry(POD, "Evict")])
    cluster = a_wing(drained(minutes=40), POD, records=[forcing], budgets=[a_budget()], locks=[a_lock()])
    drains = planned(cluster)
    assert drains.wake_at == T0 + 50 * SECOND  # for the lock
    assert T0 + 20 * MINUTE + INSTANT in drains.standings["n1"].moments


def test_a_drain_that_is_held_is_looked_at_again_soon() -> None:
    cluster = a_wing(drained(minutes=35), POD, records=[record(minutes=35)])
    drains = planned(cluster, rules=Rules(brake_setting=True))
    assert (stands(drains), drains.wake_at) == ("Held Brake", T0 + 10 * SECOND)
    assert steps(drains.actions) == []


def test_of_many_nodes_those_that_have_begun_and_the_longest_drained_are_seen() -> None:
    names = [f"n{number}" for number in range(SEEN_AT_ONCE + 10)]
    nodes = [one for number, name in enumerate(names) for one in drained(name, minutes=300 - number)]
    last = names[-1]
    records = [record(name, minutes=300 - number) for number, name in enumerate(names[:-1])]
    drains = planned(a_wing(nodes, records=[*records, record(last, minutes=5, **FORCING)], policies=[policy()]))
    assert len(drains.nodes) == SEEN_AT_ONCE
    assert last not in drains.nodes  # it is drained now: it has no pods, and no place
    assert names[0] in drains.nodes
    busy = a_wing(
        nodes,
        a_web_pod("web-last", node=last),
        records=[*records, record(last, minutes=70, **FORCING)],
        policies=[policy()],
    )
    assert last in planned(busy).nodes


def test_nothing_is_looked_at_again_of_which_nothing_has_changed() -> None:
    cluster = a_wing(drained(minutes=10), POD, records=[record(minutes=10)])
    first = planned(cluster)
    again = planned(change(cluster, now=T0 + MINUTE), first)
    assert again.looks["n1"] is first.looks["n1"]
    later = planned(change(cluster, now=T0 + 21 * MINUTE), first)
    assert later.looks["n1"] is not first.looks["n1"]  # the timeout is over


def test_claims_of_terminating_pods_are_remembered_whatever_was_found_out() -> None:
    stuck = a_leaving_pod(ended=T0 - 30 * MINUTE, grace=1, claims=["data"])
    pods = {"n1": stuck}
    cluster = a_wing(drained(ready="Unknown"), *pods.values(), records=[record()])
    assert planned(cluster).claims == frozenset({"apps/data"})
    known = change(cluster, claims={"apps/data": frozenset({"ReadWriteOnce"})})
    assert planned(known).claims == frozenset({"apps/data"})


def test_the_first_policy_by_name_that_selects_the_node_reports_it() -> None:
    policies = [policy("a", nodeSelector={"matchLabels": WEB}), policy("b")]
    drains = planned(a_wing(drained(), POD, policies=policies))
    first, second = said(drains, "a"), said(drains, "b")
    assert first is not None
    assert second is not None
    assert (first["draining"], second["draining"]) == (0, 1)


def test_a_policy_that_is_being_deleted_watches_nothing() -> None:
    leaving = policy()
    leaving = change(leaving, metadata=change(leaving.metadata, deletion_timestamp=T0))
    drains = planned(a_wing(drained(), POD, policies=[leaving]))
    assert (drains.standings, drains.nodes) == ({}, frozenset())

"""A remediation of a whole node and its pods that must not run twice: what waits, for what, and what it tells whom."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from defib.model import medik8s
from defib.model.action import ReadClaim
from defib.model.cluster import Cluster
from defib.model.failure import Failure
from defib.model.pod import Pod
from tests.builders import T0
from tests.unit.decide.failover.failovers import (
    CLUSTER,
    JOB,
    RWO,
    RWX,
    STATEFUL_SET,
    a_failover,
    a_pod,
    after,
    conditions,
    message,
    moved,
    moves,
    plan_of,
    reported,
    the_cluster,
)

DB = a_pod("db-0", owner=STATEFUL_SET)
PROOF_NEEDED = {"Processing": "False", "Succeeded": "False", "reason": "ProofNeeded"}
change = msgspec.structs.replace


def asking(*pods: Pod, annotations: Any = None, claims: Any = None, **spec: Any) -> Cluster:
    return the_cluster(a_failover(spec=spec, annotations=annotations), pods=pods, claims=claims or {})


def test_when_only_those_are_left_that_need_a_proof_it_has_failed_so_that_the_next_step_begins() -> None:
    cluster = asking(a_pod("web-1"), DB, a_pod("import-1", owner=JOB), a_pod("pg-1", owner=CLUSTER))
    cluster = after(cluster, plan_of(cluster))
    assert moved(plan_of(cluster)) == ["web-1"]
    cluster = after(cluster, plan_of(cluster), pods=[DB, a_pod("import-1", owner=JOB), a_pod("pg-1", owner=CLUSTER)])
    plan = plan_of(cluster)
    assert conditions(plan) == PROOF_NEEDED
    assert (reported(plan)["moved"], reported(plan)["waiting"], reported(plan)["left"]) == (1, 3, 0)
    assert message(plan) == (
        "1 pod moved; 3 pods that must not run twice wait for a proof of grade A or B that the node is down: "
        "apps/db-0, apps/import-1, apps/pg-1"
    )
    assert plan_of(after(cluster, plan)).actions == ()


def test_of_many_that_wait_some_are_named() -> None:
    plan = plan_of(asking(*(a_pod(f"db-{place}", owner=STATEFUL_SET) for place in range(5))))
    assert message(plan).endswith("apps/db-0, apps/db-1, apps/db-2 and 2 more")


def test_a_person_who_may_give_the_proof_is_waited_for() -> None:
    plan = plan_of(asking(DB, acceptedProofs=["A", "D"]))
    assert conditions(plan) == {"Processing": "True", "Succeeded": "Unknown", "reason": "WaitingForProof"}
    assert "a proof of grade A or D" in message(plan)


def test_that_it_was_given_up_because_of_a_proof_is_not_overwritten_when_its_time_is_up() -> None:
    cluster = asking(DB)
    cluster = after(cluster, plan_of(cluster))
    (item,) = cluster.others["failovers"].values()
    assert isinstance(item, type(a_failover()))
    late = a_failover(status=item.status, annotations={medik8s.TIMED_OUT: "2030-01-01T00:00:00Z"})
    assert plan_of(the_cluster(late, pods=[DB])).actions == ()


def test_what_waited_is_done_when_it_is_gone() -> None:
    cluster = asking(DB)
    cluster = after(cluster, plan_of(cluster))
    plan = plan_of(after(cluster, plan_of(cluster), pods=[]))
    assert conditions(plan) == {"Processing": "False", "Succeeded": "True", "reason": "RemediationFinished"}
    assert reported(plan)["waiting"] == 0


def test_who_says_that_no_proof_is_needed_gets_all_moved_at_once() -> None:
    cluster = asking(DB, a_pod("wiki-1", claims=["data"]), acceptedProofs=["None"])
    assert moved(plan_of(after(cluster, plan_of(cluster)))) == ["db-0", "wiki-1"]


@pytest.mark.parametrize(
    ("deletion", "grace"),
    [
        ({}, None),
        ({"mode": "Graceful"}, None),
        ({"mode": "Graceful", "gracePeriodSeconds": 7}, 7),
        ({"mode": "Force"}, 0),
    ],
)
def test_pods_are_deleted_as_it_says(deletion: dict[str, Any], grace: int | None) -> None:
    cluster = asking(a_pod("web-1"), deletion=deletion)
    (move,) = moves(plan_of(after(cluster, plan_of(cluster))))
    assert move.grace_seconds == grace


def test_only_the_selected_pods_of_all_namespaces_leave_and_the_excluded_stay() -> None:
    web = {"app": "web"}
    pods = [
        a_pod("web-1", labels=web),
        a_pod("web-2", labels=web, namespace="shop"),
        a_pod("web-keep", labels=web),
        a_pod("other"),
    ]
    cluster = asking(*pods, selector={"matchLabels": web}, exclude={"names": ["*-keep"]})
    plan = plan_of(cluster)
    assert (reported(plan)["found"], reported(plan)["left"]) == (2, 1)
    assert moved(plan_of(after(cluster, plan))) == ["web-1", "web-2"]


def test_one_that_makes_no_sense_moves_nothing_and_says_what_is_wrong() -> None:
    cluster = asking(a_pod("web-1"), acceptedProofs=["None", "A"], deletion={"mode": "Slowly"})
    plan = plan_of(cluster)
    assert conditions(plan) == {"Processing": "False", "Succeeded": "False", "reason": "InvalidSpec"}
    assert "None must stand alone" in message(plan)
    assert "spec.deletion.mode" in message(plan)
    assert plan_of(after(cluster, plan)).actions == ()


# Claims.


def test_claims_are_read_before_anything_is_said() -> None:
    cluster = asking(a_pod("web-1"), a_pod("wiki-1", claims=["data"]))
    plan = plan_of(cluster)
    assert plan.actions == (ReadClaim("apps", "data"),)
    assert plan.claims == {"apps/data"}
    read = change(cluster, claims={"apps/data": RWX})
    assert reported(plan_of(read, plan))["found"] == 2
    read = change(cluster, claims={"apps/data": RWO})
    assert (reported(plan_of(read, plan))["found"], reported(plan_of(read, plan))["waiting"]) == (1, 1)


def test_a_claim_that_cannot_be_read_is_asked_for_again_and_keeps_nobody_else_waiting() -> None:
    """It stays in the plan, so that the executor remembers that it has failed, and does not ask at once for ever."""
    ask = ReadClaim("apps", "data")
    failed = {ask.key: Failure(why="forbidden", times=1, again_in=timedelta(seconds=1))}
    cluster = change(asking(a_pod("web-1"), a_pod("wiki-1", claims=["data"])), failures=failed)
    before = plan_of(cluster)
    for _ in range(4):
        assert ask in before.actions
        cluster = after(cluster, before)
        before = plan_of(cluster, before)
    assert moved(before) == ["web-1"]
    cluster = after(cluster, before, pods=[a_pod("wiki-1", claims=["data"])])
    plan = plan_of(cluster, before)
    assert conditions(plan) == PROOF_NEEDED
    assert ask in plan.actions


def test_a_claim_that_can_be_read_at_last_lets_its_pod_go() -> None:
    ask = ReadClaim("apps", "data")
    failed = {ask.key: Failure(why="forbidden", times=1, again_in=timedelta(seconds=1))}
    cluster = change(asking(a_pod("wiki-1", claims=["data"])), failures=failed)
    plan = plan_of(cluster)
    assert conditions(plan) == PROOF_NEEDED
    cluster = change(after(cluster, plan), failures={}, claims={"apps/data": RWX})
    for _ in range(2):
        plan = plan_of(cluster, plan)
        cluster = after(cluster, plan)
    assert moved(plan) == ["wiki-1"]
    assert cluster.now > T0

"""Drains in a cluster in which something else is not as it should be: what is not seen, what is out, what makes no sense."""

from typing import Any

import pytest

from defib.decide.drains.intents.karpenter import DISRUPTED, NODE_CLAIMS, TERMINATION
from defib.decide.drains.plan import SEEN_AT_ONCE
from defib.decide.failover.plan import Failover
from defib.decide.failover.todo import Todo
from defib.model.action import HoldLock, ReleaseLock
from defib.model.cluster import Blindness, Served
from defib.model.meta import Meta, Unstructured
from defib.model.node import NodeSpec, Taint
from defib.model.node_drain import DrainStatus, read_drain_status
from defib.model.pod import pods_on
from tests.builders import MINUTE, SECOND, T0, a_node
from tests.unit.decide.drains.ward import a_budget, a_drain_policy, a_record, a_web_pod
from tests.unit.decide.drains.wing import a_lock, a_wing, drained, entry, planned, policy, record, stands, written
from tests.unit.decide.failover.failovers import change

FORCING: dict[str, Any] = {"phase": "Forcing", "begun": True}
POD = a_web_pod()
CONTROL_PLANE = {"node-role.kubernetes.io/control-plane": ""}


@pytest.mark.parametrize(
    "status",
    [
        {"startedAt": "9999-12-31T23:59:59Z"},
        {"startedAt": "2030-01-01T00:00:00"},
        {"pausedAt": "0001-01-01T00:00:00Z"},
        {"pods": [entry(POD, "Evict") | {"at": "9999-12-31T23:59:59Z"}]},
    ],
    ids=str,
)
def test_a_record_with_a_moment_that_nobody_can_count_on_counts_as_none(status: dict[str, Any]) -> None:
    item = a_record(**status)
    assert read_drain_status(item) == DrainStatus()
    for nodes in (drained(minutes=5), [a_node("n1")]):
        planned(a_wing(nodes, POD, records=[item]))


def test_nodes_of_which_nothing_is_left_do_not_keep_others_out_of_sight() -> None:
    parked = [f"n{number}" for number in range(SEEN_AT_ONCE)]
    records = [record(name, phase="Drained", podsLeft=0) for name in parked]
    nodes = [*drained(*parked), *drained("last", minutes=5)]
    cluster = a_wing(nodes, a_web_pod(node="last"), records=[*records, record("last", minutes=5)])
    unseen = {name: items for name, items in cluster.others.items() if name != pods_on("last")}
    drains = planned(change(cluster, others=unseen))
    assert "last" in drains.nodes
    (hidden,) = set(parked) - drains.nodes
    others = {name: items for name, items in cluster.others.items() if name != pods_on(hidden)}
    again = planned(change(cluster, others=others), drains)
    assert (again.nodes, stands(again, hidden)) == (drains.nodes, "Drained"), "and so it stays"


def test_shx_01_a_drain_that_is_held_gives_its_lock_back_though_not_all_drains_are_seen() -> None:
    cluster = a_wing(
        [*drained("n1"), *drained("n2")],
        a_web_pod(node="n1"),
        records=[record("n1", **FORCING), record("n2", **FORCING)],
        locks=[a_lock("n1"), a_lock("n2"), a_lock("n3")],
        policies=[policy(maxForcedNodes=5)],
    )
    claims = Served("nodeclaims", namespaced=False)
    lost = (Blindness(kind="nodeclaims", why="no answer", since=T0 - MINUTE),)
    blind = change(cluster, kinds={**cluster.kinds, NODE_CLAIMS: claims}, blind=lost)
    failover = Failover(remediations=Todo(nodes=frozenset({"n1"})))

    def given_back(**how: Any) -> list[str]:
        return [one.node for one in planned(blind, **how).actions if isinstance(one, ReleaseLock)]

    assert given_back() == ["n2"], "it is drained; nobody knows of n3"
    assert given_back(failover=failover) == ["n1", "n2"]


def test_a_peer_whose_time_never_comes_is_written_down_once() -> None:
    taint = Taint(key=DISRUPTED, effect="NoSchedule")
    node = change(a_node("n1"), spec=NodeSpec(taints=[taint]))
    meta = Meta(name="c", deletion_timestamp=T0 - MINUTE, annotations={TERMINATION: "9000-12-31T23:59:00Z"})
    claim = Unstructured(metadata=meta, status={"nodeName": "n1"})
    cluster = a_wing([node], POD, records=[record(minutes=1)])
    cluster = change(
        cluster,
        kinds={**cluster.kinds, NODE_CLAIMS: Served("nodeclaims", namespaced=False)},
        others={**cluster.others, "nodeclaims": {"c": claim}},
    )
    status = written(planned(cluster))
    assert status is not None
    told = a_record(**{name: value for name, value in status.items() if value is not None})
    assert written(planned(change(cluster, others={**cluster.others, "drains": {"n1": told}}))) is None


@pytest.mark.parametrize(
    ("role", "ready", "told"),
    [
        (CONTROL_PLANE, "Unknown", "Held ControlPlane"),
        (CONTROL_PLANE, "False", "Held ControlPlane"),
        (CONTROL_PLANE, "True", "Forcing"),
        ({}, "Unknown", "Forcing"),
    ],
)
def test_i4_no_control_plane_node_is_forced_while_another_is_out_by_itself(
    role: dict[str, str], ready: str, told: str
) -> None:
    """Nobody need remediate it."""
    nodes = [*drained("n1", labels={**CONTROL_PLANE, "defib.dev/watch-drain": "true"})]
    nodes += [a_node("n2", labels=role, ready=ready), a_node("n3")]
    cluster = a_wing(nodes, POD, records=[record()], policies=[policy(includeControlPlane=True)])
    assert stands(planned(cluster)) == told


def test_shx_01_a_remediation_that_a_person_made_holds_the_drain() -> None:
    cluster = a_wing(drained(), POD, records=[record(**FORCING)])
    failover = Failover(remediations=Todo(nodes=frozenset({"n1"})))
    assert stands(planned(cluster, failover=failover)) == "Held Remediation"


def test_a_lock_that_is_being_renewed_is_no_reason_to_look_again_at_once() -> None:
    forcing = record(minutes=40, **FORCING, pods=[entry(POD, "Evict")])
    cluster = a_wing(drained(minutes=40), POD, records=[forcing], budgets=[a_budget()], locks=[a_lock(seconds_left=30)])
    drains = planned(cluster)
    assert len([one for one in drains.actions if isinstance(one, HoldLock)]) == 1
    assert drains.wake_at is None or drains.wake_at > T0 + SECOND


def test_while_a_policy_cannot_be_served_no_other_policy_has_its_nodes() -> None:
    """What it follows is not there, and the other one forces where it might only have watched."""
    first = a_drain_policy("a", compatibility="ManagedUpgradeOperator")
    cluster = a_wing(drained(), POD, policies=[first, policy("b")])
    assert planned(cluster).standings == {}
    others = {"matchLabels": {"of": "others"}}
    other = a_drain_policy("a", compatibility="ManagedUpgradeOperator", nodeSelector=others)
    assert list(planned(a_wing(drained(), POD, policies=[other, policy("b")])).standings) == ["n1"]

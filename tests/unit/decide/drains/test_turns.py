"""Whose turn it is to be forced, how many at a time, and who else stands against it."""

from typing import Any

import pytest

from defib.decide.check_plan import CheckPlan, Known
from defib.decide.drains.turns import being_begun
from defib.decide.failover.node_plan import Failed, Look
from defib.decide.failover.plan import Failover
from defib.decide.failover.policies import Policies, Remembered
from defib.model.action import ReportRemediation, Target
from defib.model.drain_policy import POLICY
from defib.model.failover_policy import FailedNode, State
from defib.model.health_check import Broken, CheckStatus, NodeHealthCheck
from defib.model.incident import INCIDENTS, IncidentSpec, IncidentStatus, NodeIncident, Phase
from defib.model.meta import Meta, Unstructured
from defib.model.node_drain import DRAIN, LOCK_HOLDER, WATCH_MARK
from defib.model.verdict import Gate, Verdict
from defib.model.verdict import State as NodeState
from tests.builders import a_node
from tests.unit.decide.drains.ward import a_web_pod
from tests.unit.decide.drains.wing import a_lock, a_wing, drained, planned, policy, record, stands
from tests.unit.decide.failover.failovers import change

BEGUN: dict[str, Any] = {"phase": "Forcing", "begun": True}
OPEN = Gate(name="Threshold", is_open=True, message="enough are healthy")


def a_report(node: str, *, begun: bool, kind: Any = DRAIN) -> ReportRemediation:
    target = Target(kind=kind, namespace="", name=node, uid="u")
    return ReportRemediation(target=target, version="1", status={"begun": begun or None})


def stand(*names: str, records: list[Unstructured] | None = None, **wing: Any) -> list[str]:
    """How it stands with drains of these nodes, the first of which began first. All have a pod that is due."""
    extra = {name: wing.pop(name) for name in ("checks", "failover") if name in wing}
    nodes = [one for number, name in enumerate(names) for one in drained(name, minutes=200 - number)]
    there = records if records is not None else [record(name, minutes=200 - n) for n, name in enumerate(names)]
    pods = [a_web_pod(f"web-{name}", node=name) for name in names]
    cluster = a_wing([*nodes, *wing.pop("others", ())], *pods, records=there, **wing)
    drains = planned(cluster, **extra)
    return [stands(drains, name) for name in names]


def test_whoever_began_first_has_the_first_turn() -> None:
    assert stand("b", "a", "c") == ["Forcing", "Held Budget", "Held Budget"]


def test_whoever_has_a_place_keeps_it_though_others_began_earlier() -> None:
    records = [record("a", minutes=200), record("b", minutes=199, **BEGUN)]
    assert stand("a", "b", records=records) == ["Held Budget", "Forcing"]


@pytest.mark.parametrize(("most", "forced"), [(2, 2), ("40%", 2), ("20%", 1), ("41%", 3), ("1%", 1), (0, 0), ("0%", 0)])
def test_a_share_is_of_the_nodes_that_the_policy_selects_rounded_up(most: int | str, forced: int) -> None:
    others = [
        a_node("e"),
        a_node("f", labels={"node-role.kubernetes.io/control-plane": ""}),
    ]  # the last is none of them
    names = ["a", "b", "c", "d"]
    told = stand(*names, others=others, policies=[policy(maxForcedNodes=most)])
    assert told == ["Forcing"] * forced + ["Held Budget"] * (len(names) - forced)


def test_places_are_counted_among_the_nodes_of_the_policy() -> None:
    records = [record("a", minutes=200), record("x", **BEGUN)]
    assert stand("a", others=[a_node("x")], records=records) == ["Held Budget"]
    marked = policy(nodeSelector={"matchLabels": {WATCH_MARK: "true"}})
    assert stand("a", others=[a_node("x")], records=records, policies=[marked]) == ["Forcing"]


def test_a_place_that_is_being_written_counts_and_one_of_a_drain_that_is_paused_does_not() -> None:
    underway = (a_report("b", begun=True), a_report("c", begun=False), a_report("d", begun=True, kind=POLICY))
    assert being_begun(underway) == {"b"}
    assert stand("a", "b", underway=underway) == ["Held Budget", "Forcing"]
    paused = record("x", phase="Paused", begun=True, pausedAt="2030-01-01T00:00:00Z")
    assert stand("a", others=[a_node("x")], records=[record("a", minutes=200), paused]) == ["Forcing"]


@pytest.mark.parametrize(
    ("holder", "left", "phase"),
    [(LOCK_HOLDER, 60, "Forcing"), ("somebody", 60, "Held Lock"), ("somebody", -1, "Forcing"), ("", 60, "Forcing")],
)
def test_a_lock_that_somebody_else_holds_holds_the_drain(holder: str, left: float, phase: str) -> None:
    assert stand("a", locks=[a_lock("a", holder, seconds_left=left)]) == [phase]


def an_incident(node: str, phase: Phase) -> NodeIncident:
    status = IncidentStatus(phase=phase)
    return NodeIncident(metadata=Meta(name=node, uid="u"), spec=IncidentSpec(node=node), status=status)


@pytest.mark.parametrize(
    ("phase", "told"),
    [(Phase.OPEN, "Held Remediation"), (Phase.RESTING, "Held Remediation"), (Phase.CLOSED, "Forcing")],
)
def test_an_open_incident_holds_the_drain(phase: Phase, told: str) -> None:
    nodes = drained("a", minutes=200)
    cluster = a_wing(nodes, a_web_pod(node="a"), records=[record("a", minutes=200)])
    others = {**cluster.others, INCIDENTS: {"a": an_incident("a", phase)}}
    assert stands(planned(change(cluster, others=others)), "a") == told


def a_check(node: str, state: NodeState, *gates: Gate, of_check: tuple[Gate, ...] = (OPEN,)) -> dict[str, CheckPlan]:
    verdict = Verdict(node=node, check="all", state=state, reason="", message="", gates=gates)
    broken = Broken(name="all", uid="u", problems=())
    known = Known(item=NodeHealthCheck(metadata=Meta(name="all")), check=broken, status=CheckStatus())
    return {"all": CheckPlan(known=known, status=CheckStatus(), gates=of_check, verdicts={node: verdict})}


CLOSED = Gate(name="Paused", is_open=False, message="paused")
OUR_LOCK = Gate(name="Lock", is_open=False, value=LOCK_HOLDER, message="defib-drain works on the node")
OTHER_LOCK = Gate(name="Lock", is_open=False, value="somebody", message="somebody works on the node")


@pytest.mark.parametrize(
    ("checks", "told"),
    [
        (a_check("a", NodeState.REMEDIATING), "Held Remediation"),
        (a_check("a", NodeState.UNHEALTHY, OPEN), "Held Remediation"),
        (a_check("a", NodeState.UNHEALTHY, OUR_LOCK), "Held Remediation"),
        (a_check("a", NodeState.UNHEALTHY, OTHER_LOCK), "Forcing"),
        (a_check("a", NodeState.UNHEALTHY, of_check=(CLOSED,)), "Forcing"),
        (a_check("a", NodeState.HEALTHY), "Forcing"),
        (a_check("b", NodeState.REMEDIATING), "Held Budget"),
    ],
)
def test_a_check_that_remediates_or_is_about_to_holds_the_drain(checks: dict[str, CheckPlan], told: str) -> None:
    assert stand("a", checks=checks, others=[a_node("b")]) == [told]


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (FailedNode(name="a", state=State.MOVING), "Held PodFailover"),
        (FailedNode(name="a", state=State.FAILING), "Held PodFailover"),
        (FailedNode(name="a", state=State.HELD, reason="Lock"), "Held PodFailover"),
        (FailedNode(name="a", state=State.HELD, reason="Budget"), "Forcing"),
        (FailedNode(name="a", state=State.MOVED), "Forcing"),
    ],
)
def test_a_policy_that_moves_pods_of_the_node_holds_the_drain(entry: FailedNode, told: str) -> None:
    failed = Failed(node=a_node("a"), due={})
    remembered = Remembered(failed=failed, wants=(), look=Look(entries={"apps/web": entry}))
    failover = Failover(policies=Policies(looks={"a": remembered}))
    assert stand("a", failover=failover) == [told]

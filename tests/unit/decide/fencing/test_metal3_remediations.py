"""Metal3Remediations: how they are understood, and what is written back to them."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from defib.decide.fencing.case import Case
from defib.decide.fencing.kinds import METAL3_REMEDIATIONS
from defib.decide.fencing.metal3_remediations import FINALIZER, REASON, metal3_order, read_strategy, report_metal3
from defib.decide.fencing.order import Obstacle
from defib.model.action import MarkRemediation, ReportRemediation, SetFinalizers
from defib.model.cluster import Cluster
from defib.model.incident import Entry, IncidentSpec, IncidentStatus, NodeIncident, Outcome, Phase
from defib.model.meta import Meta, Unstructured
from defib.model.power import PowerSeen
from defib.model.power_cycle import Policy
from defib.model.version import read_version
from tests.builders import MINUTE, T0, a_cluster, a_node

KIND = METAL3_REMEDIATIONS[0]
STARTING = Obstacle("Starting", "nothing stands against it")


def a_remediation(status: Any = None, *, held: bool = True, **meta: Any) -> Unstructured:
    finalizers = [FINALIZER, "other"] if held else ["other"]
    return Unstructured(
        metadata=Meta(name="m1", namespace="metal3", uid="uid-r", resource_version="5", finalizers=finalizers, **meta),
        status=status,
    )


def an_incident(phase: Phase, **status: Any) -> NodeIncident:
    return NodeIncident(
        metadata=Meta(name="n1", uid="uid-i"),
        spec=IncidentSpec(node="n1"),
        status=IncidentStatus(phase=phase, **status),
    )


@pytest.mark.parametrize(
    ("strategy", "cycles", "seconds"),
    [
        (None, 2, 600),
        ({}, 2, 600),
        ({"type": "Reboot"}, 2, 600),
        ({"type": "Reboot", "retryLimit": 1, "timeoutSeconds": 100}, 2, 100),
        ({"type": "Reboot", "retryLimit": 3, "timeout": "5m"}, 4, 300),
        ({"type": "Reboot", "timeout": "0s"}, 2, 600),
        ({"type": "Reboot", "timeoutSeconds": 0}, 2, 600),
    ],
)
def test_a_strategy_is_reboot_with_a_limit_and_a_timeout(strategy: Any, cycles: int, seconds: int) -> None:
    """RM-21, RM-22: by default once more, after 600 s; the power cycles are one more than the retries."""
    policy = read_strategy({"strategy": strategy})
    assert isinstance(policy, Policy)
    assert (policy.attempts, policy.back_within) == (cycles, timedelta(seconds=seconds))


@pytest.mark.parametrize(
    "strategy",
    [
        {"type": "Sleep"},
        {"type": 7},
        {"retryLimit": 0},
        {"retryLimit": "1"},
        {"retryLimit": True},
        {"timeoutSeconds": 99},
        {"timeoutSeconds": -100},
        {"timeoutSeconds": "100"},
        {"timeout": "99s"},
        {"timeout": "-1h"},
        {"timeout": 600},
        {"timeout": "soon"},
        "Reboot",
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(strategy: Any) -> None:
    """RM-21."""
    obstacle = read_strategy({"strategy": strategy})
    assert isinstance(obstacle, Obstacle)
    assert obstacle.reason == "InvalidSpec"
    assert obstacle.message.startswith("spec.strategy")


@pytest.mark.parametrize(
    ("incident", "so", "phase"),
    [
        (None, STARTING, "Running"),
        (None, Obstacle("InvalidSpec", "x"), "Failed"),
        (an_incident(Phase.OPEN), STARTING, "Running"),
        (an_incident(Phase.OPEN), Obstacle("Brake", "x"), "Running"),
        (an_incident(Phase.OPEN), Obstacle("HostNotOnline", "x"), "Failed"),
        (an_incident(Phase.LOOKING), STARTING, "Running"),
        (an_incident(Phase.POWERING_OFF), STARTING, "Running"),
        (an_incident(Phase.FREEING), STARTING, "Running"),
        (an_incident(Phase.POWERING_ON), STARTING, "Waiting"),
        (an_incident(Phase.RETURNING), STARTING, "Waiting"),
        (an_incident(Phase.RESTING), STARTING, "Waiting"),
        (an_incident(Phase.RESTORING), STARTING, "Waiting"),
        (an_incident(Phase.CANCELLING), STARTING, "Waiting"),
        (an_incident(Phase.REPLACING), STARTING, "Deleting machine"),
        (an_incident(Phase.NEEDS_PERSON), STARTING, "Failed"),
        (an_incident(Phase.CLOSED, outcome=Outcome.RECOVERED), STARTING, "Waiting"),
        (an_incident(Phase.CLOSED, outcome=Outcome.REPLACED), STARTING, "Deleting machine"),
    ],
)
def test_every_phase_of_an_incident_has_a_phase_in_the_words_of_its_crd(
    incident: NodeIncident | None, so: Obstacle, phase: str
) -> None:
    """RM-22."""
    item = a_remediation()
    order = metal3_order(KIND, item, Cluster(now=T0))
    told = [one for one in report_metal3(KIND, item, order, incident, so) if isinstance(one, ReportRemediation)]
    assert [one.status["phase"] for one in told] == [phase]


def test_the_second_power_cycle_is_counted_and_has_its_time() -> None:
    """RM-22: a zero is not written, since the CRD has no room for one."""
    began = [Entry(at=T0, phase=Phase.LOOKING, message=""), Entry(at=T0 + MINUTE, phase=Phase.LOOKING, message="")]
    item = a_remediation()
    order = metal3_order(KIND, item, Cluster(now=T0))
    for attempt, expected in ((1, None), (2, 1)):
        incident = an_incident(Phase.FREEING, attempt=attempt, timeline=began[:attempt])
        (told,) = report_metal3(KIND, item, order, incident, STARTING)
        assert isinstance(told, ReportRemediation)
        assert told.status.get("retryCount") == expected
        assert told.status["lastRemediated"] == f"2030-01-01T00:0{attempt - 1}:00Z"


def test_what_stands_in_the_way_is_told_in_an_annotation_until_it_does_not() -> None:
    status = {"phase": "Running"}
    item = a_remediation(status)
    order = metal3_order(KIND, item, Cluster(now=T0))
    (told,) = report_metal3(KIND, item, order, an_incident(Phase.OPEN), Obstacle("Brake", "the brake is on"))
    assert isinstance(told, MarkRemediation)
    assert told.annotations == {REASON: "Brake: the brake is on"}
    item = a_remediation(status, annotations={REASON: "Brake: the brake is on"})
    assert report_metal3(KIND, item, order, an_incident(Phase.OPEN), Obstacle("Brake", "the brake is on")) == ()
    (told,) = report_metal3(KIND, item, order, an_incident(Phase.FREEING), STARTING)
    assert isinstance(told, MarkRemediation)
    assert told.annotations == {REASON: None}


@pytest.mark.parametrize("phase", [Phase.CLOSED, Phase.NEEDS_PERSON])
def test_one_that_is_deleted_is_let_go_when_nothing_is_left_to_undo_for_it(phase: Phase) -> None:
    """RM-23: and other finalizers are none of our business."""
    item = a_remediation({"phase": "Waiting"}, deletion_timestamp=T0)
    order = metal3_order(KIND, item, Cluster(now=T0))
    assert order.withdrawn
    (action,) = report_metal3(KIND, item, order, an_incident(phase), STARTING)
    assert isinstance(action, SetFinalizers)
    assert action.finalizers == ("other",)
    still = report_metal3(KIND, item, order, an_incident(Phase.CANCELLING), STARTING)
    assert not [one for one in still if isinstance(one, SetFinalizers)]


def test_one_that_has_had_its_power_cycle_is_let_go_and_not_begun_again() -> None:
    closed = an_incident(Phase.CLOSED, outcome=Outcome.RECOVERED)
    item = a_remediation({"phase": "Waiting"})
    order = metal3_order(KIND, item, Cluster(now=T0))
    (action,) = report_metal3(KIND, item, order, closed, STARTING)
    assert isinstance(action, SetFinalizers)
    gone = a_remediation({"phase": "Waiting"}, held=False)
    order = metal3_order(KIND, gone, Cluster(now=T0))
    assert order.is_over
    assert report_metal3(KIND, gone, order, None, STARTING) == ()
    refused = a_remediation({"phase": "Failed"}, held=False)
    assert not metal3_order(KIND, refused, Cluster(now=T0)).is_over


@pytest.mark.parametrize(
    ("minor", "deletes"), [("27", True), ("27+", True), ("28", False), ("28+", False), ("31", False), ("", False)]
)
def test_old_servers_have_the_node_deleted_and_newer_ones_the_taint(minor: str, *, deletes: bool) -> None:
    """RM-25: by the version of the cluster that has the nodes, however its vendor writes it."""
    answer = msgspec.json.encode({"major": "1" if minor else "", "minor": minor})
    cluster = msgspec.structs.replace(a_cluster(a_node("n1")), server=read_version(answer))
    item = a_remediation()
    case = Case(
        cluster=cluster,
        order=metal3_order(KIND, item, cluster),
        incident=an_incident(Phase.FREEING),
        node=cluster.nodes["n1"],
        seen=PowerSeen(),
        hold=lambda: None,
        obstacle=None,
    )
    assert case.deletes_node == deletes

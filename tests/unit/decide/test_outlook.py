"""What comes next for a node is told in words, with the moment where there is one."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import defib
from defib.decide.explain import LEFT_TO_ANOTHER, explain
from defib.decide.outlook import OPENERS, Outlook, outlook
from defib.model import medik8s
from defib.model.action import StartRemediation
from defib.model.cluster import Cluster
from defib.model.failure import Failure
from defib.model.verdict import State, Verdict
from tests.builders import MINUTE, SECOND, T0, a_node
from tests.unit.decide.checks import (
    BAR_TEMPLATE,
    LONG_AGO,
    a_check,
    a_lock,
    a_remediation,
    of_type,
    plan_of,
    template_ref,
    the_cluster,
)

WELL = [a_node(f"n{number}", since=LONG_AGO) for number in (2, 3, 4)]
ILL = a_node("n1", ready="Unknown", since=LONG_AGO)
LADDER = [
    {"remediationTemplate": template_ref(), "order": 1, "timeout": "5m"},
    {"remediationTemplate": template_ref("bar", BAR_TEMPLATE), "order": 2, "timeout": "10m"},
]


def ahead(cluster: Cluster, node: str = "n1") -> Outlook:
    plan = plan_of(cluster)
    (verdict,) = explain(node, cluster, plan)
    return outlook(verdict, cluster, plan)


def test_of_a_healthy_node_it_is_told_what_would_make_it_unhealthy() -> None:
    assert ahead(the_cluster(a_check(), *WELL), "n2") == Outlook(
        "nothing, unless Ready is False for longer than 5m or Ready is Unknown for longer than 5m"
    )
    nothing_counts = a_check(unhealthyConditions=[])
    assert ahead(the_cluster(nothing_counts, *WELL), "n2").message == "nothing: the check calls no condition unhealthy"


def test_of_a_suspect_node_it_is_told_when_it_becomes_unhealthy_and_what_then() -> None:
    suspect = a_node("n1", ready="Unknown", since=T0 - MINUTE)
    at = T0 + 4 * MINUTE
    begins = "if it does not recover it is unhealthy, and remediation with FooRemediationTemplate ns/foo begins"
    assert ahead(the_cluster(a_check(), suspect, *WELL)) == Outlook(begins, at)
    paused = ahead(the_cluster(a_check(pauseRequests=["maintenance"]), suspect, *WELL))
    assert paused == Outlook("if it does not recover it is unhealthy, and held back: paused: maintenance", at)
    relapsed = ahead(the_cluster(a_check(), suspect, *WELL, foos=[a_remediation("n1")]))
    assert relapsed == Outlook("if it does not recover it is unhealthy again, and its remediation goes on", at)


def test_of_a_node_whose_turn_it_is_the_object_is_named() -> None:
    assert ahead(the_cluster(a_check(), ILL, *WELL)) == Outlook("the operator creates FooRemediation ns/n1 at once")


@pytest.mark.parametrize(
    ("gate", "spec", "more"),
    [
        ("Disabled", {}, {"templates": []}),
        ("Brake", {}, {"config": {"defib-brake": {}}}),
        ("Paused", {"pauseRequests": ["maintenance"]}, {}),
        ("ModeObserve", {"mode": "Observe"}, {}),
        ("SelfDoubt", {}, {"doubts": ("the API server fails",)}),
        ("Threshold", {"minHealthy": 4}, {}),
        ("Approval", {"mode": "Approve"}, {}),
        ("ForeignRemediation", {}, {"foos": [a_remediation("n1", check="other")]}),
        ("InFlight", {"guards": {"maxInFlight": 1}}, {"foos": [a_remediation("n2")]}),
    ],
)
def test_of_a_node_that_is_held_back_it_is_told_what_opens_the_gate(
    gate: str, spec: dict[str, Any], more: dict[str, Any]
) -> None:
    told = ahead(the_cluster(a_check(**spec), ILL, *WELL, **more))
    assert told == Outlook(OPENERS[gate].format(node="n1"))


def test_a_lock_that_holds_a_node_back_ends_at_a_moment() -> None:
    told = ahead(the_cluster(a_check(), ILL, *WELL, locks=[a_lock("n1", "somebody", seconds=300)]))
    assert told == Outlook("it goes on by itself when the lock is given back or runs out", T0 + 300 * SECOND)


def test_every_gate_that_can_be_closed_has_an_opener() -> None:
    sources = "".join(path.read_text() for path in (Path(defib.__file__).parent / "decide").rglob("*.py"))
    named = set(re.findall(r'Gate\(\s*name="(\w+)"', sources)) | {"ModeObserve"}
    assert named == OPENERS.keys()


def test_the_guide_has_a_row_for_every_gate_and_for_no_other() -> None:
    text = (Path(__file__).parents[3] / "docs/node-health-check.md").read_text()
    table = text.partition("| gate | closed while |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == OPENERS.keys()


def test_of_a_creation_that_fails_it_is_told_that_it_is_tried_again() -> None:
    (start,) = of_type(plan_of(the_cluster(a_check(), ILL, *WELL)), StartRemediation)
    failures = {start.key: Failure(why="quota", times=2, again_in=SECOND)}
    told = ahead(the_cluster(a_check(), ILL, *WELL, failures=failures))
    assert told.message == "the operator tries again, after longer and longer pauses"


def test_a_remediation_has_a_time_and_then_a_person_is_asked() -> None:
    told = ahead(the_cluster(a_check(), ILL, *WELL, foos=[a_remediation("n1", created=T0 - MINUTE)]))
    assert told == Outlook("if the node is not healthy by then, a person has to look", T0 + 29 * MINUTE)


def test_when_the_last_remediation_says_that_it_has_failed_nobody_waits_for_its_time() -> None:
    failed = a_remediation("n1", created=T0 - MINUTE, conditions={"Processing": "False", "Succeeded": "False"})
    told = ahead(the_cluster(a_check(), ILL, *WELL, foos=[failed]))
    assert told == Outlook("a person has to mend the node; its remediations are removed when it is healthy again")


def test_a_step_has_a_time_and_then_the_next_one_begins() -> None:
    check = a_check(escalatingRemediations=LADDER)
    first = a_remediation("n1", created=T0 - MINUTE)
    told = ahead(the_cluster(check, ILL, *WELL, foos=[first]))
    begins = "remediation with BarRemediationTemplate ns/bar begins"
    assert told == Outlook(f"if the node is not healthy by then, {begins}", T0 + 4 * MINUTE)
    timed_out = ahead(the_cluster(check, ILL, *WELL, foos=[a_remediation("n1", created=T0 - 6 * MINUTE)]))
    assert timed_out == Outlook(begins)
    second = a_remediation("n1", created=T0 - MINUTE, template="bar")
    failed = {"Processing": "False", "Succeeded": "False"}  # the first: the second is still at work
    old = a_remediation("n1", annotations={medik8s.TIMED_OUT: "2030-01-01T00:00:00Z"}, conditions=failed)
    told = ahead(the_cluster(check, ILL, *WELL, foos=[old], bars=[second]))
    assert told == Outlook("if the node is not healthy by then, a person has to look", T0 + 9 * MINUTE)


def test_a_next_step_that_would_be_held_back_says_so() -> None:
    check = a_check(escalatingRemediations=LADDER)
    first = a_remediation("n1", created=T0 - MINUTE)
    told = ahead(the_cluster(check, ILL, *WELL, foos=[first], config={"defib-brake": {"reason": "storage"}}))
    assert told.message.endswith(
        "remediation with BarRemediationTemplate ns/bar is held back: the brake is on: storage"
    )
    threshold = a_check(escalatingRemediations=LADDER, minHealthy=4)
    told = ahead(the_cluster(threshold, ILL, *WELL, foos=[first]))
    assert told.message.endswith("remediation with BarRemediationTemplate ns/bar begins")


def test_when_every_step_has_been_tried_a_person_is_asked() -> None:
    over = a_remediation("n1", annotations={medik8s.TIMED_OUT: "2030-01-01T00:00:00Z"})
    told = ahead(the_cluster(a_check(), ILL, *WELL, foos=[over]))
    assert told.message == "a person has to mend the node; its remediations are removed when it is healthy again"


def test_a_remediation_that_is_being_deleted_makes_room_for_a_new_one() -> None:
    told = ahead(the_cluster(a_check(), ILL, *WELL, foos=[a_remediation("n1", deleting=True)]))
    assert told.message == "when the old one is gone, remediation with FooRemediationTemplate ns/foo begins"


def test_a_node_that_was_relabelled_keeps_its_remediation_for_now() -> None:
    check = a_check(selector={"matchLabels": {"zone": "b"}})
    told = ahead(the_cluster(check, ILL, *WELL, foos=[a_remediation("n1")]))
    assert told.message == "its remediation is removed when the node is healthy again"


def test_of_a_recovering_node_it_is_told_when_its_remediation_goes() -> None:
    marked = a_remediation("n2", annotations={medik8s.HEALTHY_DELAY: "2030-01-01T00:00:00Z"})
    told = ahead(the_cluster(a_check(healthyDelay="5m"), *WELL, foos=[marked], now=T0 + MINUTE), "n2")
    assert told == Outlook("its remediation is removed", T0 + timedelta(minutes=5))
    at_once = ahead(the_cluster(a_check(), *WELL, foos=[marked]), "n2")
    assert at_once.message == "nothing: when its remediation is gone, the node counts as healthy"
    by_hand = ahead(the_cluster(a_check(healthyDelay="-1s"), *WELL, foos=[marked]), "n2")
    assert f"kubectl annotate node n2 {medik8s.CONFIRMED_HEALTHY}=true" in by_hand.message
    observed = ahead(the_cluster(a_check(mode="Observe"), *WELL, foos=[marked]), "n2")
    assert observed.message == OPENERS["ModeObserve"]
    gone = ahead(the_cluster(a_check(), *WELL, foos=[a_remediation("n9")]), "n9")
    assert gone.message == "nothing: when its remediation is gone, nothing is left of the node"


def test_of_a_node_that_no_check_selects_it_is_told_that_nothing_ever_comes() -> None:
    cluster = the_cluster(a_check(selector={"matchLabels": {"zone": "b"}}), *WELL)
    assert ahead(cluster, "n2").message == "nothing: whatever happens to the node, it is not remediated"


def test_a_check_that_makes_no_sense_has_to_be_corrected() -> None:
    cluster = the_cluster(a_check(maxUnhealthy="many"), *WELL)
    plan = plan_of(cluster)
    first, _ = explain("n2", cluster, plan)
    assert outlook(first, cluster, plan).message.endswith("kubectl edit nodehealthcheck workers")


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        (LEFT_TO_ANOTHER, "nothing, while the MachineHealthCheck is there"),
        ("SomethingNew", "the operator decides in its next pass"),
    ],
)
def test_of_a_node_that_is_left_alone_without_a_gate_no_gate_is_named(reason: str, message: str) -> None:
    cluster = the_cluster(a_check(), ILL, *WELL)
    verdict = Verdict(node="n1", check="workers", state=State.UNHEALTHY, reason=reason, message="")
    assert outlook(verdict, cluster, plan_of(cluster)) == Outlook(message)


def test_while_kinds_are_looked_for_nothing_is_promised() -> None:
    told = ahead(the_cluster(a_check(), ILL, *WELL, kinds={}))
    assert told.message == "it is decided when the kinds that the check names have been found"

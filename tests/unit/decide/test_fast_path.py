"""When a fast path that is asked for is taken, and what is said where it is not. How it goes: tests/flows/test_fast_path.py."""

from itertools import chain, combinations
from typing import Any

import pytest

from defib.decide.answers.node import answer_about
from defib.decide.fast_path import why_not_taken
from defib.decide.plan import Plan, decide
from defib.decide.reading import read_check
from defib.decide.rules import Rules
from defib.model import medik8s
from defib.model.action import WriteStatus
from defib.model.cluster import Cluster, Served
from defib.model.health_check import Check, NodeHealthCheck
from defib.model.incident import Grade
from defib.model.meta import Unstructured
from defib.model.power_cycle import REMEDIATION, TEMPLATE
from tests.builders import T0, a_node
from tests.unit.decide.checks import KINDS, a_check, a_template, template_ref

POWER = {"driver": "redfish", "address": "https://{node}.bmc"}
CHOICES = [*chain.from_iterable(combinations(Grade, many) for many in range(1, len(Grade) + 1))]
TOO_WEAK = (
    "PowerCycleRemediationTemplate ns/foo also accepts proofs of grade C, and the fast path asks for A or D; "
    "take C out of its acceptedProofs, or add it to fastPath.proof"
)


def a_power_template(**spec: Any) -> Unstructured:
    return a_template(spec={"template": {"spec": {"power": POWER, **spec}}})


def a_fast_check(path: Any, **more: Any) -> NodeHealthCheck:
    wish = {"fastPath": path} if path is not None else {}
    return a_check(remediationTemplate=template_ref(kind=TEMPLATE), **wish, **more)


def why_not(path: dict[str, Any], template: Unstructured | None) -> str:
    check = read_check(a_fast_check(path))
    assert isinstance(check, Check)
    return why_not_taken(check, lambda _: template)


def looked_at(check: NodeHealthCheck, template: Unstructured) -> tuple[Cluster, Plan]:
    cluster = Cluster(
        now=T0,
        nodes={"n1": a_node("n1")},
        others={medik8s.CHECKS: {check.name: check}, "pcrts": {template.key: template}, "pcrs": {}},
        kinds=KINDS | {TEMPLATE: Served("pcrts", namespaced=True), REMEDIATION: Served("pcrs", namespaced=True)},
    )
    return cluster, decide(cluster, Rules())


def said(check: NodeHealthCheck, template: Unstructured) -> tuple[str, str, str]:
    """What its status says of the fast path."""
    _, plan = looked_at(check, template)
    (write,) = [action for action in plan.actions if isinstance(action, WriteStatus)]
    (found,) = [one for one in write.status["conditions"] if one["type"] == "FastPath"]
    return found["status"], found["reason"], found["message"]


@pytest.mark.parametrize("accepts", CHOICES, ids=" ".join)
def test_it_is_taken_only_where_workloads_are_freed_by_nothing_less_than_it_asks_for(
    accepts: tuple[Grade, ...],
) -> None:
    template = a_power_template(acceptedProofs=[*accepts])
    for proof in CHOICES:
        assert (why_not({"proof": [*proof]}, template) == "") == (set(accepts) <= set(proof)), proof


def test_by_itself_it_goes_with_a_template_that_says_nothing_and_with_none_that_waits_for_time_to_pass() -> None:
    assert why_not({}, a_power_template()) == ""
    assert why_not({}, a_power_template(acceptedProofs=["A"])) == ""
    assert why_not({}, a_power_template(acceptedProofs=["A", "C"])) == TOO_WEAK


def test_a_template_that_makes_no_sense_is_trusted_with_nothing() -> None:
    assert why_not({}, a_power_template(acceptedProofs=["Z"])).startswith(
        "PowerCycleRemediationTemplate ns/foo makes no sense, so nobody knows what it takes for a proof: "
    )


def test_a_template_that_is_not_there_stops_the_whole_check_which_says_so_itself() -> None:
    assert why_not({}, None) == ""


def test_only_the_first_template_counts() -> None:
    """Those after it come when the first has had its time: nobody is in a hurry by then."""
    steps = [
        {"remediationTemplate": template_ref(name, TEMPLATE), "order": order, "timeout": "5m"}
        for order, name in enumerate(("foo", "bar"))
    ]
    check = read_check(a_check(escalatingRemediations=steps, fastPath={}))
    assert isinstance(check, Check)
    templates = {"ns/foo": a_power_template(), "ns/bar": a_power_template(acceptedProofs=["C"])}
    assert why_not_taken(check, lambda ref: templates[ref.key]) == ""


def test_the_status_says_whether_it_is_taken_and_what_to_change() -> None:
    assert said(a_fast_check({}), a_power_template()) == (
        "True",
        "Taken",
        "a node that falls silent is asked after at once",
    )
    weak = said(a_fast_check({}), a_power_template(acceptedProofs=["A", "C"]))
    assert weak == ("False", "ProofNotEnough", f"not taken, so nodes go the usual way: {TOO_WEAK}")


def test_a_check_that_never_asked_for_one_says_nothing_of_it_and_one_that_did_takes_it_back() -> None:
    _, plan = looked_at(a_fast_check(None), a_power_template())
    assert all(status.condition("FastPath") is None for status in (one.status for one in plan.checks.values()))
    before = {"conditions": [{"type": "FastPath", "status": "True", "reason": "Taken"}]}
    assert said(a_fast_check(None, status=before), a_power_template())[:2] == ("False", "NotAskedFor")


def test_whoever_asks_why_about_a_node_hears_that_its_check_is_slow() -> None:
    cluster, plan = looked_at(a_fast_check({}), a_power_template(acceptedProofs=["A", "C"]))
    answer = answer_about("n1", cluster, plan, "defib-system")
    assert answer is not None
    assert [check.no_fast_path for check in answer.checks] == [TOO_WEAK]

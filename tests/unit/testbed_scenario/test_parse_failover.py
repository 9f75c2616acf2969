"""What a story says about PodFailoverPolicies is read as it is written, and becomes what Defib reads."""

from typing import Any

import pytest

from testbed.scenario.conditions import Always, Now, Within
from testbed.scenario.deeds import Taint, TaintOutOfService, Untaint
from testbed.scenario.errors import StoryError
from testbed.scenario.failover_conditions import (
    PolicyIs,
    PolicyLists,
    PolicyMoved,
    PolicyProofs,
    PolicySays,
    PolicyWaits,
    Standing,
)
from testbed.scenario.parse import parse
from testbed.scenario.remediation_deeds import DeletePolicy, EditPolicy
from testbed.scenario.remediation_manifests import POLICIES, remediation_manifests
from testbed.scenario.story import (
    Dwell,
    FailoverTemplate,
    FailoverTemplateName,
    Field,
    ForWorkload,
    NamedNode,
    NewName,
    Pair,
    Phrase,
    Policy,
    PolicyName,
    Text,
    Word,
    WorkloadName,
)

HEADER = "nodes n1 n2\ndeployment web replicas 2\noperator\npolicy shop for web\n"
SHOP = PolicyName("shop")
N1 = NamedNode("n1")


def step(text: str) -> Phrase:
    return parse(f"{HEADER}{text}\n").steps[-1].does


def refusal(text: str) -> str:
    with pytest.raises(StoryError) as refused:
        parse(f"{HEADER}{text}\nwait 1s")
    return str(refused.value)


def made_of(line: str) -> dict[str, Any]:
    (made,) = remediation_manifests(parse(f"nodes n1\ndeployment web replicas 2\noperator\n{line}\nwait 1s"))
    body: dict[str, Any] = made.body
    return body


def test_a_policy_is_for_a_workload_and_can_say_how() -> None:
    line = "policy shop for web dwell 1m30s acceptedProofs=[None] deletion.mode=Force"
    assert parse(f"nodes n1\ndeployment web replicas 2\noperator\n{line}\nwait 1s").policies == (
        Policy(
            name=NewName("shop"),
            parts=(
                ForWorkload(workload=WorkloadName("web")),
                Dwell(seconds=90),
                Field(field=Pair("acceptedProofs", "[None]")),
                Field(field=Pair("deletion.mode", "Force")),
            ),
        ),
    )
    assert made_of(line) == {
        "metadata": {"name": "shop"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "dwell": "90s",
            "acceptedProofs": ["None"],
            "deletion": {"mode": "Force"},
        },
    }


def test_a_policy_for_nobody_in_particular_is_for_all_pods() -> None:
    assert made_of("policy all dwell 0s")["spec"] == {"selector": {}, "dwell": "0s"}


def test_a_policy_comes_after_the_templates_and_checks_in_the_namespace_of_the_story() -> None:
    story = parse(f"{HEADER}template failover\ncheck workers after 2s with failover\nwait 1s")
    assert [made.kind.name for made in remediation_manifests(story)] == [
        "PodFailoverRemediationTemplate",
        "NodeHealthCheck",
        "PodFailoverPolicy",
    ]
    assert POLICIES.namespaced


def test_a_template_for_failover_can_say_how() -> None:
    line = "template failover-slow acceptedProofs=[A,D] deletion.gracePeriodSeconds=9"
    (template,) = parse(f"{HEADER}{line}\nwait 1s").templates
    assert template == FailoverTemplate(
        name=FailoverTemplateName("failover-slow"),
        parts=(
            Field(field=Pair("acceptedProofs", "[A,D]")),
            Field(field=Pair("deletion.gracePeriodSeconds", "9")),
        ),
    )
    assert made_of(line)["spec"]["template"]["spec"] == {
        "acceptedProofs": ["A", "D"],
        "deletion": {"gracePeriodSeconds": 9},
    }


@pytest.mark.parametrize(
    ("text", "deed"),
    [
        ("edit policy shop dwell 3s", EditPolicy(policy=SHOP, parts=(Dwell(seconds=3),))),
        ("delete policy shop", DeletePolicy(policy=SHOP)),
        ("taint n1 with example.com/drain=NoSchedule", Taint(node=N1, taint=Pair("example.com/drain", "NoSchedule"))),
        ("untaint n1 from example.com/drain", Untaint(node=N1, key=Word("example.com/drain"))),
        ("taint n1 out-of-service", TaintOutOfService(node=N1)),
    ],
)
def test_deeds(text: str, deed: Phrase) -> None:
    assert step(text) == deed


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("policy shop WaitingForProof", PolicyIs(policy=SHOP, standing=Standing.WAITING)),
        ("policy shop moved", PolicyIs(policy=SHOP, standing=Standing.MOVED)),
        ("policy shop moved 3", PolicyMoved(policy=SHOP, count=3)),
        ("policy shop waiting 1", PolicyWaits(policy=SHOP, count=1)),
        ("policy shop lists n1", PolicyLists(policy=SHOP, node=N1)),
        ('policy shop says "at most 2"', PolicySays(policy=SHOP, text=Text("at most 2"))),
        ('policy shop proofs "A or B"', PolicyProofs(policy=SHOP, text=Text("A or B"))),
    ],
)
def test_expectations(text: str, condition: Phrase) -> None:
    assert step(f"expect {text}") == Now(condition=condition)
    assert step(f"expect {text} within 3s") == Within(condition=condition, seconds=3)
    assert step(f"expect always {text} for 30s") == Always(condition=condition, seconds=30)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("policy other for wbe", "this story has no workload `wbe`; did you mean `web`?"),
        ("policy shop dwell 1s", "`policy shop` is declared twice"),
        ("policy other dwell soon", "a time such as 5s or 1m30s after `policy other dwell`"),
        ("template failover attempts 2", "after `template failover`, found `attempts`"),
        ("expect policy shp Moved", "this story has no policy `shp`; did you mean `shop`?"),
        ("delete policy other", "this story has no policy `other`"),
        ("expect policy shop WaitingForProf", "did you mean `WaitingForProof`?"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, why: str) -> None:
    assert why in refusal(text)


@pytest.mark.parametrize("text", ["policy all dwell 0s", "template failover acceptedProofs=[D]"])
def test_without_an_operator_nobody_reads_a_policy(text: str) -> None:
    with pytest.raises(StoryError, match="expected a line `operator` in the header"):
        parse(f"nodes n1\n{text}\nwait 1s")

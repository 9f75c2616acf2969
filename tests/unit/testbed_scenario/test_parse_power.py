"""What a story says about machines, their BMCs and power cycles is read as it is written."""

from typing import Any

import pytest

from defib.model.incident import Grade
from defib.model.incident import Phase as IncidentPhase
from testbed.scenario.conditions import Never, Now, Within
from testbed.scenario.errors import StoryError
from testbed.scenario.parse import parse
from testbed.scenario.power_conditions import (
    IncidentAttempt,
    IncidentIs,
    IncidentSays,
    MachineIs,
    NoTrace,
    Proved,
    ProvedAs,
)
from testbed.scenario.power_deeds import (
    Babbles,
    ConfirmOff,
    Dawdles,
    HangsUp,
    Ignores,
    IsWell,
    Lies,
    Refuses,
    Vanishes,
)
from testbed.scenario.remediation_deeds import CreateRemediation, Switch
from testbed.scenario.remediation_manifests import remediation_manifests
from testbed.scenario.story import (
    Attempts,
    Backoff,
    DeletesNode,
    NamedNode,
    NodeOf,
    Pair,
    Phrase,
    PodName,
    PowerField,
    PowerTemplate,
    PowerTemplateName,
    TemplateName,
    Text,
    Word,
)

HEADER = "nodes n1 n2\npod db\noperator\ntemplate power\n"
N1 = NamedNode("n1")


def step(text: str) -> Phrase:
    return parse(f"{HEADER}{text}\n").steps[-1].does


def refusal(text: str) -> str:
    with pytest.raises(StoryError) as refused:
        parse(f"nodes n1\noperator\n{text}\nwait 1s")
    return str(refused.value)


def spec_of(template: str) -> dict[str, Any]:
    (made,) = remediation_manifests(parse(f"nodes n1\noperator\n{template}\nwait 1s"))
    spec: dict[str, Any] = made.body["spec"]["template"]["spec"]
    return spec


def test_a_template_for_power_can_say_how() -> None:
    text = "template power-rough deletes-node attempts 2 backoff 5s timeouts.powerOff=20s"
    assert parse(f"nodes n1\noperator\n{text}\nwait 1s").templates == (
        PowerTemplate(
            name=PowerTemplateName("power-rough"),
            parts=(
                DeletesNode(),
                Attempts(count=2),
                Backoff(seconds=5),
                PowerField(field=Pair("timeouts.powerOff", "20s")),
            ),
        ),
    )
    spec = spec_of(text)
    assert (spec["workloads"], spec["attempts"], spec["backoff"]) == ("DeleteNode", 2, "5s")
    assert spec["timeouts"] == {"powerOff": "20s"}


def test_every_machine_is_reached_under_its_own_name_with_its_own_secret() -> None:
    assert spec_of("template power") == {
        "power": {"driver": "hollow", "address": "{node}", "credentials": {"name": "bmc-{node}"}}
    }
    assert spec_of("template power power.driver=manual")["power"]["driver"] == "manual"
    assert spec_of("template failover") == {}


@pytest.mark.parametrize(
    ("text", "deed"),
    [
        ("bmc of n1 refuses", Refuses(node=N1)),
        ("bmc of n1 vanishes", Vanishes(node=N1)),
        ("bmc of node of db hangs", HangsUp(node=NodeOf(PodName("db")))),
        ("bmc of n1 answers after 3s", Dawdles(node=N1, seconds=3)),
        ("bmc of n1 answers garbage", Babbles(node=N1)),
        ("bmc of n1 lies off", Lies(node=N1, power=Switch.OFF)),
        ("bmc of n1 ignores 2 commands", Ignores(node=N1, count=2)),
        ("bmc of n1 is well", IsWell(node=N1)),
        ("confirm n1 off by anna", ConfirmOff(node=N1, who=Word("anna"))),
        ("create remediation of n1 by power", CreateRemediation(node=N1, template=TemplateName("power"))),
    ],
)
def test_deeds(text: str, deed: Phrase) -> None:
    assert step(text) == deed


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("incident n1 PoweringOff", IncidentIs(node=N1, phase=IncidentPhase.POWERING_OFF)),
        (
            'incident n1 needsperson says "no proof"',
            IncidentSays(node=N1, phase=IncidentPhase.NEEDS_PERSON, text=Text("no proof")),
        ),
        ("incident n1 attempt 2", IncidentAttempt(node=N1, count=2)),
        ("proof n1", Proved(node=N1)),
        ("proof n1 A", ProvedAs(node=N1, grade=Grade.POWER)),
        ("machine n1 off", MachineIs(node=N1, power=Switch.OFF)),
        ("no trace on n1", NoTrace(node=N1)),
    ],
)
def test_expectations(text: str, condition: Phrase) -> None:
    assert step(f"expect {text}") == Now(condition=condition)
    assert step(f"expect {text} within 3s") == Within(condition=condition, seconds=3)
    assert step(f"expect never {text} for 30s") == Never(condition=condition, seconds=30)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("template foo deletes-node", "`template foo`, found `deletes-node`"),
        ("template power attempts many", "expected a number after `template power attempts`"),
        ("template power deletes-nod", "did you mean `deletes-node`?"),
        ("template power\ntemplate power attempts 2", "`template power` is declared twice"),
        ("bmc of n1 sulks", "after `bmc of n1`, found `sulks`"),
        ("bmc of n2 hangs", "this story has no node `n2`"),
        ("expect incident n1 Powering", "did you mean `PoweringO"),
        ("expect proof n1 E", "one of A, B, C, D after `expect proof n1`"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, why: str) -> None:
    assert why in refusal(text)


@pytest.mark.parametrize("text", ["bmc of n1 hangs", "expect machine n1 on", "template power attempts 2"])
def test_without_an_operator_nobody_speaks_to_a_bmc(text: str) -> None:
    with pytest.raises(StoryError, match="expected a line `operator` in the header"):
        parse(f"nodes n1\n{text}\nwait 1s")

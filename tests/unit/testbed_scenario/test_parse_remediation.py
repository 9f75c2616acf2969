"""What a story says about checks, remediators and Defib itself is read as it is written."""

import pytest

from defib.model.health_check import Mode
from testbed.scenario.conditions import (
    CheckCondition,
    CheckCounts,
    CheckIs,
    CheckLists,
    CheckListsSo,
    CheckPhase,
    CheckSays,
    EventSays,
    EventsSeen,
    LockFree,
    LockHeld,
    Never,
    NotRemediated,
    Now,
    Remediated,
    RemediatedBy,
    Remediations,
    RemediationsOf,
    RemediationsSoFar,
    RemediationTimedOut,
    Within,
)
from testbed.scenario.deeds import Annotate, Label, Report
from testbed.scenario.errors import StoryError
from testbed.scenario.parse import parse
from testbed.scenario.remediation_deeds import (
    AnnotateCheck,
    Brake,
    CreateTemplate,
    DeleteCrd,
    EditCheck,
    Finish,
    LetGo,
    RestartOperator,
    Switch,
    TakeLock,
)
from testbed.scenario.replica import settings_of
from testbed.scenario.story import (
    After,
    Amount,
    AtMostUnhealthy,
    Check,
    CheckName,
    Chosen,
    Escalates,
    Field,
    InMode,
    NamedNode,
    NewName,
    NodeRole,
    NodesWithRole,
    Operator,
    OperatorSetting,
    OperatorWith,
    Pair,
    Phrase,
    Remediator,
    Selects,
    Template,
    TemplateName,
    Text,
    Then,
    Truth,
    With,
    Word,
)

HEADER = "nodes n1 n2\noperator\ntemplate foo\ncheck workers after 5s with foo\n"
FOO, WORKERS, N1 = TemplateName("foo"), CheckName("workers"), NamedNode("n1")


def step(text: str) -> Phrase:
    return parse(f"{HEADER}{text}\n").steps[-1].does


def refusal(text: str) -> str:
    with pytest.raises(StoryError) as refused:
        parse(text)
    return str(refused.value)


def test_the_header_says_what_defib_looks_after() -> None:
    story = parse(
        """
        nodes n1 n2
        nodes cp1 cp2 as control-plane
        operator with resync 30s brake on
        openshift
        template foo-gentle multiple
        template bar broken
        check workers selects all max-unhealthy 49% after 5s with foo mode observe guards.maxInFlight=1
        check ladder escalates foo 60s then bar 1m30s
        wait 1s
        """
    )
    assert story.nodes[1] == NodesWithRole(names=(NewName("cp1"), NewName("cp2")), role=NodeRole.CONTROL_PLANE)
    assert story.is_openshift
    assert story.operator == OperatorWith(
        settings=(
            OperatorSetting(key=Word("resync"), value=Word("30s")),
            OperatorSetting(key=Word("brake"), value=Word("on")),
        )
    )
    assert story.templates == (
        Template(name=TemplateName("foo-gentle"), multiple=True, broken=False),
        Template(name=TemplateName("bar"), multiple=False, broken=True),
    )
    assert story.checks == (
        Check(
            name=NewName("workers"),
            parts=(
                Selects(nodes=Chosen("all")),
                AtMostUnhealthy(amount=Amount("49%")),
                After(seconds=5),
                With(template=FOO),
                InMode(mode=Mode.OBSERVE),
                Field(field=Pair("guards.maxInFlight", "1")),
            ),
        ),
        Check(
            name=NewName("ladder"),
            parts=(Escalates(template=FOO, seconds=60), Then(template=TemplateName("bar"), seconds=90)),
        ),
    )


def test_settings_of_the_operator_are_those_of_defib_and_no_check_is_made_by_default() -> None:
    operator = parse("nodes n1\noperator with resync 30s\nwait 1s").operator
    assert operator is not None
    settings = settings_of(operator)
    assert (settings.resync_seconds, settings.default_check) == (30, "off")
    assert settings_of(Operator()).default_check == "off"


@pytest.mark.parametrize(
    ("text", "deed"),
    [
        ("report Ready False on n1", Report(condition=Word("Ready"), status=Truth.FALSE, node=N1)),
        ("label n1 a.b/c-d=e", Label(node=N1, label=Pair("a.b/c-d", "e"))),
        ("label n1 a=", Label(node=N1, label=Pair("a", ""))),
        ("annotate n1 a=b=c", Annotate(node=N1, annotation=Pair("a", "b=c"))),
        ("annotate check workers a=b", AnnotateCheck(check=WORKERS, annotation=Pair("a", "b"))),
        ("remediator foo finishes n1", Finish(template=FOO, node=N1)),
        ("remediator foo-gentle lets go n1", LetGo(template=TemplateName("foo-gentle"), node=N1)),
        ("create template foo broken", CreateTemplate(template=FOO, multiple=False, broken=True)),
        ("delete crd bar", DeleteCrd(remediator=Remediator.BAR)),
        ("edit check workers after 7s", EditCheck(check=WORKERS, parts=(After(seconds=7),))),
        ("lock n1 held by node-maintenance for 1h", TakeLock(node=N1, holder=Word("node-maintenance"), seconds=3600)),
        ("brake on", Brake(switch=Switch.ON)),
        ("restart operator", RestartOperator()),
    ],
)
def test_deeds(text: str, deed: Phrase) -> None:
    assert step(text) == deed


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("remediation of n1", Remediated(node=N1)),
        ("no remediation of n1", NotRemediated(node=N1)),
        ("remediation of n1 by foo", RemediatedBy(node=N1, template=FOO)),
        ("remediation of n1 by foo timed out", RemediationTimedOut(node=N1, template=FOO)),
        ("remediations 2", Remediations(count=2)),
        ("remediations of n1 2", RemediationsOf(node=N1, count=2)),
        ("remediations of n1 so far 2", RemediationsSoFar(node=N1, count=2)),
        ("check workers remediating", CheckIs(check=WORKERS, phase=CheckPhase.REMEDIATING)),
        ("check workers healthy 2 of 3", CheckCounts(check=WORKERS, healthy=2, observed=3)),
        ('check workers says "at  least 2"', CheckSays(check=WORKERS, text=Text("at least 2"))),
        ("check workers lists n1", CheckLists(check=WORKERS, node=N1)),
        ("check workers lists 1 nodes", CheckListsSo(check=WORKERS, count=1)),
        (
            "condition StormActive of check workers True",
            CheckCondition(kind=Word("StormActive"), check=WORKERS, status=Truth.TRUE),
        ),
        ("lock n1 held by someone", LockHeld(node=N1, holder=Word("someone"))),
        ("lock n1 free", LockFree(node=N1)),
        ("event Enabled times 1", EventsSeen(reason=Word("Enabled"), count=1)),
        ('event Enabled says "n1"', EventSays(reason=Word("Enabled"), text=Text("n1"))),
    ],
)
def test_expectations(text: str, condition: Phrase) -> None:
    assert step(f"expect {text}") == Now(condition=condition)
    assert step(f"expect {text} within 3s") == Within(condition=condition, seconds=3)
    assert step(f"expect never {text} for 30s") == Never(condition=condition, seconds=30)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("check w max-unhealthy many", "expected a number or a share such as 49% after `check w max-unhealthy`"),
        ("check w after 5s wth foo", "after `check w after 5s`, found `wth`; did you mean `with`?"),
        ("check w after 5s with", "after `check w after 5s with`, found the end of the line"),
        ("check w", "found the end of the line"),
        ("check w with baz", "expected a template (foo, bar, power, failover, or one of theirs such as foo-gentle)"),
        ("check w selects zone-b", "this story has no zone `zone-b`"),
        ("check workers after 5s\ncheck workers after 6s", "`check workers` is declared twice"),
        ("template foo\ntemplate foo", "`template foo` is declared twice"),
        ("pause check worker", "this story has no check `worker`"),
        ('expect check workers says "never ends', "expected words between quotation marks"),
        ("operator", "`operator` is declared twice"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, why: str) -> None:
    assert why in refusal(f"nodes n1\noperator\n{text}\nwait 1s")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("operator with resnc 30s", "there is no setting `resnc`; did you mean `resync`?"),
        ("operator with resync soon", "is not a duration"),
        ("operator with resync", "found the end of the line"),
        ("template foo", "expected a line `operator` in the header"),
        ("brake on", "expected a line `operator` in the header"),
        ("expect no remediation of n1", "expected a line `operator` in the header"),
    ],
)
def test_without_an_operator_that_can_start_there_is_nobody_to_look_after_checks(text: str, why: str) -> None:
    assert why in refusal(f"nodes n1\n{text}\nwait 1s")

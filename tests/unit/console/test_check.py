"""Files are checked by the schemas and by the operator's rules, and every problem has its place."""

from pathlib import Path

import pytest

from defib.console.check import Checked, check_files, problems_of
from defib.console.session import NotDone
from defib.decide.rules import FailoverRules
from tests.offline_corpus import BAD, GOOD, IS_UNKNOWN

RULES = FailoverRules()
CHECK = """apiVersion: remediation.medik8s.io/v1alpha1
kind: NodeHealthCheck
metadata:
  name: workers
spec:
  remediationTemplate:
    apiVersion: defib.dev/v1alpha1
    kind: PodFailoverRemediationTemplate
    namespace: defib-system
    name: defib-pod-failover
"""


def checked(folder: Path, text: str) -> Checked:
    path = folder / "f.yaml"
    path.write_text(text)
    return check_files([str(path)], RULES)


def found(folder: Path, text: str) -> list[tuple[int, str, str]]:
    return [(one.line, one.field, one.message) for one in checked(folder, text).problems]


def test_what_makes_sense_has_no_problem_but_fields_that_nobody_knows() -> None:
    told = {sample.name: problems_of(sample.body, RULES) for sample in GOOD}
    assert {name for name, problems in told.items() if problems} == {one.name for one in GOOD if IS_UNKNOWN in one.name}
    assert {said for problems in told.values() for _, said in problems} == {"is no field of this kind"}


def test_everything_that_is_wrong_is_found_and_named() -> None:
    told = [(sample, "\n".join(": ".join(one) for one in problems_of(sample.body, RULES))) for sample in BAD]
    assert [sample.name for sample, said in told if sample.field not in said or not said] == []


def test_a_problem_has_the_line_of_its_field(tmp_path: Path) -> None:
    text = (
        CHECK
        + "  minHealthy: 51%\n  unhealthyConditions:\n    - type: Ready\n      duration: 5 minutes\n  gaurds: {}\n"
    )
    assert found(tmp_path, text) == [
        (13, "spec.unhealthyConditions[0].status", "must be given"),
        (14, "spec.unhealthyConditions[0].duration", "'5 minutes' is not a duration; write it like 300s, 5m or 1h30m"),
        (15, "spec.gaurds", "is no field of this kind"),
    ]


def test_a_problem_is_told_once_and_in_plain_words(tmp_path: Path) -> None:
    ((line, field, message),) = found(tmp_path, CHECK + "  mode: Sometimes\n")
    assert (line, field) == (11, "spec.mode")
    assert message == "must be one of Automatic, Approve, Observe, not 'Sometimes'"


def test_documents_and_lists_are_looked_through(tmp_path: Path) -> None:
    inner = "\n".join(f"    {line}" for line in CHECK.splitlines()).replace(
        "    apiVersion: rem", "  - apiVersion: rem"
    )
    text = f"---\n{CHECK}---\n# nothing\n---\napiVersion: v1\nkind: List\nitems:\n{inner}\n      mode: x\n"
    told = checked(tmp_path, text)
    assert (told.objects, [(one.document, one.line, one.name) for one in told.problems]) == (2, [(3, 28, "workers")])


def test_other_kinds_are_left_alone_and_told(tmp_path: Path) -> None:
    told = checked(tmp_path, CHECK + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n")
    assert (told.objects, told.skipped, told.problems) == (1, ("ConfigMap x",), ())


@pytest.mark.parametrize(
    ("head", "line", "field", "message"),
    [
        ("kind: NodeHealthCheck", 1, "apiVersion", "must be given"),
        ("apiVersion: defib.dev/v1alpha1", 1, "kind", "must be given"),
        (
            "apiVersion: defib.dev/v1\nkind: DrainPolicy",
            1,
            "apiVersion",
            "DrainPolicy is of defib.dev/v1alpha1, not of defib.dev/v1",
        ),
        (
            "apiVersion: defib.dev/v1alpha1\nkind: DrainPolicies",
            2,
            "kind",
            "there is no kind DrainPolicies in defib.dev/v1alpha1; did you mean DrainPolicy?",
        ),
        ("- a", 1, "", "this is no object; one begins with apiVersion and kind"),
    ],
)
def test_what_was_probably_meant_is_told(tmp_path: Path, head: str, line: int, field: str, message: str) -> None:
    assert found(tmp_path, head + "\n") == [(line, field, message)]


def test_names_and_namespaces_are_checked(tmp_path: Path) -> None:
    assert found(tmp_path, CHECK.replace("  name: workers", "  labels: {}")) == [(3, "metadata.name", "must be given")]
    ((line, field, _),) = found(tmp_path, CHECK.replace("workers", "Workers!"))
    assert (line, field) == (4, "metadata.name")
    text = CHECK.replace("  name: workers", "  name: workers\n  namespace: x")
    ((line, field, message),) = found(tmp_path, text)
    assert (line, field) == (5, "metadata.namespace")
    assert message == "must not be given: a NodeHealthCheck belongs to no namespace"
    assert found(tmp_path, CHECK.replace("  name: workers", "  generateName: w-")) == []
    ((_, field, _),) = found(tmp_path, CHECK.replace("  name: workers", "  name: [1]"))
    assert field == "metadata"


def test_a_key_that_stands_there_twice_is_told(tmp_path: Path) -> None:
    text = CHECK + "  mode: Approve\n  mode: Observe\n"
    assert found(tmp_path, text) == [(12, "mode", "stands there twice; only one of them can count")]


def test_what_is_no_yaml_has_a_line_too(tmp_path: Path) -> None:
    ((line, _, message),) = found(tmp_path, CHECK + "  x: [1\n  y: 2\n")
    assert line == 12
    assert message.startswith("this is no YAML: ")
    assert found(tmp_path, CHECK + "  x: \0\n")[0][2].startswith("this is no YAML: ")


def test_what_is_before_a_mistake_of_the_file_is_checked_all_the_same(tmp_path: Path) -> None:
    assert [line for line, _, _ in found(tmp_path, CHECK + "  mode: x\n---\na: [\n")] == [11, 14]


@pytest.mark.parametrize(
    "text",
    [
        (
            "a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n"
            "d: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e]\n"
        ),
        "a: &a [*a]\n",
        "[" * 100 + "]" * 100,
        "[" * 5000,
    ],
)
def test_a_file_that_means_more_than_it_says_ends_nothing(tmp_path: Path, text: str) -> None:
    ((_, _, message),) = found(tmp_path, text)
    assert "more parts than anybody could mean" in message or "nested too deeply" in message


def test_a_date_is_a_text_as_it_is_to_kubernetes(tmp_path: Path) -> None:
    assert found(tmp_path, CHECK + "  pauseRequests: [2026-01-01]\n") == []


def test_what_the_cluster_operator_does_not_allow_is_told(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        "apiVersion: defib.dev/v1alpha1\nkind: PodFailoverPolicy\nmetadata: {name: p}\n"
        "spec: {selector: {}, acceptedProofs: [None]}\n"
    )
    assert check_files([str(path)], RULES).problems == ()
    (problem,) = check_files([str(path)], FailoverRules(allowed_proofs=frozenset({"A"}))).problems
    assert problem.field.startswith("spec.acceptedProofs")


FAST = """---
apiVersion: remediation.medik8s.io/v1alpha1
kind: NodeHealthCheck
metadata: {name: fast}
spec:
  remediationTemplate: {apiVersion: defib.dev/v1alpha1, kind: PowerCycleRemediationTemplate, namespace: d, name: ipmi}
  fastPath: {}
"""
IPMI = """---
apiVersion: defib.dev/v1alpha1
kind: PowerCycleRemediationTemplate
metadata: {name: ipmi, namespace: NAMESPACE}
spec: {template: {spec: {power: {driver: ipmi}, acceptedProofs: [A, C]}}}
"""


def test_a_fast_path_is_held_against_its_template_where_both_are_there_in_whichever_file(tmp_path: Path) -> None:
    files = {"check.yaml": FAST, "template.yaml": IPMI.replace("NAMESPACE", "d")}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    told = check_files([str(tmp_path / name) for name in files], RULES)
    ((field, line, message),) = [(one.field, one.line, one.message) for one in told.problems]
    assert (field, line) == ("spec.fastPath", 7)
    assert message.startswith("is not taken: PowerCycleRemediationTemplate d/ipmi also accepts proofs of grade C")
    assert found(tmp_path, FAST + IPMI.replace("NAMESPACE", "other")) == [], "that is another one"
    assert found(tmp_path, FAST.replace("{}", "{proof: [A, C]}") + IPMI.replace("NAMESPACE", "d")) == []


@pytest.mark.parametrize("spec", ["null", "7", "[]", "{template: 7}", "{template: {spec: []}}"])
def test_a_template_that_makes_no_sense_ends_no_check_of_a_fast_path(tmp_path: Path, spec: str) -> None:
    broken = IPMI.replace("NAMESPACE", "d").partition("spec: ")[0] + f"spec: {spec}\n"
    assert checked(tmp_path, FAST + broken).objects == 2


def test_a_file_that_cannot_be_read_or_holds_nothing_of_ours_is_not_called_well(tmp_path: Path) -> None:
    with pytest.raises(NotDone, match="nope cannot be read: No such file or directory"):
        check_files([str(tmp_path / "nope")], RULES)
    (tmp_path / "b").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(NotDone, match="is no text"):
        check_files([str(tmp_path / "b")], RULES)
    with pytest.raises(NotDone, match="there is nothing to check: no object is of a kind that Defib knows"):
        checked(tmp_path, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n")

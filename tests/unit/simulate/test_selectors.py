"""Label and field selectors in all their forms."""

import pytest

from defib.simulate.kinds.builtin import CORE
from defib.simulate.refusals import Refusal
from defib.simulate.selectors import field_selector, label_selector, matches_selector
from defib.simulate.store import Object

NODES, PODS = CORE[0], CORE[1]


@pytest.mark.parametrize(
    ("text", "matching", "other"),
    [
        ("a=b", {"a": "b"}, {"a": "c"}),
        ("a==b", {"a": "b"}, {}),
        ("a!=b", {}, {"a": "b"}),
        ("a != b", {"a": "c"}, {"a": "b"}),
        ("a in (b, c)", {"a": "c"}, {"a": "d"}),
        ("a in (b,)", {"a": ""}, {}),
        ("a notin (b,c)", {}, {"a": "b"}),
        ("a", {"a": ""}, {"b": "a"}),
        ("!a", {"b": "a"}, {"a": "b"}),
        ("a=", {"a": ""}, {"a": "b"}),
        ("a>5", {"a": "6"}, {"a": "5"}),
        ("a<5", {"a": "4"}, {"a": "x"}),
        ("example.com/role=x,b", {"example.com/role": "x", "b": ""}, {"example.com/role": "x"}),
        ("a in (b),!c,d!=e", {"a": "b"}, {"a": "b", "c": ""}),
    ],
)
def test_a_label_selector_chooses(text: str, matching: dict[str, str], other: dict[str, str]) -> None:
    chosen = label_selector(text)
    assert chosen
    assert (chosen(matching), chosen(other)) == (True, False)


def test_an_empty_label_selector_chooses_everything() -> None:
    assert label_selector("  ") is None


@pytest.mark.parametrize("text", ["a b c", "a in b", "a in (b", "=b", "a=b c=d", "a > x"])
def test_a_label_selector_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        label_selector(text)
    assert refused.value.code == 400


def test_a_selector_object_needs_all_its_terms() -> None:
    selector = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}
    assert matches_selector(selector, {"a": "b", "c": ""})
    assert not matches_selector(selector, {"a": "b"})


@pytest.mark.parametrize(
    ("operator", "values", "matches"),
    [("In", ["b"], True), ("NotIn", ["b"], False), ("Exists", [], True), ("DoesNotExist", [], False)],
)
def test_a_selector_object_knows_four_operators(operator: str, values: list[str], matches: bool) -> None:
    selector = {"matchExpressions": [{"key": "a", "operator": operator, "values": values}]}
    assert matches_selector(selector, {"a": "b"}) is matches


def test_an_empty_selector_object_chooses_everything_and_none_nothing() -> None:
    assert matches_selector({}, {"a": "b"})
    assert not matches_selector(None, {"a": "b"})


def a_bound_pod(**status: str) -> Object:
    return {"metadata": {"name": "p", "namespace": "default"}, "spec": {"nodeName": "n1"}, "status": status}


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("spec.nodeName=n1", True),
        ("spec.nodeName==n2", False),
        ("status.phase!=Failed", True),
        ("metadata.name=p,metadata.namespace=default", True),
        ("metadata.name=p,spec.nodeName=n2", False),
        ("status.podIP=", True),
    ],
)
def test_a_field_selector_chooses(text: str, chosen: bool) -> None:
    test = field_selector(PODS, text)
    assert test
    assert test(a_bound_pod(phase="Running")) is chosen


def test_a_node_that_says_nothing_counts_as_schedulable() -> None:
    test = field_selector(NODES, "spec.unschedulable=false")
    assert test
    assert test({"metadata": {"name": "n"}, "spec": {}})
    assert not test({"metadata": {"name": "n"}, "spec": {"unschedulable": True}})


@pytest.mark.parametrize(
    ("text", "said"), [("spec.foo=x", "field label not supported: spec.foo"), ("spec", "can't understand 'spec'")]
)
def test_a_field_that_cannot_be_selected_by_is_refused(text: str, said: str) -> None:
    with pytest.raises(Refusal, match=said):
        field_selector(NODES, text)

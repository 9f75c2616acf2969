"""Which labels a selector means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from defib.model.selector import EVERYTHING, OPERATORS, Requirement, Selector

WORDS = st.sampled_from(["", "a", "b", "c"])
LABELS = st.dictionaries(WORDS, WORDS)
REQUIREMENTS = st.builds(Requirement, WORDS, st.sampled_from(OPERATORS), st.frozensets(WORDS))


def test_no_requirement_selects_everything() -> None:
    assert EVERYTHING.selects({})
    assert EVERYTHING.selects({"zone": "a"})


@pytest.mark.parametrize(
    ("operator", "values", "of_a", "of_empty", "of_none"),
    [
        ("In", {"a"}, True, False, False),
        ("In", {""}, False, True, False),
        ("NotIn", {"a"}, False, True, True),
        ("NotIn", {""}, True, False, True),
        ("Exists", set(), True, True, False),
        ("DoesNotExist", set(), False, False, True),
    ],
)
def test_each_operator_on_a_label_with_a_value_with_none_and_on_no_label(
    operator: str, values: set[str], of_a: bool, of_empty: bool, of_none: bool
) -> None:
    requirement = Requirement("zone", operator, frozenset(values))
    answers = [requirement.admits(labels) for labels in ({"zone": "a"}, {"zone": ""}, {"rack": "a"})]
    assert answers == [of_a, of_empty, of_none]


@given(requirements=st.lists(REQUIREMENTS, max_size=4), labels=LABELS)
def test_all_requirements_must_be_met(requirements: list[Requirement], labels: dict[str, str]) -> None:
    met = [requirement for requirement in requirements if Selector((requirement,)).selects(labels)]
    assert Selector(tuple(requirements)).selects(labels) == (met == requirements)


@pytest.mark.parametrize(("one", "other"), [("In", "NotIn"), ("Exists", "DoesNotExist")])
@given(key=WORDS, values=st.frozensets(WORDS), labels=LABELS)
def test_opposite_operators_never_agree(
    one: str, other: str, key: str, values: frozenset[str], labels: dict[str, str]
) -> None:
    assert Requirement(key, one, values).admits(labels) != Requirement(key, other, values).admits(labels)

"""The quick look at an object that is about to be stored: where it says yes, the thorough one has nothing to do."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from defib.simulate.schema.checks import problems
from defib.simulate.schema.fitting import is_whole
from defib.simulate.schema.structural import Schema, completed

META = {"metadata": {"name": "w"}}
NAMES = st.sampled_from(("a", "b"))
SINGLE = st.one_of(st.none(), st.booleans(), st.integers(-1, 3), st.sampled_from((0.5, "", "x", "xyz", "1%")))
VALUES = st.recursive(
    SINGLE, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=2), max_leaves=6
)
ABOUT_SINGLE = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(("string", "integer", "number", "boolean")),
        "description": st.just("said for people"),
        "nullable": st.booleans(),
        "default": SINGLE,
        "enum": st.just(["x", 1]),
        "maxLength": st.integers(0, 2),
        "minLength": st.integers(0, 2),
        "pattern": st.just("^x"),
        "format": st.just("date-time"),
        "minimum": st.integers(0, 2),
        "anyOf": st.just([{"type": "integer"}, {"type": "string"}]),
        "not": st.just({"enum": ["xyz"]}),
        "x-kubernetes-int-or-string": st.booleans(),
    },
)
LENGTHS = st.integers(0, 2)


def _about_many(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    lists = st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={
            "items": inner,
            "minItems": LENGTHS,
            "maxItems": LENGTHS,
            "x-kubernetes-list-type": st.just("set"),
        },
    )
    maps = st.fixed_dictionaries(
        {},
        optional={
            "type": st.just("object"),
            "properties": st.dictionaries(NAMES, inner, max_size=2),
            "additionalProperties": st.booleans() | inner,
            "required": st.lists(NAMES, max_size=1),
            "minProperties": LENGTHS,
            "maxProperties": LENGTHS,
            "nullable": st.booleans(),
            "oneOf": st.just([{"required": ["a"]}, {"required": ["b"]}]),
            "x-kubernetes-preserve-unknown-fields": st.booleans(),
            "x-kubernetes-embedded-resource": st.booleans(),
        },
    )
    return lists | maps


RULES = st.recursive(ABOUT_SINGLE, _about_many, max_leaves=6)


@given(RULES, VALUES)
def test_what_is_whole_is_neither_changed_nor_refused(rules: dict[str, Any], value: Any) -> None:
    schema = Schema({"type": "object", "properties": {"spec": rules}, "required": ["spec"]})
    proposed = {**META, "spec": value}
    if is_whole(schema, proposed):
        assert completed(schema, proposed) == proposed
        assert problems(schema, proposed) == []


CONDITION = {
    "type": "object",
    "required": ["type"],
    "properties": {
        "type": {"type": "string", "maxLength": 10},
        "status": {"type": "string", "enum": ["True", "False"]},
        "since": {"type": "string", "format": "date-time"},
    },
}
USUAL = Schema(
    {
        "type": "object",
        "required": ["metadata", "spec"],
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "mode": {"type": "string", "default": "Automatic"},
                    "limit": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                    "conditions": {
                        "type": "array",
                        "items": CONDITION,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["type"],
                    },
                },
            }
        },
    }
)
READY = {"type": "Ready", "status": "True", "since": "2030-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    "spec",
    [
        {"mode": "Approve"},
        {"mode": "Approve", "limit": "40%"},
        {"mode": "Approve", "limit": 1, "labels": {"any": "x"}},
        {"mode": "Approve", "conditions": [READY, {"type": "Other"}]},
    ],
)
def test_what_is_complete_and_right_is_known_at_the_first_look(spec: dict[str, Any]) -> None:
    assert is_whole(USUAL, {**META, "spec": spec})


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"mode": None},
        {"mode": 1},
        {"mode": "Approve", "unknown": 1},
        {"mode": "Approve", "limit": []},
        {"mode": "Approve", "labels": {"any": 1}},
        {"mode": "Approve", "conditions": [READY, READY]},
        {"mode": "Approve", "conditions": [{"status": "True"}]},
        {"mode": "Approve", "conditions": [{**READY, "status": "Maybe"}]},
        {"mode": "Approve", "conditions": [{**READY, "since": "today"}]},
        {"mode": "Approve", "conditions": [{**READY, "type": "longer than that"}]},
    ],
)
def test_what_lacks_something_or_is_wrong_is_looked_at_closer(spec: dict[str, Any]) -> None:
    assert not is_whole(USUAL, {**META, "spec": spec})

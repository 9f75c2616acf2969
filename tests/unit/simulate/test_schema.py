"""The structural schema of custom kinds: pruning, defaults, refusals."""

from typing import Any

import pytest

from defib.simulate.schema.checks import problems
from defib.simulate.schema.structural import Schema, completed, unknown_fields

META = {"metadata": {"name": "w"}}


def of(**spec: Any) -> Schema:
    return Schema({"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}})


def filled(schema: Schema, **spec: Any) -> Any:
    return completed(schema, {**META, "spec": spec})["spec"]


def complaints(schema: Schema, **spec: Any) -> list[str]:
    return [str(problem) for problem in problems(schema, {**META, "spec": spec})]


@pytest.mark.parametrize(
    ("rules", "given", "kept"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}}}, {"a": "x", "b": 1}, {"a": "x"}),
        ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"any": "x"}, {"any": "x"}),
        ({"type": "object", "additionalProperties": True}, {"any": 1}, {"any": 1}),
        ({"type": "array", "items": {"type": "object", "properties": {}}}, [{"a": 1}], [{}]),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True},
            {"kind": "K", "metadata": {"name": "n", "bad": 1}, "z": 1},
            {"kind": "K", "metadata": {"name": "n"}},
        ),
    ],
)
def test_unknown_fields_are_pruned_unless_the_schema_keeps_them(rules: Any, given: Any, kept: Any) -> None:
    assert filled(of(x=rules), x=given) == {"x": kept}


def test_the_pruned_fields_can_be_told() -> None:
    schema = of(a={"type": "object", "properties": {}})
    assert unknown_fields(schema, {**META, "spec": {"a": {"b": 1}, "c": 1}}) == ["spec.a.b", "spec.c"]


@pytest.mark.parametrize(
    ("rules", "given", "made"),
    [
        ({"type": "string", "default": "d"}, {}, {"x": "d"}),
        ({"type": "string", "default": "d"}, {"x": "mine"}, {"x": "mine"}),
        ({"type": "string", "default": "d"}, {"x": None}, {"x": "d"}),
        ({"type": "string", "nullable": True, "default": "d"}, {"x": None}, {"x": None}),
        ({"type": "string"}, {"x": None}, {}),
        ({"type": "object", "default": {}, "properties": {"y": {"default": 5}}}, {}, {"x": {"y": 5}}),
        ({"type": "object", "properties": {"y": {"default": 5}}}, {}, {}),
        (
            {"type": "array", "items": {"type": "object", "properties": {"y": {"default": 5}}}},
            {"x": [{}]},
            {"x": [{"y": 5}]},
        ),
    ],
)
def test_defaults_fill_what_is_missing(rules: Any, given: dict[str, Any], made: dict[str, Any]) -> None:
    assert filled(of(x=rules), **given) == made


@pytest.mark.parametrize(
    ("rules", "value", "said"),
    [
        ({"type": "integer"}, "a", 'must be of type integer: "string"'),
        ({"type": "integer"}, True, 'must be of type integer: "boolean"'),
        ({"type": "integer"}, 1.5, 'must be of type integer: "number"'),
        ({"type": "string"}, None, 'must be of type string: "null"'),
        ({"type": "object"}, [], 'must be of type object: "array"'),
        ({"x-kubernetes-int-or-string": True}, True, 'must be of type integer,string: "boolean"'),
        ({"type": "string", "enum": ["a", "b"]}, "c", 'supported values: "a", "b"'),
        ({"type": "string", "pattern": "^a"}, "b", "should match '^a'"),
        ({"type": "string", "maxLength": 2}, "abc", "Too long: may not be more than 2 bytes"),
        ({"type": "string", "minLength": 2}, "a", "should be at least 2 chars long"),
        ({"type": "string", "format": "date-time"}, "soon", "must be of type date-time"),
        ({"type": "integer", "minimum": 1}, 0, "should be greater than or equal to 1"),
        ({"type": "integer", "maximum": 1}, 2, "should be less than or equal to 1"),
        ({"type": "number", "maximum": 1, "exclusiveMaximum": True}, 1, "should be less than 1"),
        ({"type": "number", "minimum": 1, "exclusiveMinimum": True}, 1, "should be greater than 1"),
        ({"type": "integer", "multipleOf": 3}, 4, "should be a multiple of 3"),
        ({"type": "array", "maxItems": 1}, [1, 2], "must have at most 1 items"),
        ({"type": "array", "minItems": 1}, [], "should have at least 1 items"),
        ({"type": "array", "items": {"type": "string"}}, [1], "spec.x[0]: Invalid value"),
        ({"type": "array", "x-kubernetes-list-type": "set"}, ["a", "a"], 'spec.x[1]: Duplicate value: "a"'),
        ({"type": "object", "maxProperties": 1}, {"a": 1, "b": 1}, "must have at most 1 items"),
        ({"type": "object", "minProperties": 1}, {}, "should have at least 1 properties"),
        ({"type": "object", "required": ["y"]}, {}, "spec.x.y: Required value"),
        ({"anyOf": [{"required": ["p"]}, {"required": ["q"]}], "type": "object"}, {}, "at least one schema (anyOf)"),
        ({"oneOf": [{"type": "integer"}, {"minimum": 1}]}, 5, "Found 2 valid alternatives"),
        ({"oneOf": [{"type": "string"}, {"maximum": 1}]}, 5, "Found none valid"),
        ({"allOf": [{"minimum": 6}]}, 5, "should be greater than or equal to 6"),
        ({"not": {"enum": [5]}}, 5, "must not validate the schema (not)"),
    ],
)
def test_a_value_that_breaks_the_schema_is_refused(rules: Any, value: Any, said: str) -> None:
    assert any(said in complaint for complaint in complaints(of(x=rules), x=value))


def test_items_of_a_keyed_list_must_differ_in_their_key() -> None:
    keyed = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    assert complaints(of(x=keyed), x=[{"type": "a", "v": 1}, {"type": "a", "v": 2}]) == [
        'spec.x[1]: Duplicate value: {"type":"a"}'
    ]


def test_null_passes_where_it_is_allowed() -> None:
    assert complaints(of(x={"type": "string", "nullable": True}), x=None) == []


def test_rules_in_cel_are_not_evaluated() -> None:
    schema = of(x={"type": "integer", "x-kubernetes-validations": [{"rule": "self > 5"}, {"rule": "self < 9"}]})
    assert complaints(schema, x=1) == []

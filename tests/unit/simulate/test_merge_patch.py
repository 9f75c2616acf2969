"""RFC 7386 and RFC 6902, the examples that matter and the corners of the real server."""

from copy import deepcopy
from typing import Any

import pytest

from defib.simulate.patches.merge_patch import json_patch, merge
from defib.simulate.refusals import Refusal


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ("scalar", {"a": 1}, {"a": 1}),
        ({"a": 1}, ["c"], ["c"]),
    ],
)
def test_a_merge_patch_follows_its_rfc(target: Any, patch: Any, result: Any) -> None:
    before = deepcopy(target)
    assert merge(target, patch) == result
    assert target == before


DOCUMENT = {"a": {"b": 1}, "list": [1, 2, 3], "x/y": {"~": 0}}


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ({"op": "add", "path": "/a/c", "value": 2}, {**DOCUMENT, "a": {"b": 1, "c": 2}}),
        ({"op": "add", "path": "/list/1", "value": 9}, {**DOCUMENT, "list": [1, 9, 2, 3]}),
        ({"op": "add", "path": "/list/-", "value": 9}, {**DOCUMENT, "list": [1, 2, 3, 9]}),
        ({"op": "remove", "path": "/list/0"}, {**DOCUMENT, "list": [2, 3]}),
        ({"op": "replace", "path": "/a/b", "value": 5}, {**DOCUMENT, "a": {"b": 5}}),
        ({"op": "replace", "path": "/list/2", "value": 5}, {**DOCUMENT, "list": [1, 2, 5]}),
        ({"op": "replace", "path": "/a/new", "value": 5}, {**DOCUMENT, "a": {"b": 1, "new": 5}}),
        ({"op": "move", "from": "/a/b", "path": "/c"}, {**DOCUMENT, "a": {}, "c": 1}),
        ({"op": "copy", "from": "/a/b", "path": "/c"}, {**DOCUMENT, "c": 1}),
        ({"op": "test", "path": "/a/b", "value": 1}, DOCUMENT),
        ({"op": "test", "path": "/a/none", "value": None}, DOCUMENT),
        ({"op": "add", "path": "/x~1y/~0", "value": 1}, {**DOCUMENT, "x/y": {"~": 1}}),
        ({"op": "replace", "path": "", "value": {}}, {}),
    ],
)
def test_a_json_patch_follows_its_rfc(operation: dict[str, Any], result: Any) -> None:
    before = deepcopy(DOCUMENT)
    assert json_patch(DOCUMENT, [operation]) == result
    assert before == DOCUMENT


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a/b", "value": 2},
        {"op": "remove", "path": "/a/none"},
        {"op": "remove", "path": "/list/3"},
        {"op": "add", "path": "/none/deep", "value": 1},
        {"op": "add", "path": "/list/9", "value": 1},
        {"op": "frob", "path": "/a"},
        {"op": "add", "path": "a"},
        {"op": "add"},
        "not an operation",
    ],
)
def test_a_json_patch_that_does_not_fit_is_unprocessable(operation: Any) -> None:
    with pytest.raises(Refusal) as refused:
        json_patch(DOCUMENT, [operation])
    assert refused.value.code == 422


def test_a_json_patch_must_be_a_list() -> None:
    with pytest.raises(Refusal) as refused:
        json_patch(DOCUMENT, {"op": "test"})
    assert refused.value.code == 400

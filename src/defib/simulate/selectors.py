"""Label and field selectors: read from a query, asked of an object."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from defib.simulate.kinds.catalog import Served, at_path
from defib.simulate.refusals import bad_request
from defib.simulate.store import Object

Test = Callable[[Object], bool]
_Labels = Mapping[str, str]
_LabelTest = Callable[[_Labels], bool]

_TOKEN = re.compile(r"\s*(==|!=|=|!|<|>|,|\(|\)|[^\s,()=!<>]+)\s*")


class _Reader:
    """A label selector, word by word."""

    def __init__(self, text: str) -> None:
        self._words = _TOKEN.findall(text)
        self._at = 0

    @property
    def word(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def next(self) -> str:
        word = self.word
        self._at += 1
        return word

    def values(self) -> frozenset[str]:
        """`(a, b, c)`"""
        if self.next() != "(":
            raise bad_request(f"unable to parse requirement: found '{self.word}', expected: '('")
        found, latest = set(), ""
        while (word := self.next()) != ")":
            if not word:
                raise bad_request("unable to parse requirement: found '', expected: ',' or ')'")
            if word == ",":
                found.add(latest)
                latest = ""
            else:
                latest = word
        found.add(latest)
        return frozenset(found)


def _value(reader: _Reader) -> str:
    return "" if reader.word in ("", ",") else reader.next()


def _compare(key: str, operator: str, reader: _Reader) -> _LabelTest:
    match operator:
        case "=" | "==":
            wanted = _value(reader)
            return lambda labels: labels.get(key) == wanted
        case "!=":
            unwanted = _value(reader)
            return lambda labels: labels.get(key) != unwanted
        case "in":
            among = reader.values()
            return lambda labels: labels.get(key) in among
        case "notin":
            besides = reader.values()
            return lambda labels: labels.get(key) not in besides
        case ">" | "<":
            return _number(key, operator, reader.next())
    known = "in, notin, =, ==, !=, gt, lt"
    raise bad_request(f"unable to parse requirement: found '{operator}', expected: {known}")


def _number(key: str, operator: str, limit: str) -> _LabelTest:
    if not re.fullmatch(r"-?\d+", limit):
        raise bad_request(f"for 'Gt', 'Lt' operators, the value must be an integer, found '{limit}'")

    def test(labels: _Labels) -> bool:
        value = labels.get(key, "")
        if not re.fullmatch(r"-?\d+", value):
            return False
        return int(value) > int(limit) if operator == ">" else int(value) < int(limit)

    return test


def _requirement(reader: _Reader) -> _LabelTest:
    if reader.word == "!":
        reader.next()
        absent = reader.next()
        return lambda labels: absent not in labels
    key = reader.next()
    if not key or key in "(),=<>":
        raise bad_request(f"unable to parse requirement: found '{key}', expected: !, identifier, or 'end of string'")
    if reader.word in ("", ","):
        return lambda labels: key in labels
    return _compare(key, reader.next(), reader)


def label_selector(text: str) -> _LabelTest | None:
    """All forms that kubectl accepts; None when everything matches."""
    if not text.strip():
        return None
    reader = _Reader(text)
    tests = [_requirement(reader)]
    while reader.word == ",":
        reader.next()
        tests.append(_requirement(reader))
    if reader.word:
        raise bad_request(f"unable to parse requirement: found '{reader.word}', expected: ',' or 'end of string'")
    return tests[0] if len(tests) == 1 else lambda labels: all(test(labels) for test in tests)


def matches_selector(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """A LabelSelector object, as budgets and workloads carry it. None matches nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression(one, labels) for one in selector.get("matchExpressions") or ())


def _expression(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


_FIELD = re.compile(r"^(.*?)(!=|==|=)(.*)$")


def _field_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _field_requirement(served: Served, text: str) -> Test:
    parsed = _FIELD.match(text)
    if not parsed:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    label, operator, wanted = parsed.groups()
    path = ("metadata", label[9:]) if label in ("metadata.name", "metadata.namespace") else served.selectable.get(label)
    if path is None:
        raise bad_request(f"field label not supported: {label}")
    empty = "false" if label == "spec.unschedulable" else "0" if label == "status.successful" else ""
    equal = operator != "!="

    def test(candidate: Object) -> bool:
        return ((_field_text(at_path(candidate, path)) or empty) == wanted) is equal

    return test


def field_selector(served: Served, text: str) -> Test | None:
    parts = [part for part in text.split(",") if part]
    if not parts:
        return None
    tests = [_field_requirement(served, part) for part in parts]
    return tests[0] if len(tests) == 1 else lambda candidate: all(test(candidate) for test in tests)


def selection(served: Served, namespace: str, query: Mapping[str, str]) -> Test | None:
    """Everything a request filters by, as one question; None when it filters by nothing."""
    tests: list[Test] = []
    if namespace:
        tests.append(lambda candidate: candidate["metadata"].get("namespace") == namespace)
    labels = label_selector(query.get("labelSelector", ""))
    if labels:
        tests.append(lambda candidate: labels(candidate["metadata"].get("labels") or {}))
    fields = field_selector(served, query.get("fieldSelector", ""))
    if fields:
        tests.append(fields)
    if len(tests) < 2:  # noqa: PLR2004
        return tests[0] if tests else None
    return lambda candidate: all(test(candidate) for test in tests)

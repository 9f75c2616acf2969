"""Whether an object is already as the schema of its kind wants it: nothing to drop, to fill in or to refuse.

Most writes change a word of an object that is complete, and one quick walk tells so. A no says nothing: the other
modules here look closer, and have the last word.
"""

import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from defib.simulate.schema.checks import INT_OR_STRING, check, check_combined, check_unique, is_date_time
from defib.simulate.schema.structural import EMBEDDED, PRESERVE, Object, Rules, Schema

Test = Callable[[Any], bool]
Fit = Test | type  # a type fits all of its own, without a call

_COMBINED = ("allOf", "anyOf", "oneOf", "not")
_PLAIN: dict[str, type] = {"string": str, "integer": int, "boolean": bool}
_SAYS_NO_MORE = frozenset(("type", "description", "default", "nullable"))
_SAYS_BOUNDS = _SAYS_NO_MORE | {"minimum", "maximum", "format"}  # a format of numbers refuses none


def is_whole(schema: Schema, proposed: Object) -> bool:
    """The metadata is none of the schema's business."""
    return _whole(schema)({name: value for name, value in proposed.items() if name != "metadata"})


@lru_cache(maxsize=256)
def _whole(schema: Schema) -> Test:
    needed = [name for name in schema.root.get("required") or () if name not in ("metadata", "kind", "apiVersion")]
    return _test(_fit({**schema.root, "required": needed}))


def _fit(rules: Rules) -> Fit:
    kind = None if rules.get(INT_OR_STRING) else rules.get("type")
    if kind in _PLAIN and rules.keys() <= _SAYS_NO_MORE:
        return _PLAIN[kind]
    fit = _OF_TYPE.get(kind or "", _single)(rules)
    return _combined(fit, rules) if "enum" in rules or any(name in rules for name in _COMBINED) else fit


def _test(fit: Fit) -> Test:
    return (lambda value: type(value) is fit) if isinstance(fit, type) else fit


def _single(rules: Rules) -> Test:
    """Of what has no parts, so that there is nothing to drop or to fill in. A null may have to go."""
    return lambda value: value is not None and not isinstance(value, dict | list) and not check(value, rules, "")


def _text(rules: Rules) -> Test:
    least, most = rules.get("minLength", 0), rules.get("maxLength", math.inf)
    matches = re.compile(rules["pattern"]).search if "pattern" in rules else None
    is_time = rules.get("format") == "date-time"

    def fits(value: Any) -> bool:
        if not isinstance(value, str) or not least <= len(value) <= most:
            return False
        return (matches is None or bool(matches(value))) and (not is_time or is_date_time(value))

    return fits


def _combined(fit: Test, rules: Rules) -> Test:
    choices = rules.get("enum")
    if choices is not None and not any(name in rules for name in _COMBINED):
        return lambda value: fit(value) and value in choices
    return lambda value: fit(value) and (choices is None or value in choices) and not check_combined(value, rules, "")


def _map(rules: Rules) -> Test:
    properties: Rules = rules.get("properties") or {}
    fields = {name: _fit(sub) if sub else _never for name, sub in properties.items()}
    free = rules.get("additionalProperties")
    others: Fit = _fit(free) if isinstance(free, dict) else _always if rules.get(PRESERVE) or free is True else _never
    needed = {*(rules.get("required") or ()), *(name for name, sub in properties.items() if "default" in sub)}
    least, most = rules.get("minProperties", 0), rules.get("maxProperties", math.inf)

    def fits(value: Any) -> bool:
        if type(value) is not dict or not needed <= value.keys() or not least <= len(value) <= most:
            return False
        for name, inner in value.items():
            fit = fields.get(name, others)
            if type(inner) is not fit and (fit is str or fit is int or fit is bool or not fit(inner)):
                return False
        return True

    return _never if rules.get(EMBEDDED) else fits


def _list(rules: Rules) -> Test:
    items = rules.get("items")
    fit = _test(_fit(items)) if isinstance(items, dict) else _always
    least, most = rules.get("minItems", 0), rules.get("maxItems", math.inf)

    def fits(value: Any) -> bool:
        if type(value) is not list or not least <= len(value) <= most:
            return False
        return all(map(fit, value)) and not check_unique(value, rules, "")

    return fits


def _whole_number(rules: Rules) -> Test:
    if not rules.keys() <= _SAYS_BOUNDS:
        return _single(rules)
    least, most = rules.get("minimum", -math.inf), rules.get("maximum", math.inf)
    return lambda value: type(value) is int and least <= value <= most


_OF_TYPE = {"object": _map, "array": _list, "string": _text, "integer": _whole_number}


def _always(_value: Any) -> bool:
    return True


def _never(_value: Any) -> bool:
    """Also of an empty rule, which pruning and checking read in two ways."""
    return False

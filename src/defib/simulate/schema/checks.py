"""What the structural schema of a custom kind refuses, in words near those of the real server."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from defib.simulate.refusals import Problem, duplicate, required, unsupported, wrong, wrong_type
from defib.simulate.schema.structural import Schema

Rules = Mapping[str, Any]
INT_OR_STRING = "x-kubernetes-int-or-string"

_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "boolean": lambda v: isinstance(v, bool),
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
}
_is_date_time = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)").fullmatch
_pattern = lru_cache(maxsize=1024)(re.compile)


def problems(schema: Schema, whole: dict[str, Any]) -> list[Problem]:
    """Everything but the metadata, which has rules of its own."""
    rest = {name: value for name, value in whole.items() if name != "metadata"}
    rules = {k: v for k, v in schema.root.items() if k != "required"}
    rules["required"] = [n for n in schema.root.get("required") or () if n not in ("metadata", "kind", "apiVersion")]
    return check(rest, rules, "")


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    return next(name for name, is_one in _TYPES.items() if is_one(value))


def check(value: Any, rules: Rules, where: str) -> list[Problem]:
    if value is None and rules.get("nullable"):
        return []
    found = _check_type(value, rules, where)
    if not found:
        if isinstance(value, dict):
            found = _check_map(value, rules, where)
        elif isinstance(value, list):
            found = _check_list(value, rules, where)
        elif isinstance(value, str):
            found = check_string(value, rules, where)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found = check_number(value, rules, where)
    if "enum" in rules and value not in rules["enum"]:
        found.append(unsupported(where, value, rules["enum"]))
    return found + check_combined(value, rules, where)


def _check_type(value: Any, rules: Rules, where: str) -> list[Problem]:
    wanted: tuple[str, ...]
    if rules.get(INT_OR_STRING):
        wanted = ("integer", "string")
    elif "type" in rules:
        wanted = (rules["type"],)
    else:
        return []
    if any(_TYPES[name](value) for name in wanted):
        return []
    actual = _type_name(value)
    why = f'{where or "<root>"} in body must be of type {",".join(wanted)}: "{actual}"'
    return [wrong_type(where, actual, why)]


def _check_map(value: dict[str, Any], rules: Rules, where: str) -> list[Problem]:
    properties: Rules = rules.get("properties") or {}
    free = rules.get("additionalProperties")
    found = [required(_join(where, name)) for name in rules.get("required") or () if name not in value]
    most, least = rules.get("maxProperties"), rules.get("minProperties")
    if most is not None and len(value) > most:
        found.append(_too_many(where, len(value), most))
    if least is not None and len(value) < least:
        found.append(wrong(where, len(value), f"{where} in body should have at least {least} properties"))
    for name, inner in value.items():
        sub = properties.get(name) or (free if isinstance(free, dict) else None)
        if sub is not None:
            found += check(inner, sub, _join(where, name))
    return found


def _check_list(value: list[Any], rules: Rules, where: str) -> list[Problem]:
    found = []
    most, least = rules.get("maxItems"), rules.get("minItems")
    if most is not None and len(value) > most:
        found.append(_too_many(where, len(value), most))
    if least is not None and len(value) < least:
        found.append(wrong(where, len(value), f"{where} in body should have at least {least} items"))
    items = rules.get("items")
    if isinstance(items, dict):
        for number, item in enumerate(value):
            found += check(item, items, f"{where}[{number}]")
    return found + check_unique(value, rules, where)


def check_unique(value: list[Any], rules: Rules, where: str) -> list[Problem]:
    kind = rules.get("x-kubernetes-list-type")
    keys = rules.get("x-kubernetes-list-map-keys") or ()
    if kind not in ("set", "map"):
        return []
    found: list[Problem] = []
    seen: list[Any] = []
    for number, item in enumerate(value):
        same = {k: item[k] for k in keys if k in item} if kind == "map" and isinstance(item, dict) else item
        if same in seen:
            found.append(duplicate(f"{where}[{number}]", same))
        seen.append(same)
    return found


def is_date_time(value: str) -> bool:
    return _is_date_time(value) is not None


def check_string(value: str, rules: Rules, where: str) -> list[Problem]:
    most, least = rules.get("maxLength"), rules.get("minLength")
    if most is not None and len(value) > most:
        return [Problem(where, "FieldValueTooLong", f"Too long: may not be more than {most} bytes")]
    if least is not None and len(value) < least:
        return [wrong(where, value, f"{where} in body should be at least {least} chars long")]
    if "pattern" in rules and not _pattern(rules["pattern"]).search(value):
        return [wrong(where, value, f"{where} in body should match '{rules['pattern']}'")]
    if rules.get("format") == "date-time" and not is_date_time(value):
        return [wrong_type(where, value, f'{where} in body must be of type date-time: "{value}"')]
    return []


def check_number(value: float, rules: Rules, where: str) -> list[Problem]:
    found = []
    most, least = rules.get("maximum"), rules.get("minimum")
    if most is not None and (value > most or (rules.get("exclusiveMaximum") and value == most)):
        how = "less than" if rules.get("exclusiveMaximum") else "less than or equal to"
        found.append(wrong(where, value, f"{where} in body should be {how} {most}"))
    if least is not None and (value < least or (rules.get("exclusiveMinimum") and value == least)):
        how = "greater than" if rules.get("exclusiveMinimum") else "greater than or equal to"
        found.append(wrong(where, value, f"{where} in body should be {how} {least}"))
    if rules.get("multipleOf") and value % rules["multipleOf"]:
        found.append(wrong(where, value, f"{where} in body should be a multiple of {rules['multipleOf']}"))
    return found


def check_combined(value: Any, rules: Rules, where: str) -> list[Problem]:
    found: list[Problem] = []
    for sub in rules.get("allOf") or ():
        found += check(value, sub, where)
    if "anyOf" in rules and not any(not check(value, sub, where) for sub in rules["anyOf"]):
        found.append(_combined(where, "must validate at least one schema (anyOf)"))
    if "oneOf" in rules:
        outcomes: list[list[Problem]] = [check(value, sub, where) for sub in rules["oneOf"]]
        valid = sum(not outcome for outcome in outcomes)
        if valid == 0:
            found.append(_combined(where, "must validate one and only one schema (oneOf). Found none valid"))
            found += outcomes[min(range(len(outcomes)), key=lambda number: len(outcomes[number]))]
        elif valid > 1:
            why = f"must validate one and only one schema (oneOf). Found {valid} valid alternatives"
            found.append(_combined(where, why))
    if "not" in rules and not check(value, rules["not"], where):
        found.append(_combined(where, "must not validate the schema (not)"))
    return found


def _combined(where: str, why: str) -> Problem:
    return Problem("<nil>", "FieldValueInvalid", f'Invalid value: "": "{where}" {why}')


def _too_many(where: str, count: int, most: int) -> Problem:
    return Problem(where, "FieldValueTooMany", f"Too many: {count}: must have at most {most} items")


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name

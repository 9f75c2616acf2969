"""What the structural schema of a custom kind does to an object: unknown fields go, defaults come."""

from collections.abc import Mapping
from typing import Any

import msgspec

from defib.simulate.kinds.metadata_fields import known_only

Object = dict[str, Any]
Rules = Mapping[str, Any]

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"


class Schema(msgspec.Struct, frozen=True, eq=False):
    """The schema of one version, as the definition carries it. What is stored never changes: the same one is the same."""

    root: Rules

    def __hash__(self) -> int:
        return id(self.root)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and other.root is self.root


class _Pruning:
    """One walk over an object, which remembers what it dropped."""

    def __init__(self) -> None:
        self.dropped: list[str] = []

    def map(self, value: Object, rules: Rules, where: str) -> Object:
        properties: Rules = rules.get("properties") or {}
        free = rules.get("additionalProperties")
        keep_all = bool(rules.get(PRESERVE)) or free is True
        kept: Object = {}
        for name, inner in value.items():
            sub = properties.get(name)
            path = f"{where}.{name}" if where else name
            if sub is None and isinstance(free, dict):
                sub = free
            if sub is not None:
                kept[name] = self.value(inner, sub, path)
            elif rules.get(EMBEDDED) and name in ("apiVersion", "kind", "metadata"):
                kept[name] = known_only(inner) if isinstance(inner, dict) else inner
            elif keep_all:
                kept[name] = inner
            else:
                self.dropped.append(path)
        return kept

    def value(self, value: Any, rules: Rules, where: str) -> Any:
        if isinstance(value, dict):
            return self.map(value, rules, where)
        items = rules.get("items")
        if isinstance(value, list) and isinstance(items, dict):
            return [self.value(item, items, f"{where}[{number}]") for number, item in enumerate(value)]
        return value


def _defaulted(value: Any, rules: Rules) -> Any:
    """With the defaults of what is missing, and without nulls where null is not a value."""
    if isinstance(value, dict):
        return _defaulted_map(value, rules)
    items = rules.get("items")
    if isinstance(value, list) and isinstance(items, dict):
        return [_defaulted(item, items) for item in value]
    return value


def _defaulted_map(value: Object, rules: Rules) -> Object:
    properties: Rules = rules.get("properties") or {}
    free = rules.get("additionalProperties")
    made: Object = {}
    for name, inner in value.items():
        sub = properties.get(name) or (free if isinstance(free, dict) else None)
        if sub is None:
            made[name] = inner
        elif inner is not None or sub.get("nullable"):
            made[name] = _defaulted(inner, sub)
    for name, sub in properties.items():
        if name not in made and "default" in sub:
            made[name] = _defaulted(sub["default"], sub)
    return made


def completed(schema: Schema, proposed: Object) -> Object:
    """Pruned and with defaults. The metadata is none of the schema's business."""
    return {"metadata": proposed["metadata"], **_defaulted_map(_pruned(schema, proposed, _Pruning()), schema.root)}


def unknown_fields(schema: Schema, proposed: Object) -> list[str]:
    """What pruning would drop."""
    pruning = _Pruning()
    _pruned(schema, proposed, pruning)
    return sorted(pruning.dropped)


def _pruned(schema: Schema, proposed: Object, pruning: _Pruning) -> Object:
    rest = {name: value for name, value in proposed.items() if name != "metadata"}
    return pruning.map(rest, schema.root, "")

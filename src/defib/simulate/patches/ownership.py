"""Who owns which field: the managedFields of an object, kept up to date by every write."""

from collections.abc import Callable
from typing import Any

import msgspec

from defib.simulate.patches.field_sets import (
    Comparison,
    FieldSet,
    covers,
    difference,
    existing,
    fields_of,
    overlaps,
    union,
)
from defib.simulate.patches.shapes import Shape
from defib.simulate.store import Object

UPDATE, APPLY = "Update", "Apply"

# The server's own fields and the address of an object belong to nobody.
_UNOWNED = frozenset(
    (
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "managedFields",
    )
)


class Manager(msgspec.Struct, frozen=True, kw_only=True):
    """One writer, as managedFields tells writers apart."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""
    split_status: bool = False  # the kind has a status subresource

    def is_in(self, entry: dict[str, Any]) -> bool:
        return bool(
            entry["manager"] == self.name
            and entry["operation"] == self.operation
            and entry["apiVersion"] == self.api_version
            and entry.get("subresource", "") == self.subresource
        )

    def entry(self, fields: FieldSet, time: str) -> dict[str, Any]:
        made: dict[str, Any] = {
            "manager": self.name,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": time,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        }
        if self.subresource:
            made["subresource"] = self.subresource
        return made


def ownable(stored: Object, *besides: str) -> Object:
    """An object without what nobody can own, and without some of its parts."""
    rest = dict(stored)
    for name in ("metadata", "apiVersion", "kind", *besides):
        rest.pop(name, None)
    meta = {k: v for k, v in stored.get("metadata", {}).items() if k not in _UNOWNED}
    return {"metadata": meta, **rest} if meta else rest


def entries_of(stored: Object) -> list[dict[str, Any]]:
    return stored["metadata"].get("managedFields") or []


_NOBODYS = ("f:metadata", "f:spec", "f:status")


def _strip_containers(fields: FieldSet) -> FieldSet | None:
    """metadata, spec and status themselves are nobody's; only what is in them has owners."""
    left: FieldSet = {}
    for name, node in fields.items():
        if name in _NOBODYS:
            inner = {k: v for k, v in node.items() if k != "."}
            if inner:
                left[name] = inner
        elif name != ".":
            left[name] = node
    return left or None


def after_update(
    before: Object | None, after: Object, shape: Shape, manager: Manager, time: Callable[[], str]
) -> list[dict[str, Any]]:
    """The writer owns what it changed; everybody else loses that, and what is no longer there."""
    now = ownable(after)
    entries = entries_of(before) if before else []
    # A writer of the whole cannot own the status, nor a writer of the status the rest.
    besides = ("spec",) if manager.subresource else ("status",) if manager.split_status else ()
    mine = ownable(after, *besides) if besides else now
    comparison = Comparison()
    was = ownable(before, *besides) if before else None
    found = fields_of(mine, shape, containers=True) if was is None else comparison.changed(was, mine, shape)
    touched = _strip_containers(found) if found else None
    kept = []
    own_entry: dict[str, Any] | None = None
    for entry in entries:
        # Looking for what is gone is dear, and most writes take nothing away.
        left = _without_lost(entry, now, shape) if comparison.lost_something else entry
        if manager.is_in(entry):
            own_entry = left
        elif left and (yielded := _yielding(left, touched)):
            kept.append(yielded)
    gained = _gaining(own_entry, touched, manager, time)
    return [*kept, gained] if gained else kept


def _without_lost(entry: dict[str, Any], now: Object, shape: Shape) -> dict[str, Any] | None:
    left = existing(entry["fieldsV1"], now, shape)
    if not left:
        return None
    return entry if left == entry["fieldsV1"] else {**entry, "fieldsV1": left}


def _yielding(entry: dict[str, Any], touched: FieldSet | None) -> dict[str, Any] | None:
    """An entry after somebody else took some of its fields."""
    if not touched or not overlaps(entry["fieldsV1"], touched):
        return entry
    rest = difference(entry["fieldsV1"], touched)
    return {**entry, "fieldsV1": rest} if rest else None


def _gaining(
    entry: dict[str, Any] | None, touched: FieldSet | None, manager: Manager, time: Callable[[], str]
) -> dict[str, Any] | None:
    """A writer that gains nothing keeps its entry and the time in it, so that a no-op stays one."""
    if not touched or (entry and covers(entry["fieldsV1"], touched)):
        return entry
    return manager.entry(union(entry["fieldsV1"] if entry else None, touched) or {}, time())

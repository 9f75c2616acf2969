"""Tables for people: the columns that `kubectl get` prints, for built-in kinds and for those with printer columns."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from defib.clock import Clock
from defib.simulate.kinds.catalog import Served
from defib.simulate.store import Object, Version
from defib.simulate.views import json_path
from defib.simulate.views.columns import BUILTIN, DETAIL, Cells, Heading

_DAY, _HOUR, _MINUTE = 86_400, 3_600, 60
_NAME = Heading("Name", "string", "name")


def age(then: str | None, now: datetime) -> str:
    """How long ago, as kubectl says it: two units while they matter, then one."""
    if not then:
        return "<unknown>"
    seconds = int((now - datetime.fromisoformat(then)).total_seconds())
    if seconds < 0:
        return "0s" if seconds > -2 else "<invalid>"  # noqa: PLR2004
    for limit, big, small, names in (
        (2 * _MINUTE, 1, 1, "s"),
        (10 * _MINUTE, _MINUTE, 1, "ms"),
        (3 * _HOUR, _MINUTE, 1, "m"),
        (8 * _HOUR, _HOUR, _MINUTE, "hm"),
        (2 * _DAY, _HOUR, 1, "h"),
        (8 * _DAY, _DAY, _HOUR, "dh"),
        (730 * _DAY, _DAY, 1, "d"),
    ):
        if seconds < limit:
            rest = seconds % big // small if len(names) == 2 else 0  # noqa: PLR2004
            return f"{seconds // big}{names[0]}" + (f"{rest}{names[1]}" if rest else "")
    years, rest = divmod(seconds // _DAY, 365)
    return f"{years}y{rest}d" if rest and years < 8 else f"{years}y"  # noqa: PLR2004


class Printer:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def table(self, served: Served, found: Sequence[Version], meta: dict[str, Any]) -> dict[str, Any]:
        headings, cells = self._columns(served)
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": meta,
            "columnDefinitions": [heading.definition() for heading in headings],
            "rows": [self._row(version, cells) for version in found],
        }

    def _row(self, version: Version, cells: Cells) -> dict[str, Any]:
        about = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        about["metadata"] = version.object["metadata"]
        return {"cells": cells(version.object, self._age), "object": about}

    def _age(self, then: str | None) -> str:
        return age(then, self._clock.now())

    def _columns(self, served: Served) -> tuple[Sequence[Heading], Cells]:
        known = BUILTIN.get(served.place)
        if known:
            return known
        if served.columns:
            return self._custom(served)
        return (_NAME, Heading("Age")), _name_and_age

    def _custom(self, served: Served) -> tuple[Sequence[Heading], Cells]:
        headings = [_NAME]
        headings += [
            Heading(c.name, c.type, c.format, DETAIL if c.priority else 0, c.description) for c in served.columns
        ]

        def cells(stored: Object, _age: Callable[[str | None], str]) -> list[Any]:
            return [
                stored["metadata"]["name"],
                *(self._custom_cell(c.type, c.json_path, stored) for c in served.columns),
            ]

        return headings, cells

    def _custom_cell(self, kind: str, path: str, stored: Object) -> Any:
        found = json_path.find(path, stored)
        if not found:
            return None
        if kind == "date":
            return self._age(found[0])
        if kind == "string":
            return found[0] if len(found) == 1 and isinstance(found[0], str) else " ".join(str(f) for f in found)
        return found[0]


def _name_and_age(stored: Object, age_of: Callable[[str | None], str]) -> list[Any]:
    meta = stored["metadata"]
    return [meta["name"], age_of(meta.get("creationTimestamp"))]

"""Server-side apply: a manager says what it wants to own; others' fields are safe from it unless it insists."""

from typing import Any

from defib.clock import Clock
from defib.simulate.bodies import addressed, without_nulls
from defib.simulate.kinds import metadata
from defib.simulate.patches.field_sets import (
    FieldSet,
    changed,
    difference,
    divisible,
    existing,
    fields_of,
    intersection,
    key_name,
    owned,
    paths,
    union,
    value_name,
)
from defib.simulate.patches.ownership import APPLY, Manager, entries_of, ownable
from defib.simulate.patches.shapes import Shape
from defib.simulate.refusals import Refusal, bad_request, conflict, invalid_options, required
from defib.simulate.routing import Call
from defib.simulate.store import Object, Store, Version
from defib.simulate.writing import Writer

Entry = dict[str, Any]


class Applier:
    def __init__(self, store: Store, clock: Clock, writer: Writer) -> None:
        self._store = store
        self._clock = clock
        self._writer = writer

    def apply(self, call: Call, body: Any) -> tuple[Version, bool]:
        query = call.request.query
        if not query.get("fieldManager"):
            raise invalid_options("PatchOptions", required("fieldManager", "is required for apply patch"))
        if not isinstance(body, dict):
            raise bad_request("error decoding YAML: the body is not a map")
        applied = _applied(call, body)
        before = self._store.get(call.served.place, call.key)
        manager = Manager(
            name=query["fieldManager"],
            operation=APPLY,
            api_version=call.served.api_version,
            subresource=call.subresource,
        )
        if before is None:
            return self._create(call, applied, manager)
        return self._update(call, applied, manager, before), False

    def _time(self) -> str:
        return metadata.stamp(self._clock.now())

    def _create(self, call: Call, applied: Object, manager: Manager) -> tuple[Version, bool]:
        if call.subresource:
            raise Refusal(404, "NotFound", f'{call.served.resource} "{call.name}" not found', {})
        uid = applied["metadata"].get("uid")
        if uid:
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise conflict(call.served.plural, call.served.group, call.name, why)
        wish = fields_of(ownable(applied), call.served.shape, containers=False)

        def owners(_whole: Object) -> list[Entry]:
            return [manager.entry(wish, self._time())] if wish else []

        return self._writer.create(call, applied, owners), True

    def _update(self, call: Call, applied: Object, manager: Manager, before: Version) -> Version:
        shape = call.served.shape
        live = before.object
        wish = fields_of(ownable(applied), shape, containers=False)
        entries = entries_of(live)
        previous = next((e["fieldsV1"] for e in entries if manager.is_in(e)), None)
        others = [e for e in entries if not manager.is_in(e)]
        merged = merge_applied(live, applied, shape)
        lost = difference(previous, wish)
        for entry in others:
            lost = difference(lost, entry["fieldsV1"])
        if lost:
            merged = without_fields(merged, lost, shape)
        others = self._settle_conflicts(call, live, merged, others)

        def owners(whole: Object) -> list[Entry]:
            return self._entries(whole, shape, others, self._own_entry(entries, manager, wish))

        return self._writer.replace(call, before, merged, owners)

    def _own_entry(self, entries: list[Entry], manager: Manager, wish: FieldSet) -> Entry | None:
        if not wish:
            return None
        same = next((e for e in entries if manager.is_in(e) and e["fieldsV1"] == wish), None)
        return same or manager.entry(wish, self._time())

    def _entries(self, whole: Object, shape: Shape, others: list[Entry], own: Entry | None) -> list[Entry]:
        """Apply entries come first, as the real server sorts them; what is no longer there has no owner."""
        now = ownable(whole)
        kept = []
        for entry in others:
            fields = existing(entry["fieldsV1"], now, shape)
            if fields:
                kept.append(entry if fields == entry["fieldsV1"] else {**entry, "fieldsV1": fields})
        if own:
            kept.append(own)
        return sorted(kept, key=lambda e: e["operation"] != APPLY)

    def _settle_conflicts(self, call: Call, live: Object, merged: Object, others: list[Entry]) -> list[Entry]:
        """Somebody else's fields with another value are a conflict; with force they change hands."""
        touched = changed(ownable(live), ownable(merged), call.served.shape)
        conflicts = [(entry, both) for entry in others if (both := intersection(touched, entry["fieldsV1"]))]
        if conflicts and call.request.query.get("force") not in ("1", "true"):
            raise _conflict(conflicts)
        settled = []
        for entry in others:
            rest = difference(entry["fieldsV1"], touched)
            if rest:
                settled.append(entry if rest == entry["fieldsV1"] else {**entry, "fieldsV1": rest})
        return settled


def _applied(call: Call, body: Object) -> Object:
    if (body.get("metadata") or {}).get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    for name in ("apiVersion", "kind"):
        if not body.get(name):
            raise bad_request(f"invalid object type: /, Kind={body.get('kind', '')}")
    applied = addressed(call, body)
    return applied if call.served.custom else dict(without_nulls(applied))


def _conflict(conflicts: list[tuple[Entry, FieldSet]]) -> Refusal:
    causes = []
    for entry, fields in conflicts:
        through = f' with subresource "{entry["subresource"]}"' if entry.get("subresource") else ""
        using = f" using {entry['apiVersion']}" if entry["operation"] != APPLY else ""
        said = f'conflict with "{entry["manager"]}"{through}{using}'
        causes += [{"reason": "FieldManagerConflict", "message": said, "field": path} for path in paths(fields)]
    causes.sort(key=lambda c: c["message"])
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines: list[str] = []
        for said in dict.fromkeys(c["message"] for c in causes):
            lines += [
                f"conflicts{said.removeprefix('conflict')}:",
                *(f"- {c['field']}" for c in causes if c["message"] == said),
            ]
        message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    return Refusal(409, "Conflict", message, {"causes": causes})


def merge_applied(live: Any, applied: Any, shape: Shape) -> Any:
    """What is applied over what is there, part by part where parts can have owners."""
    if shape.atomic or type(live) is not type(applied) or not live:
        return applied
    if isinstance(applied, dict):
        merged = dict(live)
        for name, value in applied.items():
            merged[name] = merge_applied(live.get(name), value, shape.field(name)) if name in live else value
        return merged
    if not isinstance(applied, list) or not (shape.keys or shape.is_set):
        return applied
    if shape.is_set:
        return [*live, *(item for item in applied if item not in live)]
    wanted = {key_name(item, shape): item for item in applied}
    kept = [merge_applied(item, wanted.pop(key_name(item, shape), item), shape.item) for item in live]
    return [*kept, *wanted.values()]


def without_fields(value: Any, gone: FieldSet, shape: Shape) -> Any:
    """A value without the fields of a set; a map or an item that is itself in the set goes when nothing is left."""
    if not divisible(value, shape):
        return value
    if isinstance(value, dict):
        left = {}
        for name, inner in value.items():
            node = gone.get("f:" + name)
            if node is None or not _vanishes(inner, node, shape.field(name)):
                rest = inner if node is None else without_fields(inner, node, shape.field(name))
                if rest or not inner:
                    left[name] = rest  # what was only a container goes with the last of its content
        return left
    name_of = value_name if shape.is_set else lambda item: key_name(item, shape)
    items = []
    for item in value:
        node = gone.get(name_of(item))
        if node is None or not _vanishes(item, node, shape.item):
            items.append(item if node is None else without_fields(item, node, shape.item))
    return items


def _vanishes(value: Any, node: FieldSet, shape: Shape) -> bool:
    if not node:
        return not divisible(value, shape)  # the content of a container has owners of its own
    rest = difference(fields_of(value, shape, containers=False), union(node, {".": {}}))
    return owned(node) and rest is None

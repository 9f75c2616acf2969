"""Strategic merge patch: a merge patch that knows which lists have keys. kubectl labels, cordons and edits with it."""

from typing import Any

from defib.simulate.patches.shapes import Shape
from defib.simulate.refusals import internal

_PATCH, _RETAIN, _ORDER, _DELETE = "$patch", "$retainKeys", "$setElementOrder/", "$deleteFromPrimitiveList/"


def strategic_merge(target: Any, patch: dict[str, Any], shape: Shape) -> Any:
    """Maps merge, null removes, keyed lists merge item by item, sets grow, other lists are replaced."""
    directive = patch.get(_PATCH)
    if directive == "replace":
        return {k: v for k, v in patch.items() if k != _PATCH}
    if directive == "delete":
        return {}
    merged = dict(target) if isinstance(target, dict) else {}
    if _RETAIN in patch:
        merged = {k: v for k, v in merged.items() if k in patch[_RETAIN]}
    for name, value in patch.items():
        if name.startswith(_DELETE):
            gone = name.removeprefix(_DELETE)
            merged[gone] = [item for item in merged.get(gone) or [] if item not in value]
        elif name.startswith("$"):
            continue
        elif value is None:
            merged.pop(name, None)
        else:
            order = patch.get(_ORDER + name, value)
            merged[name] = _merge_value(merged.get(name), value, shape.field(name), order)
    return merged


def _merge_value(old: Any, new: Any, shape: Shape, order: Any) -> Any:
    if isinstance(new, dict):
        return strategic_merge(old, new, shape)
    if isinstance(new, list) and (shape.keys or shape.is_set):
        before = list(old or [])
        return _ordered(_merge_list(before, new, shape), before, order, shape)
    return new


def _merge_list(old: list[Any], new: list[Any], shape: Shape) -> list[Any]:
    if shape.is_set:
        return [*old, *(item for item in new if item not in old)]
    key = shape.keys[0]
    if any(item.get(_PATCH) == "replace" for item in new):
        return [item for item in new if _PATCH not in item]
    merged = old
    for item in new:
        if key not in item:
            shown = " ".join(f"{k}:{v}" for k, v in item.items())
            raise internal(f"map: map[{shown}] does not contain declared merge key: {key}")
        merged = _merge_item(merged, item, key, shape)
    return merged


def _merge_item(old: list[Any], item: dict[str, Any], key: str, shape: Shape) -> list[Any]:
    name = item[key]
    if item.get(_PATCH) == "delete":
        return [o for o in old if o.get(key) != name]
    if any(o.get(key) == name for o in old):
        return [strategic_merge(o, item, shape.item) if o.get(key) == name else o for o in old]
    return [*old, strategic_merge({}, item, shape.item)]


def _ordered(merged: list[Any], old: list[Any], order: list[Any], shape: Shape) -> list[Any]:
    """What the patch speaks of comes in the patch's order; the rest keeps its place where both were there before."""

    def name_of(item: Any) -> Any:
        return item.get(shape.keys[0]) if shape.keys else item

    wanted = [name_of(item) for item in order]
    before = [name_of(item) for item in old]
    spoken_of = sorted((i for i in merged if name_of(i) in wanted), key=lambda i: wanted.index(name_of(i)))
    others = [item for item in merged if name_of(item) not in wanted]
    result = []
    while others and spoken_of:
        other, spoken = name_of(others[0]), name_of(spoken_of[0])
        first = other in before and spoken in before and before.index(other) < before.index(spoken)
        result.append(others.pop(0) if first else spoken_of.pop(0))
    return [*result, *others, *spoken_of]

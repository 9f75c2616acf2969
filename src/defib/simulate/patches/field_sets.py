"""Sets of fields in the form that managedFields uses, and their algebra.

`{"f:spec": {"f:replicas": {}}}` is the set with one member, `.spec.replicas`. A node is a member itself when it is empty
or holds a "."; everything else in it leads to members below. None is the empty set. Nothing here changes its arguments.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from defib.simulate.patches.shapes import Shape

FieldSet = dict[str, Any]

_json = msgspec.json.Encoder(order="sorted")
_SELF: FieldSet = {".": {}}
_DIVIDED = frozenset((dict, list))  # the types of what may have parts, as JSON has them


def key_name(item: Any, shape: Shape) -> str:
    """The name of one item of a keyed list: `k:{"type":"Ready"}`."""
    if len(shape.keys) == 1:
        only = item.get(shape.keys[0])
        if isinstance(only, str) and only.isidentifier():
            return f'k:{{"{shape.keys[0]}":"{only}"}}'  # nothing to escape: the way of nearly all conditions
    keys = {k: item.get(k, shape.key_defaults.get(k)) for k in shape.keys}
    return "k:" + _json.encode({k: v for k, v in keys.items() if v is not None}).decode()


def value_name(item: Any) -> str:
    return "v:" + _json.encode(item).decode()


def divisible(value: Any, shape: Shape) -> bool:
    """Whether the parts of a value can have different owners."""
    if shape.atomic or not value:
        return False
    if isinstance(value, dict):
        return True
    return isinstance(value, list) and bool(shape.keys or shape.is_set)


def parts(value: Any, shape: Shape) -> Iterator[tuple[str, Any, Shape]]:
    """The named parts of a divisible value."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield "f:" + name, inner, shape.field(name)
    elif shape.keys:
        for item in value:
            yield key_name(item, shape), item, shape.item
    else:
        for item in value:
            yield value_name(item), item, shape.item


def fields_of(value: Any, shape: Shape, *, containers: bool) -> FieldSet:
    """Every field of a value. With `containers`, the maps and lists on the way are members too."""
    if not divisible(value, shape):
        return {}
    found: FieldSet = {}
    for name, inner, sub in parts(value, shape):
        is_divided = type(inner) in _DIVIDED
        found[name] = fields_of(inner, sub, containers=containers) if is_divided else {}
    if containers:
        found["."] = {}
    elif isinstance(value, list) and shape.keys:
        # An applied item of a keyed list is owned as a whole too, so that it goes when nobody applies it any more.
        for node in found.values():
            if node:
                node["."] = {}
    return found


def changed(before: Any, after: Any, shape: Shape) -> FieldSet | None:
    """The fields of `after` that are new or different."""
    return Comparison().changed(before, after, shape)


class Comparison:
    """Of two versions of a value."""

    def __init__(self) -> None:
        self.lost_something = False  # a field of the earlier one is not in the later one

    def changed(self, before: Any, after: Any, shape: Shape) -> FieldSet | None:
        return None if before == after else self._differing(before, after, shape)

    def _differing(self, before: Any, after: Any, shape: Shape) -> FieldSet | None:
        """Of two that are known to differ, since to compare them again at each level is dear."""
        if not (divisible(before, shape) and divisible(after, shape)) or type(before) is not type(after):
            self.lost_something |= divisible(before, shape)
            return fields_of(after, shape, containers=True)
        if isinstance(before, dict):
            return self._changed_in_map(before, after, shape)
        earlier = {name: inner for name, inner, _ in parts(before, shape)}
        found: FieldSet = {}
        for name, inner, sub in parts(after, shape):
            if name not in earlier:
                found[name] = fields_of(inner, sub, containers=True)
                continue
            node = self.changed(earlier.pop(name), inner, sub)
            if node is not None:
                found[name] = node
        self.lost_something |= bool(earlier)
        return found or None

    def _changed_in_map(self, before: dict[str, Any], after: dict[str, Any], shape: Shape) -> FieldSet | None:
        """Most of a map is as it was, and is not looked at any closer."""
        found: FieldSet = {}
        for name, inner in after.items():
            if name not in before:
                found[f"f:{name}"] = fields_of(inner, shape.field(name), containers=True)
            elif (was := before[name]) != inner and (
                node := self._differing(was, inner, shape.field(name))
            ) is not None:
                found[f"f:{name}"] = node
        self.lost_something |= not before.keys() <= after.keys()
        return found or None


def existing(members: FieldSet, value: Any, shape: Shape) -> FieldSet | None:
    """The members whose fields a value still has."""
    if not members or not divisible(value, shape):
        return members if owned(members) else None
    kept: FieldSet = dict(_SELF) if "." in members else {}
    for name, inner, sub in parts(value, shape):
        node = members.get(name)
        rest = existing(node, inner, sub) if node is not None else None
        if rest is not None:
            kept[name] = rest
    return _normal(kept)


def owned(node: FieldSet) -> bool:
    return not node or "." in node


def union(a: FieldSet | None, b: FieldSet | None) -> FieldSet | None:
    if a is None or b is None:
        return b if a is None else a
    if not a or not b:
        both = a or b
        return {**_SELF, **both} if both else {}
    joined = dict(a)
    for name, node in b.items():
        other = union(joined.get(name), node)
        joined[name] = {} if other is None else other
    return joined


def overlaps(a: FieldSet, b: FieldSet) -> bool:
    """Whether a field is in both."""
    if owned(a) and owned(b):
        return True
    return any(name != "." and name in b and overlaps(node, b[name]) for name, node in a.items())


def covers(a: FieldSet, b: FieldSet) -> bool:
    """Whether every field of b is in a."""
    if owned(b) and not owned(a):
        return False
    return all(name == "." or (name in a and covers(a[name], node)) for name, node in b.items())


def difference(a: FieldSet | None, b: FieldSet | None) -> FieldSet | None:
    """The members of a that are not in b."""
    if a is None or b is None:
        return a
    if not a:
        return None if owned(b) else a
    rest: FieldSet = {}
    for name, node in a.items():
        left: FieldSet | None = node
        if name == ".":
            left = None if owned(b) else node
        elif name in b:
            left = difference(node, b[name])
        if left is not None:
            rest[name] = left
    return _normal(rest)


def intersection(a: FieldSet | None, b: FieldSet | None) -> FieldSet | None:
    if a is None or b is None:
        return None
    common: FieldSet = dict(_SELF) if owned(a) and owned(b) else {}
    for name, node in a.items():
        if name != "." and name in b:
            both = intersection(node, b[name])
            if both is not None:
                common[name] = both
    return _normal(common)


def _normal(node: FieldSet) -> FieldSet | None:
    if not node:
        return None
    return {} if node.keys() == {"."} else node


def paths(members: FieldSet, prefix: str = "") -> Iterator[str]:
    """The members as people write them: `.spec.template.spec.containers[name="c"].image`."""
    if owned(members) and prefix:
        yield prefix
    # Fields come before what lies deeper, as the real server lists them.
    for name in sorted((n for n in members if n != "."), key=lambda n: (bool(members[n]), n)):
        yield from paths(members[name], prefix + _step(name))


def _step(name: str) -> str:
    kind, _, rest = name.partition(":")
    if kind == "f":
        return f".{rest}"
    if kind == "v":
        return f"[={rest}]"
    keys = msgspec.json.decode(rest)
    return "[" + ",".join(f"{k}={msgspec.json.encode(v).decode()}" for k, v in keys.items()) + "]"

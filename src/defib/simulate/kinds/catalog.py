"""What the server serves: one row per resource, built in or made by a CustomResourceDefinition."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

from defib.simulate.patches.shapes import JUST_META, Shape
from defib.simulate.schema.structural import Schema

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Column(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A printer column of a custom kind."""

    name: str
    type: str
    json_path: str
    format: str = ""
    description: str = ""
    priority: int = 0


class ScalePaths(msgspec.Struct, frozen=True, kw_only=True):
    """Where the scale subresource finds its numbers."""

    spec_replicas: tuple[str, ...] = ("spec", "replicas")
    status_replicas: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] = ()


class Served(msgspec.Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """One resource at one version. Objects of all versions of a resource share one place in the store."""

    group: str = ""
    version: str = "v1"
    plural: str
    kind: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    singular: str = ""
    list_kind: str = ""
    namespaced: bool = True
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    counts_generation: bool = False
    unconditional_update: bool = True  # a PUT without resourceVersion is accepted
    create_on_update: bool = False  # a PUT of a missing object creates it
    returns_deleted: bool = False  # DELETE answers with the object, not with a Status
    selectable: Mapping[str, tuple[str, ...]] = {}
    shape: Shape = JUST_META
    schema: Schema | None = None  # only custom kinds have one
    columns: tuple[Column, ...] = ()
    scale: ScalePaths | None = None
    stored_as: str = ""  # the resource whose objects these are, under other field names
    aliases: Mapping[str, str] = {}  # those names, and what the field is called in the store

    @cached_property
    def place(self) -> str:
        """Where the objects are in the store."""
        return self.stored_as or self.resource

    @cached_property
    def resource(self) -> str:
        """The name that messages and the store use: `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def custom(self) -> bool:
        return self.schema is not None

    @cached_property
    def has_status(self) -> bool:
        return "status" in self.subresources

    @cached_property
    def envelope(self) -> bytes:
        """How the JSON of every object of this version begins."""
        return _json.encode({"kind": self.kind, "apiVersion": self.api_version})[:-1]


_json = msgspec.json.Encoder()


class Catalog:
    """All resources, found by where they live."""

    def __init__(self, served: Iterator[Served]) -> None:
        self._by_place: dict[tuple[str, str, str], Served] = {}
        self.edition = 0  # grows whenever something is added or dropped
        self.told: dict[str, bytes] = {}  # what was said of this edition at which path
        for one in served:
            self.add(one)

    def add(self, served: Served) -> None:
        self._by_place[served.group, served.version, served.plural] = served
        self._begin_edition()

    def drop(self, group: str, plural: str) -> None:
        for place in [p for p in self._by_place if p[0] == group and p[2] == plural]:
            del self._by_place[place]
        self._begin_edition()

    def _begin_edition(self) -> None:
        self.edition += 1
        self.told.clear()

    def find(self, group: str, version: str, plural: str) -> Served | None:
        return self._by_place.get((group, version, plural))

    def of_resource(self, resource: str) -> Served:
        """Any served version of a resource."""
        return next(s for s in self if s.resource == resource)

    def __iter__(self) -> Iterator[Served]:
        return iter(self._by_place.values())


def as_stored(served: Served, proposed: dict[str, Any]) -> dict[str, Any]:
    """An object with the field names it has in the store."""
    if not served.aliases:
        return proposed
    return {served.aliases.get(name, name): value for name, value in proposed.items()}


def as_shown(served: Served, stored: dict[str, Any]) -> dict[str, Any]:
    """An object with the field names it has at this version."""
    if not served.aliases:
        return stored
    shown = {inner: outer for outer, inner in served.aliases.items()}
    return {shown.get(name, name): value for name, value in stored.items()}


def at_path(value: Any, path: tuple[str, ...]) -> Any:
    """The value at a path of field names, or None where the path ends early."""
    for part in path:
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value

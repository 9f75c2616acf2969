"""CustomResourceDefinitions: how a definition becomes a resource that is served, and how it stops being one."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from defib.simulate.kinds.catalog import Catalog, Column, ScalePaths, Served
from defib.simulate.patches import shapes
from defib.simulate.schema.structural import Schema
from defib.simulate.store import DELETED, Change, Object, Store

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
_AGE = Column(name="Age", type="date", json_path=".metadata.creationTimestamp")


def completed(definition: Object) -> Object:
    """With the names it did not spell out, and the conditions of one that is in service."""
    spec = dict(definition.get("spec") or {})
    names = dict(spec.get("names") or {})
    kind = names.get("kind", "")
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    spec["names"] = names
    spec.setdefault("conversion", {"strategy": "None"})
    since = definition["metadata"].get("creationTimestamp")
    stored = [v["name"] for v in spec.get("versions") or () if v.get("storage") and "name" in v]
    status = {
        "conditions": [
            _condition("NamesAccepted", "NoConflicts", "no conflicts found", since),
            _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", since),
        ],
        "acceptedNames": names,
        "storedVersions": stored,
    }
    return {**definition, "spec": spec, "status": status}


def _condition(kind: str, reason: str, message: str, since: Any) -> dict[str, Any]:
    return {"type": kind, "status": "True", "lastTransitionTime": since, "reason": reason, "message": message}


def _path(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(".") if part)


def _scale(subresources: dict[str, Any]) -> ScalePaths | None:
    scale = subresources.get("scale")
    if scale is None:
        return None
    return ScalePaths(
        spec_replicas=_path(scale.get("specReplicasPath", "")),
        status_replicas=_path(scale.get("statusReplicasPath", "")),
        selector=_path(scale.get("labelSelectorPath", "")),
    )


def _columns(version: dict[str, Any]) -> tuple[Column, ...]:
    listed = version.get("additionalPrinterColumns")
    if not listed:
        return (_AGE,)
    return tuple(
        Column(
            name=column["name"],
            type=column["type"],
            json_path=column["jsonPath"],
            format=column.get("format", ""),
            description=column.get("description", ""),
            priority=column.get("priority", 0),
        )
        for column in listed
    )


@lru_cache(maxsize=256)
def _shape(schema: Schema) -> shapes.Shape:
    return shapes.custom_root(schema.root)


def served_by(definition: Object) -> Iterator[Served]:
    """One for each version that is served."""
    spec = definition["spec"]
    names = spec["names"]
    for version in spec["versions"]:
        if not version.get("served", True):
            continue
        root = (version.get("schema") or {}).get("openAPIV3Schema") or {"x-kubernetes-preserve-unknown-fields": True}
        subresources = version.get("subresources") or {}
        selectable = [field["jsonPath"] for field in version.get("selectableFields") or ()]
        schema = Schema(root)
        yield Served(
            group=spec["group"],
            version=version["name"],
            plural=names["plural"],
            kind=names["kind"],
            singular=names.get("singular", ""),
            list_kind=names.get("listKind", ""),
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            namespaced=spec["scope"] == "Namespaced",
            subresources=tuple(name for name in ("status", "scale") if subresources.get(name) is not None),
            counts_generation=True,
            unconditional_update=False,
            selectable={path.lstrip("."): _path(path) for path in selectable},
            shape=_shape(schema),
            schema=schema,
            columns=_columns(version),
            scale=_scale(subresources),
        )


class Registrar:
    """Keeps the catalog in step with the definitions in the store."""

    def __init__(self, store: Store, catalog: Catalog) -> None:
        self._store = store
        self._catalog = catalog

    def react(self, change: Change) -> None:
        if change.resource != DEFINITIONS:
            return
        definition = change.now.object
        group, plural = definition["spec"]["group"], definition["spec"]["names"]["plural"]
        self._catalog.drop(group, plural)
        if change.kind == DELETED:
            self._forget(f"{plural}.{group}")
            return
        for served in served_by(definition):
            self._catalog.add(served)

    def _forget(self, resource: str) -> None:
        """The objects go with their definition, and so do the watches on them."""
        collection = self._store.collection(resource)
        for version in list(collection.objects.values()):
            self._store.remove(resource, version.object)
        for listener in tuple(collection.listeners):
            listener.end()

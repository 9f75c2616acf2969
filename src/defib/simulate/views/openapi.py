"""As much OpenAPI as kubectl needs: which kinds there are, that the server validates fields, and custom schemas."""

from typing import Any

from defib.simulate.answers import Answer, as_json
from defib.simulate.kinds.catalog import Catalog, Served

_ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_STRING = {"type": "string"}


def answer(catalog: Catalog, path: str) -> Answer | None:
    if path == "/openapi/v3":
        places = dict.fromkeys(_place(served) for served in catalog)
        paths = {place: {"serverRelativeURL": f"/openapi/v3/{place}?hash={catalog.edition}"} for place in places}
        return as_json({"paths": paths})
    place = path.removeprefix("/openapi/v3/")
    here = [served for served in catalog if _place(served) == place]
    return as_json(_document(here)) if here else None


def _place(served: Served) -> str:
    return f"apis/{served.group}/{served.version}" if served.group else f"api/{served.version}"


def _document(here: list[Served]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for served in here:
        where = f"/{_place(served)}/{'namespaces/{namespace}/' if served.namespaced else ''}{served.plural}"
        paths[where] = {"post": _operation(served, "post")}
        paths[f"{where}/{{name}}"] = {
            method: _operation(served, method) for method in ("get", "put", "patch", "delete")
        }
        schemas[_name(served)] = _schema(served)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Defib's embedded Kubernetes", "version": "v1.37.1"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _gvk(served: Served) -> dict[str, str]:
    return {"group": served.group, "version": served.version, "kind": served.kind}


def _name(served: Served) -> str:
    return ".".join(["defib", *reversed(served.group.split(".")), served.version, served.kind]).replace("..", ".")


def _operation(served: Served, method: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{_name(served)}"}}}
    made: dict[str, Any] = {
        "responses": {"200": {"description": "OK", "content": content}},
        "x-kubernetes-action": method,
        "x-kubernetes-group-version-kind": _gvk(served),
    }
    if method in ("post", "put", "patch"):
        # kubectl looks for this before it leaves the checking of fields to the server.
        names = ("dryRun", "fieldManager", "fieldValidation")
        made["parameters"] = [{"name": name, "in": "query", "schema": _STRING} for name in names]
        made["requestBody"] = {"content": content}
    return made


def _schema(served: Served) -> dict[str, Any]:
    root: dict[str, Any] = dict(served.schema.root) if served.schema else dict(_ANY)
    properties: dict[str, Any] = {"apiVersion": _STRING, "kind": _STRING, "metadata": {"type": "object"}}
    root["properties"] = {**properties, **(root.get("properties") or {})}
    return {**root, "x-kubernetes-group-version-kind": [_gvk(served)]}

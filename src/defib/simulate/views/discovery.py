"""What the server says about itself: its version, its health, and what lives where."""

from typing import Any

import msgspec

from defib.kube.transport import Request
from defib.simulate.answers import Answer, as_json, plain
from defib.simulate.kinds.catalog import Catalog, Served
from defib.simulate.views import openapi

VERSION = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.1+defib",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
_json = msgspec.json.Encoder()
_HEALTH = ("/healthz", "/readyz", "/livez")
_ONE_CHECK = tuple(f"{path}/" for path in _HEALTH)
_SCALE_KIND = {"group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get", "patch", "update"]}
_SPECIAL: dict[str, dict[str, Any]] = {
    "scale": _SCALE_KIND,
    "eviction": {"group": "policy", "version": "v1", "kind": "Eviction", "verbs": ["create"]},
    "binding": {"kind": "Binding", "verbs": ["create"]},
    "finalize": {"verbs": ["update"]},
}


def answer(catalog: Catalog, request: Request) -> Answer | None:
    """None when the path is one for objects."""
    path = request.path.rstrip("/")
    parts = path.split("/")
    if len(parts) > 4 and parts[1] in ("api", "apis"):  # noqa: PLR2004 - no path about ourselves is that deep
        return None
    if path in _HEALTH or path.startswith(_ONE_CHECK):
        return plain("ok")
    if path == "/version":
        return as_json(VERSION)
    if path.startswith("/openapi/"):
        return openapi.answer(catalog, path)
    if path not in catalog.told:
        described = _described(catalog, parts)
        if described is None:
            return None
        catalog.told[path] = _json.encode(described)
    return Answer(200, catalog.told[path])


def _described(catalog: Catalog, parts: list[str]) -> dict[str, Any] | None:
    match parts:
        case ["", "api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["", "apis"]:
            groups = dict.fromkeys(s.group for s in catalog if s.group)
            listed = [_group(catalog, group) for group in groups]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
        case ["", "apis", group] if any(s.group == group for s in catalog):
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(catalog, group)}
        case ["", "api", "v1"]:
            return _resources(catalog, "", "v1")
        case ["", "apis", group, version] if any((s.group, s.version) == (group, version) for s in catalog):
            return _resources(catalog, group, version)
    return None


def _group(catalog: Catalog, group: str) -> dict[str, Any]:
    versions = sorted(dict.fromkeys(s.version for s in catalog if s.group == group), key=_rank)
    listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def _rank(version: str) -> tuple[int, list[int]]:
    """The newest stable version first, then betas, then alphas."""
    level = 2 if "alpha" in version else 1 if "beta" in version else 0
    numbers = [int(n) for n in version.replace("v", " ").replace("alpha", " ").replace("beta", " ").split()]
    return level, [-n for n in numbers]


def _resources(catalog: Catalog, group: str, version: str) -> dict[str, Any]:
    listed: list[dict[str, Any]] = []
    for served in catalog:
        if (served.group, served.version) == (group, version):
            listed += _resource(served)
    here = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": here, "resources": listed}


def _resource(served: Served) -> list[dict[str, Any]]:
    one: dict[str, Any] = {
        "name": served.plural,
        "singularName": served.singular or served.kind.lower(),
        "namespaced": served.namespaced,
        "kind": served.kind,
        "verbs": list(served.verbs),
    }
    if served.short_names:
        one["shortNames"] = list(served.short_names)
    if served.categories:
        one["categories"] = list(served.categories)
    return [one, *(_subresource(served, name) for name in served.subresources)]


def _subresource(served: Served, name: str) -> dict[str, Any]:
    plain_one = {"kind": served.kind, "verbs": ["get", "patch", "update"]}
    about = {"name": f"{served.plural}/{name}", "singularName": "", "namespaced": served.namespaced}
    return {**about, **plain_one, **_SPECIAL.get(name, {})}

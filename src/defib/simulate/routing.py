"""From a path to the thing it names, and from a method to the verb of the API."""

from functools import lru_cache

import msgspec

from defib.kube.transport import Request
from defib.simulate.kinds.catalog import Catalog, Served
from defib.simulate.refusals import Refusal, method_not_allowed, no_such_resource

_OF_NAMESPACE = ("status", "finalize")
_COLLECTION_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_OBJECT_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_CREATED_SUBRESOURCES = ("eviction", "binding")


class Call(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request for objects, understood."""

    request: Request
    client: str
    verb: str
    served: Served
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def dry_run(self) -> bool:
        return "dryRun" in self.request.query

    @property
    def manager(self) -> str:
        return self.request.query.get("fieldManager") or self.client


class UnknownGroup(Refusal):
    """Answered in plain text: no API lives at that path at all."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found\n")


def _split(path: str) -> tuple[str, str, list[str]]:
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:  # noqa: PLR2004
        return "", parts[1], parts[2:]
    if parts[0] == "apis" and len(parts) > 3:  # noqa: PLR2004
        return parts[1], parts[2], parts[3:]
    raise UnknownGroup


def _find(catalog: Catalog, group: str, version: str, plural: str) -> Served:
    served = catalog.find(group, version, plural)
    if served:
        return served
    if any(s.group == group and s.version == version for s in catalog):
        raise no_such_resource()
    raise UnknownGroup


def _verb(request: Request, served: Served, name: str, subresource: str) -> str:
    if subresource in _CREATED_SUBRESOURCES:
        verb = "create" if request.method == "POST" else None
    else:
        verb = (_OBJECT_VERBS if name else _COLLECTION_VERBS).get(request.method)
        if verb == "list" and request.query.get("watch") in ("1", "true"):
            verb = "watch"
    if verb is None or (not subresource and verb not in served.verbs):
        raise method_not_allowed()
    return verb


@lru_cache(maxsize=4096)  # the same few are asked for all the time
def _address(path: str) -> tuple[str, str, str, str, str, str]:
    """Group, version, namespace, plural, name and subresource."""
    group, version, rest = _split(path)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (len(rest) == 3 and rest[2] in _OF_NAMESPACE):  # noqa: PLR2004
        namespace, rest = rest[1], rest[2:]
    return group, version, namespace, rest[0], rest[1] if len(rest) > 1 else "", "/".join(rest[2:])


def understand(catalog: Catalog, request: Request, client: str) -> Call:
    group, version, namespace, plural, name, subresource = _address(request.path)
    served = _find(catalog, group, version, plural)
    if bool(namespace) != served.namespaced and (namespace or name):
        raise no_such_resource()
    if subresource and subresource not in served.subresources:
        raise no_such_resource()
    verb = _verb(request, served, name, subresource)
    if served.namespaced and not namespace and verb in ("create", "deletecollection"):
        raise method_not_allowed()
    return Call(
        request=request,
        client=client,
        verb=verb,
        served=served,
        namespace=namespace,
        name=name,
        subresource=subresource,
    )

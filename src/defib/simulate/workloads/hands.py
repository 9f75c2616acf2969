"""How a controller writes: as requests to the API server, under its own name, so that all of it is audited and watched."""

from typing import Any

import msgspec

from defib.kube.transport import MERGE_PATCH, Request
from defib.simulate.kinds import metadata
from defib.simulate.server import ApiServer
from defib.simulate.store import Object

_HTTP_REFUSED = 400
_encode = msgspec.json.encode


class Refused(Exception):
    """The API server did not take a write."""


class Hands:
    def __init__(self, server: ApiServer, name: str) -> None:
        self._server = server
        self._name = name
        self._roots: dict[str, tuple[str, str]] = {}

    def create(self, resource: str, body: Object) -> Object:
        path = self._collection(resource, body["metadata"].get("namespace", ""))
        answer = self._ask(Request(method="POST", path=path, body=_encode(body)))
        made: Object = msgspec.json.decode(answer)
        return made

    def patch(self, resource: str, stored: Object, body: Object, subresource: str = "") -> None:
        """Only while the object is the one we looked at."""
        whole = {**body, "metadata": {**body.get("metadata", {}), "uid": stored["metadata"]["uid"]}}
        path = self._path(resource, stored, subresource)
        self._ask(Request(method="PATCH", path=path, body=_encode(whole), content_type=MERGE_PATCH))

    def set_status(self, resource: str, stored: Object, status: Object) -> None:
        """The status as a whole; nothing is written when it is that already."""
        old = stored.get("status") or {}
        changed = {name: value for name, value in status.items() if name not in old or old[name] != value}
        changed |= {name: None for name in old if name not in status}
        if changed:
            self.patch(resource, stored, {"status": changed}, "status")

    def delete(self, resource: str, stored: Object, grace_seconds: int | None = None) -> None:
        options: dict[str, Any] = {"preconditions": {"uid": stored["metadata"]["uid"]}}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        self._ask(Request(method="DELETE", path=self._path(resource, stored), body=_encode(options)))

    def bind(self, pod: Object, node: str) -> None:
        body = {"metadata": {"name": pod["metadata"]["name"]}, "target": {"kind": "Node", "name": node}}
        self._ask(Request(method="POST", path=self._path("pods", pod, "binding"), body=_encode(body)))

    def tell(self, about: Object, reason: str, message: str) -> None:
        """A warning about a pod."""
        meta, now = about["metadata"], metadata.stamp(self._server.clock.now())
        body = {
            "metadata": {"generateName": f"{meta['name']}.", "namespace": meta["namespace"]},
            "involvedObject": {
                "kind": "Pod",
                "apiVersion": "v1",
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
            },
            "type": "Warning",
            "reason": reason,
            "message": message,
            "source": {"component": self._name},
            "reportingComponent": self._name,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self.create("events", body)

    def _ask(self, request: Request) -> bytes:
        answer = self._server.answer(request, self._name)
        if answer.status >= _HTTP_REFUSED:
            raise Refused(f"{request.method} {request.path}: {answer.status} {answer.body.decode()}")
        return answer.body

    def _collection(self, resource: str, namespace: str) -> str:
        known = self._roots.get(resource)
        if known is None:
            served = self._server.catalog.of_resource(resource)
            root = f"/apis/{served.group}/{served.version}" if served.group else f"/api/{served.version}"
            known = self._roots[resource] = root, served.plural
        root, plural = known
        return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"

    def _path(self, resource: str, stored: Object, subresource: str = "") -> str:
        meta = stored["metadata"]
        path = f"{self._collection(resource, meta.get('namespace', ''))}/{meta['name']}"
        return f"{path}/{subresource}" if subresource else path

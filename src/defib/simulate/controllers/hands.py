"""How a controller writes: by the same rules as everybody, under its own name, but without a request."""

from defib.kube.transport import Request
from defib.simulate.deleting import DeleteOptions
from defib.simulate.routing import Call
from defib.simulate.server import ApiServer
from defib.simulate.store import Object, Version, key_of


class Hands:
    def __init__(self, server: ApiServer, name: str) -> None:
        self._server = server
        self._name = name

    def delete(self, resource: str, version: Version, policy: str = "Background") -> None:
        """A version that is no longer the latest is left alone: its change is still on the way to us."""
        if self._server.store.get(resource, key_of(version.object)) is not version:
            return
        served = self._server.catalog.of_resource(resource)
        self._server.deleter.delete(served, version, DeleteOptions(propagation_policy=policy))

    def replace(self, resource: str, version: Version, proposed: Object, subresource: str = "") -> None:
        if self._server.store.get(resource, key_of(version.object)) is not version:
            return
        meta = version.object["metadata"]
        call = Call(
            request=Request(method="PUT", path=""),
            client=self._name,
            verb="update",
            served=self._server.catalog.of_resource(resource),
            namespace=meta.get("namespace", ""),
            name=meta["name"],
            subresource=subresource,
        )
        self._server.writer.replace(call, version, proposed)

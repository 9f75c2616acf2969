"""Namespace deletion: everything in it goes first, then the namespace itself."""

from defib.simulate.controllers.hands import Hands
from defib.simulate.server import ApiServer
from defib.simulate.store import DELETED, Change, Version


class NamespaceController:
    def __init__(self, server: ApiServer) -> None:
        self._store = server.store
        self._hands = Hands(server, "namespace-controller")
        self._ending: dict[str, None] = {}

    def react(self, change: Change) -> None:
        meta = change.now.object["metadata"]
        if change.resource != "namespaces":
            if change.kind == DELETED and meta.get("namespace") in self._ending:
                self._finish(meta["namespace"])
        elif change.kind == DELETED:
            self._ending.pop(meta["name"], None)
        elif meta.get("deletionTimestamp") and meta["name"] not in self._ending:
            self._ending[meta["name"]] = None
            for resource, version in self._content(meta["name"]):
                self._hands.delete(resource, version)
            self._finish(meta["name"])

    def _content(self, namespace: str) -> list[tuple[str, Version]]:
        return [
            (resource, collection.objects[key])
            for resource, collection in list(self._store.collections().items())
            for key in list(collection.keys())
            if key.startswith(f"{namespace}/")
        ]

    def _finish(self, name: str) -> None:
        version = self._store.get("namespaces", name)
        if version is None or self._content(name):
            return
        spec = {k: v for k, v in version.object["spec"].items() if k != "finalizers"}
        self._hands.replace("namespaces", version, {**version.object, "spec": spec}, subresource="finalize")

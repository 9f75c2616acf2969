"""What the controllers look up again and again: pods by node and by claim, objects by owner."""

from typing import Any

from defib.simulate.store import DELETED, Change, Object, Store

_Keys = dict[str, None]  # a set that keeps its order, for determinism
_INDEXED = ("pods", "replicasets.apps")


class Sight:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._on_node: dict[str, _Keys] = {}
        self._of_owner: dict[tuple[str, str], _Keys] = {}
        self._with_claim: dict[str, _Keys] = {}
        for resource in _INDEXED:
            collection = store.collection(resource)
            for key in collection.keys():  # noqa: SIM118 - sorted
                self._learn(resource, key, collection.objects[key].object)

    def react(self, change: Change) -> None:
        if change.resource not in _INDEXED:
            return
        key = change.key
        if change.before:
            if change.kind != DELETED and not _moved(change.before.object, change.now.object):
                return
            self._forget(change.resource, key, change.before.object)
        if change.kind != DELETED:
            self._learn(change.resource, key, change.now.object)

    def get(self, resource: str, key: str) -> Object | None:
        found = self._store.get(resource, key)
        return found.object if found else None

    def all(self, resource: str) -> list[Object]:
        collection = self._store.collection(resource)
        return [collection.objects[key].object for key in collection.keys()]  # noqa: SIM118 - sorted

    def keys(self, resource: str) -> list[str]:
        return list(self._store.collection(resource).keys())

    def on_node(self, node: str) -> list[Object]:
        return self._found("pods", self._on_node.get(node))

    def nodes_with_pods(self) -> list[str]:
        return sorted(node for node, keys in self._on_node.items() if node and keys)

    def owned(self, owner: Object, resource: str) -> list[Object]:
        """Of which it is the controller, in the order in which they came to be known."""
        return self._found(resource, self._of_owner.get((resource, owner["metadata"]["uid"])))

    def with_claim(self, claim: str) -> list[Object]:
        """The pods that use a claim, given as namespace/name."""
        return self._found("pods", self._with_claim.get(claim))

    def _found(self, resource: str, keys: _Keys | None) -> list[Object]:
        if not keys:
            return []
        objects = self._store.collection(resource).objects
        return [objects[key].object for key in keys if key in objects]

    def _learn(self, resource: str, key: str, stored: Object) -> None:
        for index, value in self._places(resource, stored):
            index.setdefault(value, {})[key] = None

    def _forget(self, resource: str, key: str, stored: Object) -> None:
        for index, value in self._places(resource, stored):
            index.get(value, {}).pop(key, None)

    def _places(self, resource: str, stored: Object) -> list[tuple[dict[Any, _Keys], Any]]:
        places: list[tuple[dict[Any, _Keys], Any]] = []
        owner = controller_of(stored)
        if owner:
            places.append((self._of_owner, (resource, owner["uid"])))
        if resource == "pods":
            places.append((self._on_node, stored["spec"].get("nodeName", "")))
            places += [(self._with_claim, claim) for claim in claims_of(stored)]
        return places


def controller_of(stored: Object) -> dict[str, Any] | None:
    return next((o for o in stored["metadata"].get("ownerReferences") or () if o.get("controller")), None)


def claims_of(pod: Object) -> list[str]:
    """The claims of a pod's volumes, as namespace/name."""
    meta = pod["metadata"]
    found = []
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            found.append(f"{meta['namespace']}/{volume['persistentVolumeClaim']['claimName']}")
        elif "ephemeral" in volume:
            found.append(f"{meta['namespace']}/{meta['name']}-{volume['name']}")
    return found


def _moved(before: Object, now: Object) -> bool:
    """Whether it changed its place in an index. The volumes of a pod never change."""
    if before.get("spec", {}).get("nodeName") != now.get("spec", {}).get("nodeName"):
        return True
    return controller_of(before) != controller_of(now)

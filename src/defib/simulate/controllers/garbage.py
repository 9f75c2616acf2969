"""Garbage collection by owner references: dependents go after their owner, before it, or stay as orphans."""

from typing import Any

from defib.simulate.controllers.hands import Hands
from defib.simulate.server import ApiServer
from defib.simulate.store import DELETED, Change, Object, Version, key_of

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
_Place = tuple[str, str]  # resource and key


def owners_of(stored: Object) -> list[dict[str, Any]]:
    return stored["metadata"].get("ownerReferences") or []


def _has_finalizer(stored: Object, name: str) -> bool:
    meta = stored["metadata"]
    return bool(meta.get("deletionTimestamp")) and name in (meta.get("finalizers") or ())


def _without_finalizer(stored: Object, name: str) -> Object:
    meta = stored["metadata"]
    return {**stored, "metadata": {**meta, "finalizers": [f for f in meta["finalizers"] if f != name]}}


class GarbageCollector:
    def __init__(self, server: ApiServer) -> None:
        self._store = server.store
        self._hands = Hands(server, "generic-garbage-collector")
        self._places: dict[str, _Place] = {}  # every living object by its UID
        self._dependents: dict[str, dict[_Place, None]] = {}  # by the UID of the owner
        for resource, collection in server.store.collections().items():
            for key, version in collection.objects.items():
                self._learn((resource, key), version.object)

    def react(self, change: Change) -> None:
        stored = change.now.object
        place = (change.resource, change.key)
        if change.before:
            self._unlearn(place, change.before.object)
        if change.kind == DELETED:
            self._owner_is_gone(stored)
            self._dependent_is_gone(stored)
            return
        self._learn(place, stored)
        if _has_finalizer(stored, ORPHAN):
            self._orphan_dependents(change)
        elif _has_finalizer(stored, FOREGROUND):
            self._delete_dependents(change.resource, stored)
        elif owners_of(stored) and not stored["metadata"].get("deletionTimestamp"):
            self._collect(*place)

    def _learn(self, place: _Place, stored: Object) -> None:
        self._places[stored["metadata"]["uid"]] = place
        for owner in owners_of(stored):
            self._dependents.setdefault(owner["uid"], {})[place] = None

    def _unlearn(self, place: _Place, stored: Object) -> None:
        self._places.pop(stored["metadata"]["uid"], None)
        for owner in owners_of(stored):
            self._dependents.get(owner["uid"], {}).pop(place, None)

    def _alive(self, owner: dict[str, Any], namespace: str) -> bool:
        """An owner in another namespace is none at all."""
        place = self._places.get(owner["uid"])
        return place is not None and ("/" not in place[1] or place[1].partition("/")[0] == namespace)

    def _dependents_of(self, uid: str) -> list[tuple[str, Version]]:
        found = [(r, self._store.get(r, key)) for r, key in self._dependents.get(uid, {})]
        return [(resource, version) for resource, version in found if version is not None]

    def _owner_is_gone(self, owner: Object) -> None:
        for resource, version in self._dependents_of(owner["metadata"]["uid"]):
            self._collect(resource, key_of(version.object))
        self._dependents.pop(owner["metadata"]["uid"], None)

    def _collect(self, resource: str, key: str) -> None:
        """Deletes an object whose owners are all gone; drops the references to those that are."""
        version = self._store.get(resource, key)
        if version is None or version.object["metadata"].get("deletionTimestamp"):
            return
        meta = version.object["metadata"]
        alive = [o for o in owners_of(version.object) if self._alive(o, meta.get("namespace", ""))]
        if not alive:
            self._hands.delete(resource, version)
        elif len(alive) < len(owners_of(version.object)):
            self._hands.replace(resource, version, {**version.object, "metadata": {**meta, "ownerReferences": alive}})

    def _orphan_dependents(self, change: Change) -> None:
        uid = change.now.object["metadata"]["uid"]
        for resource, version in self._dependents_of(uid):
            meta = version.object["metadata"]
            others = [o for o in owners_of(version.object) if o["uid"] != uid]
            self._hands.replace(resource, version, {**version.object, "metadata": {**meta, "ownerReferences": others}})
        self._let_go(change.resource, change.now.object, ORPHAN)

    def _delete_dependents(self, resource: str, owner: Object) -> None:
        """In the foreground the owner waits for those that block it."""
        uid = owner["metadata"]["uid"]
        blocking = [
            (r, v)
            for r, v in self._dependents_of(uid)
            if any(o["uid"] == uid and o.get("blockOwnerDeletion") for o in owners_of(v.object))
        ]
        for place, version in blocking:
            if not version.object["metadata"].get("deletionTimestamp"):
                self._hands.delete(place, version, "Foreground" if self._owns(version) else "Background")
        if not blocking:
            self._let_go(resource, owner, FOREGROUND)

    def _owns(self, version: Version) -> bool:
        return bool(self._dependents.get(version.object["metadata"]["uid"]))

    def _dependent_is_gone(self, dependent: Object) -> None:
        for reference in owners_of(dependent):
            place = self._places.get(reference["uid"])
            owner = self._store.get(*place) if place else None
            if place and owner and _has_finalizer(owner.object, FOREGROUND):
                self._delete_dependents(place[0], owner.object)

    def _let_go(self, resource: str, stored: Object, finalizer: str) -> None:
        latest = self._store.get(resource, key_of(stored))
        if latest and _has_finalizer(latest.object, finalizer):
            self._hands.replace(resource, latest, _without_finalizer(latest.object, finalizer))

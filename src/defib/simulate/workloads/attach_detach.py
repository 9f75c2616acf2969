"""Attach-detach: a volume is attached where a pod needs it, and taken away when nobody does and that is safe.

Safe means that the node no longer lists the volume as in use. A node that cannot say so any more gives it up after the
wait for unmounting if it is not ready, and at once if it is out of service. What somebody else has detached is thought
to be attached until the next look.
"""

import hashlib
from collections.abc import Collection
from math import ceil
from typing import Any

from defib.simulate.store import DELETED, Change, Object
from defib.simulate.workloads import claims, nodes, pods
from defib.simulate.workloads.claims import CLAIMS, VOLUMES
from defib.simulate.workloads.controller import Controller
from defib.simulate.workloads.sight import claims_of

ATTACHMENTS = "volumeattachments.storage.k8s.io"
DRIVERS = "csidrivers.storage.k8s.io"
_INSTANT = 1e-6  # seconds that are no time
MANAGED = "volumes.kubernetes.io/controller-managed-attach-detach"


class AttachDetach(Controller):
    """Its keys are the names of volumes: whatever happens, the question is who may have which volume."""

    name = "attachdetach-controller"
    resource = VOLUMES
    listens = ("pods", "nodes", CLAIMS, VOLUMES, ATTACHMENTS)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._unwanted: dict[str, float] = {}  # attachments nobody needs, and since when
        self._asked: dict[str, float] = {}  # attachments whose driver has not been heard, and since when
        self._leaving: dict[str, float] = {}  # volumes on their way out of a node, and since when
        self._looks: dict[
            tuple[str, float], float
        ] = {}  # when we look next at what was asked for, or leaves, since when
        self._given_up: set[str] = set()  # attachments that we have detached
        self._missing: dict[str, tuple[Object, float]] = {}  # by volume: what somebody else has detached, and when
        self._started = 0.0
        self._in_use: dict[str, list[str]] = {}  # what a node said last; it still counts when the node is gone
        self._told: dict[str, dict[str, None]] = {}  # pods, by UID, with the volumes they know they wait for

    def start(self) -> None:
        super().start()
        self._started = self.clock.monotonic()
        for node in self.sight.all("nodes"):
            self._in_use[node["metadata"]["name"]] = _in_use(node)

    def notice(self, change: Change) -> None:
        stored = change.now.object
        match change.resource:
            case "pods":
                self._look_at_claims(claims_of(stored))
                if change.kind == DELETED:
                    self._told.pop(stored["metadata"]["uid"], None)
            case "nodes":
                self._notice_node(change)
            case "persistentvolumeclaims":
                if stored["spec"].get("volumeName"):
                    self.look_at(stored["spec"]["volumeName"])
            case "persistentvolumes":
                self.look_at(stored["metadata"]["name"])
            case _:
                self._look_at_attached(stored)
                if change.kind == DELETED:
                    self._forget(stored)

    def _forget(self, attachment: Object) -> None:
        name, volume = attachment["metadata"]["name"], attachment["spec"]["source"].get("persistentVolumeName")
        was_attached = name not in self._asked
        if volume and was_attached and name not in self._given_up:
            self._missing[volume] = (attachment, self.clock.monotonic())
        else:
            self._unwanted.pop(name, None)
        self._asked.pop(name, None)
        self._given_up.discard(name)

    def _look_at_claims(self, names: list[str]) -> None:
        for name in names:
            claim = self.sight.get(CLAIMS, name)
            if claim and claim["spec"].get("volumeName"):
                self.look_at(claim["spec"]["volumeName"])

    def _look_at_attached(self, attachment: Object) -> None:
        volume = attachment["spec"]["source"].get("persistentVolumeName")
        if volume:
            self.look_at(volume)

    def _notice_node(self, change: Change) -> None:
        name = change.now.object["metadata"]["name"]
        self._in_use[name] = _in_use(change.now.object)
        for attachment in self.sight.all(ATTACHMENTS):
            if attachment["spec"]["nodeName"] == name:
                self._look_at_attached(attachment)
        for volume, (attachment, _) in self._missing.items():
            if attachment["spec"]["nodeName"] == name:
                self.look_at(volume)
        if change.before is None:
            for pod in self.sight.on_node(name):
                self._look_at_claims(claims_of(pod))

    def handle(self, key: str) -> None:
        volume = self.sight.get(VOLUMES, key)
        attached = [a for a in self.sight.all(ATTACHMENTS) if _is_ours(a, key, volume)]
        needed = self._needed(volume) if volume else {}
        for attachment in attached:
            if attachment["spec"]["nodeName"] in needed:
                self._unwanted.pop(attachment["metadata"]["name"], None)
                self._report(key, attachment)
            else:
                self._detach(key, attachment)
        if volume is not None and needed:
            self._attach(volume, needed)

    def _needed(self, volume: Object) -> dict[str, list[Object]]:
        """The nodes that should have a volume, with the pods that want it there."""
        found: dict[str, list[Object]] = {}
        reference = volume["spec"].get("claimRef") or {}
        name = f"{reference.get('namespace')}/{reference.get('name')}"
        claim = self.sight.get(CLAIMS, name)
        if claim is None or claims.volume_of(self.sight, claim) is not volume or not self._attachable(volume):
            return found
        for pod in self.sight.with_claim(name):
            node = pod["spec"].get("nodeName")
            if node and not pods.stopped(pod) and self._manages(node, volume):
                found.setdefault(node, []).append(pod)
        return found

    def _attachable(self, volume: Object) -> bool:
        driver = volume["spec"].get("csi", {}).get("driver")
        if not driver:
            return False
        known = self.sight.get(DRIVERS, driver)
        return known is None or (known.get("spec") or {}).get("attachRequired", True)

    def _manages(self, name: str, volume: Object) -> bool:
        """A kubelet says whether it leaves attaching to us. A node that went away keeps what it had."""
        node = self.sight.get("nodes", name)
        if node is None:
            return self.sight.get(ATTACHMENTS, _name(volume, name)) is not None
        return claims.annotation(node, MANAGED) == "true"

    def _attach(self, volume: Object, needed: dict[str, list[Object]]) -> None:
        attached = [a for a in self.sight.all(ATTACHMENTS) if _is_ours(a, volume["metadata"]["name"], volume)]
        places = {a["spec"]["nodeName"] for a in attached}
        exclusive = claims.is_exclusive(volume)
        name = volume["metadata"]["name"]
        if exclusive and not places and (self._is_leaving(name) or self._is_missing(name, needed)):
            return
        for node, wanting in needed.items():
            if node in places or self.sight.get("nodes", node) is None:
                continue
            if places and exclusive:
                if any(_is_attached(a) for a in attached):
                    self._tell(volume, wanting, places)
                continue
            self._ask_for(volume, node)
            places.add(node)

    def _ask_for(self, volume: Object, node: str) -> None:
        name = _name(volume, node)
        body = {
            "metadata": {"name": name},
            "spec": {
                "attacher": volume["spec"]["csi"]["driver"],
                "nodeName": node,
                "source": {"persistentVolumeName": volume["metadata"]["name"]},
            },
        }
        self.hands.create(ATTACHMENTS, body)
        self._asked[name] = self.clock.monotonic()

    def _is_leaving(self, volume: str) -> bool:
        """It is gone, but we have not looked since."""
        if volume not in self._leaving:
            return False
        left = self._until_look(volume, self._leaving[volume])
        if left:
            self.look_after(volume, left)
            return True
        del self._leaving[volume]
        return False

    def _is_missing(self, volume: str, needed: Collection[str]) -> bool:
        """Somebody else has detached it, and we do not know yet. Where nobody wants it, our own detaching finds out."""
        if volume not in self._missing:
            return False
        attachment, since = self._missing[volume]
        name, now, every = attachment["metadata"]["name"], self.clock.monotonic(), self.timers.verify_seconds
        left = self._started + ceil((since - self._started) / every) * every - now
        if attachment["spec"]["nodeName"] not in needed:
            wait = self._still_to_wait(attachment, now - self._unwanted.setdefault(name, now))
            left = min(left, wait) if wait >= 0 else left
        if left > _INSTANT:
            self.look_after(volume, left)
            return True
        del self._missing[volume]
        self._unwanted.pop(name, None)
        return False

    def _until_look(self, what: str, since: float) -> float:
        """Seconds until the next look at what was asked of a driver; 0 when that is now. Real time is never on the dot."""
        poll, now = self.timers.attach_poll_seconds, self.clock.monotonic()
        planned = self._looks.setdefault((what, since), since + max(1, ceil((now - since) / poll - _INSTANT)) * poll)
        if planned - now > _INSTANT:
            return planned - now
        del self._looks[what, since]
        return 0.0

    def _tell(self, volume: Object, wanting: list[Object], places: set[str]) -> None:
        """Once per pod and volume."""
        name = volume["metadata"]["name"]
        users = [p for node in sorted(places) for p in self._needed(volume).get(node, [])]
        for pod in wanting:
            told = self._told.setdefault(pod["metadata"]["uid"], {})
            if name in told:
                continue
            told[name] = None
            why = (
                "Volume is already exclusively attached to one node, "
                "waiting on detach before it can be attached to another node"
            )
            if users:
                listed = ", ".join(sorted(p["metadata"]["name"] for p in users))
                why = f"Volume is already used by pod(s) {listed}"
            self.hands.tell(pod, "FailedAttachVolume", f'Waiting for detach for volume "{name}" {why}')

    def _detach(self, volume: str, attachment: Object) -> None:
        name, node_name = attachment["metadata"]["name"], attachment["spec"]["nodeName"]
        waited = self.clock.monotonic() - self._unwanted.setdefault(name, self.clock.monotonic())
        left = self._still_to_wait(attachment, waited)
        if left > 0:
            self.look_after(volume, left)
        elif left == 0 and name not in self._given_up:
            self._given_up.add(name)
            self._unreport(node_name, attachment)
            self._leaving[volume] = self.clock.monotonic()
            if not pods.terminating(attachment):  # else the driver is at it already
                self.hands.delete(ATTACHMENTS, attachment)

    def _still_to_wait(self, attachment: Object, waited: float) -> float:
        """Seconds until an unwanted attachment may go; negative when only a change can tell."""
        node_name = attachment["spec"]["nodeName"]
        asked = self._asked.get(attachment["metadata"]["name"])
        if not (attachment.get("status") or {}).get("attached"):
            # It may be on its way, and cannot be called back.
            since = waited if asked is None else self.clock.monotonic() - asked
            return max(0.0, self.timers.attach_seconds - since)
        if self._unique_name(attachment) not in self._in_use.get(node_name, []):
            return 0.0
        node = self.sight.get("nodes", node_name)
        if node and nodes.out_of_service(node):
            return 0.0
        left = max(0.0, self.timers.unmount_seconds - waited)
        if not left and node and nodes.is_ready(node):
            return -1.0  # a node that is well will say itself when it is done
        return left

    def _unique_name(self, attachment: Object) -> str:
        volume = self.sight.get(VOLUMES, attachment["spec"]["source"]["persistentVolumeName"])
        return unique_name(volume) if volume else ""

    def _report(self, volume: str, attachment: Object) -> None:
        """Tells the kubelet that it may mount."""
        if not _is_attached(attachment):
            return
        asked = self._asked.get(attachment["metadata"]["name"])
        if asked is not None:
            if left := self._until_look(attachment["metadata"]["name"], asked):
                self.look_after(volume, left)
                return
            del self._asked[attachment["metadata"]["name"]]
        node = self.sight.get("nodes", attachment["spec"]["nodeName"])
        name = self._unique_name(attachment)
        known = _attached_to(node) if node else []
        if node is not None and name and all(one["name"] != name for one in known):
            said = [*known, {"name": name, "devicePath": ""}]
            self.hands.patch("nodes", node, {"status": {"volumesAttached": said}}, "status")

    def _unreport(self, node_name: str, attachment: Object) -> None:
        """From now on it is not safe to mount; the kubelet must know before the volume goes."""
        node, name = self.sight.get("nodes", node_name), self._unique_name(attachment)
        if node is None:
            return
        kept = [one for one in _attached_to(node) if one["name"] != name]
        if len(kept) < len(_attached_to(node)):
            self.hands.patch("nodes", node, {"status": {"volumesAttached": kept or None}}, "status")


def _is_attached(attachment: Object) -> bool:
    """And not on its way out."""
    return bool((attachment.get("status") or {}).get("attached")) and not pods.terminating(attachment)


def unique_name(volume: Object) -> str:
    """As nodes name a volume in their status."""
    csi = volume["spec"]["csi"]
    return f"kubernetes.io/csi/{csi['driver']}^{csi['volumeHandle']}"


def _name(volume: Object, node: str) -> str:
    csi = volume["spec"]["csi"]
    digest = hashlib.sha256(f"{csi['volumeHandle']}{csi['driver']}{node}".encode()).hexdigest()
    return f"csi-{digest}"


def _is_ours(attachment: Object, volume_name: str, volume: Object | None) -> bool:
    """Made by this controller; what others attach is theirs to detach."""
    spec = attachment["spec"]
    if spec["source"].get("persistentVolumeName") != volume_name:
        return False
    if volume is None:
        return True
    return bool(attachment["metadata"]["name"] == _name(volume, spec["nodeName"]))


def _in_use(node: Object) -> list[str]:
    return list((node.get("status") or {}).get("volumesInUse") or ())


def _attached_to(node: Object) -> list[dict[str, Any]]:
    return list((node.get("status") or {}).get("volumesAttached") or ())

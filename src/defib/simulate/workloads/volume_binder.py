"""The volume binder: claims and volumes find each other. Making volumes is the storage driver's business."""

from typing import Any

from defib.simulate.store import DELETED, Change, Object, key_of
from defib.simulate.workloads import claims
from defib.simulate.workloads.claims import CLAIMS, CLASSES, VOLUMES
from defib.simulate.workloads.controller import Controller

_BOUND_HERE = "pv.kubernetes.io/bound-by-controller"
_PROVISIONERS = ("volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner")
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_VOLUME = "volume "  # marks the key of a volume; a claim's key has no space in it


class VolumeBinder(Controller):
    name = "persistentvolume-binder"
    resource = CLAIMS
    listens = (CLAIMS, VOLUMES, CLASSES)

    def start(self) -> None:
        super().start()
        for name in self.sight.keys(VOLUMES):
            self.look_at(_VOLUME + name)

    def notice(self, change: Change) -> None:
        stored = change.now.object
        if change.resource == CLAIMS:
            self.look_at(key_of(stored))
            if stored["spec"].get("volumeName"):
                self.look_at(_VOLUME + stored["spec"]["volumeName"])
            return
        if change.resource == VOLUMES:
            self.look_at(_VOLUME + stored["metadata"]["name"])
            reference = stored["spec"].get("claimRef")
            if reference:
                self.look_at(f"{reference['namespace']}/{reference['name']}")
                return
        for claim in self.sight.all(CLAIMS):
            if change.kind == DELETED or not claims.is_bound(claim):
                self.look_at(key_of(claim))

    def handle(self, key: str) -> None:
        if key.startswith(_VOLUME):
            self._tend_volume(key.removeprefix(_VOLUME))
            return
        claim = self.sight.get(CLAIMS, key)
        if claim is None:
            return
        if claims.is_bound(claim):
            self._tend_bound(claim)
        else:
            self._find_volume(self._classed(claim))

    def _tend_volume(self, name: str) -> None:
        """Says of a volume whether it is free, taken, or left behind by its claim."""
        volume = self.sight.get(VOLUMES, name)
        if volume is None:
            return
        reference = volume["spec"].get("claimRef")
        phase = "Available"
        if reference and reference.get("uid"):
            claim = self.sight.get(CLAIMS, f"{reference['namespace']}/{reference['name']}")
            held = claim is not None and claims.claimed_by(volume, claim)
            phase = "Bound" if held else "Released"
        if (volume.get("status") or {}).get("phase") != phase:
            self.hands.patch(VOLUMES, volume, {"status": {"phase": phase}}, "status")

    def _tend_bound(self, claim: Object) -> None:
        volume = claims.volume_of(self.sight, claim)
        if volume is None:
            if (claim.get("status") or {}).get("phase") != "Lost":
                self.hands.patch(CLAIMS, claim, {"status": {"phase": "Lost"}}, "status")
            return
        self._say_bound(claim, volume)

    def _classed(self, claim: Object) -> Object:
        """A claim that names no class gets the default one, if there is one."""
        if claim["spec"].get("storageClassName") is not None:
            return claim
        default = next((c for c in self.sight.all(CLASSES) if claims.annotation(c, _DEFAULT_CLASS) == "true"), None)
        if default is None:
            return claim
        self.hands.patch(CLAIMS, claim, {"spec": {"storageClassName": default["metadata"]["name"]}})
        return self.sight.get(CLAIMS, key_of(claim)) or claim

    def _find_volume(self, claim: Object) -> None:
        wish = claim["spec"].get("volumeName")
        waits = claims.waits_for_consumer(self.sight, claim)
        volume = self.sight.get(VOLUMES, wish) if wish else claims.best_match(self.sight, claim)
        if volume and waits and not wish and not claims.claimed_by(volume, claim):
            volume = None  # the scheduler chooses among the free ones, because it knows the node
        if volume and (not volume["spec"].get("claimRef") or claims.claimed_by(volume, claim)):
            self._bind(claim, volume)
        elif not wish and (not waits or claims.annotation(claim, claims.SELECTED_NODE)):
            self._ask_for_one(claim)

    def _ask_for_one(self, claim: Object) -> None:
        provisioner = claims.provisioner_of(self.sight, claim)
        if provisioner and claims.annotation(claim, _PROVISIONERS[1]) != provisioner:
            self.hands.patch(CLAIMS, claim, {"metadata": {"annotations": dict.fromkeys(_PROVISIONERS, provisioner)}})

    def _bind(self, claim: Object, volume: Object) -> None:
        meta = claim["metadata"]
        name = volume["metadata"]["name"]
        reference = volume["spec"].get("claimRef") or {}
        if reference.get("uid") != meta["uid"]:
            body: dict[str, Any] = {"spec": {"claimRef": reference_to(claim)}}
            if not reference:
                body["metadata"] = {"annotations": {_BOUND_HERE: "yes"}}
            self.hands.patch(VOLUMES, volume, body)
        self._tend_volume(name)
        annotations = {claims.BIND_COMPLETED: "yes"}
        if claim["spec"].get("volumeName") != name:
            annotations[_BOUND_HERE] = "yes"
        self.hands.patch(CLAIMS, claim, {"metadata": {"annotations": annotations}, "spec": {"volumeName": name}})
        latest = self.sight.get(CLAIMS, key_of(claim))
        if latest is not None:
            self._say_bound(latest, volume)

    def _say_bound(self, claim: Object, volume: Object) -> None:
        said = {
            "phase": "Bound",
            "accessModes": volume["spec"].get("accessModes") or [],
            "capacity": volume["spec"].get("capacity") or {},
        }
        if any((claim.get("status") or {}).get(name) != value for name, value in said.items()):
            self.hands.patch(CLAIMS, claim, {"status": said}, "status")


def reference_to(claim: Object) -> dict[str, str]:
    """How a volume names the claim that has it."""
    meta = claim["metadata"]
    kind = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
    return {**kind, "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}

"""Deployments: one ReplicaSet per template, and the way from the old one to the new."""

from math import ceil, floor
from typing import Any

from defib.simulate.kinds import metadata
from defib.simulate.store import DELETED, Change, Object, key_of
from defib.simulate.workloads import pods
from defib.simulate.workloads.controller import Controller
from defib.simulate.workloads.replica_set import REPLICA_SETS
from defib.simulate.workloads.sight import controller_of

DEPLOYMENTS = "deployments.apps"
_HASH = "pod-template-hash"
_REVISION = "deployment.kubernetes.io/revision"
_HISTORY = 10
_QUARTER = "25%"


class DeploymentController(Controller):
    name = "deployment-controller"
    resource = DEPLOYMENTS
    listens = (DEPLOYMENTS, REPLICA_SETS, "pods")

    def notice(self, change: Change) -> None:
        stored = change.now.object
        if change.resource == DEPLOYMENTS:
            self.look_at(key_of(stored))
        elif change.resource == REPLICA_SETS:
            self._look_at_owner(stored)
        elif change.kind == DELETED:  # a Recreate waits for the last old pod to be really gone
            owner = controller_of(stored)
            if owner and owner["kind"] == "ReplicaSet":
                replica_set = self.sight.get(REPLICA_SETS, f"{stored['metadata']['namespace']}/{owner['name']}")
                if replica_set:
                    self._look_at_owner(replica_set)

    def _look_at_owner(self, replica_set: Object) -> None:
        owner = controller_of(replica_set)
        if owner and owner["kind"] == "Deployment":
            self.look_at(f"{replica_set['metadata']['namespace']}/{owner['name']}")

    def handle(self, key: str) -> None:
        deployment = self.sight.get(DEPLOYMENTS, key)
        if deployment is None:
            return
        if not pods.terminating(deployment) and not deployment["spec"].get("paused"):
            self._roll(deployment)
        self._report(deployment)

    def _roll(self, deployment: Object) -> None:
        new, old = self._sets(deployment)
        wanted = deployment["spec"].get("replicas", 1)
        recreate = (deployment["spec"].get("strategy") or {}).get("type") == "Recreate"
        if recreate:
            for replica_set in old:
                self._resize(replica_set, 0)
            if any(not pods.finished(pod) for rs in old for pod in self.sight.owned(rs, "pods")):
                return
        room = self._room(deployment, new, old)
        size = wanted if recreate or not old else min(wanted, _size(new) + room)
        if new is None:
            new = self._create(deployment, old, size)
        else:
            self._resize(new, size)
        if not recreate:
            self._shrink(deployment, new, old)
        self._forget_history(deployment, old)

    def _sets(self, deployment: Object) -> tuple[Object | None, list[Object]]:
        """The ReplicaSet of the present template, if there is one, and the others, oldest first."""
        wanted = pods.hash_of(deployment["spec"]["template"])
        owned = self.sight.owned(deployment, REPLICA_SETS)
        new = next((rs for rs in owned if (rs["metadata"].get("labels") or {}).get(_HASH) == wanted), None)
        old = sorted((rs for rs in owned if rs is not new), key=_revision)
        return new, old

    def _room(self, deployment: Object, new: Object | None, old: list[Object]) -> int:
        """How many more pods there may be at once."""
        most = deployment["spec"].get("replicas", 1) + _limits(deployment)[0]
        return int(max(0, most - _size(new) - sum(_size(rs) for rs in old)))

    def _create(self, deployment: Object, old: list[Object], size: int) -> Object:
        spec, meta = deployment["spec"], deployment["metadata"]
        digest = pods.hash_of(spec["template"])
        template = dict(spec["template"])
        told = dict(template.get("metadata") or {})
        labels = {**(told.get("labels") or {}), _HASH: digest}
        selector = dict(spec["selector"])
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), _HASH: digest}
        revision = max((_revision(rs) for rs in old), default=0) + 1
        body = {
            "metadata": {
                "name": f"{meta['name']}-{digest}",
                "namespace": meta["namespace"],
                "labels": labels,
                "annotations": {_REVISION: str(revision)},
                "ownerReferences": pods.owned_by("Deployment", "apps/v1", deployment),
            },
            "spec": {
                "replicas": size,
                "selector": selector,
                "template": {**template, "metadata": {**told, "labels": labels}},
            },
        }
        return self.hands.create(REPLICA_SETS, body)

    def _shrink(self, deployment: Object, new: Object, old: list[Object]) -> None:
        """Takes old pods away, the broken ones first, as long as enough stay available."""
        wanted = deployment["spec"].get("replicas", 1)
        least = wanted - _limits(deployment)[1]
        total = _size(new) + sum(_size(rs) for rs in old)
        spare = total - least - (_size(new) - _available(new))
        gone: dict[str, int] = {}
        for replica_set in old:
            broken = min(spare, _size(replica_set) - _available(replica_set))
            if broken > 0:
                gone[replica_set["metadata"]["name"]] = broken
                spare -= broken
        spare = min(spare, _available(new) + sum(_available(rs) for rs in old) - least)
        for replica_set in old:
            name = replica_set["metadata"]["name"]
            left = _size(replica_set) - gone.get(name, 0)
            taken = max(0, min(spare, left))
            spare -= taken
            self._resize(replica_set, left - taken)

    def _resize(self, replica_set: Object, size: int) -> None:
        if _size(replica_set) != size:
            self.hands.patch(REPLICA_SETS, replica_set, {"spec": {"replicas": size}})

    def _forget_history(self, deployment: Object, old: list[Object]) -> None:
        idle = [rs for rs in old if not _size(rs) and not (rs.get("status") or {}).get("replicas")]
        limit = deployment["spec"].get("revisionHistoryLimit", _HISTORY)
        for replica_set in idle[: max(0, len(idle) - limit)]:
            self.hands.delete(REPLICA_SETS, replica_set)

    def _report(self, deployment: Object) -> None:
        latest = self.sight.get(DEPLOYMENTS, key_of(deployment))
        if latest is None:
            return
        new, old = self._sets(latest)
        everything = [*old, *([new] if new else [])]
        wanted, available = latest["spec"].get("replicas", 1), sum(_available(rs) for rs in everything)
        updated = _counted(new, "replicas") if new else 0
        numbers = {
            "observedGeneration": latest["metadata"].get("generation", 0),
            "replicas": sum(_counted(rs, "replicas") for rs in everything),
            "updatedReplicas": updated,
            "readyReplicas": sum(_counted(rs, "readyReplicas") for rs in everything),
            "availableReplicas": available,
            "unavailableReplicas": max(0, sum(_size(rs) for rs in everything) - available),
        }
        status: dict[str, Any] = {name: number for name, number in numbers.items() if number}
        status["conditions"] = self._conditions(latest, available, done=updated == wanted == available)
        self.hands.set_status(DEPLOYMENTS, latest, status)

    def _conditions(self, deployment: Object, available: int, *, done: bool) -> list[dict[str, Any]]:
        least = deployment["spec"].get("replicas", 1) - _limits(deployment)[1]
        enough = ("True", "MinimumReplicasAvailable") if available >= least else ("False", "MinimumReplicasUnavailable")
        moving = ("True", "NewReplicaSetAvailable" if done else "ReplicaSetUpdated")
        old = {c["type"]: c for c in (deployment.get("status") or {}).get("conditions") or ()}
        now = metadata.stamp(self.clock.now())
        made = []
        for kind, (status, reason) in (("Available", enough), ("Progressing", moving)):
            known = old.get(kind, {})
            if known.get("status") == status and known.get("reason") == reason:
                made.append(known)
                continue
            since = known["lastTransitionTime"] if known.get("status") == status else now
            made.append(
                {"type": kind, "status": status, "reason": reason, "lastUpdateTime": now, "lastTransitionTime": since}
            )
        return made


def _size(replica_set: Object | None) -> int:
    return int(replica_set["spec"].get("replicas", 1)) if replica_set else 0


def _counted(replica_set: Object, name: str) -> int:
    return int((replica_set.get("status") or {}).get(name, 0))


def _available(replica_set: Object) -> int:
    return min(_size(replica_set), _counted(replica_set, "availableReplicas"))


def _revision(replica_set: Object) -> int:
    return int((replica_set["metadata"].get("annotations") or {}).get(_REVISION, "0"))


def _limits(deployment: Object) -> tuple[int, int]:
    """How many pods may be too many and how many too few during an update; never both none."""
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    wanted = deployment["spec"].get("replicas", 1)
    if (deployment["spec"].get("strategy") or {}).get("type") == "Recreate":
        return 0, 0
    surge = _share(rolling.get("maxSurge", _QUARTER), wanted, up=True)
    lacking = min(wanted, _share(rolling.get("maxUnavailable", _QUARTER), wanted, up=False))
    return (surge, lacking) if surge or lacking else (0, 1)


def _share(limit: int | str, total: int, *, up: bool) -> int:
    if isinstance(limit, int):
        return limit
    share = int(limit.rstrip("%")) * total / 100
    return ceil(share) if up else floor(share)

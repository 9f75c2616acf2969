"""StatefulSets: pods with stable names and claims, and never two of one name.

A pod whose object still exists holds its name, however dead its node is: that is the promise that makes a StatefulSet
wait for ever on a lost node, and it is kept here because the API server refuses the second object of a name.
"""

import re
from typing import Any

from defib.simulate.store import Change, Object, key_of
from defib.simulate.workloads import pods
from defib.simulate.workloads.controller import Controller
from defib.simulate.workloads.sight import controller_of

STATEFUL_SETS = "statefulsets.apps"
CLAIMS = "persistentvolumeclaims"
_REVISION = "controller-revision-hash"
_ordinal_at_end = re.compile(r"-(\d+)$").search


class StatefulSetController(Controller):
    name = "statefulset-controller"
    resource = STATEFUL_SETS
    listens = (STATEFUL_SETS, "pods")

    def notice(self, change: Change) -> None:
        stored = change.now.object
        if change.resource == STATEFUL_SETS:
            self.look_at(key_of(stored))
            return
        owner = controller_of(stored)
        if owner and owner["kind"] == "StatefulSet":
            self.look_at(f"{stored['metadata']['namespace']}/{owner['name']}")

    def handle(self, key: str) -> None:
        stateful_set = self.sight.get(STATEFUL_SETS, key)
        if stateful_set is None:
            return
        if not pods.terminating(stateful_set):
            self._go_on(stateful_set)
        self._count(stateful_set)

    def _go_on(self, stateful_set: Object) -> None:
        """One look at the whole set. In order, what is not yet right holds up everything behind it."""
        ordered = stateful_set["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        known = {_ordinal(pod): pod for pod in self.sight.owned(stateful_set, "pods")}
        wanted = _wanted(stateful_set)
        settled = True
        for number in wanted:
            settled = self._tend(stateful_set, number, known.get(number)) and settled
            if ordered and not settled:
                return
        surplus = sorted((n for n in known if n not in wanted), reverse=True)
        for number in surplus:
            if self._dismiss(known, number, wanted, ordered=ordered) and ordered:
                return
        if settled and not surplus:
            self._update(stateful_set, [known[number] for number in wanted])

    def _tend(self, stateful_set: Object, number: int, pod: Object | None) -> bool:
        """Brings one ordinal closer to what it should be; whether it is there already."""
        if pod is None:
            self._create(stateful_set, number)
            return False
        if pods.finished(pod):
            if not pods.terminating(pod):
                self.hands.delete("pods", pod)
            return False
        if pods.phase(pod) == "Pending":
            self._create_claims(stateful_set, number)
        return not pods.terminating(pod) and pods.running_and_ready(pod)

    def _dismiss(self, known: dict[int, Object], number: int, wanted: range, *, ordered: bool) -> bool:
        """Whether the pods with lower ordinals must wait for this one."""
        pod = known[number]
        if pods.terminating(pod):
            return True
        unhealthy = [n for n in sorted(known) if n not in wanted and not pods.running_and_ready(known[n])]
        if ordered and not pods.running_and_ready(pod) and unhealthy[0] != number:
            return True
        self.hands.delete("pods", pod)
        return True

    def _create(self, stateful_set: Object, number: int) -> None:
        self._create_claims(stateful_set, number)
        name, spec = stateful_set["metadata"]["name"], stateful_set["spec"]
        pod = pods.from_template("StatefulSet", "apps/v1", stateful_set, self.timers.toleration_seconds)
        meta = pod["metadata"]
        meta["name"] = f"{name}-{number}"
        meta["labels"] = {
            **meta.get("labels", {}),
            "statefulset.kubernetes.io/pod-name": meta["name"],
            "apps.kubernetes.io/pod-index": str(number),
            _REVISION: _revision(stateful_set),
        }
        pod["spec"] |= {"hostname": meta["name"], "subdomain": spec.get("serviceName", "")}
        templates = [template["metadata"]["name"] for template in spec.get("volumeClaimTemplates") or ()]
        others = [v for v in pod["spec"].get("volumes") or () if v["name"] not in templates]
        claimed = [
            {"name": volume, "persistentVolumeClaim": {"claimName": f"{volume}-{name}-{number}"}}
            for volume in templates
        ]
        if claimed or others:
            pod["spec"]["volumes"] = [*claimed, *others]
        self.hands.create("pods", pod)

    def _create_claims(self, stateful_set: Object, number: int) -> None:
        """Those that are missing; they outlive the pod and, by default, the set."""
        meta = stateful_set["metadata"]
        labels = (stateful_set["spec"]["selector"] or {}).get("matchLabels") or {}
        for template in stateful_set["spec"].get("volumeClaimTemplates") or ():
            name = f"{template['metadata']['name']}-{meta['name']}-{number}"
            if self.sight.get(CLAIMS, f"{meta['namespace']}/{name}") is None:
                told = {**template["metadata"], "name": name, "namespace": meta["namespace"]}
                told["labels"] = {**(told.get("labels") or {}), **labels}
                self.hands.create(CLAIMS, {"metadata": told, "spec": template["spec"]})

    def _update(self, stateful_set: Object, replicas: list[Object]) -> None:
        """Replaces the highest pod of an old template, one at a time, down to the partition."""
        strategy = stateful_set["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
        revision = _revision(stateful_set)
        for pod in reversed([pod for pod in replicas if _ordinal(pod) >= partition]):
            if (pod["metadata"].get("labels") or {}).get(_REVISION) != revision:
                self.hands.delete("pods", pod)
                return

    def _count(self, stateful_set: Object) -> None:
        latest = self.sight.get(STATEFUL_SETS, key_of(stateful_set))
        if latest is None:
            return
        revision = _revision(latest)
        old = latest.get("status") or {}
        mine = [pod for pod in self.sight.owned(latest, "pods") if _ordinal(pod) >= 0]
        ready = sum(pods.running_and_ready(pod) for pod in mine)
        updated = sum(_revision_of(pod) == revision for pod in mine if not pods.terminating(pod))
        current = old.get("currentRevision") or revision
        if updated == len(mine) == ready == len(_wanted(latest)):
            current = revision
        at_current = sum(_revision_of(pod) == current for pod in mine if not pods.terminating(pod))
        numbers = {"readyReplicas": ready, "currentReplicas": at_current, "updatedReplicas": updated}
        status: dict[str, Any] = {
            "observedGeneration": latest["metadata"].get("generation", 0),
            "replicas": len(mine),
            "availableReplicas": ready,
            **{name: number for name, number in numbers.items() if number},
            "currentRevision": current,
            "updateRevision": revision,
            "collisionCount": 0,
        }
        self.hands.set_status(STATEFUL_SETS, latest, status)


def _ordinal(pod: Object) -> int:
    found = _ordinal_at_end(pod["metadata"]["name"])
    return int(found.group(1)) if found else -1


def _wanted(stateful_set: Object) -> range:
    spec = stateful_set["spec"]
    first = (spec.get("ordinals") or {}).get("start", 0)
    return range(first, first + spec.get("replicas", 1))


def _revision(stateful_set: Object) -> str:
    return f"{stateful_set['metadata']['name']}-{pods.hash_of(stateful_set['spec']['template'])}"


def _revision_of(pod: Object) -> str:
    found: str = (pod["metadata"].get("labels") or {}).get(_REVISION, "")
    return found

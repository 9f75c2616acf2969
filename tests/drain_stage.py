"""A cluster on the embedded server in which nodes are drained, by operators that can be killed.

Kubelets end pods as they are told, or do not, and controllers count disruption budgets; nobody else does anything here.
What the operator asks for is written down, in minutes since the first node was cordoned, so that a test can say exactly
what was done to which pod, how and when; and nothing may be done that does not stand in the record of the drain, or
without the lock of the node. It runs in virtual time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from defib.decide.drains.intent import UNSCHEDULABLE
from defib.kube.client import Deletion, Merge
from defib.kube.kinds import LEASES, NODES, PODS, Kind, unstructured
from defib.kube.transport import MERGE_PATCH, Request, Transport
from defib.model import medik8s
from defib.model.meta import Unstructured
from defib.model.node_drain import LOCK_HOLDER, WATCH_MARK
from defib.simulate.controllers.disruption import DisruptionController
from defib.simulate.in_process import InProcess
from defib.simulate.store import DELETED, Change
from defib.simulate.virtual_time import VirtualClock, run
from tests import failover_stage
from tests.failover_stage import LABELS, OPERATOR, OWNERS, POLICIES, SHOP, Object
from tests.mortal_operator import Life, MortalLine

DRAIN_POLICIES = unstructured("defib.dev", "v1alpha1", "drainpolicies", "DrainPolicy", namespaced=False)
DRAINS = unstructured("defib.dev", "v1alpha1", "nodedrains", "NodeDrain", namespaced=False)
BUDGETS = unstructured("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
EVICT, DELETE, FINALIZERS, KILL, FORCE = "Evict", "Delete", "RemoveFinalizers", "Kill", "ForceDelete"
# How a kubelet ends a pod: when its time is over; only when it is told to kill it; or never.
ENDS, WHEN_KILLED, NEVER = "ends", "when killed", "never"
MINUTE = 60.0
HTTP_OK = 200
_RUNGS = {None: DELETE, 1: KILL, 0: FORCE}


class Done(msgspec.Struct, frozen=True):
    """What the operator asked for a pod, and how many minutes after the node was cordoned."""

    rung: str
    pod: str
    uid: str
    at: float


class Stage(failover_stage.Stage):
    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.done: list[Done] = []
        self.writes: list[Request] = []
        self.dead: set[str] = set()  # nodes whose kubelet hears nothing
        self.habits: dict[str, str] = {}  # how pods end, by UID; the others end when their time is over
        self.remade_on: str = ""  # the node on which a pod of a StatefulSet that has gone is made again
        self.begun_at = 0.0
        self.server.reactions += [DisruptionController(self.server).react, self._kubelets]

    # What is there from the start

    def pod(  # as a real one, which is ready
        self,
        name: str,
        node: str = "n1",
        *,
        namespace: str = SHOP,
        labels: Mapping[str, str] = LABELS,
        claims: Iterable[str] = (),
        habit: str = ENDS,
        finalizers: Iterable[str] = (),
        annotations: Mapping[str, str] | None = None,
        phase: str = "Running",
        **spec: Any,
    ) -> str:
        owner = OWNERS.get(name.partition("-")[0])
        meta: Object = {"name": name, "namespace": namespace, "labels": dict(labels)}
        meta |= {"finalizers": list(finalizers), "annotations": dict(annotations or {})}
        if owner is not None:
            reference = {"apiVersion": owner[0], "kind": owner[1], "name": name.rpartition("-")[0], "uid": "u"}
            meta["ownerReferences"] = [reference | {"controller": True}]
        volumes = [{"name": f"v{n}", "persistentVolumeClaim": {"claimName": claim}} for n, claim in enumerate(claims)]
        made = {"nodeName": node, "containers": [{"name": "main", "image": "x"}], "volumes": volumes} | spec
        put = self.server.put("pods", {"metadata": meta, "spec": made})
        uid = str(put.object["metadata"]["uid"])
        self.habits[uid] = habit
        ready = [{"type": "Ready", "status": "True" if phase == "Running" else "False"}]
        self._say(f"/api/v1/namespaces/{namespace}/pods/{name}", uid, {"phase": phase, "conditions": ready})
        return uid

    async def drain_policy(self, name: str = "workers", /, **spec: Any) -> None:
        """With the times of the table of seed 004, where nothing else is said: 30 minutes, and 60 for budgets."""
        usual = {"timeout": "30m", "expectedDrainTime": "8m", "pdbForceDrainTimeout": "52m"}
        await self.person.create(DRAIN_POLICIES, {"metadata": {"name": name}, "spec": usual | spec})

    async def change_policy(self, name: str = "workers", /, **spec: Any) -> None:
        await self.person.patch(DRAIN_POLICIES.at(name), Merge({"spec": spec}))

    async def drop_policy(self, name: str = "workers") -> None:
        item = await self.person.get(DRAIN_POLICIES.at(name))
        await self.person.delete(DRAIN_POLICIES.of(item), Deletion(uid=item.uid))

    async def budget(self, name: str = "all", labels: Mapping[str, str] = LABELS, **spec: Any) -> None:
        """Nobody may go, where nothing else is said."""
        body = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": dict(labels)}} | spec}
        body["spec"].setdefault("maxUnavailable", 0)
        await self.person.create(BUDGETS, body, namespace=SHOP)

    def foreign(self, group: str, version: str, name: str, *, namespaced: bool = False) -> Kind[Unstructured]:
        """A kind of somebody else's, of which any object is fine."""
        plural = f"{name.lower()}s"
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        spec = {
            "group": group,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {"kind": name, "listKind": f"{name}List", "plural": plural, "singular": name.lower()},
            "versions": [served],
        }
        meta = {"name": f"{plural}.{group}"}
        self.server.put("customresourcedefinitions.apiextensions.k8s.io", {"metadata": meta, "spec": spec})
        return unstructured(group, version, plural, name, namespaced=namespaced)

    # What happens

    async def cordon(self, *names: str, mark: str = WATCH_MARK, value: str = "true", **annotations: str) -> None:
        """As `kubectl drain` begins, of a node that somebody marked."""
        since = f"{self.clock.now():%Y-%m-%dT%H:%M:%SZ}"
        self.begun_at = self.begun_at or self.clock.monotonic()
        for name in names:
            taint = {"key": UNSCHEDULABLE, "effect": "NoSchedule", "timeAdded": since}
            noted = ({mark: value} if mark else {}) | annotations
            body = {"metadata": {"annotations": noted}, "spec": {"unschedulable": True, "taints": [taint]}}
            await self.person.patch(NODES.at(name), Merge(body))

    async def uncordon(self, *names: str) -> None:
        for name in names:
            await self.person.patch(NODES.at(name), Merge({"spec": {"unschedulable": None, "taints": None}}))

    async def annotate(self, name: str, **annotations: str | None) -> None:
        """`a__b` in a name stands for the slash of `a/b`."""
        named = {key.replace("__", "/").replace("_", "-"): value for key, value in annotations.items()}
        await self.person.patch(NODES.at(name), Merge({"metadata": {"annotations": named}}))

    async def delete_pod(self, name: str, namespace: str = SHOP) -> None:
        """Somebody does, in the ordinary way."""
        pod = await self.person.get(PODS.at(name, namespace))
        await self.person.delete(PODS.of(pod), Deletion(uid=pod.uid))

    async def lock(self, node: str, holder: str, seconds: int = 3600) -> None:
        """Whoever had it before."""
        now = f"{self.clock.now():%Y-%m-%dT%H:%M:%S.%fZ}"
        spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": now}
        name, home = medik8s.lock_of(node), medik8s.LOCK_NAMESPACE
        if any(one["metadata"]["name"] == name for one in self.all(str(LEASES))):
            await self.person.patch(LEASES.at(name, home), Merge({"spec": spec}))
        else:
            await self.person.create(LEASES, {"metadata": {"name": name}, "spec": spec}, namespace=home)

    async def unlock(self, node: str) -> None:
        lease = await self.person.get(LEASES.at(medik8s.lock_of(node), medik8s.LOCK_NAMESPACE))
        await self.person.delete(LEASES.of(lease), Deletion(uid=lease.uid))

    async def minutes(self, count: float) -> None:
        await self.seconds(count * MINUTE)

    async def until(self, minute: float) -> None:
        """Since the first node was cordoned."""
        await self.seconds(self.begun_at + minute * MINUTE - self.clock.monotonic())

    # Kubelets, and who makes pods again

    def _kubelets(self, change: Change) -> None:
        if change.resource != "pods":
            return
        meta = change.now.object["metadata"]
        if change.kind == DELETED:
            self._make_again(change.now.object)
        elif "deletionTimestamp" in meta and meta.get("deletionGracePeriodSeconds"):
            ends = datetime.fromisoformat(meta["deletionTimestamp"])
            wait = max((ends - self.clock.now()).total_seconds(), 0.1)
            asyncio.get_running_loop().call_later(wait, self._end, meta["namespace"], meta["name"], meta["uid"])

    def _end(self, namespace: str, name: str, uid: str) -> None:
        version = self.server.store.get("pods", f"{namespace}/{name}")
        if version is None or version.object["metadata"]["uid"] != uid:
            return
        meta, node = version.object["metadata"], version.object["spec"]["nodeName"]
        habit, is_killed = self.habits.get(uid, ENDS), meta["deletionGracePeriodSeconds"] <= 1
        if node in self.dead or habit == NEVER or (habit == WHEN_KILLED and not is_killed):
            return
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        self._say(path, uid, {"phase": "Failed"})
        how = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        self.server.answer(Request(method="DELETE", path=path, body=msgspec.json.encode(how)), "kubelet")

    def _say(self, path: str, uid: str, status: Object) -> None:
        body = msgspec.json.encode({"metadata": {"uid": uid}, "status": status})
        patch = Request(method="PATCH", path=f"{path}/status", body=body, content_type=MERGE_PATCH)
        assert self.server.answer(patch, "kubelet").status == HTTP_OK

    def _make_again(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        if self.remade_on and OWNERS.get(name.partition("-")[0], ("", ""))[1] == "StatefulSet":
            asyncio.get_running_loop().call_later(1.0, self.pod, name, self.remade_on)

    # What the operator does

    def line(self, client: str) -> Transport:
        """For an operator of that name, of which everything is noted as of any other."""
        return MortalLine(InProcess(self.server, client), Life(), self._noted)

    def _noted(self, request: Request) -> None:
        self.writes.append(request)
        if "/pods/" not in request.path:
            return
        where, _, rest = request.path.removeprefix("/api/v1/namespaces/").partition("/pods/")
        name, _, subresource = rest.partition("/")
        said = msgspec.json.decode(request.body)
        if subresource == "eviction":
            rung, uid = EVICT, said["deleteOptions"]["preconditions"]["uid"]
        elif request.method == "DELETE":
            rung, uid = _RUNGS[said.get("gracePeriodSeconds")], said["preconditions"]["uid"]
        else:
            rung, uid = FINALIZERS, next(one["value"] for one in said if one["path"] == "/metadata/uid")
        pod = f"{where}/{name}".removeprefix(f"{SHOP}/")
        minute = (self.clock.monotonic() - self.begun_at) / MINUTE
        self.done.append(Done(rung, pod, uid, minute))
        self._check(rung, pod, uid)

    def _check(self, rung: str, pod: str, uid: str) -> None:
        """What must be so before anything is done to a pod: it is written down, and the node is ours alone."""
        node = next((one["spec"]["nodeName"] for one in self.all("pods") if one["metadata"]["uid"] == uid), "")
        said = [one.get("status") or {} for one in self.all(str(DRAINS))]
        is_written = any(
            status.get("phase") == "Forcing" and entry["uid"] == uid and entry["rung"] == rung
            for status in said
            for entry in status.get("pods") or ()
        )
        if not is_written and not self._is_failed_over(node):
            self.wrongs.append(f"{rung} of {pod} does not stand in the record")
        if node and (self.holder(node) == LOCK_HOLDER) is not is_written:
            self.wrongs.append(f"{rung} of {pod}, and {self.holder(node) or 'nobody'} has the lock of {node}")

    def _is_failed_over(self, node: str) -> bool:
        """Whether a PodFailoverPolicy has written down that it moves pods of the node."""
        said = [one for policy in self.all(str(POLICIES)) for one in (policy.get("status") or {}).get("nodes") or ()]
        return any(one["name"] == node and one.get("begun") for one in said)

    # What is there

    def told(self, *rungs: str) -> list[tuple[str, str, int]]:
        """What was done, to which pod, and in which minute; of these rungs, where any are named."""
        return [(one.rung, one.pod, int(one.at)) for one in self.done if not rungs or one.rung in rungs]

    def first(self) -> list[tuple[str, str, int]]:
        """The same, each step for each pod once, when it was first taken."""
        minutes = {(rung, pod): minute for rung, pod, minute in reversed(self.told())}
        return [
            (rung, pod, minutes[rung, pod]) for rung, pod in dict.fromkeys((one.rung, one.pod) for one in self.done)
        ]

    def touched(self) -> set[str]:
        return {one.pod for one in self.done}

    def there(self, node: str = "n1") -> list[str]:
        """All pods on the node, also those on their way out."""
        metas = [pod["metadata"] for pod in self.all("pods") if pod["spec"]["nodeName"] == node]
        return sorted(f"{meta['namespace']}/{meta['name']}".removeprefix(f"{SHOP}/") for meta in metas)

    def drains(self) -> list[str]:
        return sorted(str(one["metadata"]["name"]) for one in self.all(str(DRAINS)))

    def drain(self, node: str = "n1") -> Object:
        found = next((one for one in self.all(str(DRAINS)) if one["metadata"]["name"] == node), {})
        return found.get("status") or {}

    def stands(self, node: str = "n1") -> str:
        """`Forcing`, `Held Budget`; empty when there is no record."""
        status = self.drain(node)
        return f"{status.get('phase', '')} {status.get('reason', '')}".strip()

    def has_failed(self, node: str = "n1") -> bool:
        return bool(self.drain(node).get("failed"))

    def policy_status(self, name: str = "workers") -> Object:
        found = next(one for one in self.all(str(DRAIN_POLICIES)) if one["metadata"]["name"] == name)
        return found.get("status") or {}

    def holder(self, node: str = "n1") -> str:
        leases = [one for one in self.all(str(LEASES)) if one["metadata"]["name"] == medik8s.lock_of(node)]
        return next((str(one["spec"].get("holderIdentity") or "") for one in leases), "")

    def asked_by(self, client: str = OPERATOR) -> list[str]:
        """All that it asked the server for, but for watches."""
        return [f"{one.verb} {one.path}" for one in self.server.audit if one.client == client and one.verb != "watch"]


Story = Callable[[Stage], Awaitable[None]]


def play(story: Story, *, nodes: int = 5, limit: timedelta = timedelta(hours=12)) -> None:
    async def main(clock: VirtualClock) -> None:
        stage = Stage(clock)
        for number in range(1, nodes + 1):
            stage.node(f"n{number}")
        await stage.seconds(5)
        await story(stage)
        assert stage.wrongs == []

    run(main, limit=limit)

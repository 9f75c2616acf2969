"""A cluster with one sick node on the embedded server in virtual time, and everything that an action is done with."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from defib.act.apply import apply
from defib.act.executor import Executor, Hooks, Terms
from defib.act.means import Means
from defib.act.outcome import Outcome
from defib.kube.client import Client, Deletion, Merge
from defib.kube.discovery import Discovery
from defib.kube.kinds import LEASES, NODES, Kind, unstructured
from defib.model import medik8s
from defib.model.action import Action, Because, EndRemediation, StartRemediation, Target
from defib.model.health_check import KindRef
from defib.model.lock import Claim
from defib.model.mandate import Mandate
from defib.model.meta import Resource
from defib.model.node import Lease
from defib.power.registry import Drivers
from defib.simulate.faults import Fault, RequestEffect
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import START, VirtualClock, run

Body = dict[str, Any]

FOO = KindRef("example.com/v1", "FooRemediation")
FOOS = unstructured("example.com", "v1", "fooremediations", "FooRemediation", namespaced=True)
EVENTS = unstructured("", "v1", "events", "Event", namespaced=True)
LEASE = str(LEASES)
PLACE = "remedies"
LOCKS = medik8s.LOCK_NAMESPACE
SINCE = START - timedelta(minutes=10)
US = "defib"


def stamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def a_crd(kind: Kind[Any]) -> Body:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": str(kind)},
        "spec": {
            "group": kind.group,
            "names": {"plural": kind.plural, "kind": kind.name},
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [version | {"subresources": {"status": {}}}],
        },
    }


MACHINES = unstructured("machine.openshift.io", "v1beta1", "machines", "Machine", namespaced=True)
CHECKS = unstructured(medik8s.GROUP, medik8s.VERSION, "nodehealthchecks", medik8s.CHECK_KIND, namespaced=False)
BARS = unstructured("example.com", "v1", "barremediations", "BarRemediation", namespaced=True)


def conditions(ready: str, since: datetime = SINCE) -> Body:
    shown = {"type": "Ready", "status": ready, "lastTransitionTime": stamp(since)}
    return {"conditions": [{"type": "MemoryPressure", "status": "False"}, shown]}


class Stage(msgspec.Struct, kw_only=True):
    server: ApiServer
    clock: VirtualClock
    us: Client
    world: Client  # somebody else, who changes things
    discovery: Discovery
    noted: list[tuple[str, Resource]] = []
    ended: list[tuple[Action, Outcome]] = []
    stop: Callable[[], str] = str  # nothing stops us
    heard: Callable[[Kind[Any], Resource], None] | None = None  # besides being noted
    then: Callable[[Action], None] | None = None  # what follows from an end
    drivers: Drivers | None = None

    def means(self) -> Means:
        return Means(
            client=self.us,
            discovery=self.discovery,
            clock=self.clock,
            lock_namespace=LOCKS,
            namespace="defib-system",
            stop=self._stop,
            note=self._note,
            drivers=self.drivers or Drivers(self.clock),
        )

    def executor(self, terms: Terms | None = None, *, name: str = US) -> Executor:
        """Ours, or that of a rival with a connection of its own."""
        client = self.us if name == US else Client(InProcess(self.server, client=name), self.clock)
        hooks = Hooks(
            stop=self._stop,
            note=self._note,
            on_ended=self._on_ended,
            drivers=self.drivers or Drivers(self.clock),
        )
        discovery = self.discovery if name == US else Discovery(client)
        return Executor(client, discovery, self.clock, hooks, terms or Terms())

    def _stop(self) -> str:
        return self.stop()

    def _note(self, kind: Kind[Any], item: Resource) -> None:
        if self.heard:
            self.heard(kind, item)
        self.noted.append((str(kind), item))

    def _on_ended(self, action: Action, outcome: Outcome, mandate: Mandate) -> None:  # noqa: ARG002  whichever it was
        self.ended.append((action, outcome))
        if self.then:
            self.then(action)

    async def do(self, action: Action, mandate: Mandate | None = None) -> Outcome:
        return await apply(self.means(), action, mandate or Mandate("test"))

    def fault(self, fault: Fault) -> None:
        self.server.faults.inject(fault)

    def break_creation(self, effect: RequestEffect, *, of: str = str(FOOS), times: int | None = None) -> Fault:
        """What goes wrong when we create a remediation, or something else."""
        fault = Fault(effect=effect, verbs=("create",), resource=of, times=times)
        self.fault(fault)
        return fault

    def asked(self) -> list[str]:
        """What we asked for of objects, in order: verb, kind and subresource, status."""
        ours = [asked for asked in self.server.audit if asked.client == US]
        return [f"{asked.verb} {about} {asked.status}" for asked in ours if (about := about_what(asked.path))]

    def objects(self, resource: str) -> list[Any]:
        return [version.object for version in self.server.store.collection(resource).objects.values()]

    def foos(self) -> list[Any]:
        return self.objects(str(FOOS))

    def lock(self, node: str = "n1") -> Lease | None:
        stored = self.server.store.get(LEASE, f"{LOCKS}/{medik8s.lock_of(node)}")
        return msgspec.convert(stored.object, Lease) if stored else None

    def uid(self, resource: str, key: str) -> str:
        stored = self.server.store.get(resource, key)
        assert stored is not None, f"{resource} {key}"
        return str(stored.object["metadata"]["uid"])

    def add_node(self, name: str, *, ready: str = "Unknown", **labels: str) -> None:
        self.server.put("nodes", {"metadata": {"name": name, "labels": labels}, "status": conditions(ready)})

    async def turn(self, ready: str, *, node: str = "n1", since: datetime = START) -> None:
        await self.world.patch(NODES.at(node), Merge({"status": conditions(ready, since)}), subresource="status")

    async def remove_node(self, name: str) -> None:
        await self.world.delete(NODES.at(name), Deletion(uid=self.uid("nodes", name)))

    def put_lock(self, holder: str, *, renewed: datetime, seconds: int = 60, node: str = "n1", **spec: Any) -> Lease:
        """As somebody else, or we ourselves at another time, would have left it."""
        moment = f"{renewed:%Y-%m-%dT%H:%M:%S.%fZ}"
        held = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "acquireTime": moment, "renewTime": moment}
        owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": self.uid("nodes", node)}
        meta = {"name": medik8s.lock_of(node), "namespace": LOCKS, "ownerReferences": [owner]}
        self.server.put(LEASE, {"metadata": meta, "spec": held | {"leaseTransitions": 3} | spec})
        lease = self.lock(node)
        assert lease is not None
        return lease

    def put_foo(self, name: str = "n1", *, check: str = "c1", node: str = "n1", **meta: Any) -> Target:
        whole = {**a_foo(name, check=check, node=node), "spec": {}}
        whole["metadata"] |= {"namespace": PLACE, **meta}
        self.server.put(str(FOOS), whole)
        return Target(kind=FOO, namespace=PLACE, name=name, uid=self.uid(str(FOOS), f"{PLACE}/{name}"))

    def claim(self, node: str = "n1", *, check: str = "c1", known: Lease | None = None) -> Claim:
        return Claim(
            node=node,
            node_uid=self.uid("nodes", node),
            holder=medik8s.holder_of(check),
            length=timedelta(minutes=11),
            known=known,
        )

    def start(self, node: str = "n1", *, check: str = "c1", **changes: Any) -> StartRemediation:
        action = StartRemediation(
            check=check,
            node=node,
            node_uid=self.uid("nodes", node),
            because=Because("Ready", "Unknown", SINCE),
            kind=FOO,
            namespace=PLACE,
            body=a_foo(node, check=check, node=node) | {"spec": {"strategy": "reboot"}},
            claim=self.claim(node, check=check),
        )
        return msgspec.structs.replace(action, **changes)

    def end(self, target: Target, **changes: Any) -> EndRemediation:
        action = EndRemediation(check="c1", node="n1", target=target, unless=(("Ready", "Unknown"), ("Ready", "False")))
        return msgspec.structs.replace(action, **changes)


def a_foo(name: str, *, check: str, node: str) -> Body:
    owner = {"apiVersion": medik8s.API_VERSION, "kind": medik8s.CHECK_KIND, "name": check, "uid": f"uid-{check}"}
    return {"metadata": {"name": name, "annotations": {medik8s.NODE_NAME: node}, "ownerReferences": [owner]}}


def about_what(path: str) -> str:
    """The kind that a path is about, with the subresource if there is one; empty when it only asks for kinds."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    return "/".join([*rest[:1], *rest[2:]])


Scenario = Callable[[Stage], Awaitable[None]]


def play(scenario: Scenario, *, seed: int = 0) -> None:
    """A cluster with a check, the sick node n1, and the kinds that we use already found."""

    async def main(clock: VirtualClock) -> None:
        server = ApiServer(clock)
        for kind in (FOOS, BARS, MACHINES, CHECKS):
            server.put("customresourcedefinitions.apiextensions.k8s.io", a_crd(kind))
        for name in (PLACE, LOCKS):
            server.put("namespaces", {"metadata": {"name": name}})
        us = Client(InProcess(server, client=US), clock)
        world = Client(InProcess(server, client="world"), clock)
        stage = Stage(server=server, clock=clock, us=us, world=world, discovery=Discovery(us))
        stage.add_node("n1")
        await stage.discovery.find(FOO.group, FOO.name, FOO.version)
        await scenario(stage)

    run(main, seed=seed, limit=timedelta(hours=2))

"""A cluster on the embedded server in which a machine fails and is power-cycled, by operators that can be killed.

Three hollow nodes with machines and disks, a StatefulSet whose only pod writes to a disk on n1, and whatever switches
the power. It runs in whatever time its clock shows. What is left in the end is told in sentences, so that an empty list
is what every test wants to see.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from defib.clock import Clock
from defib.config import Settings
from defib.hollow.machine import Machine
from defib.hollow.metal3 import HollowMetal3
from defib.hollow.power import HollowPower
from defib.hollow.site import Blueprint
from defib.kube.client import Client, Deletion, Merge
from defib.kube.errors import NotFound
from defib.kube.kinds import NODE_HEALTH_CHECKS, NODE_INCIDENTS, NODES, unstructured
from defib.kube.transport import Request
from defib.model import medik8s
from defib.model.incident import Phase
from defib.model.node import OUT_OF_SERVICE
from defib.model.power import MANUAL
from defib.power.base import Driver
from defib.power.manual import Manual
from defib.simulate import controllers
from defib.simulate.in_process import InProcess
from defib.simulate.node_lifecycle import NodeLifecycle
from defib.simulate.server import ApiServer
from defib.simulate.store import DELETED, Change
from defib.simulate.workloads import Workloads, WorkloadTimers
from testbed.bmc.metal3 import metal3_definitions
from testbed.scenario.hollow_cluster import HollowCluster, alongside, hollow_cluster
from testbed.scenario.manifests import manifest_of
from testbed.scenario.profiles import PROFILES, Profile
from testbed.scenario.story import Access, NewName, StatefulSetWithVolume, Timers
from tests.mortal_operator import NEVER, CannotRead, Doom, Life, MortalLine, mortal, operating

HOME, HOSTS_HOME, SHOP = "defib-system", "metal3", "shop"
VICTIM, POD = "n1", "db-0"
NODE_NAMES = (VICTIM, "n2", "n3")
REMEDIATIONS = unstructured("defib.dev", "v1alpha1", "powercycleremediations", "PowerCycleRemediation", namespaced=True)
TEMPLATES = unstructured(
    "defib.dev", "v1alpha1", "powercycleremediationtemplates", "PowerCycleRemediationTemplate", namespaced=True
)
HOSTS = unstructured("metal3.io", "v1alpha1", "baremetalhosts", "BareMetalHost", namespaced=True)
OWN_LABEL, OWN_ANNOTATION = {"rack": "7"}, {"example.com/owner": "team-a"}
OWN_TAINT = {"key": "example.com/slow-disk", "value": "yes", "effect": "PreferNoSchedule"}

Object = dict[str, Any]


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How fast everything around the operator goes. The seconds here are virtual and cost next to nothing."""

    profile: Profile = PROFILES[Timers.COMPRESSED]
    down_seconds: float = 7.0  # until everybody knows that a node is silent
    look_seconds: float = 0.5
    patience_seconds: float = 1800.0
    calm_seconds: float = 5.0
    attach_poll_seconds: float = 0.5

    def workloads(self) -> WorkloadTimers:
        return msgspec.structs.replace(self.profile.workloads(), attach_poll_seconds=self.attach_poll_seconds)


IN_VIRTUAL_TIME = Pace()

Make = Callable[[], Driver]


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """How the power is switched, as a remediation says it."""

    name: str
    power: Object
    accepts: tuple[str, ...] = ("A", "D")
    by_hand: bool = False


SECRET = {"credentials": {"name": "bmc-{node}"}}
WAYS = {
    way.name: way
    for way in (
        Way(name="hollow", power={"driver": "hollow", "address": "{node}", **SECRET}),
        Way(name="metal3", power={"driver": "metal3", "address": f"{HOSTS_HOME}/{{node}}"}),
        Way(name="blind", power={"driver": "blind", "address": "{node}", **SECRET}, accepts=("A", "C", "D")),
        Way(name="manual", power={"driver": "manual"}, by_hand=True),
    )
}


@cache
def _definitions() -> list[Object]:
    """Reading them takes longer than a whole simulated failover, so it is done once."""
    files = sorted((Path(__file__).parents[1] / "deploy" / "crds").glob("*.yaml"))
    return [*(yaml.safe_load(file.read_text()) for file in files), *metal3_definitions()]


class Stage:
    """What a test can do to the cluster, and what it can see of it."""

    def __init__(
        self, clock: Clock, server: ApiServer, machines: Mapping[str, Machine], drivers: Mapping[str, Make], pace: Pace
    ) -> None:
        self.clock = clock
        self.pace = pace
        self.server = server
        self.machines = machines
        self.person = Client(InProcess(server, "person"), clock)
        self.wrongs: list[str] = []  # what an operator did without a proof
        self.was: Object = {}
        self.is_torn = False  # somebody has taken a remediation away by force
        server.reactions.append(self._noticed)
        self._drivers = drivers
        self._hollow: HollowCluster | None = None

    @property
    def hollow(self) -> HollowCluster:
        assert self._hollow is not None, "nothing lives before the stage is open"
        return self._hollow

    def lives(self, hollow: HollowCluster) -> None:
        self._hollow = hollow

    # What is there

    def all(self, resource: str) -> list[Object]:
        return [version.object for version in self.server.store.collection(resource).objects.values()]

    def one(self, resource: str, name: str) -> Object | None:
        return next((item for item in self.all(resource) if item["metadata"]["name"] == name), None)

    @property
    def node(self) -> Object | None:
        return self.one("nodes", VICTIM)

    @property
    def incident(self) -> Object | None:
        return self.one("nodeincidents.defib.dev", VICTIM)

    @property
    def remediations(self) -> list[Object]:
        return self.all("powercycleremediations.defib.dev")

    @property
    def phase(self) -> str:
        incident = self.incident
        return str((incident.get("status") or {}).get("phase", Phase.OPEN)) if incident is not None else ""

    @property
    def reason(self) -> str:
        incident = self.incident
        return str((incident.get("status") or {}).get("reason", "")) if incident is not None else ""

    @property
    def attempt(self) -> int:
        return int(((self.incident or {}).get("status") or {}).get("attempt", 1))

    @property
    def is_by_hand(self) -> bool:
        power = ((self.incident or {}).get("status") or {}).get("power") or {}
        return bool(power.get("driver") == MANUAL)

    @property
    def is_proved(self) -> bool:
        incident = self.incident
        return incident is not None and (incident.get("status") or {}).get("proof") is not None

    @property
    def pod_runs_on(self) -> str:
        """Where the pod that must never run twice is ready now; empty when nowhere."""
        return self.ready_on(POD)

    def ready_on(self, name: str) -> str:
        pod = self.one("pods", name)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return ""
        ready = [one["status"] for one in pod.get("status", {}).get("conditions", ()) if one["type"] == "Ready"]
        return str(pod["spec"].get("nodeName", "")) if ready == ["True"] else ""

    @property
    def is_over(self) -> bool:
        """Nothing is left to wait for: the node is back and nobody wants anything of it."""
        if self.phase != Phase.CLOSED or ready_of(self.node) != "True" or not self.pod_runs_on:
            return False
        return all(_condition(item, medik8s.SUCCEEDED) in ("True", "False") for item in self.remediations)

    async def until(self, holds: Callable[[], bool], seconds: float | None = None) -> bool:
        """Whether it held within that time; looks again and again."""
        ends = self.clock.monotonic() + (self.pace.patience_seconds if seconds is None else seconds)
        while not holds():
            if self.clock.monotonic() >= ends:
                return False
            await asyncio.sleep(self.pace.look_seconds)
        return True

    async def calm(self) -> None:
        """Whatever is still to come has come."""
        await asyncio.sleep(self.pace.calm_seconds)

    # What happens

    async def begin(self) -> None:
        """The pod runs on the node that is going to fail, which has something of its own that must not be lost."""
        database = manifest_of(StatefulSetWithVolume(name=NewName("db"), replicas=1, access=Access.RWO))
        await self.person.create(database.kind, database.body, namespace=SHOP)
        assert await self.until(lambda: self.pod_runs_on != "", 60)
        assert self.pod_runs_on == VICTIM
        own = {"metadata": {"labels": OWN_LABEL, "annotations": OWN_ANNOTATION}, "spec": {"taints": [OWN_TAINT]}}
        await self.person.patch(NODES.at(VICTIM), Merge(own))
        self.was = self.node or {}

    def fail(self, how: str) -> None:
        node, machine = self.hollow.nodes[VICTIM], self.machines[VICTIM]
        match how:
            case "hangs":
                node.hang()
            case "is cut off":
                node.partition()
                machine.subscribe(lambda on: None if on else node.heal())  # a restart mends what was wrong with it
            case "loses power":
                machine.set_power(False)
            case _:
                raise AssertionError(f"nobody knows how a node {how}")

    def mend(self) -> None:
        """Whatever was wrong with it, somebody has seen to it."""
        node, machine = self.hollow.nodes[VICTIM], self.machines[VICTIM]
        if not machine.is_on:
            machine.set_power(True)
        node.resume()
        node.heal()

    async def order(self, way: Way, workloads: str, **more: Any) -> None:
        """By a person, for the node that has failed."""
        await self.person.create(
            REMEDIATIONS, {"metadata": {"name": VICTIM}, "spec": spec_of(way, workloads) | more}, namespace=HOME
        )

    async def check(self, way: Way, workloads: str, **more: Any) -> None:
        """By a NodeHealthCheck, which is quick to judge."""
        template = {"metadata": {"name": "cycle"}, "spec": {"template": {"spec": spec_of(way, workloads) | more}}}
        await self.person.create(TEMPLATES, template, namespace=HOME)
        spec = {
            "selector": {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "Exists"}]},
            "minHealthy": "51%",
            "unhealthyConditions": [{"type": "Ready", "status": s, "duration": "1s"} for s in ("Unknown", "False")],
            "remediationTemplate": {
                "apiVersion": TEMPLATES.api_version,
                "kind": TEMPLATES.name,
                "name": "cycle",
                "namespace": HOME,
            },
        }
        await self.person.create(NODE_HEALTH_CHECKS, {"metadata": {"name": "all"}, "spec": spec})

    async def withdraw(self) -> None:
        """All remediations are deleted, by somebody who does not wait."""
        for item in self.remediations:
            meta = item["metadata"]
            try:
                await self.person.delete(REMEDIATIONS.at(meta["name"], HOME), Deletion(uid=meta["uid"]))
            except NotFound:
                continue

    async def patch_remediations(self, metadata: Object) -> None:
        for item in self.remediations:
            await self.person.patch(REMEDIATIONS.at(item["metadata"]["name"], HOME), Merge({"metadata": metadata}))

    async def serve_by_hand(self) -> None:
        """A person who does what the incident asks for: switches the machine, and says so."""
        machine = self.machines[VICTIM]
        while True:
            await asyncio.sleep(1.0)  # a person needs a moment
            if self.phase != Phase.NEEDS_PERSON:
                continue
            if self.reason == "WaitsForConfirmation":
                machine.set_power(False)
                said = {"by": "ann@example.com", "at": self.clock.now().isoformat()}
                await self.person.patch(NODE_INCIDENTS.at(VICTIM), Merge({"spec": {"confirmedOff": said}}))
            elif self.reason == "WaitsForPowerOn":
                machine.set_power(True)

    # Operators

    @asynccontextmanager
    async def operator(self, doom: Doom = NEVER, *, client: str = "defib", **settings: Any) -> AsyncIterator[Life]:
        """One with its own memory, until the context is left or its doom strikes."""
        life = Life(doom)
        line = MortalLine(InProcess(self.server, client), life, self._asked)
        made = {name: make() for name, make in self._drivers.items()}
        drivers = mortal(made, self.clock, life)
        chosen = Settings(**({"default_check": "off", "election": "off"} | settings))
        async with operating(line, self.clock, chosen, drivers):
            yield life

    def _asked(self, request: Request) -> None:
        """What may be done only to a machine that was proved to be down, and is."""
        frees_pod = request.method == "DELETE" and f"/namespaces/{SHOP}/pods/" in request.path
        detaches = request.method == "DELETE" and "/volumeattachments/" in request.path
        deletes_node = request.method == "DELETE" and request.path.endswith(f"/nodes/{VICTIM}")
        taints = request.path.endswith(f"/nodes/{VICTIM}") and OUT_OF_SERVICE.encode() in request.body
        if not (frees_pod or detaches or deletes_node or taints):
            return
        if not self.is_proved:
            self.wrongs.append(f"{request} without a proof")
        if self.machines[VICTIM].is_on:
            self.wrongs.append(f"{request} while the machine is on")

    def _noticed(self, change: Change) -> None:
        """A remediation that we hold on to is let go when nothing is left to undo, or a person must see to it."""
        if change.kind != DELETED or change.resource != str(REMEDIATIONS) or self.is_torn:
            return
        if self.phase not in ("", Phase.CLOSED, Phase.NEEDS_PERSON):
            self.wrongs.append(f"the remediation was let go in {self.phase}")

    # What is left

    def leftovers(self) -> list[str]:
        """Everything that is not as it was before the node failed, except where the pod runs."""
        found = [*self.wrongs, *(verdict.story for verdict in self.hollow.disks.corrupted())]
        found += self._wrong_with_node()
        found += [f"incident in {self.phase}: {self.reason}" for _ in (1,) if self.phase not in ("", Phase.CLOSED)]
        for host in self.all("baremetalhosts.metal3.io"):
            marks = [key for key in host["metadata"].get("annotations") or () if "reboot" in key]
            found += [f"host {host['metadata']['name']} has {key}" for key in marks]
        held = [
            f"lock of {lease['metadata']['name']} is held by {lease['spec']['holderIdentity']}"
            for lease in self.all("leases.coordination.k8s.io")
            if lease["metadata"]["namespace"] == medik8s.LOCK_NAMESPACE and lease["spec"].get("holderIdentity")
        ]
        runs = self.pod_runs_on
        return [*found, *held, *(() if runs else (f"{POD} runs nowhere",))]

    def _wrong_with_node(self) -> list[str]:
        node, found = self.node, []
        if not self.machines[VICTIM].is_on:
            found.append("the machine is off")
        if node is None:
            return [*found, "there is no node"]
        if ready_of(node) != "True":
            found.append(f"the node is {ready_of(node)}")
        for what in ("labels", "annotations"):
            was, now = self.was["metadata"].get(what) or {}, node["metadata"].get(what) or {}
            found += [f"{what}: was {was}, is {now}"] if was != now else []
        was, now = ([t["key"] for t in one["spec"].get("taints") or ()] for one in (self.was, node))
        return [*found, *([f"taints: were {was}, are {now}"] if was != now else [])]


def spec_of(way: Way, workloads: str) -> Object:
    return {"power": way.power, "workloads": workloads, "acceptedProofs": list(way.accepts)}


def ready_of(node: Object | None) -> str:
    conditions = node["status"].get("conditions", ()) if node is not None else ()
    return next((str(one["status"]) for one in conditions if one["type"] == "Ready"), "gone")


def _condition(item: Object, kind: str) -> str:
    conditions = (item.get("status") or {}).get("conditions") or ()
    return next((str(one["status"]) for one in conditions if one["type"] == kind), "Unknown")


def succeeded(item: Object) -> str:
    return _condition(item, medik8s.SUCCEEDED)


def secret(name: str, texts: Mapping[str, str]) -> Object:
    data = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    return {"metadata": {"name": name, "namespace": HOME}, "data": data}


def _a_server(clock: Clock, machines: Iterable[Machine]) -> ApiServer:
    server = ApiServer(clock)
    controllers.attach(server)
    for definition in _definitions():
        server.put("customresourcedefinitions.apiextensions.k8s.io", definition)
    for name in (HOME, HOSTS_HOME, SHOP, medik8s.LOCK_NAMESPACE):
        server.put("namespaces", {"metadata": {"name": name}})
    for machine in machines:
        texts = {"username": machine.bmc.username, "password": machine.bmc.password}
        server.put("secrets", secret(f"bmc-{machine.name}", texts))
    return server


@asynccontextmanager
async def a_stage(
    clock: Clock,
    *,
    metal3: bool = False,
    machines: Iterable[Machine] = (),
    drivers: Mapping[str, Make] | None = None,
    pace: Pace = IN_VIRTUAL_TIME,
) -> AsyncIterator[Stage]:
    """`metal3`: a baremetal operator looks after the machines. `drivers` besides those of hollow machines, as each
    operator makes them for itself.
    """
    known = {machine.name: machine for machine in machines} or {name: Machine(name, clock) for name in NODE_NAMES}
    server = _a_server(clock, known.values())
    own: dict[str, Make] = {
        "hollow": lambda: HollowPower(clock, known),
        "blind": lambda: CannotRead(HollowPower(clock, known), clock),
        "manual": lambda: Manual(clock),
    }
    stage = Stage(clock, server, known, own | dict(drivers or {}), pace)
    blueprints = [Blueprint(name=name, zone="a", address=f"10.0.0.{name[1:]}") for name in known]

    def client(name: str) -> Client:
        return Client(InProcess(server, name), clock)

    work = [
        Workloads(server, clock, pace.workloads()).run(),
        NodeLifecycle(client("node-lifecycle"), clock, pace.profile.nodes).run(),
    ]
    if metal3:
        for name in known:
            body = {
                "metadata": {"name": name, "namespace": HOSTS_HOME},
                "spec": {"online": True, "image": {"url": "x"}},
            }
            server.put("baremetalhosts.metal3.io", body)
        work.append(HollowMetal3(client("metal3"), clock, known).run())
    async with (
        alongside(*work),
        hollow_cluster(client("kubelet"), clock, pace.profile, blueprints, known.values()) as cluster,
    ):
        stage.lives(cluster)
        await stage.begin()
        yield stage

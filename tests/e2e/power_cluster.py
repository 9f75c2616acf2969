"""A real control plane with Defib installed as its manifests say, and hollow nodes on machines that have BMCs.

Each BMC speaks Redfish over TLS and IPMI, with real traffic on loopback; where it is, the templates say for each node,
and its credentials are in a Secret of its own. Pods tolerate a lost node for five minutes here, as they do everywhere,
so whatever leaves within the time of a test was freed by us.
"""

import asyncio
import base64
import json
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from defib.clock import SystemClock
from defib.hollow.disk import Disk
from defib.hollow.machine import Delays, Machine
from defib.hollow.node import HollowNode
from defib.hollow.objects import PODS, Pod
from defib.hollow.site import in_zones
from defib.kube.client import Client, Merge, Scope
from defib.kube.errors import NotFound
from defib.kube.kinds import LEASES, NODE_HEALTH_CHECKS, NODE_INCIDENTS, NODES, Kind, unstructured
from defib.model import medik8s
from defib.model.incident import NodeIncident
from defib.model.meta import Unstructured
from defib.model.node import OUT_OF_SERVICE, Lease
from testbed.bmc.ipmi import ipmi
from testbed.bmc.redfish import redfish
from testbed.certificates import Authority
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from testbed.settings import Settings
from tests.contract.power.subjects import serving_tls
from tests.e2e.audit import audited
from tests.e2e.check_cluster import last_words
from tests.e2e.hollow_cluster import SETTINGS, TIMERS, HollowCluster, eventually, hollow_cluster
from tests.e2e.rights import until_allowed

Body = dict[str, Any]

PLACE = "defib-system"  # where templates, remediations and Secrets are
FILES = ("install.yaml",)
DEPLOY = Path(__file__).parents[2] / "deploy"
PATIENCE_SECONDS = 40.0
UNHEALTHY_AFTER = "1s"
SECRETS = unstructured("", "v1", "secrets", "Secret", namespaced=True)
POWER_CYCLES = unstructured("defib.dev", "v1alpha1", "powercycleremediations", "PowerCycleRemediation", namespaced=True)
TEMPLATES = unstructured(
    "defib.dev", "v1alpha1", "powercycleremediationtemplates", "PowerCycleRemediationTemplate", namespaced=True
)
CREDENTIALS = {"name": "bmc-{node}"}
POWER: dict[str, Body] = {
    "redfish": {"driver": "redfish", "credentials": CREDENTIALS},
    "ipmi": {"driver": "ipmi", "credentials": CREDENTIALS},
    "fence-agent": {
        "driver": "fence-agent",
        "address": "127.0.0.1",
        "credentials": {"name": "bmc-{node}-plain"},
        "options": {"agent": "fence_ipmilan", "lanplus": "1", "plug": "{node}"},
    },
    "manual": {"driver": "manual"},
}
# Roles come into force a moment after they were written, and those that are added up another moment later.
RIGHTS = (
    ("create", "powercycleremediations.defib.dev", PLACE),
    ("watch", "nodehealthchecks.remediation.medik8s.io", ""),
    ("watch", "leases.coordination.k8s.io", "kube-node-lease"),
    ("create", "leases.coordination.k8s.io", medik8s.LOCK_NAMESPACE),
    ("patch", "leases.coordination.k8s.io", PLACE),
    ("get", "secrets", PLACE),
    ("create", "events", "default"),
)


async def look_after(client: Client, node: str, templates: Kind[Unstructured], spec: Body) -> None:
    """A NodeHealthCheck for this node alone, with a template of its own."""
    body = {"metadata": {"name": node}, "spec": {"template": {"spec": spec}}}
    await client.create(templates, body, namespace=PLACE)
    template = {"apiVersion": templates.api_version, "kind": templates.name, "namespace": PLACE, "name": node}
    ill = [{"type": "Ready", "status": status, "duration": UNHEALTHY_AFTER} for status in ("False", "Unknown")]
    check = {
        "selector": {"matchLabels": {"ward": node}},
        "minHealthy": 0,
        "unhealthyConditions": ill,
        "remediationTemplate": template,
    }
    await client.patch(NODES.at(node), Merge({"metadata": {"labels": {"ward": node}}}))
    await client.create(NODE_HEALTH_CHECKS, {"metadata": {"name": node}, "spec": check})


class PowerCluster:
    def __init__(self, hollow: HollowCluster, ca_pem: str) -> None:
        self.hollow = hollow
        self.ca_pem = ca_pem
        self.places: dict[str, dict[str, Body]] = {driver: {} for driver in POWER}  # by driver and node

    def power(self, driver: str) -> Body:
        """What a template says, with a place of its own for each node."""
        return POWER[driver] | {"nodes": self.places[driver]}

    @property
    def plane(self) -> ControlPlane:
        return self.hollow.plane

    @property
    def client(self) -> Client:
        return self.hollow.client

    async def ward(self, node: str, power: str = "redfish", **spec: Any) -> "Ward":
        """A node with a database on it, and a NodeHealthCheck for this node, with a template of its own."""
        ward = Ward(self, node)
        await self.hollow.make_database(ward.app, prefers=node)
        await ward.eventually("its database runs there", ward.runs_here)
        await look_after(self.client, node, TEMPLATES, {"power": self.power(power), **spec})
        return ward

    async def write_secret(self, node: str, *, password: str) -> None:
        """With the certificate by which the BMC is trusted; fence agents take no such thing, so they have their own."""
        login = {"username": "admin", "password": password}
        for name, texts in ((f"bmc-{node}", {**login, "ca.crt": self.ca_pem}), (f"bmc-{node}-plain", login)):
            encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
            try:
                await self.client.patch(SECRETS.at(name, PLACE), Merge({"data": encoded}))
            except NotFound:
                await self.client.create(SECRETS, {"metadata": {"name": name}, "data": encoded}, namespace=PLACE)

    async def kubectl(self, *arguments: str) -> str:
        fresh = f"--cache-dir={self.plane.directory / 'kubectl'}"  # it remembers which kinds there were
        command = (str(self.plane.kubectl), f"--kubeconfig={self.plane.kubeconfig}", fresh, *arguments)
        process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=STDOUT)
        async with asyncio.timeout(PATIENCE_SECONDS):
            said, _ = await process.communicate()
        assert process.returncode == 0, said.decode()
        return said.decode()

    async def shown(self, kind: str = "pcr") -> dict[str, str]:
        """What a person sees of each remediation or template, by its node: the line that kubectl prints."""
        table = await self.kubectl("get", kind, f"--namespace={PLACE}", "--no-headers")
        return {line.split()[0]: " ".join(line.split()) for line in table.splitlines() if line.split()}

    async def fail(self, why: str) -> None:
        """With what is written down, and the end of what the operator said."""
        self.plane.keep()
        incidents = (await self.client.list_all(NODE_INCIDENTS)).items
        told = [json.dumps(msgspec.to_builtins(one.status)) for one in incidents if one.is_open]
        pytest.fail("\n".join([why, *told, *await last_words(self.plane)]))


class Ward:
    """One node, and what is looked after there."""

    def __init__(self, cluster: PowerCluster, name: str) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.name = name
        self.app = f"db-{name}"
        self.node: HollowNode = cluster.hollow.nodes[name]
        self.machine = self.node.machine

    async def disk(self) -> Disk:
        return await self.cluster.hollow.disk_of(f"data-{self.app}-0")

    async def runs_here(self) -> bool:
        return any(pod.spec.node_name == self.name for pod in await self.cluster.hollow.running(self.app))

    async def runs_elsewhere(self) -> bool:
        return bool(await self.cluster.hollow.running(self.app, without=self.name))

    async def pods(self) -> list[Pod]:
        return (await self.client.list_all(PODS, Scope(fields=f"spec.nodeName={self.name}"))).items

    async def incident(self) -> NodeIncident | None:
        try:
            return await self.client.get(NODE_INCIDENTS.at(self.name))
        except NotFound:
            return None

    async def reason(self) -> str:
        incident = await self.incident()
        return incident.status.reason if incident is not None else ""

    async def remediations(self) -> list[Unstructured]:
        known = (await self.client.list_all(POWER_CYCLES, Scope(namespace=PLACE))).items
        return [one for one in known if (one.annotations.get(medik8s.NODE_NAME) or one.name) == self.name]

    async def is_fenceable(self) -> bool:
        """Its power was tried while it was well, and its template says so."""
        template = await self.client.get(TEMPLATES.at(self.name, PLACE))
        status = template.status or {}
        return bool((status.get("covered"), status.get("ready")) == (1, 1))

    async def lock(self) -> Lease | None:
        try:
            return await self.client.get(LEASES.at(medik8s.lock_of(self.name), medik8s.LOCK_NAMESPACE))
        except NotFound:
            return None

    async def is_at_rest(self) -> bool:
        """The node is back and healthy, and nothing is left of what was done to it."""
        try:
            node = await self.cluster.hollow.node(self.name)
        except NotFound:
            return False
        incident = await self.incident()
        taints = {taint.key for taint in node.spec.taints or ()}
        check = await self.client.get(NODE_HEALTH_CHECKS.at(self.name))
        return (
            node.ready == "True"
            and OUT_OF_SERVICE not in taints
            and (incident is None or not incident.is_open)
            and not await self.remediations()
            and not await self.lock()
            and not (check.status or {}).get("unhealthyNodes")
            and not [pod for pod in await self.pods() if pod.is_deleted]
        )

    async def eventually(
        self, what: str, question: Callable[[], Awaitable[bool]], *, within: float = PATIENCE_SECONDS
    ) -> None:
        try:
            await eventually(question, within=within)
        except TimeoutError:
            await self.cluster.fail(f"{self.name}: not within {within:g} s: {what}")

    async def expect_recovered(self) -> NodeIncident:
        """Back as it was, the machine on, the disk intact, and it says so."""
        await self.eventually("it is at rest", self.is_at_rest)
        assert self.machine.is_on
        assert not (await self.disk()).verdict().corrupted, (await self.disk()).verdict().story
        incident = await self.incident()
        assert incident is not None
        assert (incident.status.phase, incident.status.outcome) == ("Closed", "Recovered")
        return incident


@asynccontextmanager
async def power_cluster(
    programs: Programs, policy: Path, *manager: str, apiserver: tuple[str, ...] = ()
) -> AsyncIterator[PowerCluster]:
    """`policy` is a file to be written, by which the API server writes down what the operator asks; `manager` and
    `apiserver` are further flags of the controller manager and the API server.
    """
    clock = SystemClock()
    blueprints = in_zones("ab", 5)
    delays = Delays(on_seconds=0.3, off_seconds=0.3)
    machines = [Machine(blueprint.name, clock, delays=delays) for blueprint in blueprints]
    authority = Authority(clock.now())
    settings = Settings(
        controller_manager=(*SETTINGS.controller_manager, *manager), apiserver=(*await audited(policy), *apiserver)
    )
    # Slow enough to be switched off again before it is up, when it was only switched on to see whether that works.
    timers = msgspec.structs.replace(TIMERS, boot_seconds=2.5)
    async with (
        hollow_cluster(programs, blueprints, settings=settings, timers=timers, machines=machines) as hollow,
        redfish(machines, tls=serving_tls(authority)) as by_web,
        ipmi(machines) as by_lan,
    ):
        cluster = PowerCluster(hollow, authority.pem.decode())
        await cluster.kubectl("apply", *(option for file in FILES for option in ("-f", str(DEPLOY / file))))
        for machine in machines:
            lan = by_lan[machine.name]
            cluster.places["redfish"][machine.name] = {"address": by_web[machine.name].url}
            cluster.places["ipmi"][machine.name] = {"address": f"{lan.host}:{lan.port}"}
            cluster.places["fence-agent"][machine.name] = {"options": {"ipport": str(lan.port)}}
            await cluster.write_secret(machine.name, password=machine.bmc.password)
        for right in RIGHTS:
            await until_allowed(cluster.client, *right)
        yield cluster

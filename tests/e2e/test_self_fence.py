"""Nodes take themselves down on a real control plane: the operator with its own account, real agents, hollow kubelets and disks.

Each hollow node has an agent as a process, in a network of its own, with a stand-in watchdog. When that fires, the machine
of the hollow node loses its power, and starts again a moment later, in another boot.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from defib.clock import SystemClock
from defib.hollow.machine import Machine
from defib.hollow.node import HollowNode
from defib.hollow.site import in_zones
from defib.kube.client import Client, Merge, Scope
from defib.kube.errors import NotFound
from defib.kube.kinds import LEASES, NODE_INCIDENTS, NODES, unstructured
from defib.model.incident import NodeIncident, Phase
from defib.model.node import OUT_OF_SERVICE
from defib.model.self_fence import PEERS_EVERY, lease_name, read_report
from defib.model.self_fencing import NEVER_REBOOTED
from testbed.chart import WITH_AGENTS
from testbed.cluster import ControlPlane
from testbed.network import Network
from testbed.programs import Programs
from testbed.settings import Settings
from tests.agent_certificates import AgentAuthority
from tests.e2e.agent_fleet import START_SECONDS, NodeProcess, allow_agents, way_in
from tests.e2e.audit import audited
from tests.e2e.helm_release import Release
from tests.e2e.hollow_cluster import SETTINGS, TIMERS, HollowCluster, eventually, hollow_cluster
from tests.e2e.power_cluster import look_after
from tests.e2e.rights import until_allowed
from tests.e2e.running_operator import RunningOperator, defib_run

pytestmark = [pytest.mark.real, pytest.mark.timeout(420, func_only=True), pytest.mark.asyncio(loop_scope="module")]

CLOCK = SystemClock()
HOME = "defib-system"
PACE = ("--interval=1s", "--request-timeout=1s", "--failures=6", "--peer-time=8s")
KNOWN_SECONDS = 2 * PEERS_EVERY * 1.0 + 10.0  # before the node was last answered: who is younger is not heard
PATIENCE_SECONDS = 180.0  # the safe time, and what a busy machine adds to it
TEMPLATES = unstructured(
    "defib.dev", "v1alpha1", "selffenceremediationtemplates", "SelfFenceRemediationTemplate", namespaced=True
)
VALUES = tuple(f"--set={name}={str(value).lower()}" for name, value in WITH_AGENTS.items())
# Roles come into force a moment after they were written, and those that are added up another moment later.
RIGHTS = (
    ("create", "selffenceremediations.defib.dev", HOME),
    ("watch", "nodehealthchecks.remediation.medik8s.io", ""),
    ("watch", "leases.coordination.k8s.io", "kube-node-lease"),
    ("patch", "leases.coordination.k8s.io", HOME),
)
BLUEPRINTS = in_zones("ab", 2)
CUT_OFF, BROKEN = "zone-a-1", "zone-b-1"


class Guarded:
    """A hollow node and its agent, one boot after the other."""

    def __init__(self, node: HollowNode, network: Network, folder: Path, *, is_broken: bool) -> None:
        self.name = node.name
        self.node = node
        self.deaths: list[float] = []
        self._network = network
        self._folder = folder
        self._is_broken = is_broken
        self.body: NodeProcess | None = None

    async def live(self, kubeconfig: Path, tls: Path) -> None:
        """Until cancelled. A machine whose watchdog has fired loses its power, and gets it back."""
        boot = ""
        try:
            while True:
                if self.node.boot_id and self.node.boot_id != boot:
                    boot = self.node.boot_id
                    await self._begin(boot, kubeconfig, tls)
                if self.body is not None and not self.body.is_alive:
                    self.deaths.append(self.body.died_at())
                    await self._end()
                    self.node.machine.set_power(False)
                    await asyncio.sleep(1)  # a real machine takes its time as well
                    self.node.machine.set_power(True)
                await asyncio.sleep(0.2)  # processes do not tell when they die
        finally:
            await self._end()

    async def _begin(self, boot: str, kubeconfig: Path, tls: Path) -> None:
        await self._end()
        folder = self._folder / f"{self.name}-{boot[:8]}"
        folder.mkdir()
        self.body = await asyncio.to_thread(NodeProcess, self.name, folder, boot_id=boot, is_broken=self._is_broken)
        await asyncio.to_thread(self.body.start_agent, self._network, kubeconfig, tls, HOME, PACE)

    async def _end(self) -> None:
        if self.body is not None:
            await asyncio.to_thread(self.body.end)
            self.body = None

    def cut_off(self) -> None:
        """Its kubelet, its agent; not its disks."""
        self.node.partition()
        self._network.isolate(self.name)

    def heal(self) -> None:
        self.node.heal()
        self._network.heal()


class Cluster:
    def __init__(self, hollow: HollowCluster, nodes: dict[str, Guarded]) -> None:
        self.hollow = hollow
        self.nodes = nodes

    @property
    def plane(self) -> ControlPlane:
        return self.hollow.plane

    @property
    def client(self) -> Client:
        return self.hollow.client

    async def are_known(self) -> bool:
        """All armed, and for so long that each can be counted on."""
        leases = (await self.client.list_all(LEASES, Scope(namespace=HOME))).items
        known = {lease.name: lease for lease in leases}
        for name in self.nodes:
            lease = known.get(lease_name(name))
            report = read_report(lease) if lease is not None else None
            created = lease.metadata.creation_timestamp if lease is not None else None
            if report is None or not report.armed or created is None:
                return False
            if (CLOCK.now() - created).total_seconds() < KNOWN_SECONDS + 2:
                return False
        return True

    async def check(self, node: str) -> None:
        # The stand-in is no device of the kernel, and says so.
        spec = {"acceptedProofs": ["C", "D"], "timeouts": {"order": "90s"}, "allowSoftwareWatchdog": True}
        await look_after(self.client, node, TEMPLATES, spec)

    async def incident(self, node: str) -> NodeIncident | None:
        try:
            return await self.client.get(NODE_INCIDENTS.at(node))
        except NotFound:
            return None

    async def is_ready_to_be_fenced(self, node: str) -> bool:
        status = (await self.client.get(TEMPLATES.at(node, HOME))).status or {}
        return bool((status.get("covered"), status.get("ready")) == (1, 1))

    async def eventually(self, what: str, question: Callable[[], Awaitable[bool]], within: float) -> None:
        try:
            await eventually(question, within=within)
        except TimeoutError:
            self.plane.keep()
            incidents = (await self.client.list_all(NODE_INCIDENTS)).items
            templates = (await self.client.list_all(TEMPLATES)).items
            told = [*map(msgspec.to_builtins, incidents), *map(msgspec.to_builtins, templates)]
            pytest.fail(f"not within {within:g} s: {what}; {told}")


@asynccontextmanager
async def guarded_cluster(programs: Programs, helm: Path, network: Network, folder: Path) -> AsyncIterator[Cluster]:
    machines = [Machine(blueprint.name, CLOCK) for blueprint in BLUEPRINTS]
    settings = Settings(controller_manager=SETTINGS.controller_manager, apiserver=await audited(folder / "policy.yaml"))
    timers = msgspec.structs.replace(TIMERS, boot_seconds=2.5)
    async with (
        hollow_cluster(programs, BLUEPRINTS, settings=settings, timers=timers, machines=machines) as hollow,
        way_in(hollow.plane, network, folder) as kubeconfig,
    ):
        await Release(helm, hollow.plane).install(*VALUES)
        await allow_agents(hollow.client)
        for right in RIGHTS:
            await until_allowed(hollow.client, *right)
        tls = await asyncio.to_thread(AgentAuthority().write, folder / "tls")
        nodes = {
            one.name: Guarded(hollow.nodes[one.name], network, folder, is_broken=one.name == BROKEN)
            for one in BLUEPRINTS
        }
        async with asyncio.TaskGroup() as group:
            lives = [group.create_task(node.live(kubeconfig, tls)) for node in nodes.values()]
            cluster = Cluster(hollow, nodes)
            await cluster.eventually("all agents are known", cluster.are_known, START_SECONDS + KNOWN_SECONDS)
            yield cluster
            for life in lives:
                life.cancel()


@pytest.fixture(scope="module")
def network(tunnels: None) -> Iterator[Network]:  # noqa: ARG001  without them, there is none
    with Network([one.name for one in BLUEPRINTS]) as network:
        yield network


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(
    programs: Programs, helm: Path, network: Network, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Cluster]:
    async with guarded_cluster(programs, helm, network, tmp_path_factory.mktemp("guarded")) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(cluster: Cluster) -> AsyncIterator[RunningOperator]:
    async with defib_run(cluster) as operator:
        yield operator
        await operator.expect_nothing_refused(cluster)


async def test_the_database_of_a_node_that_is_cut_off_runs_elsewhere_when_the_node_must_be_dead(
    cluster: Cluster, operator: RunningOperator
) -> None:
    assert await operator.is_ready()
    victim, hollow = cluster.nodes[CUT_OFF], cluster.hollow
    await hollow.make_database("db", prefers=CUT_OFF)

    async def runs_here() -> bool:
        return any(pod.spec.node_name == CUT_OFF for pod in await hollow.running("db"))

    async def runs_elsewhere() -> bool:
        return bool(await hollow.running("db", without=CUT_OFF))

    async def is_over() -> bool:
        incident, node = await cluster.incident(CUT_OFF), await hollow.node(CUT_OFF)
        taints = {taint.key for taint in node.spec.taints or ()}
        return incident is not None and not incident.is_open and OUT_OF_SERVICE not in taints

    await cluster.eventually("its database runs there", runs_here, 60)
    await cluster.check(CUT_OFF)
    await cluster.eventually("it could be fenced", lambda: cluster.is_ready_to_be_fenced(CUT_OFF), 60)
    before = (await hollow.node(CUT_OFF)).status.node_info.boot_id
    victim.cut_off()
    await cluster.eventually("its database runs elsewhere", runs_elsewhere, PATIENCE_SECONDS)
    assert victim.deaths, "it died before"
    victim.heal()
    await cluster.eventually("it is over", is_over, PATIENCE_SECONDS)
    incident = await cluster.incident(CUT_OFF)
    assert incident is not None
    status = incident.status
    assert (status.outcome, status.boot_id) == ("Recovered", before)
    assert status.proof is not None
    assert status.proof.grade == "C"
    assert status.safe_time is not None
    assert str(status.safe_time) in status.proof.how
    after = await hollow.node(CUT_OFF)
    assert after.status.node_info.boot_id != before
    assert NEVER_REBOOTED not in after.annotations
    assert not (await hollow.disk_of("data-db-0")).verdict().corrupted


async def test_a_node_that_never_rebooted_is_told_so_loudly_when_it_returns(
    cluster: Cluster, operator: RunningOperator
) -> None:
    assert await operator.is_ready()
    victim, hollow = cluster.nodes[BROKEN], cluster.hollow

    async def is_proved() -> bool:
        incident = await cluster.incident(BROKEN)
        return incident is not None and incident.status.proof is not None

    async def is_exposed() -> bool:
        incident, node = await cluster.incident(BROKEN), await hollow.node(BROKEN)
        told = [] if incident is None else [entry.message for entry in incident.status.timeline or ()]
        return NEVER_REBOOTED in node.annotations and any("NeverRebooted" in message for message in told)

    async def is_distrusted() -> bool:
        status = (await cluster.client.get(TEMPLATES.at(BROKEN, HOME))).status or {}
        return any(NEVER_REBOOTED in one["why"] for one in status.get("notReady") or ())

    await cluster.check(BROKEN)
    await cluster.eventually("it could be fenced", lambda: cluster.is_ready_to_be_fenced(BROKEN), 60)
    victim.cut_off()
    await cluster.eventually("it counts as dead", is_proved, PATIENCE_SECONDS)
    assert victim.deaths == []
    victim.heal()
    await cluster.eventually("it is told that it is not", is_exposed, PATIENCE_SECONDS)
    incident = await cluster.incident(BROKEN)
    assert incident is not None
    assert incident.status.phase in (Phase.NEEDS_PERSON, Phase.RESTORING, Phase.CLOSED)
    await hollow.client.patch(NODES.at(BROKEN), Merge({"metadata": {"labels": {"looked-at": "again"}}}))
    await cluster.eventually("it is not believed again", is_distrusted, PATIENCE_SECONDS)

"""A cluster that Defib looks after, with databases and with BMCs, in which one node after the other fails.

Between the verdict and a pod that runs elsewhere everything is as Kubernetes has it. What comes before and after, the
silence that is noticed and the start of a machine, is short: it is not measured.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from defib.app import Operator
from defib.clock import Clock
from defib.config import Settings
from defib.hollow.attacher import StorageTimers
from defib.hollow.machine import Delays, Machine, Slow
from defib.hollow.objects import Pod
from defib.hollow.timers import Timers as NodeTimers
from defib.kube.client import Client
from defib.kube.transport import Transport
from defib.model.incident import Phase as IncidentPhase
from defib.telemetry.metrics import Metrics
from testbed.kubelets import LOOPBACK, kubelets
from testbed.scenario.hollow_cluster import HollowCluster, alongside, hollow_cluster
from testbed.scenario.log_book import LogBook
from testbed.scenario.manifests import APP, NAMESPACES, Manifest, blueprints, manifest_of
from testbed.scenario.perform_remediation import install
from testbed.scenario.profiles import Profile
from testbed.scenario.remediation_manifests import (
    CHECKS,
    DEFIB_NAMESPACES,
    check_spec,
    definitions,
    secret_manifest,
    templates_of,
)
from testbed.scenario.sight import Sight, is_ready
from testbed.scenario.story import (
    Access,
    After,
    Amount,
    AtMostUnhealthy,
    NewName,
    Nodes,
    Remediator,
    StatefulSetWithVolume,
    Story,
    TemplateName,
    Timers,
    With,
)
from tests.bench_failover.power_draws import Draw, PowerFault
from tests.bench_failover.power_results import Cycle, Moment
from tests.bench_failover.power_ways import Way
from tests.bench_failover.ward import ARRANGE_SECONDS, NotArranged

NAMESPACE = "bench-power"
NODE_NAMES = tuple(NewName(f"n{number}") for number in range(1, 6))
DATABASES = tuple(NewName(f"db-{letter}") for letter in "abc")
UNHEALTHY_AFTER = 2.0
LIMIT_SECONDS = 60.0
BACK_SECONDS = 120.0
LATE_WRITES_SECONDS = 1.0  # two writers need a moment to get in each other's way

PROFILE = Profile(
    name="default",
    nodes=NodeTimers(
        renew_seconds=1.0,
        lease_seconds=4,
        monitor_seconds=0.5,
        grace_seconds=5.0,
        status_seconds=30.0,
        boot_seconds=8.0,  # no machine is up before it could be switched off again
    ),
    storage=StorageTimers(provision_seconds=0.1, attach_seconds=0.5, detach_seconds=0.5),
)
FAST = Profile(
    name="default",
    nodes=NodeTimers(boot_seconds=8.0),  # heartbeats and patience as Kubernetes has them
    storage=PROFILE.storage,
)
TEMPLATE = TemplateName("power")


def profile_of(*, is_fast: bool) -> Profile:
    return FAST if is_fast else PROFILE


Connect = Callable[[], Awaitable[Transport]]


def new_machines(clock: Clock) -> dict[str, Machine]:
    return {name: Machine(name, clock) for name in NODE_NAMES}


@asynccontextmanager
async def power_ward(
    client: Client, connect: Connect, clock: Clock, machines: dict[str, Machine], way: Way
) -> AsyncIterator["PowerWard"]:
    """On an API server that has controllers and nothing else."""
    for namespace in (NAMESPACE, *DEFIB_NAMESPACES):
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    await install(client, definitions(openshift=False))
    nodes = Story(
        path=NAMESPACE,
        title="",
        timers=Timers.DEFAULT,
        nodes=(Nodes(names=NODE_NAMES),),
        workloads=(),
        budgets=(),
        steps=(),
    )
    async with AsyncExitStack() as stack:
        made = blueprints(nodes, LOOPBACK if way.tls is not None else "")
        cluster = await stack.enter_async_context(
            hollow_cluster(client, clock, profile_of(is_fast=way.is_fast), made, machines.values())
        )
        if way.tls is not None:
            await stack.enter_async_context(kubelets(cluster.nodes.values(), way.tls))
        sight = Sight(client, clock, cluster.disks, NAMESPACE, LogBook(clock))
        operator = Operator(await connect(), clock, Settings(default_check="off"), Metrics(), way.drivers)
        try:
            async with alongside(sight.run(), sight.remediation.run(), operator.run()):
                ward = PowerWard(cluster, sight, machines)
                await ward.arrange(way)
                yield ward
        finally:
            await operator.close()


class PowerWard:
    def __init__(self, cluster: HollowCluster, sight: Sight, machines: dict[str, Machine]) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._sight = sight
        self._machines = machines
        self._is_fast = False
        self._watched: _Watched | None = None
        sight.listeners.append(self._look)

    async def arrange(self, way: Way) -> None:
        self._is_fast = way.is_fast
        await self._reach("not all nodes were ready", self._nodes_are_well, ARRANGE_SECONDS)
        self._sight.remediation.follow_all()
        for made in _manifests(self._machines, way):
            namespace = NAMESPACE if made.kind.namespaced else ""
            await self._cluster.client.create(made.kind, made.body, namespace=namespace)
        await self._reach("not all databases ran", self._all_run, ARRANGE_SECONDS)

    async def go_through(self, draw: Draw) -> Cycle:
        """One failure, from the fault until everything is as it was before. If that takes too long, it is not BACK."""
        old = {pod.uid: pod for pod in self._sight.pods()}
        victim = draw.chosen_from(sorted({pod.spec.node_name for pod in old.values()}))
        machine, broken = self._machines[victim], self._broken_disks()
        machine.delays = Delays(off_seconds=draw.off_seconds, on_seconds=1.0)
        machine.bmc.suffer(Slow(draw.answer_seconds))
        await asyncio.sleep(draw.after * profile_of(is_fast=self._is_fast).nodes.renew_seconds)
        lost = {uid: pod for uid, pod in old.items() if pod.spec.node_name == victim}
        watched = self._watched = _Watched(self._sight, self._clock, machine, lost)
        self._strike(victim, draw.fault)
        if self._is_fast:
            watched.begin()
        await self._sight.until(lambda: Moment.RUNNING in watched.marks, LIMIT_SECONDS)
        await asyncio.sleep(LATE_WRITES_SECONDS)
        self._cluster.nodes[victim].heal()  # somebody mends the network; whatever hung has started anew
        if await self._sight.until(lambda: self._is_over(victim), BACK_SECONDS):
            watched.mark(Moment.BACK)
        machine.bmc.suffer()
        return Cycle(
            run=draw.run,
            fault=draw.fault.value,
            victim=victim,
            off_seconds=draw.off_seconds,
            answer_seconds=draw.answer_seconds,
            seconds={moment: round(seconds, 2) for moment, seconds in watched.marks.items()},
            corrupted=tuple(sorted(self._broken_disks() - broken)),
        )

    @property
    def book(self) -> LogBook:
        return self._sight.book

    def _strike(self, victim: str, fault: PowerFault) -> None:
        node = self._cluster.nodes[victim]
        self.book.note("fault", f"{fault.value} {victim}")
        match fault:
            case PowerFault.OFF:
                node.machine.set_power(False)
            case PowerFault.HUNG:
                node.hang()
            case PowerFault.PARTITIONED:
                node.partition()

    def _look(self) -> None:
        if self._watched:
            self._watched.look()

    def _broken_disks(self) -> set[str]:
        return {disk.handle for disk in self._cluster.disks if disk.verdict().corrupted}

    def _is_over(self, victim: str) -> bool:
        incident = self._sight.remediation.incident(victim)
        is_closed = incident is not None and incident.status.phase is IncidentPhase.CLOSED
        return is_closed and not self._sight.remediation.remedies() and self._nodes_are_well() and self._all_run()

    def _nodes_are_well(self) -> bool:
        nodes = [self._sight.node(name) for name in NODE_NAMES]
        return all(node is not None and node.ready == "True" and not node.spec.taints for node in nodes)

    def _all_run(self) -> bool:
        return all(any(is_ready(pod) for pod in self._sight.pods(name)) for name in DATABASES)

    async def _reach(self, otherwise: str, holds: Callable[[], bool], seconds: float) -> None:
        if not await self._sight.until(holds, seconds):
            raise NotArranged(f"{otherwise} within {seconds:g} s:\n{self.book}")


def _manifests(machines: dict[str, Machine], way: Way) -> list[Manifest]:
    secrets = [secret_manifest(machine.bmc) for machine in machines.values()]
    for secret in secrets:
        secret.body["stringData"] |= way.trust
    template = {"metadata": {"name": TEMPLATE}, "spec": {"template": {"spec": {"power": way.power}}}}
    parts = (AtMostUnhealthy(amount=Amount("49%")), After(seconds=UNHEALTHY_AFTER), With(template=TEMPLATE))
    spec = check_spec(parts, NAMESPACE) | ({"fastPath": {}} if way.is_fast else {})
    check = {"metadata": {"name": "workers"}, "spec": spec}
    databases = [StatefulSetWithVolume(name=name, replicas=1, access=Access.RWO) for name in DATABASES]
    return [
        *secrets,
        Manifest(templates_of(Remediator.POWER), template),
        *(manifest_of(database) for database in databases),
        Manifest(CHECKS, check),
    ]


class _Watched:
    """A stopwatch on one failing node; it runs from the verdict on, or earlier. With several databases the last one counts."""

    def __init__(self, sight: Sight, clock: Clock, machine: Machine, lost: dict[str, Pod]) -> None:
        self.marks: dict[Moment, float] = {}
        self._sight = sight
        self._clock = clock
        self._machine = machine
        self._lost = lost
        self._names = {pod.name for pod in lost.values()}
        self._apps = {pod.labels[APP] for pod in lost.values()}
        self._begun_at: float | None = None
        machine.subscribe(self._power_changed)

    def mark(self, moment: Moment) -> None:
        """The first time counts."""
        if self._begun_at is not None:
            self.marks.setdefault(moment, self._clock.monotonic() - self._begun_at)

    def begin(self) -> None:
        self._begun_at = self._clock.monotonic()

    def look(self) -> None:
        victim = self._machine.name
        if Moment.VERDICT not in self.marks and not self._hear_verdict():
            return
        if not self._machine.is_on:
            self.mark(Moment.OFF)
        incident = self._sight.remediation.incident(victim)
        if incident is not None and incident.is_open and incident.status.proof:
            self.mark(Moment.PROVED)
        attachments = [one for name in self._names for one in self._sight.attachments(name)]
        is_gone = self._lost.keys().isdisjoint(pod.uid for pod in self._sight.pods())
        if is_gone and all(one.spec.node_name != victim for one in attachments):
            self.mark(Moment.FREED)
        elsewhere = {one.volume for one in attachments if one.spec.node_name != victim and one.status.attached}
        if len(elsewhere) == len(self._names):
            self.mark(Moment.ATTACHED)
        if is_gone and all(any(map(is_ready, self._sight.pods(app))) for app in self._apps):
            self.mark(Moment.RUNNING)

    def _hear_verdict(self) -> bool:
        if not self._sight.remediation.remedies(self._machine.name):
            return False
        if self._begun_at is None:
            self.begin()
        self.mark(Moment.VERDICT)
        return True

    def _power_changed(self, on: bool) -> None:
        if not on and Moment.VERDICT in self.marks:
            self.mark(Moment.OFF)

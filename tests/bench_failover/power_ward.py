"""A cluster that Defib looks after, with databases and with BMCs, in which one node after the other fails.

Between the verdict and a pod that runs elsewhere everything is as Kubernetes has it. The start of a machine, which comes
after that, is short: it is not measured.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from enum import Enum
from typing import TypeVar

from defib.app import Operator
from defib.clock import Clock
from defib.config import Settings
from defib.hollow.machine import Delays, Machine, Slow
from defib.hollow.objects import PODS, Pod
from defib.kube.client import Client, Deletion, Merge
from defib.kube.kinds import NODES
from defib.kube.transport import Transport
from defib.model.incident import Phase as IncidentPhase
from defib.telemetry.metrics import Metrics
from testbed.kubelets import LOOPBACK, kubelets
from testbed.scenario.hollow_cluster import HollowCluster, alongside, hollow_cluster
from testbed.scenario.log_book import LogBook
from testbed.scenario.manifests import APP, NAMESPACES, Manifest, blueprints, manifest_of
from testbed.scenario.perform_remediation import install
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
    Deployment,
    NewName,
    Nodes,
    Remediator,
    StatefulSetWithVolume,
    Story,
    TemplateName,
    Timers,
    With,
)
from testbed.scenario.story import Workload as AnyWorkload
from tests.bench_failover.power_draws import Draw, PowerFault
from tests.bench_failover.power_results import Cycle, Moment
from tests.bench_failover.power_ways import Way
from tests.bench_failover.results import Phase, Workload
from tests.bench_failover.services import Service
from tests.bench_failover.stopwatch import Stopwatch
from tests.bench_failover.ward import ARRANGE_SECONDS, NotArranged

NAMESPACE = "bench-power"
NODE_NAMES = tuple(NewName(f"n{number}") for number in range(1, 6))
WEB = NewName("web")
DATABASES = tuple(NewName(f"db-{letter}") for letter in "abc")
BACK_SECONDS = 120.0
LATE_WRITES_SECONDS = 1.0  # two writers need a moment to get in each other's way

TEMPLATE = TemplateName("power")

M = TypeVar("M", bound=Enum)
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
            hollow_cluster(client, clock, way.service.profile, made, machines.values())
        )
        if way.tls is not None:
            await stack.enter_async_context(kubelets(cluster.nodes.values(), way.tls))
        sight = Sight(client, clock, cluster.disks, NAMESPACE, LogBook(clock))
        operator = Operator(await connect(), clock, Settings(default_check="off"), Metrics(), way.drivers)
        try:
            async with alongside(sight.run(), sight.remediation.run(), operator.run()):
                ward = PowerWard(cluster, sight, machines, way.service)
                await ward.arrange(way)
                yield ward
        finally:
            await operator.close()


class PowerWard:
    def __init__(self, cluster: HollowCluster, sight: Sight, machines: dict[str, Machine], service: Service) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._sight = sight
        self._machines = machines
        self._service = service
        self._watched: _Watched | None = None
        sight.listeners.append(self._look)

    async def arrange(self, way: Way) -> None:
        await self._reach("not all nodes were ready", self._nodes_are_well, ARRANGE_SECONDS)
        self._sight.remediation.follow_all()
        for made in _manifests(self._machines, way):
            namespace = NAMESPACE if made.kind.namespaced else ""
            await self._cluster.client.create(made.kind, made.body, namespace=namespace)
        await self._reach("not all pods ran", self._all_run, ARRANGE_SECONDS)

    async def go_through(self, draw: Draw) -> Cycle:
        """One failure, from the fault until everything is as it was before. If that takes too long, it is not BACK."""
        databases = [pod for name in DATABASES for pod in self._sight.pods(name)]
        victim = draw.chosen_from(sorted({pod.spec.node_name for pod in databases}))
        await self._bring_web(victim)
        machine, broken = self._machines[victim], self._broken_disks()
        machine.delays = Delays(off_seconds=draw.off_seconds, on_seconds=1.0)
        machine.bmc.suffer(Slow(draw.answer_seconds))
        await asyncio.sleep(draw.after * self._service.profile.nodes.renew_seconds)
        lost = [pod for pod in databases if pod.spec.node_name == victim]
        self._strike(victim, draw.fault)
        old = {Workload.DEPLOYMENT: self._sight.pods(WEB), Workload.STATEFUL_SET: lost}
        stopwatch = Stopwatch(self._sight, self._clock, victim, old)
        watched = self._watched = _Watched(self._sight, self._clock, machine, lost, stopwatch)
        if self._service.from_fault:
            watched.begin()
        await self._sight.until(watched.has_seen_all, self._service.limit_seconds)
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
            seconds=_rounded(watched.marks),
            phases={workload: _rounded(marks) for workload, marks in stopwatch.marks.items()},
            corrupted=tuple(sorted(self._broken_disks() - broken)),
        )

    async def _bring_web(self, victim: str) -> None:
        """The stateless pod goes to where there is no other place for it; then there is one again."""
        if all(pod.spec.node_name == victim for pod in self._sight.pods(WEB)):
            return
        await self._cordon_others(victim, unschedulable=True)
        for pod in self._sight.pods(WEB):
            await self._cluster.client.delete(PODS.of(pod), Deletion(uid=pod.uid))
        await self._reach(f"the stateless pod was not on {victim}", lambda: self._web_is_on(victim), ARRANGE_SECONDS)
        await self._cordon_others(victim, unschedulable=None)

    async def _cordon_others(self, victim: str, *, unschedulable: bool | None) -> None:
        for name in NODE_NAMES:
            if name != victim:
                await self._cluster.client.patch(NODES.at(name), Merge({"spec": {"unschedulable": unschedulable}}))

    def _web_is_on(self, victim: str) -> bool:
        pods = self._sight.pods(WEB)
        return len(pods) == 1 and is_ready(pods[0]) and pods[0].spec.node_name == victim

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
        return all(any(is_ready(pod) for pod in self._sight.pods(name)) for name in (WEB, *DATABASES))

    async def _reach(self, otherwise: str, holds: Callable[[], bool], seconds: float) -> None:
        if not await self._sight.until(holds, seconds):
            raise NotArranged(f"{otherwise} within {seconds:g} s:\n{self.book}")


def _manifests(machines: dict[str, Machine], way: Way) -> list[Manifest]:
    secrets = [secret_manifest(machine.bmc) for machine in machines.values()]
    for secret in secrets:
        secret.body["stringData"] |= way.trust
    template = {"metadata": {"name": TEMPLATE}, "spec": {"template": {"spec": {"power": way.power}}}}
    parts = (AtMostUnhealthy(amount=Amount("49%")), After(seconds=way.service.check_seconds), With(template=TEMPLATE))
    spec = check_spec(parts, NAMESPACE) | ({"fastPath": {}} if way.service.has_fast_path else {})
    check = {"metadata": {"name": "workers"}, "spec": spec}
    databases = (StatefulSetWithVolume(name=name, replicas=1, access=Access.RWO) for name in DATABASES)
    workloads: tuple[AnyWorkload, ...] = (Deployment(name=WEB, replicas=1), *databases)
    return [
        *secrets,
        Manifest(templates_of(Remediator.POWER), template),
        *(manifest_of(workload) for workload in workloads),
        Manifest(CHECKS, check),
    ]


def _rounded(marks: Mapping[M, float]) -> dict[M, float]:
    return {moment: round(seconds, 2) for moment, seconds in marks.items()}


class _Watched:
    """What happens to one failing node; counted from the verdict on, or earlier. With several databases the last one counts."""

    def __init__(self, sight: Sight, clock: Clock, machine: Machine, lost: Sequence[Pod], stopwatch: Stopwatch) -> None:
        self.marks: dict[Moment, float] = {}
        self._sight = sight
        self._clock = clock
        self._machine = machine
        self._stopwatch = stopwatch
        self._lost = {pod.uid for pod in lost}
        self._names = {pod.name for pod in lost}
        self._apps = {pod.labels[APP] for pod in lost}
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
        self._stopwatch.look()
        if Moment.VERDICT not in self.marks and not self._hear_verdict():
            return
        if not self._machine.is_on:
            self.mark(Moment.OFF)
        incident = self._sight.remediation.incident(victim)
        if incident is not None and incident.is_open and incident.status.proof:
            self.mark(Moment.PROVED)
            self._stopwatch.mark(Phase.FENCED)
        attachments = [one for name in self._names for one in self._sight.attachments(name)]
        is_gone = self._lost.isdisjoint(pod.uid for pod in self._sight.pods())
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
        self._stopwatch.mark(Phase.VERDICT)
        return True

    def has_seen_all(self) -> bool:
        return Moment.RUNNING in self.marks and self._stopwatch.has_seen_all()

    def _power_changed(self, on: bool) -> None:
        if not on and Moment.VERDICT in self.marks:
            self.mark(Moment.OFF)

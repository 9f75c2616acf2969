"""All controllers of the workloads, on one embedded API server, in one loop.

Changes only mark what is worth a look; the looking happens in rounds, a moment after the change, in a fixed order of
controllers. So a run is the same every time, a burst of changes costs one round, and no two rounds share an instant.
"""

import asyncio
from typing import NoReturn

from defib.clock import Clock
from defib.simulate.server import ApiServer
from defib.simulate.store import DELETED, Change
from defib.simulate.workloads import nodes
from defib.simulate.workloads.attach_detach import AttachDetach
from defib.simulate.workloads.controller import NEVER, Controller, Site
from defib.simulate.workloads.daemon_set import DaemonSetController
from defib.simulate.workloads.deployment import DeploymentController
from defib.simulate.workloads.job import JobController
from defib.simulate.workloads.pod_gc import PodGarbageCollector
from defib.simulate.workloads.pod_readiness import PodReadiness
from defib.simulate.workloads.replica_set import ReplicaSetController
from defib.simulate.workloads.scheduler import Scheduler
from defib.simulate.workloads.sight import Sight
from defib.simulate.workloads.stateful_set import StatefulSetController
from defib.simulate.workloads.taint_eviction import TaintEviction
from defib.simulate.workloads.timers import WorkloadTimers
from defib.simulate.workloads.volume_binder import VolumeBinder

# Each comes before those who go on from what it does, so that most of what a change brings about fits into one round.
_IN_ORDER: tuple[type[Controller], ...] = (
    PodReadiness,
    TaintEviction,
    PodGarbageCollector,
    JobController,
    DeploymentController,
    ReplicaSetController,
    StatefulSetController,
    DaemonSetController,
    VolumeBinder,
    Scheduler,
    AttachDetach,
)


class Workloads:
    """What kube-scheduler and the workload side of kube-controller-manager do, for as long as `run` runs.

    Cancelling `run` is their crash; a second `run` is their restart: they remember nothing and look at everything.
    """

    def __init__(self, server: ApiServer, clock: Clock, timers: WorkloadTimers | None = None) -> None:
        self._server = server
        self._clock = clock
        self._timers = timers or WorkloadTimers()

    async def run(self) -> NoReturn:
        shift = _Shift(
            Site(server=self._server, sight=Sight(self._server.store), clock=self._clock, timers=self._timers)
        )
        self._server.reactions.append(shift.react)
        try:
            await shift.work()
        finally:
            self._server.reactions.remove(shift.react)


class _Shift:
    """One life of the controllers, from start to crash."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._controllers = [controller(site) for controller in _IN_ORDER]
        self._listeners: dict[str, list[Controller]] = {}
        for controller in self._controllers:
            for resource in controller.listens:
                self._listeners.setdefault(resource, []).append(controller)
            controller.start()
        self._changed = asyncio.Event()

    def react(self, change: Change) -> None:
        listeners = self._listeners.get(change.resource)
        if not listeners or _is_heartbeat(change):
            return
        self._site.sight.react(change)
        for controller in listeners:
            controller.notice(change)
        self._changed.set()

    async def work(self) -> NoReturn:
        self._changed.set()
        while True:
            # A timer strikes when it strikes; only news takes its time to get here.
            await asyncio.sleep(self._site.timers.react_seconds if self._changed.is_set() else 0)
            self._changed.clear()
            heard = self._round()
            await self._wait(heard)

    def _round(self) -> bool:
        """Whether the API server heard all who had something to do."""
        heard, now = True, self._site.clock.monotonic()
        for controller in self._controllers:
            if controller.due <= now:
                if self._reaches(controller):
                    controller.work()
                else:
                    heard = False
        return heard

    def _reaches(self, controller: Controller) -> bool:
        try:
            self._site.server.check_reachable(controller.name)
        except ConnectionError:
            return False
        return True

    async def _wait(self, heard: bool) -> None:
        """Until something changes or is due. Who is cut off looks again after the usual pause."""
        now = self._site.clock.monotonic()
        dues = [controller.due for controller in self._controllers]
        due = min((due for due in dues if heard or due > now), default=NEVER)
        seconds = due - now if heard else min(due - now, self._site.timers.retry_seconds)
        if self._changed.is_set() or seconds <= 0:
            return
        try:
            async with asyncio.timeout(seconds if seconds < NEVER else None):
                await self._changed.wait()
        except TimeoutError:
            return


def _is_heartbeat(change: Change) -> bool:
    if change.resource != "nodes" or change.before is None or change.kind == DELETED:
        return False
    return not nodes.matters(change.before.object, change.now.object)

"""A hollow baremetal operator: BareMetalHosts in the API server on one side, machines with BMCs on the other.

It follows Metal3's reboot rules (metal3_rules.py) at Metal3's pace. Between it and a BMC stands a conductor, as Ironic
does: a power task is begun, takes its time, and ends well or with an error that the next look at the host finds.
"""

import asyncio
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NoReturn

import msgspec
import structlog

from defib.clock import Clock
from defib.hollow.conductor import Conductor, Pace
from defib.hollow.follow import Follow
from defib.hollow.machine import Command, Machine
from defib.hollow.metal3_rules import (
    POWER_ERROR,
    Attach,
    Await,
    Detach,
    DropAnnotations,
    Facts,
    Fail,
    Leave,
    Register,
    Rest,
    ShowPower,
    Step,
    Switch,
    next_step,
    reboots,
)
from defib.kube.client import Client, Merge
from defib.kube.errors import KubeError
from defib.kube.kinds import Kind, Ref, unstructured
from defib.model.meta import Resource, Wire

log = structlog.get_logger("hollow")

RETRY_SECONDS = 1.0  # after the API server did not take what we wrote
BACKOFF_ERRORS_MAX = 10

NO_ERROR = {"operationalStatus": "OK", "errorType": "", "errorMessage": ""}

_SAID = {
    Command.ON: ("PowerOn", "Host powered on"),
    Command.OFF: ("PowerOff", "Host powered off"),
    Command.SOFT_OFF: ("PowerOff", "Host soft powered off"),
}


class HostSpec(Wire, frozen=True):
    online: bool = False
    externally_provisioned: bool = False
    disable_power_off: bool = False
    image: dict[str, Any] | None = None


class Provisioning(Wire, frozen=True):
    state: str = ""


class HostStatus(Wire, frozen=True):
    powered_on: bool = False
    operational_status: str = ""
    error_count: int = 0
    error_type: str = ""
    provisioning: Provisioning = Provisioning()


class BareMetalHost(Resource, frozen=True):
    spec: HostSpec = HostSpec()
    status: HostStatus = HostStatus()


HOSTS = Kind(
    group="metal3.io",
    version="v1alpha1",
    plural="baremetalhosts",
    name="BareMetalHost",
    namespaced=True,
    type=BareMetalHost,
)
EVENTS = unstructured("", "v1", "events", "Event", namespaced=True)


class Metal3Settings(msgspec.Struct, frozen=True, kw_only=True):
    pace: Pace = Pace()
    clears_phased: bool = False
    """As releases before June 2026: provisioning, deprovisioning and inspection clear phased annotations too."""


class HollowMetal3:
    """Looks after the hosts whose names are those of its machines; others are none of its business."""

    def __init__(
        self, client: Client, clock: Clock, machines: Mapping[str, Machine], settings: Metal3Settings | None = None
    ) -> None:
        self._client = client
        self._clock = clock
        self._machines = machines
        self._settings = settings or Metal3Settings()
        self._cares: dict[str, _Care] = {}

    async def run(self) -> NoReturn:
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            await Follow(self._client, self._clock, HOSTS, self._changed).run()

    def _changed(self, before: BareMetalHost | None, after: BareMetalHost | None) -> None:
        host = after or before
        assert host is not None
        machine = self._machines.get(host.name)
        if machine is None:
            return
        if after is None:
            if care := self._cares.pop(host.key, None):
                care.end()
        elif host.key in self._cares:
            if before is None or _matters(before, after):
                self._cares[host.key].changed.set()
        else:
            care = _Care(self._client, self._clock, HOSTS.of(host), machine, self._settings)
            self._cares[host.key] = care
            care.task = self._tasks.create_task(care.run(), name=f"host {host.key}")


class _Care:
    """One host's own task: a BMC that hangs holds up nobody else."""

    def __init__(
        self, client: Client, clock: Clock, ref: Ref[BareMetalHost], machine: Machine, settings: Metal3Settings
    ) -> None:
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self._client = client
        self._clock = clock
        self._ref = ref
        self._settings = settings
        self._pace = settings.pace
        self._conductor = Conductor(machine, clock, settings.pace)
        self._complained: dict[str, str] = {}

    def end(self) -> None:
        assert self.task is not None
        self.task.cancel()

    async def run(self) -> NoReturn:
        while True:
            self.changed.clear()
            try:
                pause = await self._reconcile()
            except KubeError as error:
                log.debug("host not reconciled", host=str(self._ref), why=str(error))
                pause = RETRY_SECONDS
            await self._pause(pause)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.changed.wait()
        except TimeoutError:
            return

    async def _reconcile(self) -> float:
        """One step; the seconds until the next look, unless the host changes before."""
        seen_on = await self._conductor.look()
        host = await self._client.get(self._ref)
        await self._complain(host)
        return await self._carry_out(next_step(self._facts(host, seen_on)), host)

    def _facts(self, host: BareMetalHost, seen_on: bool | None) -> Facts:
        return Facts(
            annotations=host.annotations,
            online=host.spec.online,
            externally_provisioned=host.spec.externally_provisioned,
            has_image=host.spec.image is not None,
            disable_power_off=host.spec.disable_power_off,
            state=host.status.provisioning.state,
            powered_on=host.status.powered_on,
            error_count=host.status.error_count,
            error_type=host.status.error_type,
            is_detached=host.status.operational_status == "detached",
            clears_phased=self._settings.clears_phased,
            seen_on=seen_on,
            busy=self._conductor.is_busy,
            last_error=self._conductor.last_error,
        )

    async def _carry_out(self, step: Step, host: BareMetalHost) -> float:
        match step:
            case Leave() | Rest():
                return self._pace.poll_seconds
            case Await():
                return self._pace.change_poll_seconds
            case Fail(why):
                return await self._fail(host, why)
            case Switch(command, drops):
                return await self._switch(host, command, drops)
            case DropAnnotations(keys):
                await self._drop(host, keys)
            case Register() | ShowPower() | Detach() | Attach():
                await self._show(host, _status_after(step, host.status))
        return 0.0

    async def _switch(self, host: BareMetalHost, command: Command, drops: tuple[str, ...]) -> float:
        await self._conductor.begin(command)
        if command in _SAID and not self._conductor.last_error:
            await self._publish(host, *_SAID[command])
        if host.status.error_type:
            host = await self._show(host, NO_ERROR)  # the count stays: it decides how long we wait, and how hard we try
        if drops:
            await self._drop(host, drops)
        return 0.0 if self._conductor.last_error else self._pace.change_poll_seconds

    async def _fail(self, host: BareMetalHost, why: str) -> float:
        count = host.status.error_count + 1
        shown = {"operationalStatus": "error", "errorType": POWER_ERROR, "errorMessage": why, "errorCount": count}
        await self._show(host, shown)
        longest = self._pace.backoff_seconds * 2.0 ** min(count, BACKOFF_ERRORS_MAX)
        return longest - self._clock.jitter(longest / 2)

    async def _show(self, host: BareMetalHost, status: Mapping[str, Any]) -> BareMetalHost:
        version = {"resourceVersion": host.metadata.resource_version}
        status = {**status, "lastUpdated": _timestamp(self._clock.now())}
        return await self._client.patch(self._ref, Merge({"metadata": version, "status": status}), subresource="status")

    async def _drop(self, host: BareMetalHost, keys: tuple[str, ...]) -> None:
        """Only if the host is still as we saw it: a request that came in between must not be lost."""
        metadata = {
            "resourceVersion": host.metadata.resource_version,
            "annotations": dict.fromkeys(keys),
        }
        await self._client.patch(self._ref, Merge({"metadata": metadata}))

    async def _complain(self, host: BareMetalHost) -> None:
        """Once for each value that cannot be read."""
        unread = {
            reboot.key: host.annotations[reboot.key] for reboot in reboots(host.annotations) if not reboot.is_valid
        }
        for key, value in unread.items():
            if self._complained.get(key) != value:
                await self._publish(host, "InvalidAnnotationValue", f"could not parse reboot annotation {key}")
        self._complained = unread

    async def _publish(self, host: BareMetalHost, reason: str, message: str) -> None:
        now = _timestamp(self._clock.now())
        suffix = uuid.UUID(int=int(self._clock.jitter(2.0**64))).hex[16:]
        body = {
            "metadata": {"name": f"{host.name}.{suffix}", "namespace": host.namespace},
            "involvedObject": {
                "apiVersion": HOSTS.api_version,
                "kind": HOSTS.name,
                "name": host.name,
                "namespace": host.namespace,
                "uid": host.uid,
            },
            "reason": reason,
            "message": message,
            "type": "Normal",
            "source": {"component": "metal3-baremetal-controller"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        await self._client.create(EVENTS, body, namespace=host.namespace)


def _matters(before: BareMetalHost, after: BareMetalHost) -> bool:
    """A change of the status alone is our own and no reason to look again, least of all while we back off."""
    return before.metadata.generation != after.metadata.generation or before.annotations != after.annotations


def _status_after(step: Register | ShowPower | Detach | Attach, status: HostStatus) -> dict[str, Any]:
    match step:
        case Register(state, on):
            return {"provisioning": {"state": state}, "poweredOn": on, "errorCount": 0, **NO_ERROR}
        case ShowPower(on):
            healed = NO_ERROR if status.error_type == POWER_ERROR else {}
            return {"poweredOn": on, "errorCount": 0, **healed}
        case Detach():
            return {"operationalStatus": "detached"}
        case Attach():
            return {"operationalStatus": "OK"}


def _timestamp(moment: datetime) -> str:
    """To the second, as the API server keeps it."""
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"

"""Hollow nodes: what the API server sees of a kubelet, without the machine below it.

They register, renew their heartbeats, post their status, lose power and boot again. They speak to the API server only
through the client they are given, so the same nodes live on the embedded server and on a real control plane.
"""

import asyncio
import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NoReturn

import msgspec
import structlog

from defib.clock import Clock
from defib.kube.client import Client, Merge
from defib.kube.errors import AlreadyExists, KubeError, NotFound
from defib.kube.kinds import LEASES, unstructured
from defib.model.cluster import HEARTBEAT_NAMESPACE
from defib.model.node import ZONE_LABEL

log = structlog.get_logger("hollow")

RAW_NODES = unstructured("", "v1", "nodes", "Node", namespaced=False)
KUBELET_VERSION = "v1.37.1"
PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")
NEVER = float("inf")


class Timers(msgspec.Struct, frozen=True, kw_only=True):
    """How fast a cluster lives. The defaults are those of Kubernetes."""

    renew_seconds: float = 10.0
    status_seconds: float = 300.0
    boot_seconds: float = 40.0
    lease_seconds: int = 40
    monitor_seconds: float = 5.0
    grace_seconds: float = 50.0

    def faster(self, speed: float) -> "Timers":
        return Timers(
            renew_seconds=self.renew_seconds / speed,
            status_seconds=self.status_seconds / speed,
            boot_seconds=self.boot_seconds / speed,
            lease_seconds=max(1, round(self.lease_seconds / speed)),
            monitor_seconds=self.monitor_seconds / speed,
            grace_seconds=self.grace_seconds / speed,
        )


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What stays the same over all boots of a node."""

    name: str
    zone: str
    address: str


class _Life:
    """One machine's life so far. `beat_due` and `status_due` are moments of the monotonic clock."""

    def __init__(self, machine: Machine, boot_id: str, beat_due: float) -> None:
        self.machine = machine
        self.has_power = True
        self.beating: asyncio.Task[None] | None = None
        self.start(boot_id, beat_due)

    def start(self, boot_id: str, beat_due: float) -> None:
        self.boot_id = boot_id
        self.beat_due = self.status_due = beat_due
        self.registered = False  # a kubelet registers once per boot, and never again if somebody deletes its node

    def stop(self) -> None:
        self.has_power = False
        self.beat_due = NEVER
        if self.beating:
            self.beating.cancel()  # what was half said stays half said


class HollowNodes:
    """Many nodes in one loop; each beat is a task of its own, so that a slow answer to one delays no other."""

    def __init__(self, client: Client, clock: Clock, timers: Timers, machines: Iterable[Machine]) -> None:
        self._client = client
        self._clock = clock
        self._timers = timers
        self._changed = asyncio.Event()
        now = clock.monotonic()
        self._lives = {machine.name: _Life(machine, self._new_boot_id(), now) for machine in machines}

    def has_power(self, name: str) -> bool:
        return self._lives[name].has_power

    def cut_power(self, name: str) -> None:
        """At once and without a word, as power goes."""
        self._lives[name].stop()

    def restore_power(self, name: str) -> None:
        """The machine boots; its kubelet speaks when that is done."""
        life = self._lives[name]
        assert not life.has_power, f"{name} has power"
        life.has_power = True
        life.start(self._new_boot_id(), self._clock.monotonic() + self._timers.boot_seconds)
        self._changed.set()

    async def run(self) -> NoReturn:
        async with asyncio.TaskGroup() as group:
            while True:
                now = self._clock.monotonic()
                for life in self._lives.values():
                    if life.beat_due <= now:
                        life.beat_due = now + self._until_next(life)
                        life.beating = group.create_task(self._beat(life), name=f"beat {life.machine.name}")
                await self._wait_until(min(life.beat_due for life in self._lives.values()))

    def _until_next(self, life: _Life) -> float:
        """After its first beat a node waits for a part of the period only, so that not all beat at once for ever."""
        share = 1.0 if life.registered else 0.5 + self._clock.jitter(0.5)
        return self._timers.renew_seconds * share

    async def _wait_until(self, moment: float) -> None:
        seconds = min(moment - self._clock.monotonic(), self._timers.renew_seconds)
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _beat(self, life: _Life) -> None:
        """What the API server does not take now is tried again at the next beat, as a kubelet does."""
        now = self._clock.monotonic()
        try:
            if life.status_due <= now:
                await self._post_status(life)
                life.status_due = now + self._timers.status_seconds
            await self._renew(life)
        except KubeError as error:
            log.debug("heartbeat failed", node=life.machine.name, why=str(error))

    async def _post_status(self, life: _Life) -> None:
        name, now = life.machine.name, self._clock.now()
        if not life.registered:
            try:
                body = {"metadata": _metadata(life.machine), "status": _status(life, {}, now)}
                await self._client.create(RAW_NODES, body, deadline=self._deadline)
                life.registered = True
                return
            except AlreadyExists:  # from before the boot
                life.registered = True
        known = await self._client.get(RAW_NODES.at(name), deadline=self._deadline)
        patch = Merge({"status": _status(life, known.status or {}, now)})
        await self._client.patch(RAW_NODES.at(name), patch, subresource="status", deadline=self._deadline)

    async def _renew(self, life: _Life) -> None:
        name = life.machine.name
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": self._timers.lease_seconds,
            "renewTime": self._clock.now().isoformat(timespec="microseconds").replace("+00:00", "Z"),
        }
        try:
            ref = LEASES.at(name, HEARTBEAT_NAMESPACE)
            await self._client.patch(ref, Merge({"spec": spec}), deadline=self._deadline)
        except NotFound:
            body = {"metadata": {"name": name, "namespace": HEARTBEAT_NAMESPACE}, "spec": spec}
            await self._client.create(LEASES, body, namespace=HEARTBEAT_NAMESPACE, deadline=self._deadline)

    @property
    def _deadline(self) -> float:
        return max(1.0, self._timers.renew_seconds)

    def _new_boot_id(self) -> str:
        """A UUID by the clock's chance, so that a seed gives the same boots again."""
        words = (int(self._clock.jitter(2.0**32)) for _ in range(4))
        return str(uuid.UUID(bytes=b"".join(word.to_bytes(4, "big") for word in words), version=4))


def _metadata(machine: Machine) -> dict[str, Any]:
    labels = {
        "kubernetes.io/hostname": machine.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        ZONE_LABEL: machine.zone,
    }
    return {"name": machine.name, "labels": labels}


def _status(life: _Life, known: dict[str, Any], now: datetime) -> dict[str, Any]:
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    return {
        "capacity": capacity,
        "allocatable": capacity,
        "addresses": [
            {"type": "InternalIP", "address": life.machine.address},
            {"type": "Hostname", "address": life.machine.name},
        ],
        "conditions": conditions(known, now),
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": life.boot_id,
            "containerRuntimeVersion": "hollow://1",
            "kernelVersion": "6.12.0-hollow",
            "kubeProxyVersion": "",
            "kubeletVersion": KUBELET_VERSION,
            "machineID": uuid.uuid5(uuid.NAMESPACE_DNS, life.machine.name).hex,
            "operatingSystem": "linux",
            "osImage": "Hollow Linux",
            "systemUUID": str(uuid.uuid5(uuid.NAMESPACE_OID, life.machine.name)),
        },
    }


def conditions(known: dict[str, Any], now: datetime) -> list[dict[str, Any]]:
    """What a healthy kubelet says; a condition that already said so keeps the moment since when."""
    before = {condition["type"]: condition for condition in known.get("conditions") or ()}
    wanted = [(kind, "False", f"KubeletHasSufficient{kind.removesuffix('Pressure')}") for kind in PRESSURES]
    wanted.append(("Ready", "True", "KubeletReady"))
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": "kubelet is posting ready status" if kind == "Ready" else f"kubelet has no {kind}",
            "lastHeartbeatTime": timestamp(now),
            "lastTransitionTime": before[kind]["lastTransitionTime"]
            if kind in before and before[kind]["status"] == status
            else timestamp(now),
        }
        for kind, status, reason in wanted
    ]


def timestamp(moment: datetime) -> str:
    """To the second, as the API server keeps it."""
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"

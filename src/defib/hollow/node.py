"""A hollow node: a kubelet and its containers on a machine, and everything that can be wrong with them.

                 kubelet acts   API server reached   containers run, disks are written
    power off    no             no                   no
    hung         no             no                   yes
    partitioned  yes            no                   yes
    slow         yes            late                 yes

What goes wrong, goes wrong at once: a request that is under way is dropped in the middle.
"""

import asyncio
import uuid
from typing import NoReturn

from defib.clock import Clock
from defib.hollow.heart import Heart
from defib.hollow.machine import Machine
from defib.hollow.node_state import NodeState
from defib.hollow.node_status import Says
from defib.hollow.pod_loop import PodLoop
from defib.hollow.site import Blueprint, Site
from defib.hollow.view import View


class HollowNode:
    def __init__(self, site: Site, view: View, blueprint: Blueprint, machine: Machine, number: int) -> None:
        self.name = blueprint.name
        self.address = blueprint.address
        self.machine = machine
        self._site = site
        self._view = view
        self._number = number
        self._state = NodeState(blueprint)
        self._group: asyncio.TaskGroup | None = None
        self._kubelet: list[asyncio.Task[NoReturn]] = []
        self._flapping: asyncio.Task[NoReturn] | None = None
        self._is_hung = False
        self._is_partitioned = False
        self._answers_others = True
        self._boot(ready_at=site.clock.monotonic())
        machine.subscribe(self._power_changed)

    def live_in(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._start_kubelet()

    @property
    def boot_id(self) -> str:
        return self._state.boot_id

    @property
    def answers(self) -> bool:
        """Would its kubelet answer a neighbour?"""
        return self.is_up and not self._is_hung and self._answers_others

    @property
    def is_on(self) -> bool:
        return self.machine.is_on

    @property
    def is_up(self) -> bool:
        """It has power, and has booted."""
        return self.machine.is_on and self._site.clock.monotonic() >= self._ready_at

    def containers(self) -> dict[str, str]:
        """What really is on this node, whatever the API server believes: the pods by UID, and how far each is."""
        return {work.pod.uid: work.stage.value for work in self._state.works.values()}

    def hang(self) -> None:
        """The kubelet falls silent. What runs, runs on."""
        self._is_hung = True
        self._start_kubelet()

    def resume(self) -> None:
        self._is_hung = False
        self._start_kubelet()

    def partition(self, *, from_api_only: bool = False) -> None:
        """Cut off from everybody, or from the API server alone. What runs, runs on."""
        self._is_partitioned = True
        self._answers_others = from_api_only
        self._start_kubelet()

    def heal(self) -> None:
        self._is_partitioned = False
        self._answers_others = True
        self._start_kubelet()

    def slow(self, seconds: float) -> None:
        """Every request leaves this much later; 0 is as fast as others."""
        self._state.slow_seconds = seconds

    def flap(self, *, silent_seconds: float, alive_seconds: float) -> None:
        """Hangs and resumes in turn until `steady`."""
        assert self._group, "a node flaps while its cluster runs"
        self.steady()
        self._flapping = self._group.create_task(self._flap(silent_seconds, alive_seconds), name=f"flap {self.name}")

    def steady(self) -> None:
        if self._flapping:
            self._flapping.cancel()
            self._flapping = None
            self.resume()

    def set_condition(self, kind: str, status: str, reason: str = "", message: str = "") -> None:
        """As a problem detector would, or the kubelet itself where it is one of its own; posted at once."""
        self._state.conditions[kind] = Says(status=status, reason=reason, message=message)
        self._heart.post_soon()

    @property
    def kubelet_port(self) -> int:
        return self._state.kubelet_port

    def set_kubelet_port(self, port: int) -> None:
        """Where its kubelet can be asked for its health; the node's status says so."""
        self._state.kubelet_port = port
        self._heart.post_soon()

    def wake(self) -> None:
        """Something changed on the API server that concerns this node."""
        self._pods.wake()

    async def _flap(self, silent_seconds: float, alive_seconds: float) -> NoReturn:
        while True:
            self.hang()
            await asyncio.sleep(silent_seconds)
            self.resume()
            await asyncio.sleep(alive_seconds)

    def _power_changed(self, on: bool) -> None:
        if on:
            self._boot(ready_at=self._site.clock.monotonic() + self._site.timers.boot_seconds)
        else:
            for work in self._state.works.values():
                work.cut()
            self._state.works.clear()
            self._is_hung = False  # whatever hung is gone
        self._start_kubelet()

    def _boot(self, ready_at: float) -> None:
        self._ready_at = ready_at
        self._state.boot_id = new_boot_id(self._site.clock)
        self._heart = Heart(self._site, self._view, self._state)
        self._pods = PodLoop(self._site, self._view, self._state, self._number)

    def _start_kubelet(self) -> None:
        """Ends the kubelet as it was, and starts it as it is now, if it is."""
        for task in self._kubelet:
            task.cancel()  # each by itself: not one of them gets another turn
        self._kubelet = []
        if self._group and self.machine.is_on and not self._is_hung:
            online = not self._is_partitioned
            self._kubelet.append(self._group.create_task(self._mind_pods(online), name=f"pods {self.name}"))
            if online:
                self._kubelet.append(self._group.create_task(self._beat(), name=f"heart {self.name}"))

    async def _mind_pods(self, online: bool) -> NoReturn:
        await self._booted()
        await self._pods.run(online=online)

    async def _beat(self) -> NoReturn:
        await self._booted()
        await self._heart.run()

    async def _booted(self) -> None:
        await asyncio.sleep(self._ready_at - self._site.clock.monotonic())


def new_boot_id(clock: Clock) -> str:
    """A UUID by the clock's chance, so that a seed gives the same boots again."""
    words = (int(clock.jitter(2.0**32)) for _ in range(4))
    return str(uuid.UUID(bytes=b"".join(word.to_bytes(4, "big") for word in words), version=4))

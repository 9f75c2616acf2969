"""A Machine on a Metal3 host whose node fails, on the embedded server in virtual time, and an operator that serves it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from defib.kube.client import Merge
from defib.kube.kinds import CONFIG_MAPS, Kind, unstructured
from defib.model.incident import Phase
from defib.model.meta import Unstructured
from defib.model.metal3 import TRIGGER
from defib.simulate.faults import Fault, Refuse
from defib.simulate.virtual_time import VirtualClock, run
from tests.power_cycle_stage import HOSTS, HOSTS_HOME, VICTIM, Object, Stage, a_stage

SERVES = ("machine-annotation",)
OPENSHIFT = unstructured("machine.openshift.io", "v1beta1", "machines", "Machine", namespaced=True)


class Scene(msgspec.Struct):
    """A cluster in which Machine m1 stands for node n1 and runs on host n1."""

    stage: Stage
    kind: Kind[Unstructured] = OPENSHIFT

    async def make(self, *, owned: bool = False, **meta: Any) -> None:
        """`owned`: somebody makes another one when it is deleted."""
        person = self.stage.person
        if owned:
            owner = await person.create(CONFIG_MAPS, {"metadata": {"name": "set"}}, namespace=HOSTS_HOME)
            ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "set", "uid": owner.uid, "controller": True}
            meta["ownerReferences"] = [ref]
        spec = {"providerID": f"baremetalhost:///{HOSTS_HOME}/{VICTIM}"}
        await person.create(self.kind, {"metadata": {"name": "m1"} | meta, "spec": spec}, namespace=HOSTS_HOME)
        await self.refer(VICTIM)

    async def refer(self, node: str | None) -> None:
        """Whoever links Machines to nodes says which one is its own."""
        ref = {"kind": "Node", "name": node} if node else None
        await self.stage.person.patch(
            self.kind.at("m1", HOSTS_HOME), Merge({"status": {"nodeRef": ref}}), subresource="status"
        )

    async def ask(self, value: str | None = "") -> None:
        await self.stage.person.patch(
            self.kind.at("m1", HOSTS_HOME), Merge({"metadata": {"annotations": {TRIGGER: value}}})
        )

    async def change_host(self, **changes: Any) -> None:
        await self.stage.person.patch(HOSTS.at(VICTIM, HOSTS_HOME), Merge(changes))

    @property
    def machine(self) -> Object | None:
        return self.stage.one(str(self.kind), "m1")

    @property
    def is_asked_for(self) -> bool:
        return TRIGGER in ((self.machine or {"metadata": {}})["metadata"].get("annotations") or {})

    @property
    def marks(self) -> dict[str, str]:
        """What is asked of the host."""
        host = self.stage.one("baremetalhosts.metal3.io", VICTIM)
        assert host is not None
        return {key: value for key, value in (host["metadata"].get("annotations") or {}).items() if "metal3.io" in key}

    @property
    def deeds(self) -> list[str]:
        """What the operator has written, in order; what it has told does not count."""
        writes = [f"{asked.verb} {asked.path}" for asked in self.stage.server.audit.writes("defib")]
        return [deed for deed in writes if "/events" not in deed]

    @property
    def cycles(self) -> int:
        return sum(1 for change in self.stage.machines[VICTIM].history if not change.on)

    async def until_phase(self, phase: str, seconds: float = 600.0) -> None:
        assert await self.stage.until(lambda: self.stage.phase == phase, seconds), self.stage.incident

    async def later(self, seconds: float) -> None:
        """So much virtual time goes by, in which whatever would happen has happened."""
        await asyncio.sleep(seconds)

    async def fail(self, how: str = "hangs") -> None:
        """Its pod does not go at once, so that there is time to look while it is being freed."""
        busy = Fault(effect=Refuse(code=500), resource="pods", verbs=("patch",), client="defib", times=3)
        self.stage.server.faults.inject(busy)
        self.stage.fail(how)
        await self.later(7)

    async def ends_well(self) -> None:
        """The node is back, nobody asks any more, and nothing is left of it."""
        assert await self.stage.until(lambda: not self.is_asked_for, 900), self.stage.incident
        assert await self.stage.until(lambda: self.stage.phase == Phase.CLOSED, 900), self.stage.incident
        await self.stage.calm()
        assert self.stage.leftovers() == []
        assert self.marks == {}


Scenario = Callable[[Scene], Awaitable[None]]


def play(scenario: Scenario, *, serves: tuple[str, ...] = SERVES, kind: Kind[Unstructured] = OPENSHIFT) -> None:
    async def main(clock: VirtualClock) -> None:
        async with a_stage(clock, metal3=True) as stage, stage.operator(serves=serves):
            scene = Scene(stage, kind)
            await scene.later(2)
            await scenario(scene)

    run(main)

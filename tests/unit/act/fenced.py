"""What the actions of a power cycle meet: a machine with a BMC under the sick node n1, its incident, and who asked."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import yaml

from defib.act.outcome import Outcome as End
from defib.hollow.machine import Machine
from defib.hollow.power import HollowPower
from defib.kube.client import Deletion, Merge
from defib.kube.kinds import NODE_INCIDENTS, NODES, Ref
from defib.model.action import Action, CheckPower, ReadPower, SwitchPower, Target
from defib.model.incident import INCIDENT, NodeIncident, Phase
from defib.model.mandate import Mandate
from defib.model.node import Node
from defib.model.power import PowerPath, PowerState
from defib.power import base
from defib.power.registry import Drivers
from defib.simulate.faults import Fault, Refuse, Slow
from defib.simulate.virtual_time import START
from tests.unit.act.stage import PLACE, Stage, play, stamp

CRD = Path(__file__).parents[3] / "deploy/crds/defib.dev_nodeincidents.yaml"
CRDS = "customresourcedefinitions.apiextensions.k8s.io"
INCIDENTS = str(NODE_INCIDENTS)
PATH = PowerPath(driver="hollow", address="n1", secret=f"{PLACE}/bmc")
PROOF = {"grade": "A", "at": stamp(START), "how": "its power was read as off, twice"}


class Scene(msgspec.Struct, kw_only=True):
    stage: Stage
    machine: Machine
    cause: Target
    incident: Target

    def switch(self, power: PowerState = PowerState.OFF, **changes: Any) -> SwitchPower:
        action = SwitchPower(
            incident=self.incident,
            version=self.record().metadata.resource_version,
            node="n1",
            node_uid=self.stage.uid("nodes", "n1"),
            path=PATH,
            power=power,
            attempt=2,
            cause=self.cause,
        )
        return msgspec.structs.replace(action, **changes)

    def three(self, path: PowerPath) -> tuple[SwitchPower, ReadPower, CheckPower]:
        """One of each that needs a driver."""
        return (
            self.switch(path=path),
            ReadPower(incident_uid=self.incident.uid, node="n1", path=path),
            CheckPower(node="n1", path=path),
        )

    async def do(self, action: Action, mandate: Mandate | None = None) -> End:
        return await self.stage.do(action, mandate)

    def record(self) -> NodeIncident:
        return msgspec.convert(self.stored(INCIDENTS, "n1"), NodeIncident)

    def node(self, name: str = "n1") -> Node:
        return msgspec.convert(self.stored("nodes", name), Node)

    def stored(self, resource: str, key: str) -> Any:
        version = self.stage.server.store.get(resource, key)
        return version.object if version else None

    async def note(self, **status: Any) -> None:
        """The incident goes on."""
        ref = NODE_INCIDENTS.at(self.incident.name)
        await self.stage.world.patch(ref, Merge({"status": status}), subresource="status")

    async def proved(self) -> None:
        await self.note(phase=Phase.FREEING.value, proof=PROOF)

    async def mend_node(self, **patch: Any) -> None:
        await self.stage.world.patch(NODES.at("n1"), Merge(patch))

    async def remove(self, ref: Ref[Any]) -> None:
        uid = (await self.stage.world.get(ref)).uid
        await self.stage.world.delete(ref, Deletion(uid=uid, grace_seconds=0))

    async def meanwhile(self, action: Action, reading: str, happen: Callable[[], Awaitable[None]]) -> End:
        """Something happens between our look at a thing and what we do about it: the answer takes a while."""
        slow = Fault(effect=Slow(seconds=2), verbs=("get",), resource=reading, client="defib", times=1)
        self.stage.fault(slow)
        async with asyncio.TaskGroup() as tasks:
            done = tasks.create_task(self.do(action))
            await asyncio.sleep(1)  # virtual: half of what the answer takes
            await happen()
        return done.result()

    def conflicts(self, resource: str, *, times: int | None, verb: str = "patch") -> None:
        """Somebody else is always a moment faster."""
        self.stage.fault(Fault(effect=Refuse(code=409), verbs=(verb,), resource=resource, client="defib", times=times))

    def writes(self) -> list[str]:
        """What we wrote, or tried to."""
        return [asked for asked in self.stage.asked() if not asked.startswith(("get ", "list "))]


Story = Callable[[Scene], Awaitable[None]]


def fence(story: Story) -> None:
    """n1 has a machine whose password is in a Secret; who asked for it is there, and so is the incident."""

    async def scenario(stage: Stage) -> None:
        stage.server.put(CRDS, yaml.safe_load(CRD.read_text()))
        machine = Machine("n1", stage.clock)
        stage.drivers = Drivers(stage.clock, {"hollow": HollowPower(stage.clock, {"n1": machine})})
        put_secret(stage, username=machine.bmc.username, password=machine.bmc.password)
        cause = stage.put_foo()
        await story(Scene(stage=stage, machine=machine, cause=cause, incident=put_incident(stage)))

    play(scenario)


def put_incident(stage: Stage, node: str = "n1", phase: Phase = Phase.POWERING_OFF) -> Target:
    cause = {"apiVersion": "example.com/v1", "kind": "FooRemediation", "namespace": PLACE, "name": node, "uid": "u"}
    spec = {"node": node, "cause": cause}
    stage.server.put(INCIDENTS, {"metadata": {"name": node}, "spec": spec, "status": {"phase": phase.value}})
    return Target(kind=INCIDENT, namespace="", name=node, uid=stage.uid(INCIDENTS, node))


def put_secret(stage: Stage, **texts: str) -> None:
    """In place of the one that may be there."""
    put_data(stage, {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()})


def put_data(stage: Stage, data: dict[str, str]) -> None:
    if (known := stage.server.store.get("secrets", f"{PLACE}/bmc")) is not None:
        stage.server.store.remove("secrets", known.object)
    stage.server.put("secrets", {"metadata": {"name": "bmc", "namespace": PLACE}, "data": data})


class Witness:
    """A driver that keeps what it is asked, and looks around when it is told to switch."""

    can_read_state: ClassVar[bool] = True

    def __init__(self, stage: Stage, outcome: base.Outcome | None = None) -> None:
        self._stage = stage
        self._outcome = outcome or base.Accepted()
        self.targets: list[base.Target] = []
        self.records: list[Any] = []

    async def state(self, target: base.Target, within_seconds: float) -> base.Reading:  # noqa: ARG002  it is there at once
        self.targets.append(target)
        return base.Reading(PowerState.ON, self._stage.clock.now())

    async def off(self, target: base.Target, within_seconds: float) -> base.Outcome:  # noqa: ARG002  the same
        self.targets.append(target)
        stored = self._stage.server.store.get(INCIDENTS, "n1")
        assert stored is not None
        self.records.append(stored.object["status"].get("command"))
        return self._outcome

    async def on(self, target: base.Target, within_seconds: float) -> base.Outcome:
        return await self.off(target, within_seconds)

    async def check(self, target: base.Target, within_seconds: float) -> base.Readiness:  # noqa: ARG002  the same
        self.targets.append(target)
        return base.Ready()


def witnessed(scene: Scene, outcome: base.Outcome | None = None) -> Witness:
    """In the place of the machine's own driver."""
    witness = Witness(scene.stage, outcome)
    scene.stage.drivers = Drivers(scene.stage.clock, {"hollow": witness})
    return witness

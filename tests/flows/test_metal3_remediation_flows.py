"""The whole operator on the embedded server in virtual time: Metal3Remediations, as its provider would serve them."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from defib.decide.fencing.metal3_remediations import FINALIZER, REASON
from defib.kube.client import Deletion, Merge
from defib.kube.kinds import NODES, unstructured
from defib.model import medik8s
from defib.model.incident import Phase
from defib.model.node import OUT_OF_SERVICE
from defib.simulate.faults import Fault, Refuse
from tests.power_cycle_stage import HOSTS_HOME, VICTIM, Object, ready_of
from tests.unit.metal3_scene import Scene, play

GROUP = "infrastructure.cluster.x-k8s.io"
VERSIONS = {
    version: unstructured(GROUP, version, "metal3remediations", "Metal3Remediation", namespaced=True)
    for version in ("v1beta1", "v1beta2")
}
REMEDIATIONS = VERSIONS["v1beta2"]
QUICK = {"type": "Reboot", "retryLimit": 1, "timeoutSeconds": 100}
TOO_LONG = 4 * 3600.0


class Remedy:
    """One Metal3Remediation of Machine m1."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    async def create(self, strategy: Object | None = None, version: str = "v1beta2", **meta: Any) -> None:
        machine = self.scene.machine
        if machine is not None and not meta:
            owner = {"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "name": "m1"}
            meta = {"ownerReferences": [owner | {"uid": machine["metadata"]["uid"]}]}
        body = {"metadata": {"name": "m1"} | meta, "spec": {"strategy": strategy or QUICK}}
        await self.scene.stage.person.create(VERSIONS[version], body, namespace=HOSTS_HOME)

    async def delete(self) -> None:
        item = self.item
        assert item is not None
        ref = REMEDIATIONS.at("m1", HOSTS_HOME)
        await self.scene.stage.person.delete(ref, Deletion(uid=item["metadata"]["uid"]))

    async def change(self, strategy: Object) -> None:
        await self.scene.stage.person.patch(REMEDIATIONS.at("m1", HOSTS_HOME), Merge({"spec": {"strategy": strategy}}))

    @property
    def item(self) -> Object | None:
        return self.scene.stage.one(f"metal3remediations.{GROUP}", "m1")

    @property
    def status(self) -> Object:
        return (self.item or {}).get("status") or {}

    @property
    def phase(self) -> str:
        return str(self.status.get("phase", ""))

    @property
    def reason(self) -> str:
        return str(((self.item or {"metadata": {}})["metadata"].get("annotations") or {}).get(REASON, ""))

    @property
    def is_held(self) -> bool:
        return FINALIZER in ((self.item or {"metadata": {}})["metadata"].get("finalizers") or ())

    async def until(self, holds: Callable[[], bool], seconds: float = 600.0) -> None:
        assert await self.scene.stage.until(holds, seconds), (self.item, self.scene.stage.incident)

    async def goes(self) -> None:
        """It is gone, the host is on, and nothing is left."""
        await self.until(lambda: self.item is None)
        await self.until(lambda: self.scene.stage.phase == Phase.CLOSED)
        await self.until(lambda: ready_of(self.scene.stage.node) == "True")
        await self.scene.stage.calm()
        assert self.scene.stage.leftovers() == []
        assert self.scene.marks == {}


def serve(scenario: Callable[[Scene, Remedy], Awaitable[None]]) -> None:
    async def prepared(scene: Scene) -> None:
        await scenario(scene, Remedy(scene))

    play(prepared, serves=("metal3-remediation",))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_failed_machine_comes_back_and_the_remediation_waits_to_be_deleted(version: str) -> None:
    """RM-22, RM-24: Running, Waiting; the taint says that nothing runs there until its pods and volumes are gone."""

    async def scenario(scene: Scene, remedy: Remedy) -> None:
        await scene.make()
        await scene.fail()
        await remedy.create({"type": "Reboot", "retryLimit": 1}, version)
        key = f"reboot.metal3.io/metal3-remediation-{(remedy.item or {})['metadata']['uid']}"
        await remedy.until(lambda: scene.marks == {key: '{"mode":"hard","force":false}'}, 30)
        assert (remedy.phase, remedy.is_held) == ("Running", True)
        await remedy.until(lambda: _taints(scene) == [("nodeshutdown", "NoExecute")], 60)
        assert not scene.stage.machines[VICTIM].is_on
        await remedy.until(lambda: scene.marks == {}, 60)
        assert [pod for pod in scene.stage.all("pods") if pod["spec"].get("nodeName") == VICTIM] == []
        attached = [one["spec"]["nodeName"] for one in scene.stage.all("volumeattachments.storage.k8s.io")]
        assert VICTIM not in attached
        await remedy.until(lambda: remedy.phase == "Waiting" and not remedy.is_held, 200)
        assert _taints(scene) == []
        assert "retryCount" not in remedy.status
        assert remedy.status["lastRemediated"].startswith("2030-01-01T00:")
        await scene.later(300)
        assert scene.cycles == 1
        await remedy.delete()
        await remedy.goes()

    serve(scenario)


def _taints(scene: Scene) -> list[tuple[str, str]]:
    taints = (scene.stage.node or {"spec": {}})["spec"].get("taints") or ()
    return [(taint["value"], taint["effect"]) for taint in taints if taint["key"] == OUT_OF_SERVICE]


def test_a_node_health_check_says_which_node_it_is_about() -> None:
    """There need not be a Machine: the provider ID of the node leads to its host."""

    async def scenario(scene: Scene, remedy: Remedy) -> None:
        provider = {"spec": {"providerID": f"metal3://{HOSTS_HOME}/{VICTIM}/x1"}}
        await scene.stage.person.patch(NODES.at(VICTIM), Merge(provider))
        await scene.fail()
        await remedy.create(annotations={medik8s.NODE_NAME: VICTIM})
        await remedy.until(lambda: remedy.phase == "Waiting" and not remedy.is_held)
        assert scene.cycles == 1
        await remedy.delete()
        await remedy.goes()

    serve(scenario)


def test_one_that_is_about_nothing_says_so_and_nothing_is_written_down_for_it() -> None:
    async def scenario(scene: Scene, remedy: Remedy) -> None:
        await remedy.create()
        await remedy.until(lambda: remedy.reason.startswith("NoMachine: it has no Machine as owner"), 30)
        assert scene.stage.all("nodeincidents.defib.dev") == []
        await remedy.delete()
        await remedy.until(lambda: remedy.item is None, 30)

    serve(scenario)


@pytest.mark.parametrize(
    ("strategy", "why"),
    [
        ({"type": "Sleep"}, "spec.strategy.type: must be Reboot"),
        ({"type": "Reboot", "retryLimit": 0}, "spec.strategy.retryLimit: must be from 1"),
        ({"type": "Reboot", "retryLimit": -1}, "spec.strategy.retryLimit: must be from 1"),
        ({"type": "Reboot", "timeoutSeconds": 99}, "spec.strategy.timeoutSeconds: must be from 100 s"),
        ({"type": "Reboot", "timeout": "99s"}, "spec.strategy.timeout: must be from 100 s"),
        ({"type": "Reboot", "timeout": "-200s"}, "spec.strategy.timeout: must be from 100 s"),
    ],
)
def test_what_its_provider_would_refuse_is_refused_until_it_is_corrected(strategy: Object, why: str) -> None:
    """RM-21."""

    async def scenario(scene: Scene, remedy: Remedy) -> None:
        await scene.make()
        await scene.fail()
        await remedy.create(strategy)
        await remedy.until(lambda: why in remedy.reason, 30)
        assert (remedy.phase, remedy.is_held, scene.cycles) == ("Failed", False, 0)
        await remedy.change({"type": "Reboot", "retryLimit": 1, "timeout": None, "timeoutSeconds": 100})
        await remedy.until(lambda: remedy.phase == "Waiting" and not remedy.is_held)
        assert (remedy.reason, scene.cycles) == ("", 1)

    serve(scenario)


@pytest.mark.parametrize(("retries", "owned"), [(1, True), (2, True), (1, False)])
def test_a_machine_that_does_not_come_back_is_restarted_so_often_and_then_handed_over(
    retries: int, *, owned: bool
) -> None:
    """RM-19, RM-20, RM-22: once more than the limit of retries says; without an owner it has failed, and stays."""

    async def scenario(scene: Scene, remedy: Remedy) -> None:
        await scene.make(owned=owned)
        await scene.fail()
        scene.stage.hollow.nodes[VICTIM].partition()
        await remedy.create(QUICK | {"retryLimit": retries})
        await remedy.until(lambda: remedy.status.get("retryCount") == 1, TOO_LONG)
        first = remedy.status["lastRemediated"]
        if owned:
            await remedy.until(lambda: scene.machine is None, TOO_LONG)
            assert list(scene.marks) == ["capm3.metal3.io/unhealthy"]
            await remedy.until(lambda: remedy.phase == "Deleting machine", 30)
            node = await scene.stage.person.get(NODES.at(VICTIM))
            await scene.stage.person.delete(NODES.at(VICTIM), Deletion(uid=node.uid))
            await remedy.until(lambda: remedy.item is None, 60)
            assert (scene.stage.incident or {})["status"]["outcome"] == "Replaced"
        else:
            await remedy.until(lambda: remedy.phase == "Failed", TOO_LONG)
            assert scene.machine is not None
            assert remedy.status["lastRemediated"] >= first
            assert remedy.reason.startswith("WaitingForNode: ")
        assert scene.cycles == retries + 1
        assert scene.stage.machines[VICTIM].is_on

    serve(scenario)


def test_a_host_that_is_to_stay_off_has_failed_and_has_its_turn_when_that_changes() -> None:
    """RM-09."""

    async def scenario(scene: Scene, remedy: Remedy) -> None:
        await scene.make()
        await scene.fail()
        await scene.change_host(spec={"online": False})
        await remedy.create()
        await remedy.until(lambda: remedy.phase == "Failed", 30)
        assert remedy.reason.startswith("HostNotOnline: ")
        await scene.change_host(spec={"online": True})
        await remedy.until(lambda: remedy.phase == "Waiting" and not remedy.is_held)
        await remedy.delete()
        await remedy.goes()

    serve(scenario)


@pytest.mark.parametrize(
    "phase", [Phase.OPEN, Phase.POWERING_OFF, Phase.FREEING, Phase.POWERING_ON, Phase.RETURNING, Phase.NEEDS_PERSON]
)
def test_deleting_it_in_any_phase_leaves_the_host_on_and_nothing_behind(phase: Phase) -> None:
    """RM-23."""

    async def scenario(scene: Scene, remedy: Remedy) -> None:
        stage = scene.stage
        await scene.make()
        await scene.fail()
        if phase is Phase.OPEN:
            await scene.change_host(spec={"disablePowerOff": True})
        if phase in (Phase.RETURNING, Phase.NEEDS_PERSON):
            stage.hollow.nodes[VICTIM].partition()
        await remedy.create()
        await scene.until_phase(phase, TOO_LONG)
        await remedy.delete()
        await scene.change_host(spec={"disablePowerOff": False})
        await scene.later(30)
        stage.mend()
        await remedy.goes()

    serve(scenario)


def test_where_nodes_may_not_be_touched_there_is_a_power_cycle_and_that_is_all() -> None:
    """RM-26."""

    async def scenario(scene: Scene, remedy: Remedy) -> None:
        await scene.make()
        await scene.fail()
        refused = Refuse(code=403, reason="Forbidden", message="may not")
        scene.stage.server.faults.inject(Fault(effect=refused, resource="nodes", verbs=("patch",), client="defib"))
        await remedy.create()
        await remedy.until(lambda: remedy.phase == "Waiting" and not remedy.is_held)
        assert (scene.cycles, _taints(scene)) == (1, [])
        told = [entry["message"] for entry in (scene.stage.incident or {})["status"]["timeline"]]
        assert told[3] == "its node may not be touched"
        assert ready_of(scene.stage.node) == "True"
        await remedy.delete()
        await remedy.until(lambda: remedy.item is None, 60)

    serve(scenario)


def test_a_machine_whose_node_becomes_known_a_moment_later_is_not_treated_as_one_without() -> None:
    """RM-27: what was opened for the machine makes way for an incident of its node, and there is one power cycle."""

    async def scenario(scene: Scene, remedy: Remedy) -> None:
        await scene.make()
        await scene.refer(None)
        await scene.fail()
        await scene.change_host(spec={"disablePowerOff": True})
        await remedy.create()
        await remedy.until(lambda: remedy.reason.startswith("HostUntouchable"), 30)
        await scene.refer(VICTIM)
        await remedy.until(lambda: scene.stage.phase == Phase.OPEN, 30)
        await scene.change_host(spec={"disablePowerOff": False})
        await remedy.until(lambda: remedy.phase == "Waiting" and not remedy.is_held)
        await scene.later(60)
        assert (scene.cycles, remedy.status.get("retryCount")) == (1, None)
        assert remedy.status["lastRemediated"]
        await remedy.delete()
        await remedy.goes()

    serve(scenario)

"""The whole operator on the embedded server in virtual time, where other projects ask: Machines on Metal3 hosts."""

from typing import Any

import pytest

from defib.hollow.machine import Unreachable
from defib.kube.client import Deletion
from defib.kube.kinds import NODES, unstructured
from defib.model.incident import Phase
from defib.model.metal3 import DETACHED, HOST_LINK, MACHINE_KEY, PAUSED, TRIGGER
from defib.simulate.faults import Fault, Refuse
from defib.simulate.virtual_time import VirtualClock, run
from testbed.scenario.hollow_cluster import alongside
from tests.power_cycle_stage import HOSTS_HOME, VICTIM, Object, a_stage, ready_of
from tests.unit.metal3_scene import OPENSHIFT, SERVES, Scene, play

CLUSTER_API = unstructured("cluster.x-k8s.io", "v1beta2", "machines", "Machine", namespaced=True)
METAL3_MACHINES = unstructured(
    "infrastructure.cluster.x-k8s.io", "v1beta2", "metal3machines", "Metal3Machine", namespaced=True
)
UNHEALTHY = "capm3.metal3.io/unhealthy"
TOO_LONG = 4 * 3600.0


def test_without_the_annotation_nothing_begins_and_with_it_a_failed_machine_comes_back() -> None:
    """RM-01, RM-06, RM-07, RM-10, RM-14: the host is asked hard, the Node goes when it is off, the trigger goes last."""

    async def scenario(scene: Scene) -> None:
        await scene.make()
        await scene.fail()
        await scene.later(60)
        assert scene.deeds == []
        await scene.ask()
        await scene.until_phase(Phase.POWERING_OFF)
        assert await scene.stage.until(lambda: scene.marks == {MACHINE_KEY: '{"mode":"hard","force":false}'}, 10)
        await scene.until_phase(Phase.FREEING)
        assert scene.is_asked_for
        await scene.ends_well()
        assert scene.cycles == 1
        deeds = [deed for deed in scene.deeds if "incident" not in deed and "leases" not in deed]
        host, machine = "baremetalhosts/n1", "machines/m1"
        ends = [deed.rpartition("v1alpha1/")[2].rpartition(f"namespaces/{HOSTS_HOME}/")[2] for deed in deeds]
        assert [ends.index(host), ends[-1]] == [0, machine]
        assert deeds.index("delete /api/v1/nodes/n1") < deeds.index("patch /api/v1/nodes/n1")

    play(scenario)


def test_where_nobody_serves_it_the_annotation_is_left_alone() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.make()
        await scene.fail()
        await scene.ask()
        await scene.later(120)
        assert scene.deeds == []

    play(scenario, serves=())


def test_a_machine_of_cluster_api_leads_over_its_metal3_machine_to_the_host() -> None:
    """RM-02."""

    async def scenario(scene: Scene) -> None:
        person = scene.stage.person
        link = {HOST_LINK: f"{HOSTS_HOME}/{VICTIM}"}
        await person.create(METAL3_MACHINES, {"metadata": {"name": "x1", "annotations": link}}, namespace=HOSTS_HOME)
        spec = {"infrastructureRef": {"apiGroup": METAL3_MACHINES.group, "kind": "Metal3Machine", "name": "x1"}}
        await person.create(CLUSTER_API, {"metadata": {"name": "m1"}, "spec": spec}, namespace=HOSTS_HOME)
        await scene.refer(VICTIM)
        await scene.fail()
        await scene.ask()
        await scene.ends_well()
        assert scene.cycles == 1

    play(scenario, kind=CLUSTER_API)


def test_the_host_of_another_namespace_is_not_touched_and_the_incident_says_why() -> None:
    """RM-02."""

    async def scenario(scene: Scene) -> None:
        scene.stage.server.put("namespaces", {"metadata": {"name": "elsewhere"}})
        await scene.stage.person.create(
            OPENSHIFT,
            {"metadata": {"name": "m1", "annotations": {TRIGGER: "", HOST_LINK: f"{HOSTS_HOME}/{VICTIM}"}}},
            namespace="elsewhere",
        )
        await scene.later(60)
        (incident,) = scene.stage.all("nodeincidents.defib.dev")
        assert incident["status"]["reason"] == "ForeignHost"
        assert (scene.marks, scene.cycles) == ({}, 0)

    play(scenario)


@pytest.mark.parametrize("phase", [Phase.OPEN, Phase.POWERING_OFF, Phase.FREEING, Phase.POWERING_ON])
def test_what_was_begun_goes_on_after_a_restart_by_what_is_seen_of_the_host(phase: Phase) -> None:
    """RM-03: the next operator knows only what is in the cluster, and each change of the host leads it on."""

    async def main(clock: VirtualClock) -> None:
        async with a_stage(clock, metal3=True) as stage:
            scene = Scene(stage)
            await scene.make()
            await scene.fail()
            await scene.ask()
            if phase is not Phase.OPEN:
                async with stage.operator(serves=SERVES):
                    await scene.until_phase(phase)
            await scene.later(30)
            async with stage.operator(serves=SERVES):
                await scene.ends_well()
            assert scene.cycles == 1
            assert (stage.incident or {})["status"]["outcome"] == "Recovered"

    run(main)


def test_an_annotation_that_somebody_takes_away_is_set_again_before_off_is_believed() -> None:
    """RM-08: as old baremetal operators do."""

    async def scenario(scene: Scene) -> None:
        await scene.make()
        await scene.fail()
        await scene.ask()
        assert await scene.stage.until(lambda: MACHINE_KEY in scene.marks, 20)
        await scene.change_host(metadata={"annotations": {MACHINE_KEY: None}})
        assert await scene.stage.until(lambda: MACHINE_KEY in scene.marks, 30)
        assert scene.stage.phase == Phase.POWERING_OFF
        await scene.ends_well()

    play(scenario)


def test_an_annotation_that_is_taken_away_after_the_proof_stops_what_the_proof_was_for() -> None:
    """RM-08: the host is about to go on, so nothing more is taken from it."""

    async def scenario(scene: Scene) -> None:
        await scene.make()
        await scene.fail()
        await scene.ask()
        await scene.until_phase(Phase.FREEING)
        await scene.change_host(metadata={"annotations": {MACHINE_KEY: None}})
        await scene.later(1)
        assert scene.stage.phase == Phase.POWERING_ON
        await scene.ends_well()

    play(scenario)


@pytest.mark.parametrize(
    ("changes", "back", "reason"),
    [
        ({"metadata": {"annotations": {PAUSED: ""}}}, {"metadata": {"annotations": {PAUSED: None}}}, "HostUntouchable"),
        (
            {"metadata": {"annotations": {DETACHED: ""}}},
            {"metadata": {"annotations": {DETACHED: None}}},
            "HostUntouchable",
        ),
        ({"spec": {"disablePowerOff": True}}, {"spec": {"disablePowerOff": False}}, "HostUntouchable"),
        ({"spec": {"online": False}}, {"spec": {"online": True}}, "HostNotOnline"),
    ],
)
def test_a_host_that_must_not_be_switched_is_not_until_that_changes(changes: Object, back: Object, reason: str) -> None:
    """RM-09."""

    async def scenario(scene: Scene) -> None:
        await scene.make()
        await scene.fail()
        await scene.change_host(**changes)
        await scene.ask()
        await scene.later(90)
        assert (scene.stage.phase, scene.stage.reason) == (Phase.OPEN, reason)
        assert MACHINE_KEY not in scene.marks
        await scene.change_host(**back)
        await scene.ends_well()

    play(scenario)


def test_what_others_ask_of_the_host_stays() -> None:
    """RM-13: it goes on when they let it go, too."""

    async def scenario(scene: Scene) -> None:
        await scene.make()
        await scene.fail()
        await scene.ask()
        await scene.until_phase(Phase.FREEING)
        await scene.change_host(metadata={"annotations": {"reboot.metal3.io/maintenance": ""}})
        await scene.until_phase(Phase.POWERING_ON)
        await scene.later(30)
        assert scene.marks == {"reboot.metal3.io/maintenance": ""}
        assert not scene.stage.machines[VICTIM].is_on
        await scene.change_host(metadata={"annotations": {"reboot.metal3.io/maintenance": None}})
        await scene.ends_well()
        assert scene.cycles == 1

    play(scenario)


@pytest.mark.parametrize("forgets", [False, True], ids=["MachineKeepsNodeRef", "MachineLosesNodeRef"])
def test_a_health_check_that_asks_again_while_the_node_is_gone_restarts_nothing_twice(*, forgets: bool) -> None:
    """RM-15: it asks whenever it finds the Node of a Machine missing, and never takes that back."""

    async def check(scene: Scene) -> None:
        known = True
        while True:
            await scene.later(0.5)
            is_there = scene.stage.node is not None
            if forgets and is_there != known:
                await scene.refer(VICTIM if is_there else None)
            known = is_there
            if not is_there and not scene.is_asked_for:
                await scene.ask()

    async def scenario(scene: Scene) -> None:
        await scene.make()
        await scene.fail()
        await scene.ask()
        async with alongside(check(scene)):
            await scene.ends_well()
            done = len(scene.deeds)
            await scene.later(300)
        assert (scene.cycles, len(scene.deeds)) == (1, done)

    play(scenario)


@pytest.mark.parametrize(
    "phase", [Phase.OPEN, Phase.POWERING_OFF, Phase.FREEING, Phase.POWERING_ON, Phase.RETURNING, Phase.RESTING]
)
def test_who_withdraws_at_any_step_finds_the_host_on_and_nothing_left_and_may_ask_again(phase: Phase) -> None:
    """RM-16."""

    async def scenario(scene: Scene) -> None:
        stage = scene.stage
        await scene.make()
        await scene.fail()
        if phase is Phase.OPEN:
            await scene.change_host(spec={"disablePowerOff": True})
        if phase is Phase.RETURNING:
            stage.hollow.nodes[VICTIM].partition()
        if phase is Phase.RESTING:
            stage.machines[VICTIM].bmc.suffer(Unreachable())
        await scene.ask()
        await scene.until_phase(phase, 1200)
        await scene.ask(None)
        stage.machines[VICTIM].bmc.suffer()
        assert await stage.until(lambda: stage.phase not in (phase, Phase.POWERING_ON), 60)
        stage.mend()
        await scene.change_host(spec={"disablePowerOff": False})
        await scene.ends_well()
        before = scene.cycles
        await scene.fail()
        await scene.ask()
        await scene.ends_well()
        assert scene.cycles == before + 1

    play(scenario)


def test_a_host_that_does_not_go_off_is_tried_again_and_then_left_to_a_person_with_a_reason() -> None:
    """RM-17."""

    async def scenario(scene: Scene) -> None:
        await scene.make()
        await scene.fail()
        scene.stage.machines[VICTIM].bmc.suffer(Unreachable())
        await scene.ask()
        await scene.until_phase(Phase.RESTING, 900)
        await scene.until_phase(Phase.NEEDS_PERSON, TOO_LONG)
        assert (scene.stage.incident or {})["status"]["attempt"] == 3
        assert scene.stage.reason in ("PowerUnknown", "StillOn")
        assert ready_of(scene.stage.node) != "gone"
        scene.stage.machines[VICTIM].bmc.suffer()
        scene.stage.mend()
        await scene.later(330)
        assert scene.marks == {}

    play(scenario)


async def a_check(scene: Scene, **spec: Any) -> None:
    checks = unstructured("cluster.x-k8s.io", "v1beta1", "machinehealthchecks", "MachineHealthCheck", namespaced=True)
    await scene.stage.person.create(checks, {"metadata": {"name": "c"}, "spec": spec}, namespace=HOSTS_HOME)


@pytest.mark.parametrize("is_master", [False, True])
def test_a_machine_that_does_not_come_back_is_deleted_only_where_it_can_be_replaced(*, is_master: bool) -> None:
    """RM-19, RM-20: and its host is marked before, so that it is not used again."""

    async def scenario(scene: Scene) -> None:
        await a_check(scene, nodeStartupTimeout="2m")
        await scene.make(owned=True, labels={"cluster.x-k8s.io/control-plane": ""} if is_master else {})
        await scene.fail()
        scene.stage.hollow.nodes[VICTIM].partition()
        await scene.ask()
        await scene.until_phase(Phase.NEEDS_PERSON if is_master else Phase.CLOSED, TOO_LONG)
        assert (scene.machine is None) != is_master
        assert scene.cycles == 3
        assert (UNHEALTHY in scene.marks) != is_master
        assert MACHINE_KEY not in scene.marks

    play(scenario, kind=CLUSTER_API)


@pytest.mark.parametrize(("says", "minutes"), [("5m", 5), ("nonsense", 20)])
def test_a_node_has_as_long_to_come_back_as_its_health_check_says(says: str, minutes: float) -> None:
    """RM-18: or 20 minutes, where the check makes no sense."""

    async def scenario(scene: Scene) -> None:
        await a_check(scene, nodeStartupTimeout=says, selector={"matchLabels": {"role": "worker"}})
        await scene.make(labels={"role": "worker"})
        await scene.fail()
        scene.stage.hollow.nodes[VICTIM].partition()
        await scene.ask()
        await scene.until_phase(Phase.RETURNING)
        began = scene.stage.clock.monotonic()
        await scene.until_phase(Phase.RESTING, TOO_LONG)
        assert scene.stage.clock.monotonic() - began == pytest.approx(minutes * 60, abs=2)

    play(scenario, kind=CLUSTER_API)


def test_a_machine_that_never_became_a_node_can_be_power_cycled() -> None:
    """RM-27: its incident is its own, and over when it has become one."""

    async def scenario(scene: Scene) -> None:
        await scene.make()
        await scene.refer(None)
        await scene.fail()
        node = await scene.stage.person.get(NODES.at(VICTIM))
        await scene.stage.person.delete(NODES.at(VICTIM), Deletion(uid=node.uid))
        await scene.ask()
        assert await scene.stage.until(lambda: scene.cycles == 1 and scene.stage.machines[VICTIM].is_on, 300)
        (incident,) = scene.stage.all("nodeincidents.defib.dev")
        assert incident["metadata"]["name"].startswith("m1.")
        assert incident["spec"]["node"] == ""
        assert await scene.stage.until(lambda: ready_of(scene.stage.node) == "True", 60)
        assert scene.is_asked_for
        await scene.refer(VICTIM)
        assert await scene.stage.until(lambda: not scene.is_asked_for, 60)
        await scene.stage.calm()
        (incident,) = scene.stage.all("nodeincidents.defib.dev")
        assert incident["status"]["outcome"] == "Recovered"
        assert (scene.marks, scene.cycles) == ({}, 1)

    play(scenario)


def test_a_node_that_may_not_be_deleted_is_power_cycled_and_keeps_what_it_has() -> None:
    """RM-26."""

    async def scenario(scene: Scene) -> None:
        await scene.make()
        await scene.fail()
        refused = Refuse(code=403, reason="Forbidden", message="may not")
        scene.stage.server.faults.inject(Fault(effect=refused, resource="nodes", verbs=("delete",), client="defib"))
        before = (scene.stage.node or {})["metadata"]["uid"]
        await scene.ask()
        await scene.ends_well()
        assert ((scene.stage.node or {})["metadata"]["uid"], scene.cycles) == (before, 1)

    play(scenario)


def test_a_machine_that_is_given_up_in_the_middle_leaves_no_incident_open() -> None:
    """RM-16: whoever deletes the Machine takes the host off line, and nobody waits for it to go on."""

    async def scenario(scene: Scene) -> None:
        await scene.make()
        await scene.fail()
        await scene.ask()
        await scene.until_phase(Phase.POWERING_OFF)
        machine = scene.machine
        assert machine is not None
        await scene.stage.person.delete(OPENSHIFT.at("m1", HOSTS_HOME), Deletion(uid=machine["metadata"]["uid"]))
        await scene.change_host(spec={"online": False})
        await scene.until_phase(Phase.CLOSED, 300)
        assert (scene.stage.incident or {})["status"]["outcome"] == "Cancelled"
        assert scene.marks == {}

    play(scenario)

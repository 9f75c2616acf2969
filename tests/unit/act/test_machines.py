"""A machine is marked, remediated or deleted only if check, machine and node are, live, as they were judged."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from defib.act.outcome import Done, Stale, Withheld
from defib.kube.client import Deletion, Merge
from defib.kube.errors import Forbidden
from defib.kube.kinds import unstructured
from defib.model.health_check import KindRef
from defib.model.machine import PAUSED
from defib.model.machine_action import AskForPowerCycle, MachineAction, Patient, RemediateMachine, ReplaceMachine
from defib.model.mandate import Mandate
from defib.model.metal3 import TRIGGER
from defib.model.target import Because, Target
from defib.simulate.faults import Refuse
from tests.unit.act.stage import FOO, MACHINES, PLACE, SINCE, Stage, a_crd, play

MHCS = unstructured("machine.openshift.io", "v1beta1", "machinehealthchecks", "MachineHealthCheck", namespaced=True)
MACHINE, MHC = (KindRef(kind.api_version, kind.name) for kind in (MACHINES, MHCS))
Change = Callable[[Stage], Awaitable[object]]


def patient_in(stage: Stage, **changes: Any) -> Patient:
    """m1, whose node n1 is not ready."""
    stage.server.put("customresourcedefinitions.apiextensions.k8s.io", a_crd(MHCS))
    meta = {"namespace": PLACE, "finalizers": ["machine.machine.openshift.io"]}
    stage.server.put(str(MACHINES), {"metadata": {"name": "m1"} | meta, "status": {"nodeRef": {"name": "n1"}}})
    stage.server.put(str(MHCS), {"metadata": {"name": "workers", "namespace": PLACE}, "spec": {}})
    machine, check = the(stage, MACHINES, "m1"), the(stage, MHCS, "workers")
    patient = Patient(
        check=Target(kind=MHC, namespace=PLACE, name="workers", uid=check["uid"]),
        generation=check["generation"],
        machine=Target(kind=MACHINE, namespace=PLACE, name="m1", uid=machine["uid"]),
        version=machine["resourceVersion"],
        node="n1",
        node_uid=stage.uid("nodes", "n1"),
        because=Because("Ready", "Unknown", SINCE),
    )
    return msgspec.structs.replace(patient, **changes)


def the(stage: Stage, kind: Any, name: str) -> Any:
    stored = stage.server.store.get(str(kind), f"{PLACE}/{name}")
    return stored.object["metadata"] if stored else None


def a_power_cycle(patient: Patient) -> AskForPowerCycle:
    return AskForPowerCycle(patient=patient, annotation=TRIGGER)


def a_replacement(patient: Patient) -> ReplaceMachine:
    return ReplaceMachine(patient=patient)


def a_remediation(patient: Patient) -> RemediateMachine:
    return RemediateMachine(
        patient=patient, kind=FOO, body={"metadata": {"name": "m1", "namespace": PLACE}, "spec": {}}
    )


EACH = pytest.mark.parametrize("deed", [a_power_cycle, a_replacement, a_remediation])


def untouched(stage: Stage) -> bool:
    machine = the(stage, MACHINES, "m1")
    is_same = machine is None or ("deletionTimestamp" not in machine and TRIGGER not in machine.get("annotations", {}))
    return is_same and stage.foos() == []


def test_a_power_cycle_is_asked_for_by_an_annotation() -> None:
    async def scenario(stage: Stage) -> None:
        outcome = await stage.do(a_power_cycle(patient_in(stage)))
        assert isinstance(outcome, Done)
        assert the(stage, MACHINES, "m1")["annotations"] == {TRIGGER: ""}
        assert [kind for kind, _ in stage.noted] == [str(MACHINES)]

    play(scenario)


def test_a_machine_is_deleted_and_the_next_plan_sees_it_leave() -> None:
    async def scenario(stage: Stage) -> None:
        assert isinstance(await stage.do(a_replacement(patient_in(stage))), Done)
        assert "deletionTimestamp" in the(stage, MACHINES, "m1")
        ((_, noted),) = stage.noted
        assert noted.metadata.deletion_timestamp is not None

    play(scenario)


def test_a_remediation_is_created_and_one_that_is_there_already_is_enough() -> None:
    async def scenario(stage: Stage) -> None:
        patient = patient_in(stage)
        assert isinstance(await stage.do(a_remediation(patient)), Done)
        assert await stage.do(a_remediation(patient)) == Stale(
            f"there is a FooRemediation of Machine {PLACE}/m1 already"
        )
        assert [foo["metadata"]["name"] for foo in stage.foos()] == ["m1"]

    play(scenario)


async def _recovers(stage: Stage) -> None:
    await stage.turn("True")


async def _relapses(stage: Stage) -> None:
    await stage.turn("Unknown")


async def _loses_its_node(stage: Stage) -> None:
    await stage.remove_node("n1")


async def _changes(stage: Stage) -> None:
    await stage.world.patch(MACHINES.at("m1", PLACE), Merge({"status": {"phase": "Running"}}), subresource="status")


async def _goes(stage: Stage) -> None:
    ref = MACHINES.at("m1", PLACE)
    await stage.world.patch(ref, Merge({"metadata": {"finalizers": None}}))
    await stage.world.delete(ref, Deletion(uid=the(stage, MACHINES, "m1")["uid"]))


async def _pauses(stage: Stage) -> None:
    await stage.world.patch(MHCS.at("workers", PLACE), Merge({"metadata": {"annotations": {PAUSED: ""}}}))


async def _is_edited(stage: Stage) -> None:
    await stage.world.patch(MHCS.at("workers", PLACE), Merge({"spec": {"maxUnhealthy": 0}}))


async def _is_deleted(stage: Stage) -> None:
    await stage.world.delete(MHCS.at("workers", PLACE), Deletion(uid=the(stage, MHCS, "workers")["uid"]))


@EACH
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_recovers, "Ready of node n1 has changed"),
        (_relapses, "Ready of node n1 has changed"),
        (_loses_its_node, "node n1 is gone, or another one"),
        (_changes, f"Machine {PLACE}/m1 has changed in between"),
        (_goes, f"Machine {PLACE}/m1 has changed in between"),
        (_pauses, f"MachineHealthCheck {PLACE}/workers is paused"),
        (_is_edited, f"MachineHealthCheck {PLACE}/workers was edited in between"),
        (_is_deleted, f"MachineHealthCheck {PLACE}/workers is gone"),
    ],
)
def test_nothing_is_done_once_anything_has_changed(
    deed: Callable[[Patient], MachineAction], change: Change, why: str
) -> None:
    async def scenario(stage: Stage) -> None:
        action = deed(patient_in(stage))
        await change(stage)
        assert await stage.do(action) == Stale(why)
        assert untouched(stage)

    play(scenario)


def test_a_node_that_was_missing_must_be_missing_still() -> None:
    async def scenario(stage: Stage) -> None:
        patient = patient_in(stage, node_uid="", because=None)
        assert await stage.do(a_replacement(patient)) == Stale("node n1 is there")
        await stage.remove_node("n1")
        assert isinstance(await stage.do(a_replacement(patient)), Done)

    play(scenario)


def test_of_a_machine_that_has_failed_no_node_is_asked_after() -> None:
    async def scenario(stage: Stage) -> None:
        patient = patient_in(stage, node="", node_uid="", because=None)
        assert isinstance(await stage.do(a_replacement(patient)), Done)
        assert not any("nodes" in asked for asked in stage.asked())

    play(scenario)


@EACH
def test_neither_under_the_brake_nor_without_a_mandate(deed: Callable[[Patient], MachineAction]) -> None:
    async def scenario(stage: Stage) -> None:
        action = deed(patient_in(stage))
        over = Mandate("test", stage.clock.monotonic() - 1)
        assert await stage.do(action, over) == Withheld("our mandate has ended")
        stage.stop = lambda: "storm"
        assert await stage.do(action) == Withheld("storm")
        assert untouched(stage)

    play(scenario)


def test_a_refusal_is_an_error_and_not_an_end() -> None:
    async def scenario(stage: Stage) -> None:
        patient = patient_in(stage)
        stage.break_creation(Refuse(code=403))
        with pytest.raises(Forbidden):
            await stage.do(a_remediation(patient))

    play(scenario)

"""NodeHealthChecks are left to the operator of medik8s, and Defib serves the remediations that it makes."""

from pathlib import Path
from typing import Any

import yaml

from defib.kube.client import Deletion, Merge
from defib.kube.kinds import LEASES, NODE_HEALTH_CHECKS, NODE_INCIDENTS, NODES
from defib.model import medik8s
from defib.model.power_cycle import FINALIZER
from tests.check_corpus import a_check, simple
from tests.unit.test_fence_readiness import HOME, POWER, POWER_CYCLES, Room, operating, play, seconds

Body = dict[str, Any]
REMEDIATORS = Path(__file__).parents[2] / "testbed" / "crds" / "test-remediators.yaml"


async def as_medik8s_would(room: Room, node: str) -> None:
    """It takes the lock of the node, and makes a remediation from the template that its check names."""
    (check,) = (await room.admin.list_all(NODE_HEALTH_CHECKS)).items
    spec = {
        "holderIdentity": medik8s.holder_of(check.name),
        "leaseDurationSeconds": 660,
        "renewTime": f"{room.clock.now():%Y-%m-%dT%H:%M:%S.%fZ}",
    }
    lock = {"metadata": {"name": medik8s.lock_of(node)}, "spec": spec}
    await room.admin.create(LEASES, lock, namespace=medik8s.LOCK_NAMESPACE)
    owner = {"apiVersion": medik8s.API_VERSION, "kind": medik8s.CHECK_KIND, "name": check.name, "uid": check.uid}
    meta: Body = {"name": node, "ownerReferences": [owner], "annotations": {medik8s.TEMPLATE_NAME: "pcr"}}
    await room.admin.create(POWER_CYCLES, {"metadata": meta, "spec": {"power": POWER}}, namespace=HOME)


def test_what_another_operator_makes_is_served_and_its_checks_are_left_alone() -> None:
    async def scenario(room: Room) -> None:
        await room.make_template()
        await room.make_check()
        async with operating(room, health_checks="off"):
            await seconds(10)
            assert (await room.condition())[0] == "True", "whether its nodes could be fenced is known all the same"
            boot = room.hollow.nodes["n1"].boot_id
            room.hollow.nodes["n1"].hang()
            await seconds(500)
            assert (await room.admin.list_all(POWER_CYCLES)).items == []
            await as_medik8s_would(room, "n1")
            await seconds(120)
            incident = await room.admin.get(NODE_INCIDENTS.at("n1"))
            assert (incident.status.phase, incident.status.outcome) == ("Closed", "Recovered")
            node = await room.admin.get(NODES.at("n1"))
            assert node.ready == "True"
            assert node.status.node_info.boot_id != boot
            lock = await room.admin.get(LEASES.at(medik8s.lock_of("n1"), medik8s.LOCK_NAMESPACE))
            assert lock.spec.holder_identity == "NodeHealthCheck-all", "it is the other operator's to give back"
            (cycle,) = (await room.admin.list_all(POWER_CYCLES)).items
            await room.admin.delete(POWER_CYCLES.of(cycle), Deletion(uid=cycle.uid))
            await seconds(2)
            assert (await room.admin.list_all(POWER_CYCLES)).items == []
        (check,) = (await room.admin.list_all(NODE_HEALTH_CHECKS)).items
        assert not check.status, "nobody but its own operator says how it stands"

    play(scenario)


def test_its_timeout_cancels_and_leaves_the_machine_on() -> None:
    async def scenario(room: Room) -> None:
        await room.make_template()
        await room.make_check()
        async with operating(room, health_checks="off"):
            await seconds(10)
            room.hollow.nodes["n1"].hang()
            await seconds(60)
            await as_medik8s_would(room, "n1")
            await seconds(1)
            stop = {"metadata": {"annotations": {medik8s.TIMED_OUT: "2030-01-01T00:10:00Z"}}}
            await room.admin.patch(POWER_CYCLES.at("n1", HOME), Merge(stop))
            await seconds(200)
            (cycle,) = (await room.admin.list_all(POWER_CYCLES)).items
            told = {one["type"]: one["status"] for one in (cycle.status or {})["conditions"]}
            assert (told["Processing"], told["Succeeded"]) == ("False", "False")
            assert room.machines["n1"].is_on
            assert cycle.metadata.finalizers == [FINALIZER]

    play(scenario)


def test_remediators_of_other_projects_are_the_other_operators_to_look_at() -> None:
    """They bring their rights along for whoever runs the checks, which is not Defib here."""

    async def scenario(room: Room) -> None:
        crds = yaml.safe_load_all(REMEDIATORS.read_text())
        for crd in crds:
            room.server.put("customresourcedefinitions.apiextensions.k8s.io", crd)
        ref = {
            "apiVersion": "test.defib.dev/v1alpha1",
            "kind": "FooRemediationTemplate",
            "name": "foo",
            "namespace": "x",
        }
        await room.admin.create(NODE_HEALTH_CHECKS, a_check(simple(remediationTemplate=ref), "theirs"))
        async with operating(room, health_checks="off"):
            await seconds(60)
        assert not [one.path for one in room.server.audit if one.client == "operator" and "test.defib.dev" in one.path]
        async with operating(room):
            await seconds(60)
        assert [one.path for one in room.server.audit if one.client == "operator" and "test.defib.dev" in one.path]

    play(scenario)

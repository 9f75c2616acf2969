"""The whole operator on the embedded server in virtual time: it serves MachineHealthChecks where it is told to."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from defib.app import Operator
from defib.config import Settings
from defib.kube.client import Client, Merge
from defib.kube.kinds import CONFIG_MAPS, NODES, unstructured
from defib.model import medik8s
from defib.model.machine import PAUSED, STRATEGY
from defib.model.metal3 import TRIGGER
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import START, VirtualClock, run
from defib.telemetry.metrics import Metrics
from tests.mortal_line import Line
from tests.power_cycle_stage import HOSTS_HOME
from tests.unit.act.stage import a_crd
from tests.unit.metal3_scene import Scene
from tests.unit.metal3_scene import play as play_metal3

MACHINES = unstructured("machine.openshift.io", "v1beta1", "machines", "Machine", namespaced=True)
CHECKS = unstructured("machine.openshift.io", "v1beta1", "machinehealthchecks", "MachineHealthCheck", namespaced=True)
FOOS = unstructured("example.com", "v1", "fooremediations", "FooRemediation", namespaced=True)
TEMPLATES = unstructured("example.com", "v1", "fooremediationtemplates", "FooRemediationTemplate", namespaced=True)
HOME, PLACE = "defib-system", "openshift-machine-api"
EXTERNAL = {STRATEGY: "external-baremetal"}
REF = {"apiVersion": "example.com/v1", "kind": "FooRemediationTemplate", "name": "usual"}
NOT_READY = [{"type": "Ready", "status": "Unknown", "timeout": "5m"}]


class Shop(msgspec.Struct):
    """Four machines with nodes, m1 to m4 and n1 to n4."""

    server: ApiServer
    clock: VirtualClock
    admin: Client

    async def make_check(self, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        meta = {"name": "workers", "annotations": annotations or {}}
        spec = {"selector": {}, "unhealthyConditions": NOT_READY, "maxUnhealthy": 1} | spec
        await self.admin.create(CHECKS, {"metadata": meta, "spec": spec}, namespace=PLACE)

    async def turn(self, node: str, ready: str) -> None:
        said = [{"type": "Ready", "status": ready, "lastTransitionTime": stamp(self.clock.now())}]
        await self.admin.patch(NODES.at(node), Merge({"status": {"conditions": said}}), subresource="status")

    async def annotate(self, kind: Any, name: str, annotations: dict[str, str | None]) -> None:
        await self.admin.patch(kind.at(name, PLACE), Merge({"metadata": {"annotations": annotations}}))

    def machine(self, name: str) -> dict[str, Any] | None:
        stored = self.server.store.get(str(MACHINES), f"{PLACE}/{name}")
        return stored.object["metadata"] if stored else None

    def is_leaving(self, name: str) -> bool:
        machine = self.machine(name)
        return machine is not None and "deletionTimestamp" in machine

    def has_trigger(self, name: str) -> bool:
        machine = self.machine(name)
        return machine is not None and TRIGGER in (machine.get("annotations") or {})

    async def foos(self) -> list[str]:
        return [item.name for item in (await self.admin.list_all(FOOS)).items]

    async def status(self) -> dict[str, Any]:
        return (await self.admin.get(CHECKS.at("workers", PLACE))).status or {}

    async def counts(self) -> tuple[Any, ...]:
        status = await self.status()
        return tuple(status.get(name) for name in ("expectedMachines", "currentHealthy", "remediationsAllowed"))

    async def reason(self) -> str:
        conditions = (await self.status())["conditions"]
        return str(conditions[0]["reason"])

    def asked(self, verb: str, what: str) -> list[str]:
        """The paths of what the operator has asked for, of one kind."""
        ours = [asked for asked in self.server.audit if (asked.client, asked.verb) == ("operator", verb)]
        return [asked.path for asked in ours if f"/{what}" in asked.path and asked.status < 300]


def stamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


@cache
def our_definitions() -> list[dict[str, Any]]:
    """Reading them takes longer than hours of virtual time."""
    files = sorted((Path(__file__).parents[2] / "deploy" / "crds").glob("*.yaml"))
    return [yaml.safe_load(file.read_text()) for file in files]


def furnish(server: ApiServer) -> None:
    definitions = "customresourcedefinitions.apiextensions.k8s.io"
    for definition in our_definitions():
        server.put(definitions, definition)
    for kind in (MACHINES, CHECKS, FOOS, TEMPLATES):
        server.put(definitions, a_crd(kind))
    for name in (HOME, PLACE, medik8s.LOCK_NAMESPACE):
        server.put("namespaces", {"metadata": {"name": name}})
    server.put(str(TEMPLATES), {"metadata": {"name": "usual", "namespace": PLACE}, "spec": {"template": {"spec": {}}}})
    owner = {
        "apiVersion": "machine.openshift.io/v1beta1",
        "kind": "MachineSet",
        "name": "s",
        "uid": "s",
        "controller": True,
    }
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": stamp(START)}
    for number in range(1, 5):
        server.put("nodes", {"metadata": {"name": f"n{number}"}, "status": {"conditions": [ready]}})
        meta = {
            "name": f"m{number}",
            "namespace": PLACE,
            "finalizers": ["example.com/drain"],
            "ownerReferences": [owner],
        }
        server.put(str(MACHINES), {"metadata": meta, "spec": {}})


async def give_nodes(admin: Client) -> None:
    for number in range(1, 5):
        status = {"phase": "Running", "lastUpdated": stamp(START), "nodeRef": {"kind": "Node", "name": f"n{number}"}}
        await admin.patch(MACHINES.at(f"m{number}", PLACE), Merge({"status": status}), subresource="status")


Scenario = Callable[[Shop], Awaitable[None]]


def play(scenario: Scenario) -> None:
    async def main(clock: VirtualClock) -> None:
        server = ApiServer(clock)
        furnish(server)
        shop = Shop(server, clock, Client(InProcess(server, client="admin"), clock))
        await give_nodes(shop.admin)
        await scenario(shop)

    run(main, limit=timedelta(hours=4))


@asynccontextmanager
async def operating(
    shop: Shop, *, writes: float = float("inf"), serves: tuple[str, ...] = ("machine-health-check",)
) -> AsyncIterator[None]:
    """Until the end of the block, or until so many writes were made."""
    settings = Settings(serves=serves, default_check="off")
    operator = Operator(Line(shop.server, writes), shop.clock, settings, Metrics())
    async with asyncio.TaskGroup() as group:
        running = group.create_task(operator.run())
        yield
        running.cancel()


async def minutes(count: float) -> None:
    """Virtual ones: they pass at once."""
    await asyncio.sleep(60 * count)


def test_a_machine_whose_node_is_not_ready_for_its_time_is_deleted_once_and_no_other() -> None:
    async def scenario(shop: Shop) -> None:
        await shop.make_check()
        async with operating(shop):
            await minutes(1)
            assert await shop.counts() == (4, 4, 1)
            await shop.turn("n1", "Unknown")
            await minutes(4.9)
            assert not shop.is_leaving("m1")
            assert await shop.counts() == (4, 3, 0)
            await minutes(0.2)
            assert shop.is_leaving("m1")
            await minutes(30)
            assert len(shop.asked("delete", "machines/")) == 1

    play(scenario)


def test_a_machine_that_gets_no_node_is_replaced_after_ten_minutes() -> None:
    async def scenario(shop: Shop) -> None:
        await shop.admin.patch(MACHINES.at("m2", PLACE), Merge({"status": {"nodeRef": None}}), subresource="status")
        await shop.make_check()
        async with operating(shop):
            await minutes(9.9)
            assert not shop.is_leaving("m2")
            await minutes(0.2)
            assert shop.is_leaving("m2")

    play(scenario)


def test_two_dead_ones_where_one_may_be_are_left_alone_until_one_is_back() -> None:
    async def scenario(shop: Shop) -> None:
        await shop.make_check()
        await shop.turn("n1", "Unknown")
        await shop.turn("n2", "Unknown")
        async with operating(shop):
            await minutes(10)
            assert shop.asked("delete", "machines/") == []
            assert (await shop.counts(), await shop.reason()) == ((4, 2, 0), "TooManyUnhealthy")
            await shop.turn("n2", "True")
            await minutes(0.1)
            assert shop.is_leaving("m1")

    play(scenario)


def test_a_power_cycle_is_asked_for_once_and_again_only_when_the_trigger_is_gone_and_the_node_still_ill() -> None:
    async def scenario(shop: Shop) -> None:
        await shop.make_check(EXTERNAL)
        await shop.turn("n1", "Unknown")
        async with operating(shop):
            await minutes(30)
            assert shop.has_trigger("m1")
            assert len(shop.asked("patch", "machines/")) == 1
            await shop.turn("n1", "True")
            await shop.annotate(MACHINES, "m1", {TRIGGER: None})
            await minutes(30)
            assert len(shop.asked("patch", "machines/")) == 1
            assert await shop.counts() == (4, 4, 1)

    play(scenario)


def test_a_remediation_is_made_from_the_template_and_ended_when_the_machine_is_well_again() -> None:
    async def scenario(shop: Shop) -> None:
        await shop.make_check(remediationTemplate=REF)
        await shop.turn("n1", "Unknown")
        async with operating(shop):
            await minutes(6)
            (foo,) = (await shop.admin.list_all(FOOS)).items
            assert foo.name == "m1"
            assert [(owner.kind, owner.name) for owner in foo.metadata.owner_references or ()] == [("Machine", "m1")]
            await minutes(30)
            assert await shop.foos() == ["m1"]
            await shop.turn("n1", "True")
            await minutes(0.1)
            assert await shop.foos() == []
            assert (len(shop.asked("create", "fooremediations")), len(shop.asked("delete", "fooremediations/"))) == (
                1,
                1,
            )
            assert await shop.counts() == (4, 4, 1)

    play(scenario)


def test_a_paused_check_does_nothing_until_it_goes_on() -> None:
    async def scenario(shop: Shop) -> None:
        await shop.make_check({PAUSED: ""})
        await shop.turn("n1", "Unknown")
        async with operating(shop):
            await minutes(20)
            assert not shop.is_leaving("m1")
            assert await shop.status() == {}
            await shop.annotate(CHECKS, "workers", {PAUSED: None})
            await minutes(0.1)
            assert shop.is_leaving("m1")

    play(scenario)


def test_the_brake_holds_it_back_and_says_so() -> None:
    async def scenario(shop: Shop) -> None:
        await shop.make_check()
        brake = {"metadata": {"name": "defib-brake"}, "data": {"paused": "true"}}
        await shop.admin.create(CONFIG_MAPS, brake, namespace=HOME)
        await shop.turn("n1", "Unknown")
        async with operating(shop):
            await minutes(20)
            assert (shop.is_leaving("m1"), await shop.reason()) == (False, "Brake")
            await shop.admin.patch(CONFIG_MAPS.at("defib-brake", HOME), Merge({"data": {"paused": "false"}}))
            await minutes(0.1)
            assert shop.is_leaving("m1")

    play(scenario)


@pytest.mark.parametrize("serves", [(), ("machine-annotation",)])
def test_without_the_setting_nothing_is_done_for_anybody(serves: tuple[str, ...]) -> None:
    async def scenario(shop: Shop) -> None:
        await shop.make_check()
        await shop.turn("n1", "Unknown")
        async with operating(shop, serves=serves):
            await minutes(30)
        assert (shop.is_leaving("m1"), await shop.status()) == (False, {})
        is_about_machines = any(
            "/machine.openshift.io/" in one.path for one in shop.server.audit if one.client == "operator"
        )
        assert is_about_machines == bool(serves)

    play(scenario)


@pytest.mark.parametrize("spec", [{}, {"remediationTemplate": REF}, {"annotations": EXTERNAL}])
@pytest.mark.parametrize("writes", [0, 1, 2, 3])
def test_whoever_comes_after_an_operator_that_died_before_any_write_ends_the_same(
    spec: dict[str, Any], writes: int
) -> None:
    async def scenario(shop: Shop) -> None:
        await shop.make_check(**spec)
        await shop.turn("n1", "Unknown")
        async with operating(shop, writes=writes):
            await minutes(7)
        async with operating(shop):
            await minutes(7)
        done = [shop.is_leaving("m1"), await shop.foos() == ["m1"], shop.has_trigger("m1")]
        assert done.count(True) == 1
        assert await shop.counts() == (4, 3, 0)
        made = [*shop.asked("delete", "machines/"), *shop.asked("create", "foo"), *shop.asked("patch", "machines/")]
        assert len(made) == 1

    play(scenario)


def test_from_a_node_that_fails_over_the_trigger_to_a_power_cycle_and_no_second_one() -> None:
    """RM-15: between the deletion of the Node and its return the check looks again and again, and asks for nothing."""

    async def scenario(scene: Scene) -> None:
        scene.stage.server.put("customresourcedefinitions.apiextensions.k8s.io", a_crd(CHECKS))
        await minutes(2)  # a kind that comes later is looked for once in a while
        await scene.make()
        conditions = [{"type": "Ready", "status": "Unknown", "timeout": "30s"}]
        body = {
            "metadata": {"name": "workers", "annotations": EXTERNAL},
            "spec": {"selector": {}, "unhealthyConditions": conditions},
        }
        await scene.stage.person.create(CHECKS, body, namespace=HOSTS_HOME)
        await scene.fail()
        assert await scene.stage.until(lambda: scene.is_asked_for, 60)
        await scene.ends_well()
        await minutes(10)
        assert (scene.cycles, scene.is_asked_for) == (1, False)

    play_metal3(scenario, serves=("machine-annotation", "machine-health-check"))

"""The whole operator on the embedded server in virtual time: a node that cannot be fenced is known before it fails."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import yaml
from prometheus_client.parser import text_string_to_metric_families

from defib.app import Operator
from defib.config import Settings
from defib.hollow.machine import Claims, Hangs, Machine, WrongPassword
from defib.hollow.power import HollowPower
from defib.hollow.site import Blueprint
from defib.kube.client import Client, Deletion, Merge
from defib.kube.kinds import NODE_HEALTH_CHECKS, NODES, unstructured
from defib.model import medik8s
from defib.model.power_cycle import REMEDIATION, TEMPLATE
from defib.power.registry import Drivers
from defib.simulate import controllers
from defib.simulate.faults import Fault, Refuse
from defib.simulate.in_process import InProcess
from defib.simulate.node_lifecycle import NodeLifecycle
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run
from defib.telemetry.metrics import Metrics
from testbed.scenario.hollow_cluster import HollowCluster, alongside, hollow_cluster
from testbed.scenario.profiles import PROFILES
from testbed.scenario.story import Timers
from tests.scraping import scraped

CRDS = sorted((Path(__file__).parents[2] / "deploy" / "crds").glob("*.yaml"))
TEMPLATES = unstructured("defib.dev", "v1alpha1", "powercycleremediationtemplates", TEMPLATE.name, namespaced=True)
POWER_CYCLES = unstructured("defib.dev", "v1alpha1", "powercycleremediations", REMEDIATION.name, namespaced=True)
HOME = "defib-system"
BMC = "node-restriction.kubernetes.io/bmc"
POWER = {"driver": "hollow", "address": "{node}", "credentials": {"name": "bmc-{node}"}}


class Room(msgspec.Struct):
    """Three machines with a BMC each, their nodes, and a person."""

    server: ApiServer
    clock: VirtualClock
    admin: Client
    machines: dict[str, Machine]
    hollow: HollowCluster

    async def make_template(self, **power: Any) -> None:
        spec = {"template": {"spec": {"power": POWER | power}}}
        await self.admin.create(TEMPLATES, {"metadata": {"name": "pcr"}, "spec": spec}, namespace=HOME)

    async def make_check(self) -> None:
        ref = {"apiVersion": TEMPLATE.api_version, "kind": TEMPLATE.name, "name": "pcr", "namespace": HOME}
        spec = {"selector": {}, "remediationTemplate": ref, "minHealthy": "51%"}
        await self.admin.create(NODE_HEALTH_CHECKS, {"metadata": {"name": "all"}, "spec": spec})

    async def status(self) -> dict[str, Any]:
        return (await self.admin.get(TEMPLATES.at("pcr", HOME))).status or {}

    async def condition(self) -> tuple[str, str, str]:
        (said,) = [one for one in (await self.status()).get("conditions", ()) if one["type"] == "FenceReady"]
        return said["status"], said["reason"], said["message"]

    async def not_ready(self) -> dict[str, str]:
        return {one["node"]: one["why"] for one in (await self.status()).get("notReady", ())}

    def status_writes(self) -> int:
        path = "/powercycleremediationtemplates/pcr/status"
        return sum(1 for one in self.server.audit if one.client == "operator" and one.path.endswith(path))


class Running(msgspec.Struct):
    operator: Operator

    def values(self, name: str) -> dict[str, float]:
        """By the value of the only label, or by nothing."""
        families = text_string_to_metric_families(scraped(self.operator))
        samples = [sample for family in families for sample in family.samples if sample.name == name]
        return {"".join(sample.labels.values()): sample.value for sample in samples}


def play(scenario: Callable[[Room], Awaitable[None]]) -> None:
    async def main(clock: VirtualClock) -> None:
        server = ApiServer(clock)
        controllers.attach(server)
        for path in CRDS:
            server.put("customresourcedefinitions.apiextensions.k8s.io", yaml.safe_load(path.read_text()))
        for name in (HOME, medik8s.LOCK_NAMESPACE):
            server.put("namespaces", {"metadata": {"name": name}})
        machines = {name: Machine(name, clock) for name in ("n1", "n2", "n3")}
        for machine in machines.values():
            login = {"username": "admin", "password": machine.bmc.password}
            data = {key: base64.b64encode(text.encode()).decode() for key, text in login.items()}
            server.put("secrets", {"metadata": {"name": f"bmc-{machine.name}", "namespace": HOME}, "data": data})
        profile = PROFILES[Timers.DEFAULT]
        blueprints = [Blueprint(name=name, zone="a", address=f"10.0.0.{name[1:]}") for name in machines]
        kubelets, lifecycle = (Client(InProcess(server, client=who), clock) for who in ("kubelet", "lifecycle"))
        async with (
            alongside(NodeLifecycle(lifecycle, clock, profile.nodes).run()),
            hollow_cluster(kubelets, clock, profile, blueprints, machines.values()) as hollow,
        ):
            await asyncio.sleep(3)  # virtual; the nodes have joined by then
            admin = Client(InProcess(server, client="admin"), clock)
            await scenario(Room(server, clock, admin, machines, hollow))

    run(main, limit=timedelta(hours=12))


@asynccontextmanager
async def operating(room: Room, **settings: Any) -> AsyncIterator[Running]:
    drivers = Drivers(room.clock, {"hollow": HollowPower(room.clock, room.machines)})
    operator = Operator(
        InProcess(room.server, client="operator"),
        room.clock,
        Settings(default_check="off", **settings),
        Metrics(),
        drivers,
    )
    async with alongside(operator.run()):
        yield Running(operator)


async def seconds(count: float) -> None:
    """Virtual ones: they pass at once."""
    await asyncio.sleep(count)  # virtual


def test_every_covered_node_is_tried_within_seconds_and_shown_as_ready() -> None:
    async def scenario(room: Room) -> None:
        await room.make_template()
        await room.make_check()
        async with operating(room) as running:
            await seconds(10)
            assert await room.condition() == ("True", "AllReady", "3 of 3 nodes could be fenced")
            status = await room.status()
            assert (status["covered"], status["ready"], "notReady" in status) == (3, 3, False)
            assert status["conditions"][0]["observedGeneration"] == 1
            assert running.values("defib_fence_ready") == {"n1": 1, "n2": 1, "n3": 1}
            assert running.values("defib_fence_checked_seconds")[""] > 0
            assert running.values("defib_power_calls_left_behind") == {"": 0}

    play(scenario)


def test_a_password_that_no_longer_works_is_known_within_the_pause_and_so_is_that_it_works_again() -> None:
    async def scenario(room: Room) -> None:
        await room.make_template()
        await room.make_check()
        async with operating(room, fence_check_seconds=600.0) as running:
            await seconds(10)
            room.machines["n2"].bmc.suffer(WrongPassword())
            await seconds(901)
            status, reason, message = await room.condition()
            assert (status, reason) == ("False", "NotReady")
            assert message.startswith("1 of 3 nodes could not be fenced: n2: ")
            assert await room.not_ready() == {"n2": "it does not accept our credentials"}
            assert running.values("defib_fence_ready") == {"n1": 1, "n2": 0, "n3": 1}
            room.machines["n2"].bmc.suffer()
            await seconds(601)
            assert (await room.condition())[0] == "True"
            assert running.values("defib_fence_ready")["n2"] == 1

    play(scenario)


def test_an_hour_of_good_tries_writes_nothing() -> None:
    async def scenario(room: Room) -> None:
        await room.make_template()
        await room.make_check()
        async with operating(room, fence_check_seconds=60.0) as running:
            await seconds(30)
            writes, checked = room.status_writes(), running.values("defib_fence_checked_seconds")[""]
            await seconds(3600)
            assert room.status_writes() == writes <= 2
            assert running.values("defib_fence_checked_seconds")[""] > checked + 3500

    play(scenario)


def test_a_bmc_that_says_off_of_a_machine_that_is_alive_is_not_ready() -> None:
    async def scenario(room: Room) -> None:
        await room.make_template()
        await room.make_check()
        room.machines["n3"].bmc.suffer(Claims(on=False))
        async with operating(room):
            await seconds(60)
            why = (await room.not_ready())["n3"]
            assert why.startswith("its power is read as off, and its node is ready and reports")

    play(scenario)


def test_a_machine_that_somebody_switched_off_is_ready_all_the_while() -> None:
    async def scenario(room: Room) -> None:
        await room.make_template()
        await room.make_check()
        async with operating(room, fence_check_seconds=10.0) as running:
            await seconds(20)
            writes = room.status_writes()
            room.machines["n3"].set_power(False)
            for _ in range(120):
                await seconds(1)
                assert running.values("defib_fence_ready")["n3"] == 1
            assert room.status_writes() == writes

    play(scenario)


def test_two_nodes_with_one_bmc_are_both_not_ready_until_each_has_its_own() -> None:
    async def scenario(room: Room) -> None:
        await room.make_template(nodes={"n2": {"address": "n1"}})
        await room.make_check()
        async with operating(room) as running:
            await seconds(10)
            whys = await room.not_ready()
            assert set(whys) == {"n1", "n2"}
            assert "(hollow n1) is also that of n2: the wrong machine would be switched off" in whys["n1"]
            assert "is also that of n1" in whys["n2"]
            assert running.values("defib_fence_ready") == {"n1": 0, "n2": 0, "n3": 1}
            mended = {"spec": {"template": {"spec": {"power": {"nodes": None}}}}}
            await room.admin.patch(TEMPLATES.at("pcr", HOME), Merge(mended))
            await seconds(10)
            assert await room.condition() == ("True", "AllReady", "3 of 3 nodes could be fenced")

    play(scenario)


def test_a_path_that_cannot_be_filled_in_is_told_and_mended_by_a_label() -> None:
    async def scenario(room: Room) -> None:
        await room.make_template(address="{label:node-restriction.kubernetes.io/bmc}")
        await room.make_check()
        async with operating(room):
            for name in ("n1", "n2"):
                await room.admin.patch(NODES.at(name), Merge({"metadata": {"labels": {BMC: name}}}))
            await seconds(10)
            assert await room.not_ready() == {"n3": f"node n3 has no label {BMC}, which spec.power names"}
            await room.admin.patch(NODES.at("n3"), Merge({"metadata": {"labels": {BMC: "n3"}}}))
            await seconds(5)
            assert await room.not_ready() == {}

    play(scenario)


def test_a_template_that_nobody_uses_says_so_and_its_series_go_with_the_check() -> None:
    async def scenario(room: Room) -> None:
        await room.make_template()
        await room.make_check()
        async with operating(room) as running:
            await seconds(10)
            assert running.values("defib_fence_ready")
            check = await room.admin.get(NODE_HEALTH_CHECKS.at("all"))
            await room.admin.delete(NODE_HEALTH_CHECKS.at("all"), Deletion(uid=check.uid))
            await seconds(5)
            assert running.values("defib_fence_ready") == {}
            status, reason, message = await room.condition()
            assert (status, reason) == ("Unknown", "NotUsed")
            assert "no NodeHealthCheck uses this template" in message
            assert (await room.status())["covered"] == 0

    play(scenario)


def test_machines_that_a_person_switches_raise_no_alarm() -> None:
    async def scenario(room: Room) -> None:
        await room.make_template(nodes={"n1": {"driver": "manual"}, "n2": {"driver": "manual"}})
        await room.make_check()
        async with operating(room) as running:
            await seconds(10)
            assert await room.condition() == ("True", "AllReady", "3 of 3 nodes could be fenced, 2 of them by hand")
            assert running.values("defib_fence_ready") == {"n1": 1, "n2": 1, "n3": 1}

    play(scenario)


def test_what_was_found_outlives_a_restart_with_its_time() -> None:
    async def scenario(room: Room) -> None:
        await room.make_template()
        await room.make_check()
        room.machines["n1"].bmc.suffer(WrongPassword())
        async with operating(room):
            await seconds(30)
        known, writes = await room.status(), room.status_writes()
        assert known["notReady"]
        await seconds(100)
        for machine in room.machines.values():
            machine.bmc.suffer(Hangs()) if machine.name != "n1" else None
        async with operating(room) as running:
            await seconds(3)
            assert running.values("defib_fence_ready") == {"n1": 0}
            assert (await room.status(), room.status_writes()) == (known, writes)
            await seconds(30)
            after = await room.status()
            assert known["notReady"][0] in after["notReady"]
            assert len(after["notReady"]) == 3

    play(scenario)


def test_a_secret_that_we_may_not_read_is_told() -> None:
    async def scenario(room: Room) -> None:
        await room.make_template()
        await room.make_check()
        room.server.faults.inject(Fault(effect=Refuse(code=403), verbs=("get",), resource="secrets"))
        async with operating(room):
            await seconds(60)
            assert set(await room.not_ready()) == {"n1", "n2", "n3"}

    play(scenario)


def test_a_machine_that_is_being_fenced_is_left_alone_and_its_incident_is_counted() -> None:
    async def scenario(room: Room) -> None:
        await room.make_template()
        await room.make_check()
        async with operating(room, fence_check_seconds=10.0) as running:
            await seconds(20)
            room.hollow.nodes["n1"].hang()
            room.machines["n1"].delays = msgspec.structs.replace(room.machines["n1"].delays, off_seconds=40.0)
            spec = {"power": POWER}
            await room.admin.create(POWER_CYCLES, {"metadata": {"name": "n1"}, "spec": spec}, namespace=HOME)
            await seconds(30)
            phases = running.values("defib_incidents")
            assert sum(phases.values()) == 1
            assert phases["PoweringOff"] == 1
            await seconds(600)
            assert sum(running.values("defib_incidents").values()) == 0
            assert running.values("defib_fence_ready")["n1"] == 1

    play(scenario)


def test_a_machine_that_several_nodes_claim_is_not_switched_off_for_any_of_them() -> None:
    async def scenario(room: Room) -> None:
        await room.make_template(address="n2")  # a slip: every node has the address of one machine
        await room.make_check()
        async with operating(room):
            await seconds(20)
            room.hollow.nodes["n1"].hang()
            await seconds(400)
            (cycle,) = (await room.admin.list_all(POWER_CYCLES)).items
            assert (cycle.status or {})["conditions"][0]["reason"] == "SharedPowerPath"
            assert "is also that of n2, n3" in (cycle.status or {})["reason"]
            assert [machine.is_on for machine in room.machines.values()] == [True, True, True]
            assert all(not machine.history for machine in room.machines.values())

    play(scenario)

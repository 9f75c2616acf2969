"""The fast path, whole, in virtual time with Kubernetes' default times: seconds after the power is lost, safely."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from defib.app import Operator
from defib.config import Settings
from defib.hollow.kubelets import hollow_kubelets
from defib.hollow.machine import Claims, Unreachable
from defib.hollow.power import HollowPower
from defib.model import medik8s
from defib.model.incident import INCIDENTS
from defib.power.registry import Drivers
from defib.simulate.cluster import SimulatedCluster
from defib.simulate.virtual_time import VirtualClock, run
from defib.simulate.workloads import pods
from defib.telemetry.metrics import Metrics
from tests.flows.calm_cluster import calm_cluster, calm_shape
from tests.simulation.shape import DRIVER, SHOP

pytestmark = pytest.mark.timeout(60)

SETTLED_SECONDS = 60.0
TEMPLATES = "powercycleremediationtemplates.defib.dev"
Object = dict[str, Any]


class Stage:
    def __init__(self, clock: VirtualClock, cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        self.clock = clock
        self.cluster = cluster
        self._group = group
        self._task: asyncio.Task[None] | None = None
        self.start()

    def start(self) -> None:
        """An operator that knows nothing yet, in place of the one that may be there."""
        self.end()
        machines = {name: node.machine for name, node in self.cluster.nodes.items()}
        hands = {DRIVER: HollowPower(self.clock, machines)}
        drivers = Drivers(self.clock, hands, asking=hollow_kubelets(self.cluster.nodes))
        line = self.cluster.transport("operator")
        self.operator = Operator(line, self.clock, Settings(default_check="off"), Metrics(), drivers)
        self._task = self._group.create_task(self.operator.run())

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def victim(self) -> str:
        """The node on which the database runs."""
        return next(str(pod["spec"]["nodeName"]) for pod in self.all("pods") if pod["metadata"]["name"] == "db-0")

    def all(self, resource: str) -> list[Object]:
        return [version.object for version in self.cluster.server.store.collection(resource).objects.values()]

    def serves(self) -> str:
        """Where the database serves; nowhere, where it does not."""
        found = [pod for pod in self.all("pods") if pod["metadata"]["name"] == "db-0" and pods.active(pod)]
        return next((str(pod["spec"]["nodeName"]) for pod in found if pods.ready(pod)), "")

    async def until_elsewhere(self, node: str, within: float) -> float:
        """Seconds until the database serves on another node."""
        began = self.clock.monotonic()
        async with asyncio.timeout(within):
            while self.serves() in ("", node) or not self._left(node):  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0.25)  # virtual
        return self.clock.monotonic() - began

    def _left(self, node: str) -> bool:
        return not any(
            pod["metadata"]["name"] == "db-0" and pod["spec"].get("nodeName") == node for pod in self.all("pods")
        )

    @property
    def remediated(self) -> set[str]:
        return {item["metadata"]["name"] for item in self.all("powercycleremediations.defib.dev")}

    @property
    def incidents(self) -> list[Object]:
        return self.all(INCIDENTS)

    def is_whole(self) -> bool:
        return not list(self.cluster.disks.corrupted())


def play(scenario: Callable[[Stage], Awaitable[None]], *, fast_path: Object | None) -> None:
    async def main(clock: VirtualClock) -> None:
        cluster = calm_cluster(clock, calm_shape(fast_path))
        async with asyncio.TaskGroup() as group:
            living = group.create_task(cluster.run())
            stage = Stage(clock, cluster, group)
            await asyncio.sleep(SETTLED_SECONDS)  # virtual
            assert stage.serves(), f"{SHOP} is open before anything happens"
            await scenario(stage)
            stage.end()
            living.cancel()

    run(main, limit=timedelta(hours=3))


def test_a_database_on_a_machine_that_lost_its_power_serves_elsewhere_within_45_seconds_and_usually_much_sooner() -> (
    None
):
    async def scenario(stage: Stage) -> None:
        victim = stage.victim()
        stage.cluster.nodes[victim].machine.set_power(False)
        assert await stage.until_elsewhere(victim, 120) < 45
        assert stage.is_whole()

    play(scenario, fast_path={})


def accept(stage: Stage, *proofs: str) -> None:
    """Somebody edits the only template."""
    (template,) = stage.all(TEMPLATES)
    spec = {"template": {"spec": template["spec"]["template"]["spec"] | {"acceptedProofs": [*proofs]}}}
    meta = {**template["metadata"], "generation": template["metadata"]["generation"] + 1}
    stage.cluster.server.store.put(TEMPLATES, {**template, "metadata": meta, "spec": spec})


def test_a_template_that_is_content_with_less_than_the_fast_path_asks_for_goes_the_usual_way() -> None:
    async def scenario(stage: Stage) -> None:
        accept(stage, "A", "C", "D")
        await asyncio.sleep(5)  # virtual
        (check,) = stage.all(medik8s.CHECKS)
        (said,) = [one for one in check["status"]["conditions"] if one["type"] == "FastPath"]
        assert (said["status"], said["reason"]) == ("False", "ProofNotEnough")
        victim = stage.victim()
        stage.cluster.nodes[victim].machine.set_power(False)
        await asyncio.sleep(300)  # virtual
        assert stage.remediated == set()
        assert stage.operator.picture.plan.asked_after == {}
        await stage.until_elsewhere(victim, 300)
        assert stage.is_whole()

    play(scenario, fast_path={})


def test_a_fast_path_that_names_the_lesser_proof_is_taken() -> None:
    async def scenario(stage: Stage) -> None:
        accept(stage, "A", "C", "D")
        await asyncio.sleep(5)  # virtual
        victim = stage.victim()
        stage.cluster.nodes[victim].machine.set_power(False)
        assert await stage.until_elsewhere(victim, 120) < 45
        assert stage.is_whole()

    play(scenario, fast_path={"proof": ["A", "C", "D"]})


@pytest.mark.parametrize("what", ["hangs", "is cut off"])
def test_one_that_hangs_or_is_cut_off_is_switched_off_first_and_nothing_is_written_twice(what: str) -> None:
    async def scenario(stage: Stage) -> None:
        victim = stage.victim()
        node = stage.cluster.nodes[victim]
        node.hang() if what == "hangs" else node.partition()
        assert await stage.until_elsewhere(victim, 120) < 45
        assert stage.is_whole()

    play(scenario, fast_path={})


def test_without_a_fast_path_the_same_failure_waits_for_kubernetes_and_for_the_duration() -> None:
    async def scenario(stage: Stage) -> None:
        victim = stage.victim()
        stage.cluster.nodes[victim].machine.set_power(False)
        await asyncio.sleep(300)  # virtual
        assert stage.remediated == set()

    play(scenario, fast_path=None)


def test_a_node_that_only_the_api_server_cannot_hear_is_left_alone() -> None:
    async def scenario(stage: Stage) -> None:
        victim = stage.victim()
        stage.cluster.nodes[victim].partition(from_api_only=True)
        await asyncio.sleep(45)  # virtual; Kubernetes has not given it up yet
        assert stage.remediated == set()
        (verdict,) = [plan.verdicts[victim] for plan in stage.operator.picture.plan.checks.values()]
        assert verdict.reason == "ControlPlaneTrouble"
        assert "its kubelet answers us" in verdict.message

    play(scenario, fast_path={})


def test_a_machine_whose_power_cannot_be_told_waits_for_kubernetes() -> None:
    async def scenario(stage: Stage) -> None:
        victim = stage.victim()
        node = stage.cluster.nodes[victim]
        node.machine.bmc.suffer(Unreachable())
        node.machine.set_power(False)
        await asyncio.sleep(45)  # virtual
        assert stage.remediated == set()
        assert stage.operator.picture.plan.asked_after.keys() == {victim}

    play(scenario, fast_path={})


def test_a_bmc_that_says_off_of_a_node_whose_kubelet_answers_is_not_believed() -> None:
    async def scenario(stage: Stage) -> None:
        node = stage.cluster.nodes[stage.victim()]
        node.machine.bmc.suffer(Claims(on=False))
        node.partition(from_api_only=True)
        await asyncio.sleep(45)  # virtual
        assert stage.remediated == set()

    play(scenario, fast_path={})


def test_when_most_nodes_fall_silent_at_once_nobody_is_asked_after_and_nothing_is_done() -> None:
    async def scenario(stage: Stage) -> None:
        for node in stage.cluster.nodes.values():
            node.partition()
        await asyncio.sleep(45)  # virtual
        assert stage.remediated == set()
        assert not any(action.key.startswith("ask after") for action in stage.operator.picture.plan.actions)

    play(scenario, fast_path={})


def test_one_that_is_heard_again_before_anything_is_known_is_never_touched() -> None:
    async def scenario(stage: Stage) -> None:
        node = stage.cluster.nodes[stage.victim()]
        node.hang()
        await asyncio.sleep(18)  # virtual
        node.resume()
        await asyncio.sleep(120)  # virtual
        assert (stage.remediated, stage.incidents) == (set(), [])

    play(scenario, fast_path={})


def test_the_machine_comes_back_and_everything_is_as_it_was() -> None:
    async def scenario(stage: Stage) -> None:
        victim = stage.victim()
        stage.cluster.nodes[victim].machine.set_power(False)
        await stage.until_elsewhere(victim, 120)
        await asyncio.sleep(300)  # virtual
        assert stage.remediated == set()
        assert [(one["status"]["phase"], one["status"]["outcome"]) for one in stage.incidents] == [
            ("Closed", "Recovered")
        ]
        assert stage.is_whole()

    play(scenario, fast_path={})


@pytest.mark.parametrize("seconds", [0.0, 0.5, 2.0, 4.0, 8.0, 15.0])
def test_an_operator_that_comes_after_believes_no_condition_that_is_older_than_the_silence(seconds: float) -> None:
    async def scenario(stage: Stage) -> None:
        victim = stage.victim()
        stage.cluster.nodes[victim].hang()
        async with asyncio.timeout(60):
            while not stage.remediated:  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0.25)  # virtual
        await asyncio.sleep(seconds)  # virtual
        stage.start()
        await stage.until_elsewhere(victim, 120)
        assert stage.is_whole()
        (incident,) = stage.incidents
        assert incident["status"]["proof"]["grade"] == "A"
        assert [
            one["reason"] for one in incident["status"].get("timeline", ()) if one.get("reason") == "Cancelled"
        ] == []

    play(scenario, fast_path={})


def test_a_fast_path_that_is_taken_away_meanwhile_leaves_what_was_begun_to_its_end() -> None:
    async def scenario(stage: Stage) -> None:
        victim = stage.victim()
        stage.cluster.nodes[victim].hang()
        async with asyncio.timeout(60):
            while not stage.remediated:  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0.25)  # virtual
        (check,) = stage.all(medik8s.CHECKS)
        spec = {name: value for name, value in check["spec"].items() if name != "fastPath"}
        generation = check["metadata"]["generation"] + 1
        meta = {**check["metadata"], "generation": generation}
        stage.cluster.server.store.put(medik8s.CHECKS, {**check, "metadata": meta, "spec": spec})
        await stage.until_elsewhere(victim, 120)
        assert stage.is_whole()

    play(scenario, fast_path={})


@pytest.mark.parametrize("minutes", [1, 3])
def test_an_api_server_that_is_away_for_minutes_and_comes_back_costs_no_node_its_power(minutes: int) -> None:
    async def scenario(stage: Stage) -> None:
        stage.cluster.server.stop()
        await asyncio.sleep(60 * minutes)  # virtual
        stage.cluster.server.start()
        for _ in range(120):
            await asyncio.sleep(1)  # virtual
            assert stage.remediated == set()
        assert stage.incidents == []

    play(scenario, fast_path={})


def test_kubelets_that_are_slow_by_seconds_are_not_suspected() -> None:
    async def scenario(stage: Stage) -> None:
        for number, node in enumerate(stage.cluster.nodes.values()):
            node.slow(number * 1.5)
        for _ in range(300):
            await asyncio.sleep(1)  # virtual
            assert stage.operator.picture.plan.asked_after == {}

    play(scenario, fast_path={})


@pytest.mark.parametrize("what", ["is deleted", "is no longer selected"])
def test_a_node_that_goes_while_it_is_remediated_for_its_silence_disturbs_nobody(what: str) -> None:
    async def scenario(stage: Stage) -> None:
        victim = stage.victim()
        stage.cluster.nodes[victim].machine.set_power(False)  # else Kubernetes would start its pods twice
        async with asyncio.timeout(60):
            while not stage.remediated:  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0.25)  # virtual
        if what == "is deleted":
            (gone,) = [node for node in stage.all("nodes") if node["metadata"]["name"] == victim]
            stage.cluster.server.store.remove("nodes", gone)
        else:
            (check,) = stage.all(medik8s.CHECKS)
            selector = {
                "matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [victim]}]
            }
            meta = {**check["metadata"], "generation": check["metadata"]["generation"] + 1}
            changed = {**check, "metadata": meta, "spec": {**check["spec"], "selector": selector}}
            stage.cluster.server.store.put(medik8s.CHECKS, changed)
        await stage.until_elsewhere(victim, 600)
        await asyncio.sleep(300)  # virtual
        assert stage.is_whole()
        assert stage.remediated == set()

    play(scenario, fast_path={})

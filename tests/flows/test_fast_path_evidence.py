"""What the fast path hears from further sides, whole, in virtual time: the log of a BMC, and whoever else knows nodes.

The neighbours cannot be asked in these stories, as where each node stands behind a firewall of its own. So whether a node's
silence is its own fault, nobody near it can tell.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

import pytest

from defib.app import Operator
from defib.config import Settings
from defib.decide.answers.node import answer_about
from defib.hollow.kubelets import hollow_kubelets
from defib.hollow.machine import Bmc, Happened
from defib.hollow.power import HollowPower
from defib.model.evidence import Says
from defib.model.verdict import Verdict
from defib.power.registry import Drivers
from defib.power.witnesses import Witness, Witnesses
from defib.simulate.cluster import SimulatedCluster
from defib.simulate.virtual_time import VirtualClock, run
from defib.telemetry.metrics import Metrics
from tests.flows.calm_cluster import calm_cluster, calm_shape
from tests.flows.test_fast_path import SETTLED_SECONDS, Stage
from tests.simulation.shape import DRIVER

pytestmark = pytest.mark.timeout(60)

UNTIL_KUBERNETES_SAYS_SO = 45  # seconds, from the last heartbeat; and then the check waits for its duration


class Storage:
    """Says of every node what it is told to."""

    def __init__(self, says: Says) -> None:
        self._says = says

    async def ask(self, node: str, within_seconds: float) -> tuple[Says, str]:
        assert within_seconds > 0
        return self._says, f"the client on {node}"


class Behind(Stage):
    """An operator that can try the kubelet of the node that is in question, and no other."""

    def __init__(
        self, clock: VirtualClock, cluster: SimulatedCluster, group: asyncio.TaskGroup, witnesses: Mapping[str, Witness]
    ) -> None:
        self._victims: frozenset[str] = frozenset()
        self._witnesses = witnesses
        super().__init__(clock, cluster, group)

    def start(self) -> None:
        self.end()
        machines = {name: node.machine for name, node in self.cluster.nodes.items()}
        kubelets = hollow_kubelets(self.cluster.nodes)

        async def asking(address: str, port: int, within_seconds: float) -> tuple[Says, str]:
            if any(self.cluster.nodes[name].address == address for name in self._victims):
                return await kubelets(address, port, within_seconds)
            return Says.UNKNOWN, "no route to it"

        drivers = Drivers(
            self.clock,
            {DRIVER: HollowPower(self.clock, machines)},
            asking=asking,
            witnesses=Witnesses(self.clock, self._witnesses),
        )
        line = self.cluster.transport("operator")
        self.operator = Operator(line, self.clock, Settings(default_check="off"), Metrics(), drivers)
        self._task = self._group.create_task(self.operator.run())

    def verdict_on(self, node: str) -> Verdict:
        (verdict,) = [plan.verdicts[node] for plan in self.operator.picture.plan.checks.values()]
        return verdict

    def in_question(self) -> tuple[str, Bmc]:
        name = self.victim()
        self._victims = frozenset({name})
        return name, self.cluster.nodes[name].machine.bmc


def play(scenario: Callable[[Behind], Awaitable[None]], **others: Says) -> None:
    async def main(clock: VirtualClock) -> None:
        cluster = calm_cluster(clock, calm_shape({}))
        async with asyncio.TaskGroup() as group:
            living = group.create_task(cluster.run())
            witnesses = {name: Storage(says) for name, says in others.items()}
            stage = Behind(clock, cluster, group, witnesses)
            await asyncio.sleep(SETTLED_SECONDS)  # virtual
            await scenario(stage)
            stage.end()
            living.cancel()

    run(main, limit=timedelta(hours=3))


@pytest.mark.parametrize("hours", [0, -9, 5000])
def test_a_node_whose_os_stopped_by_the_log_of_its_bmc_is_not_waited_for_whatever_that_clock_shows(hours: int) -> None:
    async def scenario(stage: Behind) -> None:
        victim, bmc = stage.in_question()
        bmc.clock_ahead = timedelta(hours=hours)
        stage.cluster.nodes[victim].hang()
        await asyncio.sleep(8)  # virtual: its kernel still tells its BMC
        bmc.write_down(Happened.OS_STOPPED)
        assert await stage.until_elsewhere(victim, 120) < 60
        assert stage.is_whole()
        answer = answer_about(victim, stage.operator.picture.cluster, stage.operator.picture.plan, "defib-system")
        assert answer is not None
        (began,) = answer.checks[0].remediations
        assert "by the log of its BMC it stopped after its last heartbeat" in began.because
        for words in ("Heartbeat Same at ", "Kubelet Silent at ", "Power On at ", "(critical stop)"):
            assert words in began.because

    play(scenario)


def test_without_such_an_entry_the_same_node_waits_for_kubernetes_and_it_is_told_who_said_what_and_when() -> None:
    async def scenario(stage: Behind) -> None:
        victim, bmc = stage.in_question()
        bmc.write_down(Happened.OS_STOPPED)  # an old one: it was heard since
        bmc.write_down(Happened.POWER_ON)
        await asyncio.sleep(30)  # virtual
        stage.cluster.nodes[victim].hang()
        await asyncio.sleep(UNTIL_KUBERNETES_SAYS_SO)  # virtual
        assert stage.remediated == set()
        verdict = stage.verdict_on(victim)
        assert verdict.reason == "DontKnow"
        for words in ("Heartbeat Same at ", "Kubelet Silent at ", "Power On at ", "Log Quiet at "):
            assert words in verdict.message
        assert "(nothing since the last heartbeat)" in verdict.message

    play(scenario)


def test_a_log_whose_clock_is_not_told_moves_nobody() -> None:
    async def scenario(stage: Behind) -> None:
        victim, bmc = stage.in_question()
        bmc.tells_clock = False
        stage.cluster.nodes[victim].hang()
        await asyncio.sleep(8)  # virtual
        bmc.write_down(Happened.OS_STOPPED)
        await asyncio.sleep(UNTIL_KUBERNETES_SAYS_SO - 8)  # virtual
        assert stage.remediated == set()
        assert "does not tell its clock" in stage.verdict_on(victim).message

    play(scenario)


def test_a_machine_that_is_starting_again_by_its_log_is_waited_for() -> None:
    async def scenario(stage: Behind) -> None:
        victim, bmc = stage.in_question()
        stage.cluster.nodes[victim].hang()
        await asyncio.sleep(8)  # virtual
        bmc.write_down(Happened.WATCHDOG_RESET)
        bmc.write_down(Happened.POWER_ON)
        await asyncio.sleep(UNTIL_KUBERNETES_SAYS_SO - 8)  # virtual
        assert stage.remediated == set()

    play(scenario)


def test_a_log_says_nothing_against_a_kubelet_that_answers() -> None:
    async def scenario(stage: Behind) -> None:
        victim, bmc = stage.in_question()
        stage.cluster.nodes[victim].partition(from_api_only=True)
        await asyncio.sleep(8)  # virtual
        bmc.write_down(Happened.OS_STOPPED)
        await asyncio.sleep(UNTIL_KUBERNETES_SAYS_SO - 8)  # virtual
        assert stage.remediated == set()
        assert "Log" not in stage.verdict_on(victim).message, "it was not even read"

    play(scenario)


def test_a_node_that_the_storage_has_lost_too_is_not_waited_for() -> None:
    async def scenario(stage: Behind) -> None:
        victim, _ = stage.in_question()
        stage.cluster.nodes[victim].partition()
        assert await stage.until_elsewhere(victim, 120) < 60
        assert stage.is_whole()

    play(scenario, ceph=Says.GONE)


@pytest.mark.parametrize("is_off", [False, True])
def test_a_node_that_the_storage_still_hears_is_waited_for_even_if_its_power_is_said_to_be_off(is_off: bool) -> None:
    async def scenario(stage: Behind) -> None:
        victim, _ = stage.in_question()
        node = stage.cluster.nodes[victim]
        node.machine.set_power(False) if is_off else node.hang()
        await asyncio.sleep(UNTIL_KUBERNETES_SAYS_SO)  # virtual
        assert stage.remediated == set()
        verdict = stage.verdict_on(victim)
        assert verdict.reason == "DontKnow"
        assert "Others Alive at " in verdict.message

    play(scenario, ceph=Says.ALIVE, nfs=Says.GONE)

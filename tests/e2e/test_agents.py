"""`defib agent` on a real API server: five nodes in two zones, each in a network of its own, that can be cut anywhere.

The watchdog is a process that kills the node's process group. Times are real: what is tested is which processes die, and
that none outlives the time that the operator would wait for it.
"""

import asyncio
import resource
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from defib.agent.lease import Leases
from defib.clock import SystemClock
from defib.decide.self_fence.safe_time import safe_time
from defib.kube.client import Client, Merge
from defib.kube.kinds import LEASES
from defib.kube.transport import Request
from defib.model.self_fence import ORDER, Order, lease_name, read_order, text_of
from testbed.cluster import ControlPlane
from testbed.network import OUTSIDE, Network
from testbed.programs import Program, Programs
from tests.contract.api_server.steps import eventually
from tests.e2e.agent_fleet import WATCHDOG_SECONDS, ZONES, Fleet, fleet_of, prepare, way_in
from tests.e2e.bare_cluster import administrator, bare_cluster
from tests.unit.decide.self_fence.test_safe_time import REPORTED

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(240, func_only=True),
    pytest.mark.asyncio(loop_scope="module"),
]

CLOCK = SystemClock()
PATIENCE_SECONDS = 3 * 2 + 2 + 8.0
DIES_WITHIN = PATIENCE_SECONDS + WATCHDOG_SECONDS + 5.0  # and some, on a busy machine
SLOW_DIES_WITHIN = 15 + 2 * 6 + 3 + 8 + WATCHDOG_SECONDS + 5.0
MEMORY_MIB_MAX = 40


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(programs: Programs) -> AsyncIterator[ControlPlane]:
    async with bare_cluster(programs) as plane:
        yield plane


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(plane: ControlPlane) -> AsyncIterator[Client]:
    async with administrator(plane) as client:
        await prepare(client)
        yield client


@pytest.fixture(scope="module")
def network(tunnels: None) -> Iterator[Network]:  # noqa: ARG001  without them, there is none
    with Network(ZONES) as network:
        yield network


@pytest_asyncio.fixture(loop_scope="module")
async def fleet(plane: ControlPlane, client: Client, network: Network, tmp_path: Path) -> AsyncIterator[Fleet]:
    async with (
        way_in(plane, network, tmp_path) as kubeconfig,
        fleet_of(network, kubeconfig, client, tmp_path) as fleet,
    ):
        yield fleet


async def live_for(fleet: Fleet, seconds: float) -> None:
    """Longer than any of them could live by what it last heard."""
    ends = CLOCK.monotonic() + seconds
    while CLOCK.monotonic() < ends:
        assert fleet.dead() == set()
        await asyncio.sleep(1)


async def test_an_isolated_node_dies_within_the_computed_time_and_nobody_else_does(fleet: Fleet) -> None:
    report = await fleet.report("n2")
    assert report is not None
    began = CLOCK.monotonic()
    fleet.network.isolate("n2")
    await fleet.order("n2")
    await fleet.expect_dead({"n2"}, DIES_WITHIN)
    assert fleet["n2"].died_at() - began <= safe_time(report).seconds
    await asyncio.sleep(DIES_WITHIN - (CLOCK.monotonic() - began))  # for as long, another one could still die
    assert fleet.dead() == {"n2"}


async def test_when_the_api_server_is_down_for_all_nobody_dies(fleet: Fleet, plane: ControlPlane) -> None:
    plane.pause(Program.ETCD)  # so that connections stay, and nothing is answered
    try:
        await live_for(fleet, DIES_WITHIN)
    finally:
        plane.resume(Program.ETCD)
    await plane.kill_apiserver()
    try:
        await live_for(fleet, DIES_WITHIN)
    finally:
        await plane.start_apiserver()
    await live_for(fleet, DIES_WITHIN)
    reports = [await fleet.report(name) for name in ZONES]
    assert all(report is not None and report.answered_seconds < PATIENCE_SECONDS for report in reports)


async def test_nor_does_anybody_who_notices_it_before_another_one_does(
    plane: ControlPlane, client: Client, network: Network, tmp_path: Path
) -> None:
    """As while agents get another interval one by one. Of the two in the west one is slow, and only both are most of it."""
    async with (
        way_in(plane, network, tmp_path) as kubeconfig,
        fleet_of(network, kubeconfig, client, tmp_path, slow="n4") as fleet,
    ):
        await plane.kill_apiserver()
        try:
            await live_for(fleet, SLOW_DIES_WITHIN)
        finally:
            await plane.start_apiserver()
        assert "most domains cannot reach the API server either" in await asyncio.to_thread(fleet["n1"].said)


async def test_of_two_halves_exactly_the_one_without_the_api_server_dies(fleet: Fleet) -> None:
    fleet.network.part(["n4", "n5"])
    await fleet.expect_dead({"n4", "n5"}, DIES_WITHIN)
    await asyncio.sleep(WATCHDOG_SECONDS)  # real processes: whoever had stopped being fed would be dead by then
    assert fleet.dead() == {"n4", "n5"}


async def test_a_node_that_does_not_hear_the_api_server_lives_by_its_peers_and_dies_by_an_order(fleet: Fleet) -> None:
    fleet.network.cut((OUTSIDE, "n3"))  # its packets arrive, the answers do not
    await live_for(fleet, DIES_WITHIN)
    assert "most domains say that it has no order" in await asyncio.to_thread(fleet["n3"].said)
    await fleet.order("n3")
    await fleet.expect_dead({"n3"}, DIES_WITHIN)
    assert "has an order for this boot" in await asyncio.to_thread(fleet["n3"].said)


async def test_nobody_dies_of_links_that_lose_packets(fleet: Fleet) -> None:
    fleet.network.lose(0.2)
    await live_for(fleet, 2 * DIES_WITHIN)
    fleet.network.heal()


async def test_a_node_dies_with_its_agent_killed_or_frozen_and_not_when_it_was_stopped_in_order(fleet: Fleet) -> None:
    fleet["n1"].signal(signal.SIGKILL)
    fleet["n2"].signal(signal.SIGSTOP)
    fleet["n3"].signal(signal.SIGTERM)
    agent = fleet["n3"].agent
    assert agent is not None
    assert await asyncio.to_thread(agent.wait, 10) == 0
    report = await fleet.report("n3")
    assert report is not None
    assert not report.armed
    await fleet.expect_dead({"n1", "n2"}, WATCHDOG_SECONDS + 5)
    await asyncio.sleep(WATCHDOG_SECONDS)  # the watchdog of the third is a process too, and would have fired by now
    assert fleet.dead() == {"n1", "n2"}


async def test_on_a_full_disk_nodes_live_and_die_as_on_any_other(fleet: Fleet) -> None:
    """Not one more byte goes into any file, also not into the log, as on a disk without room."""
    for node in fleet.nodes.values():
        assert node.agent is not None
        resource.prlimit(node.agent.pid, resource.RLIMIT_FSIZE, (0, 0))
    fleet.network.isolate("n2")
    await fleet.expect_dead({"n2"}, DIES_WITHIN)
    await asyncio.sleep(WATCHDOG_SECONDS)  # real processes: whoever had stopped being fed would be dead by then
    assert fleet.dead() == {"n2"}
    living = [name for name in ZONES if name != "n2"]
    before = [await fleet.report(name) for name in living]

    async def go_on() -> bool:
        """A report that is written anew says how long it has been steady."""
        now = [await fleet.report(name) for name in living]
        return all(one is not None and one != other for one, other in zip(now, before, strict=True))

    await eventually(go_on, within=10)


async def test_an_agent_that_is_stopped_while_it_is_cut_off_leaves_the_watchdog_counting(fleet: Fleet) -> None:
    fleet.network.isolate("n5")
    await asyncio.sleep(1)  # so that no request is under way that would still be answered
    fleet["n5"].signal(signal.SIGTERM)
    await fleet.expect_dead({"n5"}, DIES_WITHIN + 25)


async def test_nobody_keeps_book_of_who_wrote_which_field_of_an_agents_lease(client: Client) -> None:
    """Not after its order was written either, which stays whatever the agent writes."""
    leases, ref = Leases(client, "default", "n1", 5.0, CLOCK), LEASES.at(lease_name("n1"), "default")
    made = await leases.renew(REPORTED)
    order = Order(remediation="a-uid", boot_id=REPORTED.boot_id)
    await leases.renew(msgspec.structs.replace(REPORTED, steady_seconds=510))
    await client.patch(ref, Merge({"metadata": {"annotations": {ORDER: text_of(order)}}}))
    lease = await leases.renew(msgspec.structs.replace(REPORTED, steady_seconds=520))
    assert (lease.uid, read_order(lease)) == (made.uid, order)
    assert b"managedFields" not in await client.ask(Request(method="GET", path=ref.path()))


async def test_an_agent_is_small(fleet: Fleet) -> None:
    agent = fleet["n1"].agent
    assert agent is not None

    async def is_small() -> bool:
        status = await asyncio.to_thread(Path(f"/proc/{agent.pid}/status").read_text)
        return int(status.partition("VmRSS:")[2].split()[0]) < 1024 * MEMORY_MIB_MAX

    await eventually(is_small, within=5)

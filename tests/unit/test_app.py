"""The operator as a whole, on the embedded server in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from defib.app import Operator, StartFailed
from defib.config import Settings
from defib.kube.kinds import LEASES
from defib.manifests import definitions
from defib.model import medik8s
from defib.model.cluster import HEARTBEAT_NAMESPACE
from defib.model.incident import INCIDENTS, account_name
from defib.simulate.faults import Fault, Refuse
from defib.simulate.in_process import InProcess
from defib.simulate.kinds.crds import DEFINITIONS
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run
from defib.telemetry.metrics import Metrics
from tests.scraping import scraped

Scenario = Callable[[ApiServer, Operator], Awaitable[None]]


def operate(scenario: Scenario, *, watches_only: bool = True) -> Operator:
    async def main(clock: VirtualClock) -> Operator:
        server = ApiServer(clock)
        server.put("nodes", {"metadata": {"name": "n1"}})
        operator = Operator(InProcess(server, client="operator"), clock, Settings(), Metrics())
        async with asyncio.TaskGroup() as group:
            running = group.create_task(operator.run())
            await scenario(server, operator)
            running.cancel()
        assert not watches_only or server.audit.writes("operator") == [], "it only watches, so it must not write"
        return operator

    return run(main, limit=timedelta(hours=1))


def test_it_is_ready_when_it_sees_everything_and_says_why_when_it_does_not() -> None:
    async def scenario(server: ApiServer, operator: Operator) -> None:
        probes = operator.probes()
        core = ["nodes", "heartbeats", medik8s.CHECKS, INCIDENTS, "locks", "configmaps"]
        assert [line.split(":")[0] for line in probes.not_ready()] == core
        await asyncio.sleep(1)  # virtual
        assert probes.not_ready() == ()
        server.stop()
        await asyncio.sleep(1)  # virtual
        # Without their CRDs there are no checks and incidents: that is no blindness.
        blind = [f"{kind}: blind" for kind in core if kind not in (medik8s.CHECKS, INCIDENTS)]
        assert [line.split(" since")[0] for line in probes.not_ready()] == blind
        server.start()
        await asyncio.sleep(60)  # virtual
        assert probes.not_ready() == ()

    operate(scenario)


def test_it_tells_what_happens_to_a_node_in_order() -> None:
    async def scenario(server: ApiServer, _: Operator) -> None:
        await asyncio.sleep(1)  # virtual
        stored = server.store.get("nodes", "n1")
        assert stored is not None
        ready = {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"bootID": "one"}}
        server.store.put("nodes", {**stored.object, "status": ready})
        await asyncio.sleep(1)  # virtual
        unknown = {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}
        server.store.put("nodes", {**stored.object, "status": ready | unknown})
        await asyncio.sleep(1)  # virtual

    operator = operate(scenario)
    told = [str(told.change) for told in operator.picture.story]
    assert told[-2:] == ["n1 ready", "n1 not ready: Ready is Unknown (NodeStatusUnknown)"]


def passes(operator: Operator) -> float:
    numbers = scraped(operator)
    return next(float(line.split()[1]) for line in numbers.splitlines() if line.startswith("defib_passes_total"))


def test_heartbeats_make_no_passes() -> None:
    leases = str(LEASES)

    async def scenario(server: ApiServer, operator: Operator) -> None:
        made = [
            server.put(leases, {"metadata": {"name": f"n{n}", "namespace": HEARTBEAT_NAMESPACE}, "spec": {}}).object
            for n in range(10)
        ]
        await asyncio.sleep(1)  # virtual
        before = passes(operator)
        for second in range(600):
            renewed = {"renewTime": f"2030-01-01T00:{second // 60:02}:{second % 60:02}.000000Z"}
            for lease in made:
                server.store.put(leases, {**lease, "spec": renewed})
            await asyncio.sleep(1)  # virtual
        assert passes(operator) - before == 600 // Settings().resync_seconds
        assert sum(lease.spec.renew_time is not None for lease in operator.picture.cluster.heartbeats.values()) == 10

    operate(scenario)


def test_accounts_of_remediations_make_one_pass_a_second_and_an_incident_makes_one_at_once() -> None:
    """Where hundreds of nodes fail, hundreds are written by all replicas, and nothing is decided by them."""

    async def scenario(server: ApiServer, operator: Operator) -> None:
        for definition in definitions():
            server.put(DEFINITIONS, definition)
        cause = {"apiVersion": "x.example.com/v1", "kind": "X", "name": "n1"}
        await asyncio.sleep(1200)  # virtual; the kind is found
        before = passes(operator)
        for number in range(100):
            uid = f"{number:08}-uid"
            spec = {"node": "n1", "cause": {**cause, "uid": uid}}
            server.put(INCIDENTS, {"metadata": {"name": account_name("n1", uid)}, "spec": spec})
            await asyncio.sleep(0.01)  # virtual
        await asyncio.sleep(2)  # virtual
        assert len(operator.picture.cluster.accounts()) == 100
        assert 1 <= passes(operator) - before <= 3
        before = passes(operator)
        server.put(INCIDENTS, {"metadata": {"name": "n1"}, "spec": {"node": "n1", "cause": {**cause, "uid": "u"}}})
        await asyncio.sleep(0.2)  # virtual
        assert "n1" in operator.picture.cluster.incidents()
        assert passes(operator) > before

    operate(scenario, watches_only=False)


def test_a_kubelet_that_reports_the_same_again_makes_no_pass() -> None:
    async def scenario(server: ApiServer, operator: Operator) -> None:
        status = {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2030-01-01T00:00:00Z"}]}
        stored = server.store.get("nodes", "n1")
        assert stored is not None
        server.store.put("nodes", {**stored.object, "status": status})
        await asyncio.sleep(1)  # virtual
        before = passes(operator)
        for minute in range(5):
            status["conditions"][0]["lastHeartbeatTime"] = f"2030-01-01T00:{minute:02}:30Z"
            server.store.put("nodes", {**stored.object, "status": status})
            await asyncio.sleep(1)  # virtual
        assert passes(operator) == before
        server.store.put("nodes", {**stored.object, "status": status, "spec": {"unschedulable": True}})
        await asyncio.sleep(1)  # virtual
        assert passes(operator) == before + 1

    operate(scenario)


def test_it_makes_a_pass_at_least_every_resync_and_counts_it() -> None:
    async def scenario(_server: ApiServer, operator: Operator) -> None:
        await asyncio.sleep(3 * Settings().resync_seconds + 10)  # virtual
        assert operator.probes().not_alive() == ()

    operator = operate(scenario)
    numbers = scraped(operator)
    assert passes(operator) >= 4
    assert 'defib_cached_objects{kind="nodes"} 1.0' in numbers
    assert 'defib_watch_blind_since_seconds{kind="nodes"} 0.0' in numbers


def test_it_says_that_it_is_not_alive_when_passes_stop() -> None:
    async def main(clock: VirtualClock) -> None:
        settings = Settings(resync_seconds=100.0)
        operator = Operator(InProcess(ApiServer(clock), client="operator"), clock, settings, Metrics())
        not_alive = operator.probes().not_alive
        async with asyncio.TaskGroup() as group:
            running = group.create_task(operator.run())
            for _ in range(95):
                await asyncio.sleep(10)  # virtual
                assert not_alive() == ()
            running.cancel()
        await asyncio.sleep(159)  # virtual; the last pass was the ninth resync, 50 s before it was stopped
        assert not_alive() == ()
        await asyncio.sleep(2)  # virtual
        assert not_alive() == ("the last pass was 211 s ago, allowed are 210 s",)

    run(main)


@pytest.mark.parametrize(
    ("refusal", "advice"),
    [
        (Refuse(code=403, reason="Forbidden", message="nodes is forbidden"), "kubectl auth can-i list nodes"),
        (Refuse(code=500, reason="InternalError", message="etcd is on fire"), "etcd is on fire"),
    ],
)
def test_what_stops_it_from_starting_is_told_in_one_line(refusal: Refuse, advice: str) -> None:
    async def main(clock: VirtualClock) -> str:
        server = ApiServer(clock)
        server.faults.inject(Fault(effect=refusal))
        operator = Operator(InProcess(server, client="operator"), clock, Settings(), Metrics())
        with pytest.raises(StartFailed) as caught:
            await operator.first_contact()
        return str(caught.value)

    told = run(main)
    assert advice in told
    assert "\n" not in told

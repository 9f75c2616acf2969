"""What the operator makes of its sight: how often it looks at everything, and how long it may go on blind."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from defib.app import Operator
from defib.config import Settings, load
from defib.kube.kinds import NODES
from defib.simulate.faults import Fault, Refuse, Slow
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run
from defib.telemetry.metrics import Metrics
from tests.scraping import scraped

LIMIT = Settings().blind_limit_seconds

Scenario = Callable[[ApiServer, Operator], Awaitable[None]]


def operate(scenario: Scenario, **settings: float) -> None:
    async def main(clock: VirtualClock) -> None:
        server = ApiServer(clock)
        server.put("nodes", {"metadata": {"name": "n1"}})
        chosen = Settings(**settings)  # type: ignore[arg-type]  # numbers only
        operator = Operator(InProcess(server, client="operator"), clock, chosen, Metrics())
        async with asyncio.TaskGroup() as group:
            running = group.create_task(operator.run())
            await asyncio.sleep(5)  # virtual
            await scenario(server, operator)
            running.cancel()

    run(main, limit=timedelta(days=1))


def kinds(reasons: tuple[str, ...]) -> list[str]:
    return [reason.partition(":")[0] for reason in reasons]


def test_rv_05_nodes_and_heartbeats_that_are_out_of_sight_for_too_long_fail_the_liveness() -> None:
    async def scenario(server: ApiServer, operator: Operator) -> None:
        not_alive = operator.probes().not_alive
        server.stop()
        await asyncio.sleep(LIMIT - 60)  # virtual; the last word was a bookmark, at most a minute ago
        assert tuple(not_alive()) == ()
        await asyncio.sleep(120)  # virtual
        reasons = tuple(not_alive())
        assert kinds(reasons) == ["nodes", "heartbeats"]
        assert "allowed are 600 s" in reasons[0]
        server.start()
        await asyncio.sleep(90)  # virtual
        assert tuple(not_alive()) == ()

    operate(scenario)


def test_rv_05_one_watch_that_is_refused_is_enough_though_all_others_work() -> None:
    async def scenario(server: ApiServer, operator: Operator) -> None:
        effect = Refuse(code=500, reason="InternalError", message="etcd is on fire")
        server.faults.inject(Fault(effect=effect, resource=str(NODES), client="operator"))
        for watch in server.watches.of():
            watch.cut()
        await asyncio.sleep(LIMIT + 60)  # virtual
        (reason,) = operator.probes().not_alive()
        assert reason.startswith("nodes: blind for ")
        assert "etcd is on fire" in reason

    operate(scenario)


def test_rv_05_what_we_can_do_without_may_be_out_of_sight_for_ever() -> None:
    """A kind that is missing or forbidden is no reason to start anew: it would be missing then, too."""

    async def scenario(server: ApiServer, operator: Operator) -> None:
        effect = Refuse(code=500, reason="InternalError")
        server.faults.inject(Fault(effect=effect, resource="configmaps", client="operator"))
        for watch in server.watches.of():
            watch.cut()
        await asyncio.sleep(3 * LIMIT)  # virtual
        assert kinds(tuple(operator.probes().not_ready())) == ["configmaps"]
        assert tuple(operator.probes().not_alive()) == ()

    operate(scenario)


@pytest.mark.parametrize(("limit", "after", "is_alive"), [(0.0, 36000.0, True), (60.0, 100.0, False)])
def test_the_limit_is_a_setting_and_0_is_for_ever(limit: float, after: float, *, is_alive: bool) -> None:
    async def scenario(server: ApiServer, operator: Operator) -> None:
        server.stop()
        await asyncio.sleep(after)  # virtual
        assert (not operator.probes().not_alive()) is is_alive

    operate(scenario, blind_limit_seconds=limit)


def passes(operator: Operator) -> float:
    lines = scraped(operator).splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("defib_passes_total"))


def test_rv_03_a_resync_of_0_is_never_and_nobody_takes_that_for_a_replica_that_hangs() -> None:
    chosen = load({"resync": "0"}, {}, lambda _: "").resync_seconds

    async def scenario(server: ApiServer, operator: Operator) -> None:
        await asyncio.sleep(60)  # virtual; what there was to notice at the start is noticed
        before = passes(operator)
        await asyncio.sleep(1500)  # virtual; later the API server ends watches, and to open them again is a change
        assert passes(operator) == before
        assert tuple(operator.probes().not_alive()) == ()
        server.put("nodes", {"metadata": {"name": "new"}})
        await asyncio.sleep(5)  # virtual
        assert passes(operator) > before, "a change is seen at once all the same"

    operate(scenario, resync_seconds=chosen)


@pytest.mark.parametrize("seconds", [120.0, 300.0])
def test_rv_03_everything_is_looked_at_again_at_every_resync_even_if_nothing_changes(seconds: float) -> None:
    async def scenario(_: ApiServer, operator: Operator) -> None:
        await asyncio.sleep(60)  # virtual; what there was to notice at the start is noticed
        before = passes(operator)
        await asyncio.sleep(4 * seconds)  # virtual
        assert passes(operator) - before == 4

    operate(scenario, resync_seconds=seconds)


def test_a_large_cluster_is_given_the_time_that_it_takes_to_list_when_we_begin_to_lead() -> None:
    async def scenario(server: ApiServer, operator: Operator) -> None:
        for number in range(1000):
            server.put("nodes", {"metadata": {"name": f"m{number}"}})
        await asyncio.sleep(5)  # virtual
        server.faults.inject(Fault(effect=Slow(seconds=11), verbs=("list", "watch"), resource=str(NODES)))
        await operator.catch_up()
        assert operator.probes().not_ready() == ()

    operate(scenario)

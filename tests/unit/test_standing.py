"""Which part each replica plays, as its metrics tell it: at the moment when they are read, whatever else it does."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from defib.app import Operator
from defib.config import Settings
from defib.replica import leadership_of
from defib.simulate.faults import Fault, Refuse
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run
from defib.telemetry.metrics import Metrics
from tests.scraping import scraped

HOUR = timedelta(hours=1)


class Replica(msgspec.Struct):
    operator: Operator
    running: asyncio.Task[None]

    def told(self, name: str) -> float | None:
        """As if Prometheus asked now."""
        families = text_string_to_metric_families(scraped(self.operator))
        return next((one.value for family in families for one in family.samples if one.name == name), None)


Scenario = Callable[[ApiServer, list[Replica]], Awaitable[None]]


def replicas(count: int, scenario: Scenario, **settings: str) -> None:
    async def main(clock: VirtualClock) -> None:
        server = ApiServer(clock)
        server.put("namespaces", {"metadata": {"name": "defib-system"}})
        server.put("nodes", {"metadata": {"name": "n1"}})
        async with asyncio.TaskGroup() as group:
            made = []
            for number in range(count):
                chosen = msgspec.convert({"replica_name": f"r{number}"} | settings, Settings)
                transport = InProcess(server, client=f"r{number}")
                operator = Operator(transport, clock, chosen, Metrics())
                operator.leadership = leadership_of(chosen, transport, clock, operator)
                made.append(Replica(operator, group.create_task(operator.run())))
            await scenario(server, made)
            for replica in made:
                replica.running.cancel()

    run(main, limit=HOUR)


def test_one_of_three_leads_and_the_others_know_it() -> None:
    async def scenario(_: ApiServer, three: list[Replica]) -> None:
        await asyncio.sleep(30)  # virtual
        leading = [one.told("defib_leading") for one in three]
        assert sorted(leading, key=str) == [0, 0, 1]
        assert [one.told("defib_leader_known") for one in three] == [1, 1, 1]
        assert [one.told("defib_leadership_changes_total") for one in three] == leading
        assert [one.told("defib_catch_up_seconds_count") for one in three] == leading

    replicas(3, scenario)


def test_a_leader_that_cannot_renew_stops_telling_that_it_leads_when_its_mandate_ends() -> None:
    async def scenario(server: ApiServer, alone: list[Replica]) -> None:
        (one,) = alone
        await asyncio.sleep(30)  # virtual
        server.faults.inject(
            Fault(effect=Refuse(code=403), resource="leases.coordination.k8s.io", namespace="defib-system")
        )
        await asyncio.sleep(7.9)  # virtual: the last renewal was at most 2 s ago, and is good for 10
        assert one.told("defib_leading") == 1
        await asyncio.sleep(2.2)  # virtual
        assert one.told("defib_leading") == 0
        await asyncio.sleep(5)  # virtual
        assert one.told("defib_leader_known") == 0

    replicas(1, scenario)


def test_a_leader_whose_replica_dies_is_followed_by_one_that_counts_a_term() -> None:
    async def scenario(_: ApiServer, both: list[Replica]) -> None:
        await asyncio.sleep(30)  # virtual
        first, second = sorted(both, key=lambda one: one.told("defib_leading") != 1)
        first.running.cancel()
        await asyncio.sleep(20)  # virtual
        assert second.told("defib_leading") == 1
        assert second.told("defib_leadership_changes_total") == 1

    replicas(2, scenario)


def test_who_only_watches_has_no_part_in_it() -> None:
    async def scenario(_: ApiServer, watching: list[Replica]) -> None:
        await asyncio.sleep(30)  # virtual
        assert [one.told("defib_leading") for one in watching] == [None, None]

    replicas(2, scenario, watch_only="on")


def test_the_only_replica_without_an_election_leads() -> None:
    async def scenario(_: ApiServer, alone: list[Replica]) -> None:
        await asyncio.sleep(30)  # virtual
        assert alone[0].told("defib_leading") == 1

    replicas(1, scenario, election="off")


@pytest.mark.parametrize("count", [1, 3])
def test_sh_04_every_bucket_is_held_and_one_replica_admits(count: int) -> None:
    async def scenario(_: ApiServer, sharing: list[Replica]) -> None:
        await asyncio.sleep(120)  # virtual
        assert sum(one.told("defib_leading") or 0 for one in sharing) == 1
        assert sum(one.told("defib_buckets_held") or 0 for one in sharing) == 32
        assert [one.told("defib_buckets_unowned") for one in sharing] == [0] * count
        assert [one.told("defib_replicas_seen") for one in sharing] == [count] * count

    replicas(count, scenario, election="shards")


def test_sh_04_the_buckets_of_a_replica_that_died_are_told_to_be_unowned_until_others_have_them() -> None:
    async def scenario(_: ApiServer, sharing: list[Replica]) -> None:
        await asyncio.sleep(120)  # virtual
        dead, alive = sharing
        dead.running.cancel()
        seen = 0.0
        for _second in range(300):
            await asyncio.sleep(0.1)  # virtual
            seen = max(seen, alive.told("defib_buckets_unowned") or 0)
        assert seen > 0
        assert alive.told("defib_buckets_unowned") == 0
        assert alive.told("defib_buckets_held") == 32

    replicas(2, scenario, election="shards")

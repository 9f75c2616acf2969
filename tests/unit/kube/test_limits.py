"""How hard the client knocks: never more at once, never faster over time, than it is allowed."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from defib.kube.client import Client, Deletion
from defib.kube.errors import Conflict, KubeError, ServerFailed, Status, Throttled, Unreachable
from defib.kube.kinds import NODES, PODS
from defib.kube.limits import ATTEMPTS_MAX, PAUSE_MAX_SECONDS, Limits, backoff, pause_before_retry
from defib.kube.transport import Request
from defib.simulate.virtual_time import VirtualClock, run
from tests.unit.kube.scripted import Says, Scripted

GET = Request(method="GET", path="/x")

Remove = Callable[[Client], Awaitable[None]]


def ask_many(count: int, limits: Limits, *, each_takes: float = 1.0) -> Scripted:
    servers: list[Scripted] = []

    async def main(clock: VirtualClock) -> None:
        servers.append(Scripted(clock, [Says(body={}, after=each_takes)]))
        client = Client(servers[0], clock, limits=limits)
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(client.ask(GET, deadline=3600.0))

    run(main)
    return servers[0]


def test_no_more_requests_are_in_flight_than_allowed() -> None:
    server = ask_many(20, Limits(in_flight=3))
    assert server.in_flight_max == 3
    assert len(server.asked) == 20


def test_no_more_requests_start_in_a_second_than_allowed() -> None:
    server = ask_many(60, Limits(in_flight=1000, per_second=10.0, burst=1))
    gaps = [later - earlier for earlier, later in pairwise(server.asked_at)]
    assert min(gaps) >= 0.1 - 1e-9


def test_a_burst_goes_out_at_once_and_the_rest_in_turn() -> None:
    server = ask_many(30, Limits(in_flight=1000, per_second=10.0, burst=20))
    at_once = [time for time in server.asked_at if time < 1e-6]
    assert len(at_once) == 20
    assert server.asked_at[-1] == pytest.approx(1.0)


@given(st.integers(1, 40), st.integers(1, 20), st.floats(1.0, 100.0))
def test_over_any_time_no_more_start_than_burst_and_rate_allow(count: int, burst: int, per_second: float) -> None:
    server = ask_many(count, Limits(in_flight=1000, per_second=per_second, burst=burst), each_takes=0.0)
    times = server.asked_at
    for first in range(count):
        for last in range(first, count):
            allowed = burst + (times[last] - times[first]) * per_second
            assert last - first + 1 <= allowed + 1 + 1e-6


def test_a_watch_holds_no_slot() -> None:
    async def main(clock: Any) -> None:
        server = Scripted(clock, [Says(body={})])
        client = Client(server, clock, limits=Limits(in_flight=1))
        async with (
            client.watch(NODES, since="1", seconds=60),
            client.watch(NODES, since="1", seconds=60),
        ):
            await client.ask(GET, deadline=1.0)
            assert server.in_flight == 2

    run(main)


def wait_behind(seconds: float, *, deadline: float) -> Scripted:
    """One slot, which a request holds for so long; another one waits for it."""
    servers: list[Scripted] = []

    async def main(clock: VirtualClock) -> None:
        servers.append(Scripted(clock, [Says(body={}, after=seconds)]))
        client = Client(servers[0], clock, limits=Limits(in_flight=1))
        async with asyncio.TaskGroup() as group:
            group.create_task(client.ask(GET, deadline=60.0))
            await asyncio.sleep(0)
            await client.ask(GET, deadline=deadline)

    run(main)
    return servers[0]


def test_waiting_for_a_turn_does_not_count_against_the_deadline() -> None:
    assert wait_behind(9.0, deadline=10.0).asked_at == pytest.approx([0.0, 9.0])


def test_waiting_for_a_turn_has_an_end_too() -> None:
    with pytest.raises(ExceptionGroup) as ended:
        wait_behind(10.0, deadline=2.0)
    assert ended.group_contains(Unreachable, match="not sent, our other requests took longer than 2 s")


async def delete(client: Client) -> None:
    await client.delete(NODES.at("n1"), Deletion(uid="u"), deadline=10.0)


async def evict(client: Client) -> None:
    await client.evict(PODS.at("p", "n"), Deletion(uid="u"), deadline=10.0)


REMOVALS = pytest.mark.parametrize("remove", [delete, evict])


@REMOVALS
def test_what_destroys_does_not_wait_for_its_turn_until_its_reason_may_be_gone(remove: Remove) -> None:
    async def main(clock: VirtualClock) -> None:
        server = Scripted(clock, [Says(body={}, after=5.0)])
        client = Client(server, clock, limits=Limits(in_flight=1))
        async with asyncio.TaskGroup() as group:
            group.create_task(client.ask(GET))
            await asyncio.sleep(0)
            with pytest.raises(Unreachable, match="not sent, our other requests took longer than 1 s"):
                await remove(client)
            assert clock.monotonic() == pytest.approx(1.0)
        assert [request.method for request in server.asked] == ["GET"]

    run(main)


@REMOVALS
def test_what_destroys_is_given_its_whole_deadline_once_it_is_sent(remove: Remove) -> None:
    async def main(clock: VirtualClock) -> None:
        server = Scripted(clock, [Says(body={}, after=9.0)])
        await remove(Client(server, clock))
        assert clock.monotonic() == pytest.approx(9.0)

    run(main)


def test_a_hundred_deletions_at_once_all_have_their_turn_on_an_ordinary_server() -> None:
    async def main(clock: VirtualClock) -> None:
        server = Scripted(clock, [Says(body={}, after=0.003)])
        client = Client(server, clock, limits=Limits(in_flight=32))
        async with asyncio.TaskGroup() as group:
            for _ in range(100):
                group.create_task(delete(client))
        assert len(server.asked) == 100

    run(main)


def test_a_turn_that_would_come_too_late_is_left_to_others() -> None:
    """Else requests that are given up and asked for again would push all that come later ever further away."""

    async def main(clock: VirtualClock) -> None:
        server = Scripted(clock, [Says(body={})])
        client = Client(server, clock, limits=Limits(per_second=0.2, burst=1))
        await client.ask(GET)
        for _ in range(10):
            with pytest.raises(Unreachable, match="not sent"):
                await delete(client)
        await client.ask(GET)
        assert server.asked_at == pytest.approx([0.0, 5.0])

    run(main)


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_a_pause_is_between_half_and_all_of_its_bound(attempt: int, seed: int) -> None:
    async def main(clock: VirtualClock) -> None:
        bound = min(0.1 * 2.0 ** min(attempt, 20), PAUSE_MAX_SECONDS)
        assert bound / 2 <= backoff(attempt, clock) <= bound

    run(main, seed=seed)


@pytest.mark.parametrize(
    ("error", "is_repeated"),
    [
        (Throttled(Status(code=429)), True),
        (ServerFailed(Status(code=500)), True),
        (Unreachable("lost"), True),
        (Conflict(Status(code=409)), False),
    ],
)
def test_only_what_may_pass_is_worth_repeating(error: KubeError, is_repeated: bool) -> None:
    async def main(clock: VirtualClock) -> None:
        assert (pause_before_retry(error, 0, clock) is not None) is is_repeated
        assert pause_before_retry(error, ATTEMPTS_MAX - 1, clock) is None

    run(main)


def test_the_servers_wish_is_a_lower_bound_of_the_pause() -> None:
    async def main(clock: VirtualClock) -> None:
        for error in (Throttled(Status(), retry_after=8.0), ServerFailed(Status(), retry_after=8.0)):
            assert pause_before_retry(error, 0, clock) == 8.0

    run(main)

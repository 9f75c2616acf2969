"""Replicas that share the work come, go and die: every bucket finds its holder, and few of them move."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from defib.coordinate.keys import ADMISSION
from defib.coordinate.seats import BUCKETS
from defib.coordinate.shards import preferences
from defib.kube.kinds import LEASES
from defib.simulate.faults import Fault, Refuse
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run
from tests.scraping import scraped
from tests.sharded_replicas import HOME, LEASE_SECONDS, RETRY_SECONDS, SETTLED_SECONDS, Replicas, replicas_on, seconds

LOOK_SECONDS = 0.25
HANDED_OVER_SECONDS = RETRY_SECONDS + 2 * LOOK_SECONDS + RETRY_SECONDS / 4  # seen at the next look, taken a tick later
THREE = ("defib-a", "defib-b", "defib-c")
Scene = Callable[[Replicas], Awaitable[None]]


def play(scene: Scene) -> None:
    async def main(clock: VirtualClock) -> None:
        server = ApiServer(clock)
        server.put("namespaces", {"metadata": {"name": HOME}})
        server.put("nodes", {"metadata": {"name": "n1"}})
        async with replicas_on(server, clock) as replicas:
            await scene(replicas)

    run(main, limit=timedelta(hours=1))


async def owned_after(replicas: Replicas) -> float:
    """How long it takes until somebody has each bucket."""
    gone = 0.0
    while replicas.holders.unowned:
        await seconds(0.5)
        gone += 0.5
        assert gone < 10 * LEASE_SECONDS, f"nobody has {replicas.holders.unowned}"
    return gone


async def longest_gap(replicas: Replicas, length: float) -> float:
    """For how long any one bucket was nobody's, in the course of so many seconds."""
    since: dict[int, int] = {}
    longest = 0
    for now in range(int(length / LOOK_SECONDS)):
        unowned = set(replicas.holders.unowned)
        since = {number: since.get(number, now) for number in unowned}
        longest = max(longest, *(1 + now - began for began in since.values())) if since else longest
        await seconds(LOOK_SECONDS)
    return longest * LOOK_SECONDS


def test_sh_01_in_the_end_everybody_has_what_all_agree_on() -> None:
    async def scene(replicas: Replicas) -> None:
        replicas.start(*THREE)
        assert (await replicas.settle()).of == dict(preferences(BUCKETS, THREE))
        for name in THREE:
            standing = replicas[name].leadership.standing
            assert (standing.members, standing.unowned) == (3, 0)
            assert standing.held == replicas.holders.shares[name]
            assert standing.leads == (replicas.holders.of_node(ADMISSION) == name)
            assert standing.leader == replicas.holders.of_node(ADMISSION)

    play(scene)


def test_the_first_one_has_everything_within_a_moment() -> None:
    async def scene(replicas: Replicas) -> None:
        replicas.start("defib-a")
        assert await owned_after(replicas) <= 2 * RETRY_SECONDS
        assert replicas.holders.shares == {"defib-a": BUCKETS}

    play(scene)


def test_sh_02_one_more_takes_its_share_and_nothing_else_moves() -> None:
    async def scene(replicas: Replicas) -> None:
        replicas.start(*THREE)
        before = await replicas.settle()
        replicas.start("defib-d")
        after = await replicas.settle()
        assert after.unowned == []
        assert after.shares["defib-d"] >= BUCKETS // 4 - 2
        assert before.moved(after) <= 1.5 * BUCKETS / 4

    play(scene)


def test_sh_04_when_one_dies_its_buckets_are_owned_again_within_two_leases() -> None:
    async def scene(replicas: Replicas) -> None:
        replicas.start(*THREE)
        before = await replicas.settle()
        replicas.kill("defib-b")
        await seconds(LEASE_SECONDS)
        lost = replicas.holders.unowned
        assert lost
        assert LEASE_SECONDS + await owned_after(replicas) <= 2 * LEASE_SECONDS
        after = await replicas.settle()
        assert set(after.shares) == {"defib-a", "defib-c"}
        assert before.moved(after) <= before.shares["defib-b"] + 0.5 * BUCKETS / 3

    play(scene)


def test_sh_04_a_bucket_that_nobody_can_take_is_a_metric() -> None:
    async def scene(replicas: Replicas) -> None:
        only_members = Fault(effect=Refuse(code=403), verbs=("create",), resource=str(LEASES), namespace=HOME, skip=1)
        replicas.server.faults.inject(only_members)
        replicas.start("defib-a")
        await seconds(LEASE_SECONDS)
        assert "defib_buckets_unowned 32.0" in scraped(replicas["defib-a"])
        replicas.server.faults.clear()
        await seconds(LEASE_SECONDS)
        assert "defib_buckets_unowned 0.0" in scraped(replicas["defib-a"])

    play(scene)


def test_sh_05_one_that_is_told_to_end_hands_everything_over_within_a_retry_period() -> None:
    async def scene(replicas: Replicas) -> None:
        replicas.start(*THREE)
        await replicas.settle()
        await replicas.stop("defib-b")
        assert await longest_gap(replicas, 2 * LEASE_SECONDS) <= HANDED_OVER_SECONDS
        assert set(replicas.holders.shares) == {"defib-a", "defib-c"}

    play(scene)


@pytest.mark.parametrize("tenths", range(0, 25, 2))
def test_what_another_one_has_taken_is_not_handed_over(tenths: int) -> None:
    """Between the look that shows it and the tick that gives it up there is a moment, and then we are told to end."""

    async def scene(replicas: Replicas) -> None:
        replicas.start("defib-a")
        await replicas.settle()
        await replicas.take("stranger", 5)
        await seconds(tenths / 10)
        await replicas.stop("defib-a")
        assert replicas.holders.shares == {"stranger": 1}

    play(scene)


@pytest.mark.parametrize("again", ["defib-d", "defib-b"])
def test_sh_09_a_restarted_replica_takes_work_by_itself_under_whichever_name(again: str) -> None:
    async def scene(replicas: Replicas) -> None:
        replicas.start(*THREE)
        await replicas.settle()
        replicas.kill("defib-b")
        replicas.start(again)
        await seconds(2 * LEASE_SECONDS)
        after = await replicas.settle()
        assert after.unowned == []
        assert after.shares[again] >= BUCKETS // 3 - 4
        assert set(after.shares) == {"defib-a", "defib-c", again}

    play(scene)


def test_sh_02_a_rolling_upgrade_leaves_nothing_unowned_and_moves_few() -> None:
    """As a Deployment does it: one more comes, one goes, until all are new."""

    async def scene(replicas: Replicas) -> None:
        replicas.start(*THREE)
        now, moves, longest = await replicas.settle(), 0, 0.0
        for old, new in zip(THREE, ("defib-x", "defib-y", "defib-z"), strict=True):
            replicas.start(new)
            more = await replicas.settle()
            await replicas.stop(old)
            longest = max(longest, await longest_gap(replicas, SETTLED_SECONDS))
            moves += now.moved(more)
            now = replicas.holders
            moves += more.moved(now)
        assert set(now.shares) == {"defib-x", "defib-y", "defib-z"}
        assert longest <= HANDED_OVER_SECONDS
        assert moves <= 2 * BUCKETS  # at the very best it would be one and a half times all

    play(scene)


def test_a_replica_that_blinks_gets_its_buckets_back_only_after_a_while() -> None:
    """Whoever comes back after having been silent for too long might be gone again in a moment."""

    async def scene(replicas: Replicas) -> None:
        replicas.start(*THREE)
        await replicas.settle()
        replicas.kill("defib-b")
        await seconds(2 * LEASE_SECONDS)
        replicas.start("defib-b")
        await seconds(1.7 * LEASE_SECONDS)  # for one it waits until nobody else can have its name
        assert replicas["defib-a"].leadership.standing.members == 3
        assert replicas.holders.shares["defib-b"] == 0
        assert (await replicas.settle()).shares["defib-b"] > 0

    play(scene)


def test_two_replicas_of_one_name_never_share_anything() -> None:
    """Somebody has copied a manifest, with its name. Whoever came second waits for ever."""

    async def scene(replicas: Replicas) -> None:
        replicas.start("defib-a")
        first = replicas["defib-a"]
        await replicas.settle()
        replicas.start("defib-a")
        second = replicas["defib-a"]
        for _ in range(60):
            await seconds(1.0)
            assert (first.leadership.standing.held, second.leadership.standing.held) == (BUCKETS, 0)
        first_is = [task for task in asyncio.all_tasks() if task.get_name() == "defib-a"]
        for task in first_is:
            task.cancel()

    play(scene)

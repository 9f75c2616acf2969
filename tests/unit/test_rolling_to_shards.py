"""From one leader to replicas that share the work: while one may lead in everything, the others wait."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from defib.clock import Clock
from defib.coordinate.lock import MARK
from defib.coordinate.seats import BUCKETS
from defib.coordinate.shards import bucket_of
from defib.kube.client import Client, Merge
from defib.kube.kinds import LEASES
from defib.model.action import ReadPower
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run
from tests.mute_machine import MUTE
from tests.sharded_replicas import HOME, LEASE_SECONDS, RETRY_SECONDS, SETTLED_SECONDS, Replicas, replicas_on, seconds

LEADER = "defib-leader"
OLD, NEW = ("old-a", "old-b", "old-c"), ("new-x", "new-y", "new-z")
LOOK_SECONDS = 0.1
SOON_SECONDS = 3 * RETRY_SECONDS  # for a look, a membership, a bucket, and what follows from it
QUIET_SECONDS = LEASE_SECONDS + 10.0  # a lease, and the time in which a standby that takes the lock then is seen

NODE_OF = {bucket_of(f"n{number}", BUCKETS): f"n{number}" for number in range(500)}
Scene = Callable[[Replicas, Clock], Awaitable[None]]


def play(scene: Scene) -> None:
    async def main(clock: VirtualClock) -> None:
        server = ApiServer(clock)
        server.put("namespaces", {"metadata": {"name": HOME}})
        server.put("nodes", {"metadata": {"name": "n1"}})
        async with replicas_on(server, clock) as replicas:
            await scene(replicas, clock)

    run(main, limit=timedelta(hours=1))


def permitted(replicas: Replicas, clock: Clock, *names: str) -> int:
    """How many buckets any of these may act for."""
    assert len(NODE_OF) == BUCKETS
    found = 0
    for name in names:
        for node in NODE_OF.values() if replicas.is_there(name) else ():
            mandate = replicas[name].leadership.permit.of(ReadPower(incident_uid="u", node=node, path=MUTE))
            found += mandate is not None and mandate.holds(clock.monotonic())
    return found


async def one_kind_acts(replicas: Replicas, clock: Clock, length: float) -> set[str]:
    """Whether it was the old or the new ones who acted in the meantime; at no moment are there some of both."""
    acted: set[str] = set()
    for _ in range(round(length / LOOK_SECONDS)):
        old, new = permitted(replicas, clock, *OLD), permitted(replicas, clock, *NEW)
        assert not (old and new), f"at {clock.monotonic():.1f} s"
        acted |= {name for name, count in (("old", old), ("new", new)) if count}
        await seconds(LOOK_SECONDS)
    return acted


def test_while_somebody_renews_the_lock_of_a_leader_nobody_takes_a_bucket() -> None:
    async def scene(replicas: Replicas, clock: Clock) -> None:
        admin = Client(InProcess(replicas.server, "admin"), clock)
        spec = {"holderIdentity": "somebody", "leaseDurationSeconds": 15, "leaseTransitions": 0}
        meta = {"name": LEADER, "namespace": HOME, "labels": MARK}
        replicas.server.put(str(LEASES), {"metadata": meta, "spec": spec})
        replicas.start(*NEW)
        for second in range(60):
            if second % 2 == 0:
                renewed = f"{clock.now():%Y-%m-%dT%H:%M:%S.%fZ}"
                await admin.patch(LEASES.at(LEADER, HOME), Merge({"spec": {"renewTime": renewed}}))
            assert permitted(replicas, clock, *NEW) == 0
            assert replicas.holders.shares == {}
            await seconds(1)
        assert await one_kind_acts(replicas, clock, QUIET_SECONDS - 2) == set(), "it must have been quiet for long"
        await seconds(SOON_SECONDS + 2)
        assert permitted(replicas, clock, *NEW) == BUCKETS
        await replicas.settle()
        assert permitted(replicas, clock, *NEW) == BUCKETS

    play(scene)


def test_where_nobody_ever_led_nothing_is_waited_for() -> None:
    async def scene(replicas: Replicas, clock: Clock) -> None:
        replicas.start("new-x")
        await seconds(SOON_SECONDS)
        assert permitted(replicas, clock, "new-x") == BUCKETS

    play(scene)


@pytest.mark.parametrize("ends", ["in order", "by force"])
def test_in_a_rolling_change_the_leader_acts_until_there_is_none_and_then_the_new_ones_do(ends: str) -> None:
    """As a Deployment does it: one more comes, one goes, until all are new."""

    async def scene(replicas: Replicas, clock: Clock) -> None:
        for name in OLD:
            replicas.start(name, election="lease")
        acted = await one_kind_acts(replicas, clock, SETTLED_SECONDS)
        for old, new in zip(OLD, NEW, strict=True):
            replicas.start(new)
            acted |= await one_kind_acts(replicas, clock, SETTLED_SECONDS)
            assert acted == {"old"}
            if ends == "in order":
                await replicas.stop(old)
            else:
                replicas.kill(old)
            length = 2 * LEASE_SECONDS if old != OLD[-1] else QUIET_SECONDS - RETRY_SECONDS
            acted |= await one_kind_acts(replicas, clock, length)
            assert acted == {"old"}, "a standby may have taken the lock in this very moment"
        await seconds(RETRY_SECONDS + SOON_SECONDS)
        assert permitted(replicas, clock, *NEW) == BUCKETS
        assert await one_kind_acts(replicas, clock, SETTLED_SECONDS) == {"new"}
        assert set(replicas.holders.shares) == set(NEW)

    play(scene)

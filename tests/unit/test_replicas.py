"""Several whole operators on one cluster: one acts, the others stand by, and whatever happens, nobody acts for two."""

import asyncio
import re
from datetime import timedelta

import pytest

from defib.app import FINISH_SECONDS
from defib.coordinate.election import Candidate, Record
from defib.coordinate.elector import TOLERANCE_SECONDS, Elector
from defib.coordinate.leadership import Single
from defib.coordinate.lock import Found, LeaseLock
from defib.kube.client import Client, Deletion, Merge
from defib.kube.kinds import LEASES as LEASE_KIND
from defib.model import medik8s
from defib.simulate.faults import Fault, Hang, Refuse, Slow
from defib.simulate.in_process import InProcess
from defib.simulate.virtual_time import START
from tests.scraping import scraped
from tests.unit.three_nodes import FAILOVERS, HOME, Cluster3
from tests.unit.three_replicas import (
    LEASE,
    LEASES,
    LOCK,
    MOMENT,
    RENEW,
    RETRY,
    SICK,
    Held,
    Replica,
    Replicas,
    creations,
    together,
)

LOCK_REF = LEASE_KIND.at(LOCK, HOME)
REMEDIES = str(FAILOVERS)


async def three(replicas: Replicas) -> tuple[Replica, Replica, Replica]:
    """a leads."""
    a = replicas.start("a")
    await replicas.until_leads("a", 1.0)
    return a, replicas.start("b"), replicas.start("c")


def test_le_01_one_acts_and_the_others_only_watch() -> None:
    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        await three(replicas)
        await stage.turn("Unknown")
        assert await replicas.pass_by(120) == {"a"}
        assert creations(replicas) == ["a"]
        assert sorted(stage.leaving()) == ["web-1", "web-2"]
        for standby in ("b", "c"):
            assert replicas.server.audit.writes(standby) == []
            watched = [one for one in replicas.server.audit if one.client == standby and one.verb == "watch"]
            assert {"nodes", "podfailoverremediations"} <= {one.path.rpartition("/")[2] for one in watched}

    together(scenario)


@pytest.mark.parametrize("hours", [-5, 5])
def test_le_04_a_clock_that_is_hours_off_makes_no_leader(hours: int) -> None:
    """The standby's shows another time than the leader's; then the leader is gone, and it is a lease that counts."""

    async def scenario(replicas: Replicas, _: Cluster3) -> None:
        a = replicas.start("a")
        replicas.start("b", skew=timedelta(hours=hours))
        assert await replicas.pass_by(120) == {"a"}
        a.kill()
        renewed = replicas.last_renewal
        await replicas.until_leads("b", LEASE + RETRY + MOMENT)
        assert replicas.clock.monotonic() - renewed >= LEASE

    together(scenario)


def test_le_05_a_lock_that_nobody_holds_is_taken_at_once() -> None:
    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 4}
        spec |= dict.fromkeys(("acquireTime", "renewTime"), "2030-01-01T00:00:00.000000Z")
        stage.server.put(LEASES, {"metadata": {"name": LOCK, "namespace": HOME}, "spec": spec})
        replicas.start("a")
        await replicas.until_leads("a", 2 * MOMENT)
        assert replicas.held[-1].transitions == 5

    together(scenario)


def test_le_06_transitions_count_changes_of_the_holder_and_nothing_else() -> None:
    async def scenario(replicas: Replicas, _: Cluster3) -> None:
        a, _b, c = await three(replicas)
        await replicas.pass_by(60)
        assert {one.transitions for one in replicas.held} == {0}
        c.terminate()
        await replicas.pass_by(5)
        a.terminate()
        await replicas.until_leads("b", RETRY + MOMENT)
        await replicas.pass_by(60)
        assert replicas.held[-1].transitions == 1
        assert replicas.holders == ["a", "", "b"]

    together(scenario)


def test_le_07_what_is_under_way_ends_then_the_lock_is_released_and_a_standby_leads() -> None:
    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        a, _, c = await three(replicas)
        c.kill()
        slow = Fault(effect=Slow(seconds=5), verbs=("create",), resource=REMEDIES, client="a")
        stage.server.faults.inject(slow)
        await stage.turn("Unknown")
        await replicas.pass_by(SICK + 1)
        assert stage.server.faults.struck(slow) == 1
        asked = replicas.clock.monotonic()
        a.terminate()
        await replicas.until_leads("b", 5 + RETRY + MOMENT)
        released = next(one for one in replicas.held if one.holder == "")
        assert released.seconds == 1
        assert released.at > asked + 3, "after the answer, and not before"
        assert replicas.clock.monotonic() <= released.at + RETRY + 2 * MOMENT
        await replicas.pass_by(60)
        assert creations(replicas) == ["a"]
        assert sorted(stage.leaving()) == ["web-1", "web-2"], "the standby has gone on"

    together(scenario)


def test_le_07_a_lock_is_not_released_over_something_that_hangs() -> None:
    """Nobody knows what may still come of it: the standby waits until the lease has run out."""

    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        a = replicas.start("a")
        await replicas.until_leads("a", 1.0)
        replicas.start("b")
        stage.server.faults.inject(
            Fault(effect=Slow(seconds=8), verbs=("get",), resource="nodes", client="a"),
            Fault(effect=Hang(), verbs=("create",), resource=REMEDIES, client="a"),
        )
        await stage.turn("Unknown")
        await replicas.pass_by(SICK + 1)
        a.terminate()
        await replicas.until_leads("b", FINISH_SECONDS + LEASE + RETRY + MOMENT)
        assert replicas.holders == ["a", "b"]
        last = [one.at for one in replicas.held if one.holder == "a"][-1]
        assert replicas.clock.monotonic() >= last + LEASE
        await replicas.pass_by(60)
        assert creations(replicas) == ["b"]

    together(scenario)


def test_le_08_who_cannot_renew_has_stopped_everything_before_the_lease_ends() -> None:
    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        a, *_ = await three(replicas)
        stage.server.faults.inject(
            Fault(effect=Hang(), verbs=("create",), resource=REMEDIES, client="a"),
            Fault(effect=Refuse(code=500), verbs=("patch",), resource=LEASES, name=LOCK, client="a", skip=6),
        )
        await stage.turn("Unknown")
        await replicas.pass_by(SICK + 2)
        mandate = a.mandate
        assert mandate is not None
        assert a.operator.is_busy(mandate), "it hangs"
        renewed = replicas.last_renewal
        await replicas.pass_by(renewed + RENEW - replicas.clock.monotonic())
        await asyncio.sleep(MOMENT)  # virtual
        assert not a.operator.is_busy(mandate)
        assert replicas.leaders == []
        assert replicas.clock.monotonic() < renewed + LEASE
        led = await replicas.pass_by(LEASE)
        assert led in ({"b"}, {"c"})
        written = replicas.last_write("a")
        assert written is not None
        assert written <= START + timedelta(seconds=renewed + RENEW)

    together(scenario)


def test_le_09_requests_that_hang_keep_nobody_in_office() -> None:
    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        await three(replicas)
        await replicas.pass_by(20)
        stage.server.faults.inject(Fault(effect=Hang(), client="a"))
        renewed = replicas.last_renewal
        await replicas.pass_by(renewed + RENEW + MOMENT - replicas.clock.monotonic())
        assert replicas.leaders == []
        await replicas.pass_by(LEASE - RENEW + RETRY)
        assert replicas.leaders in (["b"], ["c"])

    together(scenario)


def test_le_10_a_hostile_writer_makes_everybody_stop_and_one_leads_when_it_is_gone() -> None:
    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        await three(replicas)
        await stage.turn("Unknown")
        began = replicas.clock.monotonic()
        for _ in range(30):
            # Without a new time it would be no change, and nobody could see that somebody is there.
            renewed = f"{stage.clock.now():%Y-%m-%dT%H:%M:%S.%fZ}"
            taken = {"holderIdentity": "stranger", "leaseDurationSeconds": 15, "renewTime": renewed}
            await stage.admin.patch(LOCK_REF, Merge({"spec": taken}))
            await replicas.pass_by(RETRY)
        for name in ("a", "b", "c"):
            written = replicas.last_write(name)
            assert written is None or written < START + timedelta(seconds=began + LEASE)
        assert creations(replicas) == []
        assert len(await replicas.pass_by(120)) == 1
        assert len(creations(replicas)) == 1
        assert sorted(stage.leaving()) == ["web-1", "web-2"]

    together(scenario)


def test_le_11_a_deleted_lock_has_one_new_holder() -> None:
    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        await three(replicas)
        for _ in range(5):
            await replicas.pass_by(7.3)
            lease = await stage.admin.get(LOCK_REF)
            await stage.admin.delete(LOCK_REF, Deletion(uid=lease.uid))
            assert len(await replicas.pass_by(LEASE + 2 * RETRY)) == 1
            assert len(replicas.leaders) == 1

    together(scenario)


def test_le_11_a_lock_that_is_deleted_under_a_dead_leader_is_taken_after_a_lease() -> None:
    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        a, *_ = await three(replicas)
        await replicas.pass_by(10)
        a.kill()
        lease = await stage.admin.get(LOCK_REF)
        await stage.admin.delete(LOCK_REF, Deletion(uid=lease.uid))
        assert await replicas.pass_by(LEASE - 0.5) == set()
        assert len(await replicas.pass_by(RETRY + 1)) == 1

    together(scenario)


def passes(replica: Replica) -> float:
    found = re.search(r"^defib_passes_total (\S+)", scraped(replica.operator), re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_le_12_what_is_done_from_time_to_time_is_done_by_the_leader_alone() -> None:
    """Statuses, retries, looks at what is overdue: an hour of it, with a leader that becomes a standby in between."""

    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        _, b, c = await three(replicas)
        await stage.turn("Unknown")
        await replicas.pass_by(900)
        stage.server.partition("a")
        await replicas.pass_by(60)
        stage.server.heal("a")
        lost = replicas.last_write("a")
        (leader,) = replicas.leaders
        standby = next(one for one in (b, c) if one.name != leader)
        before = passes(standby)
        await stage.turn("True")
        await replicas.pass_by(60)
        await stage.turn("Unknown")
        await replicas.pass_by(1200)
        assert passes(standby) > before + 2
        assert replicas.writes(standby.name) == []
        assert replicas.last_write("a") == lost
        assert replicas.writes(leader) != []

    together(scenario)


class StuckLock:
    """Of which a request hangs so badly that it cannot even be given up."""

    def __init__(self, lock: LeaseLock) -> None:
        self._lock = lock
        self.is_stuck = False
        self.let_go = asyncio.Event()

    async def read(self, seconds: float) -> Found:
        return await self._lock.read(seconds)

    async def write(self, record: Record, version: str | None, seconds: float) -> str:
        while self.is_stuck and not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                continue
        return await self._lock.write(record, version, seconds)


def test_le_17_a_leader_whose_record_is_old_fails_its_health_check_and_may_do_nothing() -> None:
    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        lock = StuckLock(LeaseLock(Client(InProcess(stage.server, "a"), stage.clock), HOME, LOCK))
        a = replicas.start("a")
        me = Candidate("a")
        a.operator.leadership = Single(a.operator, lambda changed: Elector(lock, me, stage.clock, changed))
        await replicas.until_leads("a", 1.0)
        probes = a.operator.probes()
        lock.is_stuck = True
        await replicas.pass_by(RENEW + RETRY)
        assert replicas.leaders == []
        await replicas.pass_by(LEASE + TOLERANCE_SECONDS - RENEW - RETRY - 1)
        assert probes.not_alive() == ()
        await replicas.pass_by(RETRY)
        (why,) = probes.not_alive()
        assert why.startswith("we lead, and the lock was last renewed")
        lock.let_go.set()

    together(scenario)


def test_le_18_a_newer_replica_leads_when_the_older_one_has_let_go_and_never_before() -> None:
    """A rolling upgrade: one after the other is replaced, and the lock is nobody's between any two."""

    async def scenario(replicas: Replicas, _: Cluster3) -> None:
        old = [*await three(replicas)]
        for number, one in enumerate(old):
            replicas.start(f"new-{number}")
            await replicas.pass_by(20)
            one.terminate()
            await replicas.pass_by(5)
            assert len(replicas.leaders) == 1
        assert all("" in pair for pair in zip(replicas.holders, replicas.holders[1:], strict=False))
        assert replicas.leaders[0].startswith("new-") or replicas.leaders[0] in ("b", "c")

    together(scenario)


def test_a_standby_leads_within_a_lease_and_a_retry_period_of_a_crash() -> None:
    async def scenario(replicas: Replicas, _: Cluster3) -> None:
        a = (await three(replicas))[0]
        await replicas.pass_by(33.3)
        renewed = replicas.last_renewal
        a.kill()
        assert len(await replicas.pass_by(renewed + LEASE + RETRY + MOMENT - replicas.clock.monotonic())) == 1

    together(scenario)


def test_the_last_one_leaves_a_lock_that_the_next_one_takes_at_once() -> None:
    async def scenario(replicas: Replicas, _: Cluster3) -> None:
        a = replicas.start("a")
        await replicas.until_leads("a", 1.0)
        a.terminate()
        await asyncio.sleep(1)  # virtual
        assert replicas.held[-1] == Held(replicas.last_renewal, "", 1, 0)
        replicas.start("z")
        await replicas.until_leads("z", 2 * MOMENT)

    together(scenario)


def test_locks_of_nodes_outlive_a_change_of_the_leader() -> None:
    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        a, *_ = await three(replicas)
        await stage.turn("Unknown")
        await replicas.pass_by(SICK + 1)
        a.kill()
        await replicas.pass_by(60)
        (leader,) = replicas.leaders
        assert leader != "a"
        held = stage.server.store.get(LEASES, f"{medik8s.LOCK_NAMESPACE}/node-n1")
        assert held is not None
        assert held.object["spec"]["holderIdentity"] == medik8s.holder_of("hasty")
        await stage.turn("True")
        await replicas.pass_by(60)
        assert stage.server.store.get(LEASES, f"{medik8s.LOCK_NAMESPACE}/node-n1") is None
        assert await stage.names(FAILOVERS) == []

    together(scenario)

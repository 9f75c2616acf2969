"""The shell around the steps of an election: requests, their time, and the mandate that comes of them."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from defib.coordinate.election import Candidate, Record
from defib.coordinate.elector import TOLERANCE_SECONDS, Elector
from defib.coordinate.lock import LeaseLock
from defib.kube.client import Client, Deletion, Merge
from defib.kube.kinds import LEASES
from defib.model.mandate import Mandate
from defib.model.node import Lease
from defib.simulate.faults import Fault, Hang, LoseAnswer, Refuse, Slow
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run

LEASE, RENEW, RETRY = 15.0, 10.0, 2.0
HOME, NAME = "default", "lock"
REF = LEASES.at(NAME, HOME)


class Room:
    """One server, one lock, and those who want it."""

    def __init__(self, clock: VirtualClock, group: asyncio.TaskGroup) -> None:
        self.clock = clock
        self.server = ApiServer(clock)
        self.admin = Client(InProcess(self.server, "admin"), clock)
        self.changes: list[str] = []
        self._group = group
        self._running: list[asyncio.Task[None]] = []

    def elector(self, name: str = "me") -> Elector:
        lock = LeaseLock(Client(InProcess(self.server, name), self.clock), HOME, NAME)
        return Elector(lock, Candidate(name), self.clock, lambda: self.changes.append(name))

    def run(self, elector: Elector) -> asyncio.Task[None]:
        self._running.append(self._group.create_task(elector.run()))
        return self._running[-1]

    def end(self) -> None:
        for task in self._running:
            task.cancel()

    def lease(self) -> Lease:
        stored = self.server.store.get(str(LEASES), f"{HOME}/{NAME}")
        assert stored is not None
        return msgspec.convert(stored.object, Lease)

    def put(self, holder: str) -> None:
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2030-01-01T00:00:00.000000Z"}
        self.server.put(str(LEASES), {"metadata": {"name": NAME, "namespace": HOME}, "spec": spec})

    def fault(self, effect: Hang | Refuse | Slow | LoseAnswer, *verbs: str, times: int | None = None) -> None:
        self.server.faults.inject(Fault(effect=effect, verbs=verbs, client="me", times=times))

    def asked(self, name: str = "me") -> list[str]:
        return [f"{one.verb} {one.status}" for one in self.server.audit if one.client == name]


Scenario = Callable[[Room], Awaitable[None]]


def play(scenario: Scenario) -> None:
    async def main(clock: VirtualClock) -> None:
        async with asyncio.TaskGroup() as group:
            room = Room(clock, group)
            await scenario(room)
            room.end()

    run(main)


async def seconds(count: float) -> None:
    """Virtual ones."""
    await asyncio.sleep(count)


def test_le_02_the_record_has_all_its_fields_and_is_written_by_version() -> None:
    async def scenario(room: Room) -> None:
        room.run(room.elector())
        await seconds(3)
        spec = room.lease().spec
        assert (spec.holder_identity, spec.lease_duration_seconds, spec.lease_transitions) == ("me", 15, 0)
        assert spec.acquire_time is not None
        assert spec.renew_time is not None
        assert spec.renew_time > spec.acquire_time
        # Somebody is faster than the next renewal: it does not go through.
        await room.admin.patch(REF, Merge({"spec": {"holderIdentity": "stranger"}}))
        await seconds(RETRY)
        assert room.asked()[-2:] == ["patch 409", "get 200"], "and a leader looks at once why"

    play(scenario)


def test_a_mandate_is_one_object_for_one_term_and_is_moved_on() -> None:
    async def scenario(room: Room) -> None:
        elector = room.elector()
        assert elector.mandate is None
        room.run(elector)
        await seconds(1)
        mandate = elector.mandate
        assert mandate is not None
        assert (mandate.token, mandate.ends) == ("me/0", RENEW)
        await seconds(60)
        assert elector.mandate is mandate
        assert mandate.ends == 60.0 + RENEW
        assert room.changes == ["me"], "a renewal is no news"

    play(scenario)


def test_a_mandate_counts_from_the_beginning_of_a_slow_renewal() -> None:
    async def scenario(room: Room) -> None:
        elector = room.elector()
        room.fault(Slow(seconds=4), "create")
        room.fault(Hang(), "patch")  # which is due by then
        room.run(elector)
        await seconds(4.5)
        assert elector.mandate is not None
        assert elector.mandate.ends == RENEW

    play(scenario)


def test_le_08_a_mandate_ends_by_itself_and_is_taken_back() -> None:
    async def scenario(room: Room) -> None:
        elector = room.elector()
        room.run(elector)
        await seconds(1)
        mandate = elector.mandate
        assert mandate is not None
        room.fault(Refuse(code=500), "patch")
        await seconds(RENEW - 1.1)
        assert mandate.holds(room.clock.monotonic())
        await seconds(0.2)
        assert mandate.is_taken_back
        assert elector.mandate is None

    play(scenario)


def test_le_09_a_renewal_that_hangs_once_costs_nothing() -> None:
    async def scenario(room: Room) -> None:
        elector = room.elector()
        room.run(elector)
        await seconds(1)
        mandate = elector.mandate
        room.fault(Hang(), "patch", times=1)
        await seconds(30)
        assert elector.mandate is mandate
        assert isinstance(mandate, Mandate)
        assert not mandate.is_taken_back

    play(scenario)


def test_le_09_whoever_hears_nothing_any_more_has_stopped_in_time() -> None:
    async def scenario(room: Room) -> None:
        elector = room.elector()
        room.run(elector)
        await seconds(1)
        room.fault(Hang())
        await seconds(RENEW - 1 + 0.1)
        assert elector.mandate is None
        room.server.faults.clear()
        await seconds(RENEW)
        assert elector.mandate is not None, "the record is still its own"

    play(scenario)


def test_a_lost_answer_costs_nothing() -> None:
    async def scenario(room: Room) -> None:
        elector = room.elector()
        room.fault(LoseAnswer(), "create", times=1)
        room.run(elector)
        await seconds(RETRY + 0.1)
        mandate = elector.mandate
        assert mandate is not None, "it has found what it wrote"
        room.fault(LoseAnswer(), "patch", times=2)
        await seconds(30)
        assert elector.mandate is mandate
        assert room.lease().spec.lease_transitions == 0

    play(scenario)


def test_two_of_the_same_name_do_not_both_lead() -> None:
    async def scenario(room: Room) -> None:
        one, two = room.elector(), room.elector()
        room.run(one)
        await seconds(1)
        room.run(two)
        for _ in range(100):
            await seconds(1)
            assert one.mandate is not None
            assert two.mandate is None

    play(scenario)


def test_a_restarted_one_waits_for_its_own_old_lease() -> None:
    async def scenario(room: Room) -> None:
        room.put("me")
        elector = room.elector()
        room.run(elector)
        await seconds(LEASE - 0.1)
        assert elector.mandate is None
        await seconds(0.2)
        assert elector.mandate is not None

    play(scenario)


def test_le_07_release_gives_the_lock_back_and_ends_the_mandate_first() -> None:
    async def scenario(room: Room) -> None:
        elector, other = room.elector(), room.elector("other")
        running = room.run(elector)
        await seconds(1)
        room.run(other)
        await seconds(30)
        mandate = elector.mandate
        assert mandate is not None
        running.cancel()
        await elector.release()
        assert mandate.is_taken_back
        spec = room.lease().spec
        assert (spec.holder_identity, spec.lease_duration_seconds) == ("", 1)
        await seconds(RETRY)
        assert other.mandate is not None

    play(scenario)


def test_le_07_who_is_stopped_in_the_middle_of_a_renewal_still_releases() -> None:
    """The renewal was carried out, and its answer never heard: the version is another one than we know."""

    async def scenario(room: Room) -> None:
        elector = room.elector()
        running = room.run(elector)
        await seconds(1)
        room.fault(Slow(seconds=3), "patch", times=1)
        await seconds(2)
        running.cancel()
        await elector.release()
        assert room.lease().spec.holder_identity == ""

    play(scenario)


def test_what_another_one_took_is_not_released() -> None:
    async def scenario(room: Room) -> None:
        elector = room.elector()
        running = room.run(elector)
        await seconds(1)
        running.cancel()
        await room.admin.patch(REF, Merge({"spec": {"holderIdentity": "stranger"}}))
        await elector.release()
        assert room.lease().spec.holder_identity == "stranger"
        assert elector.mandate is None

    play(scenario)


def test_who_does_not_lead_releases_nothing() -> None:
    async def scenario(room: Room) -> None:
        room.put("another")
        elector = room.elector()
        room.run(elector)
        await seconds(1)
        await elector.release()
        assert room.lease().spec.holder_identity == "another"

    play(scenario)


def test_being_cancelled_releases_nothing() -> None:
    async def scenario(room: Room) -> None:
        running = room.run(room.elector())
        await seconds(1)
        running.cancel()
        await seconds(1)
        assert room.lease().spec.holder_identity == "me"

    play(scenario)


def test_le_11_a_leader_makes_a_deleted_lock_anew_in_a_new_term() -> None:
    async def scenario(room: Room) -> None:
        elector = room.elector()
        room.run(elector)
        await seconds(1)
        before = elector.mandate
        await room.admin.delete(REF, Deletion(uid=room.lease().uid))
        await seconds(2 * RETRY)
        assert before is not None
        assert before.is_taken_back
        assert elector.mandate is not None

    play(scenario)


def test_who_leads_is_told_while_the_last_look_is_younger_than_the_lease() -> None:
    async def scenario(room: Room) -> None:
        room.put("another")
        elector = room.elector()
        assert elector.leader == ""
        room.run(elector)
        await seconds(1)
        assert elector.leader == "another"
        room.fault(Hang())
        await seconds(LEASE)
        assert elector.leader == ""

    play(scenario)


class Broken:
    """A lock of which the second write never comes back, not even when it is given up."""

    def __init__(self, lock: LeaseLock) -> None:
        self._lock = lock
        self._writes = 0
        self.over = asyncio.Event()
        self.read = lock.read

    async def write(self, record: Record, version: str | None, seconds: float) -> str:
        self._writes += 1
        while self._writes > 1 and not self.over.is_set():
            try:
                await self.over.wait()
            except asyncio.CancelledError:
                continue
        return await self._lock.write(record, version, seconds)


def test_le_17_a_leader_that_has_not_touched_its_lock_for_a_lease_and_a_tolerance_is_not_alive() -> None:
    async def scenario(room: Room) -> None:
        lock = Broken(LeaseLock(Client(InProcess(room.server, "me"), room.clock), HOME, NAME))
        elector = Elector(lock, Candidate("me"), room.clock, lambda: None)
        room.run(elector)
        await seconds(LEASE + TOLERANCE_SECONDS)
        assert elector.mandate is None, "long before"
        assert elector.not_alive() == ()
        await seconds(1)
        assert elector.not_alive() == ("we lead, and the lock was last renewed 36 s ago, allowed are 35 s",)
        lock.over.set()
        await seconds(1)

    play(scenario)


def test_le_17_a_standby_whose_looks_fail_is_alive() -> None:
    async def scenario(room: Room) -> None:
        room.put("another")
        elector = room.elector()
        room.run(elector)
        await seconds(1)
        room.fault(Hang())
        await seconds(600)
        assert elector.not_alive() == ()

    play(scenario)


def test_who_rests_lets_another_one_lead_and_comes_back() -> None:
    async def scenario(room: Room) -> None:
        elector = room.elector()
        room.run(elector)
        await seconds(5)
        mandate = elector.mandate
        elector.rest(30.0)
        await seconds(0.1)  # it does not sleep on until the next renewal
        assert room.lease().spec.holder_identity == ""
        await seconds(28)
        assert elector.mandate is None
        await seconds(RETRY + 2)
        assert elector.mandate is not None
        assert elector.mandate is not mandate

    play(scenario)

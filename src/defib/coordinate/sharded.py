"""All replicas act, each for its share: one lock for each bucket, kept by the same steps as that of a single leader.

What all of them see is one list of Leases, read every few seconds. What each does about it is decided by `seats`: it
takes the buckets that are its own by preference and free, and gives away, once nothing of them is under way any more,
those that another replica should have.
"""

import asyncio
import math
import re
from typing import NoReturn

import msgspec
import structlog

from defib.clock import Clock
from defib.coordinate.election import (
    FREE,
    Candidate,
    Sight,
    StepDown,
    Take,
    Written,
    failed,
    lost,
    saw,
    stepped_down,
    trying,
    wrote,
)
from defib.coordinate.elector import NOT_READ, NOT_RELEASED, NOT_WRITTEN, TOLERANCE_SECONDS, Elector, let_go, renewed
from defib.coordinate.keys import ADMISSION, ANYBODY, name_of
from defib.coordinate.leadership import REST_SECONDS
from defib.coordinate.lock import MARKED, Found, LeaseLock, found_in
from defib.coordinate.promotion import Led, Promotion
from defib.coordinate.seats import BUCKETS, Member, Outlook, Seat, is_held, looked_at, met, outlook, step_for
from defib.coordinate.shards import bucket_of, spread
from defib.coordinate.trouble import Trouble
from defib.kube.client import Client, Scope
from defib.kube.errors import Conflict, KubeError
from defib.kube.kinds import LEASES
from defib.model.action import Action
from defib.model.mandate import Mandate, Permit
from defib.model.standing import Standing

log = structlog.get_logger("coordinate")

BUCKET_LEASE, MEMBER_LEASE = "defib-bucket-", "defib-member-"
TICKS = 4  # in a retry period


def member_lease(name: str) -> str:
    """Names of replicas may have what names of objects may not; two that would become one are kept apart."""
    plain = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:200]
    return f"{MEMBER_LEASE}{plain}" if plain == name else f"{MEMBER_LEASE}{plain}-{spread(name) & 0xFFFFFFFF:08x}"


class Bucket:
    """One of them, as this replica holds it or not."""

    def __init__(self, number: int, lock: LeaseLock) -> None:
        self.lock = lock
        self.seat = Seat(number)
        self.mandate: Mandate | None = None
        self.is_writing = False
        self.touched = -math.inf  # when our last write ended
        self.terms = 0  # how often it has become ours

    @property
    def number(self) -> int:
        return self.seat.number

    @property
    def sight(self) -> Sight:
        return self.seat.sight

    @property
    def is_ours(self) -> bool:
        return self.seat.is_ours


class Locks(msgspec.Struct, frozen=True, kw_only=True):
    """Where they are, and what that is called by which one leads in everything, where one does."""

    client: Client
    namespace: str
    leader: str

    def lease(self, name: str) -> LeaseLock:
        return LeaseLock(self.client, self.namespace, name)


class Sharded:
    def __init__(self, locks: Locks, me: Candidate, clock: Clock, led: Led) -> None:
        self._locks = locks
        self._me = me
        self._clock = clock
        self._led = led
        self._promotion = Promotion(led)
        self._membership = Elector(locks.lease(member_lease(me.name)), me, clock, led.notice)
        self._members: dict[str, Member] = {}
        self._buckets = [Bucket(number, locks.lease(f"{BUCKET_LEASE}{number}")) for number in range(BUCKETS)]
        self._single = Sight()  # of the lock of a leader in everything: some replicas may not share the work yet
        self._outlook = Outlook()
        self._seen_at = -math.inf
        self._trouble = Trouble()

    # What we may do.

    @property
    def permit(self) -> Permit:
        return self

    def of(self, action: Action) -> Mandate | None:
        name = name_of(action)
        if name == ANYBODY:
            return next(filter(None, map(self._good, self._buckets)), None)
        return self._good(self._of_name(name))

    def _good(self, bucket: Bucket) -> Mandate | None:
        if bucket.mandate is None or bucket.seat.is_leaving or self._is_led_by_one:
            return None
        if not self._promotion.is_good(bucket.mandate):
            return None
        return bucket.mandate

    @property
    def leader(self) -> str:
        """Whoever admits: there is one of them."""
        sight = self._admission.sight
        return (sight.record or FREE).holder if is_held(sight, self._clock.monotonic()) else ""

    @property
    def standing(self) -> Standing:
        now, mandate = self._clock.monotonic(), self._good(self._admission)
        return Standing(
            leads=mandate is not None and mandate.holds(now),
            leader=self.leader,
            terms=self._admission.terms,
            held=sum(bucket.mandate is not None and bucket.mandate.holds(now) for bucket in self._buckets),
            unowned=sum(bucket.seat.idle_since is not None for bucket in self._buckets),
            members=len(self._outlook.members),
        )

    @property
    def holders(self) -> dict[str, tuple[int, ...]]:
        """By replica, the buckets that it holds as far as we see; none for one that is there and holds nothing."""
        now = self._clock.monotonic()
        held: dict[str, list[int]] = {name: [] for name in self._outlook.members}
        for bucket in self._buckets:
            if bucket.sight.record is not None and is_held(bucket.sight, now):
                held.setdefault(bucket.sight.record.holder, []).append(bucket.number)
        return {name: tuple(numbers) for name, numbers in held.items()}

    @property
    def _admission(self) -> Bucket:
        return self._of_name(ADMISSION)

    def _of_name(self, name: str) -> Bucket:
        return self._buckets[bucket_of(name, BUCKETS)]

    def not_alive(self) -> tuple[str, ...]:
        ago, limit = self._clock.monotonic() - self._seen_at, self._me.terms.lease_seconds + TOLERANCE_SECONDS
        if ago <= limit or not any(bucket.is_ours for bucket in self._buckets):
            return ()
        return (f"we hold buckets, and their locks were last seen {ago:.0f} s ago, allowed are {limit:.0f} s",)

    def looks_after(self, node: str) -> bool:
        """Whoever admits moves pods for policies, of all nodes."""
        return self._of_name(node).is_ours or self._admission.is_ours

    def step_aside(self, why: str, node: str = "") -> bool:
        """We leave the group for a while: others then know who should have what we drain and release."""
        is_ours = self.looks_after(node) if node else any(bucket.is_ours for bucket in self._buckets)
        if not why or not is_ours or len(self._outlook.members) < 2:  # noqa: PLR2004  ourselves and another one
            return False
        log.info("the others are to have our buckets", why=why)
        self._membership.rest(REST_SECONDS)
        return True

    # Looking, and keeping.

    async def run(self) -> NoReturn:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._promotion.run(), name="promotion")
            group.create_task(self._membership.run(), name="membership")
            group.create_task(self._look_for_ever(), name="look at locks")
            while True:
                self._tick(group)
                await asyncio.sleep(self._me.terms.retry_seconds / TICKS)

    async def release(self) -> None:
        """First that we go, so that others know who should have what we leave; then all of it at once."""
        await self._membership.release()
        async with asyncio.TaskGroup() as group:
            for bucket in self._buckets:
                if bucket.is_ours:
                    group.create_task(self._give(bucket))

    async def _look_for_ever(self) -> NoReturn:
        while True:
            began = self._clock.monotonic()
            await self._look(began)
            await asyncio.sleep(max(began + self._me.terms.retry_seconds - self._clock.monotonic(), 0.0))

    async def _look(self, began: float) -> None:
        scope = Scope(namespace=self._locks.namespace, labels=MARKED)
        patience = self._me.terms.renew_seconds / 2
        try:
            async with asyncio.timeout(patience):
                page = await self._locks.client.list_all(LEASES, scope, deadline=patience)
        except (KubeError, TimeoutError) as error:
            self._trouble.tell(NOT_READ, error)
            return
        self._seen_at = self._clock.monotonic()
        self._trouble.over(NOT_READ)
        found = {lease.name: found_in(lease) for lease in page.items}
        self._meet(found)
        single = found.get(self._locks.leader, Found())
        self._single = saw(self._single, single.record, single.version, self._seen_at)
        for bucket in self._buckets:
            # What was read before our own write ended may be older than that.
            if not bucket.is_writing and bucket.touched < began:
                there = found.get(f"{BUCKET_LEASE}{bucket.number}", Found())
                self._know(bucket, saw(bucket.sight, there.record, there.version, self._seen_at))

    @property
    def _is_led_by_one(self) -> bool:
        """While replicas that share the work replace those of which one leads, it is that one who acts.

        A standby of it may take the lock right after it was released, or when a lease is over in which nobody renewed
        it. So a look must have shown it unchanged for longer than that takes.
        """
        record, since, terms = self._single.record or self._single.vanished, self._single.since, self._me.terms
        if record is None or since is None:
            return False
        return self._seen_at < since + max(record.lease_seconds, terms.lease_seconds) + terms.renew_seconds

    def _meet(self, found: dict[str, Found]) -> None:
        self._members = {
            name: met(self._members.get(name), one.record, one.version, self._seen_at)
            for name, one in found.items()
            if name.startswith(MEMBER_LEASE) and one.record is not None and one.version is not None
        }

    def _tick(self, group: asyncio.TaskGroup) -> None:
        now, is_led_by_one = self._clock.monotonic(), self._is_led_by_one
        is_member = self._membership.mandate is not None and not is_led_by_one
        self._outlook = outlook(self._me, self._members, now, is_member=is_member)
        for bucket in self._buckets:
            if is_led_by_one and not bucket.is_ours:
                bucket.seat = Seat(bucket.number, bucket.sight)  # nobody neglects what nobody may have
            elif not bucket.is_writing:
                self._step(bucket, now, group)

    def _step(self, bucket: Bucket, now: float, group: asyncio.TaskGroup) -> None:
        was_leaving = bucket.seat.is_leaving
        bucket.seat = looked_at(self._me, self._outlook, bucket.seat, now)
        if bucket.seat.is_leaving != was_leaving:
            self._led.notice()
        if bucket.seat.is_leaving and bucket.mandate is not None and not self._led.is_busy(bucket.mandate):
            bucket.is_writing = True
            group.create_task(self._give(bucket))
            return
        match step_for(self._me, self._outlook, bucket.seat, now, self._clock.now()):
            case Take() as take:
                bucket.is_writing = True
                group.create_task(self._take(bucket, take))
            case StepDown(why):
                log.warning("bucket lost", bucket=bucket.number, why=why)
                self._know(bucket, stepped_down(bucket.sight))

    async def _take(self, bucket: Bucket, take: Take) -> None:
        began, patience = self._clock.monotonic(), self._patience(bucket)
        self._keep(bucket, trying(bucket.sight, take))
        try:
            async with asyncio.timeout(patience):
                version = await bucket.lock.write(take.record, take.version, patience)
        except Conflict:
            self._wrote(bucket, lost(bucket.sight, take, self._clock.monotonic()))
        except (KubeError, TimeoutError) as error:
            self._trouble.tell(NOT_WRITTEN, error)
            self._wrote(bucket, failed(bucket.sight, began))
        else:
            self._trouble.over(NOT_WRITTEN)
            written = Written(take.record, version, began, self._clock.monotonic())
            self._wrote(bucket, wrote(self._me, bucket.sight, written))

    async def _give(self, bucket: Bucket) -> None:
        """Nothing of it is under way any more: another one may have it at once."""
        began, seconds = self._clock.monotonic(), self._patience(bucket)
        self._know(bucket, stepped_down(bucket.sight))
        try:
            async with asyncio.timeout(seconds):
                await let_go(bucket.lock, bucket.sight, self._clock.now(), seconds)
        except (KubeError, TimeoutError) as error:
            self._trouble.tell(NOT_RELEASED, error)
        finally:
            self._wrote(bucket, failed(bucket.sight, began))

    def _patience(self, bucket: Bucket) -> float:
        usual, until = self._me.terms.renew_seconds / 2, bucket.sight.ours_until
        return usual if until is None else max(min(usual, until - self._clock.monotonic()), 0.001)

    # What becomes of what is known.

    def _wrote(self, bucket: Bucket, sight: Sight) -> None:
        bucket.is_writing, bucket.touched = False, self._clock.monotonic()
        self._know(bucket, sight)

    def _know(self, bucket: Bucket, sight: Sight) -> None:
        was_ours, before = bucket.is_ours, bucket.mandate
        self._keep(bucket, sight)
        bucket.mandate = renewed(before, f"{self._me.name}/{bucket.number}", sight)
        if bucket.mandate is not None and bucket.mandate is not before:
            bucket.terms += 1
            self._promotion.gained(bucket.mandate)
        if was_ours != bucket.is_ours:
            log.info("bucket taken" if bucket.is_ours else "bucket given up", bucket=bucket.number)
            self._led.notice()

    def _keep(self, bucket: Bucket, sight: Sight) -> None:
        bucket.seat = msgspec.structs.replace(bucket.seat, sight=sight)

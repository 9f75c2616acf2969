"""The lock of a node: taken, renewed, taken over and given back, and never held by two."""

import asyncio
from datetime import timedelta

import pytest

from defib.act.locks import TRIES
from defib.act.outcome import Done, Held, Outcome, Stale
from defib.kube.client import Merge
from defib.kube.errors import Conflict, Forbidden, ServerFailed
from defib.kube.kinds import LEASES
from defib.model.action import HoldLock, ReleaseLock
from defib.model.node import Lease
from defib.simulate.faults import Fault, LoseAnswer, LoseRequest, Refuse
from defib.simulate.virtual_time import START
from tests.unit.act.stage import LEASE, LOCKS, Stage, play

MINUTE = timedelta(minutes=1)
US = "NodeHealthCheck-c1"


def lease_of(outcome: Outcome) -> Lease:
    assert isinstance(outcome, Done), outcome
    assert isinstance(outcome.result, Lease)
    return outcome.result


def test_a_new_lock_belongs_to_the_node_and_says_who_and_how_long() -> None:
    async def scenario(stage: Stage) -> None:
        await asyncio.sleep(0.123456)  # virtual
        lease_of(await stage.do(HoldLock(claim=stage.claim())))
        (raw,) = stage.objects(LEASE)
        assert raw["metadata"]["name"] == "node-n1"
        assert raw["metadata"]["namespace"] == LOCKS
        uid = stage.uid("nodes", "n1")
        assert raw["metadata"]["ownerReferences"] == [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid}]
        assert raw["spec"] == {
            "holderIdentity": US,
            "leaseDurationSeconds": 660,
            "acquireTime": "2030-01-01T00:00:00.123456Z",
            "renewTime": "2030-01-01T00:00:00.123456Z",
            "leaseTransitions": 0,
        }
        assert stage.asked() == ["create leases 201"]

    play(scenario)


def test_an_own_lock_is_renewed_by_one_request_and_keeps_when_it_was_taken() -> None:
    async def scenario(stage: Stage) -> None:
        known = stage.put_lock(US, renewed=START)
        await asyncio.sleep(30)  # virtual
        lease = lease_of(await stage.do(HoldLock(claim=stage.claim(known=known))))
        assert stage.asked() == ["patch leases 200"]
        assert lease.spec.acquire_time == START
        assert lease.spec.renew_time == START + MINUTE / 2
        assert lease.spec.lease_duration_seconds == 660
        assert lease.spec.lease_transitions == 3
        assert stage.noted == [(LEASE, lease)]

    play(scenario)


def test_an_own_lock_that_had_ended_is_taken_anew() -> None:
    async def scenario(stage: Stage) -> None:
        known = stage.put_lock(US, renewed=START - 2 * MINUTE)
        lease = lease_of(await stage.do(HoldLock(claim=stage.claim(known=known))))
        assert lease.spec.acquire_time == START
        assert lease.spec.lease_transitions == 3

    play(scenario)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_foreign_lock_that_has_ended_is_taken_over(is_known: bool) -> None:
    async def scenario(stage: Stage) -> None:
        there = stage.put_lock("node-maintenance", renewed=START - 2 * MINUTE)
        lease = lease_of(await stage.do(HoldLock(claim=stage.claim(known=there if is_known else None))))
        assert lease.uid == there.uid
        assert lease.spec.holder_identity == US
        assert lease.spec.acquire_time == lease.spec.renew_time == START
        assert lease.spec.lease_transitions == 4

    play(scenario)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_foreign_lock_that_holds_is_respected(is_known: bool) -> None:
    async def scenario(stage: Stage) -> None:
        there = stage.put_lock("node-maintenance", renewed=START)
        claim = stage.claim(known=there if is_known else None)
        assert await stage.do(HoldLock(claim=claim)) == Held("node-maintenance")
        assert stage.lock() == there
        assert stage.noted == []

    play(scenario)


def test_a_foreign_lock_that_was_given_back_meanwhile_is_free() -> None:
    async def scenario(stage: Stage) -> None:
        there = stage.put_lock("node-maintenance", renewed=START)
        stored = stage.server.store.get(LEASE, there.key)
        assert stored is not None
        stage.server.store.remove(LEASE, stored.object)
        lease = lease_of(await stage.do(HoldLock(claim=stage.claim(known=there))))
        assert lease.uid != there.uid

    play(scenario)


def test_a_lock_that_others_took_since_we_looked_is_theirs() -> None:
    async def scenario(stage: Stage) -> None:
        known = stage.put_lock(US, renewed=START - 2 * MINUTE)
        now = {"holderIdentity": "node-maintenance", "renewTime": "2030-01-01T00:00:00.000000Z"}
        await stage.world.patch(LEASES.of(known), Merge({"spec": now}))
        assert await stage.do(HoldLock(claim=stage.claim(known=known))) == Held("node-maintenance")
        assert stage.asked() == ["patch leases 409", "get leases 200"]

    play(scenario)


def test_a_lock_that_vanished_since_we_looked_is_made_anew() -> None:
    async def scenario(stage: Stage) -> None:
        known = stage.put_lock(US, renewed=START)
        stored = stage.server.store.get(LEASE, known.key)
        assert stored is not None
        stage.server.store.remove(LEASE, stored.object)
        lease = lease_of(await stage.do(HoldLock(claim=stage.claim(known=known))))
        assert lease.uid != known.uid
        assert stage.asked() == ["patch leases 404", "get leases 404", "create leases 201"]

    play(scenario)


def test_a_lock_of_an_earlier_node_of_that_name_becomes_the_present_ones_too() -> None:
    """Otherwise the garbage collector would take it from under us."""

    async def scenario(stage: Stage) -> None:
        known = stage.put_lock(US, renewed=START)
        await stage.remove_node("n1")
        stage.add_node("n1")
        lease = lease_of(await stage.do(HoldLock(claim=stage.claim(known=known))))
        before = [owner.uid for owner in known.metadata.owner_references or ()]
        owners = lease.metadata.owner_references or ()
        assert [owner.uid for owner in owners] == [*before, stage.uid("nodes", "n1")]
        assert {(owner.api_version, owner.kind, owner.name) for owner in owners} == {("v1", "Node", "n1")}

    play(scenario)


@pytest.mark.parametrize("effect", [LoseAnswer(), LoseRequest(), Refuse(code=500)])
@pytest.mark.parametrize("verb", ["create", "patch"])
def test_a_write_without_an_answer_is_cleared_up_by_a_look(effect: LoseAnswer | LoseRequest, verb: str) -> None:
    async def scenario(stage: Stage) -> None:
        known = stage.put_lock(US, renewed=START) if verb == "patch" else None
        stage.fault(Fault(effect=effect, verbs=(verb,), resource=LEASE, times=1))
        lease = lease_of(await stage.do(HoldLock(claim=stage.claim(known=known))))
        assert lease.spec.holder_identity == US
        assert stage.lock() == lease

    play(scenario)


@pytest.mark.parametrize(("code", "error"), [(409, Conflict), (500, ServerFailed)])
def test_a_lock_that_cannot_be_won_is_a_failure_after_some_tries(code: int, error: type[Exception]) -> None:
    async def scenario(stage: Stage) -> None:
        known = stage.put_lock(US, renewed=START)
        stage.fault(Fault(effect=Refuse(code=code), verbs=("patch",), resource=LEASE))
        with pytest.raises(error):
            await stage.do(HoldLock(claim=stage.claim(known=known)))
        assert stage.asked().count(f"patch leases {code}") == TRIES

    play(scenario)


def test_a_lock_namespace_that_we_may_not_make_is_a_failure() -> None:
    async def scenario(stage: Stage) -> None:
        stored = stage.server.store.get("namespaces", LOCKS)
        assert stored is not None
        stage.server.store.remove("namespaces", stored.object)
        stage.fault(Fault(effect=Refuse(code=403), verbs=("create",), resource="namespaces"))
        with pytest.raises(Forbidden):
            await stage.do(HoldLock(claim=stage.claim()))

    play(scenario)


def test_many_who_miss_the_lock_namespace_at_once_all_get_their_locks() -> None:
    async def scenario(stage: Stage) -> None:
        stored = stage.server.store.get("namespaces", LOCKS)
        assert stored is not None
        stage.server.store.remove("namespaces", stored.object)
        nodes = [f"w{number}" for number in range(20)]
        for node in nodes:
            stage.add_node(node)
        async with asyncio.TaskGroup() as group:
            doing = [group.create_task(stage.do(HoldLock(claim=stage.claim(node)))) for node in nodes]
        assert [type(task.result()) for task in doing] == [Done] * 20
        assert len(stage.objects(LEASE)) == 20

    play(scenario)


@pytest.mark.parametrize("seed", range(5))
def test_of_many_who_want_one_lock_exactly_one_holds_it(seed: int) -> None:
    async def scenario(stage: Stage) -> None:
        known = stage.put_lock("node-maintenance", renewed=START - 2 * MINUTE)
        checks = [f"c{number}" for number in range(8)]
        claims = [stage.claim(check=check, known=known if stage.clock.jitter(1) < 0.5 else None) for check in checks]
        async with asyncio.TaskGroup() as group:
            doing = [group.create_task(stage.do(HoldLock(claim=claim))) for claim in claims]
        holders = [claim.holder for claim, task in zip(claims, doing, strict=True) if isinstance(task.result(), Done)]
        lock = stage.lock()
        assert lock is not None
        assert [lock.spec.holder_identity] == holders
        assert {task.result() for task in doing if isinstance(task.result(), Held)} == {Held(holders[0])}

    play(scenario, seed=seed)


def release(lease: Lease) -> ReleaseLock:
    version = lease.metadata.resource_version
    return ReleaseLock(node="n1", namespace=LOCKS, name=lease.name, uid=lease.uid, version=version)


def test_a_lock_is_given_back() -> None:
    async def scenario(stage: Stage) -> None:
        lease = stage.put_lock(US, renewed=START)
        assert await stage.do(release(lease)) == Done()
        assert stage.lock() is None
        assert stage.asked() == ["delete leases 200"]

    play(scenario)


def test_a_lock_that_somebody_took_over_is_not_given_back() -> None:
    async def scenario(stage: Stage) -> None:
        lease = stage.put_lock(US, renewed=START)
        await stage.world.patch(LEASES.of(lease), Merge({"spec": {"holderIdentity": "node-maintenance"}}))
        outcome = await stage.do(release(lease))
        assert outcome == Stale("the lock of node n1 is no longer the one we knew")
        lock = stage.lock()
        assert lock is not None
        assert lock.spec.holder_identity == "node-maintenance"

    play(scenario)


def test_a_lock_that_is_gone_is_not_given_back_twice() -> None:
    async def scenario(stage: Stage) -> None:
        lease = stage.put_lock(US, renewed=START)
        assert await stage.do(release(lease)) == Done()
        assert isinstance(await stage.do(release(lease)), Stale)

    play(scenario)

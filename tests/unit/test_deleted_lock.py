"""Somebody deletes the lock of a leader that is well, or the whole namespace: two lead for a moment at most."""

from defib.kube.client import Deletion
from defib.kube.kinds import LEASES
from defib.simulate.faults import Fault, Refuse
from tests.unit.three_nodes import HOME, Cluster3, seconds
from tests.unit.three_replicas import LEASE, LOCK, MOMENT, RETRY, Replicas, together

LOCK_REF = LEASES.at(LOCK, HOME)
STEP = 0.01
PER_SECOND = 2  # a look and a try in each retry period, and something to spare


async def delete_lock(stage: Cluster3) -> None:
    lease = await stage.admin.get(LOCK_REF)
    await stage.admin.delete(LOCK_REF, Deletion(uid=lease.uid))


async def right_after_a_renewal(replicas: Replicas) -> None:
    """When it is longest until the leader looks again."""
    renewed = replicas.last_renewal
    while replicas.last_renewal == renewed:
        await seconds(STEP)


async def led_twice(replicas: Replicas, length: float) -> float:
    """For how long two led, in the course of so many seconds."""
    both = 0
    for _ in range(round(length / STEP)):
        await seconds(STEP)
        both += len(replicas.leaders) > 1
    return both * STEP


def asked(replicas: Replicas, name: str) -> int:
    return sum(one.client == name and "/leases/" in f"{one.path}/" for one in replicas.server.audit)


def test_le_11_a_lock_that_is_deleted_and_taken_by_a_newcomer_has_two_holders_for_a_retry_period_at_most() -> None:
    """To one who never saw the lock this is a first start, so it need not wait. The leader finds out when it renews."""

    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        replicas.start("a")
        await replicas.until_leads("a", 1.0)
        await replicas.pass_by(5)
        await right_after_a_renewal(replicas)
        await delete_lock(stage)
        replicas.start("b")
        assert await led_twice(replicas, 2 * LEASE) <= RETRY + MOMENT
        assert replicas.leaders == ["b"]

    together(scenario)


def test_le_11_a_leader_whose_lock_is_gone_looks_at_once_and_makes_it_anew() -> None:
    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        replicas.start("a")
        await replicas.until_leads("a", 1.0)
        replicas.start("b")
        await replicas.pass_by(5)
        await right_after_a_renewal(replicas)
        await delete_lock(stage)
        deleted, writes = replicas.clock.monotonic(), len(replicas.held)
        while len(replicas.held) == writes:
            await seconds(STEP)
        assert replicas.last_renewal - deleted <= RETRY + MOMENT
        assert replicas.held[-1].holder == "a"
        assert await replicas.pass_by(LEASE) == {"a"}

    together(scenario)


def test_a_namespace_that_is_not_there_is_not_asked_for_in_a_hot_loop() -> None:
    async def scenario(replicas: Replicas, _: Cluster3) -> None:
        replicas.start("a", namespace="nowhere")
        assert await replicas.pass_by(60) == set()
        assert 60 / RETRY <= asked(replicas, "a") <= 60 * PER_SECOND

    together(scenario)


def test_a_lock_that_can_be_read_and_is_not_found_when_it_is_written_is_no_hot_loop() -> None:
    """A proxy that knows no PATCH, say."""

    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        replicas.start("a")
        await replicas.until_leads("a", 1.0)
        await replicas.pass_by(5)
        unknown = Fault(effect=Refuse(code=404), verbs=("patch",), resource=str(LEASES), name=LOCK)
        stage.server.faults.inject(unknown)
        before = asked(replicas, "a")
        await replicas.pass_by(60)
        assert asked(replicas, "a") - before <= 60 * PER_SECOND

    together(scenario)

"""A leader that cannot do its work lets another one lead: in order, once, and not for ever."""

from datetime import timedelta

import pytest

from defib.app import ASIDE_BLIND_SECONDS, ASIDE_PAUSE_SECONDS
from defib.coordinate.leadership import REST_SECONDS
from defib.kube.kinds import NODES
from defib.simulate.faults import Fault, Hang, Refuse
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run
from tests import sharded_replicas
from tests.unit.three_nodes import FAILOVERS, Cluster3, seconds
from tests.unit.three_replicas import LEASE, MOMENT, RETRY, SICK, Replica, Replicas, creations, together

SOON = ASIDE_BLIND_SECONDS / 2  # how late it may become aware of it
STEP = 0.01


async def two(replicas: Replicas) -> Replica:
    """a leads."""
    a = replicas.start("a")
    await replicas.until_leads("a", 1.0)
    replicas.start("b")
    await replicas.pass_by(5)
    return a


def blind(server: ApiServer, *names: str) -> None:
    """Their streams end, and no new one comes to be."""
    for name in names:
        server.faults.inject(Fault(effect=Refuse(code=503), verbs=("list", "watch"), resource=str(NODES), client=name))
        server.partition(name)
        server.heal(name)


def test_who_steps_aside_gives_the_lock_back_at_once_and_does_nothing_after_that() -> None:
    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        a = await two(replicas)
        renewed = replicas.last_renewal
        while replicas.last_renewal == renewed:
            await seconds(STEP)  # now it sleeps until the next renewal
        assert a.operator.leadership.step_aside("a test wants it")
        a.operator.notice()  # and whatever happens makes the next pass, which knows of no reason
        await seconds(STEP)
        assert (replicas.held[-1].holder, a.mandate) == ("", None)
        await stage.turn("Unknown")
        await replicas.until_leads("b", RETRY + MOMENT)
        assert await replicas.pass_by(REST_SECONDS + LEASE) == {"b"}
        assert creations(replicas) == ["b"]

    together(scenario)


@pytest.mark.parametrize("early", [0.0, 0.4, 0.8, 1.2, 1.6])
def test_nothing_is_under_way_when_the_lock_is_given_back(early: float) -> None:
    """Whenever it steps aside: a moment before something is to be begun, or while that hangs."""

    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        a = await two(replicas)
        hangs = Fault(effect=Hang(), verbs=("create",), resource=str(FAILOVERS), client="a")
        stage.server.faults.inject(hangs)
        await stage.turn("Unknown")
        await replicas.pass_by(SICK + 1 - early)
        mandate = a.mandate
        assert mandate is not None
        while not a.operator.leadership.step_aside("a test wants it"):
            await seconds(STEP)
        while replicas.held[-1].holder == "a":
            a.operator.notice()
            await seconds(STEP)
            assert not a.operator.is_busy(mandate)
        await replicas.until_leads("b", 2 * RETRY)

    together(scenario)


def test_who_has_stepped_aside_and_finds_nobody_leads_again() -> None:
    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        a = replicas.start("a")
        await replicas.until_leads("a", 1.0)
        before = a.mandate
        assert a.operator.leadership.step_aside("a test wants it")
        assert await replicas.pass_by(REST_SECONDS - MOMENT) == set()
        await replicas.until_leads("a", RETRY + 2 * MOMENT)
        assert a.mandate is not before
        await stage.turn("Unknown")
        await replicas.pass_by(2 * SICK)
        assert creations(replicas) == ["a"]

    together(scenario)


def test_a_leader_that_cannot_see_nodes_steps_aside_for_one_that_can() -> None:
    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        await two(replicas)
        blind(stage.server, "a")
        await stage.turn("Unknown")
        assert await replicas.pass_by(ASIDE_BLIND_SECONDS - 1) == {"a"}
        await replicas.until_leads("b", SOON + RETRY + 1)
        assert await replicas.pass_by(2 * ASIDE_PAUSE_SECONDS) == {"b"}
        assert creations(replicas) == ["b"]
        assert stage.leaving() == ["web-1", "web-2"]

    together(scenario)


@pytest.mark.parametrize("quiet", [5, 50, 300])
def test_a_short_blindness_costs_nobody_the_lead(quiet: float) -> None:
    """Also where nothing was heard for long before, since there was nothing to tell."""

    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        await two(replicas)
        await replicas.pass_by(quiet)
        blind(stage.server, "a")
        await replicas.pass_by(10)
        stage.server.faults.clear()
        assert await replicas.pass_by(2 * ASIDE_BLIND_SECONDS) == {"a"}

    together(scenario)


def test_a_leader_that_sees_nothing_and_is_alone_comes_back_and_stays_for_ten_minutes() -> None:
    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        replicas.start("a")
        await replicas.until_leads("a", 1.0)
        blind(stage.server, "a")
        await replicas.pass_by(2 * ASIDE_PAUSE_SECONDS)
        let_go = [held.at for held in replicas.held if held.holder == ""]
        assert len(let_go) == 2
        assert let_go[1] - let_go[0] >= ASIDE_PAUSE_SECONDS
        back = next(held.at for held in replicas.held if held.at > let_go[0])
        assert back - let_go[0] <= REST_SECONDS + RETRY + MOMENT

    together(scenario)


@pytest.mark.parametrize("others", [(), ("b",)])
def test_of_those_who_share_the_work_one_that_sees_nothing_hands_over_if_there_is_another_one(
    others: tuple[str, ...],
) -> None:
    async def main(clock: VirtualClock) -> None:
        server = ApiServer(clock)
        server.put("namespaces", {"metadata": {"name": sharded_replicas.HOME}})
        server.put("nodes", {"metadata": {"name": "n1"}})
        async with sharded_replicas.replicas_on(server, clock) as replicas:
            replicas.start("a", *others)
            assert set((await replicas.settle()).shares) == {"a", *others}
            blind(server, "a")
            await sharded_replicas.seconds(ASIDE_BLIND_SECONDS + SOON + 2 * RETRY)
            assert set(replicas.holders.shares) == ({*others} or {"a"})
            assert replicas.holders.unowned == []

    run(main, limit=timedelta(hours=1))

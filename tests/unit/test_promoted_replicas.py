"""A replica that has just been promoted looks at everything before its first write, and what it would do if it did not."""

import asyncio
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from defib.coordinate.election import Candidate
from defib.coordinate.elector import Elector
from defib.coordinate.leadership import Single
from defib.coordinate.lock import LeaseLock
from defib.kube.client import Client
from defib.kube.kinds import NODE_HEALTH_CHECKS
from defib.model.incident import Phase
from defib.model.mandate import Mandate
from defib.model.node import OUT_OF_SERVICE
from defib.observe.cache import NOT_SEEN_AGAIN
from defib.simulate.faults import Fault, Hang, LateEvents, RequestEffect, Slow
from defib.simulate.in_process import InProcess
from defib.simulate.store import Change
from defib.simulate.virtual_time import VirtualClock, run
from tests.mortal_operator import Life
from tests.power_cycle_crash import Plot, begin
from tests.power_cycle_stage import Stage, a_stage
from tests.unit.three_nodes import FAILOVERS, HOME, Cluster3
from tests.unit.three_replicas import LEASE, LEASES, LOCK, MOMENT, RETRY, SICK, Replica, Replicas, creations, together

REMEDIES = str(FAILOVERS)
CATCHES_UP_WITHIN = 10.0


class Hasty:
    """What is led, without its wish to know first what was done last."""

    def __init__(self, replica: Replica) -> None:
        self._operator = replica.operator

    def notice(self) -> None:
        self._operator.notice()

    async def catch_up(self) -> None:
        return

    def is_busy(self, mandate: Mandate) -> bool:
        return self._operator.is_busy(mandate)


async def _after_a_blind_promotion(replicas: Replicas, stage: Cluster3, *, hasty: bool) -> list[str]:
    """b hears of nothing that happens to remediations and locks. a makes one, and dies. What b asks for from then on."""
    replicas.start("a")
    await replicas.until_leads("a", 1.0)
    b = replicas.start("b")
    if hasty:
        clock = replicas.clock
        lock = LeaseLock(Client(InProcess(stage.server, "b"), clock), HOME, LOCK)
        b.operator.leadership = Single(Hasty(b), lambda changed: Elector(lock, Candidate("b"), clock, changed))
    await replicas.pass_by(5)
    stage.server.partition("b")
    late = LateEvents(seconds=3000)  # of watches that are opened from now on
    for kind in (REMEDIES, LEASES, str(NODE_HEALTH_CHECKS)):
        stage.server.faults.inject(Fault(effect=late, verbs=("watch",), resource=kind, client="b"))
    stage.server.heal("b")
    await replicas.pass_by(5)
    await stage.turn("Unknown")
    await replicas.pass_by(SICK + 1)
    stage.server.faults.clear()
    assert creations(replicas) == ["a"]
    replicas.all[0].kill()
    await replicas.until_leads("b", LEASE + RETRY + MOMENT)
    await replicas.pass_by(60)
    asked = [one for one in stage.server.audit if one.client == "b"]
    taken = next(place for place, one in enumerate(asked) if one.is_write)
    return [f"{one.verb} {one.path.rpartition('/')[2]}" for one in asked[taken + 1 :]]


@pytest.mark.parametrize("hasty", [False, True])
def test_le_13_a_new_leader_looks_at_everything_before_its_first_write(hasty: bool) -> None:
    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        asked = await _after_a_blind_promotion(replicas, stage, hasty=hasty)
        tried = [one for one in asked if one == "create podfailoverremediations"]
        looked = {one.split()[1] for one in asked[: next(n for n, one in enumerate(asked) if is_write(one))]}
        assert creations(replicas) == ["a"], "their names keep them apart, whatever we believe"
        if hasty:
            assert tried, "without a look it believes that nothing was begun"
        else:
            assert tried == []
            assert {"podfailoverremediations", "nodehealthchecks", "leases", "nodeincidents"} <= looked

    together(scenario)


def is_write(asked: str) -> bool:
    return asked.split(maxsplit=1)[0] in ("create", "patch", "delete", "update") and not asked.endswith(LOCK)


@pytest.mark.parametrize("effect", [Hang(), Slow(seconds=CATCHES_UP_WITHIN + 1)])
def test_one_kind_that_hangs_does_not_keep_a_new_leader_from_leading(effect: RequestEffect) -> None:
    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        replicas.start("a")
        await replicas.until_leads("a", 1.0)
        replicas.start("b")
        await replicas.pass_by(10)
        stage.server.faults.inject(Fault(effect=effect, verbs=("list", "watch"), resource="configmaps"))
        replicas.all[0].kill()
        with capture_logs() as told:
            await replicas.until_leads("b", LEASE + RETRY + CATCHES_UP_WITHIN + MOMENT)
        assert [one["kinds"] for one in told if one["event"] == NOT_SEEN_AGAIN] == [["configmaps"]]
        assert [one["seconds"] for one in told if one["event"] == "caught up, acting"] == [CATCHES_UP_WITHIN]
        await stage.turn("Unknown")
        await replicas.pass_by(2 * SICK)
        is_over = isinstance(effect, Slow)
        assert (stage.leaving() != []) is is_over, "the brake is in there: nobody acts before it is seen again"
        stage.server.faults.clear()
        await replicas.pass_by(240)
        assert stage.leaving() == ["web-1", "web-2"]

    together(scenario)


async def _dies_while_it_restores(stage: Stage, life: Life) -> None:
    await begin(stage, Plot(way="hollow", workloads="OutOfServiceTaint", fault="hangs"))

    def noticed(_: Change) -> None:
        life.is_dead = life.is_dead or stage.phase == Phase.RESTORING

    stage.server.reactions.append(noticed)
    assert await stage.until(lambda: life.is_dead)
    assert _is_tainted(stage)


def _is_tainted(stage: Stage) -> bool:
    assert stage.node is not None
    return OUT_OF_SERVICE in [taint["key"] for taint in stage.node["spec"].get("taints") or ()]


@pytest.mark.parametrize("lasts", [False, True])
def test_le_13_a_leader_that_heard_late_of_nodes_does_not_leave_a_taint_behind(lasts: bool) -> None:
    """Its last picture of the node is from before it was tainted."""

    async def main(clock: VirtualClock) -> None:
        async with a_stage(clock) as stage, stage.operator(client="a", election="lease", replica_name="a") as a:
            await asyncio.sleep(3)  # virtual; a leads
            async with stage.operator(client="b", election="lease", replica_name="b"):
                await asyncio.sleep(3)  # virtual
                stage.server.partition("b")
                late = LateEvents(seconds=30)
                stage.server.faults.inject(Fault(effect=late, verbs=("watch",), resource="nodes", client="b"))
                stage.server.heal("b")
                await asyncio.sleep(20)  # virtual
                await _dies_while_it_restores(stage, a)
                if not lasts:
                    stage.server.faults.clear()
                assert await stage.until(lambda: stage.phase == Phase.CLOSED, 400)
                assert not _is_tainted(stage)

    run(main, limit=timedelta(hours=1))

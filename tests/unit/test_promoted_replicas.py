"""A replica that has just been promoted looks at everything before its first write, and what it would do if it did not."""

import pytest

from defib.coordinate.election import Candidate
from defib.coordinate.elector import Elector
from defib.coordinate.leadership import Single
from defib.coordinate.lock import LeaseLock
from defib.kube.client import Client
from defib.kube.kinds import NODE_HEALTH_CHECKS
from defib.model.mandate import Mandate
from defib.simulate.faults import Fault, LateEvents
from defib.simulate.in_process import InProcess
from tests.unit.three_nodes import FAILOVERS, HOME, Cluster3
from tests.unit.three_replicas import LEASE, LEASES, LOCK, MOMENT, RETRY, SICK, Replica, Replicas, creations, together

REMEDIES = str(FAILOVERS)


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

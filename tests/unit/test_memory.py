"""What an action has found out is remembered for the next pass, and for as long as that asks for it."""

import msgspec

from defib.act.outcome import ClaimRead, Failed, Stale
from defib.decide.failover.plan import Failover
from defib.decide.failover.todo import Todo
from defib.decide.remediators import NO_WORK, OwnWork
from defib.kube.client import Client
from defib.memory import Memory
from defib.model.action import ReadClaim
from defib.model.cluster import Cluster
from defib.observe.cache import Cache
from defib.observe.watch import Patience
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run
from tests.builders import T0
from tests.unit.decide.failover.failovers import RWX

ASK = ReadClaim("apps", "data")


class Nobody:
    def heard(self, name: str, events: int, news: int) -> None: ...

    def changed(self, name: str) -> None: ...

    def relisted(self, name: str, reason: str) -> None: ...

    def sight_changed(self, name: str) -> None: ...


def remembering(story: object) -> None:
    async def main(clock: VirtualClock) -> None:
        client = Client(InProcess(ApiServer(clock), client="us"), clock)
        assert callable(story)
        story(Memory(Cache(client, clock, Nobody(), Patience(stall_seconds=90)), clock))

    run(main)


def needing(*claims: str) -> OwnWork:
    failover = Failover(remediations=Todo(claims=frozenset(claims)))
    return msgspec.structs.replace(NO_WORK, failover=failover)


def test_the_modes_of_a_claim_are_kept_while_a_plan_needs_them() -> None:
    def story(memory: Memory) -> None:
        memory.remember(ASK, ClaimRead(RWX))
        memory.keep_only(needing("apps/data"), Cluster(now=T0))
        assert memory.claims.modes == {"apps/data": RWX}
        memory.keep_only(NO_WORK, Cluster(now=T0))
        assert memory.claims.modes == {}

    remembering(story)


def test_what_could_not_be_read_is_not_remembered_as_if_it_had_been() -> None:
    def story(memory: Memory) -> None:
        for outcome in (Failed("forbidden"), Stale("gone")):
            memory.remember(ASK, outcome)
        assert memory.claims.modes == {}

    remembering(story)

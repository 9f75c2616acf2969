"""Of three operators that share the work, one dies at each deed of a power cycle, before it or after it."""

import pytest

from tests.mortal_operator import Doom
from tests.power_cycle_crash import Plot, begin, end
from tests.power_cycle_stage import HOME, VICTIM, Stage
from tests.unit.test_sharded_operators import THREE_NODES, cycled, play, sharing

LOCKS = f"/namespaces/{HOME}/leases"
DEEDS = 42  # from the finalizer of the remediation to its end
PARTS = 7
PLOT = Plot(way="hollow", workloads="OutOfServiceTaint", fault="hangs")


class NthDeed(Doom, frozen=True, kw_only=True):
    """With the deed of this number, of those that are not about who has which bucket."""

    nth: int
    seen: list[str]

    def means(self, number: int, deed: str) -> bool:  # noqa: ARG002  that number counts all of them
        if LOCKS in deed:
            return False
        self.seen.append(deed)
        return len(self.seen) == self.nth


def left_after(nth: int, *, after: bool) -> list[str]:
    """`c` admits, and looks after the machine."""
    left: list[str] = []

    async def scene(stage: Stage) -> None:
        async with sharing(stage, {"c": NthDeed(nth=nth, seen=[], after=after)}) as lives:
            await begin(stage, PLOT)
            left.extend(await end(stage))
            left.extend(stage.leftovers())
            left.extend([] if lives["c"].is_dead else ["nobody has died"])
            left.extend([] if cycled(stage, VICTIM) == [False, True] else [f"power: {cycled(stage, VICTIM)}"])

    play(scene, nodes=THREE_NODES)
    return left


@pytest.mark.timeout(120)
@pytest.mark.parametrize("part", range(PARTS))
def test_whichever_deed_a_replica_dies_at_the_others_finish_its_power_cycle(part: int) -> None:
    cases = [(nth, after) for nth in range(1 + part, DEEDS + 1, PARTS) for after in (False, True)]
    assert {case: left for case in cases if (left := left_after(case[0], after=case[1]))} == {}


def test_the_deeds_of_a_power_cycle_are_as_many_as_are_tried() -> None:
    seen: list[str] = []

    async def scene(stage: Stage) -> None:
        async with sharing(stage, {"c": NthDeed(nth=1000, seen=seen)}):
            await begin(stage, PLOT)
            assert await end(stage) == []

    play(scene, nodes=THREE_NODES)
    assert len(seen) == DEEDS, seen

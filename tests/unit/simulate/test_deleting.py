"""Time passes between two deletions of a pod: what the second one counts from."""

import asyncio
from datetime import datetime, timedelta

from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import START
from tests.unit.simulate.asking import PODS, Asker, a_pod, simulated

POD = f"{PODS}/p"


async def told_to_leave(asker: Asker, *graces: int | None) -> tuple[datetime, int]:
    """Once a minute, with this grace each; when it is to end then, and the grace that is left to it."""
    await asker.create(PODS, a_pod("p"))
    for grace in graces:
        await asker.delete(POD, **({} if grace is None else {"gracePeriodSeconds": grace}))
        await asyncio.sleep(60)  # virtual
    meta = (await asker.get(POD))["metadata"]
    return datetime.fromisoformat(meta["deletionTimestamp"]), meta["deletionGracePeriodSeconds"]


def test_a_shorter_grace_counts_from_the_first_deletion() -> None:
    async def story(_server: ApiServer, asker: Asker) -> None:
        assert await told_to_leave(asker, 300, 10) == (START + timedelta(seconds=10), 10)

    simulated(story)


def test_a_deletion_without_a_grace_or_with_a_longer_one_leaves_all_as_it_is() -> None:
    async def story(_server: ApiServer, asker: Asker) -> None:
        assert await told_to_leave(asker, 300, None, 600, -1, 2) == (START + timedelta(seconds=1), 1)

    simulated(story)


def test_it_is_gone_when_the_second_one_gives_it_no_time_at_all() -> None:
    async def story(_server: ApiServer, asker: Asker) -> None:
        await told_to_leave(asker, 300)
        await asker.delete(POD, gracePeriodSeconds=0)
        assert not await asker.exists(POD)

    simulated(story)

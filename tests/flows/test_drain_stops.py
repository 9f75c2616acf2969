"""Whatever the guide tells to do when a drain has to stop, stops it: nothing more is done, and the lock is given back."""

from collections.abc import Awaitable, Callable

import pytest

from defib.kube.client import Merge
from defib.kube.kinds import PODS
from defib.model.node_drain import APPROVED_UNTIL
from defib.model.pod_failover import KEEP
from tests.drain_stage import EVICT, Stage, play
from tests.failover_stage import SHOP
from tests.unit.test_drain_guide import rows

Stop = Callable[[Stage], Awaitable[None]]


async def pull_the_brake(stage: Stage) -> None:
    await stage.brake()


async def only_observe(stage: Stage) -> None:
    await stage.change_policy(mode="Observe")


async def uncordon_it(stage: Stage) -> None:
    await stage.uncordon("n1")


async def take_the_approval_back(stage: Stage) -> None:
    await stage.annotate("n1", **{APPROVED_UNTIL: None})


async def keep_the_pod(stage: Stage) -> None:
    await stage.person.patch(PODS.at("web-1", SHOP), Merge({"metadata": {"annotations": {KEEP: ""}}}))


async def never_pass_over_budgets(stage: Stage) -> None:
    await stage.change_policy(strategies={"pdbDelete": False})


# In the order of the guide: what is done, and how it stands then.
STOPS: list[tuple[Stop, str]] = [
    (pull_the_brake, "Held Brake"),
    (only_observe, "Observed"),
    (uncordon_it, "Paused"),
    (take_the_approval_back, "WaitingForApproval"),
    (keep_the_pod, "Watching"),
]


def test_the_guide_tells_of_these_and_no_others() -> None:
    assert len(rows("Stop it")) == len(STOPS) + 1


@pytest.mark.parametrize(("stop", "stands"), STOPS)
def test_a_drain_at_work_is_stopped_by_what_the_guide_tells(stop: Stop, stands: str) -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.budget()
        await stage.drain_policy(mode="Approve")
        async with stage.operator():
            await stage.annotate("n1", **{APPROVED_UNTIL: "2099-01-01T00:00:00Z"})
            await stage.cordon("n1")
            await stage.until(40)
            assert (stage.stands(), stage.holder()) == ("Forcing", "defib-drain")
            await stop(stage)
            await stage.seconds(5)
            assert (stage.stands(), stage.holder()) == (stands, "")
            before = len(stage.done)
            await stage.minutes(8)
            assert stage.stands() == stands
            await stage.until(100)
            assert (len(stage.done), stage.there()) == (before, ["web-1"])

    play(story)


def test_with_the_strategy_for_that_off_pods_are_never_deleted_past_their_budget() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.budget()
        await stage.drain_policy()
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(40)
            await never_pass_over_budgets(stage)
            await stage.until(200)
            assert ({one.rung for one in stage.done}, stage.there()) == ({EVICT}, ["web-1"])

    play(story)

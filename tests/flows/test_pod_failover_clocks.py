"""Nodes of which the clock is wrong, and nodes that change between the decision about a pod and its deletion."""

from datetime import timedelta

import pytest

from defib.kube.client import Merge
from defib.kube.kinds import NODES
from defib.kube.transport import Request
from tests.failover_stage import Stage, play

TOLERATES_ALL = [{"operator": "Exists"}]
WEB = ["web-1", "web-2"]


@pytest.mark.parametrize("ahead", [timedelta(hours=1), None])
def test_a_failure_of_which_the_time_is_wrong_counts_from_when_it_was_seen(ahead: timedelta | None) -> None:
    """The time to wait passes, and a pod that is put there again and again is not deleted for ever."""

    async def story(stage: Stage) -> None:
        await stage.policy(dwell="30s")
        stage.pod("web-0", tolerations=TOLERATES_ALL)
        async with stage.operator():
            await stage.seconds(5)
            ready = {"type": "Ready", "status": "False"}
            if ahead is not None:
                ready["lastTransitionTime"] = f"{stage.clock.now() + ahead:%Y-%m-%dT%H:%M:%SZ}"
            await stage.person.patch(NODES.at("n1"), Merge({"status": {"conditions": [ready]}}), subresource="status")
            await stage.seconds(29)
            assert stage.tried == []
            await stage.seconds(3)
            assert stage.tried == ["web-0"]
            stage.pod("web-1", tolerations=TOLERATES_ALL)
            await stage.seconds(2 * 3600)
            assert stage.tried == ["web-0"]

    play(story)


@pytest.mark.parametrize(("planned", "found"), [("True", "Unknown"), ("Unknown", "True")])
def test_i1_what_was_planned_for_a_taint_is_not_done_to_a_node_that_is_not_ready_nor_the_other_way_round(
    planned: str, found: str
) -> None:
    """The node changes right before it is looked at for the last time."""

    async def story(stage: Stage) -> None:
        for name in ("db-0", "web-1"):
            stage.pod(name, terminationGracePeriodSeconds=0)
        stage.pod("web-2", tolerations=TOLERATES_ALL)
        await stage.policy(taints=["example.com/y"], deletion={"mode": "Graceful"})
        await stage.taint("n1", ("example.com/y", "NoSchedule"))
        await stage.turn("n1", ready=planned)
        await stage.seconds(2)
        turned: list[str] = []

        async def before(request: Request) -> None:
            if not turned and request.method == "GET" and request.path.endswith("/nodes/n1"):
                turned.append(found)
                await stage.turn("n1", ready=found)

        stage.before = before
        async with stage.operator():
            await stage.seconds(30)
        alive = {"db-0": 1, "web-1": 1}  # each has a second, and who does not mind the taint stays
        assert turned
        assert {one.pod: one.grace for one in stage.deleted} == (alive if found == "True" else dict.fromkeys(WEB))

    play(story)

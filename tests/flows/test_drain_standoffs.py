"""Whoever is in somebody's way finds an end to it: nobody fights for a lock for ever, turns in circles, or forgets who
else is at work, also not in the first moments after a start or with a record that nobody can have written.
"""

import asyncio

import pytest

from defib.kube.client import Merge
from defib.kube.errors import Unreachable
from defib.kube.transport import Request
from tests.drain_stage import DRAINS, EVICT, NEVER, Stage, play
from tests.failover_stage import FAILOVERS, HOME, Running
from tests.flows.test_drain_exclusion import DRAIN_HAS_IT, fail_drained, forcing


def passes(running: Running) -> float:
    return running.measures("defib_pass_seconds_count") or 0.0


@pytest.mark.parametrize("why", ["Budget", "Paused"])
def test_shx_01_a_drain_keeps_its_lock_where_a_policy_would_wait_for_something_else_anyway(why: str) -> None:
    """Else they would hand it to and fro, and write so into the cluster, a hundred times a second."""

    async def story(stage: Stage) -> None:
        await stage.policy()
        if why == "Paused":
            await stage.check(pauseRequests=["a person"])
        stage.pod("web-2", "n2")
        async with stage.operator(failover_max_unhealthy="1"):
            if why == "Budget":
                await stage.turn("n2", ready="Unknown")
            await forcing(stage, maxForcedNodes=5)
            stage.pod("web-1", habit=NEVER)
            stage.dead.add("n1")
            await fail_drained(stage)
            await stage.seconds(10)
            stage.writes.clear()
            await stage.seconds(30)
            assert (stage.stands(), stage.holder()) == ("Forcing", DRAIN_HAS_IT)
            assert (stage.entry("n1")["state"], stage.entry("n1")["reason"]) == ("Held", why)
            assert len(stage.writes) < 5

    play(story)


def test_shx_01_a_drain_gives_way_to_a_remediation_that_a_person_made() -> None:
    """No NodeHealthCheck knows of it."""

    async def story(stage: Stage) -> None:
        async with stage.operator():
            await forcing(stage)
            stage.dead.add("n1")
            await fail_drained(stage)
            await stage.person.create(FAILOVERS, {"metadata": {"name": "n1"}, "spec": {}}, namespace=HOME)
            await stage.seconds(5)
            assert (stage.stands(), stage.holder()) == ("Held Remediation", "")
            assert "PodFailoverRemediation" in stage.drain()["message"]
            before = len(stage.done)
            await stage.until(70)
            assert (len(stage.done), stage.there()) == (before, ["db-0"])

    play(story)


def test_a_lock_whose_renewal_hangs_causes_no_passes() -> None:
    async def hang(request: Request) -> None:
        if request.method == "PATCH" and request.path.endswith("/leases/node-n1"):
            await asyncio.sleep(9)  # virtual
            raise Unreachable("no answer")

    async def story(stage: Stage) -> None:
        async with stage.operator() as running:
            await forcing(stage)
            stage.before = hang
            before = passes(running)
            await stage.minutes(3)
            assert passes(running) - before < 60

    play(story)


async def drains_are_listed_late(request: Request) -> None:
    if request.method == "GET" and request.path.endswith("/nodedrains"):
        await asyncio.sleep(25)  # virtual


def test_shx_03_after_a_start_no_check_remediates_before_it_knows_which_nodes_are_forced() -> None:
    async def story(stage: Stage) -> None:
        await stage.check(guards={"maxInFlight": 1})
        async with stage.operator():
            await forcing(stage)
        stage.before = drains_are_listed_late
        await stage.turn("n2", ready="Unknown")
        await stage.seconds(30)
        async with stage.operator():
            await stage.until(59)
            assert stage.all(str(FAILOVERS)) == []
            await stage.until(63)
            assert (stage.stands(), len(stage.all(str(FAILOVERS)))) == ("Drained", 1)

    play(story)


def test_shx_03_after_a_start_no_pod_is_moved_before_it_is_known_which_nodes_are_forced() -> None:
    async def story(stage: Stage) -> None:
        await stage.policy()
        stage.pod("web-2", "n2")
        async with stage.operator(failover_max_unhealthy="1"):
            await forcing(stage)
        stage.before = drains_are_listed_late
        await stage.turn("n2", ready="Unknown")
        await stage.seconds(30)
        async with stage.operator(failover_max_unhealthy="1"):
            await stage.until(59)
            assert stage.there("n2") == ["web-2"]
            await stage.until(63)
            assert (stage.stands(), stage.there("n2")) == ("Drained", [])

    play(story)


@pytest.mark.parametrize("field", ["startedAt", "pausedAt"])
@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
@pytest.mark.parametrize("goes_on", [True, False])
def test_a_moment_at_the_end_of_the_calendar_is_mended_and_breaks_nothing(
    field: str, moment: str, goes_on: bool
) -> None:
    async def story(stage: Stage) -> None:
        async with stage.operator():
            await forcing(stage)
            if not goes_on:
                await stage.uncordon("n1")
                await stage.seconds(5)
            before = len(stage.done)
            await stage.person.patch(DRAINS.at("n1"), Merge({"status": {field: moment}}), subresource="status")
            await stage.seconds(20)
            assert stage.drain().get(field) != moment
            assert stage.told()[before:] in ([], [(EVICT, "db-0", 40)]), "its record began anew, with the same start"

    play(story)

"""The whole operator on the embedded server in virtual time: pods leave a failed node, and a first check is made."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from defib.kube.client import Deletion
from defib.kube.kinds import CONFIG_MAPS, NODE_HEALTH_CHECKS
from defib.model.pod_failover import DEFAULT_CHECK
from defib.simulate.faults import Fault, Refuse
from tests.scraping import scraped
from tests.unit.three_nodes import FAILOVERS, HOME, TEMPLATES, Cluster3, operating, play, seconds


def test_pods_that_can_run_twice_leave_a_failed_node_and_all_is_tidy_when_it_is_back() -> None:
    async def scenario(stage: Cluster3) -> None:
        await stage.make_check()
        async with operating(stage) as operator:
            await seconds(5)
            await stage.turn("Unknown")
            await seconds(9)
            assert stage.leaving() == []
            await seconds(2)
            assert stage.leaving() == ["web-1", "web-2"]
            status = await stage.status()
            assert (status["node"], status["found"], status["moved"], status["waiting"]) == ("n1", 2, 2, 1)
            assert {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]} == {
                "Processing": ("False", "ProofNeeded"),
                "Succeeded": ("False", "ProofNeeded"),
            }
            await stage.turn("True")
            await seconds(2)
            assert not [name for name in operator.picture.cluster.others if name.startswith("pods")]
            assert await stage.names(FAILOVERS) == []
            assert stage.server.store.collection("leases.coordination.k8s.io").objects == {}
            assert stage.asked("delete", "pods") == ["web-1", "web-2"]

    play(scenario)


@pytest.mark.parametrize("writes", range(14))
def test_a_crash_before_any_write_changes_nothing_in_the_end(writes: int) -> None:
    async def scenario(stage: Cluster3) -> None:
        await stage.make_check()
        await stage.turn("Unknown")
        async with operating(stage, writes=writes):
            await seconds(20)
        async with operating(stage):
            await seconds(60)
            assert stage.leaving() == ["web-1", "web-2"]
            status = await stage.status()
            assert (status["found"], status["moved"], status["waiting"]) == (2, 2, 1)
            assert sorted(stage.asked("delete", "pods")) == ["web-1", "web-2"]
            await stage.turn("True")
            await seconds(5)
            assert await stage.names(FAILOVERS) == []

    play(scenario)


def test_the_brake_holds_deletions_until_it_is_released() -> None:
    async def scenario(stage: Cluster3) -> None:
        await stage.make_check()
        async with operating(stage):
            await seconds(5)
            await stage.turn("Unknown")
            stage.server.faults.inject(Fault(effect=Refuse(code=503), verbs=("delete",), resource="pods", times=20))
            await seconds(11)
            brake = await stage.admin.create(CONFIG_MAPS, {"metadata": {"name": "defib-brake"}}, namespace=HOME)
            await seconds(1)
            tried = len(stage.asked("delete", "pods"))
            assert "no reason is given" in (await stage.status())["conditions"][0]["message"]
            await seconds(600)
            assert (stage.leaving(), len(stage.asked("delete", "pods"))) == ([], tried)
            await stage.admin.delete(CONFIG_MAPS.of(brake), Deletion(uid=brake.uid))
            await seconds(600)
            assert stage.leaving() == ["web-1", "web-2"]

    play(scenario)


def test_a_remediation_can_be_ended_while_the_brake_is_on() -> None:
    async def scenario(stage: Cluster3) -> None:
        await stage.make_check()
        async with operating(stage):
            await seconds(5)
            await stage.turn("Unknown")
            await seconds(12)
            await stage.admin.create(CONFIG_MAPS, {"metadata": {"name": "defib-brake"}}, namespace=HOME)
            await stage.turn("True")
            await seconds(5)
            assert await stage.names(FAILOVERS) == []

    play(scenario)


def test_pods_that_we_may_not_see_are_told_in_the_status() -> None:
    async def scenario(stage: Cluster3) -> None:
        await stage.make_check()
        refusal = Fault(effect=Refuse(code=403, message="pods is forbidden"), verbs=("list", "watch"), resource="pods")
        stage.server.faults.inject(refusal)
        async with operating(stage):
            await seconds(5)
            await stage.turn("Unknown")
            await seconds(20)
            assert "pods is forbidden" in (await stage.status())["conditions"][0]["message"]
            stage.server.faults.remove(refusal)
            await seconds(20)
            assert stage.leaving() == ["web-1", "web-2"]

    play(scenario)


def test_who_only_watches_moves_no_pod() -> None:
    async def scenario(stage: Cluster3) -> None:
        await stage.make_check()
        async with operating(stage):
            await seconds(5)
            await stage.turn("Unknown")
            stage.server.faults.inject(Fault(effect=Refuse(code=403), verbs=("delete",), resource="pods", times=2))
            await seconds(11)
        asked = len(stage.server.audit.writes("operator"))
        assert await stage.names(FAILOVERS) != []
        stage.server.faults.clear()
        async with operating(stage, watch_only="on"):
            await seconds(600)
        assert (stage.leaving(), len(stage.server.audit.writes("operator"))) == ([], asked)

    play(scenario)


def test_metrics_count_the_pods_of_all_nodes_together() -> None:
    async def scenario(stage: Cluster3) -> None:
        await stage.make_check()
        stage.server.faults.inject(Fault(effect=Refuse(code=403), verbs=("delete",), resource="pods"))
        async with operating(stage) as operator:
            await seconds(5)
            await stage.turn("Unknown")
            await seconds(20)
            assert (await stage.status())["conditions"][0]["reason"] == "DeletionFailed"
            numbers = scraped(operator)
            assert 'defib_cached_objects{kind="pods"} 3.0' in numbers
            assert 'defib_relists_total{kind="pods",reason="start"} 1.0' in numbers
            assert "pods on" not in numbers
            await stage.turn("True")
            await seconds(5)
            assert 'defib_cached_objects{kind="pods"}' not in scraped(operator)

    play(scenario)


# The default check.


def test_a_cluster_without_checks_gets_one_and_is_told_once() -> None:
    async def scenario(stage: Cluster3) -> None:
        async with operating(stage):
            await seconds(60)
        assert await stage.names(NODE_HEALTH_CHECKS) == [DEFAULT_CHECK]
        assert await stage.names(TEMPLATES) == ["defib-pod-failover"]
        (check,) = (await stage.admin.list_all(NODE_HEALTH_CHECKS)).items
        assert check.status["phase"] == "Enabled"
        assert [one["duration"] for one in check.spec["unhealthyConditions"]] == ["30s", "30s"]
        events = [version.object for version in stage.server.store.collection("events").objects.values()]
        assert [event["reason"] for event in events].count("DefaultCheckCreated") == 1

    play(scenario)


def test_who_deletes_the_default_check_gets_it_back_only_at_the_next_start() -> None:
    async def scenario(stage: Cluster3) -> None:
        async with operating(stage):
            await seconds(5)
            (check,) = (await stage.admin.list_all(NODE_HEALTH_CHECKS)).items
            await stage.admin.delete(NODE_HEALTH_CHECKS.of(check), Deletion(uid=check.uid))
            await seconds(3000)
            assert await stage.names(NODE_HEALTH_CHECKS) == []
        async with operating(stage):
            await seconds(5)
            assert await stage.names(NODE_HEALTH_CHECKS) == [DEFAULT_CHECK]

    play(scenario)


@pytest.mark.parametrize("settings", [{}, {"default_check": "off"}, {"watch_only": "on"}])
def test_no_default_check_is_made_where_it_is_not_wanted(settings: dict[str, Any]) -> None:
    async def scenario(stage: Cluster3) -> None:
        if not settings:
            await stage.make_check()
        before = await stage.names(NODE_HEALTH_CHECKS)
        async with operating(stage, **settings):
            await seconds(600)
        assert await stage.names(NODE_HEALTH_CHECKS) == before

    play(scenario)


def test_who_deletes_a_check_of_their_own_gets_no_other_in_its_place() -> None:
    async def scenario(stage: Cluster3) -> None:
        await stage.make_check()
        async with operating(stage):
            await seconds(5)
            (check,) = (await stage.admin.list_all(NODE_HEALTH_CHECKS)).items
            await stage.admin.delete(NODE_HEALTH_CHECKS.of(check), Deletion(uid=check.uid))
            await seconds(600)
            assert await stage.names(NODE_HEALTH_CHECKS) == []

    play(scenario)


def test_a_refusal_is_told_once() -> None:
    async def scenario(stage: Cluster3) -> None:
        stage.server.faults.inject(Fault(effect=Refuse(code=403), verbs=("create",), resource=str(TEMPLATES)))
        with capture_logs() as told:
            async with operating(stage):
                await seconds(1200)
        assert [line["event"] for line in told].count("default check not created") == 1
        assert len(stage.server.audit.writes("operator")) == 1

    play(scenario)


def test_without_the_kinds_it_is_told_once_and_nothing_is_written() -> None:
    async def scenario(stage: Cluster3) -> None:
        with capture_logs() as told:
            async with operating(stage):
                await seconds(1200)
        lines = [line for line in told if line["event"] == "no default check"]
        assert len(lines) == 1
        assert "is its CRD installed?" in lines[0]["why"]
        assert "deploy/install.yaml" in lines[0]["advice"]
        assert stage.server.audit.writes("operator") == []

    play(scenario, crds=False)


def test_a_crash_between_the_template_and_the_check_is_mended_at_the_next_start() -> None:
    async def scenario(stage: Cluster3) -> None:
        async with operating(stage, writes=1):
            await seconds(5)
        assert (await stage.names(TEMPLATES), await stage.names(NODE_HEALTH_CHECKS)) == (["defib-pod-failover"], [])
        async with operating(stage):
            await seconds(5)
        assert await stage.names(NODE_HEALTH_CHECKS) == [DEFAULT_CHECK]

    play(scenario)

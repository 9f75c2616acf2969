"""The whole operator with PodFailoverPolicies, on the embedded server in virtual time."""

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from defib.app import Operator
from defib.kube.client import Deletion, Merge
from defib.kube.kinds import CLAIMS, CONFIG_MAPS, NODES
from defib.simulate.faults import Fault, Refuse
from tests.scraping import scraped
from tests.unit.three_nodes import HOME, POLICIES, Cluster3, operating, play, seconds

WITHOUT_CHECKS: dict[str, Any] = {"default_check": "off"}


def metric(operator: Operator, name: str) -> dict[str, float]:
    """By the value of its only label, or by nothing."""
    families = text_string_to_metric_families(scraped(operator))
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return {"".join(sample.labels.values()): sample.value for sample in samples}


def test_pods_leave_at_once_by_force_and_what_must_not_run_twice_waits() -> None:
    """EV-01: NotReady is seen, and within a second all pods of the policy are gone."""

    async def scenario(stage: Cluster3) -> None:
        await stage.make_policy()
        async with operating(stage, **WITHOUT_CHECKS) as operator:
            await seconds(5)
            assert await stage.settled() == ("True", "Quiet")
            await stage.turn("Unknown")
            await seconds(1)
            assert stage.there() == ["db-0", "web-3"]
            await seconds(2)
            status = await stage.policy()
            assert (status["moved"], status["waiting"], status["failedNodes"]) == (2, 1, 1)
            assert await stage.settled() == ("False", "WaitingForProof")
            assert metric(operator, "defib_pods_moved_total") == {"forced": 2}
            assert metric(operator, "defib_pod_move_seconds_count") == {"": 2}
            assert metric(operator, "defib_pods_waiting_for_proof") == {"": 1}
            assert ("PodsMoving", "PodFailoverPolicy") in stage.told()
            assert ("WaitingForProof", "PodFailoverPolicy") in stage.told()
            await stage.turn("True")
            await seconds(2)
            assert await stage.settled() == ("True", "Quiet")
            assert (await stage.policy())["moved"] == 2
            assert metric(operator, "defib_pods_waiting_for_proof") == {"": 0}
            assert not [name for name in operator.picture.cluster.others if name.startswith("pods on")]

    play(scenario)


@pytest.mark.parametrize("late_by", [0.1, 0.5])
def test_pods_stay_until_kubernetes_keeps_others_away_from_the_node(late_by: float) -> None:
    """Else the scheduler sends the next pod of a StatefulSet back to the node, from which it would have to move again."""

    async def scenario(stage: Cluster3) -> None:
        await stage.make_policy(acceptedProofs=["None"])
        async with operating(stage, **WITHOUT_CHECKS):
            await seconds(5)
            await stage.say("Unknown")
            await seconds(late_by)
            assert (stage.asked("delete", "pods"), await stage.settled()) == ([], ("False", "Moving"))
            await stage.taint()
            await seconds(0.2)
            assert stage.there() == ["web-3"]
            assert sorted(stage.asked("delete", "pods")) == ["db-0", "web-1", "web-2"]

    play(scenario)


def test_where_nobody_taints_failed_nodes_pods_stay_for_a_second_and_no_longer() -> None:
    async def scenario(stage: Cluster3) -> None:
        await stage.make_policy()
        async with operating(stage, **WITHOUT_CHECKS):
            await seconds(5)
            await stage.say("Unknown")
            await seconds(0.9)
            assert stage.asked("delete", "pods") == []
            await seconds(0.4)
            assert stage.there() == ["db-0", "web-3"]

    play(scenario)


@pytest.mark.parametrize("writes", range(8))
def test_a_crash_before_any_write_changes_nothing_in_the_end(writes: int) -> None:
    async def scenario(stage: Cluster3) -> None:
        await stage.make_policy(deletion={"mode": "Graceful"})
        await stage.turn("Unknown")
        async with operating(stage, writes=writes, **WITHOUT_CHECKS):
            await seconds(20)
        async with operating(stage, **WITHOUT_CHECKS):
            await seconds(40)
            assert stage.leaving() == ["web-1", "web-2"]
            assert (await stage.policy())["moved"] == 2
            assert sorted(stage.asked("delete", "pods")) == ["web-1", "web-2"]

    play(scenario)


def test_only_so_many_nodes_at_a_time_and_the_rest_is_told() -> None:
    async def scenario(stage: Cluster3) -> None:
        for name in ("n4", "n5", "n6"):
            ready = {"conditions": [{"type": "Ready", "status": "True"}]}
            stage.server.put("nodes", {"metadata": {"name": name}, "status": ready})
        await stage.make_policy()
        async with operating(stage, failover_max_unhealthy="1", **WITHOUT_CHECKS) as operator:
            await seconds(5)
            await stage.turn("Unknown", "n2")
            await seconds(1)
            await stage.turn("Unknown", "n1")
            await seconds(300)
            assert stage.there() == ["db-0", "web-1", "web-2"]
            assert await stage.settled() == ("False", "Budget")
            assert metric(operator, "defib_failover_held_nodes") == {"Budget": 1}
            assert ("FailoverHeld", "PodFailoverPolicy") in stage.told()
            await stage.turn("True", "n2")
            await seconds(3)
            assert stage.there() == ["db-0"]
            assert metric(operator, "defib_failover_held_nodes") == {}

    play(scenario)


def test_when_most_nodes_fail_at_once_nothing_is_deleted() -> None:
    """I5, EV-21: it is the control plane that has lost its network, and not the nodes."""

    async def scenario(stage: Cluster3) -> None:
        await stage.make_policy(acceptedProofs=["None"])
        async with operating(stage, **WITHOUT_CHECKS):
            await seconds(5)
            for name in ("n1", "n2", "n3"):
                await stage.turn("Unknown", name)
            await seconds(600)
            assert stage.asked("delete", "pods") == []
            assert await stage.settled() == ("False", "SelfDoubt")

    play(scenario)


def test_the_brake_holds_until_it_is_released() -> None:
    async def scenario(stage: Cluster3) -> None:
        await stage.make_policy()
        brake = await stage.admin.create(CONFIG_MAPS, {"metadata": {"name": "defib-brake"}}, namespace=HOME)
        async with operating(stage, **WITHOUT_CHECKS):
            await stage.turn("Unknown")
            await seconds(300)
            assert (stage.asked("delete", "pods"), await stage.settled()) == ([], ("False", "Brake"))
            await stage.admin.delete(CONFIG_MAPS.of(brake), Deletion(uid=brake.uid))
            await seconds(5)
            assert stage.there() == ["db-0", "web-3"]

    play(scenario)


def claim(stage: Cluster3, mode: str) -> None:
    spec = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
    stage.server.put(str(CLAIMS), {"metadata": {"name": "data", "namespace": "default"}, "spec": spec})
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    stage.put_pod("web-9", volumes=[volume])


@pytest.mark.parametrize(("mode", "left"), [("ReadWriteMany", []), ("ReadWriteOnce", ["web-9"])])
def test_a_claim_is_read_once_to_know_whether_its_pod_may_leave(mode: str, left: list[str]) -> None:
    async def scenario(stage: Cluster3) -> None:
        claim(stage, mode)
        await stage.make_policy(selector={}, exclude={"names": ["web-1", "web-2"]})
        await seconds(2)
        async with operating(stage, **WITHOUT_CHECKS):
            await seconds(5)
            assert stage.asked("get", "persistentvolumeclaims") == []
            await stage.turn("Unknown")
            await seconds(60)
            assert [name for name in stage.there() if name == "web-9"] == left
            assert stage.asked("get", "persistentvolumeclaims") == ["data"]

    play(scenario)


def test_a_claim_that_may_not_be_read_is_asked_for_now_and_then_and_holds_nobody_else_up() -> None:
    async def scenario(stage: Cluster3) -> None:
        claim(stage, "ReadWriteMany")
        await stage.make_policy()
        refusal = Fault(effect=Refuse(code=403), verbs=("get",), resource=str(CLAIMS))
        stage.server.faults.inject(refusal)
        await seconds(2)
        async with operating(stage, **WITHOUT_CHECKS):
            await stage.turn("Unknown")
            await seconds(600)
            assert stage.there() == ["db-0", "web-3", "web-9"]
            assert 5 <= len(stage.asked("get", "persistentvolumeclaims")) <= 40
            stage.server.faults.remove(refusal)
            await seconds(60)
            assert stage.there() == ["db-0", "web-3"]

    play(scenario)


def test_a_taint_drives_pods_out_gracefully() -> None:
    """EV-22."""

    async def scenario(stage: Cluster3) -> None:
        await stage.make_policy(taints=["*"])
        async with operating(stage, **WITHOUT_CHECKS) as operator:
            await seconds(5)
            taint = [{"key": "example.com/maintenance", "effect": "NoSchedule"}]
            await stage.admin.patch(NODES.at("n1"), Merge({"spec": {"taints": taint}}))
            await seconds(5)
            assert stage.leaving() == ["db-0", "web-1", "web-2"]
            assert metric(operator, "defib_pods_moved_total") == {"graceful": 3}

    play(scenario)


def test_where_policies_are_switched_off_they_say_so() -> None:
    async def scenario(stage: Cluster3) -> None:
        await stage.make_policy()
        await stage.turn("Unknown")
        async with operating(stage, pod_failover_policies="off", **WITHOUT_CHECKS):
            await seconds(300)
        assert stage.asked("delete", "pods") == []
        said = {one["type"]: one for one in (await stage.policy())["conditions"]}
        assert (said["Valid"]["status"], said["Valid"]["reason"]) == ("False", "SwitchedOff")

    play(scenario)


def test_what_the_cluster_operator_does_not_allow_is_refused() -> None:
    async def scenario(stage: Cluster3) -> None:
        await stage.make_policy(acceptedProofs=["None"])
        await stage.turn("Unknown")
        async with operating(stage, failover_allowed_proofs=("A", "B"), **WITHOUT_CHECKS):
            await seconds(60)
        assert stage.asked("delete", "pods") == []
        said = {one["type"]: one for one in (await stage.policy())["conditions"]}
        assert (said["Valid"]["status"], said["Valid"]["reason"]) == ("False", "InvalidSpec")
        assert "failover_allowed_proofs" in said["Valid"]["message"]

    play(scenario)


def test_a_dwell_of_the_cluster_operator_is_waited_for() -> None:
    async def scenario(stage: Cluster3) -> None:
        await stage.make_policy(dwell="1s")
        async with operating(stage, failover_shortest_dwell_seconds=30.0, **WITHOUT_CHECKS):
            await seconds(5)
            await stage.turn("Unknown")
            await seconds(29)
            assert stage.asked("delete", "pods") == []
            await seconds(3)
            assert stage.there() == ["db-0", "web-3"]

    play(scenario)


def test_a_policy_that_is_deleted_moves_nothing_more() -> None:
    async def scenario(stage: Cluster3) -> None:
        await stage.make_policy()
        stage.server.faults.inject(Fault(effect=Refuse(code=403), verbs=("delete",), resource="pods"))
        async with operating(stage, **WITHOUT_CHECKS):
            await stage.turn("Unknown")
            await seconds(20)
            assert await stage.settled() == ("False", "DeletionFailed")
            item = await stage.admin.get(POLICIES.at("web", "default"))
            await stage.admin.delete(POLICIES.of(item), Deletion(uid=item.uid))
            await seconds(2)
            tried = len(stage.asked("delete", "pods"))
            await seconds(600)
            assert len(stage.asked("delete", "pods")) == tried

    play(scenario)

"""What a policy allows: modes, the brake, a policy that changes or goes while it is at work; and drains that are our own."""

from datetime import timedelta
from typing import Any

import pytest

from defib.kube.client import Deletion
from defib.kube.transport import Request
from defib.model.node_drain import APPROVED_UNTIL, DRAIN_MARK
from defib.simulate.faults import Fault, Refuse
from tests.drain_stage import DELETE, DRAINS, EVICT, FORCE, NEVER, Stage, play
from tests.failover_stage import OPERATOR

OURS = ("/nodedrains", "/drainpolicies/", "/events")


def others(stage: Stage) -> list[str]:
    """What was written beside the records of drains, and what is said of policies."""
    writes = [one for one in stage.server.audit.writes(OPERATOR) if not any(ours in one.path for ours in OURS)]
    return [f"{one.verb} {one.path}" for one in writes]


async def approve(stage: Stage, node: str, minutes: float) -> None:
    until = stage.clock.now() + timedelta(minutes=minutes)
    await stage.annotate(node, **{APPROVED_UNTIL: f"{until:%Y-%m-%dT%H:%M:%SZ}"})


def test_i9_a_policy_that_observes_says_what_would_be_done_and_does_nothing() -> None:
    async def story(stage: Stage) -> None:
        stage.claim("shared", "ReadWriteMany")
        stage.pod("web-1", habit=NEVER, claims=["shared"])
        stage.pod("db-0")
        await stage.drain_policy(mode="Observe")
        async with stage.operator():
            await stage.cordon("n1")
            await stage.delete_pod("web-1")
            await stage.until(30)
            assert stage.stands() == "Watching"
            await stage.until(90)
            assert stage.stands() == "Observed"
            assert "would evict 1 pod, kill 1 pod" in stage.drain()["message"]
            assert stage.has_failed()
            assert (stage.done, others(stage), stage.holder()) == ([], [], "")
            assert not stage.drain().get("begun")

    play(story)


def test_a_policy_that_observes_takes_nobody_a_place() -> None:
    async def story(stage: Stage) -> None:
        for node in ("n1", "n2"):
            stage.pod(f"web-{node}", node)
        await stage.label("n1", {"tier": "a"})
        await stage.drain_policy("first", mode="Observe", nodeSelector={"matchLabels": {"tier": "a"}})
        await stage.drain_policy("second")
        async with stage.operator():
            await stage.cordon("n1", "n2")
            await stage.until(35)
            assert (stage.stands("n1"), stage.stands("n2")) == ("Observed", "Drained")

    play(story)


def test_a_policy_that_asks_waits_for_approval_and_stops_when_that_ends() -> None:
    async def story(stage: Stage) -> None:
        for name in ("web-1", "web-2"):
            stage.pod(name)
        await stage.budget()
        await stage.drain_policy(mode="Approve")
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(35)
            assert (stage.stands(), stage.done, others(stage)) == ("WaitingForApproval", [], [])
            assert "--drain)" in stage.drain()["message"]
            await approve(stage, "n1", -1)  # too late, as somebody may have copied it
            await stage.minutes(1)
            assert stage.stands() == "WaitingForApproval"
            await approve(stage, "n1", 10)
            await stage.minutes(1)
            assert (stage.stands(), stage.holder()) == ("Forcing", "defib-drain")
            await stage.minutes(9)
            await stage.seconds(2)
            assert (stage.stands(), stage.holder()) == ("WaitingForApproval", "")
            before = len(stage.done)
            await stage.until(90)
            assert (len(stage.done), stage.pods()) == (before, ["web-1", "web-2"])
            assert stage.has_failed()
            await approve(stage, "n1", 10)
            await stage.minutes(3)
            assert (stage.there(), stage.stands()) == ([], "Drained")

    play(story)


def test_the_brake_in_the_middle_holds_the_drain_and_gives_the_lock_back_until_it_is_released() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.budget()
        await stage.drain_policy()
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(40)
            await stage.brake()
            await stage.seconds(5)
            assert (stage.stands(), stage.holder()) == ("Held Brake", "")
            before = len(stage.done)
            await stage.until(100)
            assert (len(stage.done), stage.there()) == (before, ["web-1"])
            assert stage.drain()["begun"]  # it keeps its place
            await stage.release()
            await stage.minutes(2)
            assert (stage.there(), stage.stands()) == ([], "Drained")

    play(story)


@pytest.mark.parametrize("is_collected", [False, True])
def test_a_policy_that_is_deleted_in_the_middle_has_nothing_more_done(is_collected: bool) -> None:
    """Kubernetes collects what it owned, sooner or later."""

    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.budget()
        await stage.drain_policy()
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(40)
            await stage.drop_policy()
            if is_collected:
                drain = await stage.person.get(DRAINS.at("n1"))
                await stage.person.delete(DRAINS.of(drain), Deletion(uid=drain.uid))
            await stage.seconds(5)
            before = len(stage.done)
            assert stage.holder() == ""
            assert stage.stands() == ("" if is_collected else "Paused")
            assert is_collected or "DrainPolicy workers is gone" in stage.drain()["message"]
            await stage.until(120)
            assert (len(stage.done), stage.there(), stage.drains()) == (before, ["web-1"], [])

    play(story)


def test_a_policy_that_makes_no_sense_any_more_is_not_acted_on_until_it_does() -> None:
    """The API server refuses most nonsense; what Nodekeeper's configuration says only we can judge."""

    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.budget()
        await stage.drain_policy(timeout="30m")
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(40)
            odd: dict[str, Any] = {"compatibility": "ManagedUpgradeOperator"}
            gone = dict.fromkeys(("timeout", "expectedDrainTime", "pdbForceDrainTimeout"))
            await stage.change_policy(**odd, **gone)
            await stage.seconds(30)
            conditions = {one["type"]: one["status"] for one in stage.policy_status()["conditions"]}
            assert (conditions, stage.stands(), stage.holder()) == ({"Valid": "False"}, "Paused", "")
            assert "does not make sense" in stage.drain()["message"]
            before = len(stage.done)
            await stage.until(45)
            assert len(stage.done) == before
            back = {"timeout": "30m", "expectedDrainTime": "8m", "pdbForceDrainTimeout": "52m"}
            await stage.change_policy(compatibility=None, **back)
            await stage.until(61)
            assert stage.told(DELETE) == [(DELETE, "web-1", 60)]  # its clock went on

    play(story)


def test_while_the_pods_of_the_node_are_out_of_sight_nothing_is_done_and_the_place_is_kept() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.budget()
        await stage.drain_policy()
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(40)
            stage.server.faults.inject(Fault(effect=Refuse(code=403), verbs=("list", "watch"), resource="pods"))
            for watch in stage.server.watches.of(OPERATOR):
                watch.end()
            await stage.until(70)
            assert (stage.stands(), stage.holder(), stage.drain()["begun"]) == ("Held OutOfSight", "", True)
            assert stage.told(DELETE) == []
            stage.server.faults.clear()
            await stage.minutes(3)
            assert (stage.there(), stage.stands()) == ([], "Drained")

    play(story)


def test_a_node_that_a_person_asks_us_to_drain_is_drained_from_the_start_by_evictions() -> None:
    async def story(stage: Stage) -> None:
        for name in ("web-1", "web-2", "db-0"):
            stage.pod(name, labels={"app": name})
        await stage.budget(labels={"app": "web-2"})
        await stage.drain_policy()
        async with stage.operator():
            await stage.cordon("n1", mark=DRAIN_MARK, value="a new kernel")
            await stage.until(1)
            assert [one for one in stage.first() if one[1] != "web-2"] == [(EVICT, "db-0", 0), (EVICT, "web-1", 0)]
            assert stage.there() == ["web-2"]
            assert stage.drain()["why"].endswith("a new kernel")
            await stage.until(59)
            assert stage.there() == ["web-2"]
            await stage.until(62)
            assert (stage.there(), stage.stands()) == ([], "Drained")
            assert stage.told(DELETE, FORCE) == [(DELETE, "web-2", 60)]

    play(story)


def test_nodes_that_we_drain_ourselves_go_one_after_the_other() -> None:
    nodes = ["n1", "n2", "n3"]
    busy: list[list[str]] = []

    async def looks(stage: Stage, _: Request) -> None:
        busy.append([node for node in nodes if stage.drain(node).get("begun")])

    async def story(stage: Stage) -> None:
        for node in nodes:
            stage.pod(f"web-{node}", node)
        await stage.drain_policy()

        async def before(request: Request) -> None:
            await looks(stage, request)

        stage.before = before
        async with stage.operator():
            await stage.cordon(*nodes, mark=DRAIN_MARK, value="kernel")
            await stage.until(5)
            assert [stage.stands(node) for node in nodes] == ["Drained"] * 3
            assert [one.pod for one in stage.done] == ["web-n1", "web-n2", "web-n3"]
            assert max(map(len, busy)) == 1

    play(story)


def test_of_several_policies_the_first_by_name_that_selects_the_node_decides() -> None:
    async def story(stage: Stage) -> None:
        await stage.label("n1", {"tier": "a"})
        stage.pod("web-n1", "n1")
        stage.pod("web-n2", "n2")
        await stage.drain_policy("a-few", nodeSelector={"matchLabels": {"tier": "a"}}, timeout="10m")
        await stage.drain_policy("b-all", timeout="20m")
        async with stage.operator():
            await stage.cordon("n1", "n2")
            await stage.until(25)
            assert stage.told() == [(EVICT, "web-n1", 10), (EVICT, "web-n2", 20)]
            assert [stage.drain(node)["policy"] for node in ("n1", "n2")] == ["a-few", "b-all"]

    play(story)


def test_a_policy_that_is_changed_in_the_middle_counts_from_the_same_start() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.drain_policy(timeout="3h")
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(50)
            await stage.change_policy(timeout="20m")
            await stage.seconds(2)
            assert stage.told() == [(EVICT, "web-1", 50)]

    play(story)

"""How drains go on, break off, come back and end; who drains; how many at a time; and how little that asks of the server."""

import pytest

from defib.decide.drains.intents.karpenter import DISRUPTED, TERMINATION
from defib.decide.drains.intents.openshift import NAMESPACE, STATE
from defib.kube.client import Deletion, Merge
from defib.kube.kinds import NODES
from tests.drain_stage import DELETE, EVICT, NEVER, Stage, play

REBOOT = "weave.works/kured-reboot-in-progress"
HOUR = 60


async def hang(stage: Stage, *nodes: str) -> None:
    """A pod on each that a budget keeps."""
    for node in nodes:
        stage.pod(f"web-{node}", node)
    await stage.budget()


@pytest.mark.parametrize("how", ["uncordoned", "deleted", "done"])
def test_dk_16_that_a_drain_has_failed_is_cleared_when_it_is_over(how: str) -> None:
    async def story(stage: Stage) -> None:
        stage.pod("db-0", habit=NEVER)
        await stage.drain_policy()
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(40)
            assert (stage.has_failed(), stage.policy_status()["failed"]) == (True, 1)
            if how == "uncordoned":
                await stage.uncordon("n1")
            elif how == "deleted":
                await stage.remove_node("n1")
            else:
                stage.server.store.remove("pods", stage.all("pods")[0])
                stage.server.settle()
            await stage.seconds(5)
            assert (stage.has_failed(), stage.policy_status()["failed"]) == (False, 0)
            assert stage.stands() == {"uncordoned": "Paused", "deleted": "", "done": "Drained"}[how]

    play(story)


def test_dk_16_a_node_that_is_being_deleted_has_no_failed_drain_but_is_still_helped() -> None:
    """Karpenter deletes the node first, and drains it while its finalizer holds it."""

    async def story(stage: Stage) -> None:
        await hang(stage, "n1")
        await stage.drain_policy()
        async with stage.operator():
            await stage.cordon("n1")
            await stage.person.patch(NODES.at("n1"), Merge({"metadata": {"finalizers": ["karpenter.sh/termination"]}}))
            await stage.remove_node("n1")
            await stage.until(62)
            assert [one[0] for one in stage.first()] == [EVICT, DELETE]
            assert (stage.stands(), stage.has_failed()) == ("Drained", False)

    play(story)


@pytest.mark.parametrize(("away", "deleted_at"), [(9, 60), (11, 90)])
@pytest.mark.parametrize("is_alone", [False, True])
def test_dk_20_a_short_uncordon_keeps_the_clock_and_a_long_one_restarts_it(
    away: int, deleted_at: int, is_alone: bool
) -> None:
    """Also when the operator was away when the node was cordoned again: the cordon itself says when that was."""

    async def story(stage: Stage) -> None:
        await hang(stage, "n1")
        await stage.drain_policy(flapWindow="10m")
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(30 - away)
            await stage.uncordon("n1")
            await stage.seconds(5)
            assert stage.stands() == "Paused"
            if not is_alone:
                await stage.until(30)
                await stage.cordon("n1")
                await stage.until(120)
        if is_alone:
            await stage.until(30)
            await stage.cordon("n1")
            await stage.until(35)
            async with stage.operator():
                await stage.until(120)
        assert stage.told(DELETE) == [(DELETE, "web-n1", deleted_at)]

    play(story)


@pytest.mark.parametrize("is_alone", [False, True])
def test_dk_20_a_drain_that_ended_and_is_begun_again_minutes_later_begins_anew(is_alone: bool) -> None:
    async def again(stage: Stage) -> None:
        await stage.uncordon("n1")
        await stage.minutes(2)
        stage.pod("web-2")
        await stage.cordon("n1")

    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.drain_policy()
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(33)
            assert stage.stands() == "Drained"
            if not is_alone:
                await again(stage)
                await stage.until(90)
        if is_alone:
            await again(stage)
            async with stage.operator():
                await stage.until(90)
        assert stage.told() == [(EVICT, "web-1", 30), (EVICT, "web-2", 65)]

    play(story)


def test_dk_24_what_the_drainer_says_is_the_start_also_before_the_operator_was_there() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.drain_policy()
        since = f"{stage.clock.now():%Y-%m-%dT%H:%M:%SZ}"
        stage.begun_at = stage.clock.monotonic()
        await stage.until(10)
        await stage.cordon("n1", mark=REBOOT, value=since)
        await stage.until(20)
        async with stage.operator():
            await stage.until(30)
            assert (stage.drain()["source"], stage.done) == ("Kured", [])
            await stage.seconds(1)
            assert stage.told() == [(EVICT, "web-1", 30)]

    play(story)


def test_dk_25_nothing_is_forced_before_the_deadline_of_a_peer_that_forces_by_itself() -> None:
    """Nor for the expected time after it, in which its own forcing takes effect."""

    async def story(stage: Stage) -> None:
        claims = stage.foreign("karpenter.sh", "v1", "NodeClaim")
        stage.pod("web-1")
        await stage.drain_policy()
        ends = f"{stage.clock.now().replace(hour=2, second=0):%Y-%m-%dT%H:%M:%SZ}"  # in two hours
        meta = {"name": "c1", "annotations": {TERMINATION: ends}, "finalizers": ["karpenter.sh/termination"]}
        await stage.person.create(claims, {"metadata": meta, "status": {"nodeName": "n1"}})
        async with stage.operator():
            await stage.seconds(10)
            stage.begun_at = 1e-9  # minutes of the clock
            await stage.taint("n1", (DISRUPTED, "NoSchedule"))
            await stage.minutes(5)
            assert stage.drains() == []  # it only thinks about it
            item = await stage.person.get(claims.at("c1"))
            await stage.person.delete(claims.of(item), Deletion(uid=item.uid))
            await stage.until(2 * HOUR + 8)
            assert (stage.done, stage.stands(), stage.has_failed()) == ([], "Watching", False)
            assert stage.drain()["peerDeadline"] == ends
            await stage.seconds(1)
            assert stage.told() == [(EVICT, "web-1", 128)]

    play(story)


@pytest.mark.parametrize(("most", "at_once"), [(1, 1), (2, 2), ("40%", 2), ("1%", 1), (0, 0)])
def test_dk_27_no_more_nodes_than_allowed_are_forced_at_a_time_also_after_a_restart(
    most: int | str, at_once: int
) -> None:
    nodes = ["n1", "n2", "n3", "n4"]
    seen: list[int] = []

    async def watch(stage: Stage, minutes: int) -> None:
        for _ in range(minutes):
            await stage.minutes(1)
            begun = [one for one in nodes if stage.drain(one).get("begun")]
            forced = [one for one in nodes if stage.stands(one) == "Forcing"]
            locked = [one for one in nodes if stage.holder(one)]
            assert set(forced) <= set(begun)
            assert set(locked) <= set(begun)
            seen.append(len(begun))

    async def story(stage: Stage) -> None:
        await hang(stage, *nodes)
        await stage.drain_policy(maxForcedNodes=most)
        async with stage.operator():
            await stage.cordon(*nodes)
            await watch(stage, 45)
        async with stage.operator():
            await watch(stage, 45)
        assert max(seen) == at_once
        gone = [one for one in nodes if not stage.there(one)]
        assert gone == (nodes if at_once else [])
        if not at_once:
            assert (stage.done, stage.stands(), stage.has_failed()) == ([], "Held Budget", True)

    play(story)


def test_dk_27_whoever_can_only_wait_for_a_budget_keeps_nobody_else_waiting() -> None:
    """Budgets are never passed over here, and that of the first node never lets go."""

    async def story(stage: Stage) -> None:
        await hang(stage, "n1")
        stage.pod("job-7", "n2", labels={})
        await stage.drain_policy(maxForcedNodes=1, strategies={"pdbDelete": False})
        async with stage.operator():
            await stage.cordon("n1")
            await stage.minutes(1)
            await stage.cordon("n2")
            await stage.until(60)
            assert (stage.there("n1"), stage.there("n2")) == (["web-n1"], [])

    play(story)


def test_dk_28_between_its_rungs_a_drain_asks_the_server_for_nothing() -> None:
    async def story(stage: Stage) -> None:
        await hang(stage, "n1")
        await stage.drain_policy(timeout="2h", pdbForceDrainTimeout="3h", sources=["Kubectl"])
        async with stage.operator():
            await stage.cordon("n1")
            await stage.minutes(5)
            before = len(stage.asked_by())
            await stage.minutes(HOUR)
            assert stage.asked_by()[before:] == []

    play(story)


def test_dk_28_while_a_budget_says_no_a_drain_asks_for_little_and_not_more_than_once_a_minute() -> None:
    """The lock is renewed, and now and then it is tried again, since we may see the budget wrongly."""

    async def story(stage: Stage) -> None:
        await hang(stage, "n1")
        await stage.drain_policy(timeout="1m", pdbForceDrainTimeout="5h", sources=["Kubectl"])
        async with stage.operator():
            await stage.cordon("n1")
            await stage.minutes(5)
            before, done = len(stage.asked_by()), len(stage.done)
            await stage.minutes(HOUR)
            tries = len(stage.done) - done
            assert 5 <= tries <= 61
            # For a try the pod, the record, the lock and the node are read; for the lock, the node and the lock itself.
            assert len(stage.asked_by()) - before <= 6 * tries + 5 * 61
            verbs = {one.partition(" ")[0] for one in stage.asked_by()[before:]}
            assert verbs <= {"get", "create", "patch", "update"}

    play(story)


def test_a_pod_is_evicted_as_soon_as_its_budget_lets_it_go() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.budget(minAvailable=1, maxUnavailable=None)
        await stage.drain_policy()
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(40.5)
            assert stage.there() == ["web-1"]
            stage.pod("web-2", "n2")
            await stage.until(42)
            assert (stage.there(), stage.told(DELETE)) == ([], [])

    play(story)


def test_dk_29_the_estimate_is_published_for_drains_that_are_under_way() -> None:
    async def story(stage: Stage) -> None:
        await hang(stage, "n1", "n2")
        await stage.drain_policy()
        async with stage.operator():
            await stage.cordon("n1", "n2")
            await stage.minutes(1)
            assert stage.policy_status()["estimateSeconds"] == 2 * (52 + 8) * 60
            await stage.change_policy(timeout="70m")
            await stage.minutes(1)
            assert stage.policy_status()["estimateSeconds"] == 2 * (70 + 8) * 60
            await stage.uncordon("n1", "n2")
            await stage.minutes(1)
            assert stage.policy_status()["estimateSeconds"] == 0

    play(story)


async def an_upgrade(stage: Stage, version: str = "4.20.1") -> None:
    """The managed-upgrade-operator is at work on five workers, of which two are done."""
    configs = stage.foreign("upgrade.managed.openshift.io", "v1alpha1", "UpgradeConfig", namespaced=True)
    pools = stage.foreign("machineconfiguration.openshift.io", "v1", "MachineConfigPool")
    stage.server.put("namespaces", {"metadata": {"name": NAMESPACE}})
    history = [{"version": version, "phase": "Upgrading"}]
    body = {"metadata": {"name": "managed-upgrade-config"}, "spec": {"desired": {"version": version}}}
    await stage.person.create(configs, body | {"status": {"history": history}}, namespace=NAMESPACE)
    selector = {"matchLabels": {"node-role.kubernetes.io/worker": ""}}
    counts = {"machineCount": 5, "updatedMachineCount": 2}
    await stage.person.create(
        pools, {"metadata": {"name": "worker"}, "spec": {"nodeSelector": selector}, "status": counts}
    )
    for node in ("n1", "n2"):
        await stage.label(node, {"node-role.kubernetes.io/worker": ""})


def test_dk_29_the_estimate_counts_what_an_upgrade_has_yet_to_drain() -> None:
    async def story(stage: Stage) -> None:
        await an_upgrade(stage)
        await stage.drain_policy()
        async with stage.operator():
            await stage.minutes(1)
            assert stage.policy_status()["estimateSeconds"] == 3 * (52 + 8) * 60

    play(story)


def test_dk_19_that_an_upgrade_is_delayed_is_told_once_and_also_after_a_restart() -> None:
    async def story(stage: Stage) -> None:
        await an_upgrade(stage)
        for node in ("n1", "n2"):
            stage.pod(f"db-{node}", node)
        await stage.budget()
        await stage.drain_policy()
        async with stage.operator():
            await stage.cordon("n1", "n2", mark=STATE, value="Working")
            await stage.until(60)
            assert stage.events("UpgradeDelayed") == []
            await stage.seconds(5)
            assert len(stage.events("UpgradeDelayed")) == 1
            assert "4.20.1" in stage.events("UpgradeDelayed")[0]
        async with stage.operator():
            await stage.until(90)
            assert (stage.there("n1"), stage.there("n2")) == ([], [])
            assert len(stage.events("UpgradeDelayed")) == 1

    play(story)


def test_a_restart_changes_nothing_about_a_drain_that_the_operator_knows_by_kinds_of_others() -> None:
    """Until it has seen those, it does not know whether the node is still being drained, and says nothing."""

    async def story(stage: Stage) -> None:
        await an_upgrade(stage)
        stage.pod("web-1")
        await stage.budget()
        await stage.drain_policy()
        async with stage.operator():
            await stage.cordon("n1", mark=STATE, value="Working")
            await stage.until(40)
            assert (stage.stands(), stage.holder()) == ("Forcing", "defib-drain")
        before = stage.drain()
        async with stage.operator():
            await stage.seconds(30)
        assert stage.drain() == before
        assert (stage.events("DrainPaused"), len(stage.events("DrainForcing"))) == ([], 1)
        released = [one for one in stage.asked_by() if one.startswith("delete") and "/leases/" in one]
        assert released == []

    play(story)

"""Drains that hang are finished in order and on time, told by the whole operator on the embedded server in virtual time.

Modes and what goes on around a drain are in test_drain_courses.py, who else may work on its node in
test_drain_exclusion.py, faults in test_drain_faults.py, and who dies on the way in test_drain_crashes.py.
"""

from typing import Any

import pytest

from defib.model.node_drain import CLUSTER_API_SKIP, DO_NOT_DISRUPT, DRAIN_MARK
from defib.model.pod import MIRROR
from defib.model.pod_failover import KEEP
from tests.drain_stage import DELETE, EVICT, FINALIZERS, FORCE, KILL, NEVER, WHEN_KILLED, Stage, play
from tests.failover_stage import ELSEWHERE

FINALIZER = "example.com/hold"
FREE = {"app": "free"}  # of pods that no budget protects


async def fill(stage: Stage) -> None:
    """A pod for each strategy of seed 004. Those that are stuck were deleted by whoever drains the node."""
    stage.pod("web-plain", labels=FREE)
    stage.pod("web-held", labels=FREE, finalizers=[FINALIZER])
    stage.pod("web-stuck", labels=FREE, habit=WHEN_KILLED)
    stage.pod("web-budget")
    stage.pod("web-budget-held", finalizers=[FINALIZER])
    stage.pod("web-budget-stuck", habit=WHEN_KILLED)
    await stage.budget()


async def evict_first(stage: Stage) -> None:
    for name in ("web-held", "web-stuck", "web-budget-held", "web-budget-stuck"):
        await stage.delete_pod(name)


def test_dk_07_the_strategies_run_in_their_order_and_only_when_they_are_due() -> None:
    """DK-05, DK-06: 30 minutes after the start, and 60 for pods with a budget; minute by minute."""

    async def story(stage: Stage) -> None:
        await fill(stage)
        await stage.drain_policy(finalizers=[FINALIZER])
        async with stage.operator():
            await stage.cordon("n1")
            await evict_first(stage)
            for minute in range(1, 31):
                await stage.until(minute)
                assert (stage.done, stage.stands()) == ([], "Watching")
            await stage.seconds(1)
            assert stage.told() == [
                (EVICT, "web-budget", 30),
                (EVICT, "web-plain", 30),
                (FINALIZERS, "web-held", 30),
                (KILL, "web-stuck", 30),
            ]
            for minute in range(31, 61):
                await stage.until(minute)
                assert stage.there() == ["web-budget", "web-budget-held", "web-budget-stuck"]
            assert {one[:2] for one in stage.told()[4:]} == {(EVICT, "web-budget")}
            await stage.seconds(1)
            late = [one for one in stage.told() if one[2] == 60 and one[0] != EVICT]
            assert late == [
                (KILL, "web-budget-stuck", 60),
                (DELETE, "web-budget", 60),
                (FINALIZERS, "web-budget-held", 60),
            ]
            await stage.until(61)
            assert (stage.there(), stage.stands(), stage.has_failed()) == ([], "Drained", False)
            assert stage.holder() == ""

    play(story)


def test_dk_05_default_strategies_start_strictly_after_the_timeout() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.drain_policy(timeout="45m")
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(45)
            assert stage.done == []
            await stage.seconds(0.1)
            assert stage.told() == [(EVICT, "web-1", 45)]

    play(story)


@pytest.mark.parametrize(("pdb", "minute"), [("0s", 8), ("2m", 10), ("52m", 60), ("1h", 68)])
def test_dk_06_and_dk_22_budgets_are_passed_strictly_after_the_expected_time_and_theirs(pdb: str, minute: int) -> None:
    """Also where that is earlier than the timeout of all others."""

    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.budget()
        await stage.drain_policy(pdbForceDrainTimeout=pdb, strategies={"delete": False})
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(minute)
            assert stage.done == []
            await stage.seconds(0.1)
            assert stage.told() == [(EVICT, "web-1", minute), (DELETE, "web-1", minute)]

    play(story)


def test_dk_23_eviction_comes_first_and_a_budget_that_says_no_keeps_the_pod_until_its_time() -> None:
    async def story(stage: Stage) -> None:
        for name in ("web-1", "web-2"):
            stage.pod(name)
        await stage.budget(minAvailable=2, maxUnavailable=None)
        await stage.drain_policy()
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(40)
            assert stage.pods() == ["web-1", "web-2"]
            stage.pod("web-3", "n2")  # somebody gives it room: one may go, and is evicted
            await stage.until(42)
            assert len(stage.there()) == 1
            await stage.until(62)
            assert stage.there() == []
            assert [one[0] for one in stage.first() if one[0] != EVICT] == [DELETE]

    play(story)


FAILURES: list[tuple[dict[str, str], str, int]] = [
    ({}, "web-budget", 68),  # the last strategy is due at 60 and has 8 more
    ({}, "web-plain", 38),  # nothing waits for budgets
    ({"timeout": "69m"}, "web-budget", 69),  # that of the budgets at 60 is over before the timeout
    ({"timeout": "15m", "expectedDrainTime": "2m", "pdbForceDrainTimeout": "3m"}, "web-budget", 15),
    ({"timeout": "15m", "expectedDrainTime": "5m", "pdbForceDrainTimeout": "5m"}, "web-budget", 15),
    ({"timeout": "15m", "expectedDrainTime": "6m", "pdbForceDrainTimeout": "6m"}, "web-budget", 18),
    ({"timeout": "5m", "expectedDrainTime": "5m", "pdbForceDrainTimeout": "5m"}, "web-budget", 15),
    ({"timeout": "5m", "expectedDrainTime": "5m", "pdbForceDrainTimeout": "5m"}, "web-plain", 10),
]


@pytest.mark.parametrize(("times", "pod", "minute"), FAILURES)
def test_dk_14_a_drain_has_failed_when_the_last_strategy_had_its_time_and_the_timeout_is_over(
    times: dict[str, str], pod: str, minute: int
) -> None:
    async def story(stage: Stage) -> None:
        stage.pod(pod, labels={"app": pod}, habit=NEVER, claims=["own"])  # it stays, whatever is done
        stage.claim("own", "ReadWriteOnce")
        await stage.budget(labels={"app": "web-budget"})
        await stage.drain_policy(**times)
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(minute)
            assert not stage.has_failed()
            await stage.seconds(1)
            assert stage.has_failed()
            assert stage.policy_status()["failed"] == 1
            assert len(stage.events("DrainFailed")) == 1

    play(story)


def test_dk_15_a_drain_has_not_failed_while_a_strategy_is_to_come_that_has_pods() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.budget()
        await stage.drain_policy(timeout="5m", pdbForceDrainTimeout="3h")
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(187)
            assert not stage.has_failed()
            await stage.until(190)
            assert (stage.has_failed(), stage.stands()) == (False, "Drained")

    play(story)


def test_dk_13_with_all_strategies_off_nothing_is_touched_and_failure_is_detected() -> None:
    off = dict.fromkeys(("delete", "finalizers", "stuck", "pdbDelete", "pdbFinalizers"), False)

    async def story(stage: Stage) -> None:
        await fill(stage)
        await stage.drain_policy(strategies=off, finalizers=["*"])
        async with stage.operator():
            await stage.cordon("n1")
            await evict_first(stage)
            await stage.until(30)
            assert not stage.has_failed()
            await stage.seconds(1)
            assert stage.has_failed()
            await stage.until(120)
            assert (stage.done, stage.holder(), stage.stands()) == ([], "", "Watching")

    play(story)


@pytest.mark.parametrize("how", ["parked", "label without cordon", "mark of a source that is off"])
def test_dk_01_nothing_happens_without_an_intent_and_dk_17_a_parked_node_is_left_alone(how: str) -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.drain_policy(timeout="0s", sources=["Kubectl"])
        async with stage.operator():
            await stage.seconds(5)
            if how == "parked":
                await stage.cordon("n1", mark="")
            elif how == "label without cordon":
                await stage.label("n1", {"defib.dev/watch-drain": "true"})
            else:
                await stage.cordon("n1", mark=DRAIN_MARK, value="kernel")
            await stage.minutes(180)
            assert (stage.done, stage.drains(), stage.holder()) == ([], [], "")
            assert stage.policy_status()["draining"] == 0

    play(story)


@pytest.mark.parametrize("role", ["master", "control-plane"])
@pytest.mark.parametrize("asked", [False, True])
def test_dk_02_the_control_plane_is_ignored_unless_the_policy_asks_for_it(role: str, asked: bool) -> None:
    async def story(stage: Stage) -> None:
        await stage.label("n1", {f"node-role.kubernetes.io/{role}": ""})
        stage.pod("web-1")
        await stage.drain_policy(timeout="1m", **({"includeControlPlane": True} if asked else {}))
        async with stage.operator():
            await stage.cordon("n1")
            await stage.minutes(10)
            assert stage.touched() == ({"web-1"} if asked else set())
            assert stage.drains() == (["n1"] if asked else [])

    play(story)


OTHERS: dict[str, dict[str, Any]] = {
    "agent-1": {},  # of a DaemonSet
    "web-mirror": {"annotations": {MIRROR: "x"}},
    "web-finished": {"phase": "Succeeded"},
    "web-kept": {"annotations": {KEEP: ""}},
    "web-undisrupted": {"annotations": {DO_NOT_DISRUPT: "true"}},
    "web-skipped": {"labels": {CLUSTER_API_SKIP: "skip"}},
    "web-elsewhere": {"node": "n2"},
    "web-ignored": {"namespace": ELSEWHERE},
}


def test_dk_08_and_dk_09_nothing_outside_the_policy_is_touched() -> None:
    """The log of all requests proves it."""

    async def story(stage: Stage) -> None:
        for name, how in OTHERS.items():
            stage.pod(name, **how)
        stage.pod("web-goes")
        await stage.drain_policy(
            timeout="0s", pdbForceDrainTimeout="0s", expectedDrainTime="0s", ignoredNamespaces=["else*"]
        )
        async with stage.operator():
            await stage.cordon("n1")
            await stage.minutes(120)
        assert stage.touched() == {"web-goes"}
        assert stage.there() == sorted(["elsewhere/web-ignored", *(set(OTHERS) - {"web-elsewhere", "web-ignored"})])
        about_pods = [one for one in stage.asked_by() if "/pods/" in one]
        assert all("/pods/web-goes" in one for one in about_pods)
        assert {one.path.split("/")[3] for one in stage.writes if one.path.startswith("/apis/")} <= {"v1", "v1alpha1"}
        written = {one.path for one in stage.writes if "/pods/" not in one.path}
        assert not [path for path in written if "/nodes/" in path or "/poddisruptionbudgets/" in path]

    play(story)


def test_dk_11_a_pod_that_never_ends_is_killed_and_then_forced_by_the_stuck_strategy() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1", habit=NEVER)
        await stage.drain_policy(extraGrace="2m")
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(40)
            # Its own grace is half a minute; then it has two more, and as much again after the kill.
            assert [(one.rung, round(one.at, 1)) for one in stage.done] == [(EVICT, 30.0), (KILL, 32.5), (FORCE, 34.5)]
            assert stage.stands() == "Drained"

    play(story)


def test_dk_12_only_allowed_finalizers_of_terminating_pods_are_removed() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1", finalizers=[FINALIZER, "other.com/hold"])
        stage.pod("web-2", finalizers=[FINALIZER], labels={"app": "blocked"})
        await stage.budget(labels={"app": "blocked"})
        await stage.drain_policy(finalizers=[FINALIZER])
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(59)
            left = {pod["metadata"]["name"]: pod["metadata"]["finalizers"] for pod in stage.all("pods")}
            assert left == {"web-1": ["other.com/hold"], "web-2": [FINALIZER]}
            assert stage.told(FINALIZERS) == [(FINALIZERS, "web-1", 30)]
            assert "other.com/hold" in stage.drain()["message"]

    play(story)


@pytest.mark.parametrize("proofs", [None, ["None"]])
@pytest.mark.parametrize("pod", ["db-0", "web-own"])
def test_i1_what_must_not_run_twice_is_never_forced_on_a_dead_kubelet_unless_the_policy_waives_it(
    pod: str, proofs: list[str] | None
) -> None:
    async def story(stage: Stage) -> None:
        stage.claim("own", "ReadWriteOnce")
        stage.claim("shared", "ReadWriteMany")
        stage.pod(pod, claims=["own"] if pod == "web-own" else [])
        stage.pod("web-shared", claims=["shared"])
        await stage.drain_policy(**({"acceptedProofs": proofs} if proofs else {}))
        async with stage.operator():
            await stage.turn("n1", ready="Unknown")
            stage.dead.add("n1")
            await stage.cordon("n1")
            await stage.until(240)
            forced = {"web-shared"} | ({pod} if proofs else set())
            assert {one[1] for one in stage.told(FORCE, KILL)} == forced
            assert stage.there() == ([] if proofs else [pod])
            assert stage.has_failed() is (not proofs)
            reads = [one for one in stage.asked_by() if "/persistentvolumeclaims/" in one]
            assert len(reads) <= 2  # each once, and not again and again

    play(story)


@pytest.mark.parametrize("pod", ["db-0", "web-own"])
def test_i1_a_pod_that_asks_for_no_time_to_end_is_not_gone_before_its_kubelet_has_ended_it(pod: str) -> None:
    """An ordinary deletion would take it away without asking its kubelet, as a forced one does."""

    async def story(stage: Stage) -> None:
        stage.claim("own", "ReadWriteOnce")
        stage.pod(pod, claims=["own"], terminationGracePeriodSeconds=0)
        await stage.drain_policy()
        async with stage.operator():
            await stage.turn("n1", ready="Unknown")
            stage.dead.add("n1")
            await stage.cordon("n1")
            await stage.until(120)
            assert (stage.there(), stage.told()) == ([pod], [(EVICT, pod, 30)])

    play(story)

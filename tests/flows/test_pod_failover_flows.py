"""EV-01 to EV-17 and EV-22: pods of a team leave a failed node, told by the whole operator on the embedded server.

What needs a proof that a node is down is in test_pod_failover_proofs.py, what must not happen when many nodes fail at
once in test_pod_failover_storms.py, and who dies on the way in test_pod_failover_crashes.py.
"""

import itertools
from typing import Any

import pytest

from defib.config import Settings
from defib.kube.client import Deletion
from defib.kube.kinds import PODS
from defib.kube.transport import Request
from defib.simulate.faults import Fault, LateEvents, LoseRequest, Refuse, Slow
from tests.failover_stage import ELSEWHERE, OPERATOR, SHOP, Stage, play

NOT_READY = {"False": "False", "Unknown": "Unknown", "missing": ""}


@pytest.mark.parametrize("how", NOT_READY)
def test_ev_01_a_node_that_does_not_say_that_it_is_ready_has_failed(how: str) -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        stage.pod("web-2", "n2")
        await stage.policy()
        async with stage.operator():
            await stage.seconds(2)
            await stage.turn("n1", ready=NOT_READY[how])
            await stage.seconds(1)
            assert stage.pods() == ["web-2"]

    play(story)


def test_ev_02_all_pods_of_the_policy_leave_within_a_second() -> None:
    async def story(stage: Stage) -> None:
        for number in range(100):
            stage.pod(f"web-{number}")
        stage.pod("job-1")
        stage.pod("pg-1")
        await stage.policy()
        async with stage.operator() as running:
            await stage.fail("n1")
            failed = stage.clock.monotonic()
            await stage.seconds(5)
            assert stage.pods() == []
            assert max(one.at for one in stage.deleted) - failed < 1.0
            assert len(stage.deleted) == 102
            assert (stage.settled(), stage.status()["moved"]) == ("True Moved", 102)
            assert running.measures('defib_pods_moved_total{how="forced"}') == 102.0

    play(story)


def test_ev_03_pods_of_other_namespaces_labels_or_nodes_are_never_touched() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        stage.pod("web-2", labels={"app": "other"})
        stage.pod("web-3", labels={})
        stage.pod("web-4", "n2")
        stage.pod("web-1", namespace=ELSEWHERE)
        await stage.policy()
        async with stage.operator():
            await stage.fail("n1")
            await stage.seconds(600)
        assert stage.tried == ["web-1"]
        assert (stage.pods(), stage.pods(ELSEWHERE)) == (["web-2", "web-3", "web-4"], ["web-1"])

    play(story)


DELETIONS: list[tuple[dict[str, Any], int | None]] = [
    ({}, 0),
    ({"deletion": {"mode": "Force"}}, 0),
    ({"deletion": {"mode": "Graceful"}}, None),
    ({"deletion": {"mode": "Graceful", "gracePeriodSeconds": 45}}, 45),
]


@pytest.mark.parametrize(("spec", "grace"), DELETIONS)
def test_ev_04_force_gives_no_time_and_ev_15_how_long_else_is_up_to_the_policy(
    spec: dict[str, Any], grace: int | None
) -> None:
    async def story(stage: Stage) -> None:
        uid = stage.pod("web-1")
        await stage.policy(**spec)
        async with stage.operator():
            await stage.fail("n1")
            await stage.seconds(600)
        assert [(one.pod, one.uid, one.grace) for one in stage.deleted] == [("web-1", uid, grace)]
        left = [pod["metadata"] for pod in stage.all("pods")]
        assert [meta["deletionGracePeriodSeconds"] for meta in left] == ([] if grace == 0 else [grace or 30])

    play(story)


def test_ev_05_nothing_is_deleted_while_nodes_come_go_and_report_that_they_are_ready() -> None:
    async def story(stage: Stage) -> None:
        for name in ("n1", "n2"):
            stage.pod(f"web-{name}", name)
        await stage.policy()
        async with stage.operator():
            await stage.seconds(2)
            for _ in range(3):
                await stage.turn("n1", "n2", ready="True")
                await stage.seconds(10)
            stage.node("n6")
            await stage.seconds(10)
            await stage.remove_node("n2")
            await stage.seconds(600)
        assert stage.tried == []

    play(story)


def test_ev_06_a_node_that_had_failed_before_the_operator_started_is_handled() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.policy()
        await stage.fail("n1")
        await stage.seconds(3600)
        async with stage.operator():
            await stage.seconds(1)
            assert stage.pods() == []

    play(story)


@pytest.mark.parametrize("streams", [True, False])
def test_ev_07_a_node_that_fails_just_before_the_first_watch_is_handled(streams: bool) -> None:
    """Whether the server sends the list with the watch, or is asked for a list first."""

    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.policy()
        await stage.seconds(2)
        if not streams:
            refuse = Fault(effect=Refuse(code=422, reason="Invalid"), verbs=("watch",), resource="nodes", times=1)
            stage.server.faults.inject(refuse)

        async def fails_now(request: Request) -> None:
            is_watch = request.path == "/api/v1/nodes" and "watch" in request.query
            if is_watch and ("sendInitialEvents" in request.query) == streams:
                await stage.turn("n1", ready="Unknown")

        stage.before = fails_now
        async with stage.operator():
            await stage.seconds(5)
            assert stage.pods() == []

    play(story)


@pytest.mark.parametrize("lost", [LoseRequest(), Refuse(code=410), Refuse(code=500)])
def test_ev_07_a_node_that_fails_while_the_first_watch_cannot_be_opened_is_handled(lost: LoseRequest | Refuse) -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.policy()
        no_stream = Fault(effect=Refuse(code=422, reason="Invalid"), verbs=("watch",), resource="nodes", times=1)
        fault = Fault(effect=lost, verbs=("watch",), resource="nodes", skip=1, times=2)
        stage.server.faults.inject(no_stream, fault)
        await stage.seconds(2)
        async with stage.operator():
            await stage.seconds(0.1)
            await stage.turn("n1", ready="Unknown")
            await stage.seconds(20)
            assert stage.server.faults.struck(fault) == 2
            assert stage.pods() == []

    play(story)


TRY_LATER = pytest.mark.parametrize("later", [Refuse(code=503), Refuse(code=429, retry_after_seconds=6)])


@TRY_LATER
def test_ev_08_nothing_is_deleted_when_the_node_is_back_before_a_deletion_is_tried_again(later: Refuse) -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.policy()
        refuse = Fault(effect=later, verbs=("delete",), resource="pods")
        stage.server.faults.inject(refuse)
        async with stage.operator():
            await stage.fail("n1")
            await stage.seconds(5)
            assert stage.server.faults.struck(refuse) > 0
            await stage.turn("n1", ready="True")
            stage.server.faults.clear()
            await stage.seconds(600)
            assert (stage.pods(), stage.settled()) == (["web-1"], "True Quiet")

    play(story)


@TRY_LATER
def test_ev_08_nothing_is_deleted_when_the_brake_is_pulled_before_a_deletion_is_tried_again(later: Refuse) -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.policy()
        async with stage.operator():
            stage.server.faults.inject(Fault(effect=later, verbs=("delete",), resource="pods", times=1))
            await stage.fail("n1")
            await stage.seconds(0.5)
            await stage.brake()
            await stage.seconds(600)
            assert (stage.pods(), stage.tried) == (["web-1"], ["web-1"])
            await stage.release()
            await stage.seconds(60)
            assert (stage.pods(), stage.tried) == ([], ["web-1", "web-1"])

    play(story)


def test_ev_08_no_deletion_is_sent_that_has_waited_behind_others_while_the_node_came_back() -> None:
    """A server that needs long for each holds up those for which we have no more requests."""

    async def story(stage: Stage) -> None:
        for number in range(100):
            stage.pod(f"web-{number}")
        await stage.policy()
        stage.server.faults.inject(Fault(effect=Slow(seconds=5), verbs=("delete",), resource="pods", client=OPERATOR))
        async with stage.operator(requests_in_flight=32):
            await stage.fail("n1")
            await stage.seconds(1)
            await stage.turn("n1", ready="True")
            back = stage.clock.monotonic()
            await stage.seconds(600)
        assert len(stage.deleted) == 32
        assert [one for one in stage.deleted if one.at > back] == []

    play(story)


def test_ev_08_nothing_is_deleted_when_the_node_is_back_and_the_watch_has_not_told_yet() -> None:
    """The node itself is asked before every deletion."""

    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.policy()
        late = Fault(effect=LateEvents(seconds=120), verbs=("watch",), resource="nodes", client=OPERATOR)
        stage.server.faults.inject(late)

        async def comes_back(request: Request) -> None:
            if str(request) == "GET /api/v1/nodes/n1":
                await stage.turn("n1", ready="True")

        stage.before = comes_back
        await stage.fail("n1")
        async with stage.operator():
            await stage.seconds(125)
            assert stage.settled() == "False Moving"
            await stage.seconds(600)
            assert stage.settled() == "True Quiet"
        assert stage.tried == []

    play(story)


def test_ev_09_a_pod_that_has_vanished_meanwhile_is_no_failure() -> None:
    async def story(stage: Stage) -> None:
        for number in (1, 2):
            stage.pod(f"web-{number}")
        await stage.policy()

        async def somebody_is_faster(request: Request) -> None:
            if request.method == "DELETE" and request.path.endswith("/pods/web-1"):
                pod = await stage.person.get(PODS.at("web-1", SHOP))
                await stage.person.delete(PODS.of(pod), Deletion(uid=pod.uid, grace_seconds=0))

        stage.before = somebody_is_faster
        async with stage.operator():
            await stage.fail("n1")
            await stage.seconds(60)
        assert stage.tried == ["web-1", "web-2"]
        assert (stage.pods(), stage.settled(), stage.events("DeletionFailed")) == ([], "True Moved", [])

    play(story)


def test_ev_09_one_that_cannot_be_deleted_holds_up_no_other_and_is_tried_again_ever_more_rarely() -> None:
    async def story(stage: Stage) -> None:
        for number in range(1, 6):
            stage.pod(f"web-{number}")
        await stage.policy()
        names = ("web-2", "web-4")
        for name in names:
            refuse = Fault(effect=Refuse(code=403, message="no"), verbs=("delete",), resource="pods", name=name)
            stage.server.faults.inject(refuse)
        async with stage.operator():
            await stage.fail("n1")
            await stage.seconds(60)
            assert stage.pods() == list(names)
            assert stage.settled() == "False DeletionFailed"
            assert "2 pods could not be deleted, such as shop/web-2" in stage.message()
            assert len(stage.events("DeletionFailed")) == 1
            tries = [one.at for one in stage.deleted if one.pod == "web-2"]
            pauses = [later - earlier for earlier, later in itertools.pairwise(tries)]
            assert 3 <= len(tries) <= 30
            assert max(pauses[-3:]) > 5 * min(pauses)
            stage.server.faults.clear()
            await stage.seconds(120)
            assert (stage.pods(), stage.settled(), stage.status()["moved"]) == ([], "True Moved", 5)

    play(story)


@pytest.mark.parametrize("moment", ["GET /api/v1/nodes/n1", "DELETE /api/v1/namespaces/shop/pods/web-1"])
def test_ev_11_a_new_pod_of_the_same_name_is_not_deleted(moment: str) -> None:
    """It takes the place of the old one while that is about to be deleted."""

    async def story(stage: Stage) -> None:
        old = stage.pod("web-1")
        stage.pod("web-2")
        await stage.policy()

        async def made_anew(request: Request) -> None:
            if str(request) == moment and stage.uid("web-1") == old:
                pod = await stage.person.get(PODS.at("web-1", SHOP))
                await stage.person.delete(PODS.of(pod), Deletion(uid=pod.uid, grace_seconds=0))
                stage.pod("web-1", "n2")

        stage.before = made_anew
        async with stage.operator():
            await stage.fail("n1")
            await stage.seconds(600)
        assert [one.uid for one in stage.deleted if one.pod == "web-1"] == [old]
        assert (stage.pods(), stage.settled(), stage.events("DeletionFailed")) == (["web-1"], "True Moved", [])

    play(story)


EXCLUSIONS: dict[str, dict[str, Any]] = {
    "names": {"names": ["noobaa-db-pg-*"]},
    "selector": {"selector": {"matchLabels": {"tier": "data"}}},
    "owners": {"owners": [{"kind": "Cluster", "name": "noobaa-*"}]},
    "claims": {"claims": ["db-noobaa-*"]},
}


@pytest.mark.parametrize("by", EXCLUSIONS)
def test_ev_12_an_excluded_database_stays_and_is_reported(by: str) -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        stage.claim("db-noobaa-0", "ReadWriteMany")
        stage.pod("noobaa-db-pg-0", labels={"app": "noobaa", "tier": "data"}, claims=["db-noobaa-0"])
        await stage.policy(exclude=EXCLUSIONS[by])
        async with stage.operator():
            await stage.fail("n1")
            await stage.seconds(600)
        assert stage.tried == ["web-1"]
        entry = stage.entry("n1")
        assert (entry["moved"], entry["kept"]) == (1, 1)
        assert f"1 left in place: 1 excluded (exclude.{by})" in entry["message"]
        assert any(f"exclude.{by}" in message for message in stage.events("PodsMoved"))

    play(story)


def test_ev_14_what_is_switched_off_moves_nothing_and_says_so() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.policy()
        await stage.fail("n1")
        async with stage.operator(pod_failover_policies="off"):
            await stage.seconds(600)
            assert (stage.tried, stage.valid()) == ([], "False SwitchedOff")
        async with stage.operator():
            await stage.seconds(2)
            assert (stage.tried, stage.valid()) == (["web-1"], "True Accepted")

    play(story)
    assert Settings().pod_failover_policies == "on"


def test_ev_17_pods_stay_until_the_dwell_time_is_over_and_for_good_if_the_node_is_back_within_it() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        stage.pod("web-2", "n2")
        await stage.policy(dwell="1m")
        async with stage.operator():
            await stage.fail("n1", "n2")
            await stage.seconds(58)
            assert stage.tried == []
            await stage.turn("n2", ready="True")
            await stage.seconds(1)
            assert stage.tried == []
            await stage.seconds(2)
            assert stage.tried == ["web-1"]
            await stage.seconds(600)
            assert stage.tried == ["web-1"]

    play(story)


TAINTS: dict[str, tuple[list[str] | None, tuple[str, str], bool]] = {
    "any key": (["*"], ("example.com/broken", "NoSchedule"), True),
    "by name": (["example.com/broken"], ("example.com/broken", "NoExecute"), True),
    "another key": (["example.com/broken"], ("example.com/other", "NoExecute"), False),
    "a preference": (["*"], ("example.com/broken", "PreferNoSchedule"), False),
    "not asked for": (None, ("example.com/broken", "NoExecute"), False),
}


@pytest.mark.parametrize("case", TAINTS)
def test_ev_22_a_taint_drives_pods_out_in_order_where_the_policy_says_so(case: str) -> None:
    keys, taint, moves = TAINTS[case]

    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        stage.pod("db-0")  # the kubelet is alive and ends it before another one begins
        stage.pod("web-2", tolerations=[{"key": taint[0], "operator": "Exists"}])
        spec: dict[str, Any] = {} if keys is None else {"taints": keys}
        await stage.policy(**spec)
        async with stage.operator():
            await stage.seconds(2)
            await stage.taint("n1", taint)
            await stage.seconds(600)
        assert stage.tried == (["db-0", "web-1"] if moves else [])
        assert {one.grace for one in stage.deleted} <= {None}

    play(story)

"""EV-10: whatever the API server answers, the operator goes on, and moves all pods when it is over. And what it reads:
pods of failed nodes, and only while they have failed.
"""

import itertools
from http import HTTPStatus

import pytest

from defib.kube.client import Deletion
from defib.kube.kinds import CLAIMS, PODS
from defib.kube.transport import Request
from defib.simulate.faults import (
    CutWatch,
    FailWatch,
    Fault,
    Garbage,
    Hang,
    LoseAnswer,
    LoseRequest,
    Refuse,
    RequestEffect,
    SilenceWatch,
    WatchEffect,
)
from defib.simulate.in_process import InProcess
from tests.failover_stage import OPERATOR, POLICIES, SHOP, Running, Stage, play

TROUBLE_SECONDS = 90.0

EFFECTS: dict[str, RequestEffect] = {
    "500": Refuse(code=500),
    "503": Refuse(code=503),
    "429": Refuse(code=429, retry_after_seconds=3),
    "403": Refuse(code=403),
    "401": Refuse(code=401),
    "404": Refuse(code=404),
    "409": Refuse(code=409),
    "410": Refuse(code=410),
    "lost request": LoseRequest(),
    "lost answer": LoseAnswer(),
    "no answer": Hang(),
    "no answer though done": Hang(applied=True),
}
WATCHING: dict[str, WatchEffect] = {
    "cut": CutWatch(after=1, mid_event=True),
    "garbage": Garbage(),
    "error event": FailWatch(code=500),
    "expired": FailWatch(code=410),
    "silent": SilenceWatch(),
}
PLACES: dict[str, tuple[tuple[str, ...], str]] = {
    "deleting pods": (("delete",), "pods"),
    "listing pods": (("list", "watch"), "pods"),
    "reading claims": (("get",), "persistentvolumeclaims"),
    "reading the node": (("get",), "nodes"),
    "writing the policy's status": (("patch",), str(POLICIES)),
    "watching policies": (("list", "watch"), str(POLICIES)),
    "everything": ((), ""),
}
CASES = list(itertools.product(EFFECTS, PLACES))
MOVED = ["job-1", "web-1", "web-2", "web-3"]


def with_pods(stage: Stage) -> None:
    stage.claim("shared", "ReadWriteMany")
    stage.claim("own", "ReadWriteOnce")
    for name in ("web-1", "web-2", "job-1", "db-0"):
        stage.pod(name)
    stage.pod("web-3", claims=["shared"])
    stage.pod("web-4", claims=["own"])
    stage.pod("web-5", "n2")


async def until_moved(stage: Stage) -> None:
    """The trouble is over; each of those that wait has its turn again within some minutes."""
    stage.server.faults.clear()
    stage.babbles = lambda _: False
    await stage.seconds(400)
    assert stage.pods() == ["db-0", "web-4", "web-5"]
    entry = stage.entry("n1")
    assert (entry["state"], entry["moved"], entry["waiting"]) == ("WaitingForProof", 4, 2)
    assert stage.status()["moved"] == 4
    assert set(stage.tried) == set(MOVED)


@pytest.mark.parametrize(("what", "where"), CASES)
def test_ev_10_no_error_ends_the_operator_and_all_is_moved_when_it_is_over(what: str, where: str) -> None:
    async def story(stage: Stage) -> None:
        with_pods(stage)
        await stage.policy()
        verbs, resource = PLACES[where]
        fault = Fault(effect=EFFECTS[what], verbs=verbs, resource=resource, client=OPERATOR)
        async with stage.operator():
            await stage.seconds(5)
            stage.server.faults.inject(fault)
            await stage.fail("n1")
            await stage.seconds(TROUBLE_SECONDS)
            await until_moved(stage)

    play(story)


@pytest.mark.parametrize("code", [404, 409, 500])
def test_ev_10_a_status_that_cannot_be_written_is_not_tried_all_the_time(code: int) -> None:
    """As it is while somebody else has written it and the watch does not tell."""

    async def story(stage: Stage) -> None:
        with_pods(stage)
        await stage.policy()
        async with stage.operator():
            await stage.seconds(5)
            refuse = Fault(effect=Refuse(code=code), verbs=("patch",), resource=str(POLICIES))
            stage.server.faults.inject(refuse)
            await stage.fail("n1")
            await stage.seconds(TROUBLE_SECONDS)
            assert 3 <= stage.server.faults.struck(refuse) <= TROUBLE_SECONDS / 4
            assert stage.tried == []

    play(story)


@pytest.mark.parametrize("resource", ["pods", "nodes", str(POLICIES)])
@pytest.mark.parametrize("what", WATCHING)
def test_ev_10_no_broken_watch_ends_the_operator(what: str, resource: str) -> None:
    async def story(stage: Stage) -> None:
        with_pods(stage)
        await stage.policy()
        stage.server.faults.inject(
            Fault(effect=WATCHING[what], verbs=("watch",), resource=resource, client=OPERATOR, times=10)
        )
        async with stage.operator():
            await stage.fail("n1")
            await stage.seconds(TROUBLE_SECONDS)
            await until_moved(stage)

    play(story)


@pytest.mark.parametrize("words", ["/pods", "/nodes/n1", "/persistentvolumeclaims/", "/podfailoverpolicies", "/"])
def test_ev_10_no_answer_that_makes_no_sense_ends_the_operator(words: str) -> None:
    async def story(stage: Stage) -> None:
        with_pods(stage)
        await stage.policy()
        async with stage.operator():
            await stage.seconds(5)
            stage.babbles = lambda request: words in request.path
            await stage.fail("n1")
            await stage.seconds(TROUBLE_SECONDS)
            await until_moved(stage)

    play(story)


def test_ev_10_a_claim_that_cannot_be_read_holds_up_no_other_pod() -> None:
    async def story(stage: Stage) -> None:
        with_pods(stage)
        await stage.policy()
        forbids = Fault(effect=Refuse(code=403), verbs=("get",), resource="persistentvolumeclaims", name="shared")
        stage.server.faults.inject(forbids)
        async with stage.operator():
            await stage.fail("n1")
            await stage.seconds(30)
            assert stage.pods() == ["db-0", "web-3", "web-4", "web-5"]
            assert stage.entry("n1")["waiting"] == 3

    play(story)


def test_ev_10_a_server_that_is_down_for_a_while_changes_nothing_in_the_end() -> None:
    async def story(stage: Stage) -> None:
        with_pods(stage)
        await stage.policy()
        async with stage.operator():
            await stage.fail("n1")
            stage.server.stop()
            await stage.seconds(TROUBLE_SECONDS)
            assert stage.tried == []
            stage.server.start()
            await until_moved(stage)

    play(story)


def test_ev_10_a_claim_of_which_the_reading_hangs_holds_up_no_other_pod() -> None:
    async def story(stage: Stage) -> None:
        with_pods(stage)
        await stage.policy()
        async with stage.operator():
            await stage.seconds(5)
            stage.server.faults.inject(Fault(effect=Hang(), verbs=("get",), resource="persistentvolumeclaims"))
            await stage.fail("n1")
            await stage.seconds(8)
            assert stage.tried == ["job-1", "web-1", "web-2"]
            await until_moved(stage)

    play(story)


def test_a_claim_that_is_made_later_is_found() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1", claims=["late"])
        await stage.policy()
        async with stage.operator():
            await stage.fail("n1")
            await stage.seconds(10)
            assert (stage.tried, stage.settled()) == ([], "False WaitingForProof")
            stage.claim("late", "ReadWriteMany")
            await stage.seconds(400)
            assert (stage.tried, stage.settled()) == (["web-1"], "True Moved")

    play(story)


def test_a_claim_that_was_made_anew_is_read_anew() -> None:
    """I1: it was shared when it was read for a pod of a node that is held back; now it is of one pod alone."""

    async def story(stage: Stage) -> None:
        stage.claim("data", "ReadWriteMany")
        stage.pod("web-1", claims=["data"])
        await stage.policy()
        async with stage.operator():
            await stage.label("n1", {"remediation.medik8s.io/exclude-from-remediation": "true"})
            await stage.fail("n1")
            await stage.seconds(120)
            assert stage.settled() == "False Excluded"
            await stage.person.delete(PODS.at("web-1", SHOP), Deletion(uid=stage.uid("web-1"), grace_seconds=0))
            claim = await stage.person.get(CLAIMS.at("data", SHOP))
            await stage.person.delete(CLAIMS.of(claim), Deletion(uid=claim.uid))
            stage.claim("data", "ReadWriteOnce")
            stage.pod("web-2", "n2", claims=["data"])
            await stage.seconds(600)
            await stage.fail("n2")
            await stage.seconds(30)
            assert (stage.tried, stage.states()["n2"]) == ([], "WaitingForProof")

    play(story)


def test_pods_that_may_not_be_listed_are_no_reason_to_be_quiet() -> None:
    async def story(stage: Stage) -> None:
        with_pods(stage)
        await stage.policy()
        async with stage.operator():
            await stage.seconds(5)
            forbids = Fault(effect=Refuse(code=403), verbs=("list", "watch"), resource="pods", client=OPERATOR)
            stage.server.faults.inject(forbids)
            await stage.fail("n1")
            await stage.seconds(30)
            assert stage.settled() == "False SelfDoubt"
            assert "the pods of node n1 are out of sight" in stage.message()
            assert len(stage.events("FailoverHeld")) == 1
            await until_moved(stage)

    play(story)


def test_i3_a_status_that_is_written_after_it_was_given_up_takes_its_place() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1", labels={"app": "a"})
        stage.pod("web-2", "n2", labels={"app": "b"})
        await stage.policy("first", selector={"matchLabels": {"app": "a"}})
        await stage.policy("second", selector={"matchLabels": {"app": "b"}}, dwell="31s")
        late: list[Request] = []

        async def before(request: Request) -> None:
            if not late and request.path.endswith("/first/status") and b"Moving" in (request.body or b""):
                late.append(request)
                await stage.seconds(1e6)

        async with stage.operator(failover_max_unhealthy="1"):
            await stage.seconds(5)
            stage.before = before
            await stage.turn("n2", ready="Unknown")
            await stage.seconds(20.2)
            await stage.turn("n1", ready="Unknown")
            await stage.seconds(10.9)  # n2 is due, and what was to be said of n1 was given up
            async with InProcess(stage.server, OPERATOR).send(late[0]) as answer:
                assert answer.status == HTTPStatus.OK
            await stage.seconds(60)
            assert (stage.tried, stage.states("second")) == (["web-1"], {"n2": "Held"})

    play(story)


# No pod cache.


def holds_pods(running: Running) -> float:
    return running.measures('defib_cached_objects{kind="pods"}') or 0.0


def reads_of_pods(stage: Stage) -> list[Request]:
    return [one for one in stage.asked if one.method == "GET" and one.path.endswith("/pods")]


@pytest.mark.parametrize("streams", [True, False])
def test_only_pods_of_failed_nodes_are_read_and_none_is_held_when_it_is_over(streams: bool) -> None:
    async def story(stage: Stage) -> None:
        with_pods(stage)
        for number in range(50):
            stage.pod(f"web-other-{number}", "n3")
        await stage.policy()
        if not streams:
            refuse = Refuse(code=422, reason="Invalid")
            stage.server.faults.inject(Fault(effect=refuse, verbs=("watch",), resource="pods", times=1))
        async with stage.operator() as running:
            await stage.seconds(600)
            assert (reads_of_pods(stage), holds_pods(running)) == ([], 0.0)
            await stage.fail("n1")
            await stage.seconds(5)
            assert 0 < holds_pods(running) <= 7
            await stage.seconds(3600)
            await stage.turn("n1", ready="True")
            await stage.seconds(5)
            assert holds_pods(running) == 0.0
            asked = len(reads_of_pods(stage))
            await stage.seconds(3600)
            assert len(reads_of_pods(stage)) == asked
        for request in reads_of_pods(stage):
            assert request.query["fieldSelector"] == "spec.nodeName=n1"
            assert "limit" in request.query or request.query.get("watch") in ("1", "true")
        assert any("limit" in request.query for request in reads_of_pods(stage)) == (not streams)

    play(story)


def test_pods_of_a_node_are_let_go_of_as_soon_as_all_have_left() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        stage.pod("web-2", "n2")
        await stage.policy()
        async with stage.operator() as running:
            await stage.fail("n1")
            await stage.seconds(5)
            assert stage.settled() == "True Moved"
            assert holds_pods(running) == 0.0
            asked = len(reads_of_pods(stage))
            await stage.seconds(3600)
            assert len(reads_of_pods(stage)) == asked

    play(story)

"""How it stands with one drain: its phase, its place, what is written of each pod, and whether it has failed."""

from datetime import datetime
from typing import Any

import pytest

from defib.decide.drains.standing import MOST_ENTRIES, OUT_OF_SIGHT
from defib.decide.rules import INSTANT
from defib.model.cluster import Blindness
from defib.model.meta import Unstructured
from defib.model.node_drain import APPROVED_UNTIL, CLUSTER_API_SKIP
from defib.model.pod import Pod, pods_on
from tests.builders import MINUTE, SECOND, T0
from tests.unit.decide.drains.ward import a_budget, a_leaving_pod, a_web_pod
from tests.unit.decide.drains.wing import (
    a_wing,
    drained,
    entry,
    planned,
    policy,
    record,
    stamp,
    stands,
    told,
    written,
)
from tests.unit.decide.failover.failovers import STATEFUL_SET, change

POD = a_web_pod()
SKIPPED = a_web_pod("web-skipped", labels={CLUSTER_API_SKIP: "skip"})
BEGUN: dict[str, Any] = {"phase": "Forcing", "begun": True}


@pytest.mark.parametrize(
    ("minutes", "pods", "status", "spec", "phase"),
    [
        (29, [POD], {}, {}, "Watching"),
        (30, [POD], {}, {}, "Watching"),
        (31, [POD], {}, {}, "Forcing"),
        (31, [], {}, {}, "Drained"),
        (1, [], BEGUN, {}, "Drained"),
        (31, [SKIPPED], {}, {}, "Watching"),
        (31, [SKIPPED], BEGUN, {}, "Watching"),
        (31, [POD], {}, {"mode": "Observe"}, "Observed"),
        (29, [POD], {}, {"mode": "Observe"}, "Watching"),
        (31, [POD], {}, {"mode": "Approve"}, "WaitingForApproval"),
        (29, [POD], {}, {"mode": "Approve"}, "Watching"),
        (29, [POD], BEGUN, {}, "Forcing"),  # it keeps at it, until the policy says otherwise
        (29, [POD], BEGUN, {"mode": "Observe"}, "Watching"),
        (31, [POD], {}, {"maxForcedNodes": 0}, "Held Budget"),
    ],
)
def test_the_phase_follows_from_time_pods_and_policy(
    minutes: int, pods: list[Pod], status: dict[str, Any], spec: dict[str, Any], phase: str
) -> None:
    cluster = a_wing(
        drained(minutes=minutes), *pods, policies=[policy(**spec)], records=[record(minutes=minutes, **status)]
    )
    drains = planned(cluster)
    assert stands(drains) == phase
    assert drains.standings["n1"].status.begun is (phase == "Forcing")


@pytest.mark.parametrize(
    ("until", "phase"),
    [
        (T0 + SECOND, "Forcing"),
        (T0, "WaitingForApproval"),
        (T0 - MINUTE, "WaitingForApproval"),
    ],
)
def test_an_approval_holds_until_its_moment(until: datetime, phase: str) -> None:
    nodes = drained(minutes=40, annotations={APPROVED_UNTIL: f"{until:%Y-%m-%dT%H:%M:%SZ}"})
    cluster = a_wing(nodes, POD, policies=[policy(mode="Approve")], records=[record(minutes=40)])
    drains = planned(cluster)
    assert stands(drains) == phase
    assert (until + INSTANT in drains.standings["n1"].moments) is (until >= T0)


@pytest.mark.parametrize("text", ["", "tomorrow", "2030-01-01", "9999-99-99T00:00:00Z"])
def test_an_approval_that_nobody_can_read_is_none(text: str) -> None:
    nodes = drained(minutes=40, annotations={APPROVED_UNTIL: text})
    cluster = a_wing(nodes, POD, policies=[policy(mode="Approve")], records=[record(minutes=40)])
    assert stands(planned(cluster)) == "WaitingForApproval"


def test_a_drain_that_is_held_keeps_its_place_if_it_had_one() -> None:
    def begun(**status: Any) -> bool:
        cluster = a_wing(
            drained(minutes=40), POD, records=[record(minutes=40, **status)], doubts=("the API server is slow",)
        )
        drains = planned(cluster)
        assert stands(drains) == "Held SelfDoubt"
        return drains.standings["n1"].status.begun

    assert (begun(), begun(**BEGUN), begun(phase="Held", reason="Lock", begun=True)) == (False, True, True)


# What is written of pods


def entries(*pods: Pod, was: list[dict[str, Any]], minutes: float = 40) -> list[tuple[str, str, str]]:
    cluster = a_wing(drained(minutes=minutes), *pods, records=[record(minutes=minutes, **BEGUN, pods=was)])
    status = planned(cluster).standings["n1"].status
    return [(one.name, one.rung.value, f"{one.at:%H:%M}") for one in status.pods or ()]


def test_the_first_time_of_a_step_stays_however_often_it_is_repeated() -> None:
    assert entries(POD, was=[entry(POD, "Evict", 9)]) == [("web-1", "Evict", "23:51")]


def test_the_next_step_takes_the_place_of_the_last_one() -> None:
    stuck = a_leaving_pod(ended=T0 - 5 * MINUTE)
    assert entries(stuck, was=[entry(stuck, "Evict", 9)]) == [("web-1", "Kill", "00:00")]


def test_what_was_done_to_pods_that_are_gone_is_still_told() -> None:
    gone = a_web_pod("web-0")
    assert entries(POD, was=[entry(gone, "Evict", 9)]) == [("web-0", "Evict", "23:51"), ("web-1", "Evict", "00:00")]


def test_nothing_is_written_of_a_pod_before_its_claims_are_read() -> None:
    stuck = a_leaving_pod(ended=T0 - 5 * MINUTE, grace=1, claims=["data"])
    assert entries(stuck, was=[]) == []


def test_pods_for_which_the_record_has_no_room_wait_and_those_that_are_gone_make_room() -> None:
    many = [a_web_pod(f"web-{number:03}") for number in range(MOST_ENTRIES + 100)]
    first = entries(*many, was=[])
    assert [one[0] for one in first] == [pod.name for pod in many[:MOST_ENTRIES]]
    was = [entry(pod, "Evict") for pod in many[:MOST_ENTRIES]]
    assert [one[0] for one in entries(*many, was=was)] == [one[0] for one in first]  # and nobody is pushed out
    left = entries(*many[50:], was=was)
    assert [one[0] for one in left] == [pod.name for pod in many[50:][:MOST_ENTRIES]]


# Whether it has failed


@pytest.mark.parametrize(
    ("minutes", "pods", "budgets", "failed"),
    [
        (38, [POD], [], False),
        (39, [POD], [], True),
        (68, [POD], [a_budget()], False),
        (69, [POD], [a_budget()], True),
        (69, [], [], False),
        (30, [SKIPPED], [], False),
        (39, [SKIPPED], [a_budget()], True),  # somebody has to see to it, though we do not
        (68, [a_leaving_pod(ended=T0, owner=STATEFUL_SET)], [a_budget()], False),
    ],
)
def test_a_drain_has_failed_by_the_strategies_that_its_pods_need(
    minutes: int, pods: list[Pod], budgets: list[Unstructured], failed: bool
) -> None:
    drains = planned(a_wing(drained(minutes=minutes), *pods, budgets=budgets, records=[record(minutes=minutes)]))
    assert drains.standings["n1"].status.failed is failed
    assert ("DrainFailed" in told(drains)) is failed


def test_a_node_that_goes_anyway_has_no_failed_drain() -> None:
    (node,) = drained(minutes=300)
    going = change(node, metadata=change(node.metadata, deletion_timestamp=T0 - MINUTE))
    assert not planned(a_wing([going], POD, records=[record(minutes=300)])).standings["n1"].status.failed


# Pods that are not in sight


def unseen(since: datetime, **status: Any) -> Any:
    cluster = a_wing(drained(minutes=40), POD, records=[record(minutes=40, **status)])
    return planned(change(cluster, blind=(Blindness(pods_on("n1"), since, "its watch is lost"),)))


def test_while_the_pods_are_about_to_be_seen_the_record_stays_as_it_is() -> None:
    status = {"phase": "Held", "reason": "Lock", "message": "held", "begun": True, "failed": True, "podsLeft": 3}
    kept: dict[str, Any] = {
        **status,
        "source": "Kubectl",
        "why": "the node is cordoned, and marked with defib.dev/watch-drain",
    }
    drains = unseen(T0, **kept)
    assert written(drains) is None
    assert T0 + 5 * SECOND + INSTANT in drains.standings["n1"].moments


def test_pods_that_stay_out_of_sight_hold_a_drain_that_has_begun() -> None:
    begun, watching = unseen(T0 - MINUTE, **BEGUN), unseen(T0 - MINUTE)
    assert (stands(begun), begun.standings["n1"].status.begun) == (f"Held {OUT_OF_SIGHT}", True)
    assert (stands(watching), watching.standings["n1"].status.begun) == ("Watching", False)
    assert "out of sight" in watching.standings["n1"].status.message


def test_a_drain_of_a_node_that_was_replaced_begins_anew() -> None:
    nodes = drained(minutes=2, uid="another")
    drains = planned(a_wing(nodes, POD, records=[record(minutes=300, **BEGUN, pods=[entry(POD, "Evict")])]))
    status = drains.standings["n1"].status
    assert (status.node_uid, status.started_at, status.pods, status.begun) == ("another", T0 - 2 * MINUTE, None, False)


@pytest.mark.parametrize(
    ("paused", "cordoned", "is_same"),
    [(12, 3, True), (12, 1.5, False), (9, 100, True), (11, 100, False)],
)
def test_a_drain_that_was_broken_off_goes_on_within_the_window(paused: float, cordoned: float, is_same: bool) -> None:
    """By the cordon, or where that is as old as ever, by when we see it again."""
    was = record(minutes=200, phase="Paused", pausedAt=stamp(paused))
    drains = planned(a_wing(drained(minutes=cordoned), POD, records=[was], policies=[policy(flapWindow="10m")]))
    started = drains.standings["n1"].status.started_at
    assert (started == T0 - 200 * MINUTE) is is_same
    assert drains.standings["n1"].status.paused_at is None


@pytest.mark.parametrize(("cordoned", "is_same"), [(200, True), (5, False)])
def test_a_drain_that_had_ended_and_has_pods_again_goes_on_only_with_the_same_cordon(
    cordoned: float, is_same: bool
) -> None:
    drains = planned(a_wing(drained(minutes=cordoned), POD, records=[record(minutes=200, phase="Drained")]))
    assert (drains.standings["n1"].status.started_at == T0 - 200 * MINUTE) is is_same

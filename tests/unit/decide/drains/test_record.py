"""The record of a drain: what is written into it and told of it, when it is paused, and when it goes."""

from typing import Any

import pytest

from defib.decide.rules import INSTANT
from defib.model.action import ReportRemediation
from defib.model.drain_action import DropDrain
from defib.model.meta import Unstructured
from defib.model.node_drain import DRAIN, DrainStatus, Phase, read_drain_status
from tests.builders import MINUTE, T0, a_node
from tests.unit.decide.drains.ward import a_record, a_web_pod
from tests.unit.decide.drains.wing import a_wing, drained, planned, policy, record, stamp, stands, told, written
from tests.unit.decide.failover.failovers import change

POD = a_web_pod()


def after(item: Unstructured, status: dict[str, Any]) -> Unstructured:
    """As the API server has it when that is written."""
    return change(item, status={name: value for name, value in status.items() if value is not None})


def test_what_is_written_is_what_is_read_so_it_is_written_once() -> None:
    for minutes in (5, 35, 65, 100):
        item = record(minutes=minutes)
        first = written(planned(a_wing(drained(minutes=minutes), POD, records=[item])))
        assert first is not None
        again = planned(a_wing(drained(minutes=minutes), POD, records=[after(item, first)]))
        assert written(again) is None


def test_all_fields_are_written_so_that_none_stays_behind() -> None:
    status = written(planned(a_wing(drained(minutes=5), POD, records=[record(minutes=5, reason="Lock", failed=True)])))
    assert status is not None
    assert status.keys() >= {"nodeUID", "reason", "failed", "begun", "pausedAt", "pods"}
    assert (status["phase"], status["reason"], status["failed"]) == ("Watching", None, None)


def test_a_record_that_is_new_is_told_of_and_has_the_start() -> None:
    drains = planned(a_wing(drained(minutes=5), POD, records=[a_record(nodeUID="")]))
    status = written(drains)
    assert status is not None
    assert (status["startedAt"], status["nodeUID"], told(drains)) == (stamp(5), "uid-n1", ["DrainStarted"])


@pytest.mark.parametrize(
    ("was", "minutes", "pods", "events"),
    [
        ({}, 5, [POD], []),
        ({}, 35, [POD], ["DrainForcing"]),
        ({"phase": "Forcing", "begun": True}, 35, [POD], []),
        ({"phase": "Forcing", "begun": True}, 35, [], ["DrainEnded"]),
        ({"phase": "Drained"}, 35, [], []),
        ({"phase": "Forcing", "begun": True}, 40, [POD], ["DrainFailed"]),
        ({"phase": "Forcing", "begun": True, "failed": True}, 40, [POD], []),
    ],
)
def test_what_is_new_is_told_once(was: dict[str, Any], minutes: int, pods: list[Any], events: list[str]) -> None:
    assert told(planned(a_wing(drained(minutes=minutes), *pods, records=[record(minutes=minutes, **was)]))) == events


def test_a_status_that_nobody_can_read_counts_as_none() -> None:
    item = change(a_record(), status={"phase": "Asleep", "startedAt": "yesterday"})
    assert read_drain_status(item) == DrainStatus()
    assert stands(planned(a_wing(drained(minutes=5), POD, records=[item]))) == "Watching"


# When nobody drains the node


def over(item: Unstructured, **wing: Any) -> tuple[list[str], dict[str, Any] | None, Any]:
    """Which records are dropped, what is written, and when the next look is."""
    drains = planned(a_wing([a_node("n1")], records=[item], **wing))
    dropped = [one.node for one in drains.actions if isinstance(one, DropDrain)]
    return dropped, written(drains), drains.wake_at


def test_a_drain_that_nobody_goes_on_with_is_paused_and_gives_up_its_place_and_its_failure() -> None:
    dropped, status, _ = over(record(phase="Forcing", begun=True, failed=True, next="evict 1 pod", reason="x"))
    assert dropped == []
    assert status is not None
    assert (status["phase"], status["pausedAt"], status["startedAt"]) == ("Paused", stamp(0), stamp(60))
    assert [status[name] for name in ("begun", "failed", "next", "reason", "conditions")] == [None] * 5
    assert status["message"].startswith("nobody drains the node now")


@pytest.mark.parametrize(("minutes", "is_dropped"), [(9, False), (10, False), (11, True)])
def test_it_goes_when_it_was_paused_for_longer_than_the_window(minutes: float, is_dropped: bool) -> None:
    dropped, status, again = over(record(phase="Paused", pausedAt=stamp(minutes)))
    assert (dropped, status) == (["n1"] if is_dropped else [], None)
    assert again == (None if is_dropped else T0 + (10 - minutes) * MINUTE + INSTANT)


def test_the_window_is_that_of_its_policy() -> None:
    dropped, _, _ = over(record(phase="Paused", pausedAt=stamp(3)), policies=[policy(flapWindow="2m")])
    assert dropped == ["n1"]


@pytest.mark.parametrize("status", [{"phase": "Drained", "startedAt": stamp(60)}, {}])
def test_a_drain_that_had_ended_or_never_began_goes_at_once(status: dict[str, Any]) -> None:
    dropped, _, _ = over(a_record(policy="workers", **status))
    assert dropped == ["n1"]


def test_a_record_is_dropped_only_as_it_was_judged() -> None:
    drains = planned(a_wing([a_node("n1")], records=[record(phase="Drained")]))
    (drop,) = [one for one in drains.actions if isinstance(one, DropDrain)]
    assert (drop.version, drop.drain.uid, drop.drain.kind) == ("7", "uid-drain-n1", DRAIN)


@pytest.mark.parametrize(
    ("policies", "why"),
    [
        ([], "DrainPolicy workers is gone"),
        ([policy(timeout="soon")], "DrainPolicy workers does not make sense now"),
        ([policy(sources=["Kured"])], "nobody drains the node now"),
    ],
)
def test_why_nobody_watches_it_is_said(policies: list[Unstructured], why: str) -> None:
    drains = planned(a_wing(drained(), POD, records=[record(phase="Forcing", begun=True)], policies=policies))
    status = written(drains)
    assert status is not None
    assert (status["phase"], status["message"].partition(";")[0].partition(" or ")[0].partition(",")[0]) == (
        "Paused",
        why,
    )
    assert told(drains) == ["DrainPaused"]


def test_a_report_is_for_the_version_that_was_judged() -> None:
    drains = planned(a_wing(drained(minutes=35), POD, records=[record(minutes=35)]))
    (report,) = [one for one in drains.actions if isinstance(one, ReportRemediation) and one.target.kind == DRAIN]
    assert (report.version, report.target.uid) == ("7", "uid-drain-n1")
    assert report.status["phase"] == Phase.FORCING.value

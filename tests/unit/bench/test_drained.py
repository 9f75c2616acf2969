"""What the bench makes of many drains at once: shares of a core, requests, and whether our promises are kept."""

from typing import Any

import msgspec

from tests.bench.drained import (
    ASKING,
    LEAVING,
    RESTING,
    WAITING,
    WATCHING,
    Crowd,
    Draining,
    verdicts,
)
from tests.bench.draining import a_budget, a_count
from tests.bench.fleet import a_pod
from tests.bench.report import Results, text
from tests.bench.results import Machine
from tests.bench.stretches import Meter, Stretch, between

CROWD = Crowd()


def a_stretch(**fields: Any) -> Stretch:
    usual: dict[str, Any] = {
        "seconds": 60.0,
        "cpu_seconds": 1.2,
        "requests": {"PATCH": 30, "WATCH": 12},
        "heartbeats": 6_000,
        "passes": 60,
        "asked": 0,
        "resident_mib": 90.0,
    }
    return Stretch(**usual | fields)


GOOD = {
    RESTING: a_stretch(),
    WATCHING: a_stretch(),
    ASKING: a_stretch(requests={"GET": 5_000, "POST": 3_100}, asked=3_000),
    WAITING: a_stretch(requests={"PATCH": 130}),
    LEAVING: a_stretch(requests={"GET": 6_000, "POST": 3_100, "PATCH": 2_000}, asked=3_000),
}


def broken(stretch: str = "", pods_left: int = 0, **fields: Any) -> list[str]:
    changed = {stretch: msgspec.structs.replace(GOOD[stretch], **fields)} if stretch else {}
    found = verdicts(CROWD, GOOD | changed, pods_left, pace=100.0)
    return [verdict.what for verdict in found if not verdict.ok]


def test_what_is_counted_is_what_came_between_two_moments() -> None:
    before = Meter(at=10.0, cpu_seconds=1.0, requests={"GET": 5, "POST": 2}, heartbeats=7, passes=3, asked=1)
    after = Meter(at=70.0, cpu_seconds=4.0, requests={"GET": 9, "POST": 2, "WATCH": 4}, heartbeats=9, passes=4, asked=1)
    one = between(before, after, resident_mib=80.0)
    assert (one.cpu_share, one.requests, one.passes, one.asked) == (0.05, {"GET": 4, "WATCH": 4}, 1, 0)
    assert (one.made, one.writes) == (4, 0)


def test_an_operator_that_waits_and_asks_for_what_changes_keeps_all_promises() -> None:
    assert broken() == []


def test_work_between_rungs_breaks_the_promise() -> None:
    assert broken(WATCHING, cpu_seconds=3.1) == ["CPU while whoever drains has time, of one core"]
    assert broken(WAITING, cpu_seconds=3.1) == ["CPU while budgets refuse, of one core"]


def test_requests_between_rungs_break_it_too_but_for_locks() -> None:
    assert broken(WATCHING, requests={"GET": 41}) == ["requests while whoever drains has time"]
    assert broken(WAITING, requests={"PATCH": 191}) == ["requests while budgets refuse"]
    assert broken(WAITING, asked=1) == ["evictions asked for meanwhile"]


def test_watches_that_end_are_not_counted_as_requests() -> None:
    assert broken(WATCHING, requests={"WATCH": 500}) == []


def test_too_many_requests_for_a_pod_break_it() -> None:
    (what,) = broken(LEAVING, requests={"GET": 19_100})
    assert what.startswith("requests for a pod that leaves")
    (what,) = broken(ASKING, requests={"GET": 7_100}, asked=1_000)
    assert what.startswith("requests for a pod that its budget refuses")


def test_a_pod_that_stays_and_heartbeats_that_never_came_break_it() -> None:
    assert broken(pods_left=1) == ["pods that left when they could"]
    assert broken(WATCHING, heartbeats=5_000) == ["heartbeats seen meanwhile"]


def test_a_budget_selects_the_pods_of_its_node_and_no_others() -> None:
    wanted = a_budget(10)["spec"]["selector"]["matchLabels"].items()
    assert wanted <= a_pod(10, 29)["metadata"]["labels"].items()
    assert not wanted <= a_pod(20, 0)["metadata"]["labels"].items()
    assert a_count(30, 30)["status"] | {"desiredHealthy": 0, "disruptionsAllowed": 30} == a_count(30, 30)["status"]


def test_the_report_shows_every_stretch() -> None:
    draining = Draining(
        crowd=CROWD,
        judged=True,
        load_before=0.5,
        load_after=1.5,
        stretches=GOOD,
        peak_mib=170.0,
        verdicts=verdicts(CROWD, GOOD, 0, pace=100.0),
    )
    results = Results(machine=Machine(cores=2, load=0.5, python="3.11", kubernetes="v1.37.1"), draining=draining)
    assert not results.is_broken
    assert all(what in text(results) for what in GOOD)
    assert not Crowd(nodes=100, draining=10).is_whole

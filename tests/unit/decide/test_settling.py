"""After a freeze nothing new begins for a while, and everybody can see why."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from defib.decide.settling import BLINK_SECONDS, LONGEST_SECONDS, SHORTEST_SECONDS, Settling, settle
from defib.model.cluster import Blindness, Cluster
from defib.model.incident import INCIDENTS, IncidentSpec, IncidentStatus, NodeIncident, Phase
from defib.model.meta import Meta
from tests.builders import T0
from tests.unit.decide.checks import a_check, gate_of, healthy, ill, node_of, plan_of, started, the_cluster
from tests.unit.decide.test_doubt import heartbeats

OUTAGE = "most answers of the API server were failures"


class Watching:
    """Looks once a second, as long as it is told what there is to see."""

    def __init__(self, first: Cluster | None = None) -> None:
        self.seconds = 1.0  # the next look asks after heartbeats
        self.settling = settle(Settling(), first or calm(), "", self.seconds)

    def see(self, seconds: float, cluster: Cluster | None = None, trouble: str = "") -> list[str]:
        """What was said in each second of it."""
        return list(self._see(seconds, cluster or calm(), trouble))

    def _see(self, seconds: float, cluster: Cluster, trouble: str) -> Iterable[str]:
        for _ in range(round(seconds)):
            self.seconds += 1
            now = msgspec.structs.replace(cluster, now=T0 + timedelta(seconds=self.seconds))
            self.settling = settle(self.settling, now, trouble, self.seconds)
            yield self.settling.doubt


def calm(**more: Any) -> Cluster:
    return the_cluster(a_check(), ill("w1"), *healthy(5)[1:], **more)


def silent() -> Cluster:
    return calm(heartbeats=heartbeats(silent=4, total=5))


def blind(kind: str) -> Cluster:
    return calm(blind=(Blindness(kind, T0, "connection refused"),))


def held(said: list[str]) -> int:
    """For how many seconds it was said that we wait; they come first, and then nothing more."""
    count = sum(map(bool, said))
    assert all(said[:count]), said
    return count


FREEZES = [(silent(), ""), (calm(), OUTAGE), (blind("nodes"), ""), (blind("heartbeats"), "")]


@pytest.mark.parametrize(("cluster", "trouble"), FREEZES, ids=["heartbeats", "API", "nodes", "no heartbeats"])
@pytest.mark.parametrize(("lasted", "settles"), [(6, 10), (10, 10), (25, 25), (29, 29), (600, 30)])
def test_after_a_freeze_we_wait_as_long_as_it_lasted_within_bounds(
    cluster: Cluster, trouble: str, lasted: int, settles: int
) -> None:
    watching = Watching()
    watching.see(lasted, cluster, trouble)
    assert held(watching.see(100)) == settles
    assert SHORTEST_SECONDS <= settles <= LONGEST_SECONDS


def test_while_the_freeze_lasts_only_its_own_reason_is_said() -> None:
    watching = Watching()
    assert not any(watching.see(30, silent()))


def test_it_is_said_since_when_and_for_how_long_and_the_words_stay_the_same() -> None:
    watching = Watching()
    watching.see(25, silent())
    (said,) = set(watching.see(25))
    assert said == ("it was in doubt until 00:00:27 UTC, and has to stay clear for 25 s before anything new begins")
    plan = plan_of(calm(doubts=(said,)))
    assert started(plan) == []
    assert gate_of(plan, "SelfDoubt").message == node_of(plan, "w1").message == f"we do not trust our own sight: {said}"
    assert started(plan_of(calm())) == ["w1"]


def test_in_a_calm_cluster_nobody_ever_waits() -> None:
    watching = Watching()
    assert not any(watching.see(600))


@pytest.mark.parametrize("kind", ["nodes", "heartbeats"])
def test_a_watch_that_is_opened_again_within_seconds_has_told_all_that_it_missed(kind: str) -> None:
    watching = Watching()
    watching.see(BLINK_SECONDS - 1, blind(kind))
    assert not any(watching.see(100))


def test_an_outage_is_no_blink_however_short_we_saw_it() -> None:
    watching = Watching()
    watching.see(1, blind("nodes"))
    watching.see(1, calm(), OUTAGE)
    watching.see(1, blind("nodes"))
    assert held(watching.see(100)) == SHORTEST_SECONDS


def test_what_only_some_need_to_see_makes_nobody_else_wait() -> None:
    """A kind that is followed from now on is out of sight until it is listed, and that happens all the time."""
    watching = Watching()
    watching.see(60, blind("foos"))
    assert not any(watching.see(100))


def test_a_freeze_that_comes_back_while_we_wait_is_waited_for_anew() -> None:
    watching = Watching()
    watching.see(20, silent())
    assert all(watching.see(15))
    watching.see(10, silent())
    assert held(watching.see(100)) == SHORTEST_SECONDS


def test_a_short_freeze_never_ends_the_wait_after_a_long_one() -> None:
    watching = Watching()
    watching.see(60, silent())
    watching.see(5)
    watching.see(1, silent())
    assert held(watching.see(100)) == LONGEST_SECONDS - 5 - 1


# After a restart nobody remembers


def doubted() -> Cluster:
    condition = {"type": "RemediationAllowed", "status": "False", "reason": "SelfDoubt", "message": ""}
    stamp = {"lastTransitionTime": "2029-12-31T23:59:00Z"}
    return the_cluster(a_check(status={"conditions": [condition | stamp]}), ill("w1"), *healthy(5)[1:])


def held_up(phase: Phase = Phase.OPEN) -> Cluster:
    status = IncidentStatus(phase=phase, reason="SelfDoubt")
    incident = NodeIncident(metadata=Meta(name="w1"), spec=IncidentSpec(node="w1"), status=status)
    return calm(others={INCIDENTS: {"w1": incident}})


@pytest.mark.parametrize("first", [doubted(), held_up()], ids=["check", "incident"])
def test_whoever_starts_after_a_freeze_that_is_written_down_waits_the_longest(first: Cluster) -> None:
    assert held(Watching(first).see(100)) == LONGEST_SECONDS - 1


@pytest.mark.parametrize("first", [calm(), held_up(Phase.CLOSED)], ids=["nothing", "an incident that is over"])
def test_whoever_starts_in_a_calm_cluster_begins_at_once(first: Cluster) -> None:
    watching = Watching(first)
    assert (watching.settling.doubt, any(watching.see(100))) == ("", False)


def test_what_was_not_listed_yet_at_the_start_was_never_in_doubt() -> None:
    watching = Watching(blind("nodes"))
    watching.see(90, blind("nodes"))
    assert not any(watching.see(100))


def test_while_all_is_well_heartbeats_are_gone_through_every_two_seconds_and_no_more() -> None:
    """Passes may come many times a second. While a doubt lasts every pass asks, so that none begins anything at its end."""
    asked = Settling(has_seen=True, asked=100.0)
    assert settle(asked, silent(), "", 101.9).began is None
    assert settle(asked, silent(), "", 102.0).began == 102.0
    assert settle(msgspec.structs.replace(asked, began=95.0), calm(), "", 100.1).doubt

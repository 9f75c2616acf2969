"""Who leads, as Prometheus reads it."""

from prometheus_client.parser import text_string_to_metric_families

from defib.model.standing import Standing
from defib.telemetry.catalogue import (
    BUCKETS_HELD,
    BUCKETS_UNOWNED,
    LEADER_KNOWN,
    LEADERSHIP_CHANGES,
    LEADING,
    REPLICAS_SEEN,
)
from defib.telemetry.metrics import Metrics

ROWS = (LEADING, LEADER_KNOWN, LEADERSHIP_CHANGES, BUCKETS_HELD, BUCKETS_UNOWNED, REPLICAS_SEEN)


def shown(metrics: Metrics) -> list[float | None]:
    """In the order of the rows; None where there is no series."""
    families = text_string_to_metric_families(metrics.render().decode())
    found = {sample.name: sample.value for family in families for sample in family.samples}
    return [found.get(row.name) for row in ROWS]


def test_who_takes_no_part_in_an_election_has_no_such_series() -> None:
    assert shown(Metrics()) == [None] * len(ROWS)


def test_a_leader_and_a_standby_can_be_told_apart() -> None:
    leader, standby = Metrics(), Metrics()
    leader.stands(Standing(leads=True, leader="one", terms=2))
    standby.stands(Standing(leads=False, leader="one"))
    assert shown(leader)[:3] == [1, 1, 2]
    assert shown(standby)[:3] == [0, 1, 0]


def test_a_replica_that_does_not_see_who_leads_says_so() -> None:
    metrics = Metrics()
    metrics.stands(Standing(leads=False))
    assert shown(metrics)[:2] == [0, 0]


def test_the_only_replica_knows_who_leads() -> None:
    metrics = Metrics()
    metrics.stands(Standing(leads=True))
    assert shown(metrics)[:2] == [1, 1]


def test_where_one_leads_in_everything_nothing_is_said_of_buckets() -> None:
    """While replicas go over to sharing the work, a 0 of one that does not would hide what the others see."""
    metrics = Metrics()
    metrics.stands(Standing(leads=True, leader="one", terms=2))
    assert shown(metrics)[3:] == [None, None, None]


def test_replicas_that_share_the_work_tell_what_they_hold_and_what_nobody_does() -> None:
    metrics = Metrics()
    metrics.stands(Standing(leads=False, leader="two", held=11, unowned=3, members=3))
    assert shown(metrics)[3:] == [11, 3, 3]


def test_how_long_it_took_to_catch_up_is_measured() -> None:
    metrics = Metrics()
    metrics.caught_up(0.3)
    assert b"defib_catch_up_seconds_count 1.0" in metrics.render()

"""What a report recommends, and why; and that it says so when it cannot know."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from defib.decide.answers.report import (
    UNKNOWN_POOL,
    Advice,
    Alternative,
    CheckReport,
    ConditionReport,
    report_on,
)
from defib.decide.reading import read_check
from defib.model.health_check import SPELLS_MAX, SPELLS_OPEN_MAX, Check, CheckStatus, Spell
from tests.builders import HOUR, MINUTE, SECOND, T0
from tests.unit.decide.checks import a_check
from tests.unit.decide.test_regret import NOW, a_spell

NODES = 100
RARELY = 2 * HOUR


def the_check(**spec: Any) -> Check:
    check = read_check(a_check(**spec))
    assert isinstance(check, Check)
    return check


def told(spells: Sequence[Spell], pool_of: dict[str, str] | None = None, **spec: Any) -> CheckReport:
    status = CheckStatus(observed_nodes=NODES, spells=list(spells) or None)
    return report_on(the_check(**spec), status, NOW, pool_of)


def ready(report: CheckReport) -> ConditionReport:
    return next(one for pool in report.pools for one in pool.conditions if one.type == "Ready")


def advice(spells: Sequence[Spell], **spec: Any) -> Advice:
    return ready(told(spells, **spec)).advice


def row(report: CheckReport, name: str) -> Alternative:
    return next(one for one in ready(report).alternatives if one.name == name)


def lasting(*lengths: timedelta, **more: Any) -> list[Spell]:
    """Of a node each, one after the other."""
    return [
        a_spell(f"n{number}", began=T0 + number * RARELY / 10, lasted=length, **more)
        for number, length in enumerate(lengths)
    ]


# What is recommended


def test_the_shortest_duration_that_would_have_spared_all_that_came_back_is_recommended() -> None:
    found = advice(lasting(15 * SECOND, 25 * SECOND, 45 * SECOND, HOUR, HOUR))
    assert found.duration == "1m"
    assert found.message == (
        "1m: it would have acted 2 times, and of those none is known to have come back soon by itself (within 5m); "
        "at 30s, 1 of 3 did"
    )


def test_where_nothing_lasted_that_long_the_duration_says_so() -> None:
    found = advice(lasting(*[12 * SECOND] * 6))
    assert (found.duration, found.message) == ("20s", "20s: no outage lasted so long; at 10s, 6 of 6 did")


def test_a_duration_that_is_right_already_is_said_to_be() -> None:
    conditions = [{"type": "Ready", "status": "Unknown", "duration": "45s"}]
    found = advice(lasting(*[40 * SECOND] * 6), unhealthyConditions=conditions)
    assert found.message.startswith("45s, as it is now: no outage lasted so long")


def test_of_many_acts_one_in_twenty_may_be_in_vain() -> None:
    few = [*lasting(*[HOUR] * 10), a_spell("x", began=T0 + HOUR / 2, lasted=15 * SECOND)]
    many = [*lasting(*[HOUR] * 30), a_spell("x", began=T0 + HOUR / 2, lasted=15 * SECOND)]
    assert advice(few).duration == "20s"
    found = advice(many)
    assert found.duration == "10s"
    assert "acted 31 times, and of those 1 came back soon by itself" in found.message


def test_a_node_that_comes_back_later_than_a_remediation_takes_is_no_reason_to_wait() -> None:
    assert advice(lasting(*[7 * MINUTE] * 5)).duration == "10s"


def test_where_even_the_longest_would_have_been_in_vain_none_is_recommended() -> None:
    found = advice(lasting(*(MINUTE * length for length in (1.2, 2.5, 4, 5.5, 7))))
    assert found.duration == ""
    assert found.message == (
        "none of these: even at 5m, 2 of 2 came back by themselves within 5m; the longest that came back took 7m. "
        "Wait longer than that, or find out what ails them"
    )


@pytest.mark.parametrize(("count", "said"), [(4, "4 outages are"), (1, "1 outage is")])
def test_a_handful_of_outages_recommends_nothing(count: int, said: str) -> None:
    found = advice(lasting(*[15 * SECOND] * count))
    assert found.duration == ""
    assert found.message == f"too little history: {said} written down, and 5 are needed to say anything"


def test_what_was_cut_short_is_said_with_the_recommendation() -> None:
    found = advice(lasting(*[10 * MINUTE] * 5, remediated=MINUTE))
    assert found.duration == "10s"
    assert found.message.endswith("of 5 nobody can know: remediated since, gone, or still ill")


# Alternatives


def test_the_durations_that_are_set_stand_among_the_others() -> None:
    conditions = [{"type": "Ready", "status": "Unknown", "duration": "45s"}]
    names = [(one.name, one.is_now) for one in ready(told([a_spell()], unhealthyConditions=conditions)).alternatives]
    assert names == [
        *(("10s", False), ("20s", False), ("30s", False), ("45s", True)),
        *(("1m", False), ("2m", False), ("5m", False)),
    ]


def test_durations_that_differ_by_status_are_a_row_of_their_own() -> None:
    conditions = [
        {"type": "Ready", "status": "Unknown", "duration": "30s"},
        {"type": "Ready", "status": "False", "duration": "10m"},
    ]
    spells = [*lasting(MINUTE, MINUTE), a_spell("f", status="False", began=T0 + 10 * HOUR, lasted=MINUTE)]
    report = told(spells, unhealthyConditions=conditions)
    now = row(report, "False 10m, Unknown 30s")
    assert (now.is_now, now.acted) == (True, 2)
    assert row(report, "30s").acted == 3


def test_every_type_of_condition_is_looked_at_by_itself() -> None:
    conditions = [
        {"type": "Ready", "status": "Unknown", "duration": "30s"},
        {"type": "DiskPressure", "status": "True", "duration": "10m"},
    ]
    disk = Spell(node="n1", type="DiskPressure", status="True", began=T0, ended=T0 + HOUR, healed=True)
    (pool,) = told([a_spell(), disk], unhealthyConditions=conditions).pools
    assert [(one.type, one.outages, one.fast_path is None) for one in pool.conditions] == [
        ("DiskPressure", 1, True),
        ("Ready", 1, False),
    ]
    assert pool.outages == 1, "the node was ill once"


def test_spells_during_an_upgrade_are_left_out_and_counted() -> None:
    upgraded = msgspec.structs.replace(a_spell("n2"), upgrade="kured")
    report = told([a_spell("n1"), upgraded])
    assert (report.spells, report.upgrades, ready(report).outages) == (2, 1, 1)


def test_nodes_are_told_apart_by_the_label_that_was_asked_for() -> None:
    report = told([a_spell("n1"), a_spell("n2"), a_spell("gone")], {"n1": "a", "n2": "b"})
    assert [(pool.name, pool.outages) for pool in report.pools] == [(UNKNOWN_POOL, 1), ("a", 1), ("b", 1)]


def test_the_nodes_that_were_ill_most_often_are_named() -> None:
    spells = [a_spell("bad", began=T0 + number * HOUR) for number in range(3)] + [a_spell("good")]
    (pool,) = told(spells).pools
    assert [(one.node, one.outages) for one in pool.often] == [("bad", 3)]


def test_budgets_up_to_the_most_that_were_ill_at_once_are_tried_with_the_durations_as_they_are() -> None:
    report = told([a_spell(f"n{number}", lasted=HOUR) for number in range(3)])
    assert report.most_at_once == 3
    assert [(one.name, one.is_now, one.acted, one.held) for one in report.budgets] == [
        ("1", False, 0, 3),
        ("2", False, 0, 3),
        ("3", False, 3, 0),
        ("49", True, 3, 0),
    ]


# What is not known


def test_a_check_that_remembers_nothing_says_why_that_may_be() -> None:
    report = told([])
    assert (report.pools, report.since) == ((), None)
    assert report.unknown[0].startswith("nothing is written down: no operator has seen an unhealthy node yet")


def test_a_record_that_is_full_says_so() -> None:
    spells = [a_spell(f"n{number}", began=T0 + number * MINUTE, lasted=SECOND) for number in range(SPELLS_MAX)]
    assert any(f"only {SPELLS_MAX} spells are kept" in note for note in told(spells).unknown)
    assert not any("are kept" in note for note in told(spells[1:]).unknown)


def test_a_mass_failure_that_was_recorded_in_part_says_so() -> None:
    spells = [a_spell(f"n{number}") for number in range(SPELLS_OPEN_MAX)]
    assert any("there may have been more" in note for note in told(spells).unknown)


def test_without_a_fast_path_what_it_would_have_done_is_at_most() -> None:
    report = told([a_spell(silent_since=T0 - 45 * SECOND)])
    fast = ready(report).fast_path
    assert fast is not None
    assert (fast.acted, fast.at_most) == (1, True)
    assert any("no fast path" in note for note in report.unknown)

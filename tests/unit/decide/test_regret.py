"""What other settings would have come to: acts that were in vain, acts that were right, and what nobody can know."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import pytest

from defib.decide.answers.regret import (
    SOON,
    SUSPECTED_AFTER,
    Budget,
    Crowd,
    Fate,
    Outage,
    Tally,
    always,
    as_silences,
    outages_of,
    tally,
)
from defib.model.health_check import SPELLS_OPEN_MAX, Spell
from tests.builders import HOUR, MINUTE, SECOND, T0

NOW = T0 + 24 * HOUR
ANY = 10_000


def a_spell(
    node: str = "n1",
    *,
    began: datetime = T0,
    lasted: timedelta | None = MINUTE,
    healed: bool = True,
    status: str = "Unknown",
    remediated: timedelta | None = None,
    silent_since: datetime | None = None,
) -> Spell:
    """`lasted` is None while it goes on; `remediated` is how long after it began."""
    return Spell(
        node=node,
        type="Ready",
        status=status,
        began=began,
        ended=None if lasted is None else began + lasted,
        healed=healed and lasted is not None,
        remediated=None if remediated is None else began + remediated,
        silent_since=silent_since,
    )


def tried(spells: Iterable[Spell], wait: timedelta, most_ill: int = ANY) -> Tally:
    outages = outages_of(spells, NOW)
    return tally(outages, always(wait), Budget(Crowd(outages), most_ill))


def fate(spell: Spell, wait: timedelta) -> Fate:
    (found,) = [sort for sort, count in tried([spell], wait).fates.items() if count]
    return found


# One outage, one duration


def test_an_act_on_a_node_that_comes_back_soon_after_it_was_in_vain() -> None:
    assert fate(a_spell(lasted=MINUTE), 30 * SECOND) is Fate.CAME_BACK


def test_a_node_that_is_back_before_its_time_is_up_is_not_acted_on() -> None:
    assert fate(a_spell(lasted=29 * SECOND), 30 * SECOND) is Fate.OVER


def test_a_node_that_comes_back_only_long_after_would_have_been_mended_sooner() -> None:
    told = tried([a_spell(lasted=2 * HOUR)], 30 * SECOND)
    assert (told.fates[Fate.STAYED], told.sooner) == (1, 2 * HOUR - 30 * SECOND)


@pytest.mark.parametrize(("lasted", "sort"), [(SOON, Fate.CAME_BACK), (SOON + SECOND, Fate.STAYED)])
def test_soon_is_counted_from_the_act(lasted: timedelta, sort: Fate) -> None:
    assert fate(a_spell(lasted=30 * SECOND + lasted), 30 * SECOND) is sort


def test_what_was_remediated_shortly_after_is_not_known() -> None:
    told = tried([a_spell(lasted=10 * MINUTE, remediated=MINUTE)], 30 * SECOND)
    assert (told.acted, told.fates[Fate.NOT_KNOWN], told.sooner) == (1, 1, 30 * SECOND)


def test_what_was_remediated_before_it_was_due_may_or_may_not_have_been_acted_on() -> None:
    assert fate(a_spell(lasted=10 * MINUTE, remediated=MINUTE), 2 * MINUTE) is Fate.UNSURE


def test_what_stayed_ill_for_long_before_it_was_remediated_is_known_to_have_stayed() -> None:
    assert fate(a_spell(lasted=HOUR, remediated=10 * MINUTE), 30 * SECOND) is Fate.STAYED


def test_a_remediation_that_was_there_before_leaves_nothing_to_know() -> None:
    assert fate(a_spell(lasted=HOUR, remediated=-MINUTE), 30 * SECOND) is Fate.UNSURE


def test_a_node_that_was_deleted_or_is_still_ill_did_not_come_back() -> None:
    assert fate(a_spell(lasted=MINUTE, healed=False), 30 * SECOND) is Fate.NOT_KNOWN
    assert fate(a_spell(lasted=MINUTE, healed=False), 2 * MINUTE) is Fate.UNSURE
    assert fate(a_spell(began=NOW - MINUTE, lasted=None), 30 * SECOND) is Fate.NOT_KNOWN
    assert fate(a_spell(began=NOW - HOUR, lasted=None), 30 * SECOND) is Fate.STAYED


# Spells that touch


def test_a_node_that_comes_back_not_ready_is_not_back_yet_and_its_duration_counts_anew() -> None:
    """Unknown for 40 s, then False for 20 s: one outage, in which no condition lasted longer than 40 s."""
    spells = [
        a_spell(lasted=40 * SECOND),
        a_spell(began=T0 + 40 * SECOND, lasted=20 * SECOND, status="False"),
    ]
    (outage,) = outages_of(spells, NOW)
    assert (outage.began, outage.until, outage.came_back) == (T0, T0 + MINUTE, True)
    assert tried(spells, 30 * SECOND).fates == {Fate.CAME_BACK: 1}
    assert tried(spells, 50 * SECOND).fates == {Fate.OVER: 1}


def test_spells_of_one_node_with_a_pause_between_them_are_two_outages() -> None:
    assert len(outages_of([a_spell(), a_spell(began=T0 + 2 * MINUTE)], NOW)) == 2


def test_spells_of_different_nodes_are_different_outages() -> None:
    assert len(outages_of([a_spell("n1"), a_spell("n2")], NOW)) == 2


def test_a_condition_within_another_one_does_not_end_it() -> None:
    spells = [
        a_spell(lasted=10 * MINUTE),
        a_spell(began=T0 + MINUTE, lasted=SECOND, status="False"),
        a_spell(began=T0 + 9 * MINUTE, lasted=SECOND, status="False"),
    ]
    (outage,) = outages_of(spells, NOW)
    assert (outage.began, outage.until) == (T0, T0 + 10 * MINUTE)


def test_a_remediation_in_any_part_of_an_outage_cuts_it_short_there() -> None:
    spells = [
        a_spell(lasted=MINUTE, remediated=50 * SECOND),
        a_spell(began=T0 + MINUTE, lasted=MINUTE, status="False"),
    ]
    (outage,) = outages_of(spells, NOW)
    assert (outage.known_until, outage.came_back) == (T0 + 50 * SECOND, False)


# Budgets


def a_crowd(size: int, lasted: timedelta = HOUR) -> list[Spell]:
    return [a_spell(f"n{number}", lasted=lasted) for number in range(size)]


def test_while_more_are_ill_than_the_budget_allows_nothing_is_begun() -> None:
    assert tried(a_crowd(4), MINUTE, most_ill=3).fates == {Fate.HELD: 4}
    assert tried(a_crowd(3), MINUTE, most_ill=3).fates == {Fate.STAYED: 3}


def test_what_was_held_back_is_begun_when_enough_of_the_others_are_well() -> None:
    spells = [*a_crowd(2, lasted=10 * MINUTE), a_spell("last", lasted=HOUR)]
    told = tried(spells, MINUTE, most_ill=1)
    assert (told.fates[Fate.HELD], told.acted) == (2, 1)
    assert told.sooner == 50 * MINUTE


def test_where_the_record_is_full_there_may_have_been_any_number_so_nothing_is_begun() -> None:
    assert tried(a_crowd(SPELLS_OPEN_MAX), MINUTE).acted == 0
    assert tried(a_crowd(SPELLS_OPEN_MAX - 1), MINUTE).acted == SPELLS_OPEN_MAX - 1


def test_the_most_that_were_ill_at_once_are_counted_without_those_that_were_well_again() -> None:
    spells = [a_spell("n1"), a_spell("n2", began=T0 + 30 * SECOND), a_spell("n3", began=T0 + 80 * SECOND)]
    assert Crowd(outages_of(spells, NOW)).most == 2
    assert Crowd(()).most == 0


# The fast path, where there was none


def silences(*spells: Spell) -> tuple[Outage, ...]:
    return as_silences(outages_of(spells, NOW))


def test_a_fast_path_could_have_been_sure_22_seconds_after_the_last_heartbeat() -> None:
    spell = a_spell(silent_since=T0 - 45 * SECOND, lasted=HOUR, remediated=5 * MINUTE)
    outages = silences(spell)
    told = tally(outages, always(timedelta()), Budget(Crowd(outages), ANY))
    assert SUSPECTED_AFTER == 22 * SECOND
    assert told.sooner == 5 * MINUTE + 45 * SECOND - SUSPECTED_AFTER


def test_a_node_that_never_fell_silent_is_nothing_for_a_fast_path() -> None:
    assert silences(a_spell(status="False")) == ()

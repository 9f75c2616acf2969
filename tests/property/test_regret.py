"""Whatever is written down: waiting longer never acts more often, nor does a smaller budget, and no act counts twice."""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from defib.decide.answers.regret import Budget, Crowd, Fate, always, outages_of, tally
from defib.model.health_check import Spell
from tests.builders import HOUR, SECOND, T0

NOW = T0 + 2 * HOUR
SECONDS = st.integers(0, 1200).map(lambda count: timedelta(seconds=count))


@st.composite
def spells(draw: st.DrawFn) -> Spell:
    began = T0 + draw(st.integers(0, 3600)) * SECOND
    lasted = draw(st.none() | SECONDS)
    remediated = draw(st.none() | st.integers(-60, 1200).map(lambda count: timedelta(seconds=count)))
    return Spell(
        node=draw(st.sampled_from(["n1", "n2", "n3", "n4"])),
        type="Ready",
        status=draw(st.sampled_from(["Unknown", "False"])),
        began=began,
        ended=None if lasted is None else began + lasted,
        healed=lasted is not None and draw(st.booleans()),
        remediated=None if remediated is None else began + remediated,
    )


RECORDS = st.lists(spells(), max_size=12)


@settings(max_examples=300, deadline=None)
@given(record=RECORDS, waits=st.tuples(SECONDS, SECONDS), most_ill=st.integers(0, 5))
def test_a_longer_duration_never_acts_more_often(
    record: list[Spell], waits: tuple[timedelta, timedelta], most_ill: int
) -> None:
    outages = outages_of(record, NOW)
    budget = Budget(Crowd(outages), most_ill)
    short, long = (tally(outages, always(wait), budget) for wait in sorted(waits))
    assert long.acted <= short.acted


@settings(max_examples=300, deadline=None)
@given(record=RECORDS, wait=SECONDS, sizes=st.tuples(st.integers(0, 5), st.integers(0, 5)))
def test_a_smaller_budget_never_acts_more_often(record: list[Spell], wait: timedelta, sizes: tuple[int, int]) -> None:
    outages = outages_of(record, NOW)
    small, large = (tally(outages, always(wait), Budget(Crowd(outages), size)) for size in sorted(sizes))
    assert small.acted <= large.acted


@settings(max_examples=300, deadline=None)
@given(record=RECORDS, wait=SECONDS, most_ill=st.integers(0, 5))
def test_every_outage_has_one_fate_and_none_is_mended_later_than_it_was(
    record: list[Spell], wait: timedelta, most_ill: int
) -> None:
    outages = outages_of(record, NOW)
    told = tally(outages, always(wait), Budget(Crowd(outages), most_ill))
    assert sum(told.fates.values()) == len(outages)
    assert told.fates[Fate.CAME_BACK] <= told.acted <= len(outages)
    assert timedelta() <= told.sooner <= sum((one.until - one.began for one in outages), timedelta())


@settings(max_examples=300, deadline=None)
@given(record=RECORDS)
def test_spells_are_joined_into_outages_that_do_not_touch_and_lose_nothing(record: list[Spell]) -> None:
    outages = outages_of(record, NOW)
    assert sum(len(one.stretches) for one in outages) == len(record)
    for one in outages:
        assert one.began <= one.known_until <= one.until
        others = [other for other in outages if other.node == one.node and other is not one]
        assert not any(other.began <= one.until and one.began <= other.until for other in others)

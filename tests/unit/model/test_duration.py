"""Durations, as Kubernetes objects write them and as we tell them to people."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from defib.model.duration import LONGEST, read_duration, say

LENGTHS = st.timedeltas(min_value=timedelta(), max_value=LONGEST)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("0s", timedelta()),
        ("300s", timedelta(minutes=5)),
        ("1h30m", timedelta(minutes=90)),
        ("1.5h", timedelta(minutes=90)),
        ("1h0m0.5s", timedelta(hours=1, milliseconds=500)),
        ("250ms", timedelta(milliseconds=250)),
        ("7us", timedelta(microseconds=7)),
        ("7\u00b5s", timedelta(microseconds=7)),
        ("7\u03bcs", timedelta(microseconds=7)),
        ("7000ns", timedelta(microseconds=7)),
        ("1s1s", timedelta(seconds=2)),
        ("-10s", timedelta(seconds=-10)),
        ("876000h", LONGEST),
    ],
)
def test_what_go_would_read_is_read(written: str, meant: timedelta) -> None:
    assert read_duration(written) == meant


@pytest.mark.parametrize(
    "written",
    ["", "-", "5", "0", "m", "5 m", " 5m", "5m\n", "5d", "5m5", ".5s", "5.s", "--5m", "1h-5m", "+5m", "1e3s", "٣m"],
)
def test_any_other_text_is_refused_and_repeated(written: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; write it like 300s") as refused:
        read_duration(written)
    assert repr(written) in str(refused.value)


@pytest.mark.parametrize("written", [None, 300, 1.5, True, [], {}, ["5m"]])
def test_what_is_no_text_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        read_duration(written)


@pytest.mark.parametrize("written", ["876001h", "-876001h", "9" * 63 + "s"])
def test_more_than_a_hundred_years_are_refused(written: str) -> None:
    with pytest.raises(ValueError, match="longer than a hundred years"):
        read_duration(written)


def test_something_huge_is_refused_at_once_and_in_a_few_words() -> None:
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]
    for written in ("1" * 10**6, "1s" * 10**6, nested):
        with pytest.raises(ValueError, match="is not a duration") as refused:
            read_duration(written)
        assert len(str(refused.value)) < 200


@given(text=st.text(st.sampled_from("0159.hmsnu-"), max_size=12))
def test_whatever_is_read_can_be_added_to_a_time_of_today(text: str) -> None:
    try:
        length = read_duration(text)
    except ValueError:
        return
    assert datetime(2030, 1, 1, tzinfo=UTC) + length


@pytest.mark.parametrize(
    ("length", "told"),
    [
        (timedelta(), "0s"),
        (timedelta(microseconds=3), "0s"),
        (timedelta(milliseconds=500), "0.5s"),
        (timedelta(seconds=1.234), "1.234s"),
        (timedelta(seconds=45), "45s"),
        (timedelta(seconds=12.345), "12.3s"),
        (timedelta(seconds=60), "1m"),
        (timedelta(seconds=119.96), "2m"),
        (timedelta(seconds=3599.99), "1h"),
        (timedelta(minutes=90), "1h30m"),
        (timedelta(hours=1, seconds=5), "1h5s"),
        (timedelta(seconds=-90), "-1m30s"),
        (timedelta(days=2), "48h"),
    ],
)
def test_a_length_is_told_as_a_person_would_write_it(length: timedelta, told: str) -> None:
    assert say(length) == told


@given(length=LENGTHS)
def test_what_we_tell_is_what_it_is_but_for_the_fraction(length: timedelta) -> None:
    assert abs(read_duration(say(length)) - length) <= timedelta(seconds=0.051)


@given(length=LENGTHS)
def test_we_never_tell_sixty_seconds_or_sixty_minutes(length: timedelta) -> None:
    assert "60s" not in say(length)
    assert "60m" not in say(length)

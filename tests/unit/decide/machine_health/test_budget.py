"""maxUnhealthy: how many machines may be unhealthy before nothing is done about any (RM-31)."""

from typing import Any

import pytest

from defib.decide.field import Field, Problems
from defib.decide.machine_health.budget import Budget, Most, read_most


def read(value: Any) -> tuple[Most, tuple[str, ...]]:
    problems = Problems()
    return read_most(Field("spec.maxUnhealthy", value, problems)), problems.sentences


@pytest.mark.parametrize(
    ("value", "total", "most"),
    [
        (None, 7, 7),
        (2, 7, 2),
        ("2", 7, 2),
        (0, 7, 0),
        ("40%", 5, 2),
        ("60%", 7, 4),  # 4.2, rounded down
        ("100%", 7, 7),
        ("150%", 4, 6),
        ("0%", 7, 0),
        (-1, 7, 0),
        ("-3", 7, 0),
        ("-10%", 7, 0),
    ],
)
def test_a_number_a_share_or_a_number_in_a_text_and_shares_are_rounded_down(value: Any, total: int, most: int) -> None:
    found, problems = read(value)
    assert (found.of(total), problems) == (most, ())


@pytest.mark.parametrize(
    "value", ["a", "a%", "1%0", "", "%", "1.5", " 1", "99999999999", 10**10, True, 1.5, [], {"a": 1}]
)
def test_what_is_neither_is_told_and_allows_nothing(value: Any) -> None:
    found, problems = read(value)
    assert found.of(10) == 0
    assert problems == ('spec.maxUnhealthy: must be a number or a share, like 2, "2" or "40%"',)


def test_as_many_as_the_limit_may_be_unhealthy_and_not_one_more() -> None:
    assert not Budget(expected=5, healthy=3, most=Most(2, is_percent=False)).is_exceeded
    assert Budget(expected=5, healthy=2, most=Most(2, is_percent=False)).is_exceeded


def test_what_is_left_is_never_less_than_nothing() -> None:
    assert Budget(expected=5, healthy=4, most=Most(2, is_percent=False)).left == 1
    assert Budget(expected=5, healthy=0, most=Most(2, is_percent=False)).left == 0


def test_without_machines_nothing_is_exceeded() -> None:
    assert not Budget(expected=0, healthy=0, most=Most(0, is_percent=False)).is_exceeded

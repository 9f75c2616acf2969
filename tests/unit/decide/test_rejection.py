"""A person's no: how it is written, how it is read, and when it holds."""

from datetime import timedelta

import pytest

from defib.decide.rejection import REJECTED, rejection_of, rejection_value
from tests.builders import HOUR, T0

LATER = "2030-01-01T01:00:00Z"  # an hour after T0


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (rejection_value(LATER, "ann", ""), f"ann has said no until {LATER}"),
        (rejection_value(LATER, "ann", "disk: broken"), f"ann has said no until {LATER} (disk: broken)"),
        (
            rejection_value(LATER, "system:serviceaccount:ops:bot", "x"),
            f"system:serviceaccount:ops:bot has said no until {LATER} (x)",
        ),
        (LATER, f"a person has said no until {LATER}"),
    ],
)
def test_who_said_it_and_why_can_be_read_back(value: str, said: str) -> None:
    no = rejection_of({REJECTED: value})
    assert no is not None
    assert (no.until, no.said) == (T0 + HOUR, said)


def test_it_holds_until_its_time_is_over() -> None:
    no = rejection_of({REJECTED: rejection_value(LATER, "ann", "")})
    assert no is not None
    assert no.holds(T0)
    assert no.holds(T0 + HOUR - timedelta(seconds=1))
    assert not no.holds(T0 + HOUR)


def test_what_cannot_be_read_holds_for_ever() -> None:
    no = rejection_of({REJECTED: "never"})
    assert no is not None
    assert no.holds(T0 + 10000 * HOUR)
    assert "'never' does not begin with a time" in no.said


def test_without_the_annotation_nobody_has_said_no() -> None:
    assert rejection_of({}) is None
    assert rejection_of({REJECTED: ""}) is None

"""Whether our own clock goes evenly."""

from datetime import timedelta

import pytest

from defib.observe.steadiness import Steadiness
from tests.builders import HOUR, SECOND, T0


def test_a_clock_that_goes_evenly_is_trusted_however_long_it_was_not_looked_at() -> None:
    steadiness = Steadiness(T0, 100.0)
    assert [steadiness.doubt(T0 + timedelta(seconds=passed), 100.0 + passed) for passed in (1, 2, 5000)] == [""] * 3


def test_a_clock_that_is_put_right_little_by_little_is_trusted() -> None:
    steadiness = Steadiness(T0, 0.0)
    assert not any(steadiness.doubt(T0 + passed * 1.01 * SECOND, passed) for passed in range(0, 3000, 60))


@pytest.mark.parametrize("jump", [2 * HOUR, -2 * HOUR, 6 * SECOND], ids=str)
def test_after_a_jump_times_are_doubted_for_a_minute(jump: timedelta) -> None:
    steadiness = Steadiness(T0, 0.0)
    assert steadiness.doubt(T0 + jump + SECOND, 1.0) == "our own clock has jumped"
    assert steadiness.doubt(T0 + jump + 60 * SECOND, 60.0)
    assert steadiness.doubt(T0 + jump + 61 * SECOND, 61.0) == ""

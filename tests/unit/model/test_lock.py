"""The lock on a node: who holds it, and until when."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from defib.model.lock import ends_at, held_by_another, is_held
from defib.model.node import Lease, LeaseSpec
from tests.builders import MINUTE, SECOND, T0

US, THEM = "NodeHealthCheck-workers", "node-maintenance"


def a_lock(
    holder: str | None = THEM, *, seconds: int | None = 60, renewed: datetime | None = T0, acquired: datetime = T0
) -> Lease:
    return Lease(
        spec=LeaseSpec(
            holder_identity=holder, lease_duration_seconds=seconds, acquire_time=acquired, renew_time=renewed
        )
    )


def test_a_lock_ends_so_long_after_its_last_renewal() -> None:
    assert ends_at(a_lock(renewed=T0 + MINUTE, acquired=T0)) == T0 + 2 * MINUTE


def test_a_lock_is_held_up_to_its_very_end() -> None:
    lock = a_lock()
    assert is_held(lock, T0)
    assert is_held(lock, T0 + MINUTE)
    assert not is_held(lock, T0 + MINUTE + timedelta(microseconds=1))


def test_no_lock_is_held_by_nobody() -> None:
    assert not is_held(None, T0)
    assert held_by_another(None, US, T0) == ""


def test_the_clock_of_a_holder_may_be_a_little_ahead_of_ours() -> None:
    assert is_held(a_lock(renewed=T0 + 2 * SECOND), T0)
    assert held_by_another(a_lock(renewed=T0 + 2 * SECOND), US, T0) == THEM


def test_a_renewal_from_the_far_future_is_no_renewal() -> None:
    assert is_held(a_lock(renewed=T0 + 5 * MINUTE), T0)
    assert not is_held(a_lock(renewed=T0 + 5 * MINUTE + SECOND), T0)


@pytest.mark.parametrize(
    "lock",
    [a_lock(None), a_lock(""), a_lock(seconds=None), a_lock(renewed=None), Lease()],
    ids=["nobody", "an empty name", "no length", "never renewed", "nothing at all"],
)
def test_a_lock_that_says_too_little_is_free_for_everybody(lock: Lease) -> None:
    assert ends_at(lock) is None
    assert not is_held(lock, T0)
    assert held_by_another(lock, US, T0) == ""


def test_another_holder_is_named_while_the_lock_lasts() -> None:
    assert held_by_another(a_lock(THEM), US, T0) == THEM
    assert held_by_another(a_lock(THEM), US, T0 + 2 * MINUTE) == ""


def test_our_own_lock_is_held_but_by_no_other() -> None:
    assert is_held(a_lock(US), T0)
    assert held_by_another(a_lock(US), US, T0) == ""


def test_a_length_below_zero_ends_at_once() -> None:
    assert ends_at(a_lock(seconds=-60)) == T0


@given(seconds=st.integers())
def test_no_length_leaves_the_calendar(seconds: int) -> None:
    ends = ends_at(a_lock(seconds=seconds))
    assert ends is not None
    assert ends >= T0

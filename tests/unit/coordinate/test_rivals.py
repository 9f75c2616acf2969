"""Whoever gets the lock waits for those who may still act by it, and for nobody else."""

import math

from defib.coordinate.rivals import Look, Rivals, Told, may_act, saw, unknown

LEASE = 15.0
NOTHING_ESCAPED = Rivals(lease_seconds=LEASE, looked=100.0, not_before=-math.inf)


def told(renewals: int, *, holds: bool = True, acts: bool = True) -> Told:
    return Told(name="a", holds=holds, acts=acts, renewals=renewals)


def a_look(*, owns: bool = True, hold: int = 1, is_newcomer: bool = False, **others: Told) -> Look:
    return Look(owns=owns, hold=hold, is_newcomer=is_newcomer, others=others)


def test_a_newcomer_waits_for_a_lease_since_nobody_can_tell_who_led() -> None:
    rivals = saw(unknown(LEASE, 0.0), a_look(is_newcomer=True), 100.0)
    assert rivals.are_over == 115.0
    assert not may_act(rivals, a_look())


def test_a_newcomer_waits_no_longer_once_it_sees_somebody_act() -> None:
    rivals = saw(unknown(LEASE, 0.0), a_look(owns=False, is_newcomer=True, x=told(1)), 100.0)
    rivals = saw(rivals, a_look(owns=False, x=told(2)), 102.0)
    rivals = saw(rivals, a_look(x=told(3, holds=False, acts=False)), 104.0)
    assert may_act(rivals, a_look())


def test_what_a_newcomer_reads_first_may_be_old_and_proves_nothing() -> None:
    rivals = saw(unknown(LEASE, 0.0), a_look(owns=False, is_newcomer=True, x=told(1)), 100.0)
    assert rivals.not_before == 115.0


def test_whoever_told_that_it_has_stopped_is_not_waited_for() -> None:
    rivals = saw(NOTHING_ESCAPED, a_look(owns=False, x=told(1)), 102.0)
    rivals = saw(rivals, a_look(x=told(2, holds=False, acts=False)), 104.0)
    assert may_act(rivals, a_look())


def test_silence_counts_from_when_the_last_news_was_read() -> None:
    rivals = saw(NOTHING_ESCAPED, a_look(owns=False, x=told(1)), 102.0)
    rivals = saw(rivals, a_look(owns=False, x=told(2)), 104.0)
    rivals = saw(rivals, a_look(x=told(2)), 106.0)
    assert rivals.are_over == 119.0
    assert not may_act(rivals, a_look())
    rivals = saw(rivals, a_look(x=told(2)), 119.0)
    assert may_act(rivals, a_look())


def test_whoever_vanishes_before_it_was_silent_for_a_lease_is_waited_for_from_then_on() -> None:
    rivals = saw(NOTHING_ESCAPED, a_look(owns=False, x=told(1)), 102.0)
    assert saw(rivals, a_look(), 104.0).are_over == 119.0


def test_whoever_vanishes_after_a_lease_of_silence_is_not_waited_for() -> None:
    rivals = saw(NOTHING_ESCAPED, a_look(owns=False, x=told(1)), 102.0)
    for now in (106.0, 112.0, 117.0):
        rivals = saw(rivals, a_look(owns=False, x=told(1)), now)
    assert may_act(saw(rivals, a_look(), 119.0), a_look())


def test_after_a_lease_without_a_look_somebody_may_have_led_unseen() -> None:
    assert saw(NOTHING_ESCAPED, a_look(), 116.0).are_over == 131.0


def test_whoever_never_lost_the_lock_goes_on_after_an_outage_but_not_by_a_new_hold() -> None:
    rivals = saw(NOTHING_ESCAPED, a_look(), 102.0)
    assert may_act(saw(rivals, a_look(), 200.0), a_look())
    assert not may_act(saw(rivals, a_look(hold=2), 200.0), a_look(hold=2))


def test_a_store_that_has_forgotten_us_may_have_forgotten_others() -> None:
    rivals = saw(NOTHING_ESCAPED, a_look(), 102.0)
    assert not may_act(saw(rivals, a_look(is_newcomer=True), 104.0), a_look())


def test_without_the_lock_nobody_acts() -> None:
    look = a_look(owns=False)
    assert not may_act(saw(NOTHING_ESCAPED, look, 102.0), look)

"""A lock that was restored from a backup is not the one that the leader wrote last, though its name stands in it."""

from datetime import timedelta

from defib.coordinate.election import (
    Candidate,
    Sight,
    StepDown,
    Take,
    Written,
    next_step,
    saw,
    stepped_down,
    taken_by,
    wrote,
)
from defib.simulate.virtual_time import START

ME = Candidate("a")
LATER = START + timedelta(seconds=4)


def test_a_leader_steps_down_for_its_own_older_record_and_waits_for_a_lease_like_everybody() -> None:
    """So it begins a new term and looks at everything anew: what it knew may not have happened."""
    older = taken_by(ME, None, START)
    latest = taken_by(ME, older, LATER)
    leading = wrote(ME, wrote(ME, Sight(), Written(older, "7", 0.0, 0.1)), Written(latest, "9", 4.0, 4.1))
    restored = saw(leading, older, "7", 5.0)
    assert isinstance(next_step(ME, restored, 5.0, LATER), StepDown)
    waiting = stepped_down(restored)
    over = 5.0 + ME.terms.lease_seconds
    assert not isinstance(next_step(ME, waiting, over - 0.1, LATER), Take)
    assert isinstance(next_step(ME, waiting, over, LATER), Take)

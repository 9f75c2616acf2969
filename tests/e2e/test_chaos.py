"""Everything that Defib stands on is killed, frozen and restored for minutes, while nodes fail: see tests/chaos."""

import pytest

from testbed.programs import Programs
from tests.chaos.__main__ import told
from tests.chaos.run import SETTLED_SECONDS, live
from tests.chaos.schedule import ALL
from tests.e2e.replica_set import tell

MINUTES = 2.5
SEED = 7

pytestmark = [pytest.mark.real, pytest.mark.timeout(MINUTES * 60 + SETTLED_SECONDS + 120, func_only=True)]


async def test_nothing_is_lost_done_twice_or_corrupted_whatever_is_killed_frozen_or_restored(
    programs: Programs,
) -> None:
    report = await live(programs, SEED, MINUTES * 60, tell)
    tell(report.summary)
    assert report.wrong == [], told(report, SEED, MINUTES)
    assert set(report.troubles) == set(ALL), "some trouble never came, so this run proved less than it says"
    assert report.restores, "nothing was restored"
    assert report.fallen
    assert report.remediations  # not one for each: who falls ill again before the end is helped by the same one

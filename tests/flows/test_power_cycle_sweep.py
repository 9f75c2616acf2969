"""Every write and power command of a power cycle, one after the other: the operator dies before it, and right after it.

In virtual time on the embedded server, for every way to the power and both ways to free workloads; the kinds of
failure and who asked for it take turns. The same with remediations that are withdrawn there.
"""

import pytest

from tests.power_cycle_crash import TWISTS, WORKLOADS, sweep
from tests.power_cycle_stage import WAYS

pytestmark = pytest.mark.timeout(300)

DEEDS = 30  # that a power cycle takes at least


@pytest.mark.parametrize("workloads", WORKLOADS)
@pytest.mark.parametrize("way", WAYS)
def test_a_crash_before_or_after_any_deed_changes_nothing_in_the_end(way: str, workloads: str) -> None:
    swept = sweep(way, workloads)
    assert swept.bad == []
    assert swept.struck >= 2 * DEEDS


@pytest.mark.parametrize("workloads", WORKLOADS)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_withdrawn_at_any_deed_leaves_nothing(way: str, workloads: str) -> None:
    swept = sweep(way, workloads, twists=TWISTS[1:])
    assert swept.bad == []
    assert swept.struck >= 2 * DEEDS

"""The modes of claims are remembered for as long as somebody needs them, and a look at them never changes."""

from defib.observe.claim_memory import ClaimMemory
from tests.unit.decide.failover.failovers import RWO, RWX


def test_what_was_read_is_known_by_the_claim() -> None:
    memory = ClaimMemory()
    memory.read("apps/data", RWX)
    memory.read("apps/logs", RWO)
    memory.read("apps/gone", frozenset())
    assert memory.modes == {"apps/data": RWX, "apps/logs": RWO, "apps/gone": frozenset()}


def test_what_nobody_needs_any_more_is_forgotten() -> None:
    memory = ClaimMemory()
    memory.read("apps/data", RWX)
    memory.read("apps/logs", RWO)
    memory.keep_only({"apps/data", "apps/other"})
    assert memory.modes == {"apps/data": RWX}
    memory.keep_only(())
    assert memory.modes == {}


def test_while_nothing_changes_a_look_is_the_very_same() -> None:
    """By that whoever looks can tell."""
    memory = ClaimMemory()
    memory.read("apps/data", RWX)
    look = memory.modes
    memory.keep_only({"apps/data", "apps/other"})
    assert memory.modes is look


def test_a_look_does_not_change_when_more_is_read() -> None:
    memory = ClaimMemory()
    before = memory.modes
    memory.read("apps/data", RWX)
    assert (before, memory.modes) == ({}, {"apps/data": RWX})

"""What was read of the power of machines is remembered for as long as somebody asks, and no longer than it is worth."""

from defib.model.power import UNSEEN, FenceCheck, Look, PowerPath, PowerSeen, PowerState, Reading, Sent
from defib.observe.power_memory import LOOKS_MAX, PowerMemory
from tests.builders import SECOND, T0

ON, OFF = PowerState.ON, PowerState.OFF


def a_reading(seconds: int = 0, state: PowerState = ON) -> Reading:
    return Reading(state, T0 + seconds * SECOND)


def a_check(why: str = "") -> FenceCheck:
    return FenceCheck(PowerPath(driver="hollow"), T0, why)


def test_a_reading_is_kept_with_the_heartbeat_that_was_known_then() -> None:
    memory = PowerMemory()
    memory.read("i1", Look(a_reading(0), T0), can_read=True)
    memory.read("i1", Look(a_reading(1, OFF), None), can_read=True)
    assert memory.seen["i1"].looks == (Look(a_reading(0), T0), Look(a_reading(1, OFF), None)), "the latest last"
    assert memory.seen.get("i2", UNSEEN) == PowerSeen()


def test_only_the_latest_looks_are_kept() -> None:
    memory = PowerMemory()
    for second in range(LOOKS_MAX + 5):
        memory.read("i1", Look(a_reading(second), None), can_read=True)
    kept = [look.reading.at for look in memory.seen["i1"].looks]
    assert kept == [T0 + second * SECOND for second in range(5, LOOKS_MAX + 5)]


def test_what_was_read_before_a_command_says_nothing_about_what_comes_of_it() -> None:
    memory = PowerMemory()
    memory.read("i1", Look(a_reading(0, OFF), T0), can_read=False)
    sent = Sent(OFF, T0 + SECOND)
    memory.sent("i1", sent)
    assert memory.seen["i1"] == PowerSeen(sent=sent, can_read=False), "what the driver can do has not changed"
    memory.read("i1", Look(a_reading(2, OFF), None), can_read=True)
    assert memory.seen["i1"] == PowerSeen((Look(a_reading(2, OFF)),), sent, can_read=True)


def test_the_last_command_and_the_last_check_count() -> None:
    memory = PowerMemory()
    memory.sent("i1", Sent(OFF, T0))
    memory.sent("i1", Sent(ON, T0 + SECOND))
    assert memory.seen["i1"].sent == Sent(ON, T0 + SECOND)
    memory.checked("n1", a_check("no answer"))
    memory.checked("n1", a_check())
    assert memory.checks == {"n1": a_check()}


def test_incidents_that_are_over_and_nodes_that_are_gone_are_forgotten() -> None:
    memory = PowerMemory()
    for incident in ("i1", "i2"):
        memory.read(incident, Look(a_reading(), None), can_read=True)
    for node in ("n1", "n2"):
        memory.checked(node, a_check())
    memory.keep_only({"i2", "i3"}, {"n1", "n3"})
    assert list(memory.seen) == ["i2"]
    assert list(memory.checks) == ["n1"]


def test_one_incident_of_a_node_knows_nothing_of_the_one_before() -> None:
    memory = PowerMemory()
    memory.read("the first of n1", Look(a_reading(0, OFF), None), can_read=True)
    memory.read("the second of n1", Look(a_reading(9), None), can_read=True)
    assert memory.seen["the second of n1"].looks == (Look(a_reading(9)),)


def test_what_was_handed_out_does_not_change_any_more() -> None:
    memory = PowerMemory()
    memory.read("i1", Look(a_reading(0), None), can_read=True)
    memory.checked("n1", a_check())
    seen, checks = memory.seen, memory.checks
    memory.read("i1", Look(a_reading(1), None), can_read=True)
    memory.checked("n2", a_check())
    memory.keep_only((), ())
    assert len(seen["i1"].looks) == 1
    assert list(checks) == ["n1"]

"""I8, I10, I11: whatever happens in between, when faults cease every power cycle ends, and the machine is on."""

from hypothesis import example, given, settings

from defib.decide.fencing.table import TRANSITIONS
from defib.model.incident import Phase
from defib.model.node import OUT_OF_SERVICE
from tests.builders import MINUTE, SECOND
from tests.property.ordeals import SWITCHING, Ordeal, a_rack, heal, nobody, ordeals, press, racks, undergo, withdraw
from tests.property.rack import Rack


def nothing_is_left(rack: Rack) -> None:
    assert {name: one.status.phase for name, one in rack.incidents.items() if one.is_open} == {}
    assert rack.remediations == {}
    assert rack.machines["n1"].is_on
    node = rack.nodes["n1"]
    assert [taint.key for taint in node.spec.taints or () if taint.key == OUT_OF_SERVICE] == []
    assert node.labels["rack"] == "7"
    assert rack.locks == {}


@settings(max_examples=100, deadline=None)
@given(rack=racks(), ordeal=ordeals())
def test_when_faults_cease_the_incident_is_closed_and_nothing_of_ours_is_left(rack: Rack, ordeal: Ordeal) -> None:
    undergo(rack, ordeal)
    heal(rack)
    nothing_is_left(rack)


@settings(max_examples=150, deadline=None)
@given(rack=racks(SWITCHING), ordeal=ordeals())
# An off that the BMC carries out seconds after it was told to go on again.
@example(rack=a_rack(), ordeal=[(SECOND, withdraw), (MINUTE, withdraw)])
# A node that is said to be ready for a while after its machine was switched off.
@example(rack=a_rack(lag=0, requireNewBoot=False), ordeal=[(5 * MINUTE, withdraw), (MINUTE, withdraw)])
@example(rack=a_rack(lag=0, requireNewBoot=False), ordeal=[(SECOND, withdraw), (MINUTE, withdraw)])
def test_a_machine_that_we_switched_off_is_on_or_in_an_open_incident(rack: Rack, ordeal: Ordeal) -> None:
    """I8. A person who says that it is off has switched it off, and must switch it on."""
    for length, deed in ordeal:
        rack.live(length, nobody)
        incident = rack.incidents.get("n1")
        if incident is not None and not incident.is_open and incident.spec.confirmed_off is None:
            rack.advance(rack.now + MINUTE)  # whatever is still on its way to the machine
            assert rack.machines["n1"].is_on, incident.status.timeline
        deed(rack)


def test_a_machine_that_never_comes_back_is_tried_as_often_as_was_asked_for_and_then_a_persons() -> None:
    """RM-17, RM-22: and then it ends by itself when that person has mended it."""
    rack = a_rack(boot=10**6, attempts=3)
    rack.live(120 * MINUTE, nobody)
    (incident,) = rack.incidents.values()
    assert (incident.status.phase, incident.status.attempt) == (Phase.NEEDS_PERSON, 3)
    rack.machines["n1"].runs_from = rack.now
    rack.live(5 * MINUTE, nobody)
    assert not rack.incidents["n1"].is_open


def test_rm15_a_machine_is_not_cycled_again_when_it_is_back() -> None:
    """RM-15."""
    rack = a_rack()
    rack.live(120 * MINUTE, nobody)
    assert rack.machines["n1"].boots == 2
    press(rack)
    rack.crash()
    rack.live(120 * MINUTE, nobody)
    assert rack.machines["n1"].boots == 2


def test_rm17_every_phase_that_waits_has_an_exit_and_all_of_them_can_be_left() -> None:
    """RM-17."""
    ends = {Phase.CLOSED}
    while True:
        leading = {row.source for row in TRANSITIONS if row.target in ends} | ends
        if leading == ends:
            break
        ends = leading
    assert ends == set(Phase)
    assert {row.target for row in TRANSITIONS} | {Phase.OPEN} == set(Phase)

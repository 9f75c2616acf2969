"""I1, I2, I4, I5, I12, I14: what is destroyed was proved to be down before, and nothing new begins with the brake on."""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from defib.decide.fencing.plan import Fencing, plan_fencing
from defib.model.action import (
    Action,
    DeleteAttachment,
    DeleteMachine,
    DeleteNode,
    FreePod,
    SwitchPower,
    TaintNode,
)
from defib.model.incident import Grade, Phase
from defib.model.power import PowerState
from tests.builders import HOUR, MINUTE, SECOND
from tests.property.machine import Machine
from tests.property.ordeals import (
    SWITCHING,
    Deed,
    Ordeal,
    a_rack,
    brake,
    confirm,
    heal,
    ordeals,
    press,
    racks,
    undergo,
    withdraw,
)
from tests.property.rack import BLIND, Rack

change = msgspec.structs.replace
pytestmark = pytest.mark.timeout(60)  # hours of many racks, on a machine that may have more to do


def destroys(action: Action) -> bool:
    if isinstance(action, SwitchPower):
        return action.power is PowerState.OFF
    return isinstance(action, TaintNode | DeleteNode | FreePod | DeleteAttachment | DeleteMachine)


class Judge:
    """Looks at every plan before it is carried out, and notes what must not be in it."""

    def __init__(self) -> None:
        self.wrong: list[Action] = []

    def __call__(self, rack: Rack, plan: Fencing) -> None:
        for action in plan.actions:
            if isinstance(action, TaintNode | DeleteNode | FreePod | DeleteAttachment):
                status = rack.incidents[action.incident.name].status
                if status.proof is None or status.phase is not Phase.FREEING:
                    self.wrong.append(action)
            if destroys(action) and (rack.brake or rack.doubts):
                self.wrong.append(action)


@settings(max_examples=100, deadline=None)
@given(rack=racks(), ordeal=ordeals())
def test_nothing_is_freed_without_a_proof_and_nothing_destroyed_with_the_brake_on(rack: Rack, ordeal: Ordeal) -> None:
    """I1, I5."""
    judge = Judge()
    undergo(rack, ordeal, judge)
    heal(rack, judge)
    assert judge.wrong == []


def a_silent_rack() -> Rack:
    """Its BMC does not answer at first."""
    times = {"powerOff": "2s", "free": "1s", "powerOn": "2s", "nodeReady": "10s"}
    rack = a_rack(lag=1, boot=5, attempts=2, backoff="1s", acceptedProofs=["A", "C", "D"], timeouts=times)
    rack.machines["n1"].bmc = "silent"
    return rack


WITHOUT_BUTTONS: list[Deed] = [withdraw, confirm, Rack.crash, brake(on=True), brake(on=False)]


@settings(max_examples=100, deadline=None)
@given(rack=racks(SWITCHING), ordeal=ordeals(WITHOUT_BUTTONS))
# A person switches it off and says so, and is believed only when its node is silent: we must not switch it on meanwhile.
@example(
    rack=a_rack(driver=BLIND, attempts=1, timeouts={"powerOff": "2s"}),
    ordeal=[(SECOND / 5, confirm), (5 * MINUTE, withdraw)],
)
# A person switches it off and says so, and then we switch it on to see whether its BMC tells the truth: no word holds then.
@example(
    rack=a_silent_rack(),
    ordeal=[(SECOND / 5, confirm), (SECOND / 5, brake(on=True)), (MINUTE, confirm)],
)
def test_what_is_freed_is_off(rack: Rack, ordeal: Ordeal) -> None:
    """I1, not by the record but by the machine: as long as nobody presses its button."""

    def watch(rack: Rack, plan: Fencing) -> None:
        if any(isinstance(action, TaintNode | DeleteNode | FreePod | DeleteAttachment) for action in plan.actions):
            assert not rack.machines["n1"].is_on

    undergo(rack, ordeal, watch)
    heal(rack, watch)


@settings(max_examples=40, deadline=None)
@given(rack=racks(("redfish",)), ordeal=ordeals([withdraw, Rack.crash, press]))
def test_a_bmc_that_says_off_for_ever_proves_nothing(rack: Rack, ordeal: Ordeal) -> None:
    """I1: nobody has ever seen it say on."""
    rack.machines["n1"].bmc = "says off"

    def watch(rack: Rack, _: Fencing) -> None:
        proofs = [one.status.proof for one in rack.incidents.values()]
        assert not [proof for proof in proofs if proof is not None and proof.grade is Grade.POWER]

    undergo(rack, ordeal, watch)
    rack.live(HOUR, watch)


@settings(max_examples=60, deadline=None)
@given(rack=racks(SWITCHING), length=st.sampled_from([SECOND, 5 * SECOND, 20 * SECOND, MINUTE]))
def test_with_the_brake_on_what_was_begun_is_still_brought_back(rack: Rack, length: timedelta) -> None:
    """I14: withdrawn with the brake on, it ends as it does without."""
    rack.machines["n1"].bmc = "well"
    rack.live(length, Judge())
    rack.brake = True
    rack.withdraw("n1")
    judge = Judge()
    rack.live(HOUR, judge)
    assert judge.wrong == []
    assert [one.status.phase for one in rack.incidents.values() if one.is_open] == []
    assert rack.machines["n1"].is_on
    assert rack.nodes["n1"].labels["rack"] == "7"
    assert not rack.nodes["n1"].spec.taints


@settings(max_examples=60, deadline=None)
@given(rack=racks(), ordeal=ordeals())
def test_the_same_look_gives_the_same_plan(rack: Rack, ordeal: Ordeal) -> None:
    """I12: whatever was planned before, and in whichever order things are seen."""
    before = [Fencing()]

    def watch(rack: Rack, plan: Fencing) -> None:
        look, rules = rack.look(), change(rack.rules, brake_setting=rack.brake)
        assert plan_fencing(look, rules).actions == plan.actions
        assert plan_fencing(look, rules, before[0]).actions == plan.actions
        backwards = change(
            look, others={kind: dict(reversed(list(items.items()))) for kind, items in look.others.items()}
        )
        assert plan_fencing(backwards, rules).actions == plan.actions
        before[0] = plan

    undergo(rack, ordeal, watch)


@settings(max_examples=60, deadline=None)
@given(
    lags=st.lists(st.sampled_from([0, 1, 8]), min_size=5, max_size=5),
    asked=st.sets(st.sampled_from(["n1", "n2", "n3", "n4", "n5"]), min_size=2, max_size=3),
    waits=st.lists(st.sampled_from([SECOND, 5 * SECOND, MINUTE, 10 * MINUTE]), max_size=6),
)
def test_at_most_one_control_plane_node_is_out(lags: list[int], asked: set[str], waits: list[timedelta]) -> None:
    """I4: however many were asked for, at whichever moment, through crashes."""
    names = ["n1", "n2", "n3", "n4", "n5"]
    rack = Rack(
        [Machine(name, lag * SECOND, 30 * SECOND) for name, lag in zip(names, lags, strict=True)], masters=names
    )
    for name in sorted(asked):
        rack.ask(name, {"power": {"driver": "redfish", "address": "{node}"}, "attempts": 1})

    def watch(rack: Rack, _: Fencing) -> None:
        assert sum(not machine.is_on for machine in rack.machines.values()) <= 1
        assert sum(incident.is_out for incident in rack.incidents.values()) <= 1

    for length in waits:
        rack.live(length, watch)
        rack.crash()
    rack.live(HOUR, watch)
    assert {name for name, one in rack.incidents.items() if not one.is_open} == asked


@settings(max_examples=60, deadline=None)
@given(rack=racks(), ordeal=ordeals())
def test_two_orders_for_one_node_never_act_both(rack: Rack, ordeal: Ordeal) -> None:
    """I2: every action is of the one incident of the node, and the other order waits until that is closed."""
    rack.ask("another", {"power": {"driver": "redfish", "address": "{node}"}}, node="n1")

    def watch(rack: Rack, plan: Fencing) -> None:
        incidents = {incident.uid: incident for incident in rack.incidents.values()}
        for action in plan.actions:
            if isinstance(action, SwitchPower | TaintNode | DeleteNode | FreePod | DeleteAttachment):
                assert incidents[action.incident.uid].spec.node == "n1"
        causes = {action.cause.uid for action in plan.actions if isinstance(action, SwitchPower)}
        assert len(causes) <= 1

    undergo(rack, ordeal, watch)
    rack.withdraw("another")
    heal(rack, watch)
    assert [one.name for one in rack.incidents.values() if one.is_open] == []

"""What can happen to a machine that is being power-cycled, to its BMC, to us, and to whoever asked for it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from defib.decide.fencing.plan import Fencing
from tests.builders import HOUR, MINUTE, SECOND
from tests.property.machine import Machine
from tests.property.rack import BLIND, Rack

Watch = Callable[[Rack, Fencing], None]
Deed = Callable[[Rack], None]
Ordeal = list[tuple[timedelta, Deed]]

DRIVERS = ("redfish", "redfish", BLIND, "manual")
SWITCHING = ("redfish", BLIND)


def nobody(_: Rack, __: Fencing) -> None:
    """Nobody watches."""


def _bmc(how: str) -> Deed:
    def bmc(rack: Rack) -> None:
        rack.machines["n1"].bmc = how

    return bmc


def brake(*, on: bool) -> Deed:
    def pull(rack: Rack) -> None:
        rack.brake = on

    return pull


def _die_after(count: int) -> Deed:
    """The operator does a part of what it planned, and another one comes."""

    def die(rack: Rack) -> None:
        for action in rack.plan().actions[:count]:
            rack.carry_out(action)
        rack.crash()

    return die


def _hang(rack: Rack) -> None:
    rack.machines["n1"].is_hung = True


def press(rack: Rack) -> None:
    """Somebody presses the button of a machine that is off."""
    rack.machines["n1"].told_on_by_hand(rack.now)


def confirm(rack: Rack) -> None:
    rack.confirm("n1")


def withdraw(rack: Rack) -> None:
    rack.withdraw("n1")


def _withdraw_by_force(rack: Rack) -> None:
    rack.withdraw("n1", by_force=True)


def _time_out(rack: Rack) -> None:
    rack.time_out("n1")


def _doubt(rack: Rack) -> None:
    rack.doubts = () if rack.doubts else ("most leases are old",)


DEEDS: list[Deed] = [
    *(_bmc(how) for how in ("well", "silent", "refuses")),
    brake(on=True),
    brake(on=False),
    _die_after(1),
    _die_after(2),
    Rack.crash,
    _hang,
    press,
    confirm,
    withdraw,
    _withdraw_by_force,
    _time_out,
    _doubt,
]
LENGTHS = [SECOND / 5, SECOND, 5 * SECOND, 20 * SECOND, MINUTE, 5 * MINUTE]


def ordeals(deeds: list[Deed] | None = None) -> st.SearchStrategy[Ordeal]:
    return st.lists(st.tuples(st.sampled_from(LENGTHS), st.sampled_from(deeds or DEEDS)), max_size=8)


@st.composite
def specs(draw: st.DrawFn, drivers: tuple[str, ...] = DRIVERS) -> dict[str, Any]:
    return {
        "power": {"driver": draw(st.sampled_from(drivers)), "address": "{node}"},
        "workloads": draw(st.sampled_from(["OutOfServiceTaint", "DeleteNode"])),
        "acceptedProofs": ["A", "C", "D"],
        "attempts": draw(st.integers(1, 3)),
        "backoff": draw(st.sampled_from(["1s", "30s"])),
        "requireNewBoot": draw(st.booleans()),
        "timeouts": {
            "powerOff": draw(st.sampled_from(["2s", "60s"])),
            "free": draw(st.sampled_from(["1s", "2m"])),
            "powerOn": draw(st.sampled_from(["2s", "60s"])),
            "nodeReady": draw(st.sampled_from(["10s", "5m"])),
        },
    }


def a_rack(*, lag: float = 8, boot: float = 90, driver: str = "redfish", **spec: Any) -> Rack:
    rack = Rack([Machine(name, lag * SECOND, boot * SECOND) for name in ("n1", "n2", "n3")])
    rack.ask("n1", {"power": {"driver": driver, "address": "{node}"}} | spec)
    return rack


@st.composite
def racks(draw: st.DrawFn, drivers: tuple[str, ...] = DRIVERS) -> Rack:
    """Three machines, of which the first is to be power-cycled."""
    lag = draw(st.sampled_from([0 * SECOND, SECOND, 8 * SECOND]))
    boot = draw(st.sampled_from([5 * SECOND, 90 * SECOND]))
    rack = Rack([Machine("n1", lag, boot), *(Machine(name, SECOND, 30 * SECOND) for name in ("n2", "n3"))])
    rack.machines["n1"].is_hung = draw(st.booleans())
    rack.machines["n1"].bmc = draw(st.sampled_from(["well", "well", "silent", "refuses"]))
    rack.ask("n1", draw(specs(drivers)))
    return rack


def undergo(rack: Rack, ordeal: Ordeal, watch: Watch = nobody) -> None:
    for length, deed in ordeal:
        rack.live(length, watch)
        deed(rack)


def heal(rack: Rack, watch: Watch = nobody) -> None:
    """All faults cease, and a person does what is asked of one: presses a button, and gives up what nobody can mend."""
    machine = rack.machines["n1"]
    rack.brake, rack.doubts, machine.bmc, machine.is_hung = False, (), "well", False
    rack.live(HOUR, watch)
    if not machine.is_on or "n1" not in rack.nodes:
        machine.is_on = False
        press(rack)
        rack.live(HOUR / 4, watch)
    rack.withdraw("n1")
    rack.live(HOUR / 2, watch)

"""Deeds to BMCs, done to the hollow machines, and what people say about machines, said through the client."""

from functools import singledispatch

from defib.hollow.machine import Claims, Fault, Garbage, Hangs, IgnoresCommands, Slow, Unreachable, WrongPassword
from defib.kube.client import Merge
from defib.kube.kinds import NODE_INCIDENTS
from testbed.scenario import power_deeds as deeds
from testbed.scenario.remediation_deeds import Switch
from testbed.scenario.telling import Telling


async def switch(deed: deeds.ToPower, telling: Telling) -> None:
    if isinstance(deed, deeds.ConfirmOff):
        await _confirm(deed, telling)
    else:
        telling.hollow(deed.node).machine.bmc.suffer(*_faults(deed))


async def _confirm(deed: deeds.ConfirmOff, telling: Telling) -> None:
    said = {"by": deed.who, "at": f"{telling.scene.clock.now():%Y-%m-%dT%H:%M:%S.%fZ}"}
    ref = NODE_INCIDENTS.at(telling.name_of(deed.node))
    await telling.client.patch(ref, Merge({"spec": {"confirmedOff": said}}))


@singledispatch
def _faults(deed: deeds.ToPower) -> tuple[Fault, ...]:
    raise AssertionError(f"nobody knows what is wrong with a BMC after {deed}")


@_faults.register
def _(deed: deeds.Refuses) -> tuple[Fault, ...]:
    del deed
    return (WrongPassword(),)


@_faults.register
def _(deed: deeds.Vanishes) -> tuple[Fault, ...]:
    del deed
    return (Unreachable(),)


@_faults.register
def _(deed: deeds.HangsUp) -> tuple[Fault, ...]:
    del deed
    return (Hangs(),)


@_faults.register
def _(deed: deeds.Dawdles) -> tuple[Fault, ...]:
    return (Slow(deed.seconds),)


@_faults.register
def _(deed: deeds.Babbles) -> tuple[Fault, ...]:
    del deed
    return (Garbage(),)


@_faults.register
def _(deed: deeds.Lies) -> tuple[Fault, ...]:
    return (Claims(on=deed.power is Switch.ON),)


@_faults.register
def _(deed: deeds.Ignores) -> tuple[Fault, ...]:
    return (IgnoresCommands(deed.count),)


@_faults.register
def _(deed: deeds.IsWell) -> tuple[Fault, ...]:
    del deed
    return ()

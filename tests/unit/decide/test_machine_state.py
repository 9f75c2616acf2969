"""What the cluster says of the machine under a silent node: remarks, and an off only where it is news."""

from datetime import datetime
from typing import Any

import pytest

from defib.decide.fencing.kinds import MACHINES
from defib.decide.machine_state import said_of_machine
from defib.model.cluster import Cluster, Missing, Served
from defib.model.evidence import Evidence, Says, Source
from defib.model.health_check import KindRef
from defib.model.meta import Meta, Unstructured
from defib.model.metal3 import HOST
from defib.model.power import FenceCheck, PowerPath, PowerState
from tests.builders import SECOND, T0

HEARD = T0 - 30 * SECOND
PATH = PowerPath(driver="metal3", address="metal/h1", options={"key": "reboot.metal3.io/defib"})
UNREAD = FenceCheck(PATH, T0, why_not="BareMetalHost metal/h1 is off, but nothing of ours keeps it off")
OFF = Evidence(Source.POWER, Says.OFF, T0, "BareMetalHost metal/h1 has gone off")
LATER = (HEARD + 10 * SECOND).isoformat()


def a_host(*, online: bool = True, updated: Any = LATER, **status: Any) -> Unstructured:
    meta = Meta(name="h1", namespace="metal", uid="h-1")
    return Unstructured(
        metadata=meta, spec={"online": online}, status={"poweredOn": False, "lastUpdated": updated} | status
    )


def a_machine(node: str = "n1", *, phase: str = "Running", deleted: datetime | None = None) -> Unstructured:
    meta = Meta(name="m1", namespace="metal", uid="m-1", deletion_timestamp=deleted)
    return Unstructured(metadata=meta, spec={}, status={"nodeRef": {"name": node}, "phase": phase})


def said(
    *items: Unstructured, machine: Unstructured | None = None, fence: FenceCheck | None = UNREAD
) -> list[Evidence]:
    kinds: dict[KindRef, Served | Missing] = {kind: Missing("no") for versions in MACHINES for kind in versions}
    kinds |= {MACHINES[0][0]: Served("machines", namespaced=True), HOST: Served("hosts", namespaced=True)}
    machines = {machine.key: machine} if machine is not None else {}
    others = {"hosts": {item.key: item for item in items}, "machines": machines}
    return list(said_of_machine("n1", fence, HEARD, Cluster(now=T0, kinds=kinds, others=others)))


def test_a_host_that_went_off_after_the_last_heartbeat_is_off() -> None:
    assert said(a_host()) == [OFF]


@pytest.mark.parametrize(
    "host",
    [
        a_host(poweredOn=True),
        a_host(poweredOn=None),
        a_host(updated=(HEARD - SECOND).isoformat()),
        a_host(updated=HEARD.isoformat()),
        a_host(updated=(T0 + SECOND).isoformat()),
        a_host(updated="yesterday"),
        a_host(updated=None),
        a_host(updated="2026-01-01T00:00:00"),
        a_host(online=False),
    ],
)
def test_an_off_that_is_no_news_or_is_wanted_says_nothing(host: Unstructured) -> None:
    assert said(host) == []


def test_a_host_in_trouble_is_a_remark_and_no_reading() -> None:
    host = a_host(errorType="power management error", errorMessage="no answer from the BMC")
    assert said(host) == [Evidence(Source.MACHINE, Says.UNKNOWN, T0, "BareMetalHost metal/h1: no answer from the BMC")]


@pytest.mark.parametrize("state", [PowerState.ON, PowerState.OFF])
def test_where_its_driver_knows_the_power_the_host_is_not_believed_instead(state: PowerState) -> None:
    assert said(a_host(), fence=FenceCheck(PATH, T0, state=state)) == []


def test_a_host_by_which_it_would_not_be_fenced_says_nothing_of_it() -> None:
    assert said(a_host(), fence=FenceCheck(PowerPath(driver="redfish", address="metal/h1"), T0)) == []
    assert said(a_host(), fence=None) == []
    assert said() == []


@pytest.mark.parametrize(
    ("machine", "remarks"),
    [
        (a_machine(deleted=T0), ["Machine metal/m1 is being deleted"]),
        (a_machine(phase="Failed"), ["Machine metal/m1 is Failed"]),
        (a_machine(), []),
        (a_machine("n2", phase="Failed"), []),
    ],
)
def test_a_machine_that_failed_or_goes_is_a_remark(machine: Unstructured, remarks: list[str]) -> None:
    assert [(one.source, one.says, one.detail) for one in said(machine=machine)] == [
        (Source.MACHINE, Says.UNKNOWN, remark) for remark in remarks
    ]

"""Whom the fast path asks after a silent node, and what it takes from objects that are watched anyway."""

from collections.abc import Mapping
from typing import Any

from defib.decide.census import take_census
from defib.decide.fast_path import Haste, hasten
from defib.decide.ground import survey
from defib.decide.rules import Rules
from defib.decide.suspicion import NOBODY, suspect
from defib.model.cluster import HEARTBEAT_NAMESPACE, Cluster, Served
from defib.model.evidence import Evidence, Says, Source
from defib.model.health_check import Check, FastPath
from defib.model.meta import Meta, Unstructured
from defib.model.metal3 import HOST
from defib.model.node import Lease, LeaseSpec
from defib.model.power import FenceCheck, PowerPath, PowerState
from defib.model.pulse import Pulse
from tests.builders import SECOND, T0, a_node

HEARD = T0 - 30 * SECOND
ASKED = T0 - 6 * SECOND
BY_BMC = PowerPath(driver="redfish", address="https://bmc")
BY_HOST = PowerPath(driver="metal3", address="metal/n1")


def hurried(fence: FenceCheck | None, evidence: Mapping[Source, Says], **more: Any) -> Haste:
    """One of five nodes is silent, and was asked after six seconds ago."""
    names = [f"n{number}" for number in range(1, 6)]
    pulses = {name: Pulse((HEARD if name == "n1" else T0).timestamp()) for name in names}
    leases = {name: Lease(metadata=Meta(name=name), spec=LeaseSpec(renew_time=HEARD)) for name in names}
    cluster = Cluster(
        now=T0,
        nodes={name: a_node(name) for name in names},
        pulses=pulses,
        heartbeats={f"{HEARTBEAT_NAMESPACE}/{name}": lease for name, lease in leases.items()},
        fences={"n1": fence} if fence is not None else {},
        evidence={"n1": tuple(Evidence(source, says, ASKED) for source, says in evidence.items())},
        **more,
    )
    check = Check(name="all", fast_path=FastPath())
    census, ground = take_census(check, cluster.nodes, None), survey(cluster, Rules(), frozenset())
    return hasten(check, census, ground, suspect(cluster, NOBODY))


HUNG = {Source.HEARTBEAT: Says.SAME, Source.KUBELET: Says.SILENT, Source.NEIGHBOURS: Says.UNKNOWN}
ON = FenceCheck(BY_BMC, ASKED, state=PowerState.ON)


def test_the_log_is_read_by_the_way_to_its_power_where_all_others_leave_it_open() -> None:
    (ask,) = hurried(ON, HUNG).asks
    assert (ask.log, ask.heard, ask.after) == (BY_BMC, HEARD, ASKED)


def test_it_is_not_read_before_the_others_were_asked_or_where_it_changes_nothing() -> None:
    for fence, evidence in (
        (ON, {}),
        (None, HUNG),
        (FenceCheck(BY_BMC, ASKED, why_not="no"), HUNG),
        (ON, HUNG | {Source.KUBELET: Says.REFUSES}),
        (ON, HUNG | {Source.OTHERS: Says.ALIVE}),
    ):
        (ask,) = hurried(fence, evidence).asks
        assert ask.log is None


def test_what_was_said_and_when_is_told_with_what_it_comes_to() -> None:
    haste = hurried(ON, HUNG | {Source.LOG: Says.STOPPED})
    assert haste.troubles.keys() == {"n1"}
    assert haste.thoughts["n1"].message == (
        "its machine is on, nothing comes back from it, and by the log of its BMC it stopped after its last heartbeat "
        f"[Heartbeat Same at {ASKED:%H:%M:%S}; Kubelet Silent at {ASKED:%H:%M:%S}; "
        f"Neighbours Unknown at {ASKED:%H:%M:%S}; Log Stopped at {ASKED:%H:%M:%S}; Power On at {ASKED:%H:%M:%S}]"
    )


def test_a_host_that_the_baremetal_operator_found_off_since_is_dead_and_one_that_it_found_so_before_is_not() -> None:
    unread = FenceCheck(BY_HOST, ASKED, why_not="it is off, but nothing of ours keeps it off")
    for updated, acted_on in ((HEARD + SECOND, {"n1"}), (HEARD - SECOND, set())):
        host = Unstructured(
            metadata=Meta(name="n1", namespace="metal"),
            spec={"online": True},
            status={"poweredOn": False, "lastUpdated": updated.isoformat()},
        )
        haste = hurried(
            unread, HUNG, kinds={HOST: Served("hosts", namespaced=True)}, others={"hosts": {host.key: host}}
        )
        assert haste.troubles.keys() == acted_on

"""Asking after a silent node, and acting on its silence: each is looked at live, once more."""

from base64 import b64encode
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from defib.act.outcome import Done, EvidenceGathered, Stale
from defib.hollow.machine import Happened, Machine, Unreachable
from defib.hollow.power import HollowPower
from defib.model.action import Because
from defib.model.evidence import GatherEvidence, Says, Source
from defib.model.power import PowerPath
from defib.model.target import HEARTBEAT, MISSED
from defib.power.base import Driver, Target
from defib.power.event_log import Entry, Event, EventLog
from defib.power.kubelet import PORT
from defib.power.manual import Manual
from defib.power.registry import Drivers
from defib.power.witnesses import Witnesses
from defib.simulate.virtual_time import START
from tests.unit.act.stage import LEASE, PLACE, Stage, conditions, play

RENEWED = START - timedelta(seconds=25)
NAMES = [{"addresses": [{"type": "InternalIP", "address": name}]} for name in ("db.example", "256.1.1.1", "")]
ADDRESS = {"addresses": [{"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "10.0.0.1"}]}


def beat(stage: Stage, renewed: datetime = RENEWED) -> None:
    known = stage.server.store.get(LEASE, "kube-node-lease/n1")
    spec = {"renewTime": f"{renewed:%Y-%m-%dT%H:%M:%S.%fZ}", "leaseDurationSeconds": 40}
    if known is not None:
        stage.server.store.put(LEASE, {**known.object, "spec": spec})
    else:
        stage.server.put(LEASE, {"metadata": {"name": "n1", "namespace": "kube-node-lease"}, "spec": spec})


def shows(stage: Stage, status: dict[str, Any]) -> None:
    node = stage.server.store.get("nodes", "n1")
    assert node is not None
    stage.server.store.put("nodes", {**node.object, "status": {**node.object.get("status", {}), **status}})


class Kubelet:
    """Says what it is told to, and remembers where it was asked."""

    def __init__(self, says: Says = Says.SILENT) -> None:
        self.says = says
        self.asked: list[tuple[str, int]] = []

    async def ask(self, address: str, port: int, within_seconds: float) -> tuple[Says, str]:
        assert within_seconds > 0
        self.asked.append((address, port))
        return self.says, "as told"


def ask(stage: Stage, **changes: Any) -> GatherEvidence:
    action = GatherEvidence(node="n1", node_uid=stage.uid("nodes", "n1"), renewed=RENEWED)
    return msgspec.structs.replace(action, **changes)


def with_kubelet(stage: Stage, says: Says = Says.SILENT) -> Kubelet:
    kubelet = Kubelet(says)
    stage.drivers = Drivers(stage.clock, {}, asking=kubelet.ask)
    return kubelet


@pytest.mark.parametrize("says", [Says.SILENT, Says.ANSWERS, Says.REFUSES, Says.UNKNOWN])
def test_heartbeat_and_kubelet_are_asked_at_this_moment(says: Says) -> None:
    async def scenario(stage: Stage) -> None:
        shows(stage, conditions("True"))
        shows(stage, ADDRESS)
        beat(stage)
        kubelet = with_kubelet(stage, says)
        outcome = await stage.do(ask(stage))
        assert isinstance(outcome, EvidenceGathered)
        assert [(one.source, one.says) for one in outcome.evidence] == [
            (Source.HEARTBEAT, Says.SAME),
            (Source.KUBELET, says),
            (Source.NEIGHBOURS, Says.UNKNOWN),
        ]
        assert kubelet.asked == [("10.0.0.1", PORT)]

    play(scenario)


def test_of_one_whose_heartbeat_goes_on_nobody_else_is_asked() -> None:
    async def scenario(stage: Stage) -> None:
        shows(stage, conditions("True"))
        beat(stage, START)
        kubelet = with_kubelet(stage)
        outcome = await stage.do(ask(stage))
        assert isinstance(outcome, EvidenceGathered)
        assert [one.says for one in outcome.evidence] == [Says.RENEWED]
        assert kubelet.asked == []

    play(scenario)


@pytest.mark.parametrize(
    "status", [{}, {"addresses": None}, {"addresses": "nonsense"}, {"addresses": [7, {"type": "InternalIP"}]}, *NAMES]
)
def test_a_node_without_an_address_tells_nothing_and_breaks_nothing(status: dict[str, Any]) -> None:
    async def scenario(stage: Stage) -> None:
        shows(stage, conditions("True"))
        shows(stage, status)
        kubelet = with_kubelet(stage)
        outcome = await stage.do(ask(stage))
        assert isinstance(outcome, EvidenceGathered)
        assert [one.says for one in outcome.evidence] == [Says.UNKNOWN] * 3
        assert kubelet.asked == []

    play(scenario)


def test_the_port_is_the_one_that_the_node_names_if_it_is_one() -> None:
    async def scenario(stage: Stage) -> None:
        shows(stage, conditions("True"))
        beat(stage)
        kubelet = with_kubelet(stage)
        for port, wanted in ((1234, 1234), (0, PORT), (70000, PORT), ("x", PORT)):
            shows(stage, ADDRESS | {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}})
            await stage.do(ask(stage))
            assert kubelet.asked.pop() == ("10.0.0.1", wanted)

    play(scenario)


def test_a_namesake_is_not_asked_after() -> None:
    async def scenario(stage: Stage) -> None:
        shows(stage, conditions("True"))
        assert isinstance(await stage.do(ask(stage, node_uid="another")), Stale)

    play(scenario)


def test_a_silent_node_is_remediated_although_kubernetes_calls_it_ready() -> None:
    async def scenario(stage: Stage) -> None:
        shows(stage, conditions("True"))
        beat(stage)
        start = stage.start(because=Because(HEARTBEAT, MISSED, RENEWED))
        assert isinstance(await stage.do(start), Done)

    play(scenario)


def test_one_that_was_heard_meanwhile_or_has_no_heartbeat_any_more_is_not() -> None:
    async def scenario(stage: Stage) -> None:
        shows(stage, conditions("True"))
        start = stage.start(because=Because(HEARTBEAT, MISSED, RENEWED))
        assert await stage.do(start) == Stale("node n1 has no heartbeat any more")
        beat(stage, START)
        assert await stage.do(start) == Stale("node n1 was heard again")
        assert stage.foos() == []

    play(scenario)


@pytest.mark.parametrize(
    ("silent", "near"),
    [((), Says.ANSWERS), (("10.0.0.2",), Says.ANSWERS), (("10.0.0.2", "10.0.0.3"), Says.SILENT)],
)
def test_its_neighbours_are_asked_in_the_same_moment_and_most_of_them_count(
    silent: tuple[str, ...], near: Says
) -> None:
    async def ask_of(address: str, port: int, within_seconds: float) -> tuple[Says, str]:
        assert (port, within_seconds > 0) == (PORT, True)
        return (Says.SILENT if address in ("10.0.0.1", *silent) else Says.REFUSES), address

    async def scenario(stage: Stage) -> None:
        shows(stage, conditions("True") | ADDRESS)
        beat(stage)
        for number in (2, 3, 4):
            address = {"type": "InternalIP", "address": f"10.0.0.{number}"}
            stage.server.put("nodes", {"metadata": {"name": f"m{number}"}, "status": {"addresses": [address]}})
        stage.drivers = Drivers(stage.clock, {}, asking=ask_of)
        outcome = await stage.do(ask(stage, neighbours=("m2", "m3", "m4", "gone")))
        assert isinstance(outcome, EvidenceGathered)
        assert [one.says for one in outcome.evidence] == [Says.SAME, Says.SILENT, near]

    play(scenario)


def of(outcome: object, source: Source) -> list[tuple[Says, str]]:
    assert isinstance(outcome, EvidenceGathered)
    return [(one.says, one.detail) for one in outcome.evidence if one.source is source]


class Leaky(Manual):
    """A driver of somebody else, which repeats what it was told."""

    async def log(self, target: Target, within_seconds: float) -> EventLog:
        assert within_seconds > 0
        told = f"stopped by {target.credentials.password.reveal()}"
        if target.address == "breaks":
            raise RuntimeError(told)
        return EventLog(entries=(Entry(START, Event.STOPPED, told),), theirs=START, ours=START)


def with_machine(stage: Stage) -> Machine:
    """Its BMC lets everybody in."""
    shows(stage, conditions("True") | ADDRESS)
    beat(stage)
    machine = Machine("n1", stage.clock)
    machine.bmc.username = machine.bmc.password = ""
    hands: dict[str, Driver] = {
        "hollow": HollowPower(stage.clock, {"n1": machine}),
        "manual": Manual(stage.clock),
        "leaky": Leaky(stage.clock),
    }
    stage.drivers = Drivers(stage.clock, hands, asking=Kubelet().ask)
    return machine


BY_BMC = PowerPath(driver="hollow", address="n1")


def test_the_log_of_its_bmc_is_read_only_when_that_is_wanted_and_counts_from_its_last_heartbeat() -> None:
    async def scenario(stage: Stage) -> None:
        machine = with_machine(stage)
        machine.bmc.write_down(Happened.OS_STOPPED)
        assert of(await stage.do(ask(stage, heard=RENEWED)), Source.LOG) == []
        wanted = ask(stage, heard=RENEWED, log=BY_BMC)
        assert of(await stage.do(wanted), Source.LOG) == [(Says.STOPPED, "critical stop")]
        machine.bmc.write_down(Happened.POWER_ON)
        assert of(await stage.do(wanted), Source.LOG) == [(Says.STARTED, "power on")]
        later = ask(stage, heard=START + timedelta(seconds=1), log=BY_BMC)
        assert of(await stage.do(later), Source.LOG) == [(Says.QUIET, "nothing since the last heartbeat")]

    play(scenario)


def test_a_log_that_cannot_be_read_holds_up_nobody_and_says_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        with_machine(stage).bmc.suffer(Unreachable())
        for path, why in (
            (BY_BMC, "n1 cannot be reached"),
            (PowerPath(driver="manual"), "the driver manual reads no event log"),
            (PowerPath(driver="hollow", secret="nowhere"), "'nowhere' is not the namespace/name of a Secret"),
        ):
            outcome = await stage.do(ask(stage, heard=RENEWED, log=path))
            assert of(outcome, Source.LOG) == [(Says.UNKNOWN, why)]
            assert [says for says, _ in of(outcome, Source.KUBELET)] == [Says.SILENT]

    play(scenario)


def test_what_a_driver_repeats_of_the_login_is_hidden_and_one_that_breaks_is_told() -> None:
    async def scenario(stage: Stage) -> None:
        with_machine(stage)
        password = b64encode(b"open-sesame").decode()
        stage.server.put("secrets", {"metadata": {"name": "bmc", "namespace": PLACE}, "data": {"password": password}})
        for address, said in (
            ("", (Says.STOPPED, "stopped by [hidden]")),
            ("breaks", (Says.UNKNOWN, "its driver broke (RuntimeError), which is a mistake in the driver")),
        ):
            path = PowerPath(driver="leaky", address=address, secret=f"{PLACE}/bmc")
            assert of(await stage.do(ask(stage, heard=RENEWED, log=path)), Source.LOG) == [said]

    play(scenario)


class Storage:
    def __init__(self, says: Says) -> None:
        self.says = says

    async def ask(self, node: str, within_seconds: float) -> tuple[Says, str]:
        assert within_seconds > 0
        return self.says, f"the client of {node}"


def test_whoever_else_knows_nodes_is_asked_too_and_one_that_hears_it_weighs_more_than_one_that_does_not() -> None:
    async def scenario(stage: Stage) -> None:
        with_machine(stage)
        both = {"ceph": Storage(Says.GONE), "nfs": Storage(Says.ALIVE)}
        stage.drivers = Drivers(stage.clock, {}, asking=Kubelet().ask, witnesses=Witnesses(stage.clock, both))
        outcome = await stage.do(ask(stage))
        assert of(outcome, Source.OTHERS) == [(Says.ALIVE, "ceph: the client of n1; nfs: the client of n1")]

    play(scenario)

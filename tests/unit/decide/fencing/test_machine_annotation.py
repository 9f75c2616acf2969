"""The truth table of the annotation host.metal3.io/external-remediation, row by row, and what goes with it."""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from defib.app import Operator
from defib.config import Settings
from defib.decide.fencing.kinds import MACHINES
from defib.decide.fencing.plan import plan_fencing
from defib.decide.rules import Rules
from defib.kube.client import Client, Merge
from defib.model import medik8s
from defib.model.action import MarkRemediation, OpenIncident, ReleaseLock, ReportRemediation
from defib.model.cluster import Blindness, Cluster, Missing, Served
from defib.model.health_check import KindRef
from defib.model.incident import Cause, IncidentSpec, IncidentStatus, NodeIncident, Phase
from defib.model.meta import Meta, Unstructured
from defib.model.metal3 import HOST, KEPT_OFF_BY, KEPT_OFF_FOR, MACHINE_KEY, REBOOT_HARD, TRIGGER
from defib.model.node import Lease, LeaseSpec
from defib.model.power import METAL3, PowerPath
from defib.model.power_cycle import LOCK_HOLDER
from defib.simulate import controllers
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run
from defib.telemetry.metrics import Metrics
from testbed.bmc.metal3 import metal3_definitions
from tests.builders import T0, a_cluster, a_node
from tests.power_cycle_stage import HOSTS, HOSTS_HOME
from tests.unit.metal3_scene import OPENSHIFT

ROOT = Path(__file__).parents[4]
OURS = [yaml.safe_load(file.read_text()) for file in sorted((ROOT / "deploy" / "crds").glob("*.yaml"))]
KIND = MACHINES[0][0]
RULES = Rules(serves=frozenset({"machine-annotation"}))
BEGINS, DELETES, LETS_GO, NOTHING = "reboot annotation added", "node deleted", "reboot annotation removed", "nothing"
LONG_ENOUGH = 100.0  # longer than a poll of the baremetal operator, shorter than any time that can be up


def what_changes(*, node: bool, wanted: bool, on: bool, kept: bool) -> str:
    """The first thing that an operator does to the cluster. No baremetal operator is there to do anything about it."""
    seen = NOTHING

    async def main(clock: VirtualClock) -> None:
        nonlocal seen
        server = await a_server(clock, node=node, wanted=wanted, on=on, kept=kept)
        before = look(server)
        operator = Operator(
            InProcess(server, "defib"), clock, Settings(default_check="off", serves=("machine-annotation",)), Metrics()
        )
        async with asyncio.TaskGroup() as group:
            running = group.create_task(operator.run())
            ends = clock.monotonic() + LONG_ENOUGH
            while clock.monotonic() < ends and look(server) == before:  # noqa: ASYNC110  the server does not call
                await asyncio.sleep(0.1)
            seen = difference(before, look(server))
            running.cancel()

    run(main)
    return seen


async def a_server(clock: VirtualClock, *, node: bool, wanted: bool, on: bool, kept: bool) -> ApiServer:
    server = ApiServer(clock)
    controllers.attach(server)
    for definition in [*OURS, *metal3_definitions()]:
        server.put("customresourcedefinitions.apiextensions.k8s.io", definition)
    for name in ("defib-system", HOSTS_HOME, medik8s.LOCK_NAMESPACE):
        server.put("namespaces", {"metadata": {"name": name}})
    if node:
        server.put(
            "nodes", {"metadata": {"name": "n1"}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
        )
    mark = {MACHINE_KEY: '{"mode":"hard","force":false}'} if kept else {}
    host = {"metadata": {"name": "h1", "namespace": HOSTS_HOME, "annotations": mark}, "spec": {"online": True}}
    server.put("baremetalhosts.metal3.io", host)
    meta = {"name": "m1", "namespace": HOSTS_HOME, "annotations": {TRIGGER: ""} if wanted else {}}
    spec = {"providerID": f"baremetalhost:///{HOSTS_HOME}/h1"}
    server.put("machines.machine.openshift.io", {"metadata": meta, "spec": spec})
    person = Client(InProcess(server, "person"), clock)
    for ref, status in (
        (HOSTS.at("h1", HOSTS_HOME), {"poweredOn": on}),
        (OPENSHIFT.at("m1", HOSTS_HOME), {"nodeRef": {"name": "n1"}}),
    ):
        await person.patch(ref, Merge({"status": status}), subresource="status")
    return server


def look(server: ApiServer) -> tuple[bool, bool, bool]:
    """Whether there is a node, a trigger, a reboot annotation."""
    nodes, machines, hosts = (
        [version.object["metadata"] for version in server.store.collection(kind).objects.values()]
        for kind in ("nodes", "machines.machine.openshift.io", "baremetalhosts.metal3.io")
    )
    return (
        bool(nodes),
        TRIGGER in (machines[0].get("annotations") or {}),
        MACHINE_KEY in (hosts[0].get("annotations") or {}),
    )


def difference(before: tuple[bool, bool, bool], after: tuple[bool, bool, bool]) -> str:
    if before == after:
        return NOTHING
    names = {
        (True, True, False): LETS_GO,
        (True, True, True): BEGINS if not before[2] else NOTHING,
        (False, True, True): DELETES if before[0] else BEGINS,
        (False, True, False): LETS_GO,
        (False, False, False): LETS_GO,
        (True, False, False): LETS_GO,
    }
    return names.get(after, f"{before} became {after}")


@pytest.mark.parametrize(
    ("row", "what"),
    [
        # Node there, asked for, host on, reboot annotation there.
        ("0110", BEGINS),
        ("1110", BEGINS),
        ("1101", DELETES),
        ("0010", NOTHING),
        ("0011", NOTHING),
        ("0111", NOTHING),
        ("1000", NOTHING),
        ("1010", NOTHING),
        ("1011", NOTHING),
        ("1111", NOTHING),
        ("0001", LETS_GO),
        ("1001", LETS_GO),
        ("0000", NOTHING),  # the one that the table does not have
        ("0100", BEGINS),  # RM-05: nothing, in the table, and a dead end
        ("1100", BEGINS),  # RM-05: the same
        ("0101", LETS_GO),  # the table takes the trigger away here; ours goes last of all
    ],
)
def test_every_row_of_the_truth_table_has_its_deed(row: str, what: str) -> None:
    """RM-04, RM-05: all 16 combinations."""
    node, wanted, on, kept = (digit == "1" for digit in row)
    assert what_changes(node=node, wanted=wanted, on=on, kept=kept) == what


MARKS = {KEPT_OFF_BY: MACHINE_KEY, KEPT_OFF_FOR: "n1"}


def a_host(value: str = REBOOT_HARD, **marks: str) -> Unstructured:
    annotations = {MACHINE_KEY: value} | marks
    meta = Meta(name="h1", namespace="metal3", uid="uid-h1", resource_version="7", annotations=annotations)
    return Unstructured(metadata=meta, spec={"online": True}, status={"poweredOn": False})


def a_machine() -> Unstructured:
    return Unstructured(
        metadata=Meta(name="m1", namespace="metal3", uid="uid-m", annotations={TRIGGER: ""}),
        spec={"providerID": "baremetalhost:///metal3/h1"},
        status={"nodeRef": {"name": "n1"}},
    )


def a_sight(*machines: Unstructured, incident: NodeIncident | None = None, host: Unstructured | None = None) -> Cluster:
    """Of a cluster that has OpenShift's Machines and no others."""
    kinds: dict[KindRef, Served | Missing] = {kind: Missing("none") for versions in MACHINES for kind in versions}
    return msgspec.structs.replace(
        a_cluster(a_node("n1", ready="Unknown")),
        kinds=kinds | {HOST: Served("hosts", namespaced=True), KIND: Served("machines", namespaced=True)},
        others={
            "hosts": {"metal3/h1": host or a_host(**MARKS)},
            "machines": {machine.key: machine for machine in machines},
            "nodeincidents.defib.dev": {incident.name: incident} if incident is not None else {},
        },
    )


def an_incident(**status: Any) -> NodeIncident:
    """Of that machine."""
    return NodeIncident(
        metadata=Meta(name="n1", uid="uid-i", resource_version="1"),
        spec=IncidentSpec(
            node="n1",
            cause=Cause(api_version=KIND.api_version, kind="Machine", name="m1", uid="uid-m", namespace="metal3"),
        ),
        status=IncidentStatus(**status),
    )


def test_a_host_that_was_left_off_is_let_go_only_if_it_is_still_as_it_was_seen() -> None:
    """Somebody may have asked for it in the meantime."""
    (action,) = plan_fencing(a_sight(), RULES).actions
    assert isinstance(action, MarkRemediation)
    assert (action.annotations, action.version) == ({MACHINE_KEY: None, KEPT_OFF_BY: None, KEPT_OFF_FOR: None}, "7")


def let_go(sight: Cluster) -> list[str]:
    marked = [one for one in plan_fencing(sight, RULES).actions if isinstance(one, MarkRemediation)]
    return [name for one in marked for name, text in one.annotations.items() if text is None]


def test_what_was_written_before_there_were_marks_is_known_by_how_we_write_it() -> None:
    assert let_go(a_sight(host=a_host())) == [MACHINE_KEY]
    assert let_go(a_sight(host=a_host(**{KEPT_OFF_BY: "reboot.metal3.io/defib"}))) == [MACHINE_KEY]


@pytest.mark.parametrize("marks", [{}, MARKS])
def test_what_another_program_keeps_off_by_the_same_key_stays_off(marks: dict[str, str]) -> None:
    assert let_go(a_sight(host=a_host("", **marks))) == []


@pytest.mark.parametrize("path", [PowerPath(driver="manual"), PowerPath(driver="redfish", address="https://10.0.0.1")])
@pytest.mark.parametrize("marks", [{}, MARKS])
def test_a_host_is_not_let_go_while_its_node_is_freed_by_another_way(path: PowerPath, marks: dict[str, str]) -> None:
    def by(phase: Phase) -> Cluster:
        return a_sight(incident=an_incident(phase=phase, since=T0, power=path), host=a_host(**marks))

    assert MACHINE_KEY not in let_go(by(Phase.FREEING))
    assert MACHINE_KEY in let_go(by(Phase.RETURNING)), "now it should come on"


def test_a_host_is_not_let_go_while_nobody_can_say_whether_a_machine_asks_for_it() -> None:
    unseen = msgspec.structs.replace(a_sight(), kinds={HOST: Served("hosts", namespaced=True)})
    blind = msgspec.structs.replace(a_sight(), blind=(Blindness("machines", T0, "cut off"),))
    forbidden = msgspec.structs.replace(a_sight(), absent={"machines": "forbidden"})
    assert [plan_fencing(one, RULES).actions for one in (unseen, blind, forbidden)] == [(), (), ()]


def test_a_host_is_not_let_go_while_an_incident_is_about_it() -> None:
    """Even where the Machine has lost its annotation: whoever withdraws is served by the table."""
    path = PowerPath(driver=METAL3, address="metal3/h1", options={"key": MACHINE_KEY})
    incident = an_incident(phase=Phase.FREEING, since=T0, power=path)
    actions = plan_fencing(a_sight(incident=incident), RULES).actions
    assert not [action for action in actions if isinstance(action, MarkRemediation)]


@pytest.mark.parametrize("since", [None, T0 + timedelta(days=365)])
def test_an_unreadable_moment_has_not_passed(since: datetime | None) -> None:
    """RM-18: a time without beginning, or from the future, is not up."""
    incident = an_incident(phase=Phase.RETURNING, since=since)
    actions = plan_fencing(a_sight(a_machine(), incident=incident), RULES).actions
    written = [action.status for action in actions if isinstance(action, ReportRemediation)]
    assert not [status for status in written if "phase" in status]


def test_a_second_request_of_the_same_machine_has_an_incident_of_its_own() -> None:
    """RM-16: a closed one is no reason to do nothing."""
    plan = plan_fencing(a_sight(a_machine(), incident=an_incident(phase=Phase.CLOSED, since=T0)), RULES)
    (opened,) = [action for action in plan.actions if isinstance(action, OpenIncident)]
    assert opened.instead_of is not None
    assert opened.instead_of.uid == "uid-i"


def test_a_lock_that_nobody_needs_any_more_is_given_back() -> None:
    """Nobody asks once the annotation is gone, so no order is left that could do it."""
    lease = Lease(
        metadata=Meta(name="node-n1", namespace="medik8s-leases"), spec=LeaseSpec(holder_identity=LOCK_HOLDER)
    )
    closed = an_incident(phase=Phase.CLOSED, since=T0)
    sight = msgspec.structs.replace(a_sight(incident=closed), locks={"medik8s-leases/node-n1": lease})
    released = [one for one in plan_fencing(sight, RULES).actions if isinstance(one, ReleaseLock)]
    assert [one.node for one in released] == ["n1"]

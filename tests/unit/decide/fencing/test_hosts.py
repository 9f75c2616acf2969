"""From a Machine to its host: which one it is, which one it must not be, and who could replace the Machine."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from defib.decide.fencing.hosts import host_of_machine, host_of_node, is_let_go, obstacle_of_host, stays_off
from defib.decide.fencing.kinds import MACHINE_HEALTH_CHECKS, MACHINES, METAL3_MACHINES, Versions, items_of, to_ask_for
from defib.decide.fencing.machines import Machine, is_misnamed, is_replaceable, node_of, obstacle_of, startup_time
from defib.decide.fencing.order import Obstacle
from defib.model.cluster import Cluster, Missing, Served
from defib.model.health_check import KindRef
from defib.model.incident import IncidentSpec, IncidentStatus, NodeIncident, Phase
from defib.model.meta import Meta, OwnerReference, Unstructured
from defib.model.metal3 import HOST, HOST_LINK, MACHINE_KEY, HostName, host_in
from defib.model.node import Node, NodeSpec
from defib.model.power import METAL3, PowerPath
from tests.builders import T0, a_node

OPENSHIFT, CLUSTER_API = MACHINES[0][0], MACHINES[1][0]
MASTER = {"machine.openshift.io/cluster-api-machine-role": "master"}
OWNER = OwnerReference(kind="MachineSet", name="set", uid="u", controller=True)


def an_item(name: str, spec: Any = None, *, namespace: str = "metal3", **meta: Any) -> Unstructured:
    return Unstructured(metadata=Meta(name=name, namespace=namespace, uid=f"uid-{name}", **meta), spec=spec)


def a_machine(spec: Any = None, *, kind: KindRef = OPENSHIFT, **meta: Any) -> Machine:
    return Machine(kind, an_item("m1", spec, **meta))


def a_sight(**items: tuple[KindRef, list[Unstructured]]) -> Cluster:
    return Cluster(
        now=T0,
        kinds={kind: Served(name, namespaced=True) for name, (kind, _) in items.items()},
        others={name: {item.key: item for item in listed} for name, (_, listed) in items.items()},
    )


def hosts(*listed: Unstructured) -> Cluster:
    return a_sight(hosts=(HOST, list(listed) or [an_item("h1", {"online": True})]))


def found(machine: Machine, cluster: Cluster) -> str:
    """The name of the host, or why there is none."""
    host = host_of_machine(machine, cluster)
    return host.reason if isinstance(host, Obstacle) else host.key


@pytest.mark.parametrize(
    ("provider_id", "host"),
    [
        ("baremetalhost:///metal3/h1", HostName("metal3", "h1")),
        ("baremetalhost:///metal3/h1/uid-h1", HostName("metal3", "h1", "uid-h1")),
        ("metal3://metal3/h1/x1", HostName("metal3", "h1")),
        ("metal3://metal3/h1", HostName("metal3", "h1")),
        ("metal3://uid-h1", HostName(uid="uid-h1")),
        ("baremetalhost:///h1", None),
        ("baremetalhost:///a/b/c/d", None),
        ("aws:///eu/i-1", None),
        ("", None),
    ],
)
def test_a_provider_id_names_a_host_in_one_of_three_ways(provider_id: str, host: HostName | None) -> None:
    assert host_in(provider_id) == host


@pytest.mark.parametrize(
    ("spec", "annotations", "host"),
    [
        ({"providerID": "baremetalhost:///metal3/h1"}, {}, "metal3/h1"),
        ({"providerID": "baremetalhost:///metal3/h1/uid-h1"}, {}, "metal3/h1"),
        ({"providerID": "baremetalhost:///metal3/h1/another"}, {HOST_LINK: "metal3/h1"}, "NoHost"),
        ({"providerID": "metal3://metal3/h1/x1"}, {}, "metal3/h1"),
        ({"providerID": "metal3://uid-h1"}, {}, "metal3/h1"),
        ({"providerID": "metal3://another"}, {}, "NoHost"),
        ({"providerID": "baremetalhost:///metal3/h2"}, {}, "NoHost"),
        ({"providerID": "baremetalhost:///other/h1"}, {}, "ForeignHost"),
        ({}, {HOST_LINK: "metal3/h1"}, "metal3/h1"),
        ({}, {HOST_LINK: "other/h1"}, "ForeignHost"),
        ({}, {HOST_LINK: "h1"}, "NoHost"),
        ({}, {HOST_LINK: "a/b/c"}, "NoHost"),
        ({"providerID": 7}, {}, "NoHost"),
        (None, {}, "NoHost"),
    ],
)
def test_the_host_of_a_machine_is_found_by_provider_id_else_by_annotation(
    spec: Any, annotations: Any, host: str
) -> None:
    """RM-02: the UID is checked, and a host of another namespace is refused."""
    assert found(a_machine(spec, annotations=annotations), hosts()) == host


@pytest.mark.parametrize(
    ("behind", "host"),
    [
        (an_item("x1", annotations={HOST_LINK: "metal3/h1"}), "metal3/h1"),
        (an_item("x1", {"providerID": "metal3://metal3/h1/x1"}), "metal3/h1"),
        (an_item("x1", annotations={HOST_LINK: "other/h1"}), "ForeignHost"),
        (an_item("x1", namespace="other", annotations={HOST_LINK: "metal3/h1"}), "NoHost"),
    ],
)
@pytest.mark.parametrize("version", METAL3_MACHINES)
def test_a_machine_of_cluster_api_leads_over_its_metal3_machine(
    version: KindRef, behind: Unstructured, host: str
) -> None:
    """RM-02."""
    sight = a_sight(hosts=(HOST, [an_item("h1")]), behind=(version, [behind]))
    machine = a_machine({"infrastructureRef": {"kind": "Metal3Machine", "name": "x1"}}, kind=CLUSTER_API)
    assert found(machine, sight) == host


@pytest.mark.parametrize(
    ("consumer", "host"),
    [
        ({"kind": "Machine", "name": "m1"}, "metal3/h1"),
        ({"kind": "Machine", "name": "m2"}, "NoHost"),
        ({"kind": "Something", "name": "else"}, "metal3/h1"),
        ("nonsense", "metal3/h1"),
    ],
)
def test_a_host_that_says_it_serves_another_machine_is_not_touched(consumer: Any, host: str) -> None:
    """RM-03: a host and its Machine name each other."""
    machine = a_machine({"providerID": "baremetalhost:///metal3/h1"})
    assert found(machine, hosts(an_item("h1", {"consumerRef": consumer}))) == host


def test_hosts_that_are_not_in_sight_are_not_guessed() -> None:
    assert found(a_machine({"providerID": "baremetalhost:///metal3/h1"}), Cluster(now=T0)) == "NoHost"


def test_a_node_without_a_machine_leads_to_its_host_by_its_own_provider_id() -> None:
    node = msgspec.structs.replace(a_node("n1"), spec=NodeSpec(provider_id="metal3://metal3/h1/x1"))
    here, elsewhere = (host_of_node(node, namespace, hosts()) for namespace in ("metal3", "other"))
    assert isinstance(here, Unstructured)
    assert isinstance(elsewhere, Obstacle)
    assert isinstance(host_of_node(None, "metal3", hosts()), Obstacle)
    claims_it_too = msgspec.structs.replace(node, metadata=Meta(name="n2"))
    doubtful = msgspec.structs.replace(hosts(), nodes={"n1": node, "n2": claims_it_too})
    assert isinstance(host_of_node(node, "metal3", doubtful), Obstacle)


@pytest.mark.parametrize(
    ("meta", "spec", "reason"),
    [
        ({}, {"online": True}, ""),
        ({"annotations": {"baremetalhost.metal3.io/paused": ""}}, {"online": True}, "HostUntouchable"),
        ({"annotations": {"baremetalhost.metal3.io/detached": ""}}, {"online": True}, "HostUntouchable"),
        ({}, {"online": True, "disablePowerOff": True}, "HostUntouchable"),
        ({"deletion_timestamp": T0}, {"online": True}, "HostUntouchable"),
        ({}, {"online": False}, "HostNotOnline"),
    ],
)
def test_some_hosts_are_left_alone(meta: Any, spec: Any, reason: str) -> None:
    """RM-09."""
    obstacle = obstacle_of_host(an_item("h1", spec, **meta))
    assert (obstacle.reason if obstacle is not None else "") == reason


@pytest.mark.parametrize(
    ("meta", "spec", "node", "can_be"),
    [
        ({"owner_references": [OWNER]}, {}, a_node("n1"), True),
        ({"owner_references": [OWNER]}, {}, None, True),
        ({}, {}, None, False),
        ({"owner_references": [OwnerReference(kind="Thing", name="x", uid="u")]}, {}, None, False),
        ({"owner_references": [OWNER], "labels": MASTER}, {}, None, False),
        ({"owner_references": [OWNER], "labels": {"cluster.x-k8s.io/control-plane": ""}}, {}, None, False),
        ({"owner_references": [OWNER]}, {}, a_node("n1", labels={"node-role.kubernetes.io/control-plane": ""}), False),
        ({"owner_references": [OWNER]}, {"externallyProvisioned": True}, None, False),
    ],
)
def test_a_machine_is_replaced_only_where_somebody_would_and_nothing_is_lost(
    meta: Any, spec: Any, node: Node | None, *, can_be: bool
) -> None:
    """RM-19: not without an owner, not a master, not what was provisioned from outside."""
    assert is_replaceable(a_machine(**meta), an_item("h1", spec), node) == can_be
    assert not is_replaceable(a_machine(**meta), Obstacle("NoHost", "gone"), node)


@pytest.mark.parametrize(
    ("checks", "minutes"),
    [
        ([{"selector": {"matchLabels": {"role": "worker"}}, "nodeStartupTimeout": "7m"}], 7),
        ([{"checks": {"nodeStartupTimeoutSeconds": 420}}], 7),
        ([{"selector": {"matchLabels": {"role": "infra"}}, "nodeStartupTimeout": "7m"}], 20),
        ([{"nodeStartupTimeout": "7m"}, {"nodeStartupTimeout": "8m"}], 20),
        ([{"nodeStartupTimeout": "0"}], 20),
        ([{"nodeStartupTimeout": "0s"}], 20),
        ([{"nodeStartupTimeout": "soon"}], 20),
        ([{"selector": {"matchLabels": 7}, "nodeStartupTimeout": "7m"}], 20),
        ([{"clusterName": "other", "nodeStartupTimeout": "7m"}], 20),
        ([{}], 20),
        ([], 20),
    ],
)
@pytest.mark.parametrize("family", [0, 1])
def test_a_node_has_the_time_that_the_one_check_of_its_machine_gives_it(
    family: int, checks: list[Any], minutes: int
) -> None:
    """RM-18."""
    kind = MACHINE_HEALTH_CHECKS[family][0]
    listed = [an_item(f"c{number}", spec) for number, spec in enumerate(checks)]
    machine = a_machine({"clusterName": "mine"}, kind=MACHINES[family][0], labels={"role": "worker"})
    assert startup_time(machine, a_sight(checks=(kind, listed))) == timedelta(minutes=minutes)
    elsewhere = [msgspec.structs.replace(item, metadata=Meta(name=item.name, namespace="other")) for item in listed]
    assert startup_time(machine, a_sight(checks=(kind, elsewhere))) == timedelta(minutes=20)


def test_a_node_that_has_another_provider_id_is_not_the_one_that_a_machine_means() -> None:
    """In a cluster that manages others, a Machine may name a node that is elsewhere."""
    node = msgspec.structs.replace(a_node("n1"), spec=NodeSpec(provider_id="metal3://metal3/h2/x2"))
    machine = a_machine({"providerID": "metal3://metal3/h1/x1"})
    obstacle = obstacle_of(machine, node)
    assert obstacle is not None
    assert obstacle.reason == "OtherNode"
    assert obstacle_of(machine, a_node("n1")) is None
    assert obstacle_of(a_machine(annotations={"cluster.x-k8s.io/paused": ""}), None) is not None


@pytest.mark.parametrize("name", ["m1", "x" * 253, "a-" * 126 + "a", "a." * 126 + "a"])
def test_an_incident_of_a_machine_has_a_name_that_no_node_has(name: str) -> None:
    """RM-27: whatever the machine is called, and however long its name is."""
    uid = "0f8fad5b-d9cb-469f-a165-70867728950e"
    incident = Machine(OPENSHIFT, Unstructured(metadata=Meta(name=name, namespace="metal3", uid=uid))).incident
    assert incident.startswith(name[:100])
    assert incident.endswith(f".{uid}")
    assert len(incident) <= 253
    assert ".." not in incident
    assert "-." not in incident


@pytest.mark.parametrize(
    ("known", "asked"),
    [
        ({}, 1),
        ({0: Served("a", namespaced=True)}, 1),
        ({0: Missing("none")}, 2),
        ({0: Missing("none"), 1: Missing("none")}, 2),
    ],
)
def test_an_older_version_is_asked_for_only_where_the_newer_is_missing(known: Any, asked: int) -> None:
    versions: Versions = MACHINES[1]
    cluster = Cluster(now=T0, kinds={versions[place]: answer for place, answer in known.items()})
    assert to_ask_for(versions, cluster) == versions[:asked]


def test_a_machine_that_is_served_in_two_versions_is_one_machine() -> None:
    new, old = MACHINES[1]
    sight = a_sight(new=(new, [an_item("m1")]), old=(old, [an_item("m1")]))
    assert [kind for kind, _ in items_of(MACHINES[1], sight)] == [new]


@pytest.mark.parametrize(
    ("host", "lets_go", "stays"),
    [
        (an_item("h1", {"online": True}, annotations={MACHINE_KEY: ""}), False, False),
        (an_item("h1", {"online": True}), True, False),
        (an_item("h1", {"online": False}), True, True),
        (an_item("h1", {"online": False}, annotations={MACHINE_KEY: ""}), False, False),
        (an_item("h1", {"online": True}, deletion_timestamp=T0), True, True),
        (an_item("h2"), False, True),
    ],
)
def test_a_host_that_somebody_else_wants_off_is_let_go_and_not_waited_for(
    host: Unstructured, *, lets_go: bool, stays: bool
) -> None:
    """RM-16: as when the Machine and its host are given up while they are remediated."""
    path = PowerPath(driver=METAL3, address="metal3/h1", options={"key": MACHINE_KEY})
    assert (is_let_go(path, hosts(host)), stays_off(path, hosts(host))) == (lets_go, stays)
    assert not stays_off(path, Cluster(now=T0))
    assert not stays_off(PowerPath(driver="redfish", address="metal3/h1"), hosts(host))


@pytest.mark.parametrize(
    ("mine", "phase", "node"),
    [
        ("n1", Phase.FREEING, "n1"),
        ("n1", Phase.RETURNING, "n1"),
        ("", Phase.OPEN, ""),
        ("", Phase.FREEING, ""),
        ("", Phase.RETURNING, "n2"),
    ],
)
def test_an_incident_stays_with_its_node_and_one_without_waits_for_the_one_that_comes(
    mine: str, phase: Phase, node: str
) -> None:
    """RM-27: nothing is ever taken from a node that was not there when it began."""
    incident = NodeIncident(spec=IncidentSpec(node=mine), status=IncidentStatus(phase=phase))
    assert node_of("n2", incident) == node
    assert is_misnamed("n2", incident) == (mine == "" and phase is Phase.OPEN)
    assert not is_misnamed("", incident)
    assert (node_of("n2", None), is_misnamed("n2", None)) == ("n2", False)

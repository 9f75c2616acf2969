"""The way to the power of one node: what is said for all, what is said for it, and what is filled in."""

from typing import Any

import pytest

from defib.decide.fencing.order import Obstacle
from defib.decide.fencing.paths import host_of, path_for, path_in
from defib.model.cluster import Cluster
from defib.model.node import Node, NodeSpec
from defib.model.power import PowerPath
from defib.model.power_cycle import Policy, Way
from defib.model.self_fencing import NEVER_REBOOTED
from tests.builders import T0, a_node
from tests.unit.decide.fencing.cases import change

RACK = "node-restriction.kubernetes.io/rack"
NODE = a_node("n1", labels={RACK: "7", "node-restriction.kubernetes.io/empty": "", "own": "8"})


def path(node: Node | None = NODE, ways: dict[str, Way] | None = None, **way: Any) -> PowerPath | Obstacle:
    return path_for(Policy(way=Way(**({"driver": "redfish"} | way)), ways=ways or {}), "n1", node, "ops")


def why_not(**more: Any) -> str:
    found = path(**more)
    assert isinstance(found, Obstacle)
    assert found.reason == "NoPowerPath"
    return found.message


def test_what_is_said_for_all_is_filled_in_for_each() -> None:
    found = path(
        address=f"https://{{node}}.r{{label:{RACK}}}.example/",
        credentials="bmc-{node}",
        options={"system": "{node}", "mode": "fast"},
    )
    assert found == PowerPath(
        driver="redfish",
        address="https://n1.r7.example/",
        secret="ops/bmc-n1",
        options={"system": "n1", "mode": "fast"},
    )


def test_what_is_said_for_one_node_beats_what_is_said_for_all() -> None:
    own = Way(driver="ipmi", address="10.9.9.9", options={"cipher": "17"})
    found = path(ways={"n1": own, "n2": Way(driver="x")}, address="a", credentials="bmc", options={"port": "1"})
    assert found == PowerPath(
        driver="ipmi", address="10.9.9.9", secret="ops/bmc", options={"port": "1", "cipher": "17"}
    )
    assert path(ways={"n2": own}, address="a") == PowerPath(driver="redfish", address="a", options={})


def test_the_secret_is_always_one_of_the_remediations_own_namespace() -> None:
    assert isinstance(path(credentials="bmc"), PowerPath)
    for foreign in ("kube-system/admin", "../kube-system/admin", "UPPER", "a b", "-a"):
        assert foreign in why_not(credentials=foreign)


@pytest.mark.parametrize(
    "own", ["own", "example.com/bmc", "kubernetes.io/hostname", "x-node-restriction.kubernetes.io/a"]
)
def test_what_a_kubelet_can_write_itself_leads_nowhere(own: str) -> None:
    """With root on one machine one could have the BMC's password sent anywhere, or another machine switched off."""
    for field in (
        {"address": f"https://{{label:{own}}}"},
        {"credentials": f"{{label:{own}}}"},
        {"options": {"plug": f"{{label:{own}}}"}},
    ):
        assert why_not(**field) == (
            f"a node can write its label {own} itself; "
            "name one under node-restriction.kubernetes.io/, or use spec.power.nodes"
        )
    protected = a_node("n1", labels={"acme.node-restriction.kubernetes.io/bmc": "b"})
    assert isinstance(path(node=protected, address="{label:acme.node-restriction.kubernetes.io/bmc}"), PowerPath)


@pytest.mark.parametrize("missing", ["zone", "empty"])
def test_what_the_node_does_not_have_is_told(missing: str) -> None:
    key = f"node-restriction.kubernetes.io/{missing}"
    assert why_not(address=f"{{label:{key}}}") == f"node n1 has no label {key}, which spec.power names"


@pytest.mark.parametrize("unknown", ["{name}", "{node:x}", "{label}", "{label:}", "{}", "{uid:}", "{annotation:a}"])
def test_what_is_no_placeholder_is_told_with_those_that_there_are(unknown: str) -> None:
    told = why_not(address=f"https://{unknown}/")
    assert told == f"{unknown} in spec.power is no placeholder; there are {{node}} and {{label:KEY}}"


def test_without_its_node_only_the_name_can_be_filled_in() -> None:
    assert isinstance(path(node=None, address="{node}"), PowerPath)
    assert why_not(node=None, address=f"{{label:{RACK}}}") == f"node n1 has no label {RACK}, which spec.power names"


def test_a_node_without_a_driver_has_no_way() -> None:
    assert why_not(driver="") == "spec.power names no driver for node n1"


def with_provider(provider_id: str) -> Node:
    return change(NODE, spec=NodeSpec(provider_id=provider_id))


def test_a_metal3_host_is_found_by_the_nodes_provider_id() -> None:
    found = path(node=with_provider("metal3://metal/host-1/m3m-1"), driver="metal3")
    assert found == PowerPath(driver="metal3", address="metal/host-1", options={"key": "reboot.metal3.io/defib"})


def test_a_metal3_host_may_be_named_and_its_key_chosen() -> None:
    found = path(driver="metal3", address="metal/{node}", options={"key": "reboot.metal3.io/mine"})
    assert found == PowerPath(driver="metal3", address="metal/n1", options={"key": "reboot.metal3.io/mine"})


@pytest.mark.parametrize("node", [None, NODE, with_provider("aws:///zone/i-1")])
def test_a_node_that_names_no_host_has_no_way(node: Node | None) -> None:
    told = why_not(node=node, driver="metal3")
    assert told == "node n1 has no provider ID of a Metal3 host, and spec.power has no address"


@pytest.mark.parametrize(
    ("provider_id", "host"),
    [
        ("metal3://ns/host", "ns/host"),
        ("metal3://ns/host/machine", "ns/host"),
        ("baremetalhost:///ns/host", "ns/host"),
        ("baremetalhost:///ns/host/uid", "ns/host"),
        ("metal3://ns/host/machine/more", ""),
        ("baremetalhost://ns/host", ""),
        ("aws:///zone/i-1", ""),
        ("", ""),
    ],
)
def test_rm02_a_provider_id_names_a_host(provider_id: str, host: str) -> None:
    """RM-02."""
    assert host_of(provider_id) == host


@pytest.mark.parametrize("address", ["foo", "/foo", "foo/", "a/b/status", "a/..", "a/../b", "a/b?x=1", "A/b"])
def test_a_host_that_no_host_can_be_called_is_refused_before_anybody_is_asked_for_it(address: str) -> None:
    assert address in why_not(driver="metal3", address=address)


def test_the_provider_id_of_a_node_cannot_name_anything_else_than_a_host() -> None:
    assert "is not the namespace/name of a BareMetalHost" in why_not(
        node=with_provider("metal3://ns/.."), driver="metal3"
    )


@pytest.mark.parametrize(
    "key", ["", "reboot.metal3.io", "reboot.metal3.io/", "baremetalhost.metal3.io/paused", "reboot.metal3.io/a/b"]
)
def test_only_an_annotation_that_keeps_a_host_off_is_set_and_removed(key: str) -> None:
    assert "reboot.metal3.io/KEY" in why_not(driver="metal3", address="metal/n1", options={"key": key})


def test_the_agent_of_a_node_that_had_not_rebooted_is_no_way() -> None:
    policy = Policy(way=Way(driver="agent"))
    known = {"n1": a_node("n1", annotations={NEVER_REBOOTED: "yesterday"}), "n2": a_node("n2")}
    cluster = Cluster(now=T0, nodes=known)
    refused = path_in(cluster, policy, "n1", "ns")
    assert isinstance(refused, Obstacle)
    assert (refused.reason, NEVER_REBOOTED in refused.message) == ("Distrusted", True)
    assert path_in(cluster, policy, "n2", "ns") == PowerPath(driver="agent", options={})

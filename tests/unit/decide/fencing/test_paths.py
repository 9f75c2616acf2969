"""The way to the power of one node: what is said for all, what is said for it, and what is filled in."""

from typing import Any

import pytest

from defib.decide.fencing.order import Obstacle
from defib.decide.fencing.paths import host_of, path_for
from defib.model.node import Node, NodeSpec
from defib.model.power import PowerPath
from defib.model.power_cycle import Policy, Way
from tests.builders import a_node
from tests.unit.decide.fencing.cases import change

NODE = a_node("n1", labels={"rack": "7", "empty": ""}, annotations={"bmc": "10.0.0.1"})


def path(node: Node | None = NODE, ways: dict[str, Way] | None = None, **way: Any) -> PowerPath | Obstacle:
    return path_for(Policy(way=Way(**({"driver": "redfish"} | way)), ways=ways or {}), "n1", node, "ops")


def why_not(**more: Any) -> str:
    found = path(**more)
    assert isinstance(found, Obstacle)
    assert found.reason == "NoPowerPath"
    return found.message


def test_what_is_said_for_all_is_filled_in_for_each() -> None:
    found = path(
        address="https://{node}.r{label:rack}.example/{annotation:bmc}",
        credentials="bmc-{node}",
        options={"system": "{node}", "mode": "fast"},
    )
    assert found == PowerPath(
        driver="redfish",
        address="https://n1.r7.example/10.0.0.1",
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


def test_whoever_may_annotate_a_node_gets_no_other_namespace_and_no_second_word() -> None:
    """A kubelet may write its own Node: what it writes there must stay inside what it is put into."""
    for evil in ("../../kube-system/secrets/admin", "a/b"):
        node = a_node("n1", annotations={"bmc": evil})
        assert "that is no Secret's name" in why_not(node=node, credentials="{annotation:bmc}")
    for evil in ("10.0.0.1\naction=off", "a b", "a\x00b", "\u2028"):
        node = a_node("n1", annotations={"bmc": evil})
        assert "annotation bmc of node n1 holds" in why_not(node=node, address="{annotation:bmc}")
        assert "annotation bmc of node n1 holds" in why_not(node=node, options={"a": "{annotation:bmc}"})


@pytest.mark.parametrize("missing", ["{label:zone}", "{label:empty}", "{annotation:zone}"])
def test_what_the_node_does_not_have_is_told(missing: str) -> None:
    what, _, key = missing.strip("{}").partition(":")
    assert why_not(address=missing) == f"node n1 has no {what} {key}, which spec.power names"


@pytest.mark.parametrize("unknown", ["{name}", "{node:x}", "{label}", "{label:}", "{}", "{uid:}"])
def test_what_is_no_placeholder_is_told_with_those_that_there_are(unknown: str) -> None:
    told = why_not(address=f"https://{unknown}/")
    assert (
        told == f"{unknown} in spec.power is no placeholder; there are {{node}}, {{label:KEY}} and {{annotation:KEY}}"
    )


def test_without_its_node_only_the_name_can_be_filled_in() -> None:
    assert isinstance(path(node=None, address="{node}"), PowerPath)
    assert why_not(node=None, address="{label:rack}") == "node n1 has no label rack, which spec.power names"


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

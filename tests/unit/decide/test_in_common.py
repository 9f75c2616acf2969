"""What failing nodes share is told when it can hardly be chance, and else it is not."""

from random import Random

import msgspec
import pytest

from defib.decide.answers.in_common import chance_of, in_common
from defib.model.node import Node, NodeInfo
from tests.builders import a_node

RACK, ZONE = "example.com/rack", "topology.kubernetes.io/zone"


def a_fleet(count: int, racks: int) -> dict[str, Node]:
    """Dealt to racks in turn, all in one zone."""
    made = [
        a_node(f"n{n}", labels={RACK: f"r{n % racks}", ZONE: "a", "kubernetes.io/hostname": f"n{n}"})
        for n in range(count)
    ]
    return {node.name: node for node in made}


def test_a_rack_that_loses_most_of_its_nodes_is_named() -> None:
    fleet = a_fleet(100, 10)
    ill = [name for name, node in fleet.items() if node.labels[RACK] == "r3"][:6]
    (found,) = in_common(fleet, ill)
    assert (found.what, found.value, found.ill, found.of) == (RACK, "r3", 6, 10)
    assert found.words == "6 of the 10 nodes with example.com/rack r3 fail, where 0.6 would be chance"


def test_what_all_nodes_share_explains_nothing() -> None:
    fleet = a_fleet(100, 100)
    assert in_common(fleet, list(fleet)[:20]) == ()


def test_two_that_fail_together_are_a_coincidence() -> None:
    fleet = a_fleet(1000, 500)
    ill = [name for name, node in fleet.items() if node.labels[RACK] == "r3"]
    assert (len(ill), in_common(fleet, ill)) == (2, ())


def test_a_kernel_is_as_good_a_reason_as_a_label() -> None:
    fleet = a_fleet(60, 6)
    kernels = {name: "6.9.1" if number % 11 == 0 else "6.8.0" for number, name in enumerate(fleet)}
    new = {name: _with_kernel(node, kernels[name]) for name, node in fleet.items()}
    ill = [name for name, kernel in kernels.items() if kernel == "6.9.1"]
    assert [(one.what, one.value) for one in in_common(new, ill)] == [("kernel", "6.9.1")]


def test_labels_that_mean_the_same_nodes_are_told_once() -> None:
    fleet = {name: _labelled(node, row=node.labels[RACK]) for name, node in a_fleet(100, 10).items()}
    ill = [name for name, node in fleet.items() if node.labels[RACK] == "r3"]
    assert len(in_common(fleet, ill)) == 1


@pytest.mark.parametrize("seed", range(20))
def test_nodes_that_fail_by_chance_have_nothing_in_common(seed: int) -> None:
    fleet = a_fleet(200, 20)
    assert in_common(fleet, Random(seed).sample(sorted(fleet), 12)) == ()


def test_names_of_nodes_that_are_gone_change_nothing() -> None:
    assert in_common(a_fleet(10, 2), ["gone", "lost", "away"]) == ()


@pytest.mark.parametrize(
    ("ill", "of", "all_ill", "all_nodes", "chance"),
    [(0, 5, 3, 10, 1.0), (3, 3, 3, 10, 1 / 120), (1, 5, 1, 10, 0.5), (2, 2, 5, 10, 2 / 9), (1, 9, 3, 10, 1.0)],
)
def test_the_chance_is_that_of_drawing_by_lot(ill: int, of: int, all_ill: int, all_nodes: int, chance: float) -> None:
    assert chance_of(ill, of, all_ill, all_nodes) == pytest.approx(chance)


def _with_kernel(node: Node, kernel: str) -> Node:
    status = msgspec.structs.replace(node.status, node_info=NodeInfo(boot_id="b", kernel_version=kernel))
    return msgspec.structs.replace(node, status=status)


def _labelled(node: Node, **labels: str) -> Node:
    meta = msgspec.structs.replace(node.metadata, labels={**node.labels, **labels})
    return msgspec.structs.replace(node, metadata=meta)

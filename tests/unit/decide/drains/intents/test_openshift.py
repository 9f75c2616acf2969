"""Drains by the Machine Config Operator: in an upgrade of the managed-upgrade-operator, or without one."""

from typing import Any

import msgspec
import pytest

from defib.decide.drains.intent import Intent, cordoned_at
from defib.decide.drains.intents import find_intent
from defib.decide.drains.intents.openshift import (
    DESIRED_DRAIN,
    LAST_APPLIED_DRAIN,
    POOLS,
    STATE,
    UPGRADE_CONFIGS,
    desired_version,
    pending_nodes,
)
from defib.model.cluster import Blindness, Cluster
from defib.model.drain_policy import ALL_SOURCES, Source
from defib.model.meta import Unstructured
from defib.model.node import Node
from tests.builders import T0
from tests.unit.decide.drains.intents.scene import (
    CORDON,
    CORDONED_AT,
    a_draining_node,
    an_object,
    collection_of,
    find,
    seeing,
)

WORKER, INFRA = "node-role.kubernetes.io/worker", "node-role.kubernetes.io/infra"
WORKING = {STATE: "Working"}
ASKED = {DESIRED_DRAIN: "drain-rendered-2", LAST_APPLIED_DRAIN: "uncordon-rendered-1", STATE: "Done"}
OBEYED = {DESIRED_DRAIN: "drain-rendered-2", LAST_APPLIED_DRAIN: "drain-rendered-2", STATE: "Done"}
UNCORDON = {DESIRED_DRAIN: "uncordon-rendered-2", LAST_APPLIED_DRAIN: "drain-rendered-2", STATE: "Done"}


def a_worker(annotations: dict[str, str], *roles: str, cordoned: bool = True) -> Node:
    labels = dict.fromkeys((WORKER, *roles), "")
    return a_draining_node("a", annotations, labels=labels, taints=(CORDON,) if cordoned else ())


def a_pool(name: str, total: object, updated: object, role: str = "") -> Unstructured:
    selector = {"matchLabels": {role or f"node-role.kubernetes.io/{name}": ""}}
    status = {"machineCount": total, "updatedMachineCount": updated}
    return an_object(name, spec={"nodeSelector": selector}, status=status)


def an_upgrade(phase: str = "Upgrading", version: str = "4.18.2", **named: str) -> Unstructured:
    history = [{"version": version, "phase": phase}, {"version": "4.18.1", "phase": "Upgraded"}]
    where = {"name": "managed-upgrade-config", "namespace": "openshift-managed-upgrade-operator", **named}
    return an_object(**where, spec={"desired": {"version": "4.18.2"}}, status={"history": history})


def managed(*pools: Unstructured, upgrade: Unstructured | None = None) -> dict[Any, tuple[Unstructured, ...]]:
    return {UPGRADE_CONFIGS: (upgrade or an_upgrade(),), POOLS: pools}


UPDATING = a_pool("worker", 3, 1)
FOUND = Intent(
    source=Source.OPENSHIFT,
    why="the Machine Config Operator is updating the node, for the upgrade to 4.18.2",
    upgrade="4.18.2",
)


@pytest.mark.parametrize("proof", [WORKING, ASKED])
def test_dk_24_a_node_of_an_updating_pool_is_drained_for_the_upgrade_since_its_cordon(proof: dict[str, str]) -> None:
    node = a_worker(proof)
    assert find(node, managed(UPDATING)) == FOUND
    assert cordoned_at(node) == CORDONED_AT


@pytest.mark.parametrize(
    "upgrade",
    [
        an_upgrade("Pending"),
        an_upgrade("Upgraded"),
        an_upgrade("Failed"),
        an_upgrade(version="4.18.1"),
        an_upgrade(name="another"),
        an_upgrade(namespace="default"),
    ],
)
def test_dk_01_without_an_upgrade_under_way_nothing_is_a_drain(upgrade: Unstructured) -> None:
    assert find(a_worker(WORKING | ASKED), managed(UPDATING, upgrade=upgrade)) is None


def test_dk_01_an_updated_pool_drains_nothing() -> None:
    assert find(a_worker(WORKING), managed(a_pool("worker", 3, 3))) is None
    assert find(a_worker(WORKING), managed()) is None


def test_a_node_that_is_not_cordoned_is_not_drained() -> None:
    assert find(a_worker(WORKING | ASKED, cordoned=False), managed(UPDATING)) is None


@pytest.mark.parametrize("annotations", [{}, {STATE: "Done"}, {STATE: "Degraded"}, OBEYED, UNCORDON])
def test_dk_17_a_node_that_a_person_parked_during_an_upgrade_is_left_alone(annotations: dict[str, str]) -> None:
    assert find(a_worker(annotations), managed(UPDATING)) is None


def test_dk_26_a_node_of_a_custom_pool_is_drained_with_its_pool() -> None:
    node = a_worker(WORKING, INFRA)
    assert find(node, managed(a_pool("worker", 3, 3), a_pool("infra", 2, 1))) == FOUND


def test_dk_26_a_node_of_a_custom_pool_is_not_drained_with_the_workers() -> None:
    node = a_worker(WORKING, INFRA)
    assert find(node, managed(a_pool("worker", 3, 1), a_pool("infra", 2, 2))) is None
    assert find(a_worker(WORKING), managed(a_pool("worker", 3, 3), a_pool("infra", 2, 1))) is None


def test_dk_26_a_pool_may_select_its_nodes_by_expressions() -> None:
    expression = {"key": INFRA, "operator": "Exists"}
    pool = an_object(
        "special",
        spec={"nodeSelector": {"matchExpressions": [expression]}},
        status={"machineCount": 2, "updatedMachineCount": 0},
    )
    assert find(a_worker(WORKING, INFRA), managed(pool)) == FOUND
    assert find(a_worker(WORKING), managed(pool)) is None


@pytest.mark.parametrize(
    "selector", [None, {}, "all", [], {"matchLabels": {}}, {"matchLabels": {WORKER: 1}}, {"matchExpressions": "x"}]
)
def test_a_pool_that_does_not_say_which_nodes_it_has_has_none(selector: object) -> None:
    status = {"machineCount": 2, "updatedMachineCount": 0}
    pool = an_object("worker", spec={"nodeSelector": selector}, status=status)
    assert find(a_worker(WORKING), managed(pool)) is None


@pytest.mark.parametrize("count", [None, "3", True, 2.5, []])
def test_a_pool_whose_counts_cannot_be_read_is_not_updating(count: object) -> None:
    assert find(a_worker(WORKING), managed(a_pool("worker", 3, count))) is None
    assert find(a_worker(WORKING), managed(a_pool("worker", count, 1))) is None


def test_dk_24_without_the_managed_upgrade_operator_the_request_to_drain_is_enough() -> None:
    found = Intent(source=Source.OPENSHIFT, why="the Machine Config Operator is draining the node")
    assert find(a_worker(ASKED)) == found
    never_drained = {DESIRED_DRAIN: "drain-rendered-2"}
    assert find(a_worker(never_drained)) == found


@pytest.mark.parametrize("annotations", [{}, WORKING, OBEYED, UNCORDON, {DESIRED_DRAIN: "rendered-2"}])
def test_dk_17_without_the_managed_upgrade_operator_nothing_less_is_a_drain(annotations: dict[str, str]) -> None:
    assert find(a_worker(annotations)) is None
    assert find(a_worker(ASKED, cordoned=False)) is None


def test_what_is_out_of_sight_proves_no_drain() -> None:
    node = a_worker(WORKING | ASKED)
    seen = seeing(node, objects=managed(UPDATING))
    for kind in (UPGRADE_CONFIGS, POOLS):
        name = collection_of(kind)
        blind = msgspec.structs.replace(seen, blind=(Blindness(name, T0, "no answer"),))
        forbidden = msgspec.structs.replace(seen, absent={name: "forbidden"})
        not_asked = msgspec.structs.replace(seen, kinds={one: at for one, at in seen.kinds.items() if one != kind})
        for cluster in (blind, forbidden, not_asked):
            assert find_intent(node, cluster, ALL_SOURCES) is None
    assert find_intent(node, seen, ALL_SOURCES) == FOUND


def test_pending_nodes_are_those_of_updating_pools_without_the_control_plane() -> None:
    pools = (a_pool("worker", 5, 2), a_pool("infra", 2, 1), a_pool("done", 4, 4), a_pool("master", 3, 0))
    assert pending_nodes(seeing(objects=managed(*pools, a_pool("odd", "many", 1)))) == 4
    assert pending_nodes(seeing()) == 0


def test_the_desired_version_is_told_whatever_became_of_it() -> None:
    assert desired_version(seeing(objects=managed(upgrade=an_upgrade("Upgraded")))) == "4.18.2"
    assert desired_version(Cluster(now=T0)) == ""

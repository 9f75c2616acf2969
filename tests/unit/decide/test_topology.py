"""A cluster that fences its own nodes is left alone."""

from typing import Any

import pytest

from defib.decide.quorum import CLUSTER_VERSION
from defib.decide.topology import INFRASTRUCTURE, SUPPORTED
from defib.model.cluster import Served
from defib.model.meta import Meta, Unstructured
from tests.builders import a_node
from tests.unit.decide.checks import KINDS, LONG_AGO, a_check, plan_of, started, status_of, the_cluster

OPENSHIFT = KINDS | {
    CLUSTER_VERSION: Served("versions", namespaced=False),
    INFRASTRUCTURE: Served("infrastructures", namespaced=False),
}
NODES = (a_node("n1", ready="Unknown", since=LONG_AGO), a_node("n2"), a_node("n3"))


def with_topology(topology: Any) -> Any:
    item = Unstructured(metadata=Meta(name="cluster"), status={"controlPlaneTopology": topology})
    others = {"infrastructures": {"cluster": item}}
    return plan_of(the_cluster(a_check(), *NODES, kinds=OPENSHIFT, others=others))


@pytest.mark.parametrize("topology", [*SUPPORTED, "", None, 5])
def test_what_is_supported_or_not_said_is_no_obstacle(topology: Any) -> None:
    assert started(with_topology(topology)) == ["n1"]


def test_two_nodes_that_fence_each_other_are_not_fenced_by_us_too() -> None:
    plan = with_topology("DualReplica")
    assert started(plan) == []
    assert status_of(plan).phase == "Disabled"
    assert "Unsupported control plane topology 'DualReplica'" in status_of(plan).reason


def test_nothing_is_begun_on_openshift_before_its_topology_is_known() -> None:
    kinds = {kind: answer for kind, answer in OPENSHIFT.items() if kind != INFRASTRUCTURE}
    assert plan_of(the_cluster(a_check(), *NODES, kinds=kinds)).actions == ()

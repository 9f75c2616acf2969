"""Which NodeIncidents are those of power cycles, and which only tell of what others do."""

import pytest

from defib.model.cluster import Cluster
from defib.model.incident import INCIDENTS, NAME_MAX, Cause, IncidentSpec, NodeIncident, account_name, is_object_name
from defib.model.meta import Meta
from tests.builders import T0

UID = "1a2b3c4d-5e6f-4000-8000-123456789abc"


def an_incident(name: str, node: str, uid: str = UID) -> NodeIncident:
    return NodeIncident(metadata=Meta(name=name), spec=IncidentSpec(node=node, cause=Cause(uid=uid)))


def test_an_account_is_named_after_its_node_and_its_remediation() -> None:
    assert account_name("worker-7", UID) == "worker-7.1a2b3c4d"
    assert an_incident("worker-7.1a2b3c4d", "worker-7").is_account


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("worker-7", "worker-7"),
        ("machine.metal3.rack-1-7", ""),  # of a machine that never became a node
        ("worker-7.other", "worker-7"),  # by whoever's hand
    ],
)
def test_all_others_are_those_of_power_cycles(name: str, node: str) -> None:
    assert not an_incident(name, node).is_account


def test_a_long_name_is_cut_so_that_it_stays_one() -> None:
    node = f"{'n' * (NAME_MAX - 10)}-.{'n' * 8}"
    name = account_name(node, UID)
    assert name == f"{'n' * (NAME_MAX - 10)}.1a2b3c4d"
    assert is_object_name(name)
    assert an_incident(name, node).is_account


@pytest.mark.parametrize("name", ["", "-a", "a-", "a..b", ".a", "A", "a b", "a/b", "a_b", "n1\n", "a" * (NAME_MAX + 1)])
def test_what_no_object_can_be_called(name: str) -> None:
    assert not is_object_name(name)


@pytest.mark.parametrize("name", ["a", "0", "worker-7", "ip-10-0-0-1.eu-west-1.compute.internal", "a" * NAME_MAX])
def test_what_an_object_can_be_called(name: str) -> None:
    assert is_object_name(name)


def test_the_longest_name_of_a_node_leaves_room_for_the_remediation() -> None:
    node = "n" * NAME_MAX
    name = account_name(node, UID)
    assert len(name) == NAME_MAX
    assert name.endswith(".1a2b3c4d")
    assert an_incident(name, node).is_account


def test_a_node_whose_name_looks_like_that_of_an_account_can_be_power_cycled() -> None:
    node = "n" * (NAME_MAX - 9) + ".1a2b3c4d"
    assert account_name(node, UID) == node
    assert not an_incident(node, node).is_account


def test_a_cluster_keeps_the_two_sorts_apart() -> None:
    power_cycle, account = an_incident("n1", "n1"), an_incident("n1.1a2b3c4d", "n1")
    both = {one.name: one for one in (power_cycle, account)}
    cluster = Cluster(now=T0, others={INCIDENTS: both})
    assert (cluster.incidents(), cluster.accounts()) == ({"n1": power_cycle}, {"n1.1a2b3c4d": account})


def test_what_has_not_changed_is_known_by_being_the_same() -> None:
    """Others look through all incidents again only when one of them is another, and accounts come by the hundred."""
    both = {one.name: one for one in (an_incident("n1", "n1"), an_incident("n1.1a2b3c4d", "n1"))}
    first, second = (Cluster(now=T0, others={INCIDENTS: both}) for _ in range(2))
    assert first.incidents() is second.incidents()
    assert first.accounts() is second.accounts()
    more = Cluster(now=T0, others={INCIDENTS: both | {"n2.1a2b3c4d": an_incident("n2.1a2b3c4d", "n2")}})
    assert more.incidents() is first.incidents()
    assert more.accounts().keys() == {"n1.1a2b3c4d", "n2.1a2b3c4d"}
    other = Cluster(now=T0, others={INCIDENTS: both | {"n1": an_incident("n1", "n1")}})
    assert other.incidents() is not first.incidents()

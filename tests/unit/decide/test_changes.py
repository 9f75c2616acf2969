"""What a person hears between two looks at the cluster."""

from defib.decide.changes import Change, What, changes
from defib.model.cluster import Blindness, Cluster, Unread
from tests.builders import T0, a_cluster, a_node


def said(before: Cluster, after: Cluster) -> list[str]:
    return [str(change) for change in changes(before, after)]


def test_nothing_is_said_when_nothing_changed() -> None:
    assert said(a_cluster(a_node("n1")), a_cluster(a_node("n1", version=2))) == []


def test_a_node_that_stops_reporting_is_told_with_its_reason() -> None:
    after = a_cluster(a_node("n1", ready="Unknown", version=2))
    assert said(a_cluster(a_node("n1")), after) == ["n1 not ready: Ready is Unknown (NodeStatusUnknown)"]


def test_a_node_that_returns_with_a_new_boot_has_rebooted_and_is_ready() -> None:
    before = a_cluster(a_node("n1", ready="Unknown"))
    after = a_cluster(a_node("n1", ready="True", boot="boot-2", version=2))
    assert said(before, after) == ["n1 rebooted: boot boot-2", "n1 ready"]


def test_a_namesake_with_another_uid_is_a_new_node() -> None:
    after = a_cluster(a_node("n1", uid="another", boot="boot-9", version=2))
    assert changes(a_cluster(a_node("n1")), after) == (Change("n1", What.JOINED),)


def test_a_node_that_joins_unready_says_both() -> None:
    after = a_cluster(a_node("n1", ready="False"))
    assert [change.what for change in changes(a_cluster(), after)] == [What.JOINED, What.NOT_READY]


def test_nodes_that_leave_and_cordons_are_told_in_order_of_name() -> None:
    before = a_cluster(a_node("b"), a_node("a"), a_node("c", cordoned=True))
    after = a_cluster(a_node("a", cordoned=True, version=2), a_node("c", version=2))
    assert said(before, after) == ["a cordoned", "b left", "c uncordoned"]


def test_losing_sight_and_seeing_again_come_first() -> None:
    blind = a_cluster(a_node("n1"), blind=(Blindness("nodes", T0, "connection refused"),))
    assert said(a_cluster(), blind) == ["nodes out of sight: connection refused", "n1 joined"]
    assert said(blind, a_cluster(a_node("n1"))) == ["nodes in sight"]


def test_an_object_that_cannot_be_read_is_told_once() -> None:
    after = Cluster(now=T0, unread=(Unread("nodes", "n1", "Expected `str`, got `int`"),))
    assert said(a_cluster(), after) == ["nodes n1 cannot be read: Expected `str`, got `int`"]
    assert said(after, after) == []

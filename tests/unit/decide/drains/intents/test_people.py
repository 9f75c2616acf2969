"""Drains by people: with kubectl on a node that is marked, or by Defib on request. A parked node is nobody's drain."""

import pytest

from defib.decide.drains.intent import Intent, cordoned_at, is_cordoned
from defib.decide.drains.intents.defib_mark import waits_for_cordon
from defib.model.drain_policy import Source
from defib.model.node import Taint
from defib.model.node_drain import DRAIN_MARK, WATCH_MARK
from tests.builders import HOUR
from tests.unit.decide.drains.intents.scene import CORDON, CORDONED_AT, a_draining_node, find

OTHER = Taint(key="example.com/gpu", effect="NoSchedule", time_added=CORDONED_AT - HOUR)
SOFT = Taint(key=CORDON.key, effect="PreferNoSchedule", time_added=CORDONED_AT - HOUR)
UNREACHABLE = Taint(key="node.kubernetes.io/unreachable", effect="NoExecute")


def test_dk_01_a_node_that_was_merely_cordoned_is_not_being_drained() -> None:
    assert find(a_draining_node("parked")) is None
    assert find(a_draining_node("open", taints=())) is None


@pytest.mark.parametrize("taints", [(CORDON, OTHER, SOFT), (SOFT, OTHER, CORDON), (UNREACHABLE, CORDON)])
def test_dk_03_cordoned_is_unschedulable_with_its_own_taint_in_whatever_order(taints: tuple[Taint, ...]) -> None:
    node = a_draining_node("a", {WATCH_MARK: "true"}, taints=taints)
    assert is_cordoned(node)
    assert cordoned_at(node) == CORDONED_AT
    assert find(node) is not None


@pytest.mark.parametrize("taints", [(), (OTHER,), (SOFT,), (UNREACHABLE,)])
def test_dk_03_other_taints_do_not_make_a_cordon(taints: tuple[Taint, ...]) -> None:
    node = a_draining_node("a", {WATCH_MARK: "true", DRAIN_MARK: "disk"}, taints=taints, unschedulable=True)
    assert not is_cordoned(node)
    assert find(node) is None


def test_dk_03_the_taint_without_the_field_does_not_make_a_cordon() -> None:
    node = a_draining_node("a", {WATCH_MARK: "true", DRAIN_MARK: "disk"}, unschedulable=False)
    assert not is_cordoned(node)
    assert find(node) is None


def test_a_cordon_of_which_nobody_can_say_when_it_came_is_one() -> None:
    nobody_knows = Taint(key=CORDON.key, effect=CORDON.effect)
    no_zone = Taint(key=CORDON.key, effect=CORDON.effect, time_added=CORDONED_AT.replace(tzinfo=None))
    for taint in (nobody_knows, no_zone):
        node = a_draining_node("a", taints=(taint,), unschedulable=True)
        assert is_cordoned(node)
        assert cordoned_at(node) is None


def test_dk_24_a_cordoned_node_with_the_mark_is_drained_by_kubectl_since_its_cordon() -> None:
    why = "the node is cordoned, and marked with defib.dev/watch-drain"
    for node in (a_draining_node("a", {WATCH_MARK: "true"}), a_draining_node("a", labels={WATCH_MARK: "true"})):
        assert find(node) == Intent(source=Source.KUBECTL, why=why)
        assert cordoned_at(node) == CORDONED_AT


@pytest.mark.parametrize("value", ["false", "", "True", "yes"])
def test_another_value_of_the_mark_is_none(value: str) -> None:
    assert find(a_draining_node("a", {WATCH_MARK: value})) is None


def test_a_mark_without_a_cordon_is_no_drain() -> None:
    assert find(a_draining_node("a", {WATCH_MARK: "true", DRAIN_MARK: "disk"}, taints=())) is None


def test_defib_evicts_from_a_cordoned_node_that_it_was_asked_to_drain() -> None:
    assert find(a_draining_node("a", {DRAIN_MARK: "disk is\nfailing"})) == Intent(
        source=Source.DEFIB, why="Defib was asked to drain the node: disk is failing", evicts=True
    )


@pytest.mark.parametrize("reason", ["", " \n ", "false", "False"])
def test_no_reason_is_no_wish_for_a_drain(reason: str) -> None:
    assert find(a_draining_node("a", {DRAIN_MARK: reason})) is None
    assert waits_for_cordon(a_draining_node("a", {DRAIN_MARK: reason}, taints=())) == ""


def test_whoever_asks_for_a_drain_is_told_that_a_cordon_is_missing() -> None:
    assert waits_for_cordon(a_draining_node("a", {DRAIN_MARK: "disk"}, taints=())) == (
        "it is marked with defib.dev/drain, but is not cordoned; the drain begins when it is: kubectl cordon a"
    )
    assert waits_for_cordon(a_draining_node("a", {DRAIN_MARK: "disk"})) == ""
    assert waits_for_cordon(a_draining_node("a", taints=())) == ""

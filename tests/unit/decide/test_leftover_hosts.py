"""Hosts that dead remediations keep off are let go; while anybody may need the machine off, whichever way, they are not."""

from datetime import timedelta

import pytest

from defib.model import medik8s, power_cycle
from defib.model.incident import Grade, Phase, Proof
from defib.model.meta import Unstructured
from defib.model.metal3 import HOST
from defib.model.node import Node
from defib.model.power import PowerPath
from tests.builders import HOUR, T0, a_node
from tests.leftover_world import (
    AGE,
    STAMP,
    Watch,
    a_host,
    a_power_cycle,
    a_tainted_node,
    an_incident,
    change,
    wait,
)

TAINT = "take our taint off n1"
LET_GO = "let BareMetalHost metal/h1 go"


def hosted(*, kept_for: str = "") -> Watch:
    watch = Watch(a_node("n1"))
    watch.put(HOST, a_host(kept_for=kept_for))
    return watch


def test_a_host_that_an_open_incident_is_about_stays_off() -> None:
    watch = hosted()
    watch.incidents(an_incident(address="metal/h1"))
    assert wait(watch, HOUR) == []
    watch.incidents(an_incident(address="metal/h2"))
    watch.look(2 * HOUR)
    assert watch.collected(2 * HOUR + AGE) == [LET_GO]


def on_host(name: str) -> Node:
    node = a_node(name)
    return change(node, spec=change(node.spec, provider_id="metal3://metal/h1/x"))


@pytest.mark.parametrize(("kept_for", "told"), [("", "worker-7"), ("n1", "n1")])
def test_a_host_that_is_let_go_is_named_with_the_node_that_is_behind_it(kept_for: str, told: str) -> None:
    watch = hosted(kept_for=kept_for)
    watch.nodes = {"worker-7": on_host("worker-7")}
    wait(watch, AGE)
    assert [getattr(action, "node", "") for action in watch.last.actions] == [told]


BY_HAND = PowerPath(driver="manual")
BY_BMC = PowerPath(driver="redfish", address="https://10.0.0.1")


@pytest.mark.parametrize("way", [BY_HAND, BY_BMC, None])
@pytest.mark.parametrize("kept_for", ["n1", ""])
def test_a_host_stays_off_while_its_node_is_freed_by_another_way(way: PowerPath | None, kept_for: str) -> None:
    """Whoever frees workloads on the word that a machine is off must not have it powered on by us."""
    watch = hosted(kept_for=kept_for)
    watch.incidents(an_incident("n1", Phase.FREEING, way=way))
    assert wait(watch, HOUR) == [], "by its mark; and without one, the host may be anybody's"
    watch.nodes = {"n1": on_host("n1")}
    assert watch.collected(2 * HOUR) == []


ON_AGAIN = (Phase.POWERING_ON, Phase.RETURNING, Phase.RESTORING, Phase.CANCELLING)


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.CLOSED])
def test_once_a_machine_should_be_on_again_its_host_is_let_go_whoever_switched_it(phase: Phase) -> None:
    watch = hosted(kept_for="n1")
    watch.incidents(an_incident("n1", phase, way=BY_BMC))
    assert bool(wait(watch, AGE)) is (phase in ON_AGAIN)


def test_a_machine_that_a_person_has_to_see_after_stays_off_until_its_workloads_are_free() -> None:
    watch = hosted(kept_for="n1")
    proof = Proof(grade=Grade.PERSON, at=T0, how="ann says so")
    for known, is_let_go in ((None, False), (proof, True)):
        waiting = an_incident("n1", Phase.NEEDS_PERSON, way=BY_HAND)
        watch.incidents(change(waiting, status=change(waiting.status, proof=known)))
        start = HOUR if is_let_go else timedelta()
        watch.look(start)
        assert bool(watch.collected(start + AGE)) is is_let_go


def test_an_incident_of_another_node_does_not_keep_a_host_off_of_which_it_is_known_whose_it_is() -> None:
    watch = hosted(kept_for="n1")
    watch.incidents(an_incident("n9", Phase.FREEING, way=BY_HAND))
    assert wait(watch, AGE) == [LET_GO]


def ordered(order: Unstructured) -> Watch:
    watch = Watch(on_host("n1"))
    watch.checks("uid-a")
    watch.put(HOST, a_host(kept_for="n1"))
    watch.put(power_cycle.REMEDIATION, order)
    return watch


@pytest.mark.parametrize("driver", ["metal3", "manual"])
def test_a_host_stays_off_while_a_remediation_asks_for_its_node_whichever_way(driver: str) -> None:
    watch = ordered(a_power_cycle(driver=driver))
    assert wait(watch, HOUR) == []
    if driver == "manual":
        watch.incidents(an_incident("n1", Phase.RETURNING, way=BY_HAND))
        watch.look(2 * HOUR)
        assert watch.collected(2 * HOUR + AGE) == [LET_GO], "what has begun knows better than its order"


OVER = [
    a_power_cycle(succeeded="True"),
    a_power_cycle(succeeded="False"),
    a_power_cycle(**{medik8s.TIMED_OUT: STAMP}),
]


@pytest.mark.parametrize("order", OVER)
def test_a_remediation_that_wants_nothing_any_more_keeps_no_host_off_and_no_taint(order: Unstructured) -> None:
    watch = ordered(order)
    watch.nodes = {
        "n1": change(a_tainted_node(), spec=change(a_tainted_node().spec, provider_id="metal3://metal/h1/x"))
    }
    assert wait(watch, AGE) == [TAINT, LET_GO]

"""Which nodes are covered, and when each is tried."""

from itertools import pairwise

import pytest

from defib.decide.fencing.covered import RETRY, turn_of
from defib.decide.fencing.readiness import AT_ONCE, NOTHING, plan_readiness
from defib.decide.plan import NOTHING as NO_PLAN
from defib.decide.rules import Rules
from defib.model.action import CheckPower
from defib.model.cluster import Cluster
from defib.model.incident import Phase
from defib.model.power import PowerPath
from tests.builders import HOUR, MINUTE, SECOND, T0, a_node
from tests.unit.decide.fencing.hall import PAUSE, POWER, Hall, many, refuses, works

# Who is covered


def test_without_the_kind_there_is_nothing_to_do() -> None:
    assert plan_readiness(Cluster(now=T0), Rules(), NO_PLAN) == NOTHING


def test_a_template_covers_the_nodes_of_the_checks_that_use_it_and_of_no_others() -> None:
    hall = Hall("n1", "n2")
    hall.put_node(a_node("w1", labels={"role": "worker"}))
    hall.use("pcr", labels={"role": "worker"})
    hall.wait(5 * SECOND)
    assert hall.last.ready == {"w1": True}
    assert hall.status()["covered"] == 1


def test_a_template_that_two_checks_use_covers_the_nodes_of_both() -> None:
    hall = Hall()
    for role in ("worker", "storage"):
        hall.put_node(a_node(role, labels={"role": role}))
    hall.use("pcr", labels={"role": "worker"})
    hall.use("pcr", check="second", labels={"role": "storage"})
    hall.wait(MINUTE)
    assert hall.last.ready == {"worker": True, "storage": True}


def test_a_template_that_is_one_step_of_two_covers_nodes_too() -> None:
    hall = Hall("n1")
    hall.put_template("second", power=POWER | {"address": "https://{node}.pdu"})
    hall.use("pcr", "second")
    hall.wait(MINUTE)
    assert hall.status("pcr")["covered"] == hall.status("second")["covered"] == 1
    assert {hall.condition("pcr"), hall.condition("second")} == {("True", "AllReady")}


def test_a_template_that_nobody_uses_covers_nothing_and_says_so() -> None:
    hall = Hall("n1")
    hall.checks.clear()
    hall.wait(5 * SECOND)
    assert (hall.status()["covered"], hall.status()["ready"]) == (0, 0)
    assert hall.condition() == ("Unknown", "NotUsed")
    assert hall.last.ready == {}
    assert hall.tries == []


def test_a_check_that_selects_no_node_is_told_from_no_check() -> None:
    hall = Hall("n1")
    hall.use("pcr", labels={"role": "absent"})
    hall.wait(5 * SECOND)
    assert "select no node" in hall.status()["conditions"][0]["message"]
    hall.checks.clear()
    hall.wait(MINUTE)
    assert "no NodeHealthCheck uses this template" in hall.status()["conditions"][0]["message"]


def test_a_node_that_is_gone_is_covered_no_longer() -> None:
    hall = Hall("n1", "n2")
    hall.wait(5 * SECOND)
    hall.nodes = {"n1": hall.nodes["n1"]}
    hall.wait(5 * SECOND)
    assert hall.last.ready == {"n1": True}
    assert (hall.status()["covered"], hall.status()["ready"]) == (1, 1)


def test_a_node_that_leaves_while_the_template_is_edited_is_covered_no_longer() -> None:
    hall = Hall("n1", "n2")
    hall.wait(5 * SECOND)
    hall.nodes = {"n1": hall.nodes["n1"]}
    hall.put_template("pcr", attempts=5)
    hall.wait(MINUTE)
    assert hall.last.ready == {"n1": True}


def test_a_template_that_is_gone_takes_its_nodes_along() -> None:
    hall = Hall("n1")
    hall.wait(5 * SECOND)
    hall.templates = {}
    hall.wait(PAUSE * 2)
    assert (hall.last.ready, hall.last.actions, hall.last.machines) == ({}, (), {})


# When they are tried


def test_a_new_node_is_tried_at_once() -> None:
    hall = Hall("n1")
    hall.wait(MINUTE)
    hall.put_node(a_node("n2"))
    hall.step()
    assert hall.asked == ["n2"]


def test_a_path_that_changes_is_tried_at_once_and_others_are_not() -> None:
    hall = Hall("n1", "n2", power=POWER | {"address": "https://{label:node-restriction.kubernetes.io/bmc}"})
    for name in ("n1", "n2"):
        hall.put_node(a_node(name, labels={"node-restriction.kubernetes.io/bmc": f"{name}.bmc"}))
    hall.wait(MINUTE)
    hall.put_node(a_node("n1", labels={"node-restriction.kubernetes.io/bmc": "moved.bmc"}, version=2))
    (action,) = (action for action in hall.step().actions if isinstance(action, CheckPower))
    assert (action.node, action.path.address) == ("n1", "https://moved.bmc")


def test_a_node_that_changes_in_other_ways_is_not_tried_again() -> None:
    hall = Hall("n1")
    hall.wait(MINUTE)
    hall.put_node(a_node("n1", labels={"new": "label"}, version=2))
    assert hall.step().actions == ()


def test_an_answer_about_an_old_path_is_not_taken_for_the_new_one() -> None:
    hall = Hall("n1")
    hall.bmcs["n1"] = None
    hall.step()
    (action,) = (action for action in hall.last.actions if isinstance(action, CheckPower))
    hall.put_template("pcr", power=POWER | {"address": "https://{node}.new"})
    hall.fences["n1"] = works(action, hall.now)
    hall.now += SECOND
    hall.step()
    assert hall.asked == ["n1"]
    assert hall.last.ready == {}


def test_what_was_known_before_it_was_asked_is_no_answer() -> None:
    hall = Hall("n1")
    hall.wait(MINUTE)
    hall.bmcs["n1"] = None
    hall.wait(PAUSE * 2)
    assert hall.asked == ["n1"]


def test_each_node_is_tried_once_per_pause_at_a_moment_of_its_own() -> None:
    hall = many(200)
    hall.wait(HOUR * 2)
    for name in hall.nodes:
        first, *later = hall.tried(name)
        assert first - T0 < MINUTE
        assert PAUSE / 2 <= later[0] - first <= PAUSE * 1.5 + 2 * SECOND
        assert all(abs((after - before) - PAUSE) < 3 * SECOND for before, after in pairwise(later))


def test_the_moments_are_spread_evenly() -> None:
    turns = [turn_of(f"node-{number}", T0, PAUSE) for number in range(5000)]
    minutes = [
        sum(1 for turn in turns if T0 + PAUSE / 2 + MINUTE * n < turn <= T0 + PAUSE / 2 + MINUTE * (n + 1))
        for n in range(10)
    ]
    assert sum(minutes) >= 4990
    assert all(400 < count < 600 for count in minutes)


def test_never_more_than_so_many_are_tried_at_once_and_all_have_their_turn() -> None:
    hall = many(100)
    hall.wait(MINUTE)
    assert hall.most == AT_ONCE
    assert len(hall.last.ready) == 100


def test_bmcs_that_never_answer_leave_places_to_nobody_but_hold_no_more_than_theirs() -> None:
    hall = many(40)
    hall.bmcs = dict.fromkeys([f"n{number:04}" for number in range(10)])
    hall.wait(MINUTE)
    assert len(hall.last.ready) == 30
    assert sorted(hall.asked) == [f"n{number:04}" for number in range(10)]


def test_a_failed_try_is_repeated_sooner_and_less_often_each_time() -> None:
    hall = Hall("n1")
    hall.bmcs["n1"] = refuses
    hall.wait(HOUR)
    gaps = [after - before for before, after in pairwise(hall.tried("n1"))]
    assert all(abs(gap - RETRY * 2**turn) < 2 * SECOND for turn, gap in enumerate(gaps[:5]))
    assert all(gap <= PAUSE * 1.5 + 2 * SECOND for gap in gaps)
    assert abs(gaps[-1] - PAUSE) < 3 * SECOND


def test_a_machine_that_is_being_switched_is_not_tried_and_keeps_what_was_said_of_it() -> None:
    hall = Hall("n1", "n2")
    hall.wait(MINUTE)
    hall.put_incident("n1", Phase.POWERING_OFF)
    count = len(hall.tried("n1"))
    hall.wait(HOUR)
    assert len(hall.tried("n1")) == count
    assert len(hall.tried("n2")) > count
    assert hall.last.ready == {"n1": True, "n2": True}
    hall.put_incident("n1", Phase.CLOSED)
    hall.wait(MINUTE)
    assert len(hall.tried("n1")) == count + 1


def test_a_try_that_is_under_way_is_given_up_when_the_machine_is_switched() -> None:
    hall = Hall("n1")
    hall.bmcs["n1"] = None
    hall.step()
    hall.put_incident("n1", Phase.LOOKING)
    hall.now += SECOND
    hall.step()
    assert hall.asked == []


def test_an_incident_in_which_nothing_has_begun_does_not_stop_the_tries() -> None:
    hall = Hall("n1")
    hall.put_incident("n1", Phase.OPEN)
    hall.step()
    assert hall.asked == ["n1"]


def test_when_there_is_nothing_to_try_any_more_nobody_waits_for_the_next_try() -> None:
    hall = Hall("n1")
    assert hall.wait(MINUTE).checked_at is not None
    hall.put_template("pcr", power={"driver": "manual"})
    assert hall.wait(PAUSE * 2).checked_at is None


@pytest.mark.parametrize("order", [("pcr", "second"), ("second", "pcr")])
def test_two_ways_to_one_machine_are_tried_one_after_the_other(order: tuple[str, str]) -> None:
    hall = Hall("n1")
    templates = {"pcr": POWER, "second": POWER | {"address": "https://{node}.pdu"}}
    hall.templates = {}
    for name in order:
        hall.put_template(name, power=templates[name])
    hall.use("pcr", "second")
    hall.bmcs["n1"] = lambda action, at: (refuses if "pdu" in action.path.address else works)(action, at)
    hall.wait(MINUTE)
    assert hall.most == 1
    assert hall.not_ready("pcr") == {}
    assert set(hall.not_ready("second")) == {"n1"}
    assert hall.last.ready == {"n1": False}


# What is remembered


def test_an_unchanged_pass_shares_what_it_knew_and_changes_nothing() -> None:
    hall = many(50)
    hall.wait(MINUTE)
    before, again = hall.last, hall.step()
    assert again.ready is before.ready
    assert again.machines is before.machines
    assert again.queue is before.queue
    assert (
        again.coverages["PowerCycleRemediationTemplate ns/pcr"]
        is before.coverages["PowerCycleRemediationTemplate ns/pcr"]
    )


def test_a_plan_from_scratch_sees_the_same_as_one_that_remembers() -> None:
    hall = Hall("n1", "n2", "n3", power=POWER | {"nodes": {"n3": {"address": "https://n2.bmc"}}})
    hall.wait(MINUTE)
    fresh = plan_readiness(hall.look(), Rules(fence_check_pause=PAUSE), hall.plan)
    known = hall.last
    assert fresh.machines == known.machines
    assert (
        fresh.coverages["PowerCycleRemediationTemplate ns/pcr"].covered.keys()
        == known.coverages["PowerCycleRemediationTemplate ns/pcr"].covered.keys()
    )
    assert {name for name, ready in fresh.ready.items() if not ready} == {"n2", "n3"}


def test_the_way_that_is_tried_is_the_one_that_a_remediation_would_use() -> None:
    hall = Hall("n1")
    hall.step()
    (action,) = (action for action in hall.last.actions if isinstance(action, CheckPower))
    assert action.path == PowerPath(driver="redfish", address="https://n1.bmc", secret="ns/bmc-n1", options={})

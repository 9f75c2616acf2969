"""Every node has a verdict and gates, whoever asks about it."""

from datetime import timedelta

import msgspec

from defib.decide.explain import explain, lock_of, remediations_of
from defib.model.cluster import Cluster, Served
from defib.model.health_check import NodeHealthCheck
from defib.model.meta import Meta, Unstructured
from defib.model.node import Condition
from defib.model.verdict import State, Verdict
from tests.builders import HOUR, T0, a_node
from tests.unit.decide.checks import KINDS, LONG_AGO, a_check, a_lock, a_remediation, plan_of, the_cluster

WELL = [a_node(f"n{number}", since=LONG_AGO) for number in (2, 3, 4)]
ILL = a_node("n1", ready="Unknown", since=LONG_AGO)


def verdicts(cluster: Cluster, node: str = "n1") -> tuple[Verdict, ...]:
    return explain(node, cluster, plan_of(cluster))


def verdict(cluster: Cluster, node: str = "n1") -> Verdict:
    (one,) = verdicts(cluster, node)
    return one


def open_gates(one: Verdict) -> list[str]:
    return [gate.name for gate in one.gates if gate.is_open]


def test_a_healthy_node_has_a_verdict_and_the_gates_of_its_check() -> None:
    one = verdict(the_cluster(a_check(), ILL, *WELL), "n2")
    assert (one.state, one.reason, one.since) == (State.HEALTHY, "Healthy", LONG_AGO)
    assert one.check == "workers"
    assert open_gates(one) == [
        "Disabled",
        "BeingDeleted",
        "Brake",
        "Paused",
        "Mode",
        "SelfDoubt",
        "Threshold",
        "Storm",
        "Upgrade",
    ]


def test_a_healthy_node_shows_what_would_hold_it_back() -> None:
    one = verdict(the_cluster(a_check(), *WELL, config={"defib-brake": {"reason": "storage"}}), "n2")
    assert one.state is State.HEALTHY
    assert [gate.message for gate in one.gates if not gate.is_open] == ["the brake is on: storage"]


def test_an_unhealthy_node_has_the_verdict_of_the_plan() -> None:
    cluster = the_cluster(a_check(mode="Approve"), ILL, *WELL)
    plan = plan_of(cluster)
    assert explain("n1", cluster, plan) == (plan.checks["workers"].verdicts["n1"],)
    assert verdict(cluster).reason == "Approval"


def test_a_node_whose_gates_nobody_asked_has_those_of_its_check() -> None:
    suspect = a_node("n1", ready="Unknown", since=T0 - timedelta(minutes=1))
    remediated = the_cluster(a_check(), ILL, *WELL, foos=[a_remediation("n1")])
    recovered = the_cluster(a_check(), *WELL, foos=[a_remediation("n2")])
    states = {}
    for cluster, node in ((the_cluster(a_check(), suspect, *WELL), "n1"), (remediated, "n1"), (recovered, "n2")):
        one = verdict(cluster, node)
        states[one.state] = len(one.gates)
    assert states == {State.SUSPECT: 9, State.REMEDIATING: 9, State.RECOVERING: 9}


def test_a_node_has_one_verdict_for_every_check_that_selects_it() -> None:
    other = a_check("zone", selector={"matchLabels": {"zone": "b"}})
    cluster = the_cluster([a_check(mode="Observe"), a_check("also"), other], ILL, *WELL)
    assert [(one.check, one.reason) for one in verdicts(cluster)] == [("also", "Starting"), ("workers", "ModeObserve")]


def test_a_node_that_no_check_selects_is_told_so() -> None:
    cluster = the_cluster(a_check(selector={"matchLabels": {"zone": "b"}}), *WELL)
    one = verdict(cluster, "n2")
    assert (one.state, one.reason, one.message) == (
        State.UNSEEN,
        "NotSelected",
        "no NodeHealthCheck selects the node",
    )
    assert verdict(the_cluster([], *WELL), "n2").message == "the cluster has no NodeHealthCheck"


def test_a_check_that_makes_no_sense_is_named_for_every_node() -> None:
    broken = a_check("broken", maxUnhealthy="many")
    known, unseen = verdicts(the_cluster([broken, a_check()], ILL, *WELL))[::-1]
    assert known.reason == "Starting"
    assert (unseen.check, unseen.state, unseen.reason) == ("broken", State.UNSEEN, "InvalidSpecification")
    assert "maxUnhealthy" in unseen.gates[0].message
    alone = verdicts(the_cluster(broken, *WELL), "n2")
    assert [one.reason for one in alone] == ["InvalidSpecification", "NotSelected"]


def test_a_node_that_is_not_there_has_no_verdict_unless_something_is_left_of_it() -> None:
    broken = a_check("broken", maxUnhealthy="many")
    assert verdicts(the_cluster([a_check(), broken], *WELL), "n9") == ()
    one = verdict(the_cluster([a_check(), broken], *WELL, foos=[a_remediation("n9")]), "n9")
    assert (one.state, one.reason) == (State.RECOVERING, "NodeGone")


def test_an_ill_node_is_never_called_healthy_because_kinds_are_still_looked_for() -> None:
    suspect = a_node("n5", ready="False", since=T0 - timedelta(minutes=1))
    cluster = the_cluster(a_check(), ILL, suspect, *WELL, kinds={})
    states = {node: (verdict(cluster, node).state, verdict(cluster, node).reason) for node in ("n1", "n2", "n5")}
    assert states == {
        "n1": (State.UNHEALTHY, "LookingForTemplates"),
        "n2": (State.HEALTHY, "Healthy"),
        "n5": (State.SUSPECT, "LookingForTemplates"),
    }
    assert [gate.name for gate in verdict(cluster, "n1").gates] == ["Disabled"]


def test_a_terminating_node_that_another_looks_after_is_not_called_healthy() -> None:
    from defib.decide.machine_checks import MACHINE_HEALTH_CHECK

    terminating = Condition(type="Terminating", status="True", last_transition_time=T0 - HOUR)
    status = msgspec.structs.replace(ILL.status, conditions=[*(ILL.status.conditions or ()), terminating])
    node = msgspec.structs.replace(ILL, status=status)
    theirs = Unstructured(
        metadata=Meta(name="mhc", namespace="ns"), spec={"unhealthyConditions": [{"type": "Terminating"}]}
    )
    cluster = the_cluster(
        a_check(),
        node,
        *WELL,
        kinds={**KINDS, MACHINE_HEALTH_CHECK: Served("mhcs", namespaced=True)},
        others={"mhcs": {"ns/mhc": theirs}},
    )
    one = verdict(cluster)
    assert (one.state, one.reason) == (State.UNHEALTHY, "LeftToMachineHealthCheck")


def test_remediations_are_found_whoever_made_them() -> None:
    foos = [a_remediation("n1"), a_remediation("n1", name="by-hand", check=""), a_remediation("n2")]
    cluster = the_cluster(a_check(), ILL, *WELL, foos=foos)
    found = remediations_of("n1", cluster, plan_of(cluster))
    assert [(one.name, one.owner) for one in found] == [("by-hand", ""), ("n1", "workers")]


def test_the_lock_of_a_node_is_found() -> None:
    cluster = the_cluster(a_check(), ILL, locks=[a_lock("n1", "somebody"), a_lock("n2", "else")])
    lock = lock_of("n1", cluster)
    assert lock is not None
    assert lock.spec.holder_identity == "somebody"
    assert lock_of("n3", cluster) is None


def test_explaining_changes_nothing_that_is_decided() -> None:
    checks: list[NodeHealthCheck] = [a_check(), a_check("also", mode="Approve")]
    cluster = the_cluster(checks, ILL, *WELL)
    plan = plan_of(cluster)
    before = plan.actions
    explain("n1", cluster, plan)
    assert plan_of(cluster).actions == before == plan.actions

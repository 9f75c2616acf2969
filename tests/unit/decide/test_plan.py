"""The plan as a whole: everybody has a turn, nobody holds up another, and it wakes when time alone changes something."""

from datetime import timedelta

import msgspec
import pytest

from defib.decide.machine_checks import MACHINE_HEALTH_CHECK
from defib.decide.plan import NOTHING, decide
from defib.decide.quorum import CLUSTER_VERSION
from defib.decide.rules import Rules
from defib.decide.wanted import wanted_kinds
from defib.model import medik8s
from defib.model.cluster import Missing, Served
from defib.model.verdict import State
from tests.builders import HOUR, MINUTE, SECOND, T0, a_node
from tests.unit.decide.checks import (
    BAR,
    BAR_TEMPLATE,
    FOO,
    FOO_TEMPLATE,
    KINDS,
    a_check,
    a_ladder,
    a_remediation,
    healthy,
    ill,
    node_of,
    plan_of,
    started,
    template_ref,
    the_cluster,
)
from tests.unit.decide.world import World


def test_without_checks_there_is_nothing_to_do() -> None:
    plan = plan_of(the_cluster([], ill("n1"), *healthy(2)))
    assert plan == NOTHING


def test_a_quiet_cluster_is_left_alone() -> None:
    world = World(a_check(), healthy(3))
    world.settle()
    world.now += HOUR
    plan = world.decide()
    assert (plan.actions, plan.wake_at) == ((), None)


def test_checks_with_different_templates_work_side_by_side() -> None:
    checks = [
        a_check("a", selector={"matchLabels": {"pool": "a"}}),
        a_check("b", selector={"matchLabels": {"pool": "b"}}, remediationTemplate=template_ref("bar", BAR_TEMPLATE)),
    ]
    nodes = [ill(f"{pool}1", labels={"pool": pool}) for pool in "ab"]
    more = [a_node(f"{pool}{place}", labels={"pool": pool}) for pool in "ab" for place in (2, 3)]
    assert started(plan_of(the_cluster(checks, *nodes, *more))) == ["a1", "b1"]


def test_one_check_whose_template_is_missing_holds_up_no_other() -> None:
    checks = [a_check("a", remediationTemplate=template_ref("missing")), a_check("b")]
    plan = plan_of(the_cluster(checks, ill("n1"), *healthy(2)))
    assert started(plan) == ["n1"]


def test_a_plan_says_what_it_thinks_of_each_node_that_gives_reason_to() -> None:
    nodes = [
        ill("start"),
        ill("at-work"),
        ill("soon", since=T0 - MINUTE),
        ill("out", labels={medik8s.EXCLUDED: "true"}),
    ]
    foos = [a_remediation("at-work"), a_remediation("w1")]
    plan = plan_of(the_cluster(a_check(maxUnhealthy="100%"), *nodes, *healthy(5), foos=foos))
    verdicts = plan.checks["workers"].verdicts
    assert {name: verdict.state for name, verdict in verdicts.items()} == {
        "start": State.REMEDIATING,
        "at-work": State.REMEDIATING,
        "soon": State.SUSPECT,
        "out": State.UNHEALTHY,
        "w1": State.RECOVERING,
    }
    assert all(verdict.message and verdict.reason for verdict in verdicts.values())


def test_the_kinds_of_all_checks_are_wanted_and_what_guards_etcd_where_there_is_one() -> None:
    plan = plan_of(the_cluster([a_check(), a_check("bad", minHealthy="x")], *healthy(1)))
    wanted = wanted_kinds(plan, the_cluster(a_check()), Rules())
    assert {FOO, FOO_TEMPLATE} <= wanted.keys()
    assert not {BAR, BAR_TEMPLATE} & wanted.keys()
    openshift = KINDS | {
        kind: Served("x", namespaced=False) for kind, what in KINDS.items() if isinstance(what, Missing)
    }
    more = wanted_kinds(plan, the_cluster(a_check(), kinds=openshift), Rules())
    assert {kind.name for kind in more.keys() - wanted.keys()} == {"PodDisruptionBudget", "Pod", "Infrastructure"}


def test_nothing_is_wanted_while_there_are_no_checks() -> None:
    assert wanted_kinds(NOTHING, the_cluster([]), Rules()) == {}


@pytest.mark.parametrize("kind", [CLUSTER_VERSION, MACHINE_HEALTH_CHECK], ids=str)
def test_nothing_is_begun_before_it_is_known_whether_this_is_an_openshift(kind: object) -> None:
    kinds = {known: what for known, what in KINDS.items() if known != kind}
    assert plan_of(the_cluster(a_check(), ill("n1"), *healthy(2), kinds=kinds)).actions == ()


# Waking

INSTANT = timedelta(milliseconds=1)


def test_a_plan_wakes_for_the_first_of_all_moments() -> None:
    checks = [
        a_check("a", selector={"matchLabels": {"pool": "a"}}),
        a_check("b", selector={"matchLabels": {"pool": "b"}}),
    ]
    nodes = [ill("a1", since=T0 - MINUTE, labels={"pool": "a"}), ill("b1", since=T0 - 2 * MINUTE, labels={"pool": "b"})]
    assert plan_of(the_cluster(checks, *nodes)).wake_at == T0 + 3 * MINUTE + INSTANT


def test_a_node_that_is_held_back_does_not_hide_the_moment_of_another() -> None:
    """In the Go operator, a node without a timer of its own could wipe out the timer of all others."""
    nodes = [ill("n1", labels={medik8s.EXCLUDED: "true"}), ill("soon", since=T0 - MINUTE), *healthy(3)]
    assert plan_of(the_cluster(a_check(), *nodes)).wake_at == T0 + 4 * MINUTE + INSTANT


def test_a_plan_wakes_when_the_time_of_a_step_is_over() -> None:
    world = World(a_check(escalatingRemediations=a_ladder(("foo", "60s"), ("bar", "60s", BAR_TEMPLATE))), healthy(3))
    world.put(ill("n1"))
    assert world.settle().wake_at == T0 + MINUTE  # when the lock is due; and a moment later the step
    world.now = T0 + MINUTE
    assert world.settle().wake_at == T0 + MINUTE + INSTANT


def test_what_nobody_can_hurry_wakes_nobody() -> None:
    nodes = [ill("n1", labels={medik8s.EXCLUDED: "true"}), *healthy(3)]
    assert plan_of(the_cluster(a_check(), *nodes)).wake_at is None


# The plan before


def test_a_plan_made_with_the_one_before_is_the_same() -> None:
    cluster = the_cluster(a_check(), ill("n1"), *healthy(3), foos=[a_remediation("w1")])
    before = plan_of(cluster)
    nodes = {**cluster.nodes, "w2": ill("w2")}
    later = msgspec.structs.replace(cluster, nodes=nodes, now=T0 + SECOND)
    assert decide(later, Rules(), before) == decide(later, Rules())


def test_a_check_that_is_edited_is_read_again() -> None:
    cluster = the_cluster(a_check(), ill("n1"), *healthy(3))
    before = plan_of(cluster)
    edited = the_cluster(a_check(pauseRequests=["stop"]), *cluster.nodes.values())
    assert node_of(decide(edited, Rules(), before), "n1").reason == "Paused"

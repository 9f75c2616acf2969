"""I14: a guard holds back what would be begun, and nothing else. Whatever else was to be done is done all the same."""

from collections.abc import Callable

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from defib.decide.plan import Plan, decide
from defib.model import medik8s
from defib.model.action import Action, HoldLock, MarkRemediation, ReleaseLock, StartRemediation, TellEvent, WriteStatus
from defib.model.cluster import Blindness, Cluster
from defib.model.config_map import ConfigMap
from defib.model.health_check import NodeHealthCheck
from defib.model.meta import Meta, Resource
from tests.builders import T0
from tests.property.worlds import ANY_DEEDS, Deed, live, worlds
from tests.unit.decide.world import World

change = msgspec.structs.replace


def edited(cluster: Cluster, **fields: object) -> Cluster:
    """The same look, with every check edited."""
    checks: dict[str, Resource] = {}
    for name, item in cluster.others[medik8s.CHECKS].items():
        assert isinstance(item, NodeHealthCheck)
        kept = {key: value for key, value in item.spec.items() if key not in ("minHealthy", "maxUnhealthy")}
        spec = (kept if "minHealthy" in fields else item.spec) | fields
        checks[name] = change(item, spec=spec)
    return change(cluster, others={**cluster.others, medik8s.CHECKS: checks})


def braked(cluster: Cluster) -> Cluster:
    brake = ConfigMap(metadata=Meta(name="defib-brake", namespace="defib-system"))
    return change(cluster, others={**cluster.others, "configmaps": {brake.key: brake}})


def paused(cluster: Cluster) -> Cluster:
    return edited(cluster, pauseRequests=["stop"])


def below_the_threshold(cluster: Cluster) -> Cluster:
    return edited(cluster, minHealthy="100%")


def without_a_place(cluster: Cluster) -> Cluster:
    return edited(cluster, guards={"maxInFlight": 0})


def doubting(cluster: Cluster) -> Cluster:
    return change(cluster, doubts=("most answers were failures",))


def blind(cluster: Cluster) -> Cluster:
    return change(cluster, blind=(Blindness("nodes", T0, "connection refused"),))


def without_templates(cluster: Cluster) -> Cluster:
    return change(cluster, others={**cluster.others, "footemplates": {}, "bartemplates": {}})


def asking_a_person(cluster: Cluster) -> Cluster:
    return edited(cluster, mode="Approve")


def excluding(cluster: Cluster) -> Cluster:
    nodes = {
        name: change(node, metadata=change(node.metadata, labels=node.labels | {medik8s.EXCLUDED: "true"}))
        for name, node in cluster.nodes.items()
    }
    return change(cluster, nodes=nodes)


GUARDS: list[Callable[[Cluster], Cluster]] = [
    braked,
    paused,
    below_the_threshold,
    without_a_place,
    doubting,
    blind,
    without_templates,
    asking_a_person,
    excluding,
]


def node_of(action: MarkRemediation | HoldLock | ReleaseLock) -> str:
    return action.claim.node if isinstance(action, HoldLock) else action.node


def begun(plan: Plan) -> set[tuple[str, str]]:
    return {(one.check, one.node) for one in plan.actions if isinstance(one, StartRemediation)}


def given_up(plan: Plan) -> set[str]:
    return {node for one in plan.checks.values() for node, said in one.verdicts.items() if said.reason == "TimedOut"}


def the_rest(plan: Plan, begun_otherwise: Plan, in_doubt: frozenset[str]) -> set[str]:
    """Everything that is not a beginning and not a word. To begin is also to hold the lock, so that is left out.

    Of nodes `in_doubt` nobody can say whether their time is up: those are neither marked, nor do their locks change.
    """
    talk: tuple[type[Action], ...] = (StartRemediation, WriteStatus, TellEvent)
    locked = {node for one in (plan, begun_otherwise) for _, node in begun(one)}
    return {
        repr(action)
        for action in plan.actions
        if not isinstance(action, talk)
        and not (isinstance(action, HoldLock) and action.claim.node in locked)
        and not (isinstance(action, MarkRemediation | HoldLock | ReleaseLock) and node_of(action) in in_doubt)
    }


@settings(max_examples=100, deadline=None)
@given(world=worlds(), happenings=ANY_DEEDS, guard=st.sampled_from(GUARDS))
def test_a_guard_changes_nothing_but_what_is_begun(
    world: World, happenings: list[Deed], guard: Callable[[Cluster], Cluster]
) -> None:
    for moment in live(world, happenings):
        observes = [one for one in world.checks.values() if one.spec.get("mode") == "Observe"]
        if observes and guard is asking_a_person:
            continue  # such a check would do more, not less
        guarded = decide(guard(moment.cluster), world.rules)
        in_doubt = frozenset(given_up(moment.plan) if guard in (doubting, blind) else ())
        assert the_rest(guarded, moment.plan, in_doubt) == the_rest(moment.plan, guarded, in_doubt)
        assert begun(guarded) <= begun(moment.plan) or guard in (below_the_threshold, without_a_place)


@settings(max_examples=40, deadline=None)
@given(world=worlds(), happenings=ANY_DEEDS, guard=st.sampled_from([braked, paused, doubting, blind, excluding]))
def test_a_guard_of_the_first_kind_holds_back_everything_new(
    world: World, happenings: list[Deed], guard: Callable[[Cluster], Cluster]
) -> None:
    for moment in live(world, happenings):
        assert begun(decide(guard(moment.cluster), world.rules)) == set()


@settings(max_examples=40, deadline=None)
@given(world=worlds(), happenings=ANY_DEEDS, guard=st.sampled_from([below_the_threshold, without_a_place]))
def test_a_guard_of_the_second_kind_lets_nodes_go_on_that_are_in_flight(
    world: World, happenings: list[Deed], guard: Callable[[Cluster], Cluster]
) -> None:
    for moment in live(world, happenings):
        before = begun(moment.plan)
        in_flight = {(check, node) for check, node in before if node in world.in_flight(check)}
        assert in_flight <= begun(decide(guard(moment.cluster), world.rules))

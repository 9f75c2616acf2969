"""I1, I3, I11, I12 of pod failover: nothing runs twice, few nodes at a time, all that may leave does, and it is told."""

from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

import msgspec
from hypothesis import given, settings

from defib.decide.failover.plan import NOTHING
from defib.decide.failover.pods import ClaimFacts, sort_pods
from defib.decide.failover.reading import read_policy, read_wish
from defib.decide.rules import FailoverRules
from defib.model.action import MovePod, ReadClaim
from defib.model.amount import Amount
from defib.model.cluster import Cluster
from defib.model.failover_policy import FailedNode, Policy, State, read_policy_status
from defib.model.meta import Unstructured
from defib.model.pod import Pod
from defib.model.pod_failover import Wish
from tests.property.fleet import GONE, NAMES, TRUE_MODES, Fleet, is_out, labels_of
from tests.property.fleet_histories import (
    BUSY,
    EAGER,
    HISTORIES,
    OF_NODES,
    PLACES,
    SPECS,
    Deed,
    Moment,
    fleets,
    histories,
    live,
)
from tests.unit.decide.failover.failovers import (
    COLLECTION,
    POLICIES,
    moves,
    outcome,
)

change = msgspec.structs.replace

ALL_MODES = {f"{place}/{claim}": modes for place in PLACES for claim, modes in TRUE_MODES.items()}

# As simply as it can be said, and not as it is done.


def must_not_run_twice(pod: Pod, *, is_chosen: bool) -> bool:
    kind = "".join(owner.kind for owner in pod.metadata.owner_references or ())
    if kind == "StatefulSet" or (kind != "ReplicaSet" and not is_chosen):
        return True
    return any(TRUE_MODES[claim] != {"ReadWriteMany"} for claim in pod.claims)


def asked_by(move: MovePod, cluster: Cluster) -> Unstructured:
    kind, _, key = move.because.partition(" ")
    item = cluster.others[POLICIES if kind == "PodFailoverPolicy" else COLLECTION][key]
    assert isinstance(item, Unstructured)
    return item


@settings(max_examples=50, deadline=None)
@given(fleet=fleets(), history=HISTORIES)
def test_what_must_not_run_twice_is_moved_only_where_somebody_said_none(fleet: Fleet, history: list[Deed]) -> None:
    """I1."""
    for moment in live(fleet, history):
        for move in moves(moment.plan):
            item, pod = asked_by(move, moment.cluster), fleet.pods[move.uid]
            is_chosen = item.key in moment.cluster.others[POLICIES]
            assert pod.metadata.owner_references, "nobody would make another one"
            if moment.cluster.nodes[move.node].ready == "True":
                assert_graceful(move, pod)
                assert is_chosen
            elif must_not_run_twice(pod, is_chosen=is_chosen):
                assert (item.spec or {}).get("acceptedProofs") == ["None"]


@settings(max_examples=60, deadline=None)
@given(fleet=fleets(SPECS[4:6]), history=histories(("taint",)))
def test_a_node_that_is_alive_is_never_emptied_by_force(fleet: Fleet, history: list[Deed]) -> None:
    """I1: its kubelet ends each pod in order, if only it is asked."""
    for moment in live(fleet, history):
        for move in moves(moment.plan):
            if moment.cluster.nodes[move.node].ready == "True":
                assert move.taints
                assert_graceful(move, fleet.pods[move.uid])


def assert_graceful(move: MovePod, pod: Pod) -> None:
    own = pod.spec.termination_grace_period_seconds
    assert (own if move.grace_seconds is None else move.grace_seconds) != 0


class Toll:
    """The nodes of which policies have wanted to move a pod, for as long as they have not been well since."""

    def __init__(self) -> None:
        self.touched: dict[str, MovePod] = {}

    def note(self, moment: Moment) -> None:
        nodes = moment.cluster.nodes
        self.touched = {name: move for name, move in self.touched.items() if is_out(nodes[name], move)}
        for action in moment.plan.policies.todo.actions:
            if isinstance(action, MovePod):
                self.touched[action.node] = action


def assert_within_limits(toll: Toll, moment: Moment) -> None:
    assert len(toll.touched) <= moment.fleet.most.of(len(NAMES))
    for check in moment.fleet.checks.values():
        wanted = ((check.spec.get("selector") or {}).get("matchLabels") or {}).get("pool", "")
        selected = [name for name in NAMES if wanted in ("", labels_of(name)["pool"])]
        most = {"100%": len(selected), "51%": 1}.get(
            str(check.spec.get("maxUnhealthy", check.spec.get("minHealthy"))), check.spec.get("maxUnhealthy")
        )
        assert len(toll.touched.keys() & set(selected)) <= int(most or 0)


@settings(max_examples=150, deadline=None)
@given(fleet=fleets(EAGER), history=HISTORIES)
def test_no_more_nodes_are_emptied_at_a_time_than_anybody_allows(fleet: Fleet, history: list[Deed]) -> None:
    """I3: whatever was written in part, late or not at all, whoever crashed, and however policies were edited."""
    toll = Toll()
    for moment in live(fleet, history):
        toll.note(moment)
        assert_within_limits(toll, moment)


@settings(max_examples=40, deadline=None)
@given(fleet=fleets(), history=HISTORIES)
def test_a_plan_does_not_depend_on_the_plan_before_it(fleet: Fleet, history: list[Deed]) -> None:
    """I12: where the pods are in sight, all claims are known, and nobody has written that a node will fail."""
    older = fleet.before
    sane = [deed for deed in history if deed.what != "fail in the future"]
    for place, moment in enumerate(live(fleet, sane)):
        cluster = change(fleet.look(seen=NAMES), underway=moment.cluster.underway, claims=ALL_MODES, failures={})
        fresh = fleet.plan(cluster)
        older = NOTHING if moment.before is NOTHING else older  # no plan outlives its process and its settings
        for before in (moment.before, moment.plan, older):
            again = fleet.plan(cluster, before)
            assert outcome(cluster, again) == outcome(cluster, fresh)
        older = moment.before if place % 3 == 0 else older


# When all faults cease.


def owners_of(pod: Pod, fleet: Fleet) -> tuple[Unstructured, Policy] | None:
    """The policy that decides about a pod."""
    for _, item in sorted(fleet.policies.items()):
        policy = read_policy(item.spec, FailoverRules())
        if item.namespace != pod.namespace or not isinstance(policy, Policy):
            continue
        if policy.wish.selector.selects(pod.labels) and policy.nodes.selects(fleet.nodes[pod.spec.node_name].labels):
            return item, policy
    return None


class Leftover(NamedTuple):
    """A pod on a node that has failed for the policy that decides about it, and what is told of that node."""

    pod: Pod
    is_movable: bool
    is_waiting: bool
    is_kept: bool
    entry: FailedNode | None


def leftovers(fleet: Fleet) -> Iterator[Leftover]:
    for pod in fleet.pods.values():
        decided, node = owners_of(pod, fleet), fleet.nodes[pod.spec.node_name]
        if decided is None or node.ready == "True":
            continue
        item, policy = decided
        ready = node.condition("Ready")
        assert ready is not None
        assert ready.last_transition_time is not None
        at = min(ready.last_transition_time, fleet.before.policies.failing.seen.get(node.name, fleet.now))
        found = sort_pods([pod], policy.wish, failed_at=at, facts=ClaimFacts(claims=ALL_MODES))
        entries = {entry.name: entry for entry in read_policy_status(item).nodes or ()}
        yield Leftover(pod, bool(found.movable), bool(found.waiting), bool(found.left), entries.get(node.name))


def is_done(fleet: Fleet) -> bool:
    """But for claims that are not there, which are looked for all the time."""
    return all(isinstance(action, ReadClaim) and action.name == GONE for action in fleet.decide()[1].actions)


@settings(max_examples=50, deadline=None)
@given(fleet=fleets(), history=HISTORIES)
def test_when_faults_cease_all_that_may_leave_does_and_the_rest_is_explained(fleet: Fleet, history: list[Deed]) -> None:
    """I11."""
    for _ in live(fleet, history):
        pass
    fleet.heal()
    for name in BUSY[3:]:
        fleet.turn(name, "True")
        fleet.taint(name)
    fleet.now += timedelta(minutes=2)
    fleet.settle(20)
    assert is_done(fleet)
    for one in leftovers(fleet):
        assert one.entry is not None or not (one.is_movable or one.is_waiting or one.is_kept), one
        if one.is_movable:
            assert one.entry is not None
            assert (one.entry.state, bool(one.entry.reason)) == (State.HELD, True)
        if one.is_waiting:
            assert one.entry is not None
            assert one.entry.waiting
    fleet.checks, fleet.most = {}, Amount(100, is_percent=True)
    fleet.settle(20)
    assert is_done(fleet)
    assert [one.pod.name for one in leftovers(fleet) if one.is_movable] == []


def test_every_spec_of_these_worlds_is_what_it_is_meant_to_be() -> None:
    for spec in OF_NODES:
        assert isinstance(read_wish(spec), Wish)
    broken = [spec for spec in SPECS if not isinstance(read_policy({"selector": {}} | spec, FailoverRules()), Policy)]
    assert broken == [{"dwell": "soon"}]

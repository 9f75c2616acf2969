"""The numbers that are told of one node, from the first look at its pods to the last, whatever comes between."""

from typing import Any

import pytest

from defib.decide.failover.plan import NOTHING, Failover
from defib.model.cluster import Cluster
from defib.model.failover_policy import FailedNode, State
from defib.model.failure import Failure
from tests.builders import SECOND, T0
from tests.unit.decide.failover.failovers import (
    DAEMON_SET,
    POLICIES,
    STATEFUL_SET,
    a_failed_node,
    a_fleet,
    a_pod,
    a_policy,
    after,
    change,
    entry_of,
    go_on,
    moved,
    plan_of,
    status_of,
)

WEB = [a_pod(f"web-{place}") for place in range(4)]
DOUBT = {"doubts": ("most requests fail",)}


class Story:
    """A cluster, pass by pass, in which pods come and go as the test says."""

    def __init__(self, *pods: Any, **spec: Any) -> None:
        self.cluster: Cluster = a_fleet(a_policy(**spec), pods=pods)
        self.plan: Failover = NOTHING

    def look(self, *pods: Any, **changes: Any) -> FailedNode:
        """These are the pods now; what is decided is written down."""
        self.cluster = change(after(self.cluster, NOTHING, pods=pods), **changes)
        self.plan = plan_of(self.cluster, self.plan)
        self.cluster = after(self.cluster, self.plan)
        entry = entry_of(self.cluster)
        assert entry is not None
        return entry


def numbers(entry: FailedNode) -> tuple[str, int, int, int, int]:
    return entry.state.value, entry.found, entry.moved, entry.waiting, entry.kept


def test_from_the_first_to_the_last() -> None:
    staying = [a_pod("db-0", owner=STATEFUL_SET), a_pod("proxy", owner=DAEMON_SET)]
    story = Story(*WEB, *staying)
    assert numbers(story.look(*WEB, *staying)) == ("Moving", 4, 0, 1, 1)
    assert numbers(story.look(*WEB[1:], *staying)) == ("Moving", 4, 0, 1, 1)
    last = story.look(*staying)
    assert numbers(last) == ("WaitingForProof", 4, 4, 1, 1)
    assert last.message.startswith("4 pods moved; 1 pod that must not run twice waits for a proof of grade A or B")
    assert last.message.endswith("apps/db-0; 1 left in place: 1 of a DaemonSet")
    assert numbers(story.look(staying[1])) == ("Moved", 5, 5, 0, 1)  # whoever had the proof has freed it
    assert status_of(story.cluster).moved == 5


def test_a_hold_on_the_way_loses_no_count() -> None:
    story = Story(*WEB)
    story.look(*WEB)
    held = story.look(*WEB[1:], **DOUBT)
    assert (numbers(held), held.reason) == (("Held", 4, 1, 0, 0), "SelfDoubt")
    assert held.message == "3 pods wait: we do not trust our own sight: most requests fail"
    assert status_of(story.cluster).moved == 1
    assert numbers(story.look(*WEB[1:], doubts=())) == ("Moving", 4, 1, 0, 0)
    assert numbers(story.look()) == ("Moved", 4, 4, 0, 0)
    assert status_of(story.cluster).moved == 4


def test_what_was_held_and_has_gone_by_itself_was_not_moved() -> None:
    story = Story(*WEB)
    assert numbers(story.look(*WEB, **DOUBT)) == ("Held", 4, 0, 0, 0)
    gone = story.look(**DOUBT)
    assert (numbers(gone), gone.begun) == (("Moved", 0, 0, 0, 0), False)


def test_one_that_is_held_alone_is_one() -> None:
    assert Story(WEB[0]).look(WEB[0], **DOUBT).message.startswith("1 pod waits: ")


@pytest.mark.parametrize("is_held", [True, False])
def test_only_what_was_begun_keeps_a_place(is_held: bool) -> None:
    story = Story(*WEB)
    entry = story.look(*WEB, **(DOUBT if is_held else {}))
    assert entry.begun is not is_held
    assert story.look(*WEB, **DOUBT).begun is not is_held, "and stays so when it is held afterwards"


def test_where_only_such_pods_are_as_stay_it_is_told_and_takes_no_place() -> None:
    bare = a_pod("by-hand", owner=None)
    entry = Story(bare).look(bare)
    assert (numbers(entry), entry.begun) == (("Moved", 0, 0, 0, 1), False)
    left = "1 without a controller that would make another one; apps/by-hand would be lost"
    assert entry.message == f"0 pods moved; 1 left in place: {left}"


def test_a_node_without_any_pod_of_the_policy_is_not_its_business() -> None:
    cluster = a_fleet(a_policy(selector={"matchLabels": {"app": "web"}}), pods=WEB)
    assert entry_of(after(cluster, plan_of(cluster))) is None


def test_pods_that_are_selected_later_are_moved_as_well() -> None:
    story = Story(*WEB, selector={"matchLabels": {"app": "web"}})
    labelled = a_pod("web-9", labels={"app": "web"})
    story.look(*WEB, labelled)
    assert numbers(story.look(*WEB)) == ("Moved", 1, 1, 0, 0)
    item: Any = next(iter(story.cluster.others[POLICIES].values()))
    others = {**story.cluster.others, POLICIES: {item.key: change(item, spec={"selector": {}})}}
    story.cluster = change(story.cluster, others=others)
    assert numbers(story.look(*WEB)) == ("Moving", 5, 1, 0, 0)
    assert numbers(story.look()) == ("Moved", 5, 5, 0, 0)


def test_when_a_policy_changes_its_mind_nodes_are_looked_at_again() -> None:
    story = Story(*WEB, exclude={"selector": {}})
    story.look(*WEB)
    story.look(*WEB)
    assert story.plan.nodes == frozenset()
    others: Any = {POLICIES: story.cluster.others[POLICIES]}
    unseen = change(story.cluster, others=others)
    assert plan_of(unseen, story.plan).nodes == frozenset()
    (item,) = others[POLICIES].values()
    edited = change(unseen, others={POLICIES: {item.key: change(item, spec={"selector": {}})}})
    assert plan_of(edited, story.plan).nodes == {"n1"}


def test_a_failure_and_its_end_are_told_and_the_message_is_not_too_long() -> None:
    story = Story(*WEB)
    story.look(*WEB)
    failure = Failure(why="no " * 2000, times=1, again_in=SECOND)
    entry = story.look(*WEB, failures={"move uid-web-1": failure})
    assert (entry.state, len(entry.message)) == (State.FAILING, 1024)
    assert moved(plan_of(story.cluster)) == [pod.name for pod in WEB]
    assert story.look(*WEB, failures={}).state is State.MOVING


def test_a_node_whose_clock_is_ahead_is_one_failure_all_the_while() -> None:
    """What is written is the time that the node says; what counts is that it has not come yet."""
    story = Story(*WEB)
    nodes = {**story.cluster.nodes, "n1": a_failed_node(since=T0 + 30 * SECOND)}
    story.look(*WEB, nodes=nodes)
    for _ in range(3):
        story.look(*WEB)
        assert moved(story.plan) == [pod.name for pod in WEB]
    assert numbers(story.look()) == ("Moved", 4, 4, 0, 0)


def test_what_has_gone_by_itself_while_all_was_held_does_not_count_when_the_rest_is_moved() -> None:
    story = Story(*WEB)
    story.look(*WEB, **DOUBT)
    story.look(*WEB[2:], **DOUBT)
    assert numbers(story.look(*WEB[2:], doubts=())) == ("Moving", 2, 0, 0, 0)
    assert numbers(story.look()) == ("Moved", 2, 2, 0, 0)


def test_pods_that_come_while_others_leave_count_too() -> None:
    story = Story(*WEB)
    story.look(*WEB)
    assert numbers(story.look(*WEB[3:], a_pod("late-1"))) == ("Moving", 5, 0, 0, 0)
    assert numbers(story.look(a_pod("late-2"))) == ("Moving", 6, 0, 0, 0)
    assert numbers(story.look()) == ("Moved", 6, 6, 0, 0)


def test_a_pod_belongs_to_the_next_policy_when_the_first_no_longer_selects_its_node() -> None:
    first = a_policy("a", dwell="1h", nodeSelector={"matchLabels": {"pool": "x"}})
    cluster, plan = go_on(a_fleet([first, a_policy("b")], a_failed_node(labels={"pool": "x"}), pods=WEB), passes=3)
    assert moved(plan) == [], "it still waits"
    other = {**cluster.nodes, "n1": a_failed_node(labels={"pool": "y"})}
    _, plan = go_on(change(cluster, nodes=other), plan, passes=2)
    assert moved(plan) == [pod.name for pod in WEB]

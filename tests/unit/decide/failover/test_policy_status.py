"""What the status of a policy says, what of it is news, and that the API server will take it."""

from typing import Any

import msgspec
import pytest

from defib.decide.failover.policy_status import Known, being_written, left_alone, read_known, report_policy
from defib.decide.failover.reading import read_policy
from defib.decide.rules import FailoverRules
from defib.model.action import ReportRemediation, TellEvent
from defib.model.cluster import Cluster
from defib.model.failover_policy import MOST_NODES, POLICY, FailedNode, PolicyStatus, State, read_policy_status
from defib.model.failure import Failure
from tests.builders import HOUR, SECOND, T0
from tests.unit.decide.failover.failovers import FAILED_AT, a_failover, a_policy, change, written

NOW = Cluster(now=T0)


def an_entry(name: str = "n1", state: State = State.MOVING, **fields: Any) -> FailedNode:
    usual: dict[str, Any] = {"uid": f"uid-{name}", "not_ready_since": FAILED_AT, "message": "how it stands"}
    return FailedNode(name=name, state=state, **usual | fields)


def known(item: Any = None, **spec: Any) -> Known:
    item = item or a_policy(**spec)
    return read_known(item, read_policy(item.spec, FailoverRules()))


def report(one: Known, *entries: FailedNode, off: str = "", now: Cluster = NOW) -> ReportRemediation | None:
    return report_policy(one, {entry.name: entry for entry in entries}, now, off)


def told(one: Known, *entries: FailedNode, **more: Any) -> tuple[PolicyStatus, tuple[TellEvent, ...], Known]:
    """The status, the events, and the policy once it is written."""
    action = report(one, *entries, **more)
    assert action is not None
    after = change(one, item=written(one.item, action))
    after = change(after, status=read_policy_status(after.item))
    return after.status, action.tells, after


def condition(status: PolicyStatus, kind: str) -> tuple[str, str]:
    found = status.condition(kind)
    assert found is not None
    return found.status, found.reason


def test_a_quiet_policy_says_that_it_makes_sense_and_that_nothing_is_to_be_done() -> None:
    status, tells, after = told(known())
    assert (condition(status, "Valid"), condition(status, "Settled")) == (("True", "Accepted"), ("True", "Quiet"))
    assert (status.observed_generation, status.proofs, status.failed_nodes, status.moved) == (1, "A or B", 0, 0)
    assert (status.nodes, tells) == (None, ())
    assert report(after) is None, "once is enough"


def test_which_proofs_are_needed_is_shown() -> None:
    assert told(known(acceptedProofs=["None"]))[0].proofs == "None"
    assert told(known(acceptedProofs=["D", "A"]))[0].proofs == "A or D"


def test_one_that_makes_no_sense_or_is_not_served_says_why() -> None:
    status, _, after = told(known(dwell="soon"))
    assert condition(status, "Valid") == ("False", "InvalidSpec")
    assert report(after) is None
    status, _, after = told(known(), off="switched off")
    assert condition(status, "Valid") == ("False", "SwitchedOff")
    assert condition(told(after)[0], "Valid") == ("True", "Accepted")


def test_however_much_is_wrong_the_status_can_be_written() -> None:
    one = change(known(), policy=tuple("a sentence that says a lot " * 40 for _ in range(400)))
    found = told(one)[0].condition("Valid")
    assert found is not None
    assert len(found.message) <= 1024


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([State.MOVED], ("True", "Moved")),
        ([State.MOVED, State.WAITING], ("False", "WaitingForProof")),
        ([State.WAITING, State.MOVING], ("False", "Moving")),
        ([State.MOVING, State.HELD], ("False", "Budget")),
        ([State.HELD, State.FAILING], ("False", "DeletionFailed")),
    ],
)
def test_the_worst_of_all_nodes_says_how_it_stands(states: list[State], expected: tuple[str, str]) -> None:
    entries = [
        an_entry(f"n{place}", state, reason="Budget" if state is State.HELD else "")
        for place, state in enumerate(states)
    ]
    status, _, _ = told(known(), *entries)
    assert condition(status, "Settled") == expected
    found = status.condition("Settled")
    assert found is not None
    assert ("1 more failed node)" in found.message) == (len(states) > 1)


def test_counts_are_of_all_nodes_and_what_was_moved_is_never_forgotten() -> None:
    one = known()
    _, _, one = told(one, an_entry("n1", found=3), an_entry("n2", State.WAITING, waiting=2))
    status, _, one = told(one, an_entry("n1", State.MOVED, found=3, moved=3), an_entry("n2", State.WAITING, waiting=4))
    assert (status.failed_nodes, status.moved, status.waiting) == (2, 3, 4)
    status, _, one = told(one)
    assert (status.failed_nodes, status.moved, status.waiting) == (0, 3, 0)
    again = an_entry("n1", State.MOVED, not_ready_since=T0, found=2, moved=2)
    assert told(one, again)[0].moved == 5


def test_progress_alone_is_neither_written_nor_told() -> None:
    _, _, one = told(known(), an_entry(found=3, message="3 pods to be moved"))
    assert report(one, an_entry(found=3, message="1 pod to be moved")) is None
    for news in (
        an_entry(found=4),
        an_entry(found=3, waiting=1),
        an_entry(found=3, kept=1),
        an_entry(state=State.HELD, found=3, reason="Brake"),
        an_entry(found=3, uid="another"),
        an_entry(found=3, not_ready_since=T0),
    ):
        assert len(told(one, news)[1]) == 1


@pytest.mark.parametrize(
    ("state", "reason", "is_warning"),
    [
        (State.HELD, "FailoverHeld", True),
        (State.MOVING, "PodsMoving", False),
        (State.FAILING, "DeletionFailed", True),
        (State.WAITING, "WaitingForProof", True),
        (State.MOVED, "PodsMoved", False),
    ],
)
def test_each_state_has_its_event(state: State, reason: str, is_warning: bool) -> None:
    (event,) = told(known(), an_entry(state=state))[1]
    assert (event.reason, event.is_warning, event.message) == (reason, is_warning, "node n1: how it stands")
    assert (event.kind, event.namespace, event.check, event.uid) == (POLICY, "apps", "web", "uid-apps-web")


def test_of_more_nodes_than_a_status_can_hold_those_with_a_place_are_kept() -> None:
    """Else the API server would refuse the status, and nothing at all would be moved."""
    many = [an_entry(f"n{place:04}", State.HELD, reason="Budget", found=1) for place in range(MOST_NODES + 200)]
    many[-1] = an_entry(many[-1].name, found=1, begun=True)
    status, tells, one = told(known(), *many)
    assert len(status.nodes or ()) == len(tells) == MOST_NODES
    assert [entry.name for entry in status.nodes or () if entry.begun] == [many[-1].name]
    assert status.failed_nodes == MOST_NODES + 200
    assert report(one, *many) is None, "the others are no news at every pass"


def test_what_no_longer_stands_is_taken_out_of_the_status() -> None:
    _, _, one = told(known(), an_entry())
    action = report(one)
    assert action is not None
    assert action.status["nodes"] is None


def test_conditions_keep_the_time_of_their_last_change_and_those_of_others_stay() -> None:
    foreign = {"type": "Seen", "status": "True", "lastTransitionTime": "2029-01-01T00:00:00Z"}
    _, _, one = told(known(a_policy(status={"conditions": [foreign]})))
    status, _, _ = told(one, an_entry(), now=Cluster(now=T0 + HOUR))
    times = {found.type: found.last_transition_time for found in status.conditions or ()}
    assert (times["Valid"], times["Settled"]) == (T0, T0 + HOUR)
    assert "Seen" in times


@pytest.mark.parametrize("status", [{"nodes": "many"}, {"moved": "x"}, {"nodes": [{"name": "n1", "state": "Odd"}]}])
def test_a_status_that_makes_no_sense_is_written_anew(status: Any) -> None:
    assert condition(told(known(a_policy(status=status)))[0], "Settled") == ("True", "Quiet")


def test_a_status_without_what_is_new_in_it_is_understood() -> None:
    old = {"nodes": [{"name": "n1", "state": "Moved"}]}
    (entry,) = read_policy_status(a_policy(status=old)).nodes or []
    assert entry == FailedNode(name="n1", state=State.MOVED)


def test_what_is_under_way_is_read_as_it_will_stand() -> None:
    writing = report(known(), an_entry(begun=True))
    assert writing is not None
    other = change(writing, target=change(writing.target, kind=a_kind()))
    (status,) = being_written(change(NOW, underway=(writing, other)), ())
    assert status.nodes == [an_entry(begun=True)]
    assert being_written(NOW, (writing,)) == []


def test_what_was_given_up_may_be_written_yet() -> None:
    """I3: the API server may get to it later, and then that node has its place."""
    lost = report(known(), an_entry(begun=True))
    assert lost is not None
    other = change(lost, target=change(lost.target, kind=a_kind()))
    failed = {lost.key: Failure(why="no answer", times=1, again_in=SECOND)}
    (status,) = being_written(change(NOW, failures=failed), (lost, other))
    assert status.nodes == [an_entry(begun=True)]


def test_a_node_that_counts_as_failed_for_another_taint_is_written_anew_and_nobody_is_told_again() -> None:
    """It keeps its place by that."""
    written = {"nodes": [{"name": "n1", "state": "Moved", "taint": "a", "begun": True}]}
    writing = report(known(a_policy(status=written)), FailedNode(name="n1", state=State.MOVED, taint="b", begun=True))
    assert writing is not None
    assert ([entry["taint"] for entry in writing.status["nodes"]], writing.tells) == (["b"], ())


def a_kind() -> Any:
    assert a_failover().spec == {}
    return msgspec.structs.replace(POLICY, name="PodFailoverRemediation")


def test_a_node_that_a_policy_no_longer_asks_for_keeps_what_was_moved() -> None:
    entry = left_alone(an_entry(found=3, moved=1, waiting=2, begun=True, reason=""))
    assert (entry.state, entry.found, entry.moved, entry.waiting, entry.begun) == (State.MOVED, 3, 1, 0, True)
    assert left_alone(entry) is entry

"""Every remediation that a NodeHealthCheck began has an account: what was known, what was decided, how it ended."""

from datetime import timedelta

import msgspec
import pytest

from defib.decide.accounts.facts import LATE
from defib.decide.accounts.plan import RUSH, SEEN_WITHIN, UNWRITTEN_FOR
from defib.decide.admission import APPROVED_BY, APPROVED_UNTIL
from defib.model.account_action import MANY_AT_ONCE, AccountAction, OpenAccount, WriteAccount
from defib.model.action import Action, EndRemediation, StartRemediation
from defib.model.cluster import Blindness, Missing, Unread
from defib.model.failure import Failure
from defib.model.incident import INCIDENTS, EntryKind, Outcome, Phase, account_name
from defib.model.node import Lease, LeaseSpec
from tests.builders import MINUTE, SECOND, T0, a_node
from tests.unit.decide.accounts.books import SINCE, UNHEALTHY, Books, an_ill_cluster
from tests.unit.decide.checks import BAR_TEMPLATE, FOO, a_check, a_template, template_ref

DUE = SINCE + timedelta(seconds=300)


def not_accounts(action: Action) -> bool:
    return not isinstance(action, AccountAction)


def heal(books: Books, node: str, after: timedelta = 5 * MINUTE) -> None:
    books.now += after
    books.turn(node, "True")
    books.settle()


def test_what_was_known_at_the_decision_is_in_the_spec_from_the_beginning() -> None:
    books = an_ill_cluster("n1")
    beat = Lease(spec=LeaseSpec(renew_time=SINCE - 2 * SECOND))
    books.extra["heartbeats"] = {"kube-node-lease/n1": beat}
    books.settle()
    account = books.the_only()
    (remediation,) = books.remediations().values()
    spec = account.spec
    assert account.name == account_name("n1", remediation.uid)
    assert (spec.node, spec.check, spec.mode, spec.template) == ("n1", "workers", "Automatic", "foo")
    assert str(spec.cause) == "FooRemediation ns/n1"
    assert spec.cause.uid == remediation.uid
    assert (spec.unhealthy_since, spec.started) == (DUE, T0)
    assert spec.evidence == [
        "Ready is Unknown since 23:50:00 UTC (NodeStatusUnknown), unhealthy after 5m",
        "last heartbeat at 23:49:58 UTC",
    ]
    gates = {gate.name: gate for gate in spec.gates or ()}
    assert {"Threshold", "Storm", "Lock", "ControlPlane", "InFlight"} <= gates.keys()
    assert all(gate.open for gate in gates.values())
    assert gates["Threshold"].value == "8 healthy"
    assert account.is_open


def test_while_many_begin_or_end_nothing_is_written_and_afterwards_all_of_it() -> None:
    """The API server's time is for remediations first; but what goes on for long is no rush."""
    many = [f"n{number}" for number in range(1, MANY_AT_ONCE + 2)]
    books = an_ill_cluster(*many, check=a_check(unhealthyConditions=UNHEALTHY, maxUnhealthy="100%"))
    plan = books.decide()
    assert sum(isinstance(action, StartRemediation) for action in plan.actions) == len(many)
    books.step()
    assert books.all() == []
    books.settle()
    assert sorted(account.spec.node for account in books.all()) == many
    for node in many:
        books.turn(node, "True")
    books.decide()
    assert not [one for one in books.accounts.actions if isinstance(one, WriteAccount)]
    books.settle()
    assert [one for one in books.all() if one.is_open] == []


def test_a_rush_that_does_not_end_is_none() -> None:
    many = [f"n{number}" for number in range(1, MANY_AT_ONCE + 3)]
    names = [f"n{number}" for number in range(1, 20)]
    nodes = [a_node(name, ready="Unknown" if name in many else "True", since=SINCE) for name in names]
    books = Books(a_check(unhealthyConditions=UNHEALTHY, maxUnhealthy="100%"), nodes)
    first = next(action for action in books.decide().actions if isinstance(action, StartRemediation))
    books.carry_out(first)
    books.decide()
    assert (books.accounts.actions, books.accounts.wake_at) == ((), T0 + RUSH)
    books.now += RUSH
    books.decide()
    assert [one.node for one in books.accounts.actions if isinstance(one, OpenAccount)] == [first.node]


def test_there_is_never_a_second_one() -> None:
    books = an_ill_cluster("n1", "n2")
    for _ in range(3):
        books.now += MINUTE
        books.settle()
        books.forget()
    assert sorted(account.spec.node for account in books.all()) == ["n1", "n2"]
    assert len(books.opened) == len(set(books.opened)) == 2


def test_when_the_node_is_well_again_the_account_is_closed_with_its_whole_story() -> None:
    books = an_ill_cluster("n1")
    books.settle()
    heal(books, "n1")
    status = books.the_only().status
    assert (status.phase, status.outcome, status.took) == (Phase.CLOSED, Outcome.RECOVERED, "10m")
    assert (status.closed_at, status.seconds) == (books.now, 600.0)
    told = [(entry.at, entry.phase, entry.kind) for entry in status.timeline or ()]
    assert told == [
        (DUE, "Unhealthy", EntryKind.EVIDENCE),
        (T0, "Admitted", EntryKind.DECISION),
        (T0, "RemediationCreated", EntryKind.ACTION),
        (books.now, "Closed", EntryKind.END),
    ]
    assert {entry.by for entry in status.timeline or ()} == {"NodeHealthCheck workers", "defib"}
    assert {one.type: one.status for one in status.conditions or ()} == {"Closed": "True", "NeedsPerson": "False"}


def test_that_it_is_open_and_over_is_told_on_the_node() -> None:
    books = an_ill_cluster("n1")
    books.settle()
    heal(books, "n1")
    assert books.on_node("n1") == ["IncidentOpened", "IncidentClosed"]
    last = next(event for event in reversed(books.events) if event.kind.name == "Node")
    assert last.message == "FooRemediation ns/n1: the node is healthy again (Recovered after 10m)"
    assert (last.uid, last.node, last.is_warning) == ("uid-n1", "n1", False)


def test_what_it_said_when_it_was_last_seen_is_told() -> None:
    books = an_ill_cluster("n1", finalizers=True)
    books.settle()
    books.report("n1", {"Succeeded": "True"})
    heal(books, "n1")
    gone, books.now = books.now, books.now + MINUTE
    books.leave()
    books.settle()
    timeline = books.the_only().status.timeline or []
    assert [(entry.at, entry.phase, entry.kind) for entry in timeline[-3:]] == [
        (gone, "Succeeded", EntryKind.PROOF),
        (gone, "Ending", EntryKind.ACTION),
        (books.now, "Closed", EntryKind.END),
    ]


def test_a_replica_that_did_not_see_the_decision_says_so() -> None:
    books = an_ill_cluster("n1")
    books.step(not_accounts)
    books.forget()
    books.settle()
    spec = books.the_only().spec
    assert (spec.evidence or [])[-1] == LATE
    assert [gate.name for gate in spec.gates or ()] != []
    assert spec.unhealthy_since == DUE


def test_what_was_over_before_it_could_be_written_down_is_written_down_all_the_same() -> None:
    books = an_ill_cluster("n1")
    books.step(not_accounts)
    books.step(not_accounts)
    books.now += MINUTE
    books.turn("n1", "True")
    books.step(not_accounts)
    assert books.remediations() == {}
    books.settle()
    account = books.the_only()
    assert (account.status.outcome, account.spec.unhealthy_since) == (Outcome.RECOVERED, DUE)


def test_it_is_given_up_when_it_cannot_be_written_for_long() -> None:
    books = an_ill_cluster("n1")
    books.step(not_accounts)
    books.step(not_accounts)
    books.turn("n1", "True")
    books.step(not_accounts)
    books.step(not_accounts)
    assert books.accounts.unwritten
    books.now += UNWRITTEN_FOR
    books.settle()
    assert books.all() == []


def test_that_its_time_was_up_is_told_once() -> None:
    steps = [
        {"remediationTemplate": template_ref("foo"), "order": 1, "timeout": "60s"},
        {"remediationTemplate": template_ref("bar", BAR_TEMPLATE), "order": 2, "timeout": "600s"},
    ]
    check = a_check(unhealthyConditions=UNHEALTHY, escalatingRemediations=steps)
    books = an_ill_cluster("n1", check=check, templates=[a_template("foo", many=True), a_template("bar", many=True)])
    books.wait(5 * MINUTE)
    first, second = books.all()
    assert [entry.phase for entry in first.status.timeline or ()].count("TimedOut") == 1
    assert first.is_open, "its remediation is still there"
    assert (first.spec.template, second.spec.template) == ("foo", "bar")
    heal(books, "n1")
    ends = [(one.status.outcome, one.status.message) for one in books.all()]
    assert ends == [
        ("Recovered", "the node is healthy again, after its remediation had run out of time"),
        ("Recovered", "the node is healthy again"),
    ]


def test_that_a_person_is_needed_is_told_once_by_the_latest() -> None:
    books = an_ill_cluster("n1")
    books.wait(timedelta(hours=1))
    account = books.the_only()
    assert (account.status.phase, account.status.reason) == (Phase.NEEDS_PERSON, "NoTemplateLeft")
    assert books.on_node("n1") == ["IncidentOpened", "NeedsPerson"]
    assert next(event for event in books.events if event.reason == "NeedsPerson").is_warning
    heal(books, "n1")
    assert books.the_only().status.outcome == Outcome.RECOVERED


def test_a_node_that_is_gone_ends_it() -> None:
    books = an_ill_cluster("n1")
    books.settle()
    del books.nodes["n1"]
    books.settle()
    assert books.the_only().status.outcome == Outcome.NODE_GONE
    assert books.on_node("n1") == ["IncidentOpened"], "there is no node to tell it on"


def test_a_remediation_that_somebody_takes_away_ends_its_account_and_the_next_one_has_its_own() -> None:
    books = an_ill_cluster("n1")
    books.settle()
    books.now += MINUTE
    books.drop("n1")
    books.settle()
    first, second = books.all()
    assert (first.status.outcome, second.is_open) == (Outcome.ENDED, True)


def test_in_mode_approve_it_says_who_approved() -> None:
    books = an_ill_cluster("n1", check=a_check(unhealthyConditions=UNHEALTHY, mode="Approve"))
    books.settle()
    assert books.all() == []
    books.annotate("n1", APPROVED_BY, "alice")
    books.annotate("n1", APPROVED_UNTIL, "2030-01-01T01:00:00Z")
    books.settle()
    spec = books.the_only().spec
    assert (spec.mode, spec.approved_by) == ("Approve", "alice")
    heal(books, "n1")
    admitted = (books.the_only().status.timeline or [])[1]
    assert admitted.message.endswith("; approved by alice")


@pytest.mark.parametrize(
    "unseen",
    [
        {"blind": (Blindness("foos", T0, "no answer"),)},
        {"absent": {"foos": "forbidden"}},
        {"unread": (Unread("foos", "ns/n1", "nonsense"),)},
        {"absent": {INCIDENTS: "forbidden"}},
        {"blind": (Blindness(INCIDENTS, T0, "no answer"),)},
    ],
)
def test_what_cannot_be_seen_is_not_over(unseen: dict[str, object]) -> None:
    books = an_ill_cluster("n1")
    books.settle()
    books.now += timedelta(hours=1)
    books.drop("n1")
    books.extra |= unseen
    books.decide()
    assert not [one for one in books.accounts.actions if isinstance(one, WriteAccount)]


def test_of_a_kind_that_is_gone_nothing_is_left() -> None:
    books = an_ill_cluster("n1")
    books.settle()
    books.others["foos"] = {}
    books.kinds[FOO] = Missing("there is no such kind")
    books.decide()
    assert [type(one) for one in books.accounts.actions] == [WriteAccount]


def test_who_never_saw_the_remediation_waits_before_it_counts_as_gone() -> None:
    """One watch may be behind another: the account is heard of before its remediation."""
    books = an_ill_cluster("n1")
    books.settle()
    hidden = books.others["foos"].popitem()
    books.forget()
    plan = books.step(lambda action: isinstance(action, AccountAction))
    assert not [one for one in plan.actions if isinstance(one, WriteAccount)]
    assert books.accounts.wake_at == T0 + SEEN_WITHIN
    books.others["foos"] = dict([hidden])
    books.now += SEEN_WITHIN
    books.settle()
    assert books.the_only().is_open


def test_of_its_open_accounts_the_kinds_stay_in_sight() -> None:
    """The check may name another template by now, or be gone."""
    books = an_ill_cluster("n1")
    books.settle()
    assert FOO in books.accounts.kinds
    heal(books, "n1")
    assert books.accounts.kinds == {}


def test_one_that_cannot_be_read_is_not_opened_again() -> None:
    books = an_ill_cluster("n1")
    books.step(not_accounts)
    books.decide()
    (opening,) = (one for one in books.accounts.actions if isinstance(one, OpenAccount))
    books.extra["unread"] = (Unread(INCIDENTS, opening.name, "nonsense"),)
    books.decide()
    assert books.accounts.actions == ()


def test_where_it_is_forbidden_only_one_goes_on_asking() -> None:
    books = an_ill_cluster("n1", "n2", "n3")
    books.step(not_accounts)
    books.decide()
    first, *others = books.accounts.actions
    assert len(others) == 2
    failure = Failure(why="forbidden", times=1, again_in=SECOND, forbidden=True)
    books.extra["failures"] = {first.key: failure}
    books.decide()
    assert [one.key for one in books.accounts.actions] == [first.key]


def test_an_observing_check_begins_nothing_so_there_is_nothing_to_tell() -> None:
    books = an_ill_cluster("n1", check=a_check(unhealthyConditions=UNHEALTHY, mode="Observe"))
    books.wait(timedelta(hours=1))
    assert books.all() == []


def test_the_same_look_gives_the_same_openings_with_and_without_memory_of_the_pass_before() -> None:
    books = an_ill_cluster("n1", "n2")
    books.step(lambda action: isinstance(action, StartRemediation | EndRemediation))
    books.decide()
    again = [msgspec.structs.asdict(one) for one in books.accounts.actions]
    books.decide()
    assert [msgspec.structs.asdict(one) for one in books.accounts.actions] == again

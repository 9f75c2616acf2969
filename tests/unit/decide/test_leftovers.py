"""What is left of dead remediations is taken away: only with our mark, only when nobody wants it, only after a while."""

from datetime import timedelta

import msgspec
import pytest

from defib.decide.leftovers import AT_ONCE, kind_of
from defib.decide.rules import Rules
from defib.model import medik8s, pod_failover, power_cycle, self_fencing
from defib.model.action import ClearNodeAnnotation, EndRemediation
from defib.model.cluster import HEARTBEAT_NAMESPACE, Missing, Unread
from defib.model.failure import Failure
from defib.model.incident import INCIDENTS, Phase
from defib.model.leftover import DropMember, LetHostGo, ReadMembers, TakeTaintOff
from defib.model.meta import Meta, Unstructured
from defib.model.metal3 import HOST
from defib.model.node import TAINTED_BY_US, Lease, LeaseSpec, Node
from defib.model.self_fence import LABEL as AGENT
from defib.model.self_fence import LABEL_VALUE as AGENT_VALUE
from defib.telemetry.catalogue import LEFTOVER_KINDS
from tests.builders import HOUR, MINUTE, SECOND, T0, a_node
from tests.leftover_world import (
    AGE,
    COLLECTIONS,
    STAMP,
    Watch,
    a_host,
    a_member,
    a_power_cycle,
    a_remediation,
    a_tainted_node,
    an_incident,
    wait,
)

DAYS = timedelta(days=3, seconds=5)  # of which only 5 s are seconds
SHARED = Rules(has_members=True)
APPROVED, REJECTED = "defib.dev/approved-until", "defib.dev/rejected"
TAINT = "take our taint off n1"
LET_GO = "let BareMetalHost metal/h1 go"


def tainted(**fields: object) -> Watch:
    return Watch(a_tainted_node(**fields))  # type: ignore[arg-type]  # as it is called there


def hosted(**fields: str) -> Watch:
    watch = Watch(a_node("n1"))
    watch.put(HOST, a_host(**fields))
    return watch


def remediated(*owners: str, is_leaving: bool = False) -> Watch:
    watch = Watch(a_node("n1"))
    watch.put(power_cycle.REMEDIATION, a_remediation(owners=owners, is_leaving=is_leaving))
    return watch


# GC-02: age


@pytest.mark.parametrize("make", [tainted, hosted, lambda: remediated("uid-gone")])
def test_gc_02_what_nobody_wants_is_taken_away_after_its_age_and_not_before(make: type[Watch]) -> None:
    watch = make()
    assert watch.collected(timedelta()) == []
    assert watch.last.wake_at == T0 + AGE
    assert watch.collected(AGE - SECOND) == []
    assert len(watch.collected(AGE)) == 1


@pytest.mark.parametrize("age", [timedelta(minutes=1), timedelta(minutes=10), timedelta(days=2)])
def test_gc_02_the_age_is_counted_in_full_days_too(age: timedelta) -> None:
    """Of a difference of three days and five seconds, five are the seconds, and three days are meant."""
    watch = Watch(a_tainted_node(), rules=Rules(leftover_age=age))
    watch.look(timedelta())
    assert watch.collected(DAYS) == [TAINT]


@pytest.mark.parametrize("first", [timedelta(), DAYS])
def test_gc_02_an_approval_counts_from_when_it_is_seen_that_its_moment_has_passed(first: timedelta) -> None:
    watch = Watch(a_node("n1", annotations={APPROVED: STAMP}))
    assert watch.collected(first) == []
    assert watch.collected(first + AGE - SECOND) == []
    assert watch.collected(first + AGE) == [f"clear {APPROVED} of n1"]


def test_gc_02_an_approval_that_was_given_anew_unseen_counts_from_its_new_moment() -> None:
    watch = Watch(a_node("n1", annotations={APPROVED: STAMP}))
    watch.look(timedelta())
    watch.nodes = {"n1": a_node("n1", annotations={APPROVED: f"{T0 + AGE / 2:%Y-%m-%dT%H:%M:%SZ}"})}
    assert watch.collected(AGE) == []
    assert watch.collected(1.5 * AGE) == [f"clear {APPROVED} of n1"]


def test_gc_02_a_rejection_goes_like_an_approval_and_what_nobody_can_read_stays() -> None:
    watch = Watch(a_node("n1", annotations={REJECTED: f"{STAMP} ann: the disk is being copied"}))
    watch.look(timedelta())
    assert watch.collected(AGE) == [f"clear {REJECTED} of n1"]
    assert wait(Watch(a_node("n1", annotations={REJECTED: "never"})), 30 * MINUTE) == []
    assert wait(Watch(a_node("n1", annotations={REJECTED: "2030-01-01T01:00:00Z ann"})), 30 * MINUTE) == []


@pytest.mark.parametrize("text", ["2030-01-01T01:00:00Z", "tomorrow", ""])
def test_an_approval_that_is_good_still_or_that_nobody_can_read_stays(text: str) -> None:
    assert wait(Watch(a_node("n1", annotations={APPROVED: text})), 30 * MINUTE) == []


def test_time_in_which_somebody_wanted_it_does_not_count() -> None:
    watch = tainted()
    watch.look(timedelta())
    watch.incidents(an_incident())
    watch.look(AGE / 2)
    watch.incidents()
    watch.look(AGE / 2 + SECOND)
    assert watch.collected(AGE) == []
    assert watch.collected(AGE * 1.5 + SECOND) == [TAINT]


# GC-01: marks


def test_gc_01_a_taint_without_our_mark_stays_for_ever() -> None:
    assert wait(tainted(mark=""), HOUR) == []


def test_gc_01_a_taint_that_somebody_set_in_place_of_ours_stays_and_only_our_mark_goes() -> None:
    watch = tainted(added=T0 + MINUTE)
    assert wait(watch, AGE) == [f"clear {TAINTED_BY_US} of n1"]
    assert watch.last.actions == (
        ClearNodeAnnotation(node="n1", node_uid="uid-n1", annotation=TAINTED_BY_US, value=STAMP, is_leftover=True),
    )


def test_gc_01_a_host_that_somebody_else_keeps_off_stays_off() -> None:
    assert wait(hosted(mark=""), HOUR) == []


@pytest.mark.parametrize(
    ("name", "label"), [("defib-bucket-3", "defib"), ("defib-leader", "defib"), ("defib-member-a", "helm")]
)
def test_gc_01_only_leases_of_members_are_dropped_and_only_ours(name: str, label: str) -> None:
    watch = Watch(rules=SHARED)
    watch.members = (a_member(name, label=label),)
    assert wait(watch, HOUR) == []


def test_gc_01_a_remediation_that_no_check_has_made_stays() -> None:
    assert wait(remediated(), HOUR) == []


# GC-05: what is found


def test_gc_05_a_taint_a_power_annotation_and_a_marker_of_dead_remediations_are_found() -> None:
    watch = Watch(a_tainted_node("n1"), a_node("n2", annotations={TAINTED_BY_US: STAMP}))
    watch.put(HOST, a_host())
    watch.put(power_cycle.REMEDIATION, a_remediation("n9"))
    wait(watch, AGE)
    kinds = [kind_of(action) for action in watch.last.actions]
    assert sorted(kinds) == ["annotation", "power", "remediation", "taint"]
    assert sorted([*kinds, "member"]) == sorted(LEFTOVER_KINDS)
    assert {type(action) for action in watch.last.actions} == {
        TakeTaintOff,
        LetHostGo,
        ClearNodeAnnotation,
        EndRemediation,
    }


# Nothing that has an owner


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.CLOSED])
def test_a_node_with_an_open_incident_keeps_its_taint(phase: Phase) -> None:
    watch = tainted()
    watch.incidents(an_incident(phase=phase))
    assert wait(watch, HOUR) == []


def test_an_incident_that_is_closed_keeps_nothing() -> None:
    watch = tainted()
    watch.incidents(an_incident(phase=Phase.CLOSED))
    assert wait(watch, AGE) == [TAINT]


@pytest.mark.parametrize("kind", [power_cycle.REMEDIATION, pod_failover.REMEDIATION])
def test_a_node_with_a_remediation_of_ours_keeps_its_taint(kind: object) -> None:
    watch = tainted()
    watch.items[COLLECTIONS[kind]] = {"ops/n1": a_remediation(owners=())}  # type: ignore[index]  # one of those
    assert wait(watch, HOUR) == []


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_a_node_that_is_down_keeps_its_taint_since_nothing_runs_there(ready: str) -> None:
    watch = tainted(ready=ready)
    assert wait(watch, HOUR) == []
    watch.nodes = {"n1": a_tainted_node()}
    assert watch.collected(HOUR + MINUTE) == []
    assert watch.collected(HOUR + MINUTE + AGE) == [TAINT]


def test_a_failover_that_has_succeeded_keeps_no_taint() -> None:
    watch = tainted()
    watch.checks("uid-a")
    watch.put(pod_failover.REMEDIATION, a_power_cycle(succeeded="True"))
    assert wait(watch, AGE) == [TAINT]


@pytest.mark.parametrize(
    ("owners", "is_leaving"), [(("uid-a",), False), (("uid-gone", "uid-a"), False), (("uid-gone",), True)]
)
def test_a_remediation_stays_while_a_check_is_there_or_it_goes_already(
    owners: tuple[str, ...], is_leaving: bool
) -> None:
    watch = remediated(*owners, is_leaving=is_leaving)
    watch.checks("uid-a")
    assert wait(watch, HOUR) == []


def test_a_remediation_of_a_node_that_is_gone_says_so() -> None:
    watch = remediated("uid-gone")
    watch.nodes = {}
    wait(watch, AGE)
    (action,) = watch.last.actions
    assert isinstance(action, EndRemediation)
    assert (action.node_is_gone, action.is_leftover) == (True, True)


# Members


def test_the_lease_of_a_replica_is_dropped_when_no_version_of_it_has_come_for_long_enough() -> None:
    watch = Watch(rules=SHARED)
    watch.members = (a_member(),)
    assert wait(watch, AGE) == ["drop defib-member-a"]
    assert watch.last.actions == (
        DropMember(namespace="defib-system", name="defib-member-a", uid="uid-defib-member-a", version="1"),
    )


def test_a_replica_that_renews_stays_however_wrong_its_clock_is() -> None:
    watch = Watch(rules=SHARED)
    for minute in range(120):
        watch.members = (a_member(version=str(minute)),)  # it says each time that it is the first of January
        assert watch.collected(minute * MINUTE) == []


def test_a_lease_that_lasts_longer_than_the_age_is_waited_for() -> None:
    watch = Watch(rules=SHARED)
    watch.members = (a_member(lasts=3600),)
    assert wait(watch, AGE) == []
    assert watch.collected(HOUR) == ["drop defib-member-a"]


def test_members_are_read_now_and_then_where_replicas_share_the_work() -> None:
    watch = Watch(rules=SHARED)
    watch.fields = {"members": None}
    assert watch.look(timedelta()).actions == (ReadMembers(namespace="defib-system"),)
    del watch.fields["members"]
    seen = watch.cluster(timedelta()).members
    watch.fields = {"members": seen}
    assert watch.look(MINUTE).actions == ()
    assert watch.last.wake_at == T0 + 5 * MINUTE
    assert watch.look(5 * MINUTE).actions == (ReadMembers(namespace="defib-system", after=T0),)
    alone = Watch()
    assert alone.look(timedelta()).actions == ()


# Sight


@pytest.mark.parametrize(
    "kind", [INCIDENTS, COLLECTIONS[power_cycle.REMEDIATION], COLLECTIONS[pod_failover.REMEDIATION]]
)
def test_a_taint_stays_while_we_cannot_see_who_may_want_it(kind: str) -> None:
    watch = tainted()
    watch.blind(kind)
    assert wait(watch, HOUR) == []
    watch.fields = {"absent": {kind: "forbidden"}}
    assert watch.collected(HOUR) == []
    watch.fields = {}
    assert watch.collected(HOUR) == [], "now its time begins"
    assert watch.collected(HOUR + AGE) == [TAINT]


def test_an_incident_that_cannot_be_read_may_be_the_one_that_wants_it() -> None:
    watch = tainted()
    watch.fields = {"unread": (Unread(INCIDENTS, "n1", "garbled"),)}
    assert wait(watch, HOUR) == []


def test_a_kind_that_the_cluster_does_not_have_has_no_objects_that_could_want_anything() -> None:
    watch = tainted()
    kinds = dict(watch.cluster(timedelta()).kinds) | {pod_failover.REMEDIATION: Missing("no such kind")}
    watch.fields = {"kinds": kinds}
    assert wait(watch, AGE) == [TAINT]


def test_triggers_of_others_that_are_served_must_be_in_sight_too() -> None:
    served = Rules(serves=frozenset({"machine-annotation", "metal3-remediation"}))
    assert wait(Watch(a_tainted_node(), rules=served), HOUR) == []


def test_remediations_stay_while_checks_are_out_of_sight() -> None:
    watch = remediated("uid-gone")
    watch.blind(medik8s.CHECKS)
    assert wait(watch, HOUR) == []
    del watch.items[medik8s.CHECKS]
    watch.fields = {}
    assert watch.collected(HOUR + AGE) == []


@pytest.mark.parametrize("trouble", ["nodes", "heartbeats", "clock"])
def test_while_we_doubt_ourselves_nothing_goes_and_afterwards_the_time_begins_anew(trouble: str) -> None:
    watch = tainted()
    watch.look(timedelta())
    if trouble == "clock":
        watch.fields = {"doubts": ("our own clock has jumped",)}
    else:
        watch.blind(trouble)
    assert watch.collected(DAYS) == []
    watch.fields = {}
    assert watch.collected(DAYS) == []
    assert watch.collected(DAYS + AGE) == [TAINT]


def test_a_doubt_that_passes_before_anything_is_due_begins_the_time_anew_as_well() -> None:
    watch = tainted()
    watch.look(timedelta())
    watch.fields = {"doubts": ("our own clock has jumped",)}
    watch.look(AGE / 2)
    watch.fields = {}
    watch.look(AGE / 2 + SECOND)
    assert watch.collected(AGE) == []
    assert watch.collected(AGE * 1.5 + SECOND) == [TAINT]


def test_while_most_heartbeats_are_overdue_nothing_goes() -> None:
    watch = tainted()
    silent = Lease(
        metadata=Meta(name="n1", namespace=HEARTBEAT_NAMESPACE),
        spec=LeaseSpec(holder_identity="n1", lease_duration_seconds=40, renew_time=T0),
    )
    watch.fields = {"heartbeats": {f"{HEARTBEAT_NAMESPACE}/n1": silent}}
    assert wait(watch, HOUR) == []


# Cost


def test_what_fails_again_and_again_keeps_nothing_else_from_being_collected() -> None:
    watch = Watch(*(a_tainted_node(f"n{number}") for number in range(AT_ONCE)))
    watch.put(HOST, a_host())
    refused = Failure(why="a webhook says no", times=9, again_in=30 * SECOND)
    watch.fields = {"failures": {f"take our taint off n{number}": refused for number in range(AT_ONCE)}}
    assert wait(watch, AGE)[0] == LET_GO


def test_not_more_than_some_at_once() -> None:
    watch = Watch(*(a_tainted_node(f"n{number}") for number in range(3 * AT_ONCE)))
    assert len(wait(watch, AGE)) == AT_ONCE


def test_nodes_are_searched_once_a_minute_and_not_at_all_while_none_changes() -> None:
    watch = Watch(a_node("n1"))
    first = watch.look(timedelta()).search
    assert watch.look(HOUR).search is first
    watch.nodes = {"n1": a_tainted_node()}
    again = watch.look(HOUR + SECOND).search
    assert again is not first
    watch.nodes = dict(watch.nodes)
    assert watch.look(HOUR + 2 * SECOND).search is again
    assert watch.last.wake_at == T0 + HOUR + MINUTE + SECOND


def test_a_marked_node_that_is_gone_has_nothing_left() -> None:
    watch = tainted()
    watch.look(timedelta())
    gone: dict[str, Node] = {}
    watch.nodes = gone
    assert watch.collected(SECOND) == []


# Agents


def an_agent(node: str, *, version: str = "1") -> Lease:
    lease = a_member(f"defib-agent-{node}", version=version)
    labels = {**lease.labels, AGENT: AGENT_VALUE}
    return msgspec.structs.replace(lease, metadata=msgspec.structs.replace(lease.metadata, labels=labels))


def test_the_lease_of_an_agent_is_dropped_when_its_node_was_removed_for_good() -> None:
    """One that stays counts for ever among those that must be heard."""
    watch = Watch(a_node("n1"), rules=SHARED)
    watch.members = (an_agent("n1"), an_agent("n2"))
    assert wait(watch, AGE) == ["drop defib-agent-n2"]


def test_an_agent_that_renews_keeps_its_lease_whatever_became_of_its_node() -> None:
    watch = Watch(rules=SHARED)
    for minute in range(60):
        watch.members = (an_agent("n2", version=str(minute)),)
        assert watch.collected(minute * MINUTE) == []


def test_leases_are_read_too_where_nodes_take_themselves_down() -> None:
    watch = Watch()
    watch.fields = {"members": None}
    assert watch.look(timedelta()).actions == ()
    watch.put(self_fencing.TEMPLATE, Unstructured(metadata=Meta(name="t", namespace="ns", uid="t")))
    assert watch.look(timedelta()).actions == (ReadMembers(namespace="defib-system"),)

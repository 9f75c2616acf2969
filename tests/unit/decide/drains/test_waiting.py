"""Evictions that budgets, as they are seen, do not allow: how often the API server is asked for them all the same."""

from typing import Any

import pytest

from defib.decide.drains.plan import Drains
from defib.decide.drains.survey import TO_EVICT
from defib.decide.drains.waiting import ASKED_EVERY, AT_ONCE, asked_at, is_refused
from defib.model.budget import Budget, BudgetSpec, BudgetStatus
from defib.model.cluster import Cluster
from defib.model.drain_action import EvictPod
from defib.model.meta import Unstructured
from defib.model.node_drain import Rung
from defib.model.pod import Pod
from tests.builders import MINUTE, SECOND, T0
from tests.unit.decide.drains.drains import a_case, an_entry, broke, due, minute, refused, step_at
from tests.unit.decide.drains.ward import a_budget, a_web_pod, the_pod
from tests.unit.decide.drains.wing import a_lock, a_wing, drained, entry, planned, policy, record, steps
from tests.unit.decide.failover.failovers import change

NONE = BudgetStatus(disruptions_allowed=0, current_healthy=3, desired_healthy=3, expected_pods=3, observed_generation=2)
SAYS_NO = Budget(namespace="apps", name="web", generation=2, status=NONE)
SAYS_YES = change(SAYS_NO, status=change(NONE, disruptions_allowed=1))
STALE = change(SAYS_NO, status=change(NONE, observed_generation=1))
NOT_READ = Budget(namespace="apps", name="web")
WELL, ILL = a_web_pod(), a_web_pod(ready=False)
ILL_TOO = change(NONE, current_healthy=2)


def in_phase(phase: str) -> Pod:
    return change(WELL, status=change(WELL.status, phase=phase))


@pytest.mark.parametrize(
    ("pod", "budgets", "is_so"),
    [
        (WELL, (), False),
        (WELL, (SAYS_NO,), True),
        (WELL, (SAYS_YES,), False),
        (WELL, (STALE,), False),
        (WELL, (NOT_READ,), False),
        (WELL, (SAYS_YES, SAYS_YES), True),
        (WELL, (SAYS_YES, NOT_READ), False),
        (in_phase("Pending"), (SAYS_NO,), False),
        (in_phase("Pending"), (SAYS_NO, SAYS_NO), False),
        (ILL, (SAYS_NO,), False),
        (ILL, (change(SAYS_NO, status=ILL_TOO),), True),
        (ILL, (change(SAYS_NO, status=ILL_TOO, spec=BudgetSpec(unhealthy_pod_eviction_policy="AlwaysAllow")),), False),
    ],
)
def test_a_pod_counts_as_refused_only_where_the_api_server_is_sure_to_refuse_it(
    pod: Pod, budgets: tuple[Budget, ...], is_so: bool
) -> None:
    assert is_refused(pod, budgets) is is_so


def test_whoever_is_refused_is_asked_for_in_the_first_minute_of_every_ten() -> None:
    now = [asked_at(T0, T0 + seconds * SECOND) == T0 + seconds * SECOND for seconds in (0, 59, 60, 599, 600, 659, 660)]
    assert now == [True, True, False, False, True, True, False]
    assert asked_at(T0, T0 + 5 * MINUTE) == T0 + ASKED_EVERY
    assert asked_at(T0 + MINUTE, T0) == T0 + MINUTE  # written down by somebody whose clock is ahead


# The ladder.


def test_what_waits_for_a_budget_is_due_all_the_same_so_that_the_drain_stands_as_before() -> None:
    case = a_case(WELL, budgets=(SAYS_NO,), entry=an_entry(Rung.EVICT, 46))
    assert due(case, 50) is Rung.EVICT
    assert step_at(case, 50).refused_since == minute(46)


@pytest.mark.parametrize(
    "fields",
    [
        {"budgets": (SAYS_YES,), "entry": an_entry(Rung.EVICT, 46)},
        {"budgets": (), "entry": an_entry(Rung.EVICT, 46), "eviction": refused()},  # by a budget that nobody sees
        {"budgets": (SAYS_NO,)},  # it is not even written down that it is to be asked for
    ],
)
def test_nobody_waits_for_a_budget_that_is_not_seen_to_refuse_or_was_never_asked(fields: dict[str, Any]) -> None:
    assert step_at(a_case(WELL, **fields), 50).refused_since is None


def test_before_a_budget_is_passed_over_it_is_asked_once_more() -> None:
    case = a_case(WELL, budgets=(SAYS_NO,), entry=an_entry(Rung.EVICT, 46))
    assert step_at(case, 68).refused_since is not None
    assert (due(case, 68.1), step_at(case, 68.1).refused_since) == (Rung.EVICT, None)
    assert due(change(case, eviction=refused()), 68.1) is Rung.DELETE


# What is planned.


def pods(count: int) -> list[Pod]:
    return [a_web_pod(f"web-{place:02}") for place in range(count)]


def forcing(*there: Pod, minutes_ago: float = 5, budget: Unstructured | None = None, **changes: Any) -> Cluster:
    """Pods of which it was written down so many minutes ago that they are to be evicted."""
    entries = [entry(pod, "Evict", minutes_ago) for pod in there]
    written = record(minutes=35, phase="Forcing", begun=True, pods=entries)
    return a_wing(
        drained(minutes=35),
        *there,
        records=[written],
        budgets=[budget or a_budget()],
        locks=[a_lock()],
        policies=[policy()],
        **changes,
    )


def evicted(drains: Drains) -> list[str]:
    return [one.pod.name for one in steps(drains.actions) if isinstance(one, EvictPod)]


@pytest.mark.parametrize(("minutes_ago", "is_asked"), [(0.5, True), (5, False), (10.5, True), (11, False)])
def test_no_request_is_made_for_a_pod_that_its_budget_is_seen_to_refuse_but_now_and_then(
    minutes_ago: float, is_asked: bool
) -> None:
    assert evicted(planned(forcing(*pods(2), minutes_ago=minutes_ago))) == (["web-00", "web-01"] if is_asked else [])


def test_a_pass_is_made_when_it_is_time_to_ask_again() -> None:
    assert planned(forcing(*pods(2), minutes_ago=9.5)).wake_at == T0 + 30 * SECOND


def test_as_soon_as_a_budget_lets_some_go_so_many_are_asked_for() -> None:
    assert evicted(planned(forcing(*pods(3), budget=a_budget(allowed=1)))) == ["web-00"]
    assert evicted(planned(forcing(*pods(3), budget=a_budget(allowed=9)))) == ["web-00", "web-01", "web-02"]
    assert len(evicted(planned(forcing(*pods(30), budget=a_budget(allowed=30))))) == AT_ONCE


def test_a_pod_that_cannot_be_evicted_for_another_reason_keeps_no_other_waiting() -> None:
    failed = {f"{TO_EVICT}{pods(1)[0].uid}": broke()}
    drains = planned(forcing(*pods(3), budget=a_budget(allowed=1), failures=failed))
    assert evicted(drains) == ["web-00", "web-01"]


def test_budgets_of_others_that_change_are_no_reason_to_look_again_at_every_pod() -> None:
    cluster = forcing(*pods(2))
    first = planned(cluster)

    def beside(*budgets: Unstructured) -> Drains:
        items = {item.key: item for item in (*cluster.others["budgets"].values(), *budgets)}
        return planned(change(cluster, others={**cluster.others, "budgets": items}), first)

    other = beside(a_budget("other", selector={"matchLabels": {"app": "other"}}))
    assert other.looks["n1"].look is first.looks["n1"].look
    assert evicted(beside(a_budget("second"))) == []  # it has two now, and is refused in any case
    assert beside(a_budget("second")).looks["n1"].look is not first.looks["n1"].look
    assert evicted(beside(a_budget(allowed=1))) == ["web-00"]


def test_the_doctor_says_when_a_budget_is_asked_again() -> None:
    told = the_pod(
        WELL,
        node=drained(minutes=35)[0],
        budgets=[a_budget()],
        policies=[policy()],
        records=[record(minutes=35, phase="Forcing", begun=True, pods=[entry(WELL, "Evict", 5)])],
    )
    assert told.next is not None
    assert told.next.at == T0 + 5 * MINUTE
    assert told.next.message.startswith("Defib asks for its eviction again, or as soon as its budget lets it go: ")

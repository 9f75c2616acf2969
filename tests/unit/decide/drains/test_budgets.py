"""Which disruption budgets protect a pod."""

from typing import Any

import pytest

from defib.decide.drains.budgets import UNSEEN, budgets_in, index_budgets
from defib.model.budget import BUDGET
from defib.model.cluster import Blindness, Cluster, Missing, Served
from tests.builders import T0
from tests.unit.decide.drains.drains import BUDGETS, a_budget, by_key, seen, unread
from tests.unit.decide.failover.failovers import a_pod, change

WEB = a_pod("web-1", labels={"app": "web", "tier": "front"})
BARE = a_pod("bare")


def names(*items: Any, pod: Any = WEB) -> list[str]:
    return [budget.name for budget in index_budgets(by_key(*items)).of(pod)]


def protects(pod: Any = WEB, **selector: Any) -> bool:
    return names(a_budget(selector=selector), pod=pod) == ["web"]


def test_dk_10_all_labels_of_a_budget_must_match_and_not_just_one() -> None:
    assert protects(matchLabels={"app": "web"})
    assert protects(matchLabels={"app": "web", "tier": "front"})
    assert not protects(matchLabels={"app": "web", "tier": "back"})
    assert not protects(matchLabels={"app": "other"})


@pytest.mark.parametrize(
    ("operator", "values", "web", "bare"),
    [
        ("In", ["web", "api"], True, False),
        ("In", ["api"], False, False),
        ("NotIn", ["api"], True, True),
        ("NotIn", ["web"], False, True),
        ("Exists", None, True, False),
        ("DoesNotExist", None, False, True),
    ],
)
def test_dk_10_expressions_count(operator: str, values: list[str] | None, web: bool, bare: bool) -> None:
    expression = {"key": "app", "operator": operator} | ({"values": values} if values else {})
    assert protects(matchExpressions=[expression]) is web
    assert protects(BARE, matchExpressions=[expression]) is bare


def test_dk_10_labels_and_expressions_must_both_match() -> None:
    expression = {"key": "tier", "operator": "In", "values": ["back"]}
    assert not protects(matchLabels={"app": "web"}, matchExpressions=[expression])


def test_dk_10_an_empty_selector_is_every_pod_of_the_namespace() -> None:
    assert names(a_budget(selector={}), pod=BARE) == ["web"]


@pytest.mark.parametrize("spec", [{"selector": None, "minAvailable": 1}, {"minAvailable": 1}, {}])
def test_dk_10_no_selector_is_nobody(spec: dict[str, Any]) -> None:
    assert names(a_budget(**spec), pod=WEB) == []


def test_dk_10_a_budget_of_another_namespace_is_nobodys_here() -> None:
    elsewhere = a_budget(namespace="other", selector={"matchLabels": {"app": "web"}})
    assert names(elsewhere) == []
    assert names(elsewhere, pod=a_pod("web-1", namespace="other", labels={"app": "web"})) == ["web"]


def test_dk_10_a_pod_may_have_two_budgets() -> None:
    assert names(a_budget("all", selector={}), a_budget("web", selector={"matchLabels": {"app": "web"}})) == [
        "all",
        "web",
    ]


@pytest.mark.parametrize(
    "spec",
    [
        {"selector": {"matchLabels": {"app": 7}}},
        {"selector": {"matchLabels": {"app": ["web"]}}},
        {"selector": {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["web"]}]}},
        {"selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": []}]}},
        {"selector": {"matchExpressions": "app"}},
        {"selector": "app=web"},
        {"selector": {"matchLabels": {"app": "other"}}, "minAvailable": [1]},
    ],
)
def test_a_budget_that_makes_no_sense_protects_its_whole_namespace(spec: dict[str, Any]) -> None:
    assert names(a_budget(**spec), pod=BARE) == ["web"]
    assert names(a_budget(**spec), pod=a_pod("far", namespace="other")) == []


def test_a_budget_that_could_not_even_be_read_protects_its_whole_namespace() -> None:
    budgets = budgets_in(seen(unread=(unread("apps/odd"),)))
    assert [one.key for one in budgets.of(BARE)] == ["apps/odd"]
    assert budgets.of(a_pod("far", namespace="other")) == ()
    assert not budgets.unseen


def test_of_other_kinds_it_does_not_matter_what_cannot_be_read() -> None:
    stranger = change(unread("apps/odd"), kind="pods")
    assert budgets_in(seen(unread=(stranger,))).of(BARE) == ()


# Whether they are in sight.


def out_of_sight(**fields: Any) -> list[Cluster]:
    served = {BUDGET: Served(BUDGETS, namespaced=True)}
    return [
        Cluster(now=T0, **fields),
        Cluster(now=T0, kinds={BUDGET: Missing("the server has no such kind")}),
        Cluster(now=T0, kinds=served),  # nobody follows it yet
        seen(blind=(Blindness(BUDGETS, T0, "the watch broke"),)),
        seen(absent={BUDGETS: "forbidden"}),
    ]


@pytest.mark.parametrize("cluster", out_of_sight())
def test_where_budgets_are_out_of_sight_it_is_said_why(cluster: Cluster) -> None:
    assert budgets_in(cluster).unseen
    assert not budgets_in(seen()).unseen


def test_other_blindness_does_not_hide_budgets() -> None:
    assert not budgets_in(seen(blind=(Blindness("pods", T0, "the watch broke"),), absent={"leases": "gone"})).unseen


def test_a_budget_that_has_not_changed_stays_the_same_object_when_others_do() -> None:
    kept = a_budget(selector={"matchLabels": {"app": "web"}})
    first = budgets_in(seen(kept, a_budget("other", selector={})))
    second = budgets_in(seen(kept), first)
    assert second.of(WEB)[0] is next(one for one in first.of(WEB) if one.name == "web")
    assert len(second.of(WEB)) == 1


def test_a_budget_that_asks_for_one_of_several_values_is_found_by_each_of_them_once() -> None:
    either = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "shop"]}]}
    budgets = index_budgets(by_key(a_budget("b", selector=either), a_budget("a", selector={})))
    assert [one.name for one in budgets.of(WEB)] == ["a", "b"]
    assert [one.name for one in budgets.of(BARE)] == ["a"]


def test_budgets_are_sorted_anew_only_when_they_have_changed() -> None:
    cluster = seen(a_budget(selector={}))
    first = budgets_in(cluster)
    assert budgets_in(cluster, first) is first
    changed = change(cluster, others={BUDGETS: {}})
    assert budgets_in(changed, first).of(WEB) == ()
    assert budgets_in(change(cluster, unread=(unread("apps/odd"),)), first).of(WEB) != first.of(WEB)
    assert budgets_in(cluster, UNSEEN).of(WEB)

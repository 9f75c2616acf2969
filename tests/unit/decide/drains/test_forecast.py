"""A forecast says which nodes could not be drained, and whose budget is to blame, before anybody drains any."""

from collections.abc import Iterable

from defib.decide.drains.budgets import Budgets
from defib.decide.drains.findings import Reason
from defib.decide.drains.forecast import Forecast, Forecasting
from defib.model.meta import Unstructured
from defib.model.node import Node
from defib.model.pod import Pod
from defib.model.pod_failover import KEEP
from tests.builders import MINUTE, T0, a_node
from tests.unit.decide.drains.ward import a_budget, a_leaving_pod, a_web_pod, indexed
from tests.unit.decide.failover.failovers import DAEMON_SET, a_pod

NODES = [a_node(f"n{number}") for number in range(1, 5)]


def forecast(nodes: Iterable[Node], pods: Iterable[Pod], budgets: Budgets) -> Forecast:
    counting = Forecasting(nodes, budgets, T0)
    counting.add(pods)
    return counting.result()


def foreseen(*pods: Pod, budgets: tuple[Unstructured, ...] = ()) -> Forecast:
    return forecast(NODES, pods, indexed(*budgets))


def test_a_cluster_without_budgets_can_be_drained() -> None:
    told = foreseen(a_web_pod("a", node="n1"), a_web_pod("b", node="n2"))
    assert (told.nodes, told.pods, told.blocked, told.is_blocked) == (4, 2, (), False)


def test_a_budget_that_allows_none_blocks_every_node_on_which_it_has_a_pod() -> None:
    pods = [a_web_pod("a", node="n3"), a_web_pod("b", node="n1"), a_web_pod("c", node="n1"), a_pod("d", node="n2")]
    told = foreseen(*pods, budgets=(a_budget(minAvailable=3),))
    assert told.blocked == ("n1", "n3")
    (budget,) = told.budgets
    assert (budget.budget, budget.reason, budget.nodes, budget.pods) == (
        "apps/web",
        Reason.BUDGET_NEVER,
        ("n1", "n3"),
        3,
    )
    assert budget.message == "disruption budget apps/web never lets a pod go: minAvailable 3 of 3 pods"
    assert budget.advice == "set maxUnavailable 1 instead"


def test_a_budget_that_lets_one_go_delays_a_node_with_two_and_does_not_block_it() -> None:
    pods = [a_web_pod("a", node="n1"), a_web_pod("b", node="n1"), a_web_pod("c", node="n2")]
    told = foreseen(*pods, budgets=(a_budget(minAvailable=2, allowed=1, desired=2),))
    assert told.blocked == ()
    (slow,) = told.slow
    assert (slow.budget, slow.allowed, slow.nodes) == ("apps/web", 1, ("n1",))


def test_whoever_blocks_most_nodes_comes_first() -> None:
    few = a_budget("few", selector={"matchLabels": {"app": "db"}}, minAvailable=3)
    pods = [
        a_web_pod("a", node="n1"),
        a_web_pod("b", node="n2"),
        a_web_pod("c", node="n3", labels={"app": "db"}),
    ]
    told = foreseen(*pods, budgets=(few, a_budget()))
    assert [one.budget for one in told.budgets] == ["apps/web", "apps/few"]


def test_two_budgets_on_one_pod_are_to_blame_together() -> None:
    told = foreseen(a_web_pod("a", node="n1"), budgets=(a_budget(allowed=1), a_budget("second", allowed=1)))
    (budget,) = told.budgets
    assert budget.reason is Reason.BUDGETS_SEVERAL
    assert "apps/second and apps/web" in budget.message
    assert told.blocked == ("n1",)


def test_a_pod_that_hangs_already_blocks_its_node() -> None:
    told = foreseen(
        a_leaving_pod("a", ended=T0 - MINUTE, node="n1", finalizers=["example.com/x"]),
        a_leaving_pod("b", ended=T0 - MINUTE, node="n2"),
        a_leaving_pod("c", ended=T0 + MINUTE, node="n3"),
    )
    assert [(one.pod, one.node, one.reason) for one in told.stuck] == [
        ("apps/a", "n1", Reason.FINALIZER),
        ("apps/b", "n2", Reason.STUCK),
    ]
    assert "whoever uses the domain example.com" in told.stuck[0].message
    assert told.blocked == ("n1", "n2")


def test_a_node_that_is_not_ready_cannot_be_drained_unless_it_is_empty() -> None:
    nodes = [a_node("n1", ready="Unknown"), a_node("n2", ready="Unknown")]
    told = forecast(nodes, [a_web_pod("a", node="n1")], Budgets())
    assert (told.unready, told.blocked) == (("n1",), ("n1",))


def test_pods_of_daemon_sets_and_of_other_nodes_do_not_count() -> None:
    told = foreseen(a_web_pod("a", node="n1", owner=DAEMON_SET), a_web_pod("b", node="far"), budgets=(a_budget(),))
    assert (told.pods, told.blocked) == (0, ())


def test_bare_pods_local_data_and_those_who_ask_to_stay_are_told() -> None:
    told = foreseen(
        a_pod("alone", owner=None, node="n1"),
        a_pod("cache", node="n2", volumes=[{"name": "cache", "emptyDir": {}}]),
        a_pod("kept", node="n2", annotations={KEEP: ""}),
    )
    assert [(one.pod, one.node) for one in told.bare] == [("apps/alone", "n1")]
    assert told.with_local_data == {"n2": 1}
    assert told.left_alone == {f"its annotation {KEEP} says that it stays": 1}
    assert told.blocked == ()


def test_budgets_that_nobody_sees_are_not_known() -> None:
    told = forecast(NODES, [a_web_pod("a", node="n1")], Budgets(unseen="budgets are forbidden"))
    assert told.unknown == ("budgets are forbidden",)


def test_pods_may_come_in_pages() -> None:
    pods = [a_web_pod(f"p{number}", node=f"n{number % 4 + 1}") for number in range(40)]
    counting = Forecasting(NODES, indexed(a_budget()), T0)
    for start in range(0, len(pods), 7):
        counting.add(pods[start : start + 7])
    assert counting.result() == foreseen(*pods, budgets=(a_budget(),))

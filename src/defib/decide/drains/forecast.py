"""Before anybody drains anything: which nodes could not be drained as things are, and whose budget is to blame.

A budget that lets at least one pod go only delays a node: when that one runs elsewhere, it lets the next go. One that
lets none go blocks every node on which it has a pod. Pods are counted as they come, so that none must be kept.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial

import msgspec

from defib.decide.drains.budgets import Budgets
from defib.decide.drains.findings import Finding, Reason, Told, has_local_data, owner_of
from defib.decide.drains.refusals import refusal
from defib.decide.drains.targets import left_alone, stays
from defib.model.budget import Budget
from defib.model.drain_policy import Policy, Times
from defib.model.duration import say
from defib.model.node import Node
from defib.model.pod import Pod

_NO_POLICY = Policy()
_PATIENCE = Times().extra_grace


class BudgetForecast(Told, frozen=True, kw_only=True):
    """A budget that keeps nodes from being drained, and what would have to change."""

    budget: str  # namespace/name
    reason: Reason
    message: str
    advice: str
    nodes: tuple[str, ...]
    pods: int


class PodForecast(Told, frozen=True, kw_only=True):
    """A pod that blocks its node on its own."""

    pod: str
    node: str
    reason: Reason
    message: str


class SlowBudget(Told, frozen=True, kw_only=True):
    """It lets pods go, but has more of them on one node than may go at a time."""

    budget: str
    allowed: int
    nodes: tuple[str, ...]


class Forecast(Told, frozen=True, kw_only=True):
    now: datetime
    nodes: int
    pods: int  # that would have to leave
    blocked: tuple[str, ...]  # nodes
    budgets: tuple[BudgetForecast, ...]  # whoever blocks most nodes comes first
    stuck: tuple[PodForecast, ...]
    unready: tuple[str, ...]  # nodes with pods that no kubelet would end
    slow: tuple[SlowBudget, ...]
    bare: tuple[PodForecast, ...]  # nobody would make another one
    with_local_data: Mapping[str, int]  # pods by node
    left_alone: Mapping[str, int]  # pods that ask to stay, by why
    unknown: tuple[str, ...] = ()
    is_sure: bool = msgspec.field(default=True, name="sure")  # budgets are in sight

    @property
    def is_blocked(self) -> bool:
        return bool(self.blocked)


class _Blame:
    """What one budget has on its conscience."""

    def __init__(self, found: Finding) -> None:
        self.found = found
        self.nodes: set[str] = set()
        self.pods = 0


class Forecasting:
    """Counts pods as they come. `nodes` are those that are asked about."""

    def __init__(self, nodes: Iterable[Node], budgets: Budgets, now: datetime) -> None:
        self._nodes = {node.name: node.ready == "True" for node in nodes}
        self._budgets = budgets
        self._now = now
        self._pods = 0
        self._unready: set[str] = set()
        self._blames: dict[tuple[str, Reason], _Blame] = {}
        self._stuck: list[PodForecast] = []
        self._bare: list[PodForecast] = []
        self._counts: dict[str, dict[str, int]] = {}  # pods by budget and node, where it lets some go
        self._allowed: dict[str, int] = {}
        self._local: dict[str, int] = {}
        self._kept: dict[str, int] = {}

    def add(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            if pod.spec.node_name in self._nodes and not stays(pod):
                self._add(pod)

    def _add(self, pod: Pod) -> None:
        node = pod.spec.node_name
        self._pods += 1
        if not self._nodes[node]:
            self._unready.add(node)
        told = partial(PodForecast, pod=pod.key, node=node)
        if pod.is_leaving:
            if (why := _overdue(pod, self._now)) is not None:
                self._stuck.append(told(reason=why[0], message=why[1]))
            return
        if pod.is_bare:
            self._bare.append(told(reason=Reason.BARE, message="it has no controller: nobody makes another one"))
        if has_local_data(pod):
            self._local[node] = self._local.get(node, 0) + 1
        if why_kept := left_alone(pod, _NO_POLICY):
            self._kept[why_kept] = self._kept.get(why_kept, 0) + 1
        self._ask_budgets(pod, self._budgets.of(pod))

    def _ask_budgets(self, pod: Pod, protecting: tuple[Budget, ...]) -> None:
        if not protecting:
            return
        found = refusal(pod, protecting, self._budgets)
        node = pod.spec.node_name
        if found is not None:
            blame = self._blames.setdefault((found.message, found.reason), _Blame(found))
            blame.nodes.add(node)
            blame.pods += 1
            return
        budget = protecting[0]
        there = self._counts.setdefault(budget.key, {})
        there[node] = there.get(node, 0) + 1
        self._allowed[budget.key] = budget.status.disruptions_allowed

    def result(self) -> Forecast:
        blames = sorted(self._blames.values(), key=lambda one: (-len(one.nodes), one.found.budget, one.found.message))
        blocked = {node for one in blames for node in one.nodes} | {one.node for one in self._stuck}
        blocked |= self._unready
        return Forecast(
            now=self._now,
            nodes=len(self._nodes),
            pods=self._pods,
            blocked=tuple(sorted(blocked)),
            budgets=tuple(_of_budget(one) for one in blames),
            stuck=tuple(sorted(self._stuck, key=_by_pod)),
            unready=tuple(sorted(self._unready)),
            slow=tuple(self._slow()),
            bare=tuple(sorted(self._bare, key=_by_pod)),
            with_local_data=dict(sorted(self._local.items())),
            left_alone=dict(sorted(self._kept.items())),
            unknown=(self._budgets.unseen,) if self._budgets.unseen else (),
            is_sure=not self._budgets.unseen,
        )

    def _slow(self) -> Iterator[SlowBudget]:
        for budget, there in sorted(self._counts.items()):
            allowed = self._allowed[budget]
            if nodes := tuple(sorted(node for node, pods in there.items() if pods > allowed > 0)):
                yield SlowBudget(budget=budget, allowed=allowed, nodes=nodes)


def _of_budget(blame: _Blame) -> BudgetForecast:
    found = blame.found
    return BudgetForecast(
        budget=found.budget,
        reason=found.reason,
        message=found.message,
        advice=found.advice,
        nodes=tuple(sorted(blame.nodes)),
        pods=blame.pods,
    )


def _overdue(pod: Pod, now: datetime) -> tuple[Reason, str] | None:
    """Why a pod that was told to go is still there; None while it has time."""
    ends = pod.metadata.deletion_timestamp
    if ends is None or now <= ends + _PATIENCE:
        return None
    overdue = f"it should have ended {say(timedelta(seconds=int((now - ends).total_seconds())))} ago"
    if not (held_by := pod.metadata.finalizers):
        return Reason.STUCK, overdue
    told = "; ".join(f"{one} (likely owner: {owner_of(one)})" for one in held_by)
    return Reason.FINALIZER, f"{overdue}, and is held by {told}"


def _by_pod(one: PodForecast) -> str:
    return one.pod

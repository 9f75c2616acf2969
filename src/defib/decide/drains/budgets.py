"""Which disruption budgets protect a pod: by their whole selector, in the pod's own namespace."""

from collections.abc import Mapping

import msgspec

from defib.decide.field import Field, Problems
from defib.decide.reading import read_selector
from defib.model.budget import BUDGET, Budget, read_budget
from defib.model.cluster import Cluster, Served, Unread
from defib.model.meta import Unstructured
from defib.model.pod import Pod
from defib.model.selector import EVERYTHING, Selector


class Protecting(msgspec.Struct, frozen=True):
    """A budget and whom it selects. One that cannot be understood protects its whole namespace."""

    budget: Budget
    selector: Selector | None  # None selects nobody


class Budgets(msgspec.Struct, frozen=True, kw_only=True):
    by_namespace: Mapping[str, tuple[Protecting, ...]] = {}
    unseen: str = ""  # why nobody knows which there are
    items: Mapping[str, Unstructured] = {}  # of which this was made
    unread: tuple[Unread, ...] = ()  # which are there too, and nobody could read

    def of(self, pod: Pod) -> tuple[Budget, ...]:
        there = self.by_namespace.get(pod.namespace, ())
        return tuple(one.budget for one in there if one.selector is not None and one.selector.selects(pod.labels))


UNSEEN = Budgets(unseen="disruption budgets have not been looked at yet")


def budgets_in(cluster: Cluster, before: Budgets = UNSEEN) -> Budgets:
    """`before` spares work."""
    served = cluster.kinds.get(BUDGET)
    if not isinstance(served, Served):
        return UNSEEN if served is None else Budgets(unseen=f"disruption budgets are out of sight: {served.why}")
    if served.collection not in cluster.others:
        return UNSEEN
    blind = next((one.why for one in cluster.blind if one.kind == served.collection), "")
    if why := blind or cluster.absent.get(served.collection, ""):
        return Budgets(unseen=f"disruption budgets are out of sight: {why}")
    items = cluster.all_of(served.collection, Unstructured)
    unread = tuple(one for one in cluster.unread if one.kind == served.collection)
    is_same = before.items is items and before.unread == unread and not before.unseen
    return before if is_same else index_budgets(items, unread)


def index_budgets(items: Mapping[str, Unstructured], unread: tuple[Unread, ...] = ()) -> Budgets:
    found: dict[str, list[Protecting]] = {}
    for _, item in sorted(items.items()):
        found.setdefault(item.namespace, []).append(_protecting(item))
    for one in unread:
        namespace, _, name = one.key.partition("/")
        found.setdefault(namespace, []).append(Protecting(Budget(namespace=namespace, name=name), EVERYTHING))
    by_namespace = {namespace: tuple(there) for namespace, there in found.items()}
    return Budgets(by_namespace=by_namespace, items=items, unread=unread)


def _protecting(item: Unstructured) -> Protecting:
    budget = read_budget(item)
    if budget is None:
        return Protecting(Budget(namespace=item.namespace, name=item.name), EVERYTHING)
    if budget.spec.selector is None:
        return Protecting(budget, None)
    problems = Problems()
    selector = read_selector(Field("selector", budget.spec.selector, problems))
    return Protecting(budget, selector if not problems.sentences else EVERYTHING)

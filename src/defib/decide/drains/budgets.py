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

Label = tuple[str, str]
NO_LABEL: Label = ("", "")


class Protecting(msgspec.Struct, frozen=True):
    """A budget and whom it selects. One that cannot be understood protects its whole namespace."""

    budget: Budget
    selector: Selector | None  # None selects nobody


class Budgets(msgspec.Struct, frozen=True, kw_only=True):
    """Sorted by a label that a pod must have: with hundreds of budgets, nobody could ask all of them for each pod."""

    by_label: Mapping[str, Mapping[Label, tuple[Protecting, ...]]] = {}  # in each namespace; `NO_LABEL` asks for none
    unseen: str = ""  # why nobody knows which there are
    items: Mapping[str, Unstructured] = {}  # of which this was made
    read: Mapping[str, Protecting] = {}  # each of them, understood
    unread: tuple[Unread, ...] = ()  # which are there too, and nobody could read
    members: Mapping[str, list[Protecting]] = {}  # all of them, by namespace

    def of(self, pod: Pod) -> tuple[Budget, ...]:
        there, labels = self.by_label.get(pod.namespace), pod.labels
        if there is None:
            return ()
        found = [one for label in (NO_LABEL, *labels.items()) for one in there.get(label, ())]
        chosen = [one.budget for one in found if one.selector is not None and one.selector.selects(labels)]
        return tuple(sorted(chosen, key=_name))


def _name(budget: Budget) -> str:
    return budget.name


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
    return before if is_same else index_budgets(items, unread, before)


def index_budgets(
    items: Mapping[str, Unstructured], unread: tuple[Unread, ...] = (), before: Budgets = UNSEEN
) -> Budgets:
    """What has not changed stays the same object, by which others know that it has not: a budget, and a namespace."""
    read = {
        key: before.read[key] if before.items.get(key) is item else _protecting(item) for key, item in items.items()
    }
    members: dict[str, list[Protecting]] = {}
    for protecting in (*read.values(), *map(_not_understood, unread)):
        members.setdefault(protecting.budget.namespace, []).append(protecting)
    by_label = {
        namespace: before.by_label[namespace] if before.members.get(namespace) == there else _by_label(there)
        for namespace, there in members.items()
    }
    return Budgets(by_label=by_label, items=items, read=read, unread=unread, members=members)


def _by_label(members: list[Protecting]) -> dict[Label, tuple[Protecting, ...]]:
    found: dict[Label, tuple[Protecting, ...]] = {}
    for protecting in members:
        for label in _labels(protecting.selector):
            found[label] = (*found.get(label, ()), protecting)
    return found


def _labels(selector: Selector | None) -> list[Label]:
    """One of which each pod has that it selects: of one key, with each value that it may have."""
    requirements = selector.requirements if selector is not None else ()
    wanted = next((one for one in requirements if one.operator == "In"), None)
    return [(wanted.key, value) for value in wanted.values] if wanted is not None else [NO_LABEL]


def _not_understood(one: Unread) -> Protecting:
    namespace, _, name = one.key.partition("/")
    return Protecting(Budget(namespace=namespace, name=name), EVERYTHING)


def _protecting(item: Unstructured) -> Protecting:
    budget = read_budget(item)
    if budget is None:
        return Protecting(Budget(namespace=item.namespace, name=item.name), EVERYTHING)
    if budget.spec.selector is None:
        return Protecting(budget, None)
    problems = Problems()
    selector = read_selector(Field("selector", budget.spec.selector, problems))
    return Protecting(budget, selector if not problems.sentences else EVERYTHING)

"""When it makes sense to ask for evictions that disruption budgets, as they are seen, do not allow.

The API server decides about budgets, so it is asked once in any case. After that, while the budget says that no pod may
go, to ask again changes nothing, and costs requests for every pod that waits. So they wait until it lets one go; and
since we may see it wrongly, all are asked for again every ten minutes. Where it lets some go, only so many are asked for.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from defib.decide.drains.refusals import NOT_COUNTED, is_ready, lets_unhealthy_go
from defib.model.budget import Budget
from defib.model.failure import Failure
from defib.model.pod import Pod

ASKED_EVERY = timedelta(minutes=10)
ASKED_FOR = timedelta(minutes=1)  # so long at a time: whoever was refused is not asked for again so soon
# Of one budget. The API server counts them one after the other, and lets those wait long that come together.
AT_ONCE = 10


def is_refused(pod: Pod, budgets: tuple[Budget, ...]) -> bool:
    """For sure, as far as we see. Of a pod that has several budgets the API server refuses every eviction."""
    if len(budgets) > 1:
        return pod.status.phase not in NOT_COUNTED and all(map(is_counted, budgets))
    budget = judging(pod, budgets)
    return budget is not None and refuses(budget)


def judging(pod: Pod, budgets: tuple[Budget, ...]) -> Budget | None:
    """The budget by which the API server decides about its eviction; None where there is none, or several."""
    if len(budgets) != 1 or pod.status.phase in NOT_COUNTED:
        return None
    return budgets[0] if is_ready(pod) or not lets_unhealthy_go(budgets[0]) else None


def refuses(budget: Budget) -> bool:
    return is_counted(budget) and budget.status.disruptions_allowed <= 0


def is_counted(budget: Budget) -> bool:
    """Its pods, since it was changed."""
    return 0 < budget.generation <= budget.status.observed_generation


def asked_at(since: datetime, now: datetime) -> datetime:
    """When a pod is asked for that is refused, and was asked for first at `since`: now, or when its time comes again."""
    into = (now - since) % ASKED_EVERY
    return now if into < ASKED_FOR else now - into + ASKED_EVERY


class Asking:
    """Which evictions are worth a request. Lives for one pass, and fills up as pods are asked for."""

    def __init__(self, evictions: Mapping[str, Failure], now: datetime) -> None:
        self._evictions = evictions  # that failed, by the UID of the pod
        self._now = now
        self._asked: dict[str, int] = {}  # by budget
        self.moments: list[datetime] = []  # when it is worth it to ask again

    def is_worth_it(self, pod: Pod, budgets: tuple[Budget, ...], refused_since: datetime | None) -> bool:
        if refused_since is not None:
            at = asked_at(refused_since, self._now)
            self.moments += [at] if at > self._now else []
            return at <= self._now
        budget = judging(pod, budgets)
        if budget is None or not is_counted(budget) or pod.uid in self._evictions:
            return True  # one that failed rests by itself, and keeps nobody else waiting
        asked = self._asked[budget.key] = self._asked.get(budget.key, 0) + 1
        return refuses(budget) or asked <= min(budget.status.disruptions_allowed, AT_ONCE)

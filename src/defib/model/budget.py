"""A PodDisruptionBudget, as far as we look at it: whose pods it protects, and how many of them may go now."""

from typing import Any

import msgspec

from defib.model.health_check import KindRef
from defib.model.meta import Unstructured, Wire

BUDGET = KindRef("policy/v1", "PodDisruptionBudget")


class BudgetSpec(Wire, frozen=True):
    selector: dict[str, Any] | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    unhealthy_pod_eviction_policy: str = ""


class BudgetStatus(Wire, frozen=True):
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int = 0


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str
    name: str
    generation: int = 0
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def read_budget(item: Unstructured) -> Budget | None:
    """None where it makes no sense; the API server does not store such."""
    try:
        spec = msgspec.convert(item.spec or {}, BudgetSpec)
        status = msgspec.convert(item.status or {}, BudgetStatus)
    except msgspec.ValidationError:
        return None
    return Budget(
        namespace=item.namespace,
        name=item.name,
        generation=item.metadata.generation,
        spec=spec,
        status=status,
    )

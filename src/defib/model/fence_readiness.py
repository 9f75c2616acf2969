"""What a PowerCycleRemediationTemplate says of the nodes that it covers: which of them could be fenced now."""

from datetime import datetime

import msgspec

from defib.model.health_check import StatusCondition
from defib.model.meta import Unstructured, Wire

FENCE_READY = "FenceReady"
NOT_READY_MAX = 100
WHY_MAX = 1024


class NotReadyNode(Wire, frozen=True):
    node: str = ""
    why: str = ""
    since: datetime | None = None


class FenceStatus(Wire, frozen=True):
    covered: int | None = None
    ready: int | None = None
    not_ready: list[NotReadyNode] | None = None
    conditions: list[StatusCondition] | None = None

    @property
    def condition(self) -> StatusCondition | None:
        return next((condition for condition in self.conditions or () if condition.type == FENCE_READY), None)


def read_fence_status(item: Unstructured) -> FenceStatus:
    """A status that makes no sense counts as none: what is said of it will be said anew."""
    try:
        return msgspec.convert(item.status or {}, FenceStatus)
    except msgspec.ValidationError:
        return FenceStatus()

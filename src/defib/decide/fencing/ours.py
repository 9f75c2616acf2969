"""Our own kinds that fence a node: one switches the power of its machine, the other has the node take itself down."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from defib.decide.fencing.policy import read_policy, read_self_fence
from defib.model import power_cycle, self_fencing
from defib.model.health_check import KindRef
from defib.model.power_cycle import Policy


class Ours(msgspec.Struct, frozen=True):
    """`read` understands the spec of a remediation, or of what its template says, for one node or for all."""

    remediation: KindRef
    template: KindRef
    finalizer: str
    read: Callable[[Any, str | None], Policy | tuple[str, ...]]


POWER_CYCLE = Ours(power_cycle.REMEDIATION, power_cycle.TEMPLATE, power_cycle.FINALIZER, read_policy)
SELF_FENCE = Ours(self_fencing.REMEDIATION, self_fencing.TEMPLATE, self_fencing.FINALIZER, read_self_fence)
OURS = (POWER_CYCLE, SELF_FENCE)
BY_REMEDIATION: Mapping[KindRef, Ours] = MappingProxyType({one.remediation: one for one in OURS})
BY_TEMPLATE: Mapping[KindRef, Ours] = MappingProxyType({one.template: one for one in OURS})

"""PowerCycleRemediation: switch a failed machine off, free its workloads, bring it back. What it can be told."""

from datetime import timedelta
from enum import StrEnum
from typing import Any

import msgspec

from defib.model.health_check import KindRef, StatusCondition
from defib.model.incident import API_VERSION, Grade
from defib.model.meta import Unstructured, Wire

REMEDIATION = KindRef(API_VERSION, "PowerCycleRemediation")
TEMPLATE = KindRef(API_VERSION, "PowerCycleRemediationTemplate")
FINALIZER = "defib.dev/power-cycle"
LOCK_HOLDER = "defib-power-cycle"  # of a node that no NodeHealthCheck holds for us


class Workloads(StrEnum):
    """How Kubernetes is told that nothing runs on the machine any more."""

    AUTO = "Auto"
    TAINT = "OutOfServiceTaint"
    DELETE_NODE = "DeleteNode"


class HandOver(StrEnum):
    """What happens when all attempts have failed."""

    PERSON = "Person"
    DELETE_MACHINE = "DeleteMachine"


class Way(Wire, frozen=True):
    """Where the power of a machine is, as a template or one of its nodes says. Texts may hold {placeholders}."""

    driver: str = ""
    address: str = ""
    credentials: str = ""  # a Secret in the namespace of the remediation
    options: dict[str, str] | None = None


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How a machine is to be fenced and brought back."""

    way: Way = Way()
    ways: dict[str, Way] = {}  # by node; what one says there beats what is said for all
    workloads: Workloads = Workloads.AUTO
    accepts: tuple[Grade, ...] = (Grade.POWER, Grade.PERSON)
    attempts: int = 3
    backoff: timedelta = timedelta(seconds=30)
    off_within: timedelta = timedelta(seconds=60)
    free_within: timedelta = timedelta(minutes=2)
    on_within: timedelta = timedelta(minutes=1)
    back_within: timedelta = timedelta(minutes=10)
    needs_new_boot: bool = True
    restores_taints: bool = True
    hand_over: HandOver = HandOver.PERSON


class PowerCycleStatus(Wire, frozen=True):
    node: str = ""
    phase: str = ""
    reason: str = ""
    attempt: int | None = None
    proof: str = ""
    conditions: list[StatusCondition] | None = None

    def condition(self, kind: str) -> StatusCondition | None:
        return next((condition for condition in self.conditions or () if condition.type == kind), None)


def read_power_cycle_status(item: Unstructured) -> PowerCycleStatus:
    """A status that makes no sense counts as none: what is said of it will be said anew."""
    try:
        return msgspec.convert(item.status or {}, PowerCycleStatus)
    except msgspec.ValidationError:
        return PowerCycleStatus()


def template_spec(item: Unstructured) -> dict[str, Any]:
    """What a template says of the remediations that are made from it."""
    template = (item.spec or {}).get("template")
    spec = template.get("spec") if isinstance(template, dict) else None
    return spec if isinstance(spec, dict) else {}

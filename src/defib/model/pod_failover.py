"""PodFailoverRemediation: the object by which a NodeHealthCheck asks us to let the pods of a failed node run elsewhere."""

from datetime import datetime
from fnmatch import fnmatchcase

import msgspec

from defib.model.health_check import KindRef, StatusCondition
from defib.model.incident import Grade
from defib.model.meta import OwnerReference, Unstructured, Wire
from defib.model.pod import Pod
from defib.model.selector import EVERYTHING, Selector

API_VERSION = "defib.dev/v1alpha1"
REMEDIATION = KindRef(API_VERSION, "PodFailoverRemediation")
TEMPLATE = KindRef(API_VERSION, "PodFailoverRemediationTemplate")
FINALIZER = "defib.dev/pod-failover"
KEEP = "defib.dev/keep"  # on a pod: leave it where it is

DEFAULT_CHECK = "nhc-worker-default"
DEFAULT_TEMPLATE = "defib-pod-failover"

USUAL_PROOFS = frozenset({Grade.POWER, Grade.STORAGE})


class Owner(msgspec.Struct, frozen=True):
    """Controllers of a kind, by a pattern for their names."""

    kind: str
    name: str = "*"

    def is_for(self, owner: OwnerReference | None) -> bool:
        return owner is not None and owner.kind == self.kind and fnmatchcase(owner.name, self.name)


class Exclusions(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that stay, whatever else is said. Names are patterns with * and ?."""

    names: tuple[str, ...] = ()
    selector: Selector | None = None
    owners: tuple[Owner, ...] = ()
    claims: tuple[str, ...] = ()

    def reason(self, pod: Pod) -> str:
        """Which of them names this pod; empty when none does."""
        if any(fnmatchcase(pod.name, pattern) for pattern in self.names):
            return "names"
        if self.selector is not None and self.selector.selects(pod.labels):
            return "selector"
        if any(owner.is_for(pod.controller) for owner in self.owners):
            return "owners"
        is_named = any(fnmatchcase(claim, pattern) for claim in pod.claims for pattern in self.claims)
        return "claims" if is_named else ""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """Which pods of a failed node shall leave it, and how."""

    selector: Selector = EVERYTHING
    exclude: Exclusions = Exclusions()
    grace_seconds: int | None = None  # None: as each pod says; 0: by force
    accepts: frozenset[Grade] = USUAL_PROOFS  # what pods wait for that must not run twice; none: nothing is waited for
    is_chosen: bool = False  # somebody has named these very pods, and knows that they may run twice

    @property
    def is_forced(self) -> bool:
        return self.grace_seconds == 0


class FailoverStatus(Wire, frozen=True):
    """What we write down. `node_uid` and `not_ready_since` say which failure of which node it is about."""

    node: str = ""
    node_uid: str = msgspec.field(default="", name="nodeUID")
    not_ready_since: datetime | None = None
    found: int | None = None
    moved: int | None = None
    waiting: int | None = None
    left: int | None = None
    conditions: list[StatusCondition] | None = None

    def condition(self, kind: str) -> StatusCondition | None:
        return next((condition for condition in self.conditions or () if condition.type == kind), None)


def read_failover_status(item: Unstructured) -> FailoverStatus:
    """A status that makes no sense counts as none: what is said of it will be said anew."""
    try:
        return msgspec.convert(item.status or {}, FailoverStatus)
    except msgspec.ValidationError:
        return FailoverStatus()

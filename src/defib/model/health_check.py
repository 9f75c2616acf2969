"""A NodeHealthCheck: as it stands in the cluster, as we understand it, and what we write into its status."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

from defib.model.amount import Amount
from defib.model.evidence import Source
from defib.model.meta import Resource, Wire
from defib.model.selector import EVERYTHING, Selector

DEFAULT_MAX_UNHEALTHY = Amount(49, is_percent=True)
HISTORY_MAX = 1000
SPELLS_MAX, SPELLS_OPEN_MAX = 200, 100  # in all, and of those that go on: a lost zone must not push out what was before


class NodeHealthCheck(Resource, frozen=True):
    """As it came. It is read by decide/reading.py, which never trusts that the API server has checked it."""

    spec: Any = None
    status: Any = None


class Mode(StrEnum):
    AUTOMATIC = "Automatic"
    APPROVE = "Approve"
    OBSERVE = "Observe"


class UnhealthyCondition(msgspec.Struct, frozen=True):
    """A node that has had this condition for longer than this is unhealthy."""

    type: str
    status: str
    duration: timedelta


class KindRef(msgspec.Struct, frozen=True):
    """A kind as an object reference names it. Unknown until the API server was asked."""

    api_version: str
    name: str

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]

    def __str__(self) -> str:
        return f"{self.name} ({self.api_version})"


class TemplateRef(msgspec.Struct, frozen=True):
    kind: KindRef
    namespace: str
    name: str

    @property
    def makes(self) -> KindRef:
        """The kind of the remediations that are made from it."""
        return KindRef(self.kind.api_version, self.kind.name.removesuffix("Template"))

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def __str__(self) -> str:
        return f"{self.kind.name} {self.key}"


class Step(msgspec.Struct, frozen=True):
    """One template to remediate with; `timeout` is None where it is the only one."""

    template: TemplateRef
    order: int = 0
    timeout: timedelta | None = None


class Domain(msgspec.Struct, frozen=True):
    label: str
    max_in_flight: Amount


class Rate(msgspec.Struct, frozen=True):
    count: int
    within: timedelta


class Guards(msgspec.Struct, frozen=True, kw_only=True):
    """Limits beyond the threshold. None of them is on unless it is asked for."""

    max_in_flight: Amount | None = None
    domains: tuple[Domain, ...] = ()
    always_allow_one: bool = False
    rate_limit: Rate | None = None
    flap_damping: Rate | None = None


class FastPath(msgspec.Struct, frozen=True, kw_only=True):
    """How silent a node must be, who must have spoken, and what must prove it, to act before Kubernetes says so."""

    missed: int = 2  # renewals of its heartbeat
    evidence: tuple[Source, ...] = (Source.KUBELET, Source.POWER)
    proof: tuple[str, ...] = ("A", "D")  # grades; its template must not be content with any other


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A NodeHealthCheck that makes sense."""

    name: str
    uid: str = ""
    version: str = ""
    generation: int = 0
    is_being_deleted: bool = False
    annotations: dict[str, str] = {}
    selector: Selector = EVERYTHING
    conditions: tuple[UnhealthyCondition, ...] = ()
    limit: Amount = DEFAULT_MAX_UNHEALTHY
    limit_is_min_healthy: bool = False
    storm_cooldown: timedelta | None = None
    steps: tuple[Step, ...] = ()
    escalates: bool = False
    pause_requests: tuple[str, ...] = ()
    healthy_delay: timedelta | None = None
    mode: Mode = Mode.AUTOMATIC
    guards: Guards = Guards()
    fast_path: FastPath | None = None

    def fewest_healthy(self, total: int) -> int:
        """Below so many healthy nodes, nothing new is remediated."""
        fewest = self.limit.of(total) if self.limit_is_min_healthy else max(total - self.limit.of(total), 0)
        return min(fewest, max(total - 1, 0)) if self.guards.always_allow_one else fewest


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """A NodeHealthCheck that makes no sense. Each problem is a sentence that names the field."""

    name: str
    uid: str = ""
    version: str = ""
    generation: int = 0
    problems: tuple[str, ...]


class ObjectRef(Wire, frozen=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class StartedRemediation(Wire, frozen=True):
    resource: ObjectRef = ObjectRef()
    started: datetime | None = None
    timed_out: datetime | None = None
    template_name: str = ""


class UnhealthyNode(Wire, frozen=True):
    """What the status says of one node. `reason` and `message` are what the last event said."""

    name: str
    remediations: list[StartedRemediation] | None = None
    conditions_healthy_timestamp: datetime | None = None
    healthy_delayed: bool | None = None
    reason: str = ""
    message: str = ""
    since: datetime | None = None


class StatusCondition(Wire, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int = 0


class Began(Wire, frozen=True):
    """A node that was newly remediated, and when."""

    node: str
    started: datetime


class Spell(Wire, frozen=True):
    """For how long one node showed one unhealthy condition, whether or not anything came of it. Whole seconds.

    Of a missed heartbeat, `began` is when the fast path was sure of it. `healed`: the condition went away; else the node
    did, or the check stopped asking. `remediated`: from then on it did not go by itself any more, whoever began it.
    """

    node: str
    type: str
    status: str
    began: datetime
    ended: datetime | None = None
    healed: bool = False
    silent_since: datetime | None = None  # its last heartbeat
    remediated: datetime | None = None
    upgrade: str = ""  # which one took nodes down on purpose meanwhile


class CheckStatus(Wire, frozen=True):
    observed_generation: int = 0
    observed_nodes: int | None = None
    healthy_nodes: int | None = None
    unhealthy_count: int | None = None
    unhealthy_nodes: list[UnhealthyNode] | None = None
    conditions: list[StatusCondition] | None = None
    history: list[Began] | None = None
    spells: list[Spell] | None = None
    phase: str = ""
    reason: str = ""
    last_update_time: datetime | None = None

    def condition(self, kind: str) -> StatusCondition | None:
        return next((c for c in self.conditions or () if c.type == kind), None)

    def is_true(self, kind: str) -> bool:
        condition = self.condition(kind)
        return condition is not None and condition.status == "True"

    def node(self, name: str) -> UnhealthyNode | None:
        return next((node for node in self.unhealthy_nodes or () if node.name == name), None)

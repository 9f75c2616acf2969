"""What a story says, as frozen structs. Everything that can be written in a story carries the sentence it is written as.

In a sentence `{node}` stands for the field of that name, `[word]` for a word that may be missing (its field is a bool).
The type of a field says how it is written; grammar.py knows how. A field that is a tuple of phrases takes the rest of
the line: one sentence after the other.
"""

from enum import Enum
from typing import ClassVar, NewType

import msgspec

from defib.model.health_check import Mode

PodName = NewType("PodName", str)
"""A pod by its name, or a workload: then the first of its pods is meant, by name."""
WorkloadName = NewType("WorkloadName", str)
NewName = NewType("NewName", str)
"""Of something that is made here."""
Word = NewType("Word", str)
Text = NewType("Text", str)
"""Several words between quotation marks."""
CheckName = NewType("CheckName", str)
"""Of a NodeHealthCheck."""
PolicyName = NewType("PolicyName", str)
"""Of a PodFailoverPolicy."""
Chosen = NewType("Chosen", str)
"""Nodes by what they are: `all`, `workers`, `control-plane`, a zone, or a label such as `pool=gpu`."""
TemplateName = NewType("TemplateName", str)
"""`foo`, or another template of the same remediator: `foo-gentle`."""
PowerTemplateName = NewType("PowerTemplateName", str)
"""`power`, or another one: `power-gentle`."""
FailoverTemplateName = NewType("FailoverTemplateName", str)
Amount = NewType("Amount", str)
"""A number of nodes, or a share of them."""


class Pair(msgspec.Struct, frozen=True):
    """Written as `key=value`."""

    key: str
    value: str


class Remediator(Enum):
    """Who mends nodes in a story. The first two do nothing but what the story says; the others are Defib itself."""

    FOO = "foo"
    BAR = "bar"
    POWER = "power"
    FAILOVER = "failover"


class Truth(Enum):
    """What a condition can be."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class NamedNode(msgspec.Struct, frozen=True):
    name: str

    def __str__(self) -> str:
        return self.name


class NodeOf(msgspec.Struct, frozen=True):
    """The node on which a pod is at that moment."""

    pod: PodName

    def __str__(self) -> str:
        return f"node of {self.pod}"


class ThatNode(msgspec.Struct, frozen=True):
    """The one that the last harm was done to."""

    def __str__(self) -> str:
        return "that node"


Where = NamedNode | NodeOf | ThatNode


class Timers(Enum):
    DEFAULT = "default"
    COMPRESSED = "compressed"


class Access(Enum):
    """As kubectl abbreviates them."""

    RWO = "RWO"
    RWOP = "RWOP"
    RWX = "RWX"


class Phrase(msgspec.Struct, frozen=True, kw_only=True):
    """Anything that has a sentence."""

    sentence: ClassVar[str]


class OfRemediation(Phrase, frozen=True):
    """A condition about checks, remediations, policies, locks or machines: only where the story has an operator."""


class UsesTimers(Phrase, frozen=True):
    sentence = "timers {timers}"
    timers: Timers


class Nodes(Phrase, frozen=True):
    sentence = "nodes {names}"
    names: tuple[NewName, ...]
    zone: str = "zone-a"


class NodesInZone(Phrase, frozen=True):
    sentence = "nodes {names} in {zone}"
    names: tuple[NewName, ...]
    zone: NewName


class NodeRole(Enum):
    CONTROL_PLANE = "control-plane"
    WORKER = "worker"


class NodesWithRole(Phrase, frozen=True):
    sentence = "nodes {names} as {role}"
    names: tuple[NewName, ...]
    role: NodeRole
    zone: str = "zone-a"


class Deployment(Phrase, frozen=True):
    sentence = "deployment {name} replicas {replicas}"
    name: NewName
    replicas: int


class StatefulSet(Phrase, frozen=True):
    sentence = "statefulset {name} replicas {replicas}"
    name: NewName
    replicas: int


class StatefulSetWithVolume(Phrase, frozen=True):
    sentence = "statefulset {name} replicas {replicas} volume {access}"
    name: NewName
    replicas: int
    access: Access


class DaemonSet(Phrase, frozen=True):
    sentence = "daemonset {name}"
    name: NewName


class BarePod(Phrase, frozen=True):
    sentence = "pod {name}"
    name: NewName


class MinAvailable(Phrase, frozen=True):
    sentence = "budget {workload} min-available {count}"
    workload: WorkloadName
    count: int


class MaxUnavailable(Phrase, frozen=True):
    sentence = "budget {workload} max-unavailable {count}"
    workload: WorkloadName
    count: int


class OperatorSetting(Phrase, frozen=True):
    """As in a settings file: `resync 30s`."""

    sentence = "{key} {value}"
    key: Word
    value: Word


class Operator(Phrase, frozen=True):
    sentence = "operator"
    settings: tuple[OperatorSetting, ...] = ()


class OperatorWith(Phrase, frozen=True):
    sentence = "operator with {settings}"
    settings: tuple[OperatorSetting, ...]


class OpenShift(Phrase, frozen=True):
    """Its kinds are there: ClusterVersion, Machine, MachineHealthCheck."""

    sentence = "openshift"


class Template(Phrase, frozen=True):
    sentence = "template {name} [multiple] [broken]"
    name: TemplateName
    multiple: bool
    broken: bool


class DeletesNode(Phrase, frozen=True):
    sentence = "deletes-node"


class Attempts(Phrase, frozen=True):
    sentence = "attempts {count}"
    count: int


class Backoff(Phrase, frozen=True):
    sentence = "backoff {seconds}"
    seconds: float


class PowerField(Phrase, frozen=True):
    """Any other field of the remediation's spec, by its path; the value is YAML without spaces."""

    sentence = "{field}"
    field: Pair


PowerPart = DeletesNode | Attempts | Backoff | PowerField


class PowerTemplate(Phrase, frozen=True):
    """A PowerCycleRemediationTemplate that is not as short as `template power`."""

    sentence = "template {name} {parts}"
    name: PowerTemplateName
    parts: tuple[PowerPart, ...]


class Selects(Phrase, frozen=True):
    sentence = "selects {nodes}"
    nodes: Chosen


class AtMostUnhealthy(Phrase, frozen=True):
    sentence = "max-unhealthy {amount}"
    amount: Amount


class AtLeastHealthy(Phrase, frozen=True):
    sentence = "min-healthy {amount}"
    amount: Amount


class After(Phrase, frozen=True):
    sentence = "after {seconds}"
    seconds: float


class With(Phrase, frozen=True):
    sentence = "with {template}"
    template: TemplateName


class Escalates(Phrase, frozen=True):
    sentence = "escalates {template} {seconds}"
    template: TemplateName
    seconds: float


class Then(Phrase, frozen=True):
    sentence = "then {template} {seconds}"
    template: TemplateName
    seconds: float


class HealthyDelay(Phrase, frozen=True):
    sentence = "healthy-delay {seconds}"
    seconds: float


class StormCooldown(Phrase, frozen=True):
    sentence = "storm-cooldown {seconds}"
    seconds: float


class InMode(Phrase, frozen=True):
    sentence = "mode {mode}"
    mode: Mode


class Field(Phrase, frozen=True):
    """Any other field of the spec, by its path; the value is YAML without spaces."""

    sentence = "{field}"
    field: Pair


Part = (
    Selects
    | AtMostUnhealthy
    | AtLeastHealthy
    | After
    | With
    | Escalates
    | Then
    | HealthyDelay
    | StormCooldown
    | InMode
    | Field
)


class Check(Phrase, frozen=True):
    """A NodeHealthCheck."""

    sentence = "check {name} {parts}"
    name: NewName
    parts: tuple[Part, ...]


class FailoverTemplate(Phrase, frozen=True):
    """A PodFailoverRemediationTemplate that is not as short as `template failover`."""

    sentence = "template {name} {parts}"
    name: FailoverTemplateName
    parts: tuple[Field, ...]


class ForWorkload(Phrase, frozen=True):
    sentence = "for {workload}"
    workload: WorkloadName


class Dwell(Phrase, frozen=True):
    sentence = "dwell {seconds}"
    seconds: float


PolicyPart = ForWorkload | Dwell | Field


class Policy(Phrase, frozen=True):
    """A PodFailoverPolicy."""

    sentence = "policy {name} {parts}"
    name: NewName
    parts: tuple[PolicyPart, ...]


Workload = Deployment | StatefulSet | StatefulSetWithVolume | DaemonSet | BarePod
Budget = MinAvailable | MaxUnavailable
NodeRow = Nodes | NodesInZone | NodesWithRole
AnyTemplate = Template | PowerTemplate | FailoverTemplate
Header = UsesTimers | NodeRow | Workload | Budget | Operator | OperatorWith | OpenShift | AnyTemplate | Check | Policy


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the timeline. It begins at its time, or at once when the one before it has ended later than that."""

    line: int
    text: str
    at: float | None
    does: Phrase


class Story(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    title: str
    timers: Timers
    nodes: tuple[NodeRow, ...]
    workloads: tuple[Workload, ...]
    budgets: tuple[Budget, ...]
    steps: tuple[Step, ...]
    operator: Operator | OperatorWith | None = None
    is_openshift: bool = False
    templates: tuple[AnyTemplate, ...] = ()
    checks: tuple[Check, ...] = ()
    policies: tuple[Policy, ...] = ()

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2].removesuffix(".story")

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(name for row in self.nodes for name in row.names)

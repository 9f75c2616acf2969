"""What can be expected in a story, and how: within a time, now, never or always for a time."""

from enum import Enum

from testbed.scenario.failover_conditions import FAILOVER_CONDITIONS
from testbed.scenario.power_conditions import POWER_CONDITIONS
from testbed.scenario.story import (
    CheckName,
    OfRemediation,
    Phrase,
    PodName,
    TemplateName,
    Text,
    Truth,
    Where,
    Word,
    WorkloadName,
)


class PodState(Enum):
    """`Running` says the phase alone, as it also stands on a dead node; `Ready` that it serves."""

    PENDING = "Pending"
    RUNNING = "Running"
    READY = "Ready"
    TERMINATING = "Terminating"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    GONE = "gone"


class NodeCondition(Enum):
    """By the Ready condition."""

    READY = "Ready"
    NOT_READY = "NotReady"
    UNKNOWN = "Unknown"
    GONE = "gone"


class DiskState(Enum):
    CLEAN = "clean"
    CORRUPT = "corrupt"


class EvictionOutcome(Enum):
    ALLOWED = "allowed"
    BLOCKED = "blocked"


class PodIs(Phrase, frozen=True):
    sentence = "pod {pod} {state} [elsewhere]"
    pod: PodName
    state: PodState
    elsewhere: bool


class PodsAre(Phrase, frozen=True):
    sentence = "pods {workload} {state} {count} [elsewhere]"
    workload: WorkloadName
    state: PodState
    count: int
    elsewhere: bool


class NodeIs(Phrase, frozen=True):
    """Written with or without the word `node` before the node: `node n1`, `that node`, `node of db-0`."""

    sentence = "{node} {state}"
    node: Where
    state: NodeCondition


class NodeIsTainted(Phrase, frozen=True):
    sentence = "{node} tainted {key}"
    node: Where
    key: Word


class NodeIsAnnotated(Phrase, frozen=True):
    sentence = "{node} annotated {key}"
    node: Where
    key: Word


class NodeIsNotAnnotated(Phrase, frozen=True):
    sentence = "{node} not annotated {key}"
    node: Where
    key: Word


class DiskIs(Phrase, frozen=True):
    sentence = "disk of {pod} {state}"
    pod: PodName
    state: DiskState


class VolumeAttached(Phrase, frozen=True):
    sentence = "volume of {pod} attached to {node}"
    pod: PodName
    node: Where


class VolumeDetached(Phrase, frozen=True):
    sentence = "volume of {pod} detached from {node}"
    pod: PodName
    node: Where


class EventSeen(Phrase, frozen=True):
    sentence = "event {reason} about {name}"
    reason: Word
    name: Word


class AnyEventSeen(Phrase, frozen=True):
    sentence = "event {reason}"
    reason: Word


class EventsSeen(Phrase, frozen=True):
    """How often it was told, however many objects that took."""

    sentence = "event {reason} times {count}"
    reason: Word
    count: int


class EventSays(Phrase, frozen=True):
    sentence = "event {reason} says {text}"
    reason: Word
    text: Text


class EvictionWas(Phrase, frozen=True):
    """The last one that the story asked for."""

    sentence = "eviction {outcome}"
    outcome: EvictionOutcome


class Remediated(OfRemediation, frozen=True):
    """As long as the object is there, also while it is being deleted."""

    sentence = "remediation of {node}"
    node: Where


class NotRemediated(OfRemediation, frozen=True):
    sentence = "no remediation of {node}"
    node: Where


class RemediatedBy(OfRemediation, frozen=True):
    sentence = "remediation of {node} by {template}"
    node: Where
    template: TemplateName


class RemediationEnding(OfRemediation, frozen=True):
    """Deleted, and not gone: its remediator holds it."""

    sentence = "remediation of {node} ending"
    node: Where


class RemediationTimedOut(OfRemediation, frozen=True):
    sentence = "remediation of {node} by {template} timed out"
    node: Where
    template: TemplateName


class RemediationAnnotated(OfRemediation, frozen=True):
    sentence = "remediation of {node} annotated {key}"
    node: Where
    key: Word


class RemediationsOf(OfRemediation, frozen=True):
    sentence = "remediations of {node} {count}"
    node: Where
    count: int


class RemediationsSoFar(OfRemediation, frozen=True):
    """Those that are gone count too."""

    sentence = "remediations of {node} so far {count}"
    node: Where
    count: int


class Remediations(OfRemediation, frozen=True):
    sentence = "remediations {count}"
    count: int


class CheckPhase(Enum):
    ENABLED = "Enabled"
    REMEDIATING = "Remediating"
    PAUSED = "Paused"
    DISABLED = "Disabled"


class CheckIs(OfRemediation, frozen=True):
    sentence = "check {check} {phase}"
    check: CheckName
    phase: CheckPhase


class CheckCounts(OfRemediation, frozen=True):
    sentence = "check {check} healthy {healthy} of {observed}"
    check: CheckName
    healthy: int
    observed: int


class CheckSays(OfRemediation, frozen=True):
    """In its reason, in the message of a condition, or about one of its nodes."""

    sentence = "check {check} says {text}"
    check: CheckName
    text: Text


class CheckLists(OfRemediation, frozen=True):
    sentence = "check {check} lists {node}"
    check: CheckName
    node: Where


class CheckListsSo(OfRemediation, frozen=True):
    """So many nodes stand in its status as unhealthy."""

    sentence = "check {check} lists {count} nodes"
    check: CheckName
    count: int


class CheckCondition(OfRemediation, frozen=True):
    sentence = "condition {kind} of check {check} {status}"
    kind: Word
    check: CheckName
    status: Truth


class LockHeld(OfRemediation, frozen=True):
    sentence = "lock {node} held by {holder}"
    node: Where
    holder: Word


class LockFree(OfRemediation, frozen=True):
    """Nobody holds it; one that ran out is held by nobody."""

    sentence = "lock {node} free"
    node: Where


CONDITIONS: tuple[type[Phrase], ...] = (
    PodIs,
    PodsAre,
    DiskIs,
    VolumeAttached,
    VolumeDetached,
    EventSeen,
    EventsSeen,
    EventSays,
    AnyEventSeen,
    EvictionWas,
    NodeIs,
    NodeIsTainted,
    NodeIsAnnotated,
    NodeIsNotAnnotated,
    RemediatedBy,
    RemediationEnding,
    RemediationTimedOut,
    RemediationAnnotated,
    Remediated,
    NotRemediated,
    RemediationsOf,
    RemediationsSoFar,
    Remediations,
    CheckCounts,
    CheckSays,
    CheckLists,
    CheckListsSo,
    CheckIs,
    CheckCondition,
    LockHeld,
    LockFree,
    *POWER_CONDITIONS,
    *FAILOVER_CONDITIONS,
)


class Within(Phrase, frozen=True):
    sentence = "expect {condition} within {seconds}"
    condition: Phrase
    seconds: float


class Now(Phrase, frozen=True):
    sentence = "expect {condition}"
    condition: Phrase


class Never(Phrase, frozen=True):
    sentence = "expect never {condition} for {seconds}"
    condition: Phrase
    seconds: float


class Always(Phrase, frozen=True):
    sentence = "expect always {condition} for {seconds}"
    condition: Phrase
    seconds: float


EXPECTATIONS: tuple[type[Phrase], ...] = (Within, Now, Never, Always)

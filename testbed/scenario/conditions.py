"""What can be expected in a story, and how: within a time, now, never or always for a time."""

from enum import Enum

from testbed.scenario.story import Phrase, PodName, Where, Word, WorkloadName


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


class EvictionWas(Phrase, frozen=True):
    """The last one that the story asked for."""

    sentence = "eviction {outcome}"
    outcome: EvictionOutcome


CONDITIONS: tuple[type[Phrase], ...] = (
    PodIs,
    PodsAre,
    DiskIs,
    VolumeAttached,
    VolumeDetached,
    EventSeen,
    AnyEventSeen,
    EvictionWas,
    NodeIs,
    NodeIsTainted,
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

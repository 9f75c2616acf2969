"""What can be done to a cluster in a story. `Harm` is what a node suffers; the rest is done by people, or undoes it."""

from testbed.scenario.power_deeds import POWER_DEEDS
from testbed.scenario.remediation_deeds import REMEDIATION_DEEDS
from testbed.scenario.story import Pair, Phrase, PodName, Truth, Where, Word, WorkloadName


class Harm(Phrase, frozen=True):
    """Makes its node `that node`; `elsewhere` is every other one."""

    node: Where


class PowerOff(Harm, frozen=True):
    sentence = "power off {node}"


class Hang(Harm, frozen=True):
    sentence = "hang {node}"


class Partition(Harm, frozen=True):
    sentence = "partition {node}"


class Slow(Harm, frozen=True):
    sentence = "slow {node} by {seconds}"
    seconds: float


class Flap(Harm, frozen=True):
    sentence = "flap {node} silent {silent} alive {alive}"
    silent: float
    alive: float


class Drain(Harm, frozen=True):
    sentence = "drain {node} within {seconds}"
    seconds: float


class PowerOn(Phrase, frozen=True):
    sentence = "power on {node}"
    node: Where


class Heal(Phrase, frozen=True):
    sentence = "heal {node}"
    node: Where


class Cordon(Phrase, frozen=True):
    sentence = "cordon {node}"
    node: Where


class Uncordon(Phrase, frozen=True):
    sentence = "uncordon {node}"
    node: Where


class TaintOutOfService(Phrase, frozen=True):
    sentence = "taint {node} out-of-service"
    node: Where


class UntaintOutOfService(Phrase, frozen=True):
    sentence = "untaint {node} out-of-service"
    node: Where


class Taint(Phrase, frozen=True):
    """A key and its effect, as `example.com/drain=NoSchedule`."""

    sentence = "taint {node} with {taint}"
    node: Where
    taint: Pair


class Untaint(Phrase, frozen=True):
    sentence = "untaint {node} from {key}"
    node: Where
    key: Word


class DeleteNode(Phrase, frozen=True):
    sentence = "delete node {node}"
    node: Where


class DeletePod(Phrase, frozen=True):
    sentence = "delete pod {pod}"
    pod: PodName


class ForceDeletePod(Phrase, frozen=True):
    sentence = "force delete pod {pod}"
    pod: PodName


class DeleteAttachment(Phrase, frozen=True):
    sentence = "delete attachment of {pod}"
    pod: PodName


class Evict(Phrase, frozen=True):
    sentence = "evict pod {pod}"
    pod: PodName


class Scale(Phrase, frozen=True):
    sentence = "scale {workload} to {replicas}"
    workload: WorkloadName
    replicas: int


class Wait(Phrase, frozen=True):
    sentence = "wait {seconds}"
    seconds: float


class Report(Phrase, frozen=True):
    """As a kubelet or a problem detector says it; what is silent reports nothing."""

    sentence = "report {condition} {status} on {node}"
    condition: Word
    status: Truth
    node: Where


class Label(Phrase, frozen=True):
    sentence = "label {node} {label}"
    node: Where
    label: Pair


class Unlabel(Phrase, frozen=True):
    sentence = "unlabel {node} {key}"
    node: Where
    key: Word


class Annotate(Phrase, frozen=True):
    sentence = "annotate {node} {annotation}"
    node: Where
    annotation: Pair


class Unannotate(Phrase, frozen=True):
    sentence = "unannotate {node} {key}"
    node: Where
    key: Word


DEEDS: tuple[type[Phrase], ...] = (
    PowerOff,
    PowerOn,
    Hang,
    Partition,
    Slow,
    Flap,
    Heal,
    Cordon,
    Uncordon,
    Drain,
    TaintOutOfService,
    UntaintOutOfService,
    Taint,
    Untaint,
    DeleteNode,
    DeletePod,
    ForceDeletePod,
    DeleteAttachment,
    Evict,
    Scale,
    Wait,
    Report,
    Label,
    Unlabel,
    Annotate,
    Unannotate,
    *REMEDIATION_DEEDS,
    *POWER_DEEDS,
)

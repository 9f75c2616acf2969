"""What can be expected in a story of PodFailoverPolicies."""

from enum import Enum

from testbed.scenario.story import OfRemediation, Phrase, PolicyName, Text, Where


class Standing(Enum):
    """How it stands with a policy: the reason of its condition Settled."""

    QUIET = "Quiet"
    MOVING = "Moving"
    MOVED = "Moved"
    WAITING = "WaitingForProof"
    FAILING = "DeletionFailed"
    BUDGET = "Budget"
    BRAKE = "Brake"
    SELF_DOUBT = "SelfDoubt"
    EXCLUDED = "Excluded"
    LOCK = "Lock"
    PAUSED = "Paused"
    OBSERVE = "ModeObserve"
    STORM = "Storm"
    UPGRADE = "Upgrade"
    NODE_UPGRADE = "NodeUpgrade"
    INVALID = "InvalidSpec"
    SWITCHED_OFF = "SwitchedOff"


class PolicyIs(OfRemediation, frozen=True):
    sentence = "policy {policy} {standing}"
    policy: PolicyName
    standing: Standing


class PolicySays(OfRemediation, frozen=True):
    """In the message of a condition, or about one of its nodes."""

    sentence = "policy {policy} says {text}"
    policy: PolicyName
    text: Text


class PolicyLists(OfRemediation, frozen=True):
    sentence = "policy {policy} lists {node}"
    policy: PolicyName
    node: Where


class PolicyMoved(OfRemediation, frozen=True):
    """So many pods since it was made."""

    sentence = "policy {policy} moved {count}"
    policy: PolicyName
    count: int


class PolicyWaits(OfRemediation, frozen=True):
    """So many pods wait for a proof."""

    sentence = "policy {policy} waiting {count}"
    policy: PolicyName
    count: int


class PolicyProofs(OfRemediation, frozen=True):
    sentence = "policy {policy} proofs {text}"
    policy: PolicyName
    text: Text


FAILOVER_CONDITIONS: tuple[type[Phrase], ...] = (
    PolicyIs,
    PolicySays,
    PolicyLists,
    PolicyMoved,
    PolicyWaits,
    PolicyProofs,
)

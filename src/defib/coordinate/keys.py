"""Whose business an action is: the name by which it falls into a bucket.

What is counted is admitted by one: remediations, incidents, machines that are given up, of whichever check or policy,
since their budgets overlap; and whatever is done because nothing of that is there. What is then done to one machine is
done by whoever looks after that machine; what passes between the two stands in the cluster. To end a remediation nobody
has to count: whoever looks after its node does that too, where the node and the check are asked once more whether it is over.

Whoever does something must know what it depends on: what is under way, what failed, how the power was read is known to
the replica alone that did it. So what follows from such knowledge has the same name as that by which it was gained.
"""

from defib.model import medik8s
from defib.model.account_action import DropAccount
from defib.model.action import (
    CHECK,
    Action,
    AddDefaultCheck,
    CheckPower,
    ClearNodeAnnotation,
    DeleteAttachment,
    DeleteNode,
    DropIncident,
    EndRemediation,
    FreePod,
    GatherEvidence,
    HoldLock,
    MarkRemediation,
    MovePod,
    OpenIncident,
    ReadClaim,
    ReleaseLock,
    ReportRemediation,
    SetFinalizers,
    StartRemediation,
    TaintNode,
    TellEvent,
    WriteStatus,
)
from defib.model.agents import HearAgents
from defib.model.drain_action import DrainAction
from defib.model.failover_policy import POLICY
from defib.model.leftover import DropMember, LetHostGo, ReadMembers
from defib.model.lock import Claim
from defib.model.machine_action import MachineAction
from defib.model.power_cycle import LOCK_HOLDER

ADMISSION = "admission"  # whoever has this is also told to be the leader
ANYBODY = ""  # it changes nothing, and is found out for whoever asks
ADMITTED = (
    StartRemediation
    | WriteStatus
    | ClearNodeAnnotation
    | OpenIncident
    | MachineAction
    | AddDefaultCheck
    | CheckPower
    | GatherEvidence
    | LetHostGo
    | ReadMembers
    | DropMember
    | DrainAction
    | DropAccount  # there are only so many in all
)
OF_CHECKS = frozenset({medik8s.TIMED_OUT, medik8s.OLD_REMEDIATION})  # what they mark while a node is ill


def name_of(action: Action) -> str:
    if isinstance(action, ReadClaim | HearAgents):
        return ANYBODY
    if isinstance(action, ADMITTED) or _is_counted(action) or _rests_on_sight(action):
        return ADMISSION
    match action:
        case DropIncident() | TaintNode() | DeleteNode() | FreePod() | DeleteAttachment():
            return action.incident.name  # a machine may have one without having a node
        case HoldLock():
            return action.claim.node
        case TellEvent():
            return action.check
    return action.node


def _rests_on_sight(action: Action) -> bool:
    """An end of which neither the node nor the check is asked whether it is right: whoever began it saw both last."""
    if not isinstance(action, EndRemediation):
        return False
    return not action.generation or not (action.unless or action.node_is_gone)


def _is_counted(action: Action) -> bool:
    match action:
        case HoldLock(claim=Claim(holder=holder)) | ReleaseLock(holder=holder):
            return holder != LOCK_HOLDER  # that of a power cycle is held by whoever does it
        case TellEvent(kind=kind):
            return kind in (CHECK, POLICY)
        case MovePod(because=because):
            return because.startswith(POLICY.name)
        case MarkRemediation(node=node, annotations=annotations):
            return not node or not OF_CHECKS.isdisjoint(annotations)
        case ReportRemediation(node=node) | SetFinalizers(node=node):
            return not node
    return False

"""Whose business an action is: the name by which it falls into a bucket.

What is counted is admitted by one: remediations, incidents, locks and machines that are given up, of whichever check,
since the budgets of checks overlap. What is then done to one machine is done by whoever looks after that machine; what
passes between the two stands in the cluster.
"""

from defib.model.action import (
    CHECK,
    Action,
    AddDefaultCheck,
    CheckPower,
    DeleteAttachment,
    DeleteNode,
    DropIncident,
    EndRemediation,
    FreePod,
    HoldLock,
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
from defib.model.failover_policy import POLICY
from defib.model.machine_action import MachineAction

ADMISSION = "admission"  # whoever has this is also told to be the leader
POLICIES = "policies"  # which share a budget of their own
ADMITTED = (
    StartRemediation
    | EndRemediation
    | WriteStatus
    | HoldLock
    | ReleaseLock
    | OpenIncident
    | MachineAction
    | AddDefaultCheck
    | CheckPower
)


def name_of(action: Action) -> str:
    if isinstance(action, ADMITTED):
        return ADMISSION
    if isinstance(action, ReadClaim) or (isinstance(action, MovePod) and action.because.startswith(POLICY.name)):
        return POLICIES
    if isinstance(action, TellEvent):
        return {CHECK: ADMISSION, POLICY: POLICIES}.get(action.kind, action.check)
    if isinstance(action, ReportRemediation | SetFinalizers) and not action.node:
        return POLICIES if action.target.kind == POLICY else ADMISSION
    if isinstance(action, DropIncident | TaintNode | DeleteNode | FreePod | DeleteAttachment):
        return action.incident.name  # a machine may have one without having a node
    return action.node

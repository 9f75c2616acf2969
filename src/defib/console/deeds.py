"""What an action is, in a sentence for a person who has never seen it: what it does, to what, and why."""

from collections.abc import Callable
from typing import Any

import msgspec

from defib.model import account_action, agents, drain_action, leftover, machine_action
from defib.model import action as act
from defib.model.action import Action
from defib.model.duration import say

ACTS, ASKS, WRITES = "acts", "asks", "writes"


class Deed(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`effect` is whether it changes something in the cluster, only asks after something, or only writes down what is."""

    effect: str
    action: str  # its type, which stays the same
    what: str
    node: str = ""
    check: str = ""


def deed_of(action: Action) -> Deed:
    kind = type(action)
    tell = SENTENCES.get(kind)
    return Deed(
        effect=effect_of(kind),
        action=kind.__name__,
        what=tell(action) if tell is not None else action.key,
        node=_node_of(action),
        check=_check_of(action),
    )


def effect_of(kind: type[Any]) -> str:
    return ASKS if kind in _ASKS else ACTS if kind in _ACTS else WRITES


def _node_of(action: Any) -> str:
    pod, patient, claim = (getattr(action, name, None) for name in ("pod", "patient", "claim"))
    return str(getattr(action, "node", "") or getattr(pod or patient or claim, "node", ""))


def _check_of(action: Any) -> str:
    return str(action.check) if isinstance(action, _OF_A_CHECK) else ""


def _start(action: act.StartRemediation) -> str:
    name = action.body["metadata"]["name"]
    where = f"{action.namespace}/{name}" if action.namespace else name
    because = action.because
    since = f" since {because.since:%H:%M:%S} UTC" if because.since is not None else ""
    why = f"because {because.type} is {because.status}{since}"
    return f"remediate node {action.node}: create {action.kind.name} {where}, {why}"


def _end(action: act.EndRemediation) -> str:
    why = "its node is gone" if action.node_is_gone else f"node {action.node} is well again"
    return f"end {action.target}, since {'nobody owns it any more' if action.is_leftover else why}"


def _move(action: act.MovePod) -> str:
    how = "delete it without waiting for its node" if action.grace_seconds == 0 else "delete it"
    return f"have pod {action.namespace}/{action.name} leave node {action.node}: {how}, for {action.because}"


def _switch(action: act.SwitchPower) -> str:
    return f"switch the machine of node {action.node} {action.power.value.lower()}, by {action.path.driver}"


def _default(action: act.AddDefaultCheck) -> str:
    return f"add the NodeHealthCheck {action.check}, since the cluster has none"


def _delete_pod(action: drain_action.DeletePod) -> str:
    grace = action.grace_seconds
    how = "by force" if grace == 0 else "past its disruption budgets"
    return f"delete pod {action.pod}, which does not leave node {action.pod.node}, {how}: {action.pod.because}"


def _status(action: act.WriteStatus) -> str:
    return f"write the status of NodeHealthCheck {action.check}"


def _lock(action: act.HoldLock) -> str:
    return f"hold the lock of node {action.claim.node} for {say(action.claim.length)}, as {action.claim.holder}"


SENTENCES: dict[type[Any], Callable[[Any], str]] = {
    act.StartRemediation: _start,
    act.EndRemediation: _end,
    act.MovePod: _move,
    act.SwitchPower: _switch,
    act.WriteStatus: _status,
    act.HoldLock: _lock,
    act.AddDefaultCheck: _default,
    act.ReleaseLock: lambda one: f"give back the lock of node {one.node}",
    act.TellEvent: lambda one: f"tell an event of {one.kind.name} {one.check}: {one.reason}: {one.message}",
    act.MarkRemediation: lambda one: f"annotate {one.target}",
    act.SetFinalizers: lambda one: f"{'hold on to' if one.finalizers else 'let go of'} {one.target}",
    act.ReportRemediation: lambda one: f"write the status of {one.target}",
    act.OpenIncident: lambda one: f"open an incident of node {one.node}",
    act.DropIncident: lambda one: f"drop {one.incident}, which is closed",
    act.ReadPower: lambda one: f"ask whether the machine of node {one.node} is on",
    act.CheckPower: lambda one: f"ask whether the power of node {one.node} could be switched",
    act.GatherEvidence: lambda one: (
        f"ask after node {one.node}: its heartbeat, its kubelet, and those of its neighbours"
    ),
    act.ReadClaim: lambda one: f"ask who may have the claim {one.namespace}/{one.name}",
    act.TaintNode: lambda one: f"taint node {one.node} as out of service",
    act.UntaintNode: lambda one: f"take the out-of-service taint off node {one.node}",
    act.DeleteNode: lambda one: f"delete node {one.node}, of which the machine is down",
    act.RestoreNode: lambda one: f"give node {one.node} back the labels and annotations that it had",
    act.FreePod: lambda one: f"end pod {one.namespace}/{one.name} of node {one.node}, of which the machine is down",
    act.DeleteAttachment: lambda one: f"have volume attachment {one.name} detached from node {one.node}",
    act.DeleteMachine: lambda one: f"delete {one.machine}, so that it is replaced",
    act.ClearNodeAnnotation: lambda one: f"remove the annotation {one.annotation} of node {one.node}, which is settled",
    machine_action.AskForPowerCycle: lambda one: f"ask for a power cycle of {one.patient.machine}",
    machine_action.RemediateMachine: lambda one: f"remediate {one.patient.machine} by {one.kind.name}",
    machine_action.ReplaceMachine: lambda one: f"delete {one.patient.machine}, so that it is replaced",
    leftover.TakeTaintOff: lambda one: f"take our out-of-service taint off node {one.node}, which is ready",
    leftover.LetHostGo: lambda one: f"let {one.host} go on",
    leftover.ReadMembers: lambda one: f"look which replicas are there, in {one.namespace}",
    leftover.DropMember: lambda one: f"drop the Lease {one.namespace}/{one.name} of a replica that is gone",
    agents.HearAgents: lambda one: f"listen to the agents of all nodes, in {one.namespace}",
    agents.DistrustNode: lambda one: f"write on node {one.node} that it had not rebooted when it had to be dead",
    account_action.OpenAccount: lambda one: f"open an account of what is done about node {one.node}",
    account_action.WriteAccount: lambda one: f"close the account of what was done about node {one.node}",
    account_action.DropAccount: lambda one: f"drop {one.account}, an account of which there are enough later ones",
    drain_action.OpenDrain: lambda one: f"write down that node {one.node} is being drained",
    drain_action.DropDrain: lambda one: f"drop the record of the drain of node {one.node}, which is over",
    drain_action.EvictPod: lambda one: f"evict pod {one.pod} from node {one.pod.node}: {one.pod.because}",
    drain_action.DeletePod: _delete_pod,
    drain_action.RemoveFinalizers: lambda one: f"remove {', '.join(one.finalizers)} from pod {one.pod}",
}
_ASKS = (act.ReadPower, act.CheckPower, act.ReadClaim, act.GatherEvidence, leftover.ReadMembers, agents.HearAgents)
_OF_A_CHECK = (act.StartRemediation, act.EndRemediation, act.WriteStatus)
_ACTS = (
    *(act.StartRemediation, act.EndRemediation, act.MovePod, act.SwitchPower, act.AddDefaultCheck),
    *(act.TaintNode, act.UntaintNode, act.DeleteNode, act.RestoreNode, act.FreePod, act.DeleteAttachment),
    *(act.DeleteMachine, machine_action.AskForPowerCycle, machine_action.RemediateMachine),
    *(machine_action.ReplaceMachine, leftover.TakeTaintOff, leftover.LetHostGo),
    *(drain_action.EvictPod, drain_action.DeletePod, drain_action.RemoveFinalizers),
)

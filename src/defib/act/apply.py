"""One function per Action: what is looked at again, which request is sent, and how it can end.

What the world refuses is a KubeError; that the world has changed is an ordinary end. Nothing here decides.
"""

import hashlib
from datetime import UTC, datetime
from typing import Any

import msgspec

from defib.act.accounts import keep_accounts
from defib.act.agent import hear_agents
from defib.act.defaults import add_default_check
from defib.act.drains import see_to_drain
from defib.act.evidence import gather_evidence
from defib.act.fencing import (
    delete_attachment,
    delete_machine,
    delete_node,
    distrust_node,
    drop_incident,
    free_pod,
    open_incident,
    restore_node,
    taint_node,
    untaint_node,
)
from defib.act.leftovers import collect, why_owned
from defib.act.locks import take_lock
from defib.act.machines import ask_for_power_cycle, remediate_machine, replace_machine
from defib.act.means import REQUEST_SECONDS, Means, side_by_side
from defib.act.outcome import Done, Failed, Held, Outcome, Stale, Withheld
from defib.act.pod_failover import move_pod, read_claim, report_remediation, set_finalizers
from defib.act.power import check_power, read_power, switch_power
from defib.act.start import start_remediation
from defib.kube.client import Deletion, JsonPatch, Merge
from defib.kube.errors import AlreadyExists, Conflict, Invalid, NotFound, ServerFailed, Unreachable
from defib.kube.kinds import EVENTS, LEASES, NODE_HEALTH_CHECKS, NODES, metadata_only
from defib.model import medik8s
from defib.model.account_action import DropAccount, OpenAccount, WriteAccount
from defib.model.action import (
    CHECK,
    Action,
    AddDefaultCheck,
    CheckPower,
    ClearNodeAnnotation,
    DeleteAttachment,
    DeleteMachine,
    DeleteNode,
    DropIncident,
    EndRemediation,
    FreePod,
    GatherEvidence,
    HoldLock,
    MarkRemediation,
    MovePod,
    OpenIncident,
    PowerCycleAction,
    ReadClaim,
    ReadPower,
    ReleaseLock,
    ReportRemediation,
    RestoreNode,
    SetFinalizers,
    StartRemediation,
    SwitchPower,
    TaintNode,
    TellEvent,
    UntaintNode,
    WriteStatus,
)
from defib.model.agents import DistrustNode, HearAgents
from defib.model.drain_action import DeletePod, DropDrain, EvictPod, OpenDrain, RemoveFinalizers
from defib.model.drain_policy import POLICY as DRAIN_POLICY
from defib.model.event import NODE
from defib.model.leftover import DropMember, LetHostGo, ReadMembers, TakeTaintOff
from defib.model.machine_action import AskForPowerCycle, MachineAction, RemediateMachine, ReplaceMachine
from defib.model.mandate import Mandate
from defib.model.node import Node
from defib.model.node_drain import DRAIN

EVENT_NAMESPACE = "default"  # where the Event objects of cluster-wide things have to be
OUR_SOURCE = "defib"
MESSAGE_MAX = 1024
NAME_MAX = 253
DIGEST_LENGTH = 16
HTTP_UNPROCESSABLE = 422


async def apply(means: Means, action: Action, mandate: Mandate) -> Outcome:  # noqa: C901, PLR0911, PLR0912  a case for each
    """Do it, under this mandate. Raises KubeError."""
    match action:
        case StartRemediation():
            return await start_remediation(means, action, mandate)
        case EndRemediation():
            return await end_remediation(means, action, mandate)
        case MarkRemediation():
            return await mark_remediation(means, action)
        case HoldLock():
            return await hold_lock(means, action)
        case ReleaseLock():
            return await release_lock(means, action)
        case ClearNodeAnnotation():
            return await clear_node_annotation(means, action)
        case WriteStatus():
            return await write_status(means, action)
        case TellEvent():
            return await tell_event(means, action)
        case SetFinalizers():
            return await set_finalizers(means, action)
        case ReportRemediation():
            return await report_remediation(means, action, mandate)
        case MovePod():
            return await move_pod(means, action, mandate)
        case ReadClaim():
            return await read_claim(means, action)
        case GatherEvidence():
            return await gather_evidence(means, action)
        case AddDefaultCheck():
            return await add_default_check(means, action)
        case TakeTaintOff() | LetHostGo() | DropMember() | ReadMembers():
            return await collect(means, action, mandate)
        case OpenDrain() | DropDrain() | EvictPod() | DeletePod() | RemoveFinalizers():
            return await see_to_drain(means, action, mandate)
        case OpenAccount() | WriteAccount() | DropAccount():
            return await keep_accounts(means, action, mandate)
        case _:
            return await apply_to_machine(means, action, mandate)


async def apply_to_machine(  # noqa: C901, PLR0911, PLR0912  the same
    means: Means, action: PowerCycleAction | MachineAction, mandate: Mandate
) -> Outcome:
    """Those of a power cycle, and those of machines that others look after."""
    match action:
        case OpenIncident():
            return await open_incident(means, action, mandate)
        case DropIncident():
            return await drop_incident(means, action)
        case SwitchPower():
            return await switch_power(means, action, mandate)
        case ReadPower():
            return await read_power(means, action)
        case CheckPower():
            return await check_power(means, action)
        case TaintNode():
            return await taint_node(means, action, mandate)
        case UntaintNode():
            return await untaint_node(means, action)
        case DeleteNode():
            return await delete_node(means, action, mandate)
        case RestoreNode():
            return await restore_node(means, action)
        case FreePod():
            return await free_pod(means, action, mandate)
        case DeleteAttachment():
            return await delete_attachment(means, action, mandate)
        case DeleteMachine():
            return await delete_machine(means, action, mandate)
        case HearAgents():
            return await hear_agents(means, action)
        case DistrustNode():
            return await distrust_node(means, action)
        case AskForPowerCycle():
            return await ask_for_power_cycle(means, action, mandate)
        case RemediateMachine():
            return await remediate_machine(means, action, mandate)
        case ReplaceMachine():
            return await replace_machine(means, action, mandate)


async def end_remediation(means: Means, action: EndRemediation, mandate: Mandate) -> Outcome:
    target = action.target
    ref = await means.address(target.kind, target.name, target.namespace)
    if ref is None:
        return Stale(f"{target.kind} has another scope now")
    why_not = why_owned(means, target, ref) if action.is_leftover else why_edited(means, action)
    stands, node = await side_by_side(why_not, means.live(NODES.at(action.node)))  # many nodes may come back at once
    if why := stands or why_not_over(node, action):
        return Stale(why)
    if why := means.forbids(mandate):
        return Withheld(why)
    try:
        await means.client.delete(ref, Deletion(uid=target.uid), deadline=REQUEST_SECONDS)
    except (NotFound, Conflict):  # this one is gone; a namesake is not our business
        return Done()
    return Done()


async def why_edited(means: Means, action: EndRemediation) -> str:
    """Whoever ends it may hear of a change of its check later than whoever began it; empty when there was none."""
    if not action.generation:
        return ""
    check = await means.live_for_many(metadata_only(NODE_HEALTH_CHECKS).at(action.check))
    if check is None:
        return f"{medik8s.CHECK_KIND} {action.check} is gone"
    if check.metadata.generation != action.generation:
        return f"{medik8s.CHECK_KIND} {action.check} is newer than what was judged"
    return ""


def why_not_over(node: Node | None, action: EndRemediation) -> str:
    """What speaks against ending it; empty when nothing does."""
    if node is None:
        return "" if action.node_is_gone else f"node {action.node} is gone"
    if action.node_is_gone:
        return f"node {action.node} is there again"
    for kind, status in action.unless:
        shown = node.condition(kind)
        if shown is not None and shown.status == status:
            return f"{kind} of node {action.node} is {status} again"
    return ""


async def mark_remediation(means: Means, action: MarkRemediation) -> Outcome:
    target = action.target
    ref = await means.address(target.kind, target.name, target.namespace)
    if ref is None:
        return Stale(f"{target.kind} has another scope now")
    meta = {"uid": target.uid} | ({"resourceVersion": action.version} if action.version else {})
    patch = Merge({"metadata": {**meta, "annotations": action.annotations}})
    try:
        marked = await means.client.patch(ref, patch, deadline=REQUEST_SECONDS)
    except (NotFound, Conflict):
        return Stale(f"{target} is gone")
    except Invalid as error:
        if not any(cause.field == "metadata.uid" for cause in error.status.causes):
            raise
        return Stale(f"{target} is another one now")
    means.note(ref.kind, marked)
    return Done(marked)


async def hold_lock(means: Means, action: HoldLock) -> Outcome:
    locked = await take_lock(means, action.claim)
    return locked if isinstance(locked, Held) else Done(locked.lease)


async def release_lock(means: Means, action: ReleaseLock) -> Outcome:
    how = Deletion(uid=action.uid, version=action.version)
    try:
        await means.client.delete(LEASES.at(action.name, action.namespace), how, deadline=REQUEST_SECONDS)
    except (NotFound, Conflict):
        return Stale(f"the lock of node {action.node} is no longer the one we knew")
    return Done()


async def clear_node_annotation(means: Means, action: ClearNodeAnnotation) -> Outcome:
    path = f"/metadata/annotations/{action.annotation.replace('~', '~0').replace('/', '~1')}"
    patch = JsonPatch(
        [
            {"op": "test", "path": "/metadata/uid", "value": action.node_uid},
            {"op": "test", "path": path, "value": action.value},
            {"op": "remove", "path": path},
        ]
    )
    try:
        node = await means.client.patch(NODES.at(action.node), patch, deadline=REQUEST_SECONDS)
    except NotFound:
        return Stale(f"node {action.node} is gone")
    except Invalid as error:
        # A test that fails is refused without a cause; a node that breaks a rule is refused with one.
        if error.status.code != HTTP_UNPROCESSABLE or error.status.causes:
            raise
        return Stale(f"{action.annotation} of node {action.node} no longer says {action.value}")
    means.note(NODES, node)
    return Done(node)


async def write_status(means: Means, action: WriteStatus) -> Outcome:
    ref = NODE_HEALTH_CHECKS.at(action.check)
    patch = {"metadata": {"uid": action.uid, "resourceVersion": action.version}, "status": action.status}
    wanted = msgspec.json.decode(msgspec.json.encode(action.status))
    try:
        check = await means.client.patch(ref, Merge(patch), subresource="status", deadline=REQUEST_SECONDS)
    except NotFound:
        return Stale(f"{medik8s.CHECK_KIND} {action.check} is gone")
    except Conflict:
        return Stale(f"{medik8s.CHECK_KIND} {action.check} is newer than what was judged")
    except (ServerFailed, Unreachable):  # who asked must know whether it was written: what is told depends on it
        there = await means.live(ref)
        if there is None or missing_fields(there.status, wanted):
            raise
        check = there
    means.note(NODE_HEALTH_CHECKS, check)
    if dropped := missing_fields(check.status, wanted):
        # An ordinary end would have the next pass write the very same again, at once and for ever.
        fields = ", ".join(dict.fromkeys(dropped))
        return Failed(
            f"the cluster's {medik8s.CHECK_KIND} CRD drops what we write (fields {fields}); apply deploy/crds"
        )
    return Done(check)


async def tell_event(means: Means, action: TellEvent) -> Outcome:
    try:
        event = await means.client.create(
            EVENTS, event_body(action), namespace=action.namespace or EVENT_NAMESPACE, deadline=REQUEST_SECONDS
        )
    except AlreadyExists:  # an earlier attempt whose answer was lost
        return Done()
    return Done(event)


def event_body(action: TellEvent) -> dict[str, Any]:
    """The same news at the same moment has the same name, so that it is told once."""
    news = f"{action.reason}\n{action.message}\n{action.at.isoformat()}"
    digest = hashlib.sha256(news.encode()).hexdigest()[:DIGEST_LENGTH]
    stem = action.check[: NAME_MAX - DIGEST_LENGTH - 1].rstrip("-.")
    # Whoever reads events of NodeHealthChecks knows them by this; those of nodes, policies and drains speak for themselves.
    prefix = "" if action.namespace or action.kind in (DRAIN, DRAIN_POLICY, NODE) else medik8s.EVENT_PREFIX
    message = f"{prefix}{action.message}".encode()[:MESSAGE_MAX].decode(errors="ignore")
    source = medik8s.EVENT_SOURCE if action.kind == CHECK else OUR_SOURCE
    return {
        "metadata": {"name": f"{stem}.{digest}", "namespace": action.namespace or EVENT_NAMESPACE},
        "involvedObject": {
            "apiVersion": action.kind.api_version,
            "kind": action.kind.name,
            "name": action.check,
            "uid": action.uid,
            **({"namespace": action.namespace} if action.namespace else {}),
        },
        "type": "Warning" if action.is_warning else "Normal",
        "reason": action.reason,
        "message": message,
        "source": {"component": source},
        "reportingComponent": source,
        "firstTimestamp": _stamp(action.at),
        "lastTimestamp": _stamp(action.at),
        "count": 1,
    }


def missing_fields(shown: Any, patch: Any, path: str = "status") -> list[str]:
    """Where an object does not say what was merged into it. What it says besides is not our business."""
    if shown == patch:  # nearly always, and hundreds of nodes are compared much faster as one
        return []
    if isinstance(patch, dict) and isinstance(shown, dict | None):
        pairs = [(f"{path}.{name}", (shown or {}).get(name), wanted) for name, wanted in patch.items()]
    elif isinstance(patch, list) and isinstance(shown, list) and len(patch) == len(shown):
        pairs = [(path, there, wanted) for there, wanted in zip(shown, patch, strict=True)]
    else:
        return [path]
    return [field for name, there, wanted in pairs for field in missing_fields(there, wanted, name)]


def _stamp(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"

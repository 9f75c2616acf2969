"""What is done about a drain that does not end: its record is kept, and pods that stay are made to leave, one by one.

A pod is guarded by its UID in the request itself. The rest is not: that the node is still being drained, that the
record says so, and that we hold the lock of the node. So these are read last, live, right before the request.
"""

from datetime import timedelta

import structlog

from defib.act.means import REQUEST_SECONDS, Means
from defib.act.outcome import Done, Failed, Outcome, Stale, Withheld
from defib.kube.client import Blocked, Deletion, JsonPatch
from defib.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound, ServerFailed, Throttled
from defib.kube.kinds import LEASES, NODES, PODS
from defib.model import medik8s
from defib.model.drain_action import (
    BLOCKED,
    TOO_BUSY,
    DeletePod,
    DrainAction,
    DropDrain,
    EvictPod,
    Leaving,
    OpenDrain,
    PodStep,
    RemoveFinalizers,
)
from defib.model.lock import is_held
from defib.model.mandate import Mandate
from defib.model.meta import Unstructured
from defib.model.node import Lease, Node
from defib.model.node_drain import DRAIN, LOCK_HOLDER, Phase, Rung, opt_out, read_drain_status
from defib.model.pod import Pod

log = structlog.get_logger("act")

STEP_TAKES = timedelta(seconds=2 * REQUEST_SECONDS)  # at most, from when the lock was seen to be ours: two requests
BLOCKED_PAUSE_SECONDS = 60.0  # before it is asked again, where that makes sense at all
HTTP_UNPROCESSABLE = 422
# What else than 429 the API server says because of a budget (two for one pod, too many evictions of its pods at once)
# has neither a code nor a reason of its own, so it is known by this word.
_BUDGET = "poddisruptionbudget"
_RUNG_OF_GRACE = {None: Rung.DELETE, 1: Rung.KILL, 0: Rung.FORCE}


async def see_to_drain(means: Means, action: DrainAction, mandate: Mandate) -> Outcome:
    match action:
        case OpenDrain():
            return await open_drain(means, action)
        case DropDrain():
            return await drop_drain(means, action)
        case _:
            return await take_step(means, action, mandate)


async def open_drain(means: Means, action: OpenDrain) -> Outcome:
    ref = await means.address(DRAIN, action.node, "")
    if ref is None:
        return Stale(f"{DRAIN} has another scope now")
    try:
        drain = await means.client.create(ref.kind, action.body, deadline=REQUEST_SECONDS)
    except AlreadyExists:
        return Stale(f"there is a record of a drain of node {action.node} already")
    means.note(ref.kind, drain)
    log.info("drain is watched", node=action.node)
    return Done(drain)


async def drop_drain(means: Means, action: DropDrain) -> Outcome:
    ref = await means.address(action.drain.kind, action.drain.name, action.drain.namespace)
    if ref is None:
        return Stale(f"{action.drain.kind} has another scope now")
    how = Deletion(uid=action.drain.uid, version=action.version)
    try:
        await means.client.delete(ref, how, deadline=REQUEST_SECONDS)
    except NotFound:
        return Done()
    except Conflict:
        return Stale(f"{action.drain} is newer than what was judged, or another one")
    log.info("drain is watched no more", node=action.node)
    return Done()


async def take_step(means: Means, step: PodStep, mandate: Mandate) -> Outcome:
    """Make one pod leave, or bring it closer to that."""
    leaving = step.pod
    pod = await means.live(PODS.at(leaving.name, leaving.namespace))
    if pod is None or pod.uid != leaving.uid:  # a namesake is not our business
        return Done()
    if end := end_before(pod, step) or await _forbidden(means, step, mandate):
        return end
    try:
        outcome = await _send(means, step, pod)
    except NotFound:
        return Done()
    except (Conflict, Invalid) as error:
        if not _has_changed(step, error):
            raise
        return await _after_conflict(means, leaving)
    if outcome == Done():
        rung = rung_of(step).value
        log.info("pod is made to leave", pod=str(leaving), node=leaving.node, rung=rung, because=leaving.because)
    return outcome


def end_before(pod: Pod, step: PodStep) -> Done | Stale | None:
    """How it ends by what the pod itself shows; None when it is as it was judged, and this has not been done yet."""
    name, node = step.pod, step.pod.node
    if pod.spec.node_name != node:
        return Stale(f"pod {name} is not on node {node}")
    if why := opt_out(pod):
        return Stale(f"pod {name} is left alone: {why}")
    if pod.is_leaving:
        return _end_of_leaving(pod, step)
    if pod.is_finished:
        return Stale(f"pod {name} has finished")
    return None if rung_of(step) in (Rung.EVICT, Rung.DELETE) else Stale(f"pod {name} is not terminating")


def _end_of_leaving(pod: Pod, step: PodStep) -> Done | Stale | None:
    match step:
        case RemoveFinalizers():
            if not set(step.finalizers) & set(pod.metadata.finalizers or ()):
                return Done()
            is_same = pod.metadata.resource_version == step.version
            return None if is_same else Stale(f"pod {step.pod} is newer than what was judged")
        case DeletePod(grace_seconds=int(seconds)):
            # It may have been told so already: a deletion can only bring the end closer.
            planned = pod.metadata.deletion_grace_period_seconds
            return Done() if planned is not None and planned <= seconds else None
        case _:
            return Done()


async def _send(means: Means, step: PodStep, pod: Pod) -> Outcome:
    match step:
        case EvictPod():
            return await _evict(means, pod)
        case DeletePod():
            how = Deletion(
                uid=pod.uid, grace_seconds=_own_grace(pod) if step.grace_seconds is None else step.grace_seconds
            )
            await means.client.delete(PODS.of(pod), how, deadline=REQUEST_SECONDS)
            return Done()
        case RemoveFinalizers():
            return await _remove_finalizers(means, step, pod)


def _own_grace(pod: Pod) -> int | None:
    """As it says itself. One that asks for no time has a second: else it would be gone before its kubelet has ended it."""
    return 1 if pod.ends_at_once else None


async def _evict(means: Means, pod: Pod) -> Outcome:
    try:
        how = Deletion(uid=pod.uid, grace_seconds=_own_grace(pod))
        answer = await means.client.evict(PODS.of(pod), how, deadline=REQUEST_SECONDS)
    except Throttled as error:
        return Failed(f"{TOO_BUSY}: {error}", may_pass=True, retry_after_seconds=error.retry_after or 0.0)
    except (Forbidden, ServerFailed) as error:
        if _BUDGET not in error.status.message.lower():
            raise
        answer = Blocked(error.status.message)
    if isinstance(answer, Blocked):
        return Failed(f"{BLOCKED}: {answer.why}", retry_after_seconds=BLOCKED_PAUSE_SECONDS)
    return Done()


async def _remove_finalizers(means: Means, step: RemoveFinalizers, pod: Pod) -> Outcome:
    kept = [one for one in pod.metadata.finalizers or () if one not in step.finalizers]
    patch = JsonPatch(
        [
            {"op": "test", "path": "/metadata/uid", "value": pod.uid},
            {"op": "test", "path": "/metadata/resourceVersion", "value": step.version},
            {"op": "replace", "path": "/metadata/finalizers", "value": kept},
        ]
    )
    await means.client.patch(PODS.of(pod), patch, deadline=REQUEST_SECONDS)
    return Done()


def _has_changed(step: PodStep, error: Conflict | Invalid) -> bool:
    """Whether it was refused only because it is not the pod, or not the version, that we looked at."""
    if isinstance(error, Conflict):
        return True
    # A test that fails is refused without a cause; a pod that breaks a rule is refused with one.
    is_of_test = error.status.code == HTTP_UNPROCESSABLE and not error.status.causes
    return isinstance(step, RemoveFinalizers) and is_of_test


async def _forbidden(means: Means, step: PodStep, mandate: Mandate) -> Stale | Withheld | None:
    """What has changed since this was decided and written down, or why nothing may be done now; None: it may be."""
    leaving = step.pod
    ref = await means.address(leaving.drain.kind, leaving.drain.name, leaving.drain.namespace)
    if ref is None:
        return Stale(f"{leaving.drain.kind} has another scope now")
    if why := why_not_recorded(await means.live_for_many(ref), step):
        return Stale(why)
    lease = await means.live_for_many(LEASES.at(medik8s.lock_of(leaving.node), means.lock_namespace))
    if not _is_ours(means, lease):
        return Stale(f"the lock of node {leaving.node} is not ours any more")
    if why := why_not_drained(await means.live_for_many(NODES.at(leaving.node)), leaving):
        return Stale(why)
    why = means.forbids_start(mandate)
    return Withheld(why) if why else None


def why_not_recorded(drain: Unstructured | None, step: PodStep) -> str:
    """Whether the record says that just this is to be done to just this pod; empty when it does."""
    leaving = step.pod
    if drain is None:
        return f"{leaving.drain} is gone"
    if drain.uid != leaving.drain.uid:
        return f"{leaving.drain} is another one now"
    status = read_drain_status(drain)
    if status.phase is not Phase.FORCING:
        return f"{leaving.drain} says {status.phase.value} now, so nothing is forced"
    entry, rung = status.entry(leaving.uid), rung_of(step)
    if entry is None:
        return f"{leaving.drain} says nothing of pod {leaving}"
    return (
        "" if entry.rung is rung else f"{leaving.drain} says {entry.rung.value} of pod {leaving}, and not {rung.value}"
    )


def why_not_drained(node: Node | None, leaving: Leaving) -> str:
    """Whether the node is the same, and is still being drained; empty when it is."""
    if node is None:
        return f"node {leaving.node} is gone"
    if node.uid != leaving.node_uid:
        return f"node {leaving.node} is another one now"
    if leaving.taint:
        return "" if node.taints_among((leaving.taint,)) else f"node {leaving.node} has lost its taint {leaving.taint}"
    return "" if node.spec.unschedulable else f"node {leaving.node} is not cordoned any more"


def _is_ours(means: Means, lease: Lease | None) -> bool:
    """Until what follows is done for sure: whoever takes it after us must find nothing under way."""
    done = means.clock.now() + STEP_TAKES
    return lease is not None and lease.spec.holder_identity == LOCK_HOLDER and is_held(lease, done)


async def _after_conflict(means: Means, leaving: Leaving) -> Outcome:
    """Most likely it is gone, and a namesake is there; but also another writer of the very same pod can be in the way."""
    pod = await means.live(PODS.at(leaving.name, leaving.namespace))
    if pod is None or pod.uid != leaving.uid:
        return Done()
    return Stale(f"pod {leaving} has changed in between")


def rung_of(step: PodStep) -> Rung:
    match step:
        case EvictPod():
            return Rung.EVICT
        case RemoveFinalizers():
            return Rung.FINALIZERS
        case DeletePod():
            return _RUNG_OF_GRACE[step.grace_seconds]

"""Conditions, judged by what is seen. Pure questions; the waiting is done elsewhere."""

from functools import singledispatch

from defib.hollow.objects import Pod
from testbed.scenario import conditions
from testbed.scenario.conditions import DiskState, NodeCondition, PodState
from testbed.scenario.sight import is_ready
from testbed.scenario.story import Phrase
from testbed.scenario.telling import Telling

_READY = {"True": NodeCondition.READY, "False": NodeCondition.NOT_READY, "Unknown": NodeCondition.UNKNOWN}


@singledispatch
def holds(condition: Phrase, telling: Telling) -> bool:
    raise AssertionError(f"nobody knows how to judge {condition} in {telling}")


@holds.register
def _(condition: conditions.PodIs, telling: Telling) -> bool:
    pod = telling.sight.pod(condition.pod)
    if pod is None or condition.state is PodState.GONE:
        return pod is None and condition.state is PodState.GONE
    return _is(pod, condition.state) and _is_there(pod, telling, elsewhere=condition.elsewhere)


@holds.register
def _(condition: conditions.PodsAre, telling: Telling) -> bool:
    pods = telling.sight.pods(condition.workload)
    counted = [p for p in pods if _is(p, condition.state) and _is_there(p, telling, elsewhere=condition.elsewhere)]
    return len(counted) == condition.count


def _is(pod: Pod, state: PodState) -> bool:
    match state:
        case PodState.TERMINATING:
            return pod.is_deleted
        case PodState.READY:
            return is_ready(pod) and not pod.is_deleted
        case _:
            return pod.phase == state.value and not pod.is_deleted


def _is_there(pod: Pod, telling: Telling, *, elsewhere: bool) -> bool:
    return not elsewhere or pod.spec.node_name not in ("", telling.that_node)


@holds.register
def _(condition: conditions.NodeIs, telling: Telling) -> bool:
    node = telling.sight.node(telling.find(condition.node))
    return condition.state is (_READY[node.ready] if node else NodeCondition.GONE)


@holds.register
def _(condition: conditions.NodeIsTainted, telling: Telling) -> bool:
    node = telling.sight.node(telling.find(condition.node))
    keys = {taint.key for taint in node.spec.taints or ()} if node else set()
    return any(condition.key in (key, key.rpartition("/")[2]) for key in keys)


@holds.register
def _(condition: conditions.DiskIs, telling: Telling) -> bool:
    disk = telling.sight.disk(condition.pod)
    return disk is not None and disk.verdict().corrupted == (condition.state is DiskState.CORRUPT)


@holds.register
def _(condition: conditions.VolumeAttached, telling: Telling) -> bool:
    node, attachments = telling.find(condition.node), telling.sight.attachments(condition.pod)
    return any(one.spec.node_name == node and one.status.attached and not one.is_deleted for one in attachments)


@holds.register
def _(condition: conditions.VolumeDetached, telling: Telling) -> bool:
    node = telling.find(condition.node)
    return all(one.spec.node_name != node for one in telling.sight.attachments(condition.pod))


@holds.register
def _(condition: conditions.EventSeen, telling: Telling) -> bool:
    return any(
        event.reason == condition.reason and event.involved_object.name == condition.name
        for event in telling.sight.events()
    )


@holds.register
def _(condition: conditions.AnyEventSeen, telling: Telling) -> bool:
    return any(event.reason == condition.reason for event in telling.sight.events())


@holds.register
def _(condition: conditions.EvictionWas, telling: Telling) -> bool:
    return telling.eviction is condition.outcome

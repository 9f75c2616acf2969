"""Conditions, judged by what is seen. Pure questions; the waiting is done elsewhere."""

from functools import singledispatch
from typing import Any

from defib.hollow.objects import Pod
from defib.model import medik8s
from testbed.scenario import conditions
from testbed.scenario.conditions import DiskState, NodeCondition, PodState
from testbed.scenario.failover_conditions import FAILOVER_CONDITIONS
from testbed.scenario.judge_failover import holds_of_failover
from testbed.scenario.judge_power import holds_of_power
from testbed.scenario.power_conditions import POWER_CONDITIONS
from testbed.scenario.remediation_sight import check_texts
from testbed.scenario.sight import is_ready
from testbed.scenario.story import Phrase
from testbed.scenario.telling import Telling

_READY = {"True": NodeCondition.READY, "False": NodeCondition.NOT_READY, "Unknown": NodeCondition.UNKNOWN}


@singledispatch
def holds(condition: Phrase, telling: Telling) -> bool:
    raise AssertionError(f"nobody knows how to judge {condition} in {telling}")


for _kind in POWER_CONDITIONS:
    holds.register(_kind, holds_of_power)
for _kind in FAILOVER_CONDITIONS:
    holds.register(_kind, holds_of_failover)


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
def _(condition: conditions.EventsSeen, telling: Telling) -> bool:
    told = sum(event.times for event in telling.sight.events() if event.reason == condition.reason)
    return told == condition.count


@holds.register
def _(condition: conditions.EventSays, telling: Telling) -> bool:
    return any(event.reason == condition.reason and condition.text in event.message for event in telling.sight.events())


@holds.register
def _(condition: conditions.EvictionWas, telling: Telling) -> bool:
    return telling.eviction is condition.outcome


@holds.register
def _(condition: conditions.NodeIsAnnotated, telling: Telling) -> bool:
    node = telling.sight.node(telling.find(condition.node))
    return node is not None and condition.key in node.annotations


@holds.register
def _(condition: conditions.NodeIsNotAnnotated, telling: Telling) -> bool:
    node = telling.sight.node(telling.find(condition.node))
    return node is not None and condition.key not in node.annotations


@holds.register
def _(condition: conditions.Remediated, telling: Telling) -> bool:
    return bool(telling.remediation.remedies(telling.name_of(condition.node)))


@holds.register
def _(condition: conditions.NotRemediated, telling: Telling) -> bool:
    return not telling.remediation.remedies(telling.name_of(condition.node))


@holds.register
def _(condition: conditions.RemediatedBy, telling: Telling) -> bool:
    remedies = telling.remediation.remedies(telling.name_of(condition.node))
    return any(remedy.template == condition.template for remedy in remedies)


@holds.register
def _(condition: conditions.RemediationEnding, telling: Telling) -> bool:
    return any(remedy.is_ending for remedy in telling.remediation.remedies(telling.name_of(condition.node)))


@holds.register
def _(condition: conditions.RemediationTimedOut, telling: Telling) -> bool:
    remedies = telling.remediation.remedies(telling.name_of(condition.node))
    return any(
        remedy.template == condition.template and medik8s.TIMED_OUT in remedy.item.annotations for remedy in remedies
    )


@holds.register
def _(condition: conditions.RemediationAnnotated, telling: Telling) -> bool:
    remedies = telling.remediation.remedies(telling.name_of(condition.node))
    return any(condition.key in remedy.item.annotations for remedy in remedies)


@holds.register
def _(condition: conditions.RemediationsOf, telling: Telling) -> bool:
    return len(telling.remediation.remedies(telling.name_of(condition.node))) == condition.count


@holds.register
def _(condition: conditions.RemediationsSoFar, telling: Telling) -> bool:
    return telling.remediation.so_far(telling.name_of(condition.node)) == condition.count


@holds.register
def _(condition: conditions.Remediations, telling: Telling) -> bool:
    return len(telling.remediation.remedies()) == condition.count


def _status(check: str, telling: Telling) -> dict[str, Any]:
    found = telling.remediation.check(check)
    return (found.status if found else None) or {}


@holds.register
def _(condition: conditions.CheckIs, telling: Telling) -> bool:
    return _status(condition.check, telling).get("phase") == condition.phase.value


@holds.register
def _(condition: conditions.CheckCounts, telling: Telling) -> bool:
    status = _status(condition.check, telling)
    return (status.get("healthyNodes"), status.get("observedNodes")) == (condition.healthy, condition.observed)


@holds.register
def _(condition: conditions.CheckSays, telling: Telling) -> bool:
    found = telling.remediation.check(condition.check)
    return found is not None and any(condition.text in text for text in check_texts(found))


@holds.register
def _(condition: conditions.CheckLists, telling: Telling) -> bool:
    listed = _status(condition.check, telling).get("unhealthyNodes") or ()
    return telling.name_of(condition.node) in {one["name"] for one in listed}


@holds.register
def _(condition: conditions.CheckListsSo, telling: Telling) -> bool:
    return len(_status(condition.check, telling).get("unhealthyNodes") or ()) == condition.count


@holds.register
def _(condition: conditions.CheckCondition, telling: Telling) -> bool:
    shown = _status(condition.check, telling).get("conditions") or ()
    return any(one["type"] == condition.kind and one["status"] == condition.status.value for one in shown)


@holds.register
def _(condition: conditions.LockHeld, telling: Telling) -> bool:
    return telling.remediation.holder(telling.name_of(condition.node)) == condition.holder


@holds.register
def _(condition: conditions.LockFree, telling: Telling) -> bool:
    return not telling.remediation.holder(telling.name_of(condition.node))

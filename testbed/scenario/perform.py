"""Deeds, done. To nodes and machines through the hollow ones, to everything else through the client, as people do."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import singledispatch
from typing import Any

import msgspec

from defib.hollow.objects import ATTACHMENTS, PODS, Pod
from defib.kube.client import Client, Deletion, Evicted, Merge
from defib.kube.errors import Conflict, NotFound
from defib.kube.kinds import NODES
from testbed.scenario import deeds
from testbed.scenario.conditions import EvictionOutcome
from testbed.scenario.hollow_cluster import until
from testbed.scenario.manifests import kind_of
from testbed.scenario.perform_power import switch
from testbed.scenario.perform_remediation import arrange
from testbed.scenario.power_deeds import ToPower
from testbed.scenario.remediation_deeds import ToRemediation
from testbed.scenario.story import Phrase, Where
from testbed.scenario.telling import CannotDo, Telling

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
ATTEMPTS = 5


async def perform(deed: Phrase, telling: Telling) -> str:
    """Does it, and says to whom where the story does not."""
    if isinstance(deed, deeds.Harm):
        telling.that_node = telling.name_of(deed.node)
    where: Where | None = getattr(deed, "node", None)
    node = telling.name_of(where) if where else ""
    match deed:
        case ToPower():
            await switch(deed, telling)
        case ToRemediation():
            await arrange(deed, telling)
        case _:
            await _do(deed, telling)
    return node


@singledispatch
async def _do(deed: Phrase, telling: Telling) -> None:
    raise AssertionError(f"nobody knows how to do {deed} in {telling}")


@_do.register
async def _(deed: deeds.PowerOff, telling: Telling) -> None:
    telling.hollow(deed.node).machine.set_power(False)


@_do.register
async def _(deed: deeds.PowerOn, telling: Telling) -> None:
    telling.hollow(deed.node).machine.set_power(True)


@_do.register
async def _(deed: deeds.Hang, telling: Telling) -> None:
    telling.hollow(deed.node).hang()


@_do.register
async def _(deed: deeds.Partition, telling: Telling) -> None:
    telling.hollow(deed.node).partition()


@_do.register
async def _(deed: deeds.Slow, telling: Telling) -> None:
    telling.hollow(deed.node).slow(deed.seconds)


@_do.register
async def _(deed: deeds.Flap, telling: Telling) -> None:
    telling.hollow(deed.node).flap(silent_seconds=deed.silent, alive_seconds=deed.alive)


@_do.register
async def _(deed: deeds.Heal, telling: Telling) -> None:
    node = telling.hollow(deed.node)
    node.steady()
    node.slow(0)
    node.resume()
    node.heal()


@_do.register
async def _(deed: deeds.Cordon, telling: Telling) -> None:
    await _cordon(telling, telling.name_of(deed.node), unschedulable=True)


@_do.register
async def _(deed: deeds.Uncordon, telling: Telling) -> None:
    await _cordon(telling, telling.name_of(deed.node), unschedulable=None)


async def _cordon(telling: Telling, node: str, *, unschedulable: bool | None) -> None:
    await telling.client.patch(NODES.at(node), Merge({"spec": {"unschedulable": unschedulable}}))


@_do.register
async def _(deed: deeds.Drain, telling: Telling) -> None:
    """As kubectl does it: cordon, then evict what no DaemonSet brought there, again and again while a budget says no."""
    name = telling.name_of(deed.node)
    await _cordon(telling, name, unschedulable=True)

    async def is_drained() -> bool:
        left = [pod for pod in telling.sight.pods() if pod.spec.node_name == name and not _stays(pod)]
        for pod in left:
            if not pod.is_deleted:
                await telling.client.evict(PODS.of(pod), Deletion(uid=pod.uid))
        return not left

    if not await until(is_drained, deed.seconds):
        raise CannotDo(f"{name} was not drained within {deed.seconds:g} s")


def _stays(pod: Pod) -> bool:
    return pod.is_mirror or any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references or ())


@_do.register
async def _(deed: deeds.TaintOutOfService, telling: Telling) -> None:
    await taint_out_of_service(telling.client, telling.name_of(deed.node))


@_do.register
async def _(deed: deeds.UntaintOutOfService, telling: Telling) -> None:
    await _set_taint(telling.client, telling.name_of(deed.node), OUT_OF_SERVICE)


@_do.register
async def _(deed: deeds.Taint, telling: Telling) -> None:
    taint = {"key": deed.taint.key, "effect": deed.taint.value}
    await _set_taint(telling.client, telling.name_of(deed.node), deed.taint.key, taint)


@_do.register
async def _(deed: deeds.Untaint, telling: Telling) -> None:
    await _set_taint(telling.client, telling.name_of(deed.node), deed.key)


async def taint_out_of_service(client: Client, node: str) -> None:
    """Says to Kubernetes that nothing runs there any more, whether that is true or not."""
    taint = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
    await _set_taint(client, node, OUT_OF_SERVICE, taint)


async def _set_taint(client: Client, name: str, key: str, taint: dict[str, Any] | None = None) -> None:
    """The one with this key, or none. A list is replaced as a whole, so only while it is the one we read."""
    also = [taint] if taint is not None else []
    for _ in range(ATTEMPTS):
        node = await client.get(NODES.at(name))
        kept = [msgspec.to_builtins(taint) for taint in node.spec.taints or () if taint.key != key]
        version = {"resourceVersion": node.metadata.resource_version}
        try:
            await client.patch(NODES.at(name), Merge({"metadata": version, "spec": {"taints": kept + also}}))
        except Conflict:
            continue
        return
    raise CannotDo(f"the taints of {name} changed under our hands {ATTEMPTS} times")


@_do.register
async def _(deed: deeds.DeleteNode, telling: Telling) -> None:
    node = await telling.client.get(NODES.at(telling.name_of(deed.node)))
    await telling.client.delete(NODES.of(node), Deletion(uid=node.uid))


@_do.register
async def _(deed: deeds.DeletePod, telling: Telling) -> None:
    pod = telling.pod(deed.pod)
    await telling.client.delete(PODS.of(pod), Deletion(uid=pod.uid))


@_do.register
async def _(deed: deeds.ForceDeletePod, telling: Telling) -> None:
    pod = telling.pod(deed.pod)
    # Kubernetes may be first, as on a node that is out of service: then that pod is gone, and maybe another one has its name.
    with suppress(Conflict, NotFound):
        await telling.client.delete(PODS.of(pod), Deletion(uid=pod.uid, grace_seconds=0))


@_do.register
async def _(deed: deeds.DeleteAttachment, telling: Telling) -> None:
    found = telling.sight.attachments(deed.pod)
    if not found:
        raise CannotDo(f"the volume of {deed.pod} is not attached anywhere")
    for attachment in found:
        await telling.client.delete(ATTACHMENTS.of(attachment), Deletion(uid=attachment.uid))


@_do.register
async def _(deed: deeds.Evict, telling: Telling) -> None:
    pod = telling.pod(deed.pod)
    answer = await telling.client.evict(PODS.of(pod), Deletion(uid=pod.uid))
    telling.eviction = EvictionOutcome.ALLOWED if isinstance(answer, Evicted) else EvictionOutcome.BLOCKED
    telling.sight.book.note(f"pod {pod.name}", f"eviction {telling.eviction.value}: {answer}")


@_do.register
async def _(deed: deeds.Scale, telling: Telling) -> None:
    workload = next(one for one in telling.story.workloads if str(one.name) == str(deed.workload))
    ref = kind_of(workload).at(deed.workload, telling.sight.namespace)
    await telling.client.patch(ref, Merge({"spec": {"replicas": deed.replicas}}))


@_do.register
async def _(deed: deeds.Wait, telling: Telling) -> None:
    del telling
    await asyncio.sleep(deed.seconds)


@_do.register
async def _(deed: deeds.Report, telling: Telling) -> None:
    telling.hollow(deed.node).set_condition(deed.condition, deed.status.value, reason="TheStorySaysSo")


@_do.register
async def _(deed: deeds.Label, telling: Telling) -> None:
    await _mark(telling, deed.node, "labels", {deed.label.key: deed.label.value})


@_do.register
async def _(deed: deeds.Unlabel, telling: Telling) -> None:
    await _mark(telling, deed.node, "labels", {deed.key: None})


@_do.register
async def _(deed: deeds.Annotate, telling: Telling) -> None:
    await _mark(telling, deed.node, "annotations", {deed.annotation.key: deed.annotation.value})


@_do.register
async def _(deed: deeds.Unannotate, telling: Telling) -> None:
    await _mark(telling, deed.node, "annotations", {deed.key: None})


async def _mark(telling: Telling, where: Where, what: str, marks: Mapping[str, str | None]) -> None:
    await telling.client.patch(NODES.at(telling.name_of(where)), Merge({"metadata": {what: marks}}))

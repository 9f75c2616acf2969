"""Another controller that works on the same objects as `stranger`, without asking anybody, every few seconds.

What is its own stays: Defib undoes nothing of it. When it gives in, it takes its own things away.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from defib.kube.client import Merge
from defib.kube.errors import KubeError
from defib.kube.kinds import LEASES, NODES, Kind, unstructured
from defib.model import medik8s
from defib.model.incident import INCIDENTS
from defib.model.lock import SKEW_MAX
from defib.model.meta import Unstructured
from defib.model.node import OUT_OF_SERVICE
from tests.simulation.faults import Trouble
from tests.simulation.shape import SHOP
from tests.simulation.world import Object, World

KEY = "stranger.example.com/busy"
STRANGER = "stranger"
ROUND_SECONDS = 4.0
TAINT: Object = {"key": KEY, "value": "true", "effect": "NoSchedule"}

Deed = Callable[[World, Trouble], Awaitable[None]]


async def fight(world: World, trouble: Trouble) -> None:
    world.keep_busy(trouble, _go_on(world, trouble))


async def give_in(world: World, trouble: Trouble) -> None:
    world.busy.pop(trouble).cancel()
    await _LAST.get(trouble.what, _nothing)(world, trouble)


async def _go_on(world: World, trouble: Trouble) -> None:
    while True:
        with suppress(KubeError):  # it is as stubborn as a controller
            await DEEDS[trouble.what](world, trouble)
        await asyncio.sleep(ROUND_SECONDS)  # virtual


async def _nothing(world: World, trouble: Trouble) -> None:
    del world, trouble


async def _patch_node(world: World, trouble: Trouble, body: Object) -> None:
    await world.stranger.patch(NODES.at(trouble.whom), Merge(body))


async def _set_taints(world: World, trouble: Trouble, keeps: Callable[[Object], bool], *more: Object) -> None:
    """With the version, as a controller that is well written does: others set taints, too."""
    node = world.server.store.get("nodes", trouble.whom)
    if node is None:
        return
    before = node.object["spec"].get("taints") or []
    after = [*filter(keeps, before), *more]
    if after != before:
        version = node.object["metadata"]["resourceVersion"]
        await _patch_node(world, trouble, {"metadata": {"resourceVersion": version}, "spec": {"taints": after or None}})


def _is_foreign(taint: Object) -> bool:
    return bool(taint["key"] != KEY)


async def _taint(world: World, trouble: Trouble) -> None:
    await _set_taints(world, trouble, _is_foreign, TAINT)


async def _untaint(world: World, trouble: Trouble) -> None:
    await _set_taints(world, trouble, _is_foreign)


async def _clear_taint(world: World, trouble: Trouble) -> None:
    """The very one by which Kubernetes is told that the node is out of service."""
    await _set_taints(world, trouble, lambda taint: bool(taint["key"] != OUT_OF_SERVICE))


async def _cordon(world: World, trouble: Trouble) -> None:
    await _patch_node(world, trouble, {"spec": {"unschedulable": True}})


async def _uncordon(world: World, trouble: Trouble) -> None:
    await _patch_node(world, trouble, {"spec": {"unschedulable": None}})


async def _mark(world: World, trouble: Trouble) -> None:
    at = f"{world.clock.monotonic():.0f}"
    await _patch_node(world, trouble, {"metadata": {"annotations": {KEY: at}, "labels": {KEY: "true"}}})


async def _unmark(world: World, trouble: Trouble) -> None:
    await _patch_node(world, trouble, {"metadata": {"annotations": {KEY: None}, "labels": {KEY: None}}})


async def _hold(world: World, trouble: Trouble) -> None:
    await _set_finalizers(world, trouble, is_held=True)


async def _let_go(world: World, trouble: Trouble) -> None:
    await _set_finalizers(world, trouble, is_held=False)


async def _set_finalizers(world: World, trouble: Trouble, *, is_held: bool) -> None:
    """On remediations and incidents of the node. Nobody may add one to what is being deleted."""
    found: list[tuple[Kind[Unstructured], Object]] = [(_kind(plural), item) for plural, item in world.remediations]
    found += [(_kind(INCIDENTS, namespaced=False), item) for item in world.all(INCIDENTS)]
    for kind, item in found:
        meta = item["metadata"]
        before = meta.get("finalizers") or []
        after = [*(name for name in before if name != KEY), *([KEY] if is_held else [])]
        is_about = meta["name"].partition(".")[0] == trouble.whom or not is_held
        if is_about and after != before and not (is_held and meta.get("deletionTimestamp")):
            body = {"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": after or None}}
            with suppress(KubeError):
                await world.stranger.patch(kind.at(meta["name"], meta.get("namespace", "")), Merge(body))


def _kind(resource: str, *, namespaced: bool = True) -> Kind[Unstructured]:
    plural = resource.partition(".")[0]
    return unstructured("defib.dev", "v1alpha1", plural, plural, namespaced=namespaced)


async def _scale(world: World, trouble: Trouble) -> None:
    count = int(world.clock.monotonic() / ROUND_SECONDS + trouble.number) % 3
    await _set_replicas(world, count)


async def _scale_back(world: World, trouble: Trouble) -> None:
    del trouble
    await _set_replicas(world, world.shape.web_pods)


async def _set_replicas(world: World, count: int) -> None:
    kind = unstructured("apps", "v1", "deployments", "Deployment", namespaced=True)
    await world.stranger.patch(kind.at("web", SHOP), Merge({"spec": {"replicas": count}}))


async def _renew_lock(world: World, trouble: Trouble) -> None:
    """Only where it has it already, or nobody has; for longer than clocks may differ."""
    name = medik8s.lock_of(trouble.whom)
    lock = world.server.store.get("leases.coordination.k8s.io", f"{medik8s.LOCK_NAMESPACE}/{name}")
    now = f"{world.clock.now():%Y-%m-%dT%H:%M:%S.%fZ}"
    spec: Object = {"holderIdentity": STRANGER, "renewTime": now, "acquireTime": now}
    spec["leaseDurationSeconds"] = int(SKEW_MAX.total_seconds()) + 60
    if lock is None:
        body = {"metadata": {"name": name}, "spec": spec}
        await world.stranger.create(LEASES, body, namespace=medik8s.LOCK_NAMESPACE)
    elif lock.object["spec"].get("holderIdentity") == STRANGER:
        version = {"resourceVersion": lock.object["metadata"]["resourceVersion"]}
        await world.stranger.patch(LEASES.at(name, medik8s.LOCK_NAMESPACE), Merge({"metadata": version, "spec": spec}))


async def _release_lock(world: World, trouble: Trouble) -> None:
    ref = LEASES.at(medik8s.lock_of(trouble.whom), medik8s.LOCK_NAMESPACE)
    lock = await world.stranger.get(ref)
    if lock.spec.holder_identity == STRANGER:
        version = {"resourceVersion": lock.metadata.resource_version}
        free = {"holderIdentity": None, "renewTime": None, "leaseDurationSeconds": None}
        await world.stranger.patch(ref, Merge({"metadata": version, "spec": free}))


DEEDS: dict[str, Deed] = {
    "removes taints again and again": _clear_taint,
    "puts its own taint back": _taint,
    "cordons again and again": _cordon,
    "annotates and labels": _mark,
    "puts finalizers on everything": _hold,
    "scales the web": _scale,
    "renews the lock": _renew_lock,
}
_LAST: dict[str, Deed] = {
    "puts its own taint back": _untaint,
    "cordons again and again": _uncordon,
    "annotates and labels": _unmark,
    "puts finalizers on everything": _let_go,
    "scales the web": _scale_back,
    "renews the lock": _release_lock,
}

"""People of a simulated day: what they do to the cluster, each as `person`, and what they take back later.

They are honest: whoever says that a machine is off has looked. Nothing could be promised otherwise.
"""

from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta

from defib.decide.admission import APPROVED_BY, APPROVED_UNTIL
from defib.decide.entries import stamp
from defib.decide.rejection import REJECTED, rejection_value
from defib.kube.client import Deletion, Merge
from defib.kube.kinds import (
    CONFIG_MAPS,
    LEASES,
    NODE_HEALTH_CHECKS,
    NODE_INCIDENTS,
    NODES,
    PODS,
    Kind,
    Ref,
    unstructured,
)
from defib.model import medik8s
from defib.model.health_check import Mode
from defib.model.incident import INCIDENTS
from defib.model.lock import SKEW_MAX
from defib.model.meta import Unstructured
from tests.simulation.faults import Trouble
from tests.simulation.furniture import furniture
from tests.simulation.shape import HOME, SHOP
from tests.simulation.world import Object, World

MAINTENANCE = "node-maintenance"
PAUSE = "storage-migration"
DRAIN = "defib.dev/drain"


Deed = Callable[[World, Trouble], Awaitable[None]]


async def wish(world: World, trouble: Trouble) -> None:
    if patches := ON_NODE.get(trouble.what):
        await world.person.patch(NODES.at(trouble.whom), Merge(patches[0]))
    else:
        await DEEDS[trouble.what](world, trouble)


async def think_better(world: World, trouble: Trouble) -> None:
    """What is not named here is done, and stays so."""
    if patches := ON_NODE.get(trouble.what):
        await world.person.patch(NODES.at(trouble.whom), Merge(patches[1]))
    elif deed := _SECOND_THOUGHTS.get(trouble.what):
        await deed(world, trouble)


ON_NODE: dict[str, tuple[Object, Object]] = {
    "cordons": ({"spec": {"unschedulable": True}}, {"spec": {"unschedulable": None}}),
    "drains": (
        {"spec": {"unschedulable": True}, "metadata": {"annotations": {DRAIN: "new kernel"}}},
        {"spec": {"unschedulable": None}, "metadata": {"annotations": {DRAIN: None}}},
    ),
    "excludes": (
        {"metadata": {"labels": {medik8s.EXCLUDED: "true"}}},
        {"metadata": {"labels": {medik8s.EXCLUDED: None}}},
    ),
    "uncordons": ({"spec": {"unschedulable": None}}, {}),
    "removes taints": ({"spec": {"taints": None}}, {}),
}


def _kind(resource: str) -> Kind[Unstructured]:
    plural = resource.partition(".")[0]
    return unstructured("defib.dev", "v1alpha1", plural, plural, namespaced=True)


def _refs(world: World) -> Iterator[tuple[Ref[Unstructured], Object]]:
    """Every remediation that is there."""
    for resource, item in world.remediations:
        meta = item["metadata"]
        yield _kind(resource).at(meta["name"], meta["namespace"]), meta


async def _take_lock(world: World, trouble: Trouble) -> None:
    """Only where nobody has it, as the tools of medik8s do; for longer than clocks may differ, and then given back."""
    now = f"{world.clock.now():%Y-%m-%dT%H:%M:%S.%fZ}"
    seconds = int(trouble.seconds + SKEW_MAX.total_seconds())
    spec = {"holderIdentity": MAINTENANCE, "renewTime": now, "leaseDurationSeconds": seconds, "acquireTime": now}
    body = {"metadata": {"name": medik8s.lock_of(trouble.whom)}, "spec": spec}
    await world.person.create(LEASES, body, namespace=medik8s.LOCK_NAMESPACE)


async def _give_lock_back(world: World, trouble: Trouble) -> None:
    lock = await world.person.get(LEASES.at(medik8s.lock_of(trouble.whom), medik8s.LOCK_NAMESPACE))
    if lock.spec.holder_identity == MAINTENANCE:
        await world.person.delete(LEASES.of(lock), Deletion(uid=lock.uid))


async def _pull_brake(world: World, _: Trouble) -> None:
    await world.person.create(CONFIG_MAPS, {"metadata": {"name": "defib-brake"}}, namespace=HOME)


async def _release_brake(world: World, _: Trouble) -> None:
    brake = await world.person.get(CONFIG_MAPS.at("defib-brake", HOME))
    await world.person.delete(CONFIG_MAPS.of(brake), Deletion(uid=brake.uid))


async def _delete_pods(world: World, trouble: Trouble) -> None:
    for pod in world.all("pods"):
        meta = pod["metadata"]
        if meta["namespace"] == SHOP and pod["spec"].get("nodeName") == trouble.whom:
            await world.person.delete(PODS.at(meta["name"], SHOP), Deletion(uid=meta["uid"]))


async def _delete_remediations(world: World, _: Trouble) -> None:
    for ref, meta in _refs(world):
        await world.person.delete(ref, Deletion(uid=meta["uid"]))


def _templates(world: World) -> Iterator[tuple[Kind[Unstructured], Object]]:
    for resource, item in furniture(world.shape):
        if resource.endswith("templates.defib.dev"):
            yield _kind(resource), item


async def _delete_templates(world: World, _: Trouble) -> None:
    for kind, item in _templates(world):
        there = await world.person.get(kind.at(item["metadata"]["name"], HOME))
        await world.person.delete(kind.of(there), Deletion(uid=there.uid))


async def _make_templates(world: World, _: Trouble) -> None:
    for kind, item in _templates(world):
        await world.person.create(kind, item, namespace=HOME)


async def _answer(world: World, trouble: Trouble) -> None:
    """As `defib approve` and `defib reject` write it, for as long as the trouble lasts."""
    until = stamp(world.clock.now() + timedelta(seconds=trouble.seconds))
    yes, no = {APPROVED_UNTIL: until, APPROVED_BY: "ann", REJECTED: None}, rejection_value(until, "ann", "not now")
    said = yes if trouble.what == "approves" else {APPROVED_UNTIL: None, APPROVED_BY: None, REJECTED: no}
    await world.person.patch(NODES.at(trouble.whom), Merge({"metadata": {"annotations": said}}))


# Of checks


async def _change_checks(world: World, trouble: Trouble) -> None:
    tighter = {"minHealthy": None, "maxUnhealthy": 1 + int(trouble.number) % world.shape.nodes}
    await _edit_checks(world, tighter | {"healthyDelay": f"{int(trouble.number)}s"})


async def _pause_checks(world: World, _: Trouble) -> None:
    await _edit_checks(world, {"pauseRequests": [PAUSE]})


async def _observe(world: World, _: Trouble) -> None:
    await _edit_checks(world, {"mode": Mode.OBSERVE})


async def _change_checks_back(world: World, _: Trouble) -> None:
    limit = {"minHealthy": None, "maxUnhealthy": None} | world.shape.limit
    delay = f"{world.shape.healthy_delay_seconds}s"
    await _edit_checks(world, limit | {"pauseRequests": None, "mode": world.shape.mode, "healthyDelay": delay})


async def _edit_checks(world: World, spec: Object) -> None:
    for name in world.shape.check_names:
        await world.person.patch(NODE_HEALTH_CHECKS.at(name), Merge({"spec": spec}))


# Of what is ours


async def _strip_finalizers(world: World, _: Trouble) -> None:
    for ref, _meta in _refs(world):
        await world.person.patch(ref, Merge({"metadata": {"finalizers": None}}))


async def _wipe_incident(world: World, trouble: Trouble) -> None:
    """Not where it says what a deleted Node had: nobody could give that back then."""
    incident = await world.person.get(NODE_INCIDENTS.at(trouble.whom))
    if incident.status.saved is not None:
        return
    await world.person.patch(NODE_INCIDENTS.at(trouble.whom), Merge({"status": None}), subresource="status")


async def _delete_incidents(world: World, trouble: Trouble) -> None:
    for item in world.all(INCIDENTS):
        meta, saved = item["metadata"], (item.get("status") or {}).get("saved")
        if item["spec"]["node"] == trouble.whom and not saved:  # the same
            await world.person.delete(NODE_INCIDENTS.at(meta["name"]), Deletion(uid=meta["uid"]))


async def _delete_node(world: World, trouble: Trouble) -> None:
    node = await world.person.get(NODES.at(trouble.whom))
    await world.person.delete(NODES.of(node), Deletion(uid=node.uid))


async def _restart_machine(world: World, trouble: Trouble) -> None:
    """A kubelet that runs does not make its Node again; one that starts does."""
    machine = world.machines[trouble.whom]
    if machine.is_on and world.server.store.get("nodes", trouble.whom) is None:
        machine.set_power(False)
        machine.set_power(True)


async def _confirm(world: World, trouble: Trouble) -> None:
    """As `defib confirm-down` writes it; of a machine that is off, and stays so until it is told otherwise."""
    if world.nodes[trouble.whom].is_on:
        return
    incident = await world.person.get(NODE_INCIDENTS.at(trouble.whom))
    if incident.is_open and incident.status.proof is None:
        said = {"by": "ann", "at": world.clock.now().isoformat()}
        await world.person.patch(NODE_INCIDENTS.at(trouble.whom), Merge({"spec": {"confirmedOff": said}}))


async def _switch_off(world: World, trouble: Trouble) -> None:
    """Whoever is asked to, does it, and looks."""
    world.machines[trouble.whom].set_power(False)
    await _confirm(world, trouble)


async def _switch_on(world: World, trouble: Trouble) -> None:
    world.machines[trouble.whom].set_power(True)


DEEDS: dict[str, Deed] = {
    "pulls the brake": _pull_brake,
    "takes the lock": _take_lock,
    "deletes a pod": _delete_pods,
    "deletes the remediation": _delete_remediations,
    "approves": _answer,
    "rejects": _answer,
    "changes the check": _change_checks,
    "pauses the check": _pause_checks,
    "observes for a while": _observe,
    "deletes the template": _delete_templates,
    "strips finalizers": _strip_finalizers,
    "wipes the incident": _wipe_incident,
    "deletes the incident": _delete_incidents,
    "deletes the node": _delete_node,
    "confirms that it is off": _confirm,
    "switches it off and says so": _switch_off,
}
_SECOND_THOUGHTS: dict[str, Deed] = {
    "pulls the brake": _release_brake,
    "takes the lock": _give_lock_back,
    "changes the check": _change_checks_back,
    "pauses the check": _change_checks_back,
    "observes for a while": _change_checks_back,
    "deletes the template": _make_templates,
    "deletes the node": _restart_machine,
    "switches it off and says so": _switch_on,
}

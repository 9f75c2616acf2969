"""Deeds to checks, policies, templates, remediators, locks and to Defib itself, done through the client as people do them."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from functools import singledispatch
from typing import Any

from defib.kube.client import Body, Client, Deletion, Merge
from defib.kube.errors import AlreadyExists, NotFound
from defib.kube.kinds import LEASES, NODES, R, Ref
from defib.model import medik8s
from defib.model.power_cycle import template_spec as told
from testbed.scenario import remediation_deeds as deeds
from testbed.scenario.hollow_cluster import until
from testbed.scenario.remediation_manifests import (
    BRAKE,
    CHECKS,
    CLUSTER_VERSION,
    CLUSTER_VERSIONS,
    CONFIG_MAPS,
    DEFIB_NAMESPACE,
    DEFINITIONS,
    MACHINE_HEALTH_CHECKS,
    POLICIES,
    UPGRADE,
    check_spec,
    definitions_of,
    policy_spec,
    remediations_of,
    remediator_of,
    template_manifest,
    template_spec,
    templates_of,
)
from testbed.scenario.remediation_sight import Remedy
from testbed.scenario.replica import Replica
from testbed.scenario.story import Remediator, TemplateName, Truth, Where
from testbed.scenario.telling import CannotDo, Telling

HELD_BY = "test.defib.dev/held"
APPROVED_UNTIL = "defib.dev/approved-until"
UPGRADING_UNTIL = "defib.dev/upgrading-until"
SETTLE_SECONDS = 20.0


@singledispatch
async def arrange(deed: deeds.ToRemediation, telling: Telling) -> None:
    raise AssertionError(f"nobody knows how to do {deed} in {telling}")


@arrange.register
async def _(deed: deeds.Finish, telling: Telling) -> None:
    await _say(
        _remedy(deed.template, deed.node, telling), telling, {"Processing": Truth.FALSE, "Succeeded": Truth.TRUE}
    )


@arrange.register
async def _(deed: deeds.Fail, telling: Telling) -> None:
    remedy = _remedy(deed.template, deed.node, telling)
    await _say(remedy, telling, {"Processing": Truth.FALSE, "Succeeded": Truth.FALSE})


@arrange.register
async def _(deed: deeds.Replace, telling: Telling) -> None:
    remedy = _remedy(deed.template, deed.node, telling)
    await _say(remedy, telling, {"Processing": Truth.TRUE, medik8s.PERMANENT_DELETION: Truth.TRUE})


@arrange.register
async def _(deed: deeds.Hold, telling: Telling) -> None:
    await _hold(_remedy(deed.template, deed.node, telling), telling, [HELD_BY])


@arrange.register
async def _(deed: deeds.LetGo, telling: Telling) -> None:
    await _hold(_remedy(deed.template, deed.node, telling), telling, [])


def _remedy(template: TemplateName, where: Where, telling: Telling) -> Remedy:
    """The one of a node that was made from this template."""
    node = telling.name_of(where)
    for remedy in telling.remediation.remedies(node):
        if remedy.remediator is remediator_of(template) and remedy.template in ("", template):
            return remedy
    raise CannotDo(f"there is no remediation of {node} by {template} now")


async def _say(remedy: Remedy, telling: Telling, said: dict[str, Truth]) -> None:
    kept = [one for one in remedy.conditions if one["type"] not in said]
    mine = [{"type": kind, "status": status.value, "reason": "TheStorySaysSo"} for kind, status in said.items()]
    ref = remediations_of(remedy.remediator).of(remedy.item)
    await telling.client.patch(ref, Merge({"status": {"conditions": kept + mine}}), subresource="status")


async def _hold(remedy: Remedy, telling: Telling, finalizers: list[str]) -> None:
    ref = remediations_of(remedy.remediator).of(remedy.item)
    await telling.client.patch(ref, Merge({"metadata": {"finalizers": finalizers}}))


@arrange.register
async def _(deed: deeds.CreateRemediation, telling: Telling) -> None:
    """As somebody else would make it: no check owns it. What Defib itself carries out is told what its template says."""
    node, remediator, here = telling.name_of(deed.node), remediator_of(deed.template), telling.sight.namespace
    annotations = {medik8s.TEMPLATE_NAME: deed.template, medik8s.NODE_NAME: node}
    body: dict[str, Any] = {"metadata": {"name": node, "annotations": annotations}}
    if remediator in (Remediator.POWER, Remediator.FAILOVER):
        body["spec"] = told(await telling.client.get(templates_of(remediator).at(deed.template, here)))
    await telling.client.create(remediations_of(remediator), body, namespace=here)


@arrange.register
async def _(deed: deeds.RemoveRemediation, telling: Telling) -> None:
    remedy = _remedy(deed.template, deed.node, telling)
    await telling.client.delete(remediations_of(remedy.remediator).of(remedy.item), Deletion(uid=remedy.item.uid))


@arrange.register
async def _(deed: deeds.CreateTemplate, telling: Telling) -> None:
    made = template_manifest(deed.template, multiple=deed.multiple, broken=deed.broken)
    await telling.client.create(made.kind, made.body, namespace=telling.sight.namespace)


@arrange.register
async def _(deed: deeds.MendTemplate, telling: Telling) -> None:
    ref = templates_of(remediator_of(deed.template)).at(deed.template, telling.sight.namespace)
    await telling.client.patch(ref, Merge({"spec": template_spec(deed.template)}))


@arrange.register
async def _(deed: deeds.DeleteTemplate, telling: Telling) -> None:
    await delete(telling.client, templates_of(remediator_of(deed.template)).at(deed.template, telling.sight.namespace))


@arrange.register
async def _(deed: deeds.InstallCrd, telling: Telling) -> None:
    await install(telling.client, definitions_of(deed.remediator))
    telling.remediation.follow(deed.remediator)


@arrange.register
async def _(deed: deeds.DeleteCrd, telling: Telling) -> None:
    doomed = definitions_of(deed.remediator).keys()
    for name in doomed:
        await delete(telling.client, DEFINITIONS.at(name))

    async def are_gone() -> bool:
        return doomed.isdisjoint(item.name for item in (await telling.client.list_all(DEFINITIONS)).items)

    if not await until(are_gone, SETTLE_SECONDS):
        raise CannotDo(f"the kinds of {deed.remediator.value} did not go away")
    telling.remediation.forget(deed.remediator)


async def install(client: Client, definitions: Mapping[str, Body]) -> None:
    """Definitions of kinds, by name; the kinds can be used when this returns."""
    for definition in definitions.values():
        with suppress(AlreadyExists):
            await client.create(DEFINITIONS, definition)

    async def are_served() -> bool:
        known = {item.name: item for item in (await client.list_all(DEFINITIONS)).items}
        return all(name in known and _is_established(known[name].status) for name in definitions)

    if not await until(are_served, SETTLE_SECONDS):
        raise CannotDo(f"not all of these kinds came into service: {', '.join(definitions)}")


def _is_established(status: dict[str, Any] | None) -> bool:
    return any(
        one["type"] == "Established" and one["status"] == "True" for one in (status or {}).get("conditions") or ()
    )


@arrange.register
async def _(deed: deeds.EditCheck, telling: Telling) -> None:
    await _edit(telling, deed.check, {"spec": check_spec(deed.parts, telling.sight.namespace)})


@arrange.register
async def _(deed: deeds.PauseCheck, telling: Telling) -> None:
    await _edit(telling, deed.check, {"spec": {"pauseRequests": ["the story asks for it"]}})


@arrange.register
async def _(deed: deeds.ResumeCheck, telling: Telling) -> None:
    await _edit(telling, deed.check, {"spec": {"pauseRequests": None}})


@arrange.register
async def _(deed: deeds.AnnotateCheck, telling: Telling) -> None:
    await _edit(telling, deed.check, {"metadata": {"annotations": {deed.annotation.key: deed.annotation.value}}})


async def _edit(telling: Telling, check: str, change: Body) -> None:
    await telling.client.patch(CHECKS.at(check), Merge(change))


@arrange.register
async def _(deed: deeds.DeleteCheck, telling: Telling) -> None:
    await delete(telling.client, CHECKS.at(deed.check))


@arrange.register
async def _(deed: deeds.EditPolicy, telling: Telling) -> None:
    ref = POLICIES.at(deed.policy, telling.sight.namespace)
    await telling.client.patch(ref, Merge({"spec": policy_spec(deed.parts)}))


@arrange.register
async def _(deed: deeds.DeletePolicy, telling: Telling) -> None:
    await delete(telling.client, POLICIES.at(deed.policy, telling.sight.namespace))


@arrange.register
async def _(deed: deeds.TakeLock, telling: Telling) -> None:
    """Whoever had it before is not asked."""
    name, now = medik8s.lock_of(telling.name_of(deed.node)), telling.scene.clock.now()
    spec = {
        "holderIdentity": deed.holder,
        "leaseDurationSeconds": round(deed.seconds),
        "acquireTime": f"{now:%Y-%m-%dT%H:%M:%S.%fZ}",
        "renewTime": f"{now:%Y-%m-%dT%H:%M:%S.%fZ}",
    }
    where = medik8s.LOCK_NAMESPACE
    try:
        await telling.client.create(LEASES, {"metadata": {"name": name}, "spec": spec}, namespace=where)
    except AlreadyExists:
        await telling.client.patch(LEASES.at(name, where), Merge({"spec": spec}))


@arrange.register
async def _(deed: deeds.ReleaseLock, telling: Telling) -> None:
    await delete(telling.client, LEASES.at(medik8s.lock_of(telling.name_of(deed.node)), medik8s.LOCK_NAMESPACE))


@arrange.register
async def _(deed: deeds.Brake, telling: Telling) -> None:
    if deed.switch is deeds.Switch.OFF:
        await delete(telling.client, CONFIG_MAPS.at(BRAKE, DEFIB_NAMESPACE))
        return
    await _say_in_config_map(telling, BRAKE, {"paused": "true", "reason": "the story says so", "by": "a person"})


@arrange.register
async def _(deed: deeds.AnnounceUpgrade, telling: Telling) -> None:
    until_then = {"until": _moment(telling, deed.seconds), "reason": "the story upgrades its nodes"}
    await _say_in_config_map(telling, UPGRADE, until_then)


@arrange.register
async def _(deed: deeds.EndUpgrade, telling: Telling) -> None:
    del deed
    await delete(telling.client, CONFIG_MAPS.at(UPGRADE, DEFIB_NAMESPACE))


@arrange.register
async def _(deed: deeds.AnnounceUpgradeOf, telling: Telling) -> None:
    await _annotate(telling, telling.name_of(deed.node), {UPGRADING_UNTIL: _moment(telling, deed.seconds)})


@arrange.register
async def _(deed: deeds.BeginClusterUpgrade, telling: Telling) -> None:
    del deed
    with suppress(AlreadyExists):
        await telling.client.create(CLUSTER_VERSIONS, {"metadata": {"name": CLUSTER_VERSION}})
    await _progress(telling, Truth.TRUE)


@arrange.register
async def _(deed: deeds.FinishClusterUpgrade, telling: Telling) -> None:
    del deed
    await _progress(telling, Truth.FALSE)


async def _progress(telling: Telling, status: Truth) -> None:
    progressing = {"type": "Progressing", "status": status.value, "lastTransitionTime": _moment(telling)}
    said = {"status": {"desired": {"version": "4.99.1"}, "conditions": [progressing]}}
    await telling.client.patch(CLUSTER_VERSIONS.at(CLUSTER_VERSION), Merge(said), subresource="status")


@arrange.register
async def _(deed: deeds.CreateMachineHealthCheck, telling: Telling) -> None:
    body = {"metadata": {"name": deed.name}, "spec": {"unhealthyConditions": []}}
    await telling.client.create(MACHINE_HEALTH_CHECKS, body, namespace=telling.sight.namespace)


@arrange.register
async def _(deed: deeds.DeleteMachineHealthCheck, telling: Telling) -> None:
    await delete(telling.client, MACHINE_HEALTH_CHECKS.at(deed.name, telling.sight.namespace))


async def _say_in_config_map(telling: Telling, name: str, said: dict[str, str]) -> None:
    body = {"metadata": {"name": name}, "data": said}
    await telling.client.create(CONFIG_MAPS, body, namespace=DEFIB_NAMESPACE)


@arrange.register
async def _(deed: deeds.Approve, telling: Telling) -> None:
    await _annotate(telling, telling.name_of(deed.node), {APPROVED_UNTIL: _moment(telling, deed.seconds)})


async def _annotate(telling: Telling, node: str, annotations: Mapping[str, str]) -> None:
    await telling.client.patch(NODES.at(node), Merge({"metadata": {"annotations": annotations}}))


def _moment(telling: Telling, seconds: float = 0.0) -> str:
    return f"{telling.scene.clock.now() + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"


@arrange.register
async def _(deed: deeds.RestartOperator, telling: Telling) -> None:
    del deed
    await _kill(telling.replica)
    await telling.replica.start()


@arrange.register
async def _(deed: deeds.StopOperator, telling: Telling) -> None:
    del deed
    await _kill(telling.replica)


async def _kill(replica: Replica) -> None:
    if not replica.is_running:
        raise CannotDo("Defib does not run now")
    await replica.kill()


@arrange.register
async def _(deed: deeds.StartOperator, telling: Telling) -> None:
    del deed
    if telling.replica.is_running:
        raise CannotDo("Defib runs already")
    await telling.replica.start()


async def delete(client: Client, ref: Ref[R]) -> None:
    """The one that is there now."""
    await client.delete(ref, Deletion(uid=(await client.get(ref)).uid))


async def delete_if_there(client: Client, ref: Ref[R]) -> None:
    with suppress(NotFound):
        await delete(client, ref)

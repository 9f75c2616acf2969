"""The objects that a story's checks, policies, templates and remediators stand for, and the kinds that they are of."""

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from defib.hollow.machine import Bmc
from defib.kube.kinds import SECRETS, Kind, unstructured
from defib.model import medik8s
from defib.model.meta import Unstructured
from defib.model.node import ZONE_LABEL
from testbed.scenario.manifests import APP, Manifest
from testbed.scenario.story import (
    After,
    AtLeastHealthy,
    AtMostUnhealthy,
    Attempts,
    Backoff,
    Check,
    Chosen,
    DeletesNode,
    Dwell,
    Escalates,
    FailoverTemplate,
    Field,
    ForWorkload,
    HealthyDelay,
    InMode,
    Part,
    Policy,
    PolicyPart,
    PowerField,
    PowerPart,
    PowerTemplate,
    Remediator,
    Selects,
    StormCooldown,
    Story,
    Template,
    TemplateName,
    Then,
    With,
)

ROOT = Path(__file__).parents[2]
DEFINED_IN = (
    "deploy/crds/remediation.medik8s.io_nodehealthchecks.yaml",
    "deploy/crds/defib.dev_drainpolicies.yaml",
    "deploy/crds/defib.dev_nodedrains.yaml",
    "deploy/crds/defib.dev_nodeincidents.yaml",
    "deploy/crds/defib.dev_podfailoverpolicies.yaml",
    "deploy/crds/defib.dev_podfailoverremediations.yaml",
    "deploy/crds/defib.dev_podfailoverremediationtemplates.yaml",
    "deploy/crds/defib.dev_powercycleremediations.yaml",
    "deploy/crds/defib.dev_powercycleremediationtemplates.yaml",
    "testbed/crds/test-remediators.yaml",
)
OPENSHIFT_IN = ("testbed/crds/test-openshift.yaml", "testbed/crds/metal3-machines.yaml")

VERSION = "v1alpha1"
DEFIB_NAMESPACE = "defib-system"
DEFIB_NAMESPACES = (DEFIB_NAMESPACE, medik8s.LOCK_NAMESPACE)
BRAKE = "defib-brake"
UPGRADE = "defib-upgrade"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"

DEFINITIONS = unstructured(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
CHECKS = unstructured(medik8s.GROUP, medik8s.VERSION, "nodehealthchecks", medik8s.CHECK_KIND, namespaced=False)
POLICIES = unstructured("defib.dev", VERSION, "podfailoverpolicies", "PodFailoverPolicy", namespaced=True)
CLUSTER_VERSIONS = unstructured("config.openshift.io", "v1", "clusterversions", "ClusterVersion", namespaced=False)
MACHINE_HEALTH_CHECKS = unstructured(
    "machine.openshift.io", "v1beta1", "machinehealthchecks", "MachineHealthCheck", namespaced=True
)
CLUSTER_VERSION = "version"
CONFIG_MAPS = unstructured("", "v1", "configmaps", "ConfigMap", namespaced=True)

_KINDS = {
    Remediator.FOO: ("test.defib.dev", "Foo"),
    Remediator.BAR: ("test.defib.dev", "Bar"),
    Remediator.POWER: ("defib.dev", "PowerCycle"),
    Remediator.FAILOVER: ("defib.dev", "PodFailover"),
}


def remediator_of(template: TemplateName) -> Remediator:
    return Remediator(template.partition("-")[0])


def remediations_of(remediator: Remediator) -> Kind[Unstructured]:
    return _kind(remediator, "Remediation")


def templates_of(remediator: Remediator) -> Kind[Unstructured]:
    return _kind(remediator, "RemediationTemplate")


def _kind(remediator: Remediator, what: str) -> Kind[Unstructured]:
    group, word = _KINDS[remediator]
    name = word + what
    return unstructured(group, VERSION, f"{name.lower()}s", name, namespaced=True)


def definitions(*, openshift: bool) -> dict[str, dict[str, Any]]:
    """By name, every kind that an operator finds on the stage."""
    paths = (*DEFINED_IN, *(OPENSHIFT_IN if openshift else ()))
    return {one["metadata"]["name"]: one for path in paths for one in _read(path)}


@cache
def _read(path: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((ROOT / path).read_text()))


def definitions_of(remediator: Remediator) -> dict[str, dict[str, Any]]:
    known = definitions(openshift=False)
    return {str(kind): known[str(kind)] for kind in (remediations_of(remediator), templates_of(remediator))}


def remediation_manifests(story: Story) -> Iterator[Manifest]:
    """In the order in which to make them; the kinds are there by then."""
    for template in story.templates:
        match template:
            case Template(name=name, multiple=multiple, broken=broken):
                yield template_manifest(name, multiple=multiple, broken=broken)
            case PowerTemplate(name=power, parts=parts):
                yield template_manifest(TemplateName(power), parts)
            case FailoverTemplate(name=failover, parts=fields):
                yield template_manifest(TemplateName(failover), fields)
    for check in story.checks:
        yield Manifest(CHECKS, _check_body(check, story.name))
    for policy in story.policies:
        yield Manifest(POLICIES, _policy_body(policy))


def template_manifest(
    name: TemplateName, parts: Iterable[PowerPart | Field] = (), *, multiple: bool = False, broken: bool = False
) -> Manifest:
    annotations = {medik8s.MULTIPLE_TEMPLATES: "true"} if multiple else {}
    spec = {} if broken else template_spec(name, parts)
    return Manifest(
        templates_of(remediator_of(name)), {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
    )


def template_spec(name: TemplateName, parts: Iterable[PowerPart | Field] = ()) -> dict[str, Any]:
    match remediator_of(name):
        case Remediator.POWER:
            spec = power_cycle_spec(parts)
        case Remediator.FAILOVER:
            spec = fields_of(parts)
        case _:
            spec = {"from": name}
    return {"template": {"spec": spec}}


def power_cycle_spec(parts: Iterable[PowerPart | Field]) -> dict[str, Any]:
    """Every machine has its BMC under its own name, and a Secret for it in the story's namespace."""
    power = {"driver": "hollow", "address": "{node}", "credentials": {"name": bmc_secret("{node}")}}
    spec: dict[str, Any] = {"power": power}
    for part in parts:
        match part:
            case DeletesNode():
                spec["workloads"] = "DeleteNode"
            case Attempts(count=count):
                spec["attempts"] = count
            case Backoff(seconds=seconds):
                spec["backoff"] = _go(seconds)
            case PowerField(field=field) | Field(field=field):
                _set(spec, field.key.split("."), yaml.safe_load(field.value))
    return spec


def fields_of(parts: Iterable[PowerPart | PolicyPart]) -> dict[str, Any]:
    """Those that are named by their paths, and no others."""
    spec: dict[str, Any] = {}
    for part in parts:
        if isinstance(part, Field):
            _set(spec, part.field.key.split("."), yaml.safe_load(part.field.value))
    return spec


def _policy_body(policy: Policy) -> dict[str, Any]:
    return {"metadata": {"name": policy.name}, "spec": {"selector": {}} | policy_spec(policy.parts)}


def policy_spec(parts: Iterable[PolicyPart]) -> dict[str, Any]:
    """The fields that these parts are about."""
    parts = tuple(parts)
    spec = fields_of(parts)
    for part in parts:
        match part:
            case ForWorkload(workload=workload):
                spec["selector"] = {"matchLabels": {APP: workload}}
            case Dwell(seconds=seconds):
                spec["dwell"] = _go(seconds)
            case Field():
                pass
    return spec


def bmc_secret(node: str) -> str:
    return f"bmc-{node}"


def secret_manifest(bmc: Bmc) -> Manifest:
    login = {"username": bmc.username, "password": bmc.password}
    return Manifest(SECRETS, {"metadata": {"name": bmc_secret(bmc.machine.name)}, "stringData": login})


def _check_body(check: Check, namespace: str) -> dict[str, Any]:
    return {"metadata": {"name": check.name}, "spec": check_spec(check.parts, namespace)}


def check_spec(parts: Iterable[Part], namespace: str) -> dict[str, Any]:
    """The fields that these parts are about. Templates are in the story's namespace."""
    spec: dict[str, Any] = {}
    for part in parts:
        match part:
            case Selects(nodes=nodes):
                spec["selector"] = _selector(nodes)
            case AtMostUnhealthy(amount=amount):
                spec["maxUnhealthy"] = _amount(amount)
            case AtLeastHealthy(amount=amount):
                spec["minHealthy"] = _amount(amount)
            case After(seconds=seconds):
                spec["unhealthyConditions"] = _not_ready_for(seconds)
            case Field(field=field):
                _set(spec, field.key.split("."), yaml.safe_load(field.value))
            case _:
                _see_to(part, spec, namespace)
    return spec


def _see_to(part: Part, spec: dict[str, Any], namespace: str) -> None:
    match part:
        case With(template=template):
            spec["remediationTemplate"] = _reference(template, namespace)
        case Escalates(template=template, seconds=seconds) | Then(template=template, seconds=seconds):
            steps = spec.setdefault("escalatingRemediations", [])
            reference = _reference(template, namespace)
            steps.append({"remediationTemplate": reference, "order": len(steps), "timeout": _go(seconds)})
        case HealthyDelay(seconds=seconds):
            spec["healthyDelay"] = _go(seconds)
        case StormCooldown(seconds=seconds):
            spec["stormCooldownDuration"] = _go(seconds)
        case InMode(mode=mode):
            spec["mode"] = mode.value
        case _:
            raise AssertionError(f"nobody knows which field {part} is")


def _selector(nodes: Chosen) -> dict[str, Any] | None:
    match nodes:
        case "all":
            return {}
        case "workers" | "control-plane":
            operator = "Exists" if nodes == "control-plane" else "DoesNotExist"
            return {"matchExpressions": [{"key": CONTROL_PLANE, "operator": operator}]}
        case _:
            label, given, value = nodes.partition("=")
            return {"matchLabels": {label: value} if given else {ZONE_LABEL: nodes}}


def _amount(amount: str) -> int | str:
    return amount if amount.endswith("%") else int(amount)


def _not_ready_for(seconds: float) -> list[dict[str, str]]:
    return [{"type": "Ready", "status": status, "duration": _go(seconds)} for status in ("False", "Unknown")]


def _reference(template: TemplateName, namespace: str) -> dict[str, str]:
    kind = templates_of(remediator_of(template))
    return {"apiVersion": kind.api_version, "kind": kind.name, "namespace": namespace, "name": template}


def _set(spec: dict[str, Any], path: list[str], value: Any) -> None:
    for key in path[:-1]:
        spec = spec.setdefault(key, {})
    spec[path[-1]] = value


def _go(seconds: float) -> str:
    return f"{seconds:g}s"

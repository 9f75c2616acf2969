"""The objects that a story's checks, templates and remediators stand for, and the kinds that they are of."""

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from defib.kube.kinds import Kind, unstructured
from defib.model import medik8s
from defib.model.meta import Unstructured
from defib.model.node import ZONE_LABEL
from testbed.scenario.manifests import Manifest
from testbed.scenario.story import (
    After,
    AtLeastHealthy,
    AtMostUnhealthy,
    Check,
    Chosen,
    Escalates,
    Field,
    HealthyDelay,
    InMode,
    Part,
    Remediator,
    Selects,
    StormCooldown,
    Story,
    TemplateName,
    Then,
    With,
)

ROOT = Path(__file__).parents[2]
DEFINED_IN = ("deploy/crds/remediation.medik8s.io_nodehealthchecks.yaml", "testbed/crds/test-remediators.yaml")
OPENSHIFT_IN = ("testbed/crds/test-openshift.yaml", "testbed/crds/metal3-machines.yaml")

GROUP = "test.defib.dev"
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
CLUSTER_VERSIONS = unstructured("config.openshift.io", "v1", "clusterversions", "ClusterVersion", namespaced=False)
MACHINE_HEALTH_CHECKS = unstructured(
    "machine.openshift.io", "v1beta1", "machinehealthchecks", "MachineHealthCheck", namespaced=True
)
CLUSTER_VERSION = "version"
CONFIG_MAPS = unstructured("", "v1", "configmaps", "ConfigMap", namespaced=True)


def remediator_of(template: TemplateName) -> Remediator:
    return Remediator(template.partition("-")[0])


def remediations_of(remediator: Remediator) -> Kind[Unstructured]:
    return _kind(remediator, "remediation")


def templates_of(remediator: Remediator) -> Kind[Unstructured]:
    return _kind(remediator, "remediationtemplate")


def _kind(remediator: Remediator, what: str) -> Kind[Unstructured]:
    name = remediator.value.capitalize() + what.capitalize().replace("template", "Template")
    return unstructured(GROUP, VERSION, f"{remediator.value}{what}s", name, namespaced=True)


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
        yield template_manifest(template.name, multiple=template.multiple, broken=template.broken)
    for check in story.checks:
        yield Manifest(CHECKS, _check_body(check, story.name))


def template_manifest(name: TemplateName, *, multiple: bool = False, broken: bool = False) -> Manifest:
    annotations = {medik8s.MULTIPLE_TEMPLATES: "true"} if multiple else {}
    body = {"metadata": {"name": name, "annotations": annotations}, "spec": {} if broken else template_spec(name)}
    return Manifest(templates_of(remediator_of(name)), body)


def template_spec(name: TemplateName) -> dict[str, Any]:
    return {"template": {"spec": {"from": name}}}


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

"""Templates: whether a check's are there and make sense, and the remediation that is made from one."""

import copy
import hashlib
from typing import Any

import msgspec

from defib.decide.ground import Ground, is_control_plane
from defib.model import medik8s
from defib.model.cluster import Missing, Served
from defib.model.health_check import Check, KindRef, Step, TemplateRef
from defib.model.meta import Unstructured
from defib.model.node import Node

NOT_FOUND = "RemediationTemplateNotFound"
INVALID = "RemediationTemplateInvalid"
NO_PERMISSION = "MissingPermission"
LOOKING = "LookingForTemplates"


class Disabled(msgspec.Struct, frozen=True):
    """Why a check does nothing new, and what to do about it."""

    reason: str
    message: str


def why_unusable(check: Check, ground: Ground) -> Disabled | None:
    """The first template that keeps the check from working. None when all are good."""
    for step in check.steps:
        if why := _why_template(step.template, ground):
            return why
    return _why_repeated(check, ground)


def _why_template(ref: TemplateRef, ground: Ground) -> Disabled | None:
    if ref.kind.name == medik8s.METAL3_TEMPLATE and ref.namespace != medik8s.METAL3_NAMESPACE:
        return Disabled(INVALID, f"{medik8s.METAL3_TEMPLATE} must be in the {medik8s.METAL3_NAMESPACE} namespace")
    for kind in (ref.kind, ref.makes):
        if why := _why_kind(kind, ground):
            return why
    served = ground.cluster.kinds[ref.kind]
    if isinstance(served, Served) and served.namespaced and not ref.namespace:
        return Disabled(NOT_FOUND, f"failed to get {ref.kind.name} {ref.name}: no namespace is provided")
    item = ground.template(ref.kind, ref.key)
    if item is None:
        return Disabled(NOT_FOUND, f"failed to get {ref}: it does not exist; create it, or name another one")
    if not isinstance((item.spec or {}).get("template"), dict):
        return Disabled(INVALID, f"{ref} has no spec.template, from which a remediation could be made")
    return None


def _why_kind(kind: KindRef, ground: Ground) -> Disabled | None:
    match ground.cluster.kinds.get(kind):
        case None:
            return Disabled(LOOKING, f"{kind} is being looked for")
        case Missing(why):
            return Disabled(NOT_FOUND, f"failed to get {kind}: {why}")
        case Served(collection=collection):
            forbidden = ground.cluster.absent.get(collection)
            return Disabled(NO_PERMISSION, f"failed to get {kind}: {forbidden}") if forbidden else None


def shows_what_was_begun(check: Check, ground: Ground) -> bool:
    """Whether we may see the remediations of this check. If not, there may be some."""
    made = (ground.cluster.kinds.get(step.template.makes) for step in check.steps)
    return not any(isinstance(kind, Served) and kind.collection in ground.cluster.absent for kind in made)


def _why_repeated(check: Check, ground: Ground) -> Disabled | None:
    """Two remediations of one kind for one node need different names, which not every remediator understands."""
    kinds = [step.template.kind for step in check.steps]
    for step in check.steps:
        if kinds.count(step.template.kind) > 1 and not allows_many(step.template, ground):
            return Disabled(
                INVALID,
                f"{step.template.kind.name} is used {kinds.count(step.template.kind)} times, but {step.template} "
                f"does not say that it supports this (annotation {medik8s.MULTIPLE_TEMPLATES})",
            )
    return None


def allows_many(ref: TemplateRef, ground: Ground) -> bool:
    item = ground.template(ref.kind, ref.key)
    return item is not None and medik8s.MULTIPLE_TEMPLATES in item.annotations


def remediation_from(step: Step, item: Unstructured, check: Check, node: Node) -> dict[str, Any]:
    """The body of a new remediation, in the shape that every remediator of medik8s knows."""
    ref = step.template
    labels = {medik8s.PART_OF: medik8s.PART_OF_US}
    if is_control_plane(node):
        labels[medik8s.IS_CONTROL_PLANE] = ""
    metadata: dict[str, Any] = {
        "name": name_for(ref, item, node),
        "labels": labels,
        "annotations": {medik8s.NODE_NAME: node.name, medik8s.TEMPLATE_NAME: ref.name},
        "ownerReferences": [
            {
                "apiVersion": medik8s.API_VERSION,
                "kind": medik8s.CHECK_KIND,
                "name": check.name,
                "uid": check.uid,
                "controller": False,
            }
        ],
    }
    if medik8s.MULTIPLE_TEMPLATES in item.annotations:
        metadata["generateName"] = f"{node.name}-"
    if ref.namespace:
        metadata["namespace"] = ref.namespace
    spec = ((item.spec or {}).get("template") or {}).get("spec")
    return {"metadata": metadata} | ({"spec": copy.deepcopy(spec)} if spec is not None else {})


def name_for(ref: TemplateRef, item: Unstructured, node: Node) -> str:
    """The node's; or one that looks generated, but that two of us would choose alike: the second is refused."""
    return f"{node.name}-{_suffix(ref, node)}" if medik8s.MULTIPLE_TEMPLATES in item.annotations else node.name


def _suffix(ref: TemplateRef, node: Node) -> str:
    source = f"{ref.kind.api_version} {ref.kind.name} {ref.key} {node.uid}"
    return hashlib.sha256(source.encode()).hexdigest()[:5]


def machine_of(node: Node, ref: TemplateRef) -> str:
    """The OpenShift Machine behind a node, where the remediation can have it as an owner: in the same namespace."""
    machine = node.annotations.get(medik8s.MACHINE, "")
    return machine if machine.partition("/")[0] == ref.namespace and machine.count("/") == 1 else ""

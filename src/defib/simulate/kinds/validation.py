"""The rules for built-in kinds that an operator can come to break. Not the whole of the real server's."""

import re
from collections.abc import Callable
from typing import Any

from defib.simulate.kinds.catalog import Served
from defib.simulate.refusals import (
    Problem,
    bad_request,
    duplicate,
    forbidden_field,
    required,
    too_long,
    unsupported,
    wrong,
)
from defib.simulate.store import Object

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_micro_time = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)").fullmatch
_key = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_./]*)?[A-Za-z0-9]").fullmatch
_config_key = re.compile(r"[-._a-zA-Z0-9]+").fullmatch
_CONFIG_MAX = 1024 * 1024
_CONFIG_KEY_WHY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_IMMUTABLE_POD_SPEC = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _lease(lease: Object, _before: Object | None) -> list[Problem]:
    spec = lease.get("spec") or {}
    found = []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        found.append(wrong("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        found.append(wrong("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    return found


def _check_lease_types(lease: Object) -> None:
    """Wrong types do not even decode, so they are answered with 400 and not with 422."""
    spec = lease.get("spec") or {}
    for name in ("renewTime", "acquireTime"):
        time = spec.get(name)
        if time is not None and not (isinstance(time, str) and _micro_time(time)):
            why = f'parsing time {_quoted(time)} as "2006-01-02T15:04:05.000000Z07:00"'
            raise bad_request(f'Lease in version "v1" cannot be handled as a Lease: {why}')
    holder = spec.get("holderIdentity")
    if holder is not None and not isinstance(holder, str):
        why = "json: cannot unmarshal number into Go struct field LeaseSpec.spec.holderIdentity of type string"
        raise bad_request(f'Lease in version "v1" cannot be handled as a Lease: {why}')


def _quoted(value: Any) -> str:
    return f'"{value}"'


def _node(node: Object, _before: Object | None) -> list[Problem]:
    found = []
    seen = set()
    for number, taint in enumerate((node.get("spec") or {}).get("taints") or ()):
        where = f"metadata.taints[{number}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        if not _key(key):
            found.append(wrong(f"{where}.key", key, "name part must be non-empty"))
        if not effect:
            found.append(required(f"{where}.effect"))
        elif effect not in _EFFECTS:
            found.append(unsupported(f"{where}.effect", effect, _EFFECTS))
        if (key, effect) in seen:
            shown = {"Key": key, "Value": taint.get("value", ""), "Effect": effect, "TimeAdded": None}
            found.append(duplicate(where, shown, "taints must be unique by key and effect pair"))
        seen.add((key, effect))
    return found


def _pod(pod: Object, before: Object | None) -> list[Problem]:
    spec = pod.get("spec") or {}
    found = []
    if not spec.get("containers"):
        found.append(required("spec.containers"))
    for number, container in enumerate(spec.get("containers") or ()):
        where = f"spec.containers[{number}]"
        found += [required(f"{where}.{name}") for name in ("name", "image") if not container.get(name)]
    if before and before["spec"].get("nodeName") and spec.get("nodeName") != before["spec"]["nodeName"]:
        found.append(forbidden_field("spec", _IMMUTABLE_POD_SPEC))
    return found


def _workload(workload: Object, before: Object | None) -> list[Problem]:
    spec = workload.get("spec") or {}
    found = []
    if not spec.get("selector"):
        found.append(required("spec.selector"))
    if before and before["spec"].get("selector") != spec.get("selector"):
        found.append(wrong("spec.selector", spec.get("selector"), "field is immutable"))
    replicas = spec.get("replicas")
    if replicas is not None and replicas < 0:
        found.append(wrong("spec.replicas", replicas, "must be greater than or equal to 0"))
    return found


def _config_map(config_map: Object, _before: Object | None) -> list[Problem]:
    found = []
    size = 0
    for field in ("data", "binaryData"):
        for key, value in (config_map.get(field) or {}).items():
            size += len(value.encode())
            if not _config_key(key):
                found.append(wrong(f"{field}[{key}]", key, _CONFIG_KEY_WHY))
    if size > _CONFIG_MAX:
        found.append(too_long("[]", _CONFIG_MAX))
    return found


def _budget(budget: Object, _before: Object | None) -> list[Problem]:
    spec = budget.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        why = "minAvailable and maxUnavailable cannot be both set"
        return [wrong("spec", spec, why)]
    return []


def _event(event: Object, _before: Object | None) -> list[Problem]:
    about = event.get("involvedObject") or {}
    namespace, expected = event["metadata"].get("namespace"), about.get("namespace") or "default"
    if "involvedObject" in event and namespace != expected:
        return [wrong("involvedObject.namespace", about.get("namespace", ""), "does not match event.namespace")]
    return []


def _definition(definition: Object, _before: Object | None) -> list[Problem]:
    spec = definition.get("spec") or {}
    names = spec.get("names") or {}
    found = [required(f"spec.names.{name}") for name in ("plural", "kind") if not names.get(name)]
    found += [required(f"spec.{name}") for name in ("group", "scope", "versions") if not spec.get(name)]
    expected = f"{names.get('plural')}.{spec.get('group')}"
    if not found and definition["metadata"].get("name") != expected:
        why = 'must be spec.names.plural+"."+spec.group'
        found.append(wrong("metadata.name", definition["metadata"].get("name"), why))
    stored = [v for v in spec.get("versions") or () if v.get("storage")]
    if not found and len(stored) != 1:
        found.append(
            wrong("spec.versions", spec["versions"], "must have exactly one version marked as storage version")
        )
    return found


_RULES: dict[str, Callable[[Object, Object | None], list[Problem]]] = {
    "leases.coordination.k8s.io": _lease,
    "configmaps": _config_map,
    "nodes": _node,
    "pods": _pod,
    "events": _event,
    "deployments.apps": _workload,
    "statefulsets.apps": _workload,
    "replicasets.apps": _workload,
    "daemonsets.apps": _workload,
    "poddisruptionbudgets.policy": _budget,
    "customresourcedefinitions.apiextensions.k8s.io": _definition,
}


def problems(served: Served, whole: Object, before: Object | None) -> list[Problem]:
    if served.kind == "Lease":
        _check_lease_types(whole)
    rules = _RULES.get(served.place)
    return rules(whole, before) if rules else []

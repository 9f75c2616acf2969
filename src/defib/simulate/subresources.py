"""The small subresources: scale, binding, finalize, and the reviews that are answered and not kept."""

from typing import Any

import msgspec

from defib.clock import Clock
from defib.simulate.answers import Answer, as_json
from defib.simulate.bodies import decoded, object_of
from defib.simulate.kinds import metadata
from defib.simulate.kinds.catalog import ScalePaths, at_path
from defib.simulate.patches.merge_patch import json_patch, merge
from defib.simulate.refusals import Refusal, bad_request, conflict, invalid, method_not_allowed, wrong
from defib.simulate.routing import Call
from defib.simulate.store import Object, Store, Version
from defib.simulate.writing import Writer


def _selector_text(selector: Any) -> str:
    """A selector as the scale subresource writes it: `a=b,c in (d,e)`."""
    if isinstance(selector, str):
        return selector
    if not isinstance(selector, dict):
        return ""
    labels = selector.get("matchLabels") if "matchLabels" in selector or "matchExpressions" in selector else selector
    said = [f"{k}={v}" for k, v in sorted((labels or {}).items())]
    for one in selector.get("matchExpressions") or ():
        values = ",".join(sorted(one.get("values") or ()))
        forms = {"In": f"{one['key']} in ({values})", "NotIn": f"{one['key']} notin ({values})"}
        plain = one["key"] if one["operator"] == "Exists" else f"!{one['key']}"
        said.append(forms.get(one["operator"], plain))
    return ",".join(said)


def _scale_of(paths: ScalePaths, stored: Object) -> Object:
    replicas = at_path(stored, paths.spec_replicas)
    if replicas is None:
        why = f'the spec replicas field ".{".".join(paths.spec_replicas)}" does not exist'
        raise Refusal(500, "InternalError", f"Internal error occurred: {why}", {"causes": [{"message": why}]})
    meta = stored["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Object = {"replicas": at_path(stored, paths.status_replicas) or 0}
    selector = _selector_text(at_path(stored, paths.selector)) if paths.selector else ""
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {k: meta[k] for k in kept if k in meta},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _with_value(stored: Object, path: tuple[str, ...], value: Any) -> Object:
    if len(path) == 1:
        return {**stored, path[0]: value}
    return {**stored, path[0]: _with_value(stored.get(path[0]) or {}, path[1:], value)}


class Subresources:
    def __init__(self, store: Store, clock: Clock, writer: Writer) -> None:
        self._store = store
        self._clock = clock
        self._writer = writer

    def scale(self, call: Call) -> Answer:
        paths = call.served.scale
        assert paths, "routing lets only kinds with a scale subresource through"
        before = self._writer.find(call)
        scale = _scale_of(paths, before.object)
        if call.verb == "get":
            return as_json(scale)
        wanted = self._wanted_scale(call, scale)
        replicas = (wanted.get("spec") or {}).get("replicas", 0)
        if not isinstance(replicas, int) or replicas < 0:
            problem = wrong("spec.replicas", replicas, "must be greater than or equal to 0")
            raise invalid("Scale", "autoscaling", call.name, [problem])
        proposed = _with_value(before.object, paths.spec_replicas, replicas)
        asked = (wanted.get("metadata") or {}).get("resourceVersion")
        meta = {**proposed["metadata"], "resourceVersion": asked or ""}
        made = self._writer.replace(_as_patch(call), before, {**proposed, "metadata": meta})
        return as_json(_scale_of(paths, made.object))

    def _wanted_scale(self, call: Call, scale: Object) -> Object:
        body = decoded(call)
        if call.verb == "update":
            wanted = body
        elif isinstance(body, list):
            wanted = json_patch(scale, body)
        else:
            wanted = merge(scale, body)
        if not isinstance(wanted, dict):
            raise bad_request("the body is no Scale")
        return wanted

    def bind(self, call: Call) -> Answer:
        """What a scheduler does: the pod gets its node, once."""
        before = self._writer.find(call)
        body = decoded(call)
        node = ((body if isinstance(body, dict) else {}).get("target") or {}).get("name")
        if not node:
            raise bad_request("a binding needs a target")
        pod = before.object
        taken = pod["spec"].get("nodeName")
        if taken:
            why = f'pod {call.name} is already assigned to node "{taken}"'
            raise conflict("pods/binding", "", call.name, why)
        status = pod.get("status") or {}
        kept = [c for c in status.get("conditions") or () if c["type"] != "PodScheduled"]
        now = metadata.stamp(self._clock.now())
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}
        if not call.dry_run:
            spec = {**pod["spec"], "nodeName": node}
            self._store.put("pods", {**pod, "spec": spec, "status": {**status, "conditions": [*kept, scheduled]}})
        return as_json({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)

    def finalize(self, call: Call) -> Version:
        """Only the finalizers in a namespace's spec; the last one takes the namespace with it."""
        before = self._writer.find(call)
        finalizers = (object_of(call).get("spec") or {}).get("finalizers") or []
        spec = {k: v for k, v in (before.object.get("spec") or {}).items() if k != "finalizers"}
        if finalizers:
            spec["finalizers"] = finalizers
        return self._writer.replace(call, before, {**before.object, "spec": spec})

    def review(self, call: Call) -> Answer:
        """Everybody may do everything here."""
        asked = decoded(call)
        status: Object = {"allowed": True}
        if call.served.kind == "TokenReview":
            status = {"authenticated": True, "user": {"username": call.client}}
        elif call.served.kind == "SelfSubjectReview":
            status = {"userInfo": {"username": call.client, "groups": ["system:masters"]}}
        kind = {"kind": call.served.kind, "apiVersion": call.served.api_version, "metadata": {}}
        return as_json({**kind, "spec": asked.get("spec") or {}, "status": status}, 201)


def _as_patch(call: Call) -> Call:
    """A scale is written without the version being asked for, whatever the kind itself demands of a PUT."""
    if call.verb not in ("update", "patch"):
        raise method_not_allowed()
    return msgspec.structs.replace(call, verb="patch")

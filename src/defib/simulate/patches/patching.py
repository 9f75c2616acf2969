"""PATCH: which of the four kinds of patch it is, and what it makes of the object."""

from collections.abc import Callable
from typing import Any

from defib.clock import Clock
from defib.kube.transport import APPLY_PATCH, JSON_PATCH, MERGE_PATCH
from defib.simulate.bodies import addressed, decoded, without_nulls
from defib.simulate.kinds.catalog import as_shown
from defib.simulate.patches.applying import Applier
from defib.simulate.patches.merge_patch import json_patch, merge
from defib.simulate.patches.strategic import strategic_merge
from defib.simulate.refusals import Refusal, bad_request
from defib.simulate.routing import Call
from defib.simulate.store import Object, Store, Version
from defib.simulate.writing import Writer

STRATEGIC_PATCH = "application/strategic-merge-patch+json"


class Patcher:
    def __init__(self, store: Store, clock: Clock, writer: Writer) -> None:
        self._writer = writer
        self._applier = Applier(store, clock, writer)

    def patch(self, call: Call) -> tuple[Version, bool]:
        """The new version, and whether the object was created by this."""
        kind = call.request.content_type.partition(";")[0].strip()
        if kind == APPLY_PATCH:
            return self._applier.apply(call, decoded(call))
        before = self._writer.find(call)
        change = _CHANGES.get(kind)
        if change is None:
            raise Refusal(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        if kind == STRATEGIC_PATCH and call.served.custom:
            accepted = f"{JSON_PATCH}, {MERGE_PATCH}, {APPLY_PATCH}"
            message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
            raise Refusal(415, "UnsupportedMediaType", message)
        wanted = change(call, enveloped(call, before.object), decoded(call))
        proposed = addressed(call, wanted)
        if not call.served.custom and b"null" in call.request.body:
            proposed = without_nulls(proposed)
        return self._writer.replace(call, before, proposed), False


def enveloped(call: Call, stored: Object) -> Object:
    return {"kind": call.served.kind, "apiVersion": call.served.api_version, **as_shown(call.served, stored)}


def _map(patch: Any) -> Object:
    if not isinstance(patch, dict):
        went = "array" if isinstance(patch, list) else type(patch).__name__
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {went} into Go value of type map[string]interface {{}}"
        )
    return patch


def _merged(_call: Call, target: Object, patch: Any) -> Object:
    return dict(merge(target, _map(patch)))


def _json_patched(_call: Call, target: Object, patch: Any) -> Object:
    return dict(json_patch(target, patch))


def _strategic(call: Call, target: Object, patch: Any) -> Object:
    return dict(strategic_merge(target, _map(patch), call.served.shape))


_CHANGES: dict[str, Callable[[Call, Object, Any], Object]] = {
    MERGE_PATCH: _merged,
    JSON_PATCH: _json_patched,
    STRATEGIC_PATCH: _strategic,
}

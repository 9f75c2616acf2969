"""The types of what built-in kinds have at the top: a wrong one does not even decode, an unknown one is dropped."""

from collections.abc import Callable
from typing import Any

from defib.simulate.kinds.catalog import Served
from defib.simulate.refusals import Refusal, bad_request
from defib.simulate.store import Object

_GO_TYPES = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}


def _texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(v, str) for v in value.values())


def _map(value: Any) -> bool:
    return isinstance(value, dict)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


_Fields = dict[str, tuple[Callable[[Any], bool], str]]

_STRINGS = (_texts, "map[string]string")
_STRUCT = (_map, "struct")
_WISH_AND_STATE: _Fields = {"spec": _STRUCT, "status": _STRUCT}
_META: _Fields = {
    "labels": _STRINGS,
    "annotations": _STRINGS,
    "finalizers": (_list_of_texts, "[]string"),
    "name": (_text, "string"),
    "generateName": (_text, "string"),
    "resourceVersion": (_text, "string"),
    "uid": (_text, "string"),
}
_EVERYWHERE = {"metadata"}
_TOP: dict[str, _Fields] = {
    "configmaps": {"data": _STRINGS, "binaryData": _STRINGS, "immutable": (_flag, "bool")},
    "secrets": {
        "data": _STRINGS,
        "stringData": _STRINGS,
        "type": (_text, "string"),
        "immutable": (_flag, "bool"),
    },
    "leases.coordination.k8s.io": {"spec": _STRUCT},
    **dict.fromkeys(
        (
            "nodes",
            "pods",
            "namespaces",
            "services",
            "persistentvolumes",
            "persistentvolumeclaims",
            "replicationcontrollers",
            "deployments.apps",
            "statefulsets.apps",
            "daemonsets.apps",
            "replicasets.apps",
            "poddisruptionbudgets.policy",
            "jobs.batch",
            "cronjobs.batch",
            "volumeattachments.storage.k8s.io",
            "csinodes.storage.k8s.io",
            "csidrivers.storage.k8s.io",
            "customresourcedefinitions.apiextensions.k8s.io",
        ),
        _WISH_AND_STATE,
    ),
}


def _undecodable(served: Served, why: str) -> Refusal:
    return bad_request(f'{served.kind} in version "{served.version}" cannot be handled as a {served.kind}: {why}')


def _check(served: Served, where: str, value: Object, fields: _Fields) -> None:
    for name, (fits, type_name) in fields.items():
        inner = value[name] if name in value else None  # noqa: SIM401 - without a call: every write comes here
        if inner is not None and not fits(inner):
            wrong = (
                next((v for v in inner.values() if not isinstance(v, str)), "") if isinstance(inner, dict) else inner
            )
            went = _GO_TYPES.get(type(wrong), "value")
            why = f"json: cannot unmarshal {went} into Go struct field {where}.{name} of type {type_name}"
            raise _undecodable(served, why)


def typed(served: Served, proposed: Object, *, strict: bool) -> Object:
    """Without what the kind does not have, and without empty maps of strings, which are as good as none."""
    _check(served, "ObjectMeta.metadata", proposed["metadata"], _META)
    fields = _TOP.get(served.place)
    if fields is None:
        return proposed
    _check(served, served.kind, proposed, fields)
    unknown = proposed.keys() - fields.keys() - _EVERYWHERE
    if unknown and strict:
        listed = ", ".join(f'unknown field "{name}"' for name in sorted(unknown))
        raise _undecodable(served, f"strict decoding error: {listed}")
    empty = [name for name, kind in fields.items() if kind is _STRINGS and not proposed.get(name, 1)]
    if not unknown and not empty:
        return proposed
    return {name: value for name, value in proposed.items() if name not in unknown and name not in empty}

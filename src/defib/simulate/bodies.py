"""The body of a request, read into an object and checked against the address it was sent to."""

from typing import Any

import msgspec
import yaml

from defib.kube.transport import JSON
from defib.simulate import protobuf
from defib.simulate.kinds.catalog import as_stored
from defib.simulate.kinds.typed import typed
from defib.simulate.refusals import Refusal, bad_request, invalid, wrong
from defib.simulate.routing import Call
from defib.simulate.store import Object

_decode = msgspec.json.Decoder().decode
_JSON_TYPES = (JSON, "", "*/*")
_SHOWN = 30  # characters of a body in a message
_YAML_TYPES = ("application/yaml", "application/apply-patch+yaml")


class _PlainLoader(yaml.SafeLoader):
    """YAML with the types of JSON: a time stays a string."""


_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _media(call: Call) -> str:
    return call.request.content_type.partition(";")[0].strip()


def decoded(call: Call) -> Any:
    """JSON, YAML or protobuf, whichever the content type allows."""
    if _media(call) == protobuf.MEDIA_TYPE:
        return protobuf.decoded(call.request.body)
    try:
        return _decode(call.request.body)
    except msgspec.DecodeError as error:
        if _media(call) not in _YAML_TYPES:
            raise _unrecognized(call, error) from error
    try:
        return yaml.load(call.request.body, Loader=_PlainLoader)  # noqa: S506 - a SafeLoader with fewer types
    except yaml.YAMLError as error:
        raise bad_request(f"error decoding YAML: {error}") from error


def _unrecognized(call: Call, error: Exception) -> Refusal:
    text = call.request.body.decode(errors="replace")
    why = f"couldn't get version/kind; json parse error: {error} ({text})"
    return bad_request(f"the object provided is unrecognized (must be of type {call.served.kind}): {why}")


def object_of(call: Call) -> Object:
    """The object in a POST or PUT."""
    if _media(call) not in (*_JSON_TYPES, *_YAML_TYPES, protobuf.MEDIA_TYPE):
        accepted = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
        message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
        raise Refusal(415, "UnsupportedMediaType", message)
    proposed = decoded(call)
    if not isinstance(proposed, dict):
        raise _unrecognized(call, TypeError(f"cannot unmarshal {type(proposed).__name__} into an object"))
    if b"null" in call.request.body and not call.served.custom:
        proposed = without_nulls(proposed)
    return addressed(call, proposed)


def addressed(call: Call, proposed: Object) -> Object:
    """Checks kind, name and namespace against the path; returns the object without its envelope."""
    _check_kind(call, proposed)
    meta = proposed.get("metadata")
    if meta is None:
        meta = {}
    if not isinstance(meta, dict):
        raise bad_request(f"{call.served.kind} in version: metadata must be a map")
    namespace = meta.get("namespace", "")
    if namespace and namespace != call.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if call.name and meta.get("name", call.name) != call.name:
        said = f"the name of the object ({meta['name']}) does not match the name on the URL ({call.name})"
        raise bad_request(said)
    address = {"name": call.name} if call.name else {}
    if call.namespace:
        address["namespace"] = call.namespace
    rest = {k: v for k, v in proposed.items() if k not in ("kind", "apiVersion", "metadata")}
    strict = call.request.query.get("fieldValidation") == "Strict"
    return as_stored(call.served, typed(call.served, {"metadata": {**meta, **address}, **rest}, strict=strict))


def _check_kind(call: Call, proposed: Object) -> None:
    served = call.served
    version, kind = proposed.get("apiVersion"), proposed.get("kind")
    if served.custom and not kind:
        raise _unrecognized_kind(call)
    if version and version != served.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({served.api_version})"
        )
    if not kind or kind == served.kind:
        return
    if served.custom:
        name = (proposed.get("metadata") or {}).get("name", "")
        raise invalid(kind, served.group, name, [wrong("kind", kind, f"must be {served.kind}")])
    conversion = f"converting (v1.{kind}) to (core.{served.kind}): unknown conversion"
    raise bad_request(f'{kind} in version "{served.version}" cannot be handled as a {served.kind}: {conversion}')


def _unrecognized_kind(call: Call) -> Refusal:
    text = call.request.body.decode(errors="replace")
    why = f"Object 'Kind' is missing in '{text}' ({text[:_SHOWN]} ...)"
    return bad_request(f"the object provided is unrecognized (must be of type {call.served.kind}): {why}")


def without_nulls(value: Any) -> Any:
    """Built-in kinds are typed: a null field is an absent one."""
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [without_nulls(v) for v in value]
    return value

"""As much protobuf as kubectl insists on: the few kinds that `kubectl create` and `kubectl auth` send in no other form."""

import base64
from collections.abc import Iterator
from typing import Any

import msgspec

from defib.simulate.refusals import Refusal, bad_request

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class _Field(msgspec.Struct, frozen=True):
    """A field by its number: what it is called, and what is in it."""

    name: str
    kind: str = "string"  # string, bytes, integer, boolean, message, strings (a repeated string), map, bytes_map
    message: "dict[int, _Field] | None" = None


def _message(name: str, fields: "dict[int, _Field]") -> _Field:
    return _Field(name, "message", fields)


_META = _message(
    "metadata",
    {
        1: _Field("name"),
        2: _Field("generateName"),
        3: _Field("namespace"),
        5: _Field("uid"),
        6: _Field("resourceVersion"),
        11: _Field("labels", "map"),
        12: _Field("annotations", "map"),
        14: _Field("finalizers", "strings"),
    },
)
_RESOURCE = _message(
    "resourceAttributes",
    {
        1: _Field("namespace"),
        2: _Field("verb"),
        3: _Field("group"),
        4: _Field("version"),
        5: _Field("resource"),
        6: _Field("subresource"),
        7: _Field("name"),
    },
)
_PATH = _message("nonResourceAttributes", {1: _Field("path"), 2: _Field("verb")})
_KINDS: dict[str, dict[int, _Field]] = {
    "Namespace": {1: _META},
    "ServiceAccount": {1: _META},
    "ConfigMap": {1: _META, 2: _Field("data", "map"), 3: _Field("binaryData", "bytes_map")},
    "Secret": {1: _META, 2: _Field("data", "bytes_map"), 3: _Field("type"), 4: _Field("stringData", "map")},
    "SelfSubjectAccessReview": {1: _META, 2: _message("spec", {1: _RESOURCE, 2: _PATH})},
    "SelfSubjectReview": {1: _META},
}
_ENVELOPE = {1: _message("type", {1: _Field("apiVersion"), 2: _Field("kind")}), 2: _Field("raw", "bytes")}


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        shift += 7
        if not byte & 0x80:
            return value, at


def _pieces(data: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and raw values."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        else:
            size = {_FIXED64: 8, _FIXED32: 4}[wire]
        yield number, data[at : at + size]
        at += size


def _read(data: bytes, fields: dict[int, _Field]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for number, value in _pieces(data):
        field = fields.get(number)
        if field is None:
            continue
        match field.kind:
            case "map" | "bytes_map":
                key, inner = _entry(value)
                text = inner.decode() if field.kind == "map" else base64.b64encode(inner).decode()
                made.setdefault(field.name, {})[key] = text
            case "strings":
                made.setdefault(field.name, []).append(value.decode())
            case "message":
                made[field.name] = _read(value, field.message or {})
            case "bytes":
                made[field.name] = value
            case _:
                if value:
                    made[field.name] = value.decode()
    return made


def _entry(data: bytes) -> tuple[str, bytes]:
    parts = dict(_pieces(data))
    return parts.get(1, b"").decode(), parts.get(2, b"")


def decoded(body: bytes) -> dict[str, Any]:
    """The object in a protobuf body, as JSON would have it."""
    try:
        if not body.startswith(_MAGIC):
            raise bad_request("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
        envelope = _read(body[len(_MAGIC) :], _ENVELOPE)
        fields = _KINDS.get(envelope["type"]["kind"])
        if fields is None:
            accepted = "application/json, application/yaml"
            message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
            raise Refusal(415, "UnsupportedMediaType", message)
        return {**envelope["type"], **_read(envelope["raw"], fields)}
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        raise bad_request(f"the protobuf body cannot be read: {error!r}") from error

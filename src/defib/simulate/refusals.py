"""The API server's ways to say no, in its own words: a code, a reason, a message and the causes, as a Status object."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from defib.simulate.kinds.catalog import Served

_json = msgspec.json.Encoder()


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong with an object, and where."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class Refusal(Exception):
    """Raised anywhere below the front and answered as a Status."""

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details
        self.metadata: dict[str, str] = {}

    def status(self) -> dict[str, Any]:
        body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": self.metadata, "status": "Failure"}
        body["message"] = str(self)
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body

    @property
    def retry_after(self) -> int:
        return int((self.details or {}).get("retryAfterSeconds", 0))


def shown(value: object) -> str:
    """A value as it appears in a message."""
    return _json.encode(value).decode()


def wrong(field: str, value: object, why: str) -> Problem:
    return Problem(field, "FieldValueInvalid", f"Invalid value: {shown(value)}: {why}")


def required(field: str, why: str = "") -> Problem:
    return Problem(field, "FieldValueRequired", f"Required value: {why}" if why else "Required value")


def unsupported(field: str, value: object, supported: Sequence[str]) -> Problem:
    listed = ", ".join(shown(s) for s in supported)
    return Problem(field, "FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {listed}")


def duplicate(field: str, value: object, why: str = "") -> Problem:
    said = f"Duplicate value: {shown(value)}"
    return Problem(field, "FieldValueDuplicate", f"{said}: {why}" if why else said)


def too_long(field: str, limit: int) -> Problem:
    return Problem(field, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


def too_large_request(limit: int) -> Refusal:
    return Refusal(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def forbidden_field(field: str, why: str) -> Problem:
    return Problem(field, "FieldValueForbidden", f"Forbidden: {why}")


def wrong_type(field: str, value: object, why: str) -> Problem:
    return Problem(field, "FieldValueTypeInvalid", f"Invalid value: {shown(value)}: {why}")


def _details(name: str, group: str, kind: str) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    details["kind"] = kind
    return details


def not_found(served: "Served", name: str) -> Refusal:
    return Refusal(
        404, "NotFound", f'{served.resource} "{name}" not found', _details(name, served.group, served.plural)
    )


def already_exists(served: "Served", name: str, *, dying: bool = False) -> Refusal:
    details = _details(name, served.group, served.plural)
    still = "object is being deleted: " if dying else ""
    return Refusal(409, "AlreadyExists", f'{still}{served.resource} "{name}" already exists', details)


def conflict(resource: str, group: str, name: str, why: str) -> Refusal:
    """`resource` is the plural of the resource, or its kind where the server itself says the kind."""
    qualified = f"{resource}.{group}" if group else resource
    message = f'Operation cannot be fulfilled on {qualified} "{name}": {why}'
    return Refusal(409, "Conflict", message, _details(name, group, resource))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def modified(served: "Served", name: str) -> Refusal:
    return conflict(served.plural, served.group, name, MODIFIED)


def invalid(kind: str, group: str, name: str, problems: Sequence[Problem]) -> Refusal:
    qualified = f"{kind}.{group}" if group else kind
    said = str(problems[0]) if len(problems) == 1 else f"[{', '.join(str(p) for p in problems)}]"
    details = _details(name, group, kind)
    details["causes"] = [{"reason": p.reason, "message": p.message, "field": p.field} for p in problems]
    return Refusal(422, "Invalid", f'{qualified} "{name}" is invalid: {said}', details)


def invalid_options(kind: str, problem: Problem) -> Refusal:
    return invalid(kind, "meta.k8s.io", "", [problem])


def bad_request(message: str) -> Refusal:
    return Refusal(400, "BadRequest", message)


def unprocessable_patch() -> Refusal:
    """What a JSON patch whose test fails, or whose path is not there, is answered with."""
    return Refusal(422, "Invalid", "the server rejected our request due to an error in our request", {})


def expired(message: str) -> Refusal:
    return Refusal(410, "Expired", message)


def no_such_resource() -> Refusal:
    return Refusal(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> Refusal:
    message = "the server does not allow this method on the requested resource"
    return Refusal(405, "MethodNotAllowed", message, {})


def forbidden(resource: str, name: str, why: str, details: dict[str, Any]) -> Refusal:
    return Refusal(403, "Forbidden", f'{resource} "{name}" is forbidden: {why}', details)


def too_large_version(asked: int, current: int) -> Refusal:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return Refusal(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


def internal(message: str) -> Refusal:
    return Refusal(500, "", message)

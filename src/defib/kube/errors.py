"""Everything that can go wrong between us and the API server.

    KubeError
    ├── Refused               the server answered, and its answer is no
    │   ├── Invalid           400, 405, 406, 413, 415, 422: the request itself is wrong
    │   ├── Unauthorized      401: it does not know us
    │   ├── Forbidden         403: it knows us, and we may not
    │   ├── NotFound          404
    │   ├── Conflict          409: somebody was faster, or a precondition does not hold
    │   │   └── AlreadyExists 409 on create
    │   ├── Gone              410: the version or the continue token is too old
    │   ├── Throttled         429: later, please
    │   └── ServerFailed      5xx
    ├── Unreachable           no whole answer came; a write may or may not have been applied
    │   └── DeadlineExceeded  not within the time we gave it
    ├── Unreadable            an answer came that we cannot decode
    ├── BadConfig             our kubeconfig or credentials cannot be used; says what to do
    └── UnknownKind           the server has no such kind, now; says what to do

The server's own message is kept word for word. Request bodies, headers and credentials never enter an error.
"""

import msgspec

# What decoding hostile or broken bytes can raise: wrong JSON or types, wrong UTF-8, nesting without end.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class KubeError(Exception):
    """The root. `str()` is one line a person can act on."""


class StatusCause(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    kind: str = ""
    retry_after_seconds: int = 0
    causes: list[StatusCause] | None = None


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """The API server's own way to say no."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None

    @property
    def causes(self) -> list[StatusCause]:
        return (self.details.causes if self.details else None) or []


class Refused(KubeError):
    def __init__(self, status: Status, *, request: str = "", retry_after: float | None = None) -> None:
        said = status.message or status.reason or f"HTTP {status.code}"
        super().__init__(f"{request}: {said}" if request else said)
        self.status = status
        self.retry_after = retry_after


class Invalid(Refused): ...


class Unauthorized(Refused): ...


class Forbidden(Refused): ...


class NotFound(Refused): ...


class Conflict(Refused): ...


class AlreadyExists(Conflict): ...


class Gone(Refused): ...


class Throttled(Refused): ...


class ServerFailed(Refused): ...


class Unreachable(KubeError): ...


class DeadlineExceeded(Unreachable): ...


class Unreadable(KubeError): ...


class BadConfig(KubeError): ...


class UnknownKind(KubeError):
    def __init__(self, kind: str, group: str, version: str = "") -> None:
        where = f"group {group}" if group else "the core group"
        at = f" at version {version}" if version else ""
        super().__init__(f"the cluster has no kind {kind} in {where}{at}: is its CRD installed?")


HTTP_SERVER_FAILED = 500

_BY_CODE: dict[int, type[Refused]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    429: Throttled,
}


def refusal(status: Status, *, request: str = "", retry_after: float | None = None) -> Refused:
    """The error of the tree that fits what the server said."""
    kind = _BY_CODE.get(status.code, ServerFailed if status.code >= HTTP_SERVER_FAILED else Invalid)
    if status.reason == "AlreadyExists":
        kind = AlreadyExists
    elif status.reason == "Expired":
        kind = Gone
    if retry_after is None and status.details and status.details.retry_after_seconds:
        retry_after = float(status.details.retry_after_seconds)
    return kind(status, request=request, retry_after=retry_after)

"""What the server gives back: a status with a body, or an open watch."""

import msgspec

from defib.kube.transport import JSON
from defib.simulate.refusals import Refusal
from defib.simulate.routing import UnknownGroup
from defib.simulate.watching import Watch

_json = msgspec.json.Encoder()
_HEADERS = {"content-type": JSON}


class Answer:
    __slots__ = ("body", "headers", "status", "watch")

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        *,
        watch: Watch | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.status = status
        self.body = body
        self.watch = watch
        self.headers = headers or _HEADERS


def plain(text: str, status: int = 200) -> Answer:
    return Answer(status, text.encode(), headers={"content-type": "text/plain; charset=utf-8"})


def as_json(value: object, status: int = 200) -> Answer:
    return Answer(status, _json.encode(value))


def refused(refusal: Refusal) -> Answer:
    if isinstance(refusal, UnknownGroup):
        return plain(str(refusal), refusal.code)
    answer = as_json(refusal.status(), refusal.code)
    if refusal.retry_after:
        answer.headers = {**_HEADERS, "retry-after": str(refusal.retry_after)}
    return answer

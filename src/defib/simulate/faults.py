"""Faults on demand: what goes wrong, for whom, how often. Data; exchange.py makes it happen.

Chance comes from the server's clock, so the same seed breaks the same requests.
"""

from typing import TypeAlias

import msgspec

from defib.clock import Clock
from defib.simulate.routing import Call


class _Effect(msgspec.Struct, frozen=True, kw_only=True):
    """Base of everything that can go wrong."""


_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def reason_of(code: int) -> str:
    """The reason that usually comes with a code."""
    return _REASONS.get(code, "")


class Refuse(_Effect, frozen=True, kw_only=True):
    """The server says no: 401, 409, 410, 429, 500, 503 ..."""

    code: int
    reason: str = ""  # without one, the usual one for the code
    message: str = "this was injected"
    retry_after_seconds: int = 0


class Slow(_Effect, frozen=True, kw_only=True):
    """The request is carried out; its answer comes late."""

    seconds: float
    jitter_seconds: float = 0.0


class LoseRequest(_Effect, frozen=True, kw_only=True):
    """The connection breaks before the server saw the request: nothing is written."""


class LoseAnswer(_Effect, frozen=True, kw_only=True):
    """The connection breaks after the server carried the request out: the client cannot know."""


class Hang(_Effect, frozen=True, kw_only=True):
    """No answer and no error, ever; `applied` says whether the request was carried out."""

    applied: bool = False


class StaleRead(_Effect, frozen=True, kw_only=True):
    """A read that allows any version (resourceVersion=0) is answered from some revisions ago."""

    revisions: int


class CutWatch(_Effect, frozen=True, kw_only=True):
    """The connection of a watch breaks after some events; in the middle of one if `mid_event`."""

    after: int = 0
    mid_event: bool = False


class EndWatch(_Effect, frozen=True, kw_only=True):
    """A watch is closed in the orderly way after some events."""

    after: int = 0


class SilenceWatch(_Effect, frozen=True, kw_only=True):
    """A half-open connection: after some events nothing comes any more, not even an end."""

    after: int = 0


class FailWatch(_Effect, frozen=True, kw_only=True):
    """After some events comes an ERROR event, and the stream ends."""

    code: int
    reason: str = ""  # without one, the usual one for the code
    message: str = "this was injected"
    after: int = 0


class DropEvents(_Effect, frozen=True, kw_only=True):
    """Single events get lost, each with this chance. No real server does it; a careful client notices all the same."""

    chance: float


class DuplicateEvents(_Effect, frozen=True, kw_only=True):
    """Everything is delivered twice."""


class LateEvents(_Effect, frozen=True, kw_only=True):
    """Everything comes late, in order."""

    seconds: float


class ReorderEvents(_Effect, frozen=True, kw_only=True):
    """What comes within a window is shuffled; the events of one object stay in order."""

    window_seconds: float


class NoBookmarks(_Effect, frozen=True, kw_only=True):
    """Bookmarks are asked for and do not come."""


class Garbage(_Effect, frozen=True, kw_only=True):
    """After some events comes a line that no client can read; then all goes on."""

    after: int = 0
    line: bytes = b'{"type":"MODIFIED","object":{"metadata":\xff\xfe\n'


RequestEffect: TypeAlias = Refuse | Slow | LoseRequest | LoseAnswer | Hang | StaleRead
WatchEffect: TypeAlias = (
    CutWatch
    | EndWatch
    | SilenceWatch
    | FailWatch
    | DropEvents
    | DuplicateEvents
    | LateEvents
    | ReorderEvents
    | NoBookmarks
    | Garbage
)


class Fault(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """An effect and whom it meets. What is left empty matches everything."""

    effect: RequestEffect | WatchEffect
    verbs: tuple[str, ...] = ()
    resource: str = ""  # `leases.coordination.k8s.io`
    subresource: str | None = None
    namespace: str = ""
    name: str = ""
    client: str = ""
    chance: float = 1.0
    skip: int = 0  # this many matching requests pass first
    times: int | None = None  # None: until it is removed

    def meets(self, call: Call) -> bool:
        if call.verb != "watch" and isinstance(self.effect, WatchEffect):
            return False
        return (
            (not self.verbs or call.verb in self.verbs)
            and self.resource in ("", call.served.resource)
            and self.subresource in (None, call.subresource)
            and self.namespace in ("", call.namespace)
            and self.name in ("", call.name)
            and self.client in ("", call.client)
        )


class Faults:
    """The faults that are set at the moment, and what they did."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._set: dict[Fault, list[int]] = {}  # how many matched, how many struck
        self._partitioned: set[str] = set()

    def inject(self, *faults: Fault) -> None:
        for fault in faults:
            self._set[fault] = [0, 0]

    def remove(self, fault: Fault) -> None:
        self._set.pop(fault, None)

    def clear(self) -> None:
        self._set.clear()

    def struck(self, fault: Fault) -> int:
        """How often a fault that is still set did its work."""
        return self._set[fault][1]

    def partition(self, client: str) -> None:
        self._partitioned.add(client)

    def heal(self, client: str) -> None:
        self._partitioned.discard(client)

    def is_partitioned(self, client: str) -> bool:
        return client in self._partitioned

    @property
    def any_set(self) -> bool:
        return bool(self._set)

    def strike(self, call: Call) -> list[RequestEffect | WatchEffect]:
        """What goes wrong with this call. Asking counts: a fault that strikes three times has struck once."""
        effects = []
        for fault, counts in self._set.items():
            if fault.meets(call):
                counts[0] += 1
                if counts[0] <= fault.skip or (fault.times is not None and counts[1] >= fault.times):
                    continue
                if fault.chance >= 1.0 or self._clock.jitter(1.0) < fault.chance:
                    counts[1] += 1
                    effects.append(fault.effect)
        return effects

"""From the API server's bytes to structs.

The fast path decodes straight into the struct of the kind. Only when that fails is the answer taken apart, so that
one bad object is set aside by name and the others are still read.
"""

from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from defib.kube.errors import UNREADABLE, Status, Unreadable, refusal
from defib.kube.kinds import R
from defib.kube.scan import elements, members
from defib.model.meta import Resource

T = TypeVar("T")

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
LINE_BYTES_MAX = 2**25  # ten times what the API server lets an object be, as it was and as it is


class SetAside(msgspec.Struct, frozen=True):
    """An object that is there but cannot be read as its kind."""

    key: str
    version: str
    why: str


class ListMeta(msgspec.Struct, frozen=True, rename={"resource_version": "resourceVersion", "continue_": "continue"}):
    resource_version: str = ""
    continue_: str = ""


class Page(msgspec.Struct, Generic[R], frozen=True):
    """One page of a list, or all of them together."""

    items: list[R]
    version: str
    continue_: str = ""
    set_aside: tuple[SetAside, ...] = ()


class Event(msgspec.Struct, Generic[R], frozen=True, gc=False):
    """ADDED, MODIFIED, DELETED or BOOKMARK, and the object as it is after that."""

    type: str
    object: R

    @property
    def ends_initial_list(self) -> bool:
        return self.type == "BOOKMARK" and self.object.annotations.get(INITIAL_EVENTS_END) == "true"


class UnreadableEvent(msgspec.Struct, frozen=True):
    type: str
    item: SetAside


class _List(msgspec.Struct, Generic[T], frozen=True):
    metadata: ListMeta
    items: list[T] | None = None


class _Name(msgspec.Struct, frozen=True, rename="camel"):
    """As little of an object's metadata as is needed to say which one it is."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""


@cache
def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


@cache
def _event_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Remembered by the kind itself, since even writing `Event[kind]` down for every event would be felt."""
    return msgspec.json.Decoder(Event[kind])


@cache
def _list_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_List[kind])


def decode_object(body: bytes, kind: type[R]) -> R:
    try:
        item: R = decoder(kind).decode(body)
    except UNREADABLE as error:
        raise Unreadable(f"cannot read the answer as {kind.__name__}: {error}") from error
    return item


def decode_page(body: bytes, kind: type[R]) -> Page[R]:
    try:
        whole: _List[R] = _list_decoder(kind).decode(body)
    except UNREADABLE:
        return _decode_page_piecemeal(body, kind)
    return Page(whole.items or [], whole.metadata.resource_version, whole.metadata.continue_)


def _decode_page_piecemeal(body: bytes, kind: type[R]) -> Page[R]:
    try:
        parts = members(body)
        meta: ListMeta = decoder(ListMeta).decode(parts[b"metadata"])
        pieces = list(elements(parts.get(b"items", b"[]")))
    except (*UNREADABLE, ValueError, KeyError) as error:
        raise Unreadable(f"cannot read the answer as a list of {kind.__name__}: {error}") from error
    items: list[R] = []
    set_aside: list[SetAside] = []
    for piece in pieces:
        item = _read_or_set_aside(piece, kind)
        if isinstance(item, SetAside):
            set_aside.append(item)
        else:
            items.append(item)
    return Page(items, meta.resource_version, meta.continue_, tuple(set_aside))


def _read_or_set_aside(piece: bytes, kind: type[R]) -> R | SetAside:
    try:
        item: R = decoder(kind).decode(piece)
        return item
    except UNREADABLE as error:
        why = str(error)
    try:
        meta: _Name = decoder(_Name).decode(members(piece)[b"metadata"])
    except (*UNREADABLE, ValueError, KeyError):
        return SetAside("", "", why)  # not even a name: it can be counted, and no more
    return SetAside(f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name, meta.resource_version, why)


def decode_events(lines: bytes, kind: type[R]) -> list[Event[R] | UnreadableEvent]:
    """Whole lines of a watch, all in one go where every one is good. Raises what an ERROR event says."""
    try:
        events: list[Event[R] | UnreadableEvent] = _event_decoder(kind).decode_lines(lines)
    except UNREADABLE:
        return _decode_events_piecemeal(lines, kind)
    if any(event.type == "ERROR" for event in events):  # it carries a Status, which may happen to decode as the kind
        return _decode_events_piecemeal(lines, kind)
    return events


def _decode_events_piecemeal(lines: bytes, kind: type[R]) -> list[Event[R] | UnreadableEvent]:
    return [_decode_event_piecemeal(line, kind) for line in lines.split(b"\n") if line]


def _decode_event_piecemeal(line: bytes, kind: type[R]) -> Event[R] | UnreadableEvent:
    try:
        parts = members(line)
        what: str = decoder(str).decode(parts[b"type"])
        piece = parts[b"object"]
        if what == "ERROR":
            raise refusal(decoder(Status).decode(piece), request="watch")
        if what == "BOOKMARK":
            return Event(what, kind(metadata=decoder(Resource).decode(piece).metadata))
    except (*UNREADABLE, ValueError, KeyError) as error:
        raise Unreadable(f"cannot read a watch event: {error}") from error
    item = _read_or_set_aside(piece, kind)
    if not isinstance(item, SetAside):
        return Event(what, item)
    if not item.key:
        raise Unreadable(f"cannot tell which object changed: {item.why}")
    return UnreadableEvent(what, item)


class LineBuffer:
    """Holds back what is not yet a whole line. A line may be megabytes long and the stream be cut anywhere."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._held = 0

    def feed(self, chunk: bytes) -> bytes:
        """The lines that this chunk completes, as they came; nothing when it completes none. Raises Unreadable."""
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._parts.append(chunk)
            self._held += len(chunk)
            if self._held > LINE_BYTES_MAX:
                raise Unreadable(f"a watch sent a line of more than {LINE_BYTES_MAX} bytes")
            return b""
        whole = b"".join((*self._parts, chunk[:end]))
        self._parts, self._held = [chunk[end:]], len(chunk) - end
        return whole

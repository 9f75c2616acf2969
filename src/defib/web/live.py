"""The board as it is sent: whole to whoever begins to look, then only what has changed.

There is no task behind it. Whoever looks has the next board made, if there is another picture, and everybody who listens
gets what changed. So nothing is computed while nobody looks, and a fault here ends an answer, never the operator.
"""

import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import msgspec

from defib.clock import Clock
from defib.picture import Picture
from defib.web.board import BLANK, Board, Site, next_board
from defib.web.board_work import Seats

LISTENERS_MAX = 64
BEHIND_MAX = 20  # changes that a listener may not have been sent yet
PAUSE_SECONDS = 0.05  # however many listen, the picture is not asked for more often
GZIP, WINDOW, MEMORY = 16, 13, 6  # of a stream: some 50 KB for each listener instead of 256
LEVEL, LEVEL_WHOLE = 4, 6


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for the next board."""

    picture: Callable[[], Picture]
    seats: Callable[[], Seats]


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """A board as bytes, plain and packed."""

    number: int
    plain: bytes
    packed: bytes


class Listener:
    """What is still to be sent to one who listens."""

    def __init__(self, drop: Callable[[], None]) -> None:
        self._drop = drop
        self.waiting: deque[bytes] = deque()
        self.is_dropped = False

    def tell(self, event: bytes) -> None:
        if len(self.waiting) >= BEHIND_MAX and not self.is_dropped:
            self.is_dropped = True  # whoever comes again gets the whole board, which is less than all it missed
            self.waiting.clear()
            self._drop()
        if not self.is_dropped:
            self.waiting.append(event)


class TooMany(Exception):
    """So many listen already that one more would cost the operator too much."""


class Live:
    def __init__(self, sight: Sight, site: Site, clock: Clock) -> None:
        self._sight = sight
        self._site = site
        self._clock = clock
        self._board = BLANK
        self._made_of: tuple[Picture | None, Seats | None] = (None, None)
        self._looked_at = float("-inf")
        self._whole = Whole(number=0, plain=b"", packed=b"")
        self._listeners: set[Listener] = set()
        self.is_closing = False
        self.began = f"{int(clock.now().timestamp() * 1e6):x}"  # numbers of boards begin anew with each process

    @property
    def picture(self) -> Picture:
        return self._sight.picture()

    def look(self) -> Board:
        """As it is now. Whoever listens is told of what has changed."""
        now = self._clock.monotonic()
        if now - self._looked_at < PAUSE_SECONDS:
            return self._board
        self._looked_at = now
        picture, seats = self._sight.picture(), self._sight.seats()
        was, had = self._made_of
        if picture is was and seats == had:
            return self._board
        self._made_of = (picture, seats)
        before, self._board = self._board, next_board(self._board, picture, seats, self._site)
        if self._board.number != before.number and self._listeners:
            body = {"version": self._board.number, "now": self._clock.now(), **self._board.changed}
            self._tell(event("change", body))
        return self._board

    def whole(self) -> Whole:
        board = self.look()
        if self._whole.number != board.number:
            plain = msgspec.json.encode(complete(board, self._clock.now()))
            self._whole = Whole(number=board.number, plain=plain, packed=pack(plain))
        return self._whole

    def ping(self) -> bytes:
        return event("ping", {"now": self._clock.now()})

    @contextmanager
    def listening(self, drop: Callable[[], None]) -> Iterator[Listener]:
        """Begins with the whole board, which has what was told to others until then. Raises TooMany.

        `drop` is called when too much is waiting to be sent.
        """
        if len(self._listeners) >= LISTENERS_MAX:
            raise TooMany
        listener = Listener(drop)
        listener.tell(b"event: board\ndata: " + self.whole().plain + b"\n\n")
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def close(self) -> None:
        self.is_closing = True

    def _tell(self, told: bytes) -> None:
        for listener in self._listeners:
            listener.tell(told)


class Packer:
    """A packed stream that can be read up to the last event at any time; or a plain one."""

    def __init__(self, *, packs: bool) -> None:
        self._deflate = zlib.compressobj(LEVEL, wbits=GZIP + WINDOW, memLevel=MEMORY) if packs else None

    def pack(self, told: bytes) -> bytes:
        if self._deflate is None:
            return told
        return self._deflate.compress(told) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def complete(board: Board, now: datetime) -> dict[str, Any]:
    return {"version": board.number, "now": now, **board.parts, "nodes": board.nodes.rows}


def event(name: str, body: dict[str, Any]) -> bytes:
    """As a line of JSON holds no line break, one line of data is enough."""
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(body) + b"\n\n"


def pack(plain: bytes) -> bytes:
    deflate = zlib.compressobj(LEVEL_WHOLE, wbits=GZIP + zlib.MAX_WBITS)
    return deflate.compress(plain) + deflate.flush()

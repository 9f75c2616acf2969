"""A disk that knows who wrote to it, and says whether two hands wrote at once: the judge of every claim of safety.

Writes are not made one by one. A disk keeps from when until when somebody wrote, and works the writes out when it is
asked; so a disk that is written to for days costs nothing. Whoever holds it open writes all the time, and every
moment counts: a fence or the end of a writer takes effect at once, a hand-over in the same instant is clean.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from heapq import merge

import msgspec

from defib.clock import Clock

SHARED_MODES = frozenset({"ReadWriteMany", "ReadOnlyMany"})
ONE_POD = "ReadWriteOncePod"
NEVER = float("inf")


class Writer(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that has the disk mounted, on one boot of one node. What it remembers of the disk dies with it."""

    node: str
    boot: str
    pod: str
    uid: str

    def __str__(self) -> str:
        return f"{self.node} (pod {self.pod}, uid {self.uid}, boot {self.boot})"


class Write(msgspec.Struct, frozen=True, order=True):
    at: float
    number: int
    writer: Writer


class Hold(msgspec.Struct, frozen=True):
    """When a writer wrote: `spans` are half open, in order, and none is empty."""

    writer: Writer
    spans: tuple[tuple[float, float], ...]

    @property
    def first(self) -> float:
        return self.spans[0][0]

    @property
    def last(self) -> float:
        return self.spans[-1][1]


class Clash(msgspec.Struct, frozen=True):
    """`earlier` wrote again after `later` had begun: each destroyed what the other one believed to be there."""

    earlier: Hold
    later: Hold

    @property
    def since(self) -> float:
        return self.later.first

    @property
    def until(self) -> float:
        return min(self.earlier.last, self.later.last)


class Verdict(msgspec.Struct, frozen=True):
    disk: str
    clashes: tuple[Clash, ...]
    story: str

    @property
    def corrupted(self) -> bool:
        return bool(self.clashes)


class Disk:
    def __init__(self, handle: str, clock: Clock, mode: str = "ReadWriteOnce", writes_per_second: float = 10.0) -> None:
        self.handle = handle
        self.mode = mode
        self._clock = clock
        self._period = 1.0 / writes_per_second
        self._spans: dict[Writer, list[tuple[float, float]]] = {}
        self._fences: dict[str, list[tuple[float, float]]] = {}

    def start(self, writer: Writer) -> None:
        """From now on it writes, until it is stopped. One that writes already goes on."""
        now = self._clock.monotonic()
        spans = self._spans.setdefault(writer, [])
        if spans and spans[-1][1] > now:
            spans[-1] = spans[-1][0], NEVER
        else:
            spans.append((now, NEVER))

    def stop(self, writer: Writer, at: float | None = None) -> None:
        """Its last write is before `at`: now, or a later moment that is known already and may still be brought forward."""
        now = self._clock.monotonic()
        end = now if at is None else max(at, now)
        spans = self._spans.get(writer)
        if spans and spans[-1][1] > end:
            spans[-1] = spans[-1][0], end

    def fence(self, node: str) -> None:
        """No write of this node arrives any more."""
        if not self.is_fenced(node):
            self._fences.setdefault(node, []).append((self._clock.monotonic(), NEVER))

    def unfence(self, node: str) -> None:
        if self.is_fenced(node):
            fences = self._fences[node]
            fences[-1] = fences[-1][0], self._clock.monotonic()

    def is_fenced(self, node: str) -> bool:
        fences = self._fences.get(node, [])
        return bool(fences) and fences[-1][1] == NEVER

    def writers(self) -> list[Writer]:
        """Whose writes arrive now."""
        now = self._clock.monotonic()
        return [w for w, spans in self._spans.items() if spans[-1][1] > now and not self.is_fenced(w.node)]

    def holds(self) -> list[Hold]:
        """Everybody whose writes arrived so far, by the first of them."""
        now = self._clock.monotonic()
        found = []
        for writer, spans in self._spans.items():
            past = [(start, min(end, now)) for start, end in spans]
            if arrived := _without(past, self._fences.get(writer.node, ())):
                found.append(Hold(writer, tuple(arrived)))
        return sorted(found, key=lambda hold: (hold.first, hold.writer.node, hold.writer.uid))

    def writes(self) -> Iterator[Write]:
        """Every write that arrived so far, in the order of arrival. For people and small disks: it can be long."""
        return merge(*(self._writes_of(hold) for hold in self.holds()), key=lambda write: (write.at, write.writer.node))

    def _writes_of(self, hold: Hold) -> Iterator[Write]:
        number = 0
        for start, end in hold.spans:
            count = 0
            while start + count * self._period < end:
                number += 1
                yield Write(start + count * self._period, number, hold.writer)
                count += 1

    def verdict(self) -> Verdict:
        holds = self.holds()
        clashes = tuple(self._clashes(holds))
        return Verdict(self.handle, clashes, self._story(holds, clashes))

    def _clashes(self, holds: list[Hold]) -> Iterator[Clash]:
        unfinished: list[Hold] = []
        for later in holds:
            unfinished = [earlier for earlier in unfinished if earlier.last > later.first]
            yield from (Clash(earlier, later) for earlier in unfinished if self._excludes(earlier.writer, later.writer))
            unfinished.append(later)

    def _excludes(self, one: Writer, other: Writer) -> bool:
        """Pods of one boot of one node go through one mount; between two boots nothing is shared but the disk."""
        if self.mode in SHARED_MODES:
            return False
        same_mount = (one.node, one.boot) == (other.node, other.boot)
        return not same_mount or (self.mode == ONE_POD and one.uid != other.uid)

    def _story(self, holds: list[Hold], clashes: tuple[Clash, ...]) -> str:
        lines = [f"disk {self.handle} ({self.mode}): {'CORRUPTED' if clashes else 'intact'}"]
        for hold in holds:
            spans = ", ".join(f"{self._clock_time(start)} to {self._clock_time(end)}" for start, end in hold.spans)
            lines.append(f"  {spans}  {hold.writer}")
        for clash in clashes:
            mine, theirs = clash.earlier.writer, clash.later.writer
            lines.append(
                f"  {mine.node} still wrote as {mine.pod} (uid {mine.uid}) at {self._clock_time(clash.until)}, "
                f"though {theirs.node} had begun to write as {theirs.pod} (uid {theirs.uid}) "
                f"at {self._clock_time(clash.since)}"
            )
        return "\n".join(lines)

    def _clock_time(self, moment: float) -> str:
        then: datetime = self._clock.now() + timedelta(seconds=moment - self._clock.monotonic())
        return then.strftime("%H:%M:%S.%f")[:-3]


class Disks:
    """All disks of a cluster, by their volume handle. One that nobody has asked for yet is made when it is asked for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._disks: dict[str, Disk] = {}

    def __iter__(self) -> Iterator[Disk]:
        return iter(self._disks.values())

    def at(self, handle: str, mode: str = "ReadWriteOnce") -> Disk:
        if handle not in self._disks:
            self._disks[handle] = Disk(handle, self._clock, mode)
        return self._disks[handle]

    def corrupted(self) -> list[Verdict]:
        return [verdict for disk in self for verdict in [disk.verdict()] if verdict.corrupted]


def _without(spans: list[tuple[float, float]], fences: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """What is left of the spans outside the fences; empty pieces are no writes."""
    left = spans
    for closed, opened in fences:
        left = [
            piece
            for start, end in left
            for piece in ((start, min(end, closed)), (max(start, opened), end))
            if piece[0] < piece[1]
        ]
    return [span for span in left if span[0] < span[1]]

"""The file of a dump: lines of JSON in gzip, a header first, then one frame for each look, and at the end how many.

A frame says only what has changed since the one before; the first, what is there at all. Everything is written from our
own structs, so that nothing gets in that we do not read, and read into the very same structs again. What only a running
operator knows is not in it: actions under way, what it has found out about the power of machines, other replicas.
"""

import asyncio
import gzip
import zlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import msgspec

from defib import __version__
from defib.console.session import NotDone
from defib.console.thorough import PodsByNode, Thought, by_node
from defib.decide.rules import Rules
from defib.model import medik8s
from defib.model.cluster import CONFIG_MAPS, Blindness, Cluster, Missing, Served, Unread
from defib.model.config_map import ConfigMap
from defib.model.failure import Failure
from defib.model.health_check import KindRef, NodeHealthCheck
from defib.model.incident import INCIDENTS, NodeIncident
from defib.model.meta import Resource, Unstructured
from defib.model.node import Lease, Node
from defib.model.pod import PODS_ON, Pod

FORMAT = 1
GZIP = b"\x1f\x8b"
CUT = b"\0"  # no line at all: the file ends too early, be it only its checksum
LONGEST = 4 * 1024**3  # unpacked: a file may be small and hold more than any memory
NODES, HEARTBEATS, LOCKS = "nodes", "heartbeats", "locks"

_TYPES: dict[str, type[Resource]] = {
    NODES: Node,
    HEARTBEATS: Lease,
    LOCKS: Lease,
    medik8s.CHECKS: NodeHealthCheck,
    INCIDENTS: NodeIncident,
    CONFIG_MAPS: ConfigMap,
}

Objects = Mapping[str, Resource]
Shelves = Mapping[str, Objects]


class Line(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="line", omit_defaults=True):
    """Base of what a file consists of."""


class Header(Line, frozen=True, tag="header"):
    format: int
    defib: str
    made: datetime
    rules: Rules
    unknown: tuple[str, ...] = ()  # what could not be read


class KindSeen(msgspec.Struct, frozen=True, omit_defaults=True):
    api_version: str
    name: str
    collection: str = ""
    namespaced: bool = False
    missing: str | None = None


class Facts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a look says beside the objects."""

    blind: tuple[Blindness, ...] = ()
    absent: dict[str, str] = {}
    unread: tuple[Unread, ...] = ()
    kinds: tuple[KindSeen, ...] = ()
    doubts: tuple[str, ...] = ()
    failures: dict[str, Failure] = {}
    claims: dict[str, frozenset[str]] = {}
    server: tuple[int, int] = (0, 0)


class Decided(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What was decided from one look: every action with all that it carries, by its key, and what was thought of nodes."""

    actions: dict[str, dict[str, Any]] = {}
    verdicts: dict[str, dict[str, str]] = {}  # by check and node
    wake_at: datetime | None = None


class Frame(Line, frozen=True, tag="frame"):
    now: datetime
    put: dict[str, tuple[msgspec.Raw, ...]] = {}
    gone: dict[str, tuple[str, ...]] = {}
    dropped: tuple[str, ...] = ()  # whole collections
    facts: Facts = Facts()
    decided: Decided = Decided()


class Pods(Line, frozen=True, tag="pods"):
    """All pods of the cluster when the first frame was made. Absent where they may not be read."""

    pods: tuple[Pod, ...] = ()


class End(Line, frozen=True, tag="end"):
    frames: int


class Scene(msgspec.Struct, frozen=True):
    """One frame, put together again, and what was decided from it when it was recorded."""

    cluster: Cluster
    decided: Decided


class Recording(msgspec.Struct, frozen=True):
    header: Header
    scenes: tuple[Scene, ...]
    pods: PodsByNode | None = None

    @property
    def last(self) -> Cluster:
        return self.scenes[-1].cluster


_encode = msgspec.json.Encoder(order="deterministic").encode
_decoder: msgspec.json.Decoder[Header | Frame | Pods | End] = msgspec.json.Decoder(Header | Frame | Pods | End)


# Writing


class Recorder:
    """Writes one file; what has changed since the frame before is kept track of here."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = path.with_name(f"{path.name}.partial")
        self._shelves: Shelves = {}
        self.frames = 0
        self.size = 0  # once it is complete

    def __enter__(self) -> Self:
        try:
            # Whatever is in it concerns the cluster alone: nobody else on this machine may read it, nor have put a file or
            # a link there before us.
            self._partial.unlink(missing_ok=True)
            self._partial.touch(mode=0o600, exist_ok=False)
            self._file = gzip.open(self._partial, "wb", compresslevel=6)
        except OSError as error:
            raise NotDone(f"{self._path} cannot be written: {error.strerror}") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """A file that was not finished never has the name of one that was. Whoever breaks off keeps what there is."""
        is_whole = kind is None or (kind is asyncio.CancelledError and self.frames > 0)
        try:
            if is_whole:
                self._line(End(frames=self.frames))
            self._file.close()
            if is_whole:
                self.size = self._partial.stat().st_size
                self._partial.replace(self._path)
        except OSError as error:
            raise NotDone(f"{self._path} cannot be written: {error.strerror}") from error
        finally:
            self._partial.unlink(missing_ok=True)

    def begin(self, header: Header, pods: PodsByNode | None) -> None:
        self._line(header)
        if pods is not None:
            self._line(Pods(pods=tuple(pod for found in pods.values() for pod in found)))

    def frame(self, cluster: Cluster, decided: Decided) -> None:
        shelves = shelves_of(cluster)
        self._line(frame_between(self._shelves, shelves, cluster, decided))
        self._shelves = shelves
        self.frames += 1

    def _line(self, line: Line) -> None:
        try:
            self._file.write(_encode(line) + b"\n")
        except OSError as error:
            raise NotDone(f"{self._path} cannot be written: {error.strerror}") from error


def header_of(rules: Rules, made: datetime, unknown: tuple[str, ...]) -> Header:
    return Header(format=FORMAT, defib=__version__, made=made, rules=rules, unknown=unknown)


def shelves_of(cluster: Cluster) -> Shelves:
    return {NODES: cluster.nodes, HEARTBEATS: cluster.heartbeats, LOCKS: cluster.locks, **cluster.others}


def frame_between(before: Shelves, after: Shelves, cluster: Cluster, decided: Decided) -> Frame:
    put: dict[str, tuple[msgspec.Raw, ...]] = {}
    gone: dict[str, tuple[str, ...]] = {}
    for name, objects in after.items():
        known = before.get(name, {})
        changed = [item for key, item in objects.items() if known.get(key) != item]
        if changed or name not in before:
            put[name] = tuple(msgspec.Raw(_encode(item)) for item in changed)
        if lost := tuple(key for key in known if key not in objects):
            gone[name] = lost
    return Frame(
        now=cluster.now,
        put=put,
        gone=gone,
        dropped=tuple(name for name in before if name not in after),
        facts=_facts(cluster),
        decided=decided,
    )


def _facts(cluster: Cluster) -> Facts:
    return Facts(
        blind=cluster.blind,
        absent=dict(cluster.absent),
        unread=cluster.unread,
        kinds=tuple(_kind_seen(ref, found) for ref, found in cluster.kinds.items()),
        doubts=cluster.doubts,
        failures=dict(cluster.failures),
        claims=dict(cluster.claims),
        server=cluster.server,
    )


def _kind_seen(ref: KindRef, found: Served | Missing) -> KindSeen:
    if isinstance(found, Missing):
        return KindSeen(ref.api_version, ref.name, missing=found.why)
    return KindSeen(ref.api_version, ref.name, found.collection, found.namespaced)


def decided_of(thought: Thought) -> Decided:
    actions = {action.key: {"action": type(action).__name__} | _plain(action) for action in thought.actions}
    verdicts = {
        name: {
            node: f"{verdict.state.value} ({verdict.reason}): {verdict.message}"
            for node, verdict in one.verdicts.items()
        }
        for name, one in thought.plan.checks.items()
    }
    moments = (moment for moment in (thought.plan.wake_at, *thought.own.moments) if moment is not None)
    return Decided(actions=actions, verdicts=verdicts, wake_at=min(moments, default=None))


def _plain(action: Any) -> dict[str, Any]:
    """As it comes out of a file, so that it can be compared with what does."""
    return dict(msgspec.json.decode(_encode(action)))


# Reading


def read_recording(path: Path) -> Recording:
    """Raises NotDone."""
    lines = _lines(path)
    header = _header(next(lines, b""), path)
    pods: PodsByNode | None = None
    scenes: list[Scene] = []
    shelves: dict[str, dict[str, Resource]] = {}
    for number, line in enumerate(lines, start=2):
        match _read(line, path, number):
            case Pods(pods=listed):
                pods = by_node(listed)
            case Frame() as frame:
                shelves = _apply(frame, shelves, path, number)
                scenes.append(Scene(_cluster(frame, shelves), frame.decided))
            case End(frames=count) if count == len(scenes) and scenes and next(lines, b"") == b"":
                return Recording(header, tuple(scenes), pods)
            case _:
                raise NotDone(f"{path} is damaged: line {number} is not what belongs there; make the dump again")
    raise NotDone(
        f"{path} is only a part of a dump: it ends after {len(scenes)} frames; copy it again, or make it again"
    )


def _lines(path: Path) -> Iterator[bytes]:
    """Unpacked as they are needed. Raises NotDone, also in the middle."""
    try:
        with path.open("rb") as file:
            if (start := file.read(len(GZIP))) != GZIP:
                what = "is empty" if not start else "is not a dump of Defib (it is not packed with gzip)"
                raise NotDone(f"{path} {what}; make one with: defib dump FILE.json.gz")
            file.seek(0)
            with gzip.open(file) as unpacked:
                yield from _within(unpacked, path)
    except EOFError:
        yield CUT
    except (gzip.BadGzipFile, zlib.error) as error:
        raise NotDone(f"{path} is damaged: {error}; copy it again, or make it again") from error
    except OSError as error:
        raise NotDone(f"{path} cannot be read: {error.strerror}") from error


def _within(unpacked: gzip.GzipFile, path: Path) -> Iterator[bytes]:
    """A single line may be all that is in it: of that, too, no more is read than there may be."""
    total = 0
    while line := unpacked.readline(LONGEST - total + 1):
        total += len(line)
        if total > LONGEST:
            raise NotDone(f"{path} holds more than {LONGEST // 1024**3} GiB: that is no dump of one cluster")
        yield line


class _Format(msgspec.Struct, frozen=True):
    line: str = ""
    format: int = 0
    defib: str = ""


def _header(line: bytes, path: Path) -> Header:
    """The version first: what another one wrote may look like anything."""
    try:
        told = msgspec.json.decode(line, type=_Format)
    except msgspec.DecodeError as error:
        raise NotDone(f"{path} is not a dump of Defib; make one with: defib dump FILE.json.gz") from error
    if told.line != "header":
        raise NotDone(f"{path} is not a dump of Defib; make one with: defib dump FILE.json.gz")
    if told.format != FORMAT:
        raise NotDone(
            f"{path} was made by Defib {told.defib} in format {told.format}, and this is Defib {__version__}, which "
            f"reads format {FORMAT}: use Defib {told.defib} for it"
        )
    header = _read(line, path, 1)
    assert isinstance(header, Header)
    return header


def _read(line: bytes, path: Path, number: int) -> Header | Frame | Pods | End:
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        if not line.endswith(b"\n"):
            raise NotDone(
                f"{path} is only a part of a dump: it ends in the middle of line {number}; copy it again, or make it again"
            ) from error
        raise NotDone(f"{path} is damaged: line {number}: {error}; make the dump again") from error


def _apply(
    frame: Frame, before: Mapping[str, dict[str, Resource]], path: Path, number: int
) -> dict[str, dict[str, Resource]]:
    shelves = {name: objects for name, objects in before.items() if name not in frame.dropped}
    for name, keys in frame.gone.items():
        lost = frozenset(keys)
        shelves[name] = {key: item for key, item in shelves.get(name, {}).items() if key not in lost}
    for name, written in frame.put.items():
        try:
            items = [msgspec.json.decode(one, type=_type_of(name)) for one in written]
        except (msgspec.DecodeError, RecursionError) as error:
            raise NotDone(f"{path} is damaged: line {number}, {name}: {error}; make the dump again") from error
        shelves[name] = {**shelves.get(name, {}), **{item.key: item for item in items}}
    return shelves


def _type_of(collection: str) -> type[Resource]:
    return Pod if collection.startswith(PODS_ON) else _TYPES.get(collection, Unstructured)


def _cluster(frame: Frame, shelves: Mapping[str, dict[str, Any]]) -> Cluster:
    facts = frame.facts
    return Cluster(
        now=frame.now,
        nodes=shelves.get(NODES, {}),
        heartbeats=shelves.get(HEARTBEATS, {}),
        locks=shelves.get(LOCKS, {}),
        others={name: objects for name, objects in shelves.items() if name not in (NODES, HEARTBEATS, LOCKS)},
        blind=facts.blind,
        absent=facts.absent,
        unread=facts.unread,
        kinds={KindRef(one.api_version, one.name): _found(one) for one in facts.kinds},
        doubts=facts.doubts,
        failures=facts.failures,
        claims=facts.claims,
        server=facts.server,
    )


def _found(one: KindSeen) -> Served | Missing:
    return Served(one.collection, one.namespaced) if one.missing is None else Missing(one.missing)

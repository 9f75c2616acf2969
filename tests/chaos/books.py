"""What etcd wrote, every change in its order, read from etcd itself: no death of an API server makes a gap in it.

Values must be stored as JSON. After a restore, revisions begin again from those of the backup: a new volume, whose first
pages repeat the last ones of the backup.
"""

import asyncio
import base64
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import aiohttp
import msgspec

from defib.clock import Clock
from defib.simulate.virtual_time import START
from testbed.settings import ETCD_SOCKET
from tests.simulation.world import LEASES

FLAGS = ("--storage-media-type=application/json", "--etcd-compaction-interval=0")

_PREFIX = "/registry/"
_NAMES = {"minions": "nodes", "leases": LEASES}  # what etcd calls otherwise; of our own kinds it knows the group
_AGAIN_AFTER_SECONDS = 0.1
_TIMES = re.compile(rb'"(\d{4}-\d\d-\d\dT[\d:.]+Z)"')


class Page(msgspec.Struct):
    """One change of one object. `at` is when it was heard of, in seconds of the run; `volume` counts restores."""

    at: float
    volume: int
    revision: int
    resource: str
    key: str
    now: dict[str, Any] | None
    before: dict[str, Any] | None


class Mark(msgspec.Struct, frozen=True):
    """A backup was made here, or everything was restored to it."""

    at: float
    backup: str
    is_restore: bool = False


class _Value(msgspec.Struct):
    key: str
    mod_revision: int = 0
    value: str = ""


class _Event(msgspec.Struct):
    kv: _Value
    type: str = "PUT"
    prev_kv: _Value | None = None


class _Result(msgspec.Struct):
    events: list[_Event] = []


class _Line(msgspec.Struct):
    result: _Result = msgspec.field(default_factory=_Result)


class Books:
    """`keep` are the resources whose pages are kept, by their plural names."""

    def __init__(self, directory: Path, clock: Clock, keep: frozenset[str]) -> None:
        self.pages: list[Page | Mark] = []
        self.revision = 0  # of the last page, kept or not
        self._socket = str(directory / ETCD_SOCKET)
        self._clock = clock
        self._keep = keep
        self._volume = 0
        self._backups: dict[str, int] = {}  # with the revision that each goes up to
        self._began = clock.now()
        self._decoder = msgspec.json.Decoder(_Line, strict=False)  # it writes numbers as texts

    def seconds(self, moment: datetime) -> float:
        """Of the run."""
        return (moment - self._began).total_seconds()

    def moment(self, seconds: float) -> datetime:
        return self._began + timedelta(seconds=seconds)

    @property
    def now(self) -> float:
        return self.seconds(self._clock.now())

    def backed_up(self, backup: str) -> None:
        self._backups[backup] = self.revision
        self.pages.append(Mark(self.now, backup))

    def restored(self, backup: str) -> None:
        """Goes on from the first change that the backup does not have."""
        self._volume += 1
        self.revision = self._backups[backup]
        self.pages.append(Mark(self.now, backup, is_restore=True))

    async def run(self) -> NoReturn:
        while True:
            volume = self._volume
            try:
                await self._read(volume)
            except (aiohttp.ClientError, OSError, TimeoutError, msgspec.DecodeError):
                # It is dead or stands still, and nobody tells when it is back.
                await asyncio.sleep(_AGAIN_AFTER_SECONDS)

    async def _read(self, volume: int) -> None:
        # From the very beginning on: a node that has not changed since the run began is a node as well.
        start = str(self.revision + 1)
        wish = {
            "key": _coded(_PREFIX),
            "range_end": _coded(_PREFIX[:-1] + "0"),
            "prev_kv": True,
            "start_revision": start,
        }
        body = msgspec.json.encode({"create_request": wish})
        connector, patience = aiohttp.UnixConnector(path=self._socket), aiohttp.ClientTimeout(total=None)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=patience, read_bufsize=2**24) as session,
            session.post("http://etcd/v3/watch", data=body) as answer,
        ):
            async for line in answer.content:
                if volume != self._volume:
                    return
                for event in self._decoder.decode(line).result.events:
                    self._take(event)

    def _take(self, event: _Event) -> None:
        self.revision = event.kv.mod_revision
        resource, key = _place(base64.b64decode(event.kv.key).decode())
        if resource in self._keep:
            now = self._object(event.kv) if event.type == "PUT" else None
            before = self._object(event.prev_kv) if event.prev_kv is not None else None
            self.pages.append(Page(self.now, self._volume, self.revision, resource, key, now, before))

    def _object(self, value: _Value) -> dict[str, Any]:
        """With its version, and its times in those of a simulated run: so checkers read both alike."""
        text = _TIMES.sub(self._told, base64.b64decode(value.value))
        found: dict[str, Any] = msgspec.json.decode(text)
        found["metadata"]["resourceVersion"] = str(value.mod_revision)
        return found

    def _told(self, moment: re.Match[bytes]) -> bytes:
        told = START + timedelta(seconds=self.seconds(datetime.fromisoformat(moment[1].decode())))
        return f'"{told:%Y-%m-%dT%H:%M:%S.%f}Z"'.encode()


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _place(path: str) -> tuple[str, str]:
    """/registry/pods/default/web, /registry/defib.dev/nodeincidents/zone-a-1, /registry/minions/zone-a-1"""
    first, *rest = path.removeprefix(_PREFIX).split("/")
    if "." in first:
        return f"{rest[0]}.{first}", "/".join(rest[1:])
    return _NAMES.get(first, first), "/".join(rest)

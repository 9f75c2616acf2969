"""The process that sees when remediations or pods come and go, or who has a lock: it does nothing else, so that it sees it at once.

    python -m tests.bench.witness remediations|pods|locks --kubeconfig FILE

It tells `watching`, then a moment for each that was created or deleted, or for each lock that has another holder than
before. The kubeconfig is one with a token. It
does not use our own client: that lets events gather for a tenth of a second, which would be measured as lateness.
"""

import argparse
import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn

import aiohttp
import msgspec
import yaml

from defib.clock import SystemClock
from defib.kube.kinds import LEASES, PODS
from defib.model import medik8s
from defib.model.meta import Resource
from defib.model.node import Lease
from tests.bench.moments import CREATED, DELETED, HELD, WATCHING, Moment, tell_moment
from tests.bench.ward import REMEDIATIONS

WHAT = {"ADDED": CREATED, "MODIFIED": "", "DELETED": DELETED}
METADATA_ONLY = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
WHOLE = {"Accept": "application/json"}
WATCH_SECONDS = 3600
LOCKS_NAMESPACE = "defib-system"


class Event(msgspec.Struct, frozen=True):
    type: str
    object: Resource


class LockEvent(msgspec.Struct, frozen=True):
    type: str
    object: Lease


class Version(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str


class Listed(msgspec.Struct, frozen=True):
    metadata: Version


class ComingAndGoing:
    """What was created or deleted: a remediation is told by its node, a pod by its own name."""

    headers = METADATA_ONLY

    def __init__(self, path: str) -> None:
        self.path = path

    def read(self, line: bytes, at: float) -> tuple[str, Moment | None]:
        event = msgspec.json.decode(line, type=Event)
        assert event.type in WHAT, f"the watch said {line.decode()}"
        item, what = event.object, WHAT[event.type]
        whose = item.annotations.get(medik8s.NODE_NAME, item.name)
        return item.metadata.resource_version, Moment(what, whose, at) if what else None


class Holding:
    """Who has each lock now, when that is somebody else than before; they are renewed all the time."""

    headers = WHOLE
    path = LEASES.collection(LOCKS_NAMESPACE)

    def __init__(self) -> None:
        self._holders: dict[str, str] = {}

    def read(self, line: bytes, at: float) -> tuple[str, Moment | None]:
        event = msgspec.json.decode(line, type=LockEvent)
        assert event.type in WHAT, f"the watch said {line.decode()}"
        lock = event.object
        holder = (lock.spec.holder_identity or "") if event.type != "DELETED" else ""
        before, self._holders[lock.name] = self._holders.get(lock.name), holder
        return lock.metadata.resource_version, Moment(HELD, holder, at) if holder != before else None


SEEN: Mapping[str, Callable[[], ComingAndGoing | Holding]] = {
    "remediations": lambda: ComingAndGoing(REMEDIATIONS.collection()),
    "pods": lambda: ComingAndGoing(PODS.collection()),
    "locks": Holding,
}


async def watch(seen: ComingAndGoing | Holding, config: dict[str, Any]) -> NoReturn:
    """An API server that is very busy drops watchers that it holds to be slow, so it is asked again for the rest."""
    async with _session(config) as session:
        async with session.get(seen.path, params={"limit": "1"}) as answer:
            version = msgspec.json.decode(await answer.read(), type=Listed).metadata.resource_version
        tell_moment(Moment(WATCHING))
        while True:
            version = await _watch_from(session, seen, version)


async def _watch_from(session: aiohttp.ClientSession, seen: ComingAndGoing | Holding, version: str) -> str:
    """To the end of the stream; the version to go on from."""
    clock = SystemClock()
    query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(WATCH_SECONDS)}
    async with session.get(seen.path, params=query, headers=seen.headers) as answer:
        async for line in answer.content:
            at = clock.now().timestamp()
            version, moment = seen.read(line, at)
            if moment is not None:
                tell_moment(moment)
    return version


@asynccontextmanager
async def _session(config: dict[str, Any]) -> AsyncIterator[aiohttp.ClientSession]:
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    async with aiohttp.ClientSession(
        cluster["server"],
        connector=aiohttp.TCPConnector(ssl=tls),
        headers={"Authorization": f"Bearer {user['token']}"},
        timeout=aiohttp.ClientTimeout(total=None),
        raise_for_status=True,
    ) as session:
        yield session


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.witness")
    parser.add_argument("kind", choices=SEEN)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    asked = parser.parse_args()
    asyncio.run(watch(SEEN[asked.kind](), yaml.safe_load(asked.kubeconfig.read_text())))


if __name__ == "__main__":
    main()

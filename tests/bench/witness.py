"""The process that sees when remediations or pods come and go: it does nothing else, so that it sees them at once.

    python -m tests.bench.witness remediations|pods --kubeconfig FILE

It tells `watching`, then a moment for each that was created or deleted. The kubeconfig is one with a token. It
does not use our own client: that lets events gather for a tenth of a second, which would be measured as lateness.
"""

import argparse
import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn

import aiohttp
import msgspec
import yaml

from defib.clock import SystemClock
from defib.kube.kinds import PODS, Kind
from defib.model import medik8s
from defib.model.meta import Resource
from tests.bench.moments import CREATED, DELETED, WATCHING, Moment, tell_moment
from tests.bench.ward import REMEDIATIONS

WHAT = {"ADDED": CREATED, "MODIFIED": "", "DELETED": DELETED}
METADATA_ONLY = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
WATCH_SECONDS = 3600


SEEN: dict[str, Kind[Any]] = {"remediations": REMEDIATIONS, "pods": PODS}


class Event(msgspec.Struct, frozen=True):
    type: str
    object: Resource


class Version(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str


class Listed(msgspec.Struct, frozen=True):
    metadata: Version


async def watch(kind: Kind[Any], config: dict[str, Any]) -> NoReturn:
    """An API server that is very busy drops watchers that it holds to be slow, so it is asked again for the rest."""
    async with _session(config) as session:
        async with session.get(kind.collection(), params={"limit": "1"}) as answer:
            version = msgspec.json.decode(await answer.read(), type=Listed).metadata.resource_version
        tell_moment(Moment(WATCHING))
        while True:
            version = await _watch_from(session, kind, version)


async def _watch_from(session: aiohttp.ClientSession, kind: Kind[Any], version: str) -> str:
    """To the end of the stream; the version to go on from."""
    clock = SystemClock()
    query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(WATCH_SECONDS)}
    async with session.get(kind.collection(), params=query, headers=METADATA_ONLY) as answer:
        async for line in answer.content:
            at = clock.now().timestamp()
            event = msgspec.json.decode(line, type=Event)
            assert event.type in WHAT, f"the watch said {line.decode()}"
            version = event.object.metadata.resource_version
            if what := WHAT[event.type]:
                tell_moment(Moment(what, _whose(event.object), at))
    return version


def _whose(item: Resource) -> str:
    """A remediation is told by its node, a pod by its own name."""
    return item.annotations.get(medik8s.NODE_NAME, item.name)


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
    asyncio.run(watch(SEEN[asked.kind], yaml.safe_load(asked.kubeconfig.read_text())))


if __name__ == "__main__":
    main()

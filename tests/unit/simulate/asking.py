"""A few words to ask the embedded server by, without the client: its answers are what is tested here."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from defib.kube.transport import JSON, JSON_PATCH, MERGE_PATCH, Request
from defib.simulate import virtual_time
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock

T = TypeVar("T")
Json = dict[str, Any]

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


class Asker:
    """One client of one server."""

    def __init__(self, server: ApiServer, client: str = "tester") -> None:
        self.transport = InProcess(server, client)

    async def ask(
        self, method: str, path: str, body: object = None, content_type: str = JSON, **query: str
    ) -> tuple[int, Json]:
        sent = msgspec.json.encode(body) if body is not None else b""
        request = Request(method=method, path=path, query=query, body=sent, content_type=content_type)
        async with self.transport.send(request) as response:
            return response.status, msgspec.json.decode(await response.read())

    async def get(self, path: str, **query: str) -> Json:
        return (await self.ask("GET", path, **query))[1]

    async def create(self, path: str, body: Json) -> Json:
        status, made = await self.ask("POST", path, body)
        assert status == 201, made
        return made

    async def merge(self, path: str, patch: Json) -> Json:
        status, made = await self.ask("PATCH", path, patch, MERGE_PATCH)
        assert status == 200, made
        return made

    async def json_patch(self, path: str, *operations: Json) -> tuple[int, Json]:
        return await self.ask("PATCH", path, list(operations), JSON_PATCH)

    async def delete(self, path: str, **options: Any) -> tuple[int, Json]:
        return await self.ask("DELETE", path, options)

    async def events(self, path: str, **query: str) -> list[Json]:
        """Everything a watch brings until it ends."""
        lines = b""
        request = Request(method="GET", path=path, query={"watch": "1", "timeoutSeconds": "1", **query})
        async with self.transport.send(request) as response:
            async for chunk in response.chunks():
                lines += chunk
        return [msgspec.json.decode(line) for line in lines.splitlines()]

    async def exists(self, path: str) -> bool:
        return (await self.ask("GET", path))[0] == 200


def simulated(story: Callable[[ApiServer, Asker], Coroutine[Any, Any, T]], *, seed: int = 0) -> T:
    """Runs a story on a fresh server in virtual time."""

    async def main(clock: VirtualClock) -> T:
        server = ApiServer(clock)
        return await story(server, Asker(server))

    return virtual_time.run(main, seed=seed)


def names(events: list[Json]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


def a_pod(name: str, *, node: str = "n1", **labels: str) -> Json:
    spec: Json = {"containers": [{"name": "c", "image": "i"}]}
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def owned_by(owner: Json, kind: str, *, blocks: bool = False) -> Json:
    meta = owner["metadata"]
    reference = {"apiVersion": "v1", "kind": kind, "name": meta["name"], "uid": meta["uid"]}
    return {"ownerReferences": [{**reference, "blockOwnerDeletion": blocks}]}

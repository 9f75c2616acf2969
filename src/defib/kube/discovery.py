"""Finds out where a kind lives that was unknown when this program was built.

What was found is remembered. What was not found is asked for again each time: its CRD may appear at any moment.
"""

from typing import Any, TypeVar

import msgspec

from defib.kube.client import Client
from defib.kube.errors import UNREADABLE, NotFound, UnknownKind, Unreadable
from defib.kube.kinds import Kind
from defib.kube.transport import Request
from defib.model.meta import Unstructured

T = TypeVar("T")


class _Version(msgspec.Struct, frozen=True):
    version: str


class _Group(msgspec.Struct, frozen=True, rename="camel"):
    """`/apis/<group>`: the versions in the server's order, the best first."""

    versions: list[_Version]
    preferred_version: _Version


class _Served(msgspec.Struct, frozen=True):
    """One row of `/apis/<group>/<version>`."""

    name: str
    kind: str
    namespaced: bool

    @property
    def is_subresource(self) -> bool:
        return "/" in self.name


class _Serving(msgspec.Struct, frozen=True):
    resources: list[_Served] | None = None


_GROUP = msgspec.json.Decoder(_Group)
_SERVING = msgspec.json.Decoder(_Serving)


class Discovery:
    """Kinds by group and name, as the API server knows them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._found: dict[tuple[str, str, str], Kind[Unstructured]] = {}

    async def find(self, group: str, kind: str, version: str = "") -> Kind[Unstructured]:
        """Without a version, in the one the server prefers. Raises UnknownKind."""
        wanted = (group, kind, version)
        if wanted not in self._found:
            self._found[wanted] = await self._ask(group, kind, version)
        return self._found[wanted]

    def forget(self, kind: Kind[Any]) -> None:
        """Ask again next time: the kind has gone, or lives elsewhere now."""
        self._found = {
            wanted: found
            for wanted, found in self._found.items()
            if (found.group, found.name) != (kind.group, kind.name)
        }

    async def _ask(self, group: str, kind: str, version: str) -> Kind[Unstructured]:
        try:
            for candidate in [version] if version else await self._versions(group):
                for row in await self._serving(group, candidate):
                    if row.kind == kind and not row.is_subresource:
                        return Kind(
                            group=group,
                            version=candidate,
                            plural=row.name,
                            name=kind,
                            namespaced=row.namespaced,
                            type=Unstructured,
                        )
        except NotFound:
            pass  # neither the group nor the version is served: the same answer as a group without the kind
        raise UnknownKind(kind, group, version)

    async def _versions(self, group: str) -> list[str]:
        """The preferred one first; a kind may exist in another one only."""
        if not group:
            return ["v1"]
        answer = await self._read(f"/apis/{group}", _GROUP)
        preferred = answer.preferred_version.version
        return [preferred, *(one.version for one in answer.versions if one.version != preferred)]

    async def _serving(self, group: str, version: str) -> list[_Served]:
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        answer = await self._read(path, _SERVING)
        return answer.resources or []

    async def _read(self, path: str, shape: msgspec.json.Decoder[T]) -> T:
        body = await self._client.ask(Request(method="GET", path=path))
        try:
            return shape.decode(body)
        except UNREADABLE as error:
            raise Unreadable(f"cannot read the answer to {path} as a list of kinds: {error}") from error

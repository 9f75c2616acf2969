"""The one seam between the client and a server: a request goes out, a response with its bytes comes back.

Two things stand behind it: aiohttp (http.py) and the embedded API server (simulate/). Neither retries, limits
or decodes; the client above does, so both are used in exactly the same way.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"  # the API server's name for it; JSON is valid YAML


class Request(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str
    query: dict[str, str] = {}
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON

    def __str__(self) -> str:
        """For errors and logs: what was asked, without body or credentials."""
        return f"{self.method} {self.path}"


class Response(Protocol):
    """Valid only inside the `async with` that gave it."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case."""
        ...

    async def read(self) -> bytes:
        """The whole body. Raises Unreachable when the connection breaks before its end."""
        ...

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it arrives, cut anywhere. Raises Unreachable when the connection breaks."""
        ...


class Transport(Protocol):
    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Raises Unreachable when no answer comes. Leaving the context ends the exchange, also in mid-stream."""
        ...

    def describe(self) -> str:
        """Whom it talks to, for errors: an address and where it is from, no credentials."""
        ...

    async def close(self) -> None: ...

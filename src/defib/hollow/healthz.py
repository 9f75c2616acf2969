"""The health endpoint of a hollow kubelet: `GET /healthz` on loopback, for a node that is asked for it.

    async with healthz(nodes["n1"]) as port: ...

A node that is not up breaks the connection; one that is hung or cut off takes the request and says nothing.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from defib.hollow.node import HollowNode

SECONDS_MAX = 60.0  # longer than anybody waits for the answer to a probe
HEALTHY = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


@asynccontextmanager
async def healthz(node: HollowNode, port: int = 0) -> AsyncIterator[int]:
    """Serves it for as long as the context lasts, and writes the port into the node's status. For real time only."""
    calls: set[asyncio.StreamWriter] = set()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        calls.add(writer)
        try:
            async with asyncio.timeout(SECONDS_MAX):
                await _answer(node, reader, writer)
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asked is gone, or never asked
        finally:
            calls.discard(writer)
            writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", port)
    async with server:
        chosen: int = server.sockets[0].getsockname()[1]
        node.set_kubelet_port(chosen)
        yield chosen
        for call in calls:
            call.transport.abort()


async def _answer(node: HollowNode, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    if not node.is_up:
        writer.transport.abort()
    elif node.answers:
        writer.write(HEALTHY)
        await writer.drain()
    else:
        await reader.read()  # until the other side has lost its patience

"""The ports of hollow kubelets, on loopback: whoever asks finds out what a real one would tell.

    async with kubelets(cluster.nodes.values(), tls): ...

A node that answers shakes hands. One that has no power, hangs or is cut off takes the call and says nothing, which to
whoever waits is the same as a packet that is lost.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

from defib.hollow.node import HollowNode

LOOPBACK = "127.0.0.1"
SECONDS_MAX = 30.0  # longer than anybody asks


@asynccontextmanager
async def kubelets(nodes: Iterable[HollowNode], tls: ssl.SSLContext) -> AsyncIterator[None]:
    """For as long as the context lasts. Each port is written into the status of its node."""
    async with AsyncExitStack() as stack:
        for node in nodes:
            await stack.enter_async_context(_kubelet(node, tls))
        yield


@asynccontextmanager
async def _kubelet(node: HollowNode, tls: ssl.SSLContext) -> AsyncIterator[None]:
    calls: set[asyncio.StreamWriter] = set()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        calls.add(writer)
        try:
            async with asyncio.timeout(SECONDS_MAX):
                if node.answers:
                    await writer.start_tls(tls)
                else:
                    await reader.read()  # until whoever asked has had enough
        except (TimeoutError, OSError):
            pass  # whoever asked has gone
        finally:
            calls.discard(writer)
            writer.transport.abort()

    server = await asyncio.start_server(take, LOOPBACK, 0)
    async with server:
        node.set_kubelet_port(server.sockets[0].getsockname()[1])
        yield
        for call in tuple(calls):
            call.transport.abort()

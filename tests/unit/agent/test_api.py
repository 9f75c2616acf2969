"""The agent's own small way to the API server: what it understands, what it refuses, and that it gives up in time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from defib.agent.api import LeanTransport, reach
from defib.clock import SystemClock
from defib.kube.client import Client, Merge, Scope
from defib.kube.credentials import Exec, Token, User
from defib.kube.errors import BadConfig, DeadlineExceeded, NotFound, Unreachable
from defib.kube.kinds import LEASES
from defib.kube.kubeconfig import Connection
from defib.kube.transport import Request
from defib.model.secret import Secret
from defib.simulate.http import serving
from defib.simulate.server import ApiServer

CLOCK = SystemClock()
HOST = "127.0.0.1"


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with serving(ApiServer(CLOCK)) as front:
        kubeconfig = await asyncio.to_thread(front.write_kubeconfig, tmp_path / "kubeconfig")
        client = Client(await reach(kubeconfig, None, {}, CLOCK, 3), CLOCK)
        yield client
        await client.close()


async def test_the_verbs_of_an_agent_work(client: Client) -> None:
    ref = LEASES.at("one", "default")
    with pytest.raises(NotFound):
        await client.get(ref)
    await client.create(LEASES, {"metadata": {"name": "one", "labels": {"a": "b"}}, "spec": {}}, namespace="default")
    await client.patch(ref, Merge({"spec": {"holderIdentity": "é"}}))
    assert (await client.get(ref)).spec.holder_identity == "é"
    assert [one.name for one in (await client.list_all(LEASES, Scope(namespace="default", labels="a=b"))).items] == [
        "one"
    ]


@asynccontextmanager
async def server_that(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[LeanTransport]:
    server = await asyncio.start_server(serve, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    user = User(login=Token(Secret("secret-token")))
    transport = LeanTransport(Connection(server=f"http://{HOST}:{port}", source="a test", user=user), CLOCK, 3)
    try:
        yield transport
    finally:
        await transport.close()
        server.close()


async def test_an_answer_in_parts_is_put_together() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\nA\r\n")
        await writer.drain()
        writer.write(b", the rest\r\n0\r\n\r\n")
        writer.close()

    async with server_that(serve) as transport, transport.send(Request(method="GET", path="/x")) as answer:
        assert await answer.read() == b"hello, the rest"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"220 mail.example ESMTP\r\n\r\n",
        b"HTTP/1.1 two hundred\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nno length",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    ],
)
async def test_what_is_no_whole_answer_is_told_without_our_credentials(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with server_that(serve) as transport:
        with pytest.raises(Unreachable) as error:
            async with transport.send(Request(method="PATCH", path="/x")):
                pass
    assert "secret-token" not in str(error.value)
    assert str(error.value).startswith("PATCH /x: no answer from http://127.0.0.1:")


async def test_a_connection_is_used_again_and_a_broken_one_is_not() -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        for _ in range(2):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    async with server_that(serve) as transport:
        for number in range(2):
            async with transport.send(Request(method="GET", path="/x")) as answer:
                assert (answer.status, await answer.read()) == (200, b"{}")
            assert connections == 1, number
        with pytest.raises(Unreachable):
            async with transport.send(Request(method="PATCH", path="/x")):
                pass
        async with transport.send(Request(method="PATCH", path="/x")) as answer:
            assert answer.status == 200
    assert connections == 2


async def test_a_server_that_hangs_is_given_up_at_the_deadline() -> None:
    release = asyncio.Event()

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        writer.close()

    async with server_that(serve) as transport:
        with pytest.raises(DeadlineExceeded):
            await Client(transport, CLOCK).get(LEASES.at("one", "default"), deadline=0.2)
        release.set()


async def test_what_an_agent_cannot_use_is_told() -> None:
    user = User(login=Exec(command="aws"))
    with pytest.raises(BadConfig, match="runs no exec plugin"):
        LeanTransport(Connection(server="https://x", source="a test", user=user), CLOCK, 3)

"""Whether anybody speaks where a kubelet should: asked on real sockets."""

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

from defib.clock import SystemClock
from defib.model.evidence import Says
from defib.power.kubelet import ask_kubelet
from testbed.certificates import Authority

HERE = "127.0.0.1"
SHORT = 0.3


def asked(port: int, within: float = 5.0) -> tuple[Says, str]:
    return asyncio.run(ask_kubelet(HERE, port, within))


async def serving(context: ssl.SSLContext | None, greeting: bytes = b"") -> tuple[Says, str]:
    async def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        writer.close()

    server = await asyncio.start_server(take, HERE, 0, ssl=context)
    async with server:
        return await ask_kubelet(HERE, server.sockets[0].getsockname()[1], 5.0)


@pytest.fixture
def certified(tmp_path: Path) -> ssl.SSLContext:
    pair = Authority(SystemClock().now()).server(names=("n1",), addresses=(HERE,))
    (tmp_path / "kubelet.pem").write_bytes(pair.public + pair.private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "kubelet.pem")
    return context


def test_one_that_serves_is_alive_whoever_signed_its_certificate(certified: ssl.SSLContext) -> None:
    says, detail = asyncio.run(serving(certified))
    assert says is Says.ANSWERS, detail


def test_whoever_is_asked_is_told_nothing(certified: ssl.SSLContext) -> None:
    """A node names its own address: whoever sits there learns no more than that somebody knocked."""
    heard: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            heard.append(await reader.read())
        except ConnectionError:
            heard.append(b"")  # hung up without a word
        finally:
            writer.close()

    async def ask() -> None:
        server = await asyncio.start_server(take, HERE, 0, ssl=certified)
        async with server:
            await ask_kubelet(HERE, server.sockets[0].getsockname()[1], 5.0)
            async with asyncio.timeout(5.0):
                while not heard:  # noqa: ASYNC110  the other side does not tell
                    await asyncio.sleep(0.01)  # the connection is torn down in its own time

    asyncio.run(ask())
    assert heard == [b""]


@pytest.mark.parametrize("greeting", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00" * 64])
def test_whoever_says_anything_else_is_alive_too(greeting: bytes) -> None:
    says, detail = asyncio.run(serving(None, greeting))
    assert says is Says.ANSWERS, detail


def test_a_machine_on_which_nobody_serves_refuses() -> None:
    with socket.socket() as taken:
        taken.bind((HERE, 0))  # and never listens
        assert asked(taken.getsockname()[1])[0] is Says.REFUSES


def test_one_that_takes_the_call_and_says_nothing_is_silent_and_nobody_waits_longer_than_was_said() -> None:
    with socket.socket() as mute:
        mute.bind((HERE, 0))
        mute.listen()
        says, detail = asked(mute.getsockname()[1], SHORT)
    assert (says, detail.endswith("within 0.3 s")) == (Says.SILENT, True)

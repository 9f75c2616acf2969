"""What goes over the wire, and what is said when nothing comes back."""

import asyncio
from pathlib import Path

import pytest

from defib import __version__
from defib.clock import SystemClock
from defib.kube.client import Client
from defib.kube.credentials import Credentials, Fixed, Presented
from defib.kube.errors import DeadlineExceeded, Unreachable
from defib.kube.http import HttpTransport
from defib.kube.kubeconfig import Connection
from defib.kube.transport import MERGE_PATCH, Request
from tests.contract.auth.desk import GET, Desk, ask
from tests.contract.auth.servers import LOOPBACK, ApiServer, DroppingServer, a_deaf_server

WATCH = Request(method="GET", path="/watch")
BROKEN = Request(method="GET", path="/broken")


def a_transport(desk: Desk, server: str, *, seconds: float = 10) -> HttpTransport:
    connection = Connection(server=server, source="the test", insecure_skip_tls_verify=True)
    credentials = Credentials(connection.user, Fixed(Presented()), desk.clock)
    return HttpTransport(connection, credentials, desk.clock, connect_seconds_max=seconds)


async def test_a_selector_arrives_as_it_was_written(desk: Desk, server: ApiServer) -> None:
    selector = "app=a+b,tier!=x y,env in (dev,ü),!gone;&%"
    request = Request(method="GET", path="/api/v1/pods", query={"labelSelector": selector, "limit": "5"})
    transport = a_transport(desk, server.url)
    assert await ask(transport, request) == 200
    await transport.close()
    encoded_selector = "app%3Da%2Bb%2Ctier%21%3Dx+y%2Cenv+in+%28dev%2C%C3%BC%29%2C%21gone%3B%26%25"
    assert server.seen[0].target == f"/api/v1/pods?labelSelector={encoded_selector}&limit=5"


async def test_a_name_with_colons_and_a_server_with_a_path_arrive(desk: Desk, server: ApiServer) -> None:
    transport = a_transport(desk, f"{server.url}/k8s/clusters/c-1")
    await ask(transport, Request(method="GET", path="/apis/rbac/clusterroles/system:node%"))
    await transport.close()
    assert server.seen[0].target == "/k8s/clusters/c-1/apis/rbac/clusterroles/system:node%25"


async def test_the_body_and_the_headers_arrive(desk: Desk, server: ApiServer) -> None:
    transport = a_transport(desk, server.url)
    patch = Request(
        method="PATCH", path="/x", body=b'{"a":1}', content_type=MERGE_PATCH, accept="application/json;as=T"
    )
    async with transport.send(patch) as response:
        assert await response.read() == b'{"kind": "Thing"}'
        assert response.headers["x-mixed-case"] == "kept"
    await transport.close()
    headers = server.seen[0].headers
    assert server.seen[0].body == b'{"a":1}'
    assert headers["Content-Type"] == [MERGE_PATCH]
    assert headers["Accept"] == ["application/json;as=T"]
    assert headers["Accept-Encoding"] == ["identity"]
    assert headers["User-Agent"] == [f"defib/{__version__}"]


async def test_a_request_without_a_body_has_no_content_type(desk: Desk, server: ApiServer) -> None:
    transport = a_transport(desk, server.url)
    await ask(transport)
    await transport.close()
    assert "Content-Type" not in server.seen[0].headers


async def test_a_watch_is_delivered_as_it_arrives(desk: Desk, server: ApiServer) -> None:
    transport = a_transport(desk, server.url)
    async with transport.send(WATCH) as response:
        chunks = response.chunks()
        assert await anext(chunks) == b'{"type":"ADDED"}\n'
        server.go_on.set()
        assert await anext(chunks) == b'{"type":"MODIFIED"}\n'
        assert [chunk async for chunk in chunks] == []
    await transport.close()


async def test_leaving_in_mid_stream_hangs_up(desk: Desk, server: ApiServer) -> None:
    transport = a_transport(desk, server.url)
    async with transport.send(WATCH) as response:
        assert await anext(response.chunks()) == b'{"type":"ADDED"}\n'
        assert not server.left.is_set()
    async with asyncio.timeout(5):
        assert await server.left.wait()
    await transport.close()


async def test_a_connection_that_breaks_in_mid_answer_is_told(desk: Desk, server: ApiServer) -> None:
    transport = a_transport(desk, server.url)
    line = f"GET /broken: the connection to {server.url} broke in mid-answer"
    async with transport.send(BROKEN) as response:
        chunks = response.chunks()
        assert await anext(chunks) == b'{"type":"ADDED"}\n{"type":"MOD'
        server.go_on.set()
        with pytest.raises(Unreachable, match=line):
            await anext(chunks)
    async with transport.send(BROKEN) as response:
        with pytest.raises(Unreachable, match=line):
            await response.read()
    await transport.close()


async def test_a_server_that_is_down_leaves_one_line(desk: Desk, unused_port: int) -> None:
    desk.configure(f"https://{LOOPBACK}:{unused_port}", {"token": "t-1"})
    async with desk.connected() as transport:
        with pytest.raises(Unreachable) as caught:
            await ask(transport)
    assert str(caught.value) == (
        f"GET /api/v1/nodes: cannot reach https://{LOOPBACK}:{unused_port}: connection refused; "
        f"is the API server running, and is the address in context 'prod' of {desk.kubeconfig} right?"
    )


async def test_a_host_that_does_not_exist_leaves_one_line(desk: Desk) -> None:
    # No resolver asks the network for a name that starts with a hyphen.
    transport = a_transport(desk, "https://-no-such-host-:6443")
    with pytest.raises(Unreachable, match="cannot reach https://-no-such-host-:6443: no such host; is the address in"):
        await ask(transport)
    await transport.close()


async def test_a_server_that_says_nothing_is_given_up(desk: Desk) -> None:
    async with a_deaf_server() as url:
        transport = a_transport(desk, url, seconds=0.2)
        with pytest.raises(Unreachable, match="no connection in time; is a firewall or a VPN in the way"):
            await ask(transport)
        await transport.close()


async def test_a_server_that_is_mute_is_named_when_the_deadline_passes(desk: Desk) -> None:
    async with a_deaf_server() as url:
        plain = url.replace("https:", "http:")
        desk.configure(plain, {})
        async with desk.connected() as transport:
            with pytest.raises(DeadlineExceeded) as caught:
                await Client(transport, SystemClock()).ask(GET, deadline=0.2)
    assert str(caught.value) == (
        f"GET /api/v1/nodes: no answer from {plain} (context 'prod' of {desk.kubeconfig}) within 0.2 s; "
        "is it up, and is a firewall or VPN in the way?"
    )


async def test_a_proxy_is_named_with_the_server_behind_it(desk: Desk) -> None:
    desk.configure("https://east:6443", {}, **{"proxy-url": f"http://ann:secret@{LOOPBACK}:3128"})
    async with desk.connected() as transport:
        assert transport.describe() == (
            f"https://east:6443 through proxy {LOOPBACK}:3128 (context 'prod' of {desk.kubeconfig})"
        )


async def test_a_server_without_tls_is_told(desk: Desk, tmp_path: Path) -> None:
    async with ApiServer().serve(None, tmp_path) as plain:
        transport = a_transport(desk, plain.url.replace("http:", "https:"))
        with pytest.raises(Unreachable, match=r"TLS failed: .*; does the address in the test speak HTTPS\?"):
            await ask(transport)
        await transport.close()


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (b"", r"it closed the connection without an answer \(ServerDisconnectedError\); is it being restarted\?"),
        (b"SSH-2.0-OpenSSH_9.7\r\n\r\n", r"it does not speak HTTP; is the address in the test right\?"),
    ],
)
async def test_a_server_that_does_not_answer_is_told(desk: Desk, answer: bytes, line: str) -> None:
    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(client, LOOPBACK, 0) as server:
        transport = a_transport(desk, f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}")
        with pytest.raises(Unreachable, match=line):
            await ask(transport)
        await transport.close()


@pytest.mark.parametrize("method", ["DELETE", "POST", "PUT", "PATCH"])
async def test_a_write_whose_answer_is_lost_is_not_sent_again(desk: Desk, method: str) -> None:
    """Also not by the HTTP library, which repeats what it holds to be harmless."""
    dropping = DroppingServer()
    async with dropping.serve() as url:
        transport = a_transport(desk, url)
        await ask(transport)
        with pytest.raises(
            Unreachable, match=r"without an answer \(ServerDisconnectedError\); is it being restarted\?"
        ):
            await ask(transport, Request(method=method, path="/x"))
        await transport.close()
    assert dropping.methods == ["GET", method]


async def test_a_read_over_a_connection_that_drops_is_sent_again(desk: Desk) -> None:
    dropping = DroppingServer()
    async with dropping.serve() as url:
        transport = a_transport(desk, url)
        await ask(transport)
        assert await ask(transport) == 200
        await transport.close()
    assert dropping.methods == ["GET", "GET", "GET"]


async def test_a_redirect_is_not_followed(desk: Desk, server: ApiServer) -> None:
    """It would carry our credentials to wherever it points."""
    desk.configure(server.url, {"token": "t-1"})
    async with desk.connected() as transport:
        assert await ask(transport, Request(method="GET", path="/elsewhere")) == 307
    assert server.seen == []


async def test_an_error_of_the_caller_stays_its_own(desk: Desk, server: ApiServer) -> None:
    transport = a_transport(desk, server.url)
    with pytest.raises(ConnectionError, match="mine"):
        async with transport.send(GET):
            raise ConnectionError("mine")
    await transport.close()

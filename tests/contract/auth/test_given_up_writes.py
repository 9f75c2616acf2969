"""What a mandate no longer covers must not arrive when the network is back: another one leads by then."""

import asyncio
from pathlib import Path

import pytest

from defib.act.deadline import StepByStep, within
from defib.kube.credentials import Credentials, Fixed, Presented
from defib.kube.errors import Unreachable
from defib.kube.http import HttpTransport
from defib.kube.kubeconfig import Connection
from defib.kube.transport import Request
from defib.model.mandate import Mandate
from tests.contract.auth.authority import Issued
from tests.contract.auth.desk import Desk, ask
from tests.contract.auth.servers import ApiServer, server_context
from tests.contract.cut_off import BODY, CutOffServer

MUCH = BODY * 2**10  # more than the kernel takes: asyncio holds the rest
MANDATE_SECONDS = 0.5
RESET_WITHIN_SECONDS = 3.0  # TLS alone would wait for ten times as long
KERNEL_GIVES_UP_SECONDS = 4.8  # a lease is 5 s longer than a mandate


def a_transport(desk: Desk, server: str) -> HttpTransport:
    connection = Connection(server=server, source="the test", insecure_skip_tls_verify=True)
    return HttpTransport(connection, Credentials(connection.user, Fixed(Presented()), desk.clock), desk.clock)


def a_create(body: bytes) -> Request:
    return Request(method="POST", path="/apis/coordination.k8s.io/v1/namespaces/n/leases", body=body)


async def expect_never_delivered(transport: HttpTransport, server: CutOffServer, body: bytes) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(MANDATE_SECONDS):
            await ask(transport, a_create(body))
    async with asyncio.timeout(RESET_WITHIN_SECONDS):
        await server.over.wait()
    await transport.close()
    assert body not in server.came


@pytest.mark.parametrize("body", [BODY, MUCH], ids=["in the kernel", "in asyncio"])
async def test_a_write_that_is_given_up_is_never_delivered(desk: Desk, body: bytes) -> None:
    async with CutOffServer().serve() as server:
        await expect_never_delivered(a_transport(desk, server.url), server, body)


@pytest.mark.parametrize("body", [BODY, MUCH], ids=["in the kernel", "in asyncio"])
async def test_a_write_by_tls_that_is_given_up_is_never_delivered(
    desk: Desk, tmp_path: Path, server_certificate: Issued, body: bytes
) -> None:
    async with CutOffServer().serve(server_context(server_certificate, tmp_path)) as server:
        await expect_never_delivered(a_transport(desk, server.url), server, body)


async def test_the_kernel_gives_a_write_up_when_we_are_stopped_and_cannot(desk: Desk) -> None:
    async with CutOffServer().serve() as server:
        transport = a_transport(desk, server.url)
        async with asyncio.timeout(KERNEL_GIVES_UP_SECONDS):
            with pytest.raises(Unreachable, match="connection timed out"):
                await ask(transport, a_create(BODY))
        await transport.close()
    assert BODY not in server.came


async def test_an_address_that_no_packet_reaches_is_told_as_before(desk: Desk) -> None:
    """The kernel gives up sooner than we would, and says it in its own way."""
    async with CutOffServer().serve(lost_from_bytes=0) as server:
        transport = a_transport(desk, server.url)
        with pytest.raises(Unreachable, match="no connection in time; is a firewall or a VPN in the way"):
            await ask(transport)
        await transport.close()


async def test_who_is_frozen_between_its_last_look_and_the_send_sends_nothing(desk: Desk, server: ApiServer) -> None:
    """No timer and no look of ours comes between the two; only the socket itself can still refuse."""
    transport = a_transport(desk, server.url)
    assert await ask(transport) == 200  # the connection is open, so nothing is waited for before the send

    async def frozen_and_sent() -> int:
        desk.clock.advance(60)
        return await ask(transport, a_create(BODY))

    mandate = Mandate("m", ends=desk.clock.monotonic() + 10)
    with pytest.raises(TimeoutError):
        async with within(30, mandate, desk.clock):
            await StepByStep(frozen_and_sent(), mandate, desk.clock)
    assert await ask(transport) == 200  # what is not done by that mandate leaves as ever
    assert [seen.method for seen in server.seen] == ["GET", "GET"]
    await transport.close()

"""No version check stops a late command to a BMC: one that was given up must not arrive when the network is back."""

import asyncio
import ssl
from pathlib import Path

import pytest

from defib.power.calls import Doubtful
from defib.power.https import Https, Question, TlsOptions
from tests.contract.auth.authority import Authority
from tests.contract.auth.servers import server_context
from tests.contract.cut_off import BODY, LOOPBACK, CutOffServer

MANDATE_SECONDS = 0.5
RESET_WITHIN_SECONDS = 3.0  # TLS alone would wait for ten times as long
KERNEL_GIVES_UP_SECONDS = 4.8  # a lease is 5 s longer than a mandate


async def send_off(url: str) -> None:
    path = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"
    question = Question(method="POST", url=url + path, headers={}, body=BODY)
    await Https().ask(question, TlsOptions(insecure=True), "the BMC")


@pytest.fixture(params=["http", "https"])
def tls(request: pytest.FixtureRequest, tmp_path: Path) -> ssl.SSLContext | None:
    if request.param == "http":
        return None
    return server_context(Authority("BMC CA").issue("bmc", LOOPBACK), tmp_path)


async def test_a_command_that_is_given_up_is_never_delivered(tls: ssl.SSLContext | None) -> None:
    async with CutOffServer().serve(tls) as bmc:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(MANDATE_SECONDS):
                await send_off(bmc.url)
        async with asyncio.timeout(RESET_WITHIN_SECONDS):
            await bmc.over.wait()
    assert BODY not in bmc.came


async def test_the_kernel_gives_a_command_up_when_we_are_stopped_and_cannot(tls: ssl.SSLContext | None) -> None:
    async with CutOffServer().serve(tls) as bmc:
        async with asyncio.timeout(KERNEL_GIVES_UP_SECONDS):
            with pytest.raises(Doubtful):
                await send_off(bmc.url)
    assert BODY not in bmc.came

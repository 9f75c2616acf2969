"""TLS where it should be: certificates are verified, old versions are refused, and what is not encrypted is refused or told."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from defib.announcements import announcements_of
from defib.clock import SystemClock
from defib.config import Settings
from defib.kube.credentials import tls_context
from defib.kube.errors import KubeError
from defib.kube.http import connect
from defib.kube.transport import Request
from defib.model.secret import Secret
from defib.power.calls import Trouble
from defib.power.https import Https, Question, TlsOptions
from defib.telemetry.metrics import Metrics
from testbed.certificates import Authority
from tests.contract.power.subjects import serving_tls

LOOPBACK = "127.0.0.1"
OLD = (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1)
NEW = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


class Listener:
    """Speaks TLS, and counts who got so far as to send something."""

    def __init__(self) -> None:
        self.heard = 0
        self.port = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.heard += bool(await reader.read(1))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
            await writer.drain()
        finally:
            writer.close()


@asynccontextmanager
async def listening(tls: ssl.SSLContext | None) -> AsyncIterator[Listener]:
    listener = Listener()
    server = await asyncio.start_server(listener.take, LOOPBACK, 0, ssl=tls)
    listener.port = server.sockets[0].getsockname()[1]
    async with server:
        yield listener


def speaking(authority: Authority, version: ssl.TLSVersion) -> ssl.SSLContext:
    """Only this version, with ciphers as weak as it takes."""
    tls = serving_tls(authority)
    tls.set_ciphers("ALL:@SECLEVEL=0")
    tls.minimum_version = tls.maximum_version = version
    return tls


async def a_bmc(port: int, ca: str) -> None:
    question = Question(method="GET", url=f"https://{LOOPBACK}:{port}/", headers={})
    await Https().ask(question, TlsOptions(ca=ca), "n1")


async def an_insecure_bmc(port: int, ca: str) -> None:  # noqa: ARG001 - it trusts anybody
    question = Question(method="GET", url=f"https://{LOOPBACK}:{port}/", headers={})
    await Https().ask(question, TlsOptions(insecure=True), "n1")


async def the_api_server(port: int, ca: str, home: Path) -> None:
    trusted = base64.b64encode(ca.encode()).decode()
    cluster = {"server": f"https://{LOOPBACK}:{port}", "certificate-authority-data": trusted}
    config = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file = home / "config"
    await asyncio.to_thread(file.write_text, json.dumps(config))
    transport = await connect(file, None, {}, SystemClock())
    try:
        async with transport.send(Request(method="GET", path="/version")) as answer:
            await answer.read()
    finally:
        await transport.close()


@pytest.mark.parametrize("who", ["a BMC", "a BMC that any certificate will do for", "the API server"])
@pytest.mark.parametrize("version", [*OLD, *NEW], ids=lambda version: version.name)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_versions_before_tls_1_2_are_refused_by_whoever_we_speak_to(
    tmp_path: Path, who: str, version: ssl.TLSVersion
) -> None:
    authority = Authority(SystemClock().now())
    ca = authority.pem.decode()
    clients: dict[str, Callable[[int], Awaitable[None]]] = {
        "a BMC": lambda port: a_bmc(port, ca),
        "a BMC that any certificate will do for": lambda port: an_insecure_bmc(port, ca),
        "the API server": lambda port: the_api_server(port, ca, tmp_path),
    }
    async with listening(speaking(authority, version)) as listener:
        if version in NEW:
            await clients[who](listener.port)
            assert listener.heard == 1
            return
        with pytest.raises((Trouble, KubeError)):
            await clients[who](listener.port)
        assert listener.heard == 0, "nothing was said before it was refused"


@pytest.mark.parametrize("version", OLD, ids=lambda version: version.name)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_a_client_without_our_limits_would_have_been_let_in(version: ssl.TLSVersion) -> None:
    """Else the test above would prove nothing."""
    authority = Authority(SystemClock().now())
    lax = ssl.create_default_context(cadata=authority.pem.decode())
    lax.set_ciphers("ALL:@SECLEVEL=0")
    lax.minimum_version = version
    async with listening(speaking(authority, version)) as listener:
        _, writer = await asyncio.open_connection(LOOPBACK, listener.port, ssl=lax)
        assert writer.get_extra_info("ssl_object").version() in ("TLSv1", "TLSv1.1")
        writer.close()


def test_the_least_version_is_ours_and_not_left_to_the_machine() -> None:
    ca = Authority(SystemClock().now()).pem.decode()
    made = tls_context("a file", Secret(ca), None, verify=True)
    assert made.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert (made.verify_mode, made.check_hostname) == (ssl.CERT_REQUIRED, True)


async def test_a_certificate_of_another_authority_ends_the_talk_before_anything_secret_is_said() -> None:
    ours, theirs = Authority(SystemClock().now()), Authority(SystemClock().now())
    async with listening(serving_tls(theirs)) as listener:
        with pytest.raises(Trouble, match="certificate is not accepted"):
            await a_bmc(listener.port, ours.pem.decode())
        assert listener.heard == 0


async def test_a_bmc_over_plain_http_is_refused_and_nothing_is_sent() -> None:
    async with listening(None) as listener:
        question = Question(method="GET", url=f"http://{LOOPBACK}:{listener.port}/", headers={"Authorization": "x"})
        with pytest.raises(Trouble, match="not https"):
            await Https().ask(question, TlsOptions(), "n1")
        assert listener.heard == 0


@pytest.mark.parametrize(
    ("url", "is_told"),
    [
        ("http://chat.example.com/hook/very-secret", True),
        ("https://chat.example.com/hook/very-secret", False),
        ("http://127.0.0.1:9000/hook/very-secret", False),
        ("http://[::1]:9000/very-secret", False),
        ("http://127.0.0.1.example.com/very-secret", True),
    ],
)
def test_news_that_is_not_encrypted_is_told_at_the_start_without_its_address(
    tmp_path: Path, url: str, is_told: bool
) -> None:
    file = tmp_path / "url"
    file.write_text(url)
    with capture_logs() as logs:
        announcements_of(Settings(notify_url_file=file, traces_url=url), SystemClock(), Metrics())
    assert [line["what"] for line in logs if line["event"] == "sent without encryption"] == (
        ["notifications", "traces"] if is_told else []
    )
    assert "secret" not in str(logs)

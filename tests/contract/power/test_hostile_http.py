"""Redfish and webhook against servers that are broken or mean: no proof, no long wait, no secret that leaves us."""

import asyncio
import gzip
from collections.abc import Callable

import pytest

from defib.clock import SystemClock
from defib.model.secret import Secret
from defib.power.base import Credentials, Driver, NotReady, PowerState, Refused, Target, Unknown
from defib.power.https import BODY_BYTES_MAX
from defib.power.redfish import Redfish
from defib.power.webhook import Webhook
from tests.contract.power.scripted import Page, Server, always, pages, raw, tcp, without_end

ENOUGH = 10.0
SHORT = 0.5
OVERTIME = 0.7
PASSWORD = "open-sesame-and-more"

Made = Callable[[SystemClock], Driver]
HTTP_DRIVERS = pytest.mark.parametrize("make", [Redfish, Webhook])


def a_target(url: str, **options: str) -> Target:
    login = Credentials(username=Secret("admin"), password=Secret(PASSWORD))
    return Target(node="n1", address=url, credentials=login, options={"insecure": "true"} | options)


async def expect_nothing_proven(driver: Driver, target: Target, within: float = ENOUGH) -> None:
    clock = SystemClock()
    began = clock.monotonic()
    reading, off, check = (
        await driver.state(target, within),
        await driver.off(target, within),
        await driver.check(target, within),
    )
    assert clock.monotonic() - began < 3 * (min(within, 2.0) + OVERTIME)
    assert reading.state is PowerState.UNKNOWN
    assert isinstance(off, Refused | Unknown)
    assert isinstance(check, NotReady)
    assert PASSWORD not in repr((reading, off, check))
    assert "\n" not in reading.detail + off.why + check.why
    assert reading.detail
    assert off.why
    assert check.why


BODIES: dict[str, bytes] = {
    "nothing": b"",
    "null": b"null",
    "a list": b"[]",
    "wrong types": b'{"PowerState": 7, "state": 7, "Systems": 7, "nonce": 7}',
    "no JSON": b"<html>login</html>",
    "no UTF-8": b'{"PowerState": "\xff\xfe", "state": "\xff"}',
    "deep": b"[" * 100_000,
    "deep objects": b'{"Systems":' * 50_000,
    "packed": gzip.compress(b'{"PowerState": "Off"}'),
}


@HTTP_DRIVERS
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_an_answer_without_sense_proves_nothing(make: Made, body: bytes) -> None:
    async with always(raw(Page(200, body))) as server:
        await expect_nothing_proven(make(SystemClock()), a_target(server.url + "/redfish/v1/Systems/1"))


ANSWERS: dict[str, bytes] = {
    "silence": b"",
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "a cut head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "a cut body": b'HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"PowerState": "Off"}',
    "a wrong length": b'HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{"PowerState": "Off"}',
    "a long header": b"HTTP/1.1 200 OK\r\nX-Much: " + b"x" * 1_000_000 + b"\r\n\r\n",
    "nothing with success": b"HTTP/1.1 204 No Content\r\n\r\n",
    "an error page": raw(Page(502, b"<html>" + b"x" * 100_000)),
}


@HTTP_DRIVERS
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_an_answer_that_is_no_http_proves_nothing(make: Made, answer: bytes) -> None:
    async with always(answer) as server:
        await expect_nothing_proven(make(SystemClock()), a_target(server.url + "/redfish/v1/Systems/1"))


@HTTP_DRIVERS
@pytest.mark.parametrize("head", [b"Content-Length: 900000000", b"Transfer-Encoding: chunked"])
async def test_a_body_without_end_is_cut_off_early(make: Made, head: bytes) -> None:
    piece = b"x" * 65_536
    if head.startswith(b"T"):
        piece = b"10000\r\n" + piece + b"\r\n"
    async with without_end(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n", piece) as server:
        reading = await make(SystemClock()).state(a_target(server.url + "/redfish/v1/Systems/1"), ENOUGH)
        assert reading.state is PowerState.UNKNOWN
        assert f"more than {BODY_BYTES_MAX} bytes" in reading.detail
        assert server.sent < 20 * BODY_BYTES_MAX, "what the sockets' buffers took, not what was offered"


@HTTP_DRIVERS
@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nX-", b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n"])
async def test_a_trickle_is_left_at_the_deadline(make: Made, head: bytes) -> None:
    async with without_end(head, b"x", pause=0.05) as server:
        await expect_nothing_proven(make(SystemClock()), a_target(server.url + "/redfish/v1/Systems/1"), SHORT)


@HTTP_DRIVERS
async def test_a_redirect_is_not_followed_with_our_credentials(make: Made) -> None:
    async with always(raw(Page(200, {"PowerState": "Off"}))) as elsewhere:
        away = raw(Page(307, b"", headers=(f"Location: {elsewhere.url}/",)))
        async with always(away) as server:
            await expect_nothing_proven(make(SystemClock()), a_target(server.url + "/redfish/v1/Systems/1"))
        assert elsewhere.requests == []


@HTTP_DRIVERS
async def test_a_server_that_repeats_our_password_does_not_make_us_show_it(make: Made) -> None:
    error = {"error": {"message": f"password {PASSWORD} is wrong"}, "nonce": PASSWORD, "state": PASSWORD}
    for status in (200, 400, 500):
        async with always(raw(Page(status, error))) as server:
            await expect_nothing_proven(make(SystemClock()), a_target(server.url + "/redfish/v1/Systems/1"))


@HTTP_DRIVERS
async def test_plain_http_is_only_spoken_when_that_is_said(make: Made) -> None:
    async with always(raw(Page())) as server:
        target = Target(node="n1", address=server.url + "/x", credentials=a_target("").credentials)
        off = await make(SystemClock()).off(target, ENOUGH)
        assert isinstance(off, Refused)
        assert "not https" in off.why
        assert server.requests == []


@HTTP_DRIVERS
@pytest.mark.parametrize(
    "address", ["", "n1", "ftp://n1/", "https://", "https://[::1", "https://xn--/", "file:///etc/passwd"]
)
async def test_an_address_that_is_none_is_refused(make: Made, address: str) -> None:
    off = await make(SystemClock()).off(a_target(address), ENOUGH)
    assert isinstance(off, Refused)
    assert "its address is no URL" in off.why


@HTTP_DRIVERS
async def test_an_address_cannot_bring_a_header_or_a_second_request(make: Made) -> None:
    async with pages({}) as server:
        await make(SystemClock()).off(a_target(server.url + "/x\r\nX-Ours: no\r\n\r\nGET /y"), ENOUGH)
        assert not [request for request in server.requests if b"X-Ours: no" in request or b"GET /y" in request]


@HTTP_DRIVERS
async def test_a_password_in_an_address_is_refused_and_not_repeated(make: Made) -> None:
    off = await make(SystemClock()).off(a_target("https://root:calvin@127.0.0.1:1/"), ENOUGH)
    assert isinstance(off, Refused)
    assert "belong into the Secret" in off.why
    assert "calvin" not in off.why


@HTTP_DRIVERS
async def test_an_unknown_option_is_refused_by_name(make: Made) -> None:
    off = await make(SystemClock()).off(a_target("https://127.0.0.1:1/", verify="no"), ENOUGH)
    assert isinstance(off, Refused)
    assert "`verify`" in off.why


@HTTP_DRIVERS
async def test_a_name_is_looked_up_without_the_event_loop(make: Made) -> None:
    async with pages({}) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        reading = await make(SystemClock()).state(a_target(url + "/x"), ENOUGH)
        assert reading.detail == "it answered 404"


@HTTP_DRIVERS
async def test_a_command_whose_answer_is_lost_is_unknown_and_not_sent_again(make: Made) -> None:
    system = Page(200, {"PowerState": "On", "Actions": {"#ComputerSystem.Reset": {"target": "/reset"}}})

    async def answer(_server: Server, request: bytes, writer: asyncio.StreamWriter) -> None:
        if request.startswith(b"GET"):
            writer.write(raw(system))
            await writer.drain()

    async with tcp(answer) as server:
        off = await make(SystemClock()).off(a_target(server.url + "/redfish/v1/Systems/1"), ENOUGH)
        assert isinstance(off, Unknown)
        assert len([request for request in server.requests if request.startswith(b"POST")]) == 1

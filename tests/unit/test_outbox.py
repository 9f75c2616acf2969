"""What is told outside the cluster, against a real server that fails in every way it can."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from defib.clock import SystemClock
from defib.outbox import WAITING_MAX, NoAddress, Outbox, Patience, Place
from defib.telemetry.metrics import Metrics
from testbed.certificates import Authority
from tests.contract.api_server.steps import eventually
from tests.unit.receiver import LOOPBACK, Receiver, receiving

SOON = Patience(answer_seconds=5, pause_seconds=0.002, pause_max_seconds=0.005)


class Address:
    def __init__(self, url: str) -> None:
        self.url = url

    async def __call__(self) -> str:
        if not self.url:
            raise NoAddress("nobody says where")
        return self.url


class Running:
    def __init__(self, address: Address, patience: Patience) -> None:
        self.metrics = Metrics()
        place = Place(name="webhook", content_type="text/plain", address=address)
        self.outbox = Outbox(place, SystemClock(), self.metrics, patience)

    def counted(self) -> dict[str, float]:
        lines = self.metrics.render().decode().splitlines()
        rows = [line.split() for line in lines if line.startswith("defib_deliveries_total{")]
        return {labels.partition('result="')[2].partition('"')[0]: float(value) for labels, value in rows}

    async def until_counted(self, **wanted: float) -> None:
        async def is_counted() -> bool:
            return wanted.items() <= self.counted().items()

        await eventually(is_counted, within=10)


@asynccontextmanager
async def sending(address: Address, patience: Patience = SOON) -> AsyncIterator[Running]:
    running = Running(address, patience)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(running.outbox.run())
        try:
            yield running
        finally:
            task.cancel()


async def said(logs: Sequence[object]) -> None:
    """Until it has said something."""

    async def has_said() -> bool:
        return bool(logs)

    await eventually(has_said, within=10)


def bodies(receiver: Receiver) -> list[bytes]:
    return [one.body for one in receiver.received]


async def test_what_is_put_in_is_sent_once_and_in_order() -> None:
    async with receiving() as receiver, sending(Address(receiver.url)) as running:
        for number in range(20):
            running.outbox.put(b"%d" % number)
        await running.until_counted(sent=20, failed=0, dropped=0)
        assert bodies(receiver) == [b"%d" % number for number in range(20)]
        assert receiver.received[0].headers["content-type"] == "text/plain"
        assert receiver.received[0].path == "/services/T0/B0/very-secret"


@pytest.mark.parametrize("code", [408, 425, 429, 500, 502, 503, 504])
async def test_what_may_pass_is_tried_again(code: int) -> None:
    async with receiving(code, code, 200) as receiver, sending(Address(receiver.url)) as running:
        running.outbox.put(b"one")
        running.outbox.put(b"two")
        await running.until_counted(sent=2, failed=0)
        assert bodies(receiver) == [b"one", b"one", b"one", b"two"]


@pytest.mark.parametrize("code", [301, 302, 307, 400, 401, 403, 404, 410, 413])
async def test_a_clear_no_is_final_and_redirects_are_not_followed(code: int) -> None:
    """They would take what is told, and who may tell it, somewhere else."""
    headers = {"Location": "/elsewhere"}
    async with receiving(code, headers=headers) as receiver, sending(Address(receiver.url)) as running:
        running.outbox.put(b"one")
        await running.until_counted(sent=0, failed=1)
        assert bodies(receiver) == [b"one"]


async def test_what_the_other_side_stumbles_over_does_not_hold_up_the_rest_for_ever() -> None:
    codes = (*(500 for _ in range(SOON.attempts_max)), 200)
    async with receiving(*codes) as receiver, sending(Address(receiver.url)) as running:
        running.outbox.put(b"poison")
        running.outbox.put(b"good")
        await running.until_counted(failed=1, sent=1)
        assert bodies(receiver) == [b"poison"] * SOON.attempts_max + [b"good"]


async def test_a_server_that_is_away_for_a_while_misses_nothing() -> None:
    async with receiving() as receiver:
        port = receiver.port
    async with sending(Address(f"http://{LOOPBACK}:{port}/")) as running:
        with capture_logs() as logs:
            running.outbox.put(b"one")
            running.outbox.put(b"two")
            await said(logs)
            async with receiving(port=port) as back:
                await running.until_counted(sent=2, failed=0)
                assert bodies(back) == [b"one", b"two"]
    told = [(line["event"], line.get("why")) for line in logs]
    assert told == [
        ("something cannot be told", "it cannot be reached: Connection refused"),
        ("it can be told again", None),
    ]


async def test_what_is_too_old_is_given_up() -> None:
    patience = Patience(pause_seconds=0.01, pause_max_seconds=0.01, give_up_seconds=0.03)
    async with sending(Address(""), patience) as running:
        running.outbox.put(b"one")
        running.outbox.put(b"two")
        await running.until_counted(sent=0, failed=2)


async def test_a_server_that_never_answers_is_given_up_in_time() -> None:
    patience = Patience(answer_seconds=0.05, pause_seconds=0.01, pause_max_seconds=0.01)
    async with receiving(None, 200) as receiver, sending(Address(receiver.url), patience) as running:
        with capture_logs() as logs:
            running.outbox.put(b"one")
            await running.until_counted(sent=1)
        assert bodies(receiver) == [b"one", b"one"]
        assert logs[0]["why"] == "no answer within 0.05 s"


async def test_it_waits_for_as_long_as_it_is_asked_to() -> None:
    """With the pauses of this test, a second try would come at once."""
    headers = {"Retry-After": "3600"}
    async with receiving(429, 200, headers=headers) as receiver, sending(Address(receiver.url)) as running:
        running.outbox.put(b"one")
        await receiver.until(lambda: len(receiver.received) == 1)
        await asyncio.sleep(0.1)  # a hundred times as long as it would wait by itself
        assert bodies(receiver) == [b"one"]


@pytest.mark.parametrize("said", ["", "soon", "-5", "1e9", "٣", "Wed, 21 Oct 2099 07:28:00 GMT"])
async def test_a_wish_to_wait_that_is_no_number_is_passed_over(said: str) -> None:
    async with (
        receiving(503, 200, headers={"Retry-After": said}) as receiver,
        sending(Address(receiver.url)) as running,
    ):
        running.outbox.put(b"one")
        await running.until_counted(sent=1)
        assert len(receiver.received) == 2


async def test_when_too_much_waits_the_oldest_is_dropped_and_counted_and_nobody_waits() -> None:
    running = Running(Address(""), SOON)
    for number in range(WAITING_MAX + 5):
        running.outbox.put(b"%d" % number)
    assert running.counted() == {"sent": 0, "failed": 0, "dropped": 5}
    assert f'defib_deliveries_waiting{{to="webhook"}} {float(WAITING_MAX)}' in running.metrics.render().decode()


async def test_an_answer_without_end_is_cut_off() -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
        except ConnectionError:
            writer.close()

    server = await asyncio.start_server(flood, LOOPBACK, 0)
    port = server.sockets[0].getsockname()[1]
    async with server, sending(Address(f"http://{LOOPBACK}:{port}/")) as running:
        with capture_logs() as logs:
            running.outbox.put(b"one")
            await said(logs)
    assert logs[0]["why"] == "it answered with more than 1048576 bytes"


@pytest.mark.parametrize("url", ["ftp://x/", "no url", "https://", "https://user:very-secret@127.0.0.1/"])
async def test_an_address_that_makes_no_sense_is_told_without_the_address(url: str) -> None:
    async with sending(Address(url)) as running:
        with capture_logs() as logs:
            running.outbox.put(b"one")
            await said(logs)
    assert logs[0]["log_level"] == "warning"
    assert "very-secret" not in str(logs)


async def test_a_certificate_that_nobody_vouches_for_is_not_accepted(tmp_path: Path) -> None:
    tls = await asyncio.to_thread(_tls, tmp_path)
    with capture_logs() as logs:
        async with receiving(tls=tls) as receiver, sending(Address(receiver.url.replace("http:", "https:"))) as running:
            running.outbox.put(b"one")
            await said(logs)
            assert receiver.received == []
    assert logs[0]["why"].startswith("its certificate is not accepted: ")
    assert "`ca`" not in logs[0]["why"], "that is an option of BMCs"


def _tls(place: Path) -> ssl.SSLContext:
    pair = Authority(SystemClock().now()).server(names=("receiver",), addresses=(LOOPBACK,))
    (place / "certificate").write_bytes(pair.public)
    (place / "key").write_bytes(pair.private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place / "certificate", place / "key")
    return context


async def test_no_log_says_where_things_go() -> None:
    with capture_logs() as logs:
        async with receiving(500, 404, 403, 200) as receiver, sending(Address(receiver.url)) as running:
            for number in range(3):
                running.outbox.put(b"%d" % number)
            await running.until_counted(sent=1, failed=2)
    assert logs
    assert "very-secret" not in str(logs)


async def test_what_is_lost_at_the_end_is_told() -> None:
    with capture_logs() as logs:
        async with receiving(None) as receiver, sending(Address(receiver.url)) as running:
            running.outbox.put(b"one")
            running.outbox.put(b"two")
            await receiver.until(lambda: len(receiver.received) == 1)
    assert [(line["event"], line["lost"]) for line in logs] == [("not told any more, because this replica ends", 2)]

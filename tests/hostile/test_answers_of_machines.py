"""What BMCs, fence agents and webhooks answer is spoilt at random: a machine that is on is never read as off."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, cast

import msgspec
import pytest

from defib.clock import SystemClock
from defib.model.secret import Secret
from defib.power.base import Accepted, Credentials, Driver, Outcome, PowerState, Reading, Target
from defib.power.calls import WHY_MAX
from defib.power.fence_agent import FenceAgent
from defib.power.ipmi import Ipmi
from defib.power.redfish import Redfish
from defib.power.webhook import Webhook
from testbed.bmc.ipmi import ipmi
from tests.contract.bmc.machines import a_machine
from tests.contract.power.scripted import Page, Server, raw, tcp
from tests.contract.power.subjects import credentials
from tests.hostile.spoiling import HOSTILE_TEXTS, spoil

EXAMPLES = int(os.environ.get("HOSTILE_EXAMPLES", "2000"))
LONG = 600
WITHIN = 10.0
SHORT = 2.0
PASSWORD = "open-sesame-and-more"

Object = dict[str, Any]
Peer = tuple[str, int]


def a_target(address: str, **options: str) -> Target:
    login = Credentials(username=Secret("admin"), password=Secret(PASSWORD))
    return Target(node="n1", address=address, credentials=login, options=options)


def expect_words(answer: Reading | Outcome) -> None:
    """Short, in one line, and without what steers a terminal or is secret."""
    words = answer.detail if isinstance(answer, Reading) else getattr(answer, "why", "")
    assert len(words) <= WHY_MAX
    assert words.isprintable() or not words
    assert PASSWORD not in words


REDFISH: dict[str, Object] = {
    "/redfish/v1/": {"Systems": {"@odata.id": "/redfish/v1/Systems"}},
    "/redfish/v1/Systems": {"Members": [{"@odata.id": "/redfish/v1/Systems/1"}]},
    "/redfish/v1/Systems/1": {
        "PowerState": "On",
        "Actions": {
            "#ComputerSystem.Reset": {
                "target": "/redfish/v1/Systems/1/Actions/Reset",
                "ResetType@Redfish.AllowableValues": ["On", "ForceOff"],
            }
        },
    },
    "/redfish/v1/Systems/1/Actions/Reset": {"error": {"message": "no", "@Message.ExtendedInfo": [{"Message": "no"}]}},
}


def page_of(body: Any, chance: Random) -> bytes:
    """Mostly well-formed HTTP, so that what is in it is looked at."""
    whole = raw(Page(chance.choice((200, 200, 200, 204, 400, 404, 500)), msgspec.json.encode(body)))
    return whole if chance.random() < 0.8 else whole[: chance.randrange(len(whole))]


async def ask_all(driver: Driver, target: Target) -> tuple[Reading, Outcome]:
    reading, off = await driver.state(target, WITHIN), await driver.off(target, WITHIN)
    await driver.check(target, WITHIN)
    expect_words(reading)
    expect_words(off)
    return reading, off


@pytest.mark.timeout(LONG)
async def test_a_redfish_service_that_talks_nonsense_proves_nothing() -> None:
    for seed in range(EXAMPLES // 25):
        chance = Random(seed)
        book: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(REDFISH))
        spoilt = chance.choice(sorted(book))
        done = spoil(book[spoilt], chance)

        async def answer(
            _: Server, request: bytes, writer: asyncio.StreamWriter, book: Object = book, chance: Random = chance
        ) -> None:
            path = request.split(b" ")[1].decode()
            writer.write(page_of(book[path], chance) if path in book else raw(Page(404)))
            await writer.drain()

        async with tcp(answer) as server:
            reading, _ = await ask_all(Redfish(SystemClock()), a_target(server.url, insecure="true"))
        assert reading.state is not PowerState.OFF, f"seed {seed}: {done}"


@pytest.mark.timeout(LONG)
async def test_a_webhook_that_talks_nonsense_proves_nothing() -> None:
    for seed in range(EXAMPLES // 25):
        chance = Random(seed)
        done: list[str] = []

        async def answer(
            _: Server, request: bytes, writer: asyncio.StreamWriter, chance: Random = chance, done: list[str] = done
        ) -> None:
            nonce = msgspec.json.decode(request.split(b"\r\n\r\n", 1)[1])["nonce"]
            body = {"nonce": nonce, "state": "on", "outcome": "refused", "why": "no", "detail": "fine"}
            done.extend(spoil(body, chance))
            writer.write(page_of(body, chance))
            await writer.drain()

        async with tcp(answer) as server:
            reading, off = await ask_all(Webhook(SystemClock()), a_target(server.url, insecure="true"))
        assert reading.state is not PowerState.OFF, f"seed {seed}: {done}"
        assert off != Accepted(), f"seed {seed}: {done}"


@pytest.mark.timeout(LONG)
async def test_a_fence_agent_that_prints_nonsense_proves_nothing(tmp_path: Path) -> None:
    agent = tmp_path / "fence_odd"
    for seed in range(EXAMPLES // 100):
        chance = Random(seed)
        said = b"".join(
            chance.choice((b"Status: ", b"OFF", b"ON", b"\n", b"Status: OFF ", b"\x1b[2J", b"ERROR: ", b"\r", text))
            for text in (one.encode(errors="replace") for one in chance.choices(HOSTILE_TEXTS, k=12))
        )
        code = chance.choice((0, 1, 2, 3, 139))
        (tmp_path / "said").write_bytes(b"Status: ON\n" + said)  # so whatever else it says, it contradicts itself
        agent.write_text(f"#!/bin/sh\ncat > {os.devnull}\ncat {tmp_path}/said\nexit {code}\n")
        agent.chmod(0o755)
        driver = FenceAgent(SystemClock(), directory=tmp_path)
        reading, off = await ask_all(driver, a_target("10.0.0.1", agent=agent.name))
        assert reading.state is not PowerState.OFF, f"seed {seed}: {code} {said!r}"
        assert (off == Accepted()) == (code == 0)


class Spoiler(asyncio.DatagramProtocol):
    """Between a client and its BMC, which it lets speak, though never quite in its own words."""

    def __init__(self, bmc: Peer, chance: Random) -> None:
        self._bmc, self._chance, self._client = bmc, chance, cast("Peer | None", None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, datagram: bytes, peer: Any) -> None:
        if peer != self._bmc:
            self._client = peer
            self._transport.sendto(datagram, self._bmc)
        elif self._client is not None:
            for said in self._chance.choice(SPEECHES)(datagram, self._chance):
                self._transport.sendto(said, self._client)


def _flipped(datagram: bytes, chance: Random) -> list[bytes]:
    spoilt = bytearray(datagram)
    spoilt[chance.randrange(4, len(spoilt))] ^= 1 << chance.randrange(8)
    return [bytes(spoilt), datagram]


SPEECHES: tuple[Callable[[bytes, Random], list[bytes]], ...] = (
    lambda datagram, _: [datagram],
    lambda datagram, _: [datagram, datagram],
    _flipped,
    lambda datagram, chance: [chance.randbytes(chance.randrange(1, 400)), datagram],
    lambda datagram, chance: [
        datagram[:4] + chance.randbytes(60),
        datagram[: chance.randrange(len(datagram))],
        datagram,
    ],
)


@pytest.mark.timeout(LONG)
async def test_a_network_that_adds_to_what_an_ipmi_bmc_says_proves_nothing() -> None:
    machine = a_machine()
    loop = asyncio.get_running_loop()
    async with ipmi([machine]) as addresses:
        bmc = (addresses["n1"].host, addresses["n1"].port)
        for seed in range(EXAMPLES // 200):
            transport, _ = await loop.create_datagram_endpoint(
                lambda seed=seed: Spoiler(bmc, Random(seed)),  # type: ignore[misc]
                local_addr=("127.0.0.1", 0),
            )
            address = "{}:{}".format(*transport.get_extra_info("sockname")[:2])
            target = Target(node="n1", address=address, credentials=credentials(machine))
            reading = await Ipmi(SystemClock()).state(target, SHORT)
            transport.close()
            expect_words(reading)
            assert reading.state is not PowerState.OFF, f"seed {seed}"
    assert machine.is_on

"""Agents ask each other over TLS: only those of one authority, only what was asked now, and not more often than is good."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from defib.agent.answering import (
    DOUBT_SECONDS,
    LOOKS_BURST,
    SHARED_SECONDS,
    Askers,
    CannotAnswer,
    Desk,
    Found,
    Relay,
    answering,
)
from defib.agent.asking import AT_ONCE_MAX, Address, Asking, ask_all, at_once
from defib.agent.certificates import NAME, BadCertificates, Certificates
from defib.agent.exchange import connect
from defib.agent.words import Told, Word, says
from defib.clock import SystemClock
from defib.decide.self_fence.verdict import Says
from defib.model.self_fence import Order, Pace
from tests.agent_certificates import AgentAuthority
from tests.contract.api_server.steps import eventually

CLOCK = SystemClock()
PACE = Pace(interval_seconds=1, request_seconds=1, failures=3, peer_seconds=5)
ORDER = Order(remediation="uid", boot_id="boot-1")
HOST = "127.0.0.1"


class HandClock(SystemClock):
    """A clock that stands until it is moved."""

    at = 100.0

    def monotonic(self) -> float:
        return self.at


@pytest.fixture
def authority() -> AgentAuthority:
    return AgentAuthority()


@pytest.fixture
def mine(authority: AgentAuthority, tmp_path: Path) -> Path:
    return authority.write(tmp_path / "mine")


@asynccontextmanager
async def a_peer(found: Found, folder: Path, *, look_seconds: float = 60.0) -> AsyncIterator[Address]:
    """An agent that finds this about everybody."""

    async def look(_node: str) -> Found:
        return found

    desk = Desk(Relay(look, CLOCK), CLOCK)
    async with answering(desk, HOST, 0, Certificates(folder), look_seconds=look_seconds) as port:
        yield Address("n2", HOST, port)


async def asked(address: Address, folder: Path, boot_id: str = "boot-1") -> Says | None:
    """What it says to n1."""
    asking = Asking("n1", boot_id, PACE, Certificates(folder), CLOCK)
    return (await ask_all(asking, [address])).words.get(address.node)


@pytest.mark.parametrize(
    ("found", "boot_id", "said"),
    [
        (Found(Word.REACHED), "boot-1", Says.NO_ORDER),
        (Found(Word.REACHED, ORDER), "boot-1", Says.ORDER),
        (Found(Word.REACHED, ORDER), "boot-2", Says.NO_ORDER),  # the order is for a boot that is over
        (Found(Word.CUT_OFF), "boot-1", Says.CUT_OFF),
        (Found(Word.UNKNOWN), "boot-1", None),
    ],
)
async def test_a_peer_tells_what_it_found(found: Found, boot_id: str, said: Says | None, mine: Path) -> None:
    async with a_peer(found, mine) as address:
        assert await asked(address, mine, boot_id) == said


async def test_whoever_has_no_certificate_of_the_agents_authority_is_not_answered(mine: Path, tmp_path: Path) -> None:
    foreign = AgentAuthority().write(tmp_path / "foreign")
    shutil.copy(mine / "ca.crt", foreign / "ca.crt")  # it believes us, but we do not believe it
    async with a_peer(Found(Word.REACHED), mine) as address:
        assert await asked(address, foreign) is None
        assert await asked(address, mine) is Says.NO_ORDER


async def test_a_stranger_that_answers_is_not_believed(authority: AgentAuthority, mine: Path, tmp_path: Path) -> None:
    foreign = AgentAuthority().write(tmp_path / "foreign")
    shutil.copy(mine / "ca.crt", foreign / "ca.crt")
    other = authority.write(tmp_path / "other", name="somebody-else")  # of our authority, but not an agent
    for folder in (foreign, other):
        async with a_peer(Found(Word.REACHED), folder) as address:
            assert await asked(address, mine) is None


async def test_silence_counts_as_no_word_and_does_not_hold_up_the_others(mine: Path) -> None:
    async def mute(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    held: list[asyncio.StreamWriter] = []
    deaf = await asyncio.start_server(mute, HOST, 0)
    silent = Address("n3", HOST, deaf.sockets[0].getsockname()[1])
    async with a_peer(Found(Word.REACHED), mine) as address:
        asking = Asking("n1", "boot-1", PACE, Certificates(mine), CLOCK)
        began = CLOCK.monotonic()
        found = await ask_all(asking, [silent, address, Address("n4", HOST, 1)])
    assert found.words == {"n2": Says.NO_ORDER}
    assert found.began_at <= began + 1
    for writer in held:
        writer.transport.abort()
    deaf.close()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ({}, Says.NO_ORDER),
        ({"nonce": "another"}, None),
        ({"node": "n9"}, None),
        ({"ageSeconds": 11.0}, None),
        ({"ageSeconds": -1.0}, None),
        ({"ageSeconds": None}, None),
    ],
)
async def test_an_answer_to_another_question_or_of_long_ago_or_of_no_known_time_is_none(
    spoil: dict[str, Any], said: Says | None, mine: Path
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        nonce = head.partition("nonce=")[2].partition(" ")[0]
        good = msgspec.to_builtins(Told(node="n1", nonce=nonce, word=Word.REACHED, age_seconds=0.0))
        told = {name: value for name, value in (good | spoil).items() if value is not None}
        body = msgspec.json.encode(told)
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, HOST, 0, ssl=Certificates(mine).current().answering)
    assert await asked(Address("n2", HOST, server.sockets[0].getsockname()[1]), mine) is said
    server.close()


async def test_an_answer_says_how_old_it_is_and_counts_from_that_long_before_it_was_asked_for(mine: Path) -> None:
    async def look(_node: str) -> Found:
        return Found(Word.REACHED)

    theirs, ours = HandClock(), HandClock()
    ours.at = 5000.0  # clocks of two machines have nothing in common but their pace
    relay = Relay(look, theirs)
    await relay.ask("n1")  # for somebody else who asked just before
    theirs.at += 1.5
    async with answering(Desk(relay, theirs), HOST, 0, Certificates(mine)) as port:
        asking = Asking("n1", "boot-1", PACE, Certificates(mine), ours)
        found = await ask_all(asking, [Address("n2", HOST, port)])
    assert found.words == {"n2": Says.NO_ORDER}
    assert found.began_at == 5000.0 - 1.5


async def test_a_round_is_as_old_as_the_oldest_answer_in_it(mine: Path) -> None:
    async def look(_node: str) -> Found:
        return Found(Word.REACHED)

    async with AsyncExitStack() as peers:
        addresses = []
        for number, age in enumerate((0.5, 1.5, 0.0)):
            clock = HandClock()
            relay = Relay(look, clock)
            await relay.ask("n1")
            clock.at += age
            port = await peers.enter_async_context(answering(Desk(relay, clock), HOST, 0, Certificates(mine)))
            addresses.append(Address(f"n{2 + number}", HOST, port))
        found = await ask_all(Asking("n1", "boot-1", PACE, Certificates(mine), HandClock()), addresses)
    assert len(found.words) == 3
    assert found.began_at == 100.0 - 1.5


async def test_new_certificates_are_used_without_a_restart(mine: Path, tmp_path: Path) -> None:
    theirs = shutil.copytree(mine, tmp_path / "theirs")
    async with a_peer(Found(Word.REACHED), theirs, look_seconds=0.05) as address:
        assert await asked(address, mine) is Says.NO_ORDER
        AgentAuthority().write(theirs)
        shutil.copytree(theirs, mine, dirs_exist_ok=True)

        async def is_answered() -> bool:
            return await asked(address, mine) is Says.NO_ORDER

        await eventually(is_answered, within=10)


def test_certificates_that_are_half_replaced_leave_the_old_ones_in_use(mine: Path) -> None:
    certificates = Certificates(mine)
    before = certificates.current()
    (mine / "tls.key").write_text("not whole yet")
    assert certificates.current() is before


def test_certificates_that_cannot_be_used_are_told_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BadCertificates, match=r"must hold ca.crt, tls.crt and tls.key"):
        Certificates(tmp_path).current()


async def test_an_address_that_is_not_ours_is_told_with_what_to_do(mine: Path) -> None:
    async def look(_node: str) -> Found:
        return Found(Word.REACHED)

    with pytest.raises(CannotAnswer, match=r"choose another with --address"):
        async with answering(Desk(Relay(look, CLOCK), CLOCK), "192.0.2.1", 9640, Certificates(mine)):
            pass


@pytest.mark.parametrize(
    "head",
    [
        "POST /about/n1?nonce=7 HTTP/1.1",
        "GET /about/?nonce=7 HTTP/1.1",
        "GET /about/n1 HTTP/1.1",
        f"GET /about/n1?nonce={'7' * 65} HTTP/1.1",
        "GET /about/n1/n2?nonce=7 HTTP/1.1",
        "GET /metrics HTTP/1.1",
        "GET //[x?nonce=7 HTTP/1.1",
        "nonsense",
    ],
)
async def test_any_other_question_finds_nothing(head: str, mine: Path) -> None:
    async with a_peer(Found(Word.REACHED, ORDER), mine) as address:
        line = await connect(HOST, address.port, Certificates(mine).current().asking, NAME, 5)
        answer = await line.ask(f"{head}\r\n\r\n")
        line.drop()
    assert (answer.status, answer.body) == (404, b"")


async def test_one_look_answers_all_who_ask_within_a_moment() -> None:
    looks: list[str] = []

    async def look(node: str) -> Found:
        looks.append(node)
        await asyncio.sleep(0)
        return Found(Word.REACHED)

    clock = HandClock()
    relay = Relay(look, clock)
    async with asyncio.TaskGroup() as group:
        asks = [group.create_task(relay.ask("n1")) for _ in range(5)]
    assert {ask.result() for ask in asks} == {(Found(Word.REACHED), 100.0)}
    clock.at += SHARED_SECONDS - 0.1
    await relay.ask("n1")
    assert looks == ["n1"]
    clock.at += 0.1
    assert await relay.ask("n1") == (Found(Word.REACHED), 100 + SHARED_SECONDS)
    assert looks == ["n1", "n1"]


async def test_peers_cannot_make_us_flood_the_api_server() -> None:
    async def look(_node: str) -> Found:
        return Found(Word.REACHED)

    clock = HandClock()
    relay = Relay(look, clock)
    words = [(await relay.ask(f"n{number}"))[0].word for number in range(int(LOOKS_BURST) + 5)]
    assert words == [Word.REACHED] * int(LOOKS_BURST) + [Word.UNKNOWN] * 5
    clock.at += 0.5
    assert (await relay.ask("one more"))[0].word is Word.REACHED


async def test_whoever_finds_no_api_server_says_so_to_all_who_ask_and_looks_only_now_and_then() -> None:
    looks: list[str] = []

    async def look(node: str) -> Found:
        looks.append(node)
        return answer

    answer, clock = Found(Word.CUT_OFF), HandClock()
    relay = Relay(look, clock)

    async def words() -> set[Word]:
        return {(await relay.ask(f"n{number}"))[0].word for number in range(10 * int(LOOKS_BURST))}

    assert await words() == {Word.CUT_OFF}
    assert len(looks) == 1
    clock.at += DOUBT_SECONDS
    assert await words() == {Word.CUT_OFF}
    assert len(looks) == 2
    clock.at += DOUBT_SECONDS
    answer = Found(Word.REACHED)
    assert await words() == {Word.REACHED, Word.UNKNOWN}, "the first who asks finds it, and is told no other word"


async def test_while_it_is_looked_again_all_others_are_told_what_was_found_last() -> None:
    """A look may take seconds, in which hundreds ask: when the API server is down for all, all lives hang on that."""
    held: list[asyncio.Future[Found]] = []

    async def look(_node: str) -> Found:
        held.append(asyncio.get_running_loop().create_future())
        return await held[-1]

    clock = HandClock()
    relay = Relay(look, clock)
    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(relay.ask("n1"))
            await asyncio.sleep(0)
            held[-1].set_result(Found(Word.CUT_OFF))
            await asyncio.sleep(0)
            clock.at += DOUBT_SECONDS
        asked = group.create_task(relay.ask("n1"))
        await asyncio.sleep(0)
        assert not asked.done()
        assert (await relay.ask("n2"))[0].word is Word.CUT_OFF
        held[-1].set_result(Found(Word.REACHED))
    assert asked.result()[0].word is Word.REACHED


async def test_what_was_found_long_ago_is_told_to_nobody() -> None:
    async def look(node: str) -> Found:
        return Found(Word.CUT_OFF if node == "n1" else Word.REACHED)

    clock = HandClock()
    relay = Relay(look, clock)
    assert (await relay.ask("n1"))[0].word is Word.CUT_OFF
    clock.at += 60
    assert (await relay.ask("n2"))[0].word is Word.REACHED


async def test_we_are_steady_since_we_last_told_anybody_that_we_are_cut_off() -> None:
    found = [Word.REACHED, Word.UNKNOWN, Word.CUT_OFF, Word.REACHED]

    async def look(_node: str) -> Found:
        return Found(found.pop(0))

    clock = HandClock()
    relay = Relay(look, clock)
    for since in (100, 100, 130, 130):
        clock.at += 10
        await relay.ask("n1")
        assert relay.steady_since == since
    assert not found


def test_nobody_may_ask_all_the_time() -> None:
    clock = HandClock()
    askers = Askers(clock)
    assert askers.may_ask("10.0.0.1")
    assert not askers.may_ask("10.0.0.1")
    assert askers.may_ask("10.0.0.2")
    clock.at += 0.25
    assert askers.may_ask("10.0.0.1")


def test_all_peers_are_asked_within_the_time_for_them() -> None:
    pace = Pace(interval_seconds=10, request_seconds=3, failures=2, peer_seconds=40)  # five batches of 4 s, twice
    assert at_once(5, pace) == 16
    assert at_once(1000, pace) == 200
    assert at_once(10_000, pace) == AT_ONCE_MAX


def test_an_order_is_only_for_the_boot_that_it_names() -> None:
    told = Told(node="n1", nonce="1", word=Word.REACHED, age_seconds=0.0, order=ORDER)
    assert (says(told, "boot-1"), says(told, "boot-2")) == (Says.ORDER, Says.NO_ORDER)

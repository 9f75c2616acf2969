"""IPMI BMCs on loopback, a UDP port for each machine, RMCP+ with cipher suite 3 (what `ipmitool -I lanplus` speaks).

    async with ipmi([machine]) as addresses:
        ...                                # addresses["n1"].host, .port; log in as machine.bmc.username, .password

pyghmi's server side gives the answers, without its own sockets: those live in one thread for the whole process, cannot
be closed, and would be shared with a pyghmi client in the same process. Here every datagram comes from and goes to the
event loop that owns the machine, so nothing needs a lock and all ends with the context. OpenIPMI's ipmi_sim was the
other choice; it needs a process and a program for each change of power, and its faults would have to be faked outside.
"""

import asyncio
import struct
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, ClassVar, cast

import msgspec
from pyghmi.ipmi.bmc import Bmc as PyghmiBmc  # type: ignore[import-untyped]
from pyghmi.ipmi.private.constants import payload_types  # type: ignore[import-untyped]
from pyghmi.ipmi.private.serversession import ServerSession  # type: ignore[import-untyped]
from pyghmi.ipmi.private.session import Session  # type: ignore[import-untyped]

from defib.hollow.machine import Bmc, Command, Fails, Garbage, Hangs, Machine, Slow, Unreachable, WrongPassword
from testbed.bmc.event_log import record_of

Peer = tuple[str, int]

_NONSENSE = b"\x06\x00\xff\x07\x06\xc0" + b"\xde\xad\xbe\xef" * 8
_SESSIONS_MAX = 64  # a client that goes without a word leaves its session behind
_OPEN_SESSION = 16
_UNSPECIFIED_ERROR = 0xFF
_UNAUTHORIZED_NAME = 0x0D
_NO_CIPHER_SUITE = 0x11
_CIPHER_SUITE_3 = (1, 1, 1)  # HMAC-SHA1, HMAC-SHA1-96, AES-CBC-128
_CHASSIS = 0
_STORAGE = 0x0A
_GET_SEL_ENTRY = 0x43
_GET_SEL_TIME = 0x48
_NOT_THERE = 0xCB
_NO_SUCH_COMMAND = 0xC1
_LAST = 0xFFFF
_ADDRESSING = ("seqlun", "rqlun", "clientaddr", "clientnetfn", "clientcommand")


class IpmiAddress(msgspec.Struct, frozen=True):
    host: str
    port: int


@asynccontextmanager
async def ipmi(machines: Iterable[Machine]) -> AsyncIterator[Mapping[str, IpmiAddress]]:
    """A BMC for each machine for as long as the context lasts; by the machine's name."""
    async with AsyncExitStack() as stack:
        yield {machine.name: await stack.enter_async_context(_serving(machine.bmc)) for machine in machines}


@asynccontextmanager
async def _serving(bmc: Bmc) -> AsyncIterator[IpmiAddress]:
    loop = asyncio.get_running_loop()
    transport, front = await loop.create_datagram_endpoint(lambda: _Front(bmc), local_addr=("127.0.0.1", 0))
    try:
        yield IpmiAddress(*transport.get_extra_info("sockname")[:2])
    finally:
        front.close()
        transport.close()


class _Front(asyncio.DatagramProtocol):
    """Brings each datagram to the session it belongs to."""

    def __init__(self, bmc: Bmc) -> None:
        self._bmc = bmc
        self._sessions: dict[Peer, _Conversation] = {}
        self._waiting: set[asyncio.TimerHandle] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)
        self._core = _Core(self._bmc, _Wire(self._transport), self._later)

    def close(self) -> None:
        for timer in self._waiting:
            timer.cancel()

    def datagram_received(self, datagram: bytes, peer: Peer) -> None:
        if self._bmc.fault(Unreachable):
            return
        if self._bmc.fault(Garbage):
            self._transport.sendto(_NONSENSE, peer)
            return
        try:
            self._bring(bytearray(datagram), peer)
        except (IndexError, KeyError, struct.error, ValueError):  # no IPMI, or cut short: a real BMC stays silent too
            return

    def _bring(self, datagram: bytearray, peer: Peer) -> None:
        if datagram[0] != 6 or datagram[2:4] != b"\xff\x07":
            return
        is_v2 = datagram[4] == 6
        if is_v2 and datagram[5] == _OPEN_SESSION:
            self._open(datagram, peer)
        elif is_v2 and peer in self._sessions and datagram[5] != 0:
            self._sessions[peer]._handle_ipmi_packet(datagram, sockaddr=peer)  # noqa: SLF001 - pyghmi's own entry point has a socket in it
        else:
            self._core.sessionless_data(datagram, peer)

    def _open(self, datagram: bytearray, peer: Peer) -> None:
        while len(self._sessions) >= _SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        core = self._core
        self._sessions[peer] = _Conversation(
            core.authdata, None, peer, core.serversocket, datagram[16:], core.uuid, bmc=core
        )
        # That also put it on pyghmi's list for its own sockets, which clients in this process share.
        Session.bmc_handlers.pop(peer, None)

    def _later(self, seconds: float, answer: Callable[[], None]) -> None:
        def due() -> None:
            self._waiting.discard(timer)
            answer()

        timer = asyncio.get_running_loop().call_later(seconds, due)
        self._waiting.add(timer)


class _Wire:
    """What pyghmi takes for a socket."""

    def __init__(self, transport: asyncio.DatagramTransport) -> None:
        self._transport = transport

    def setblocking(self, _flag: int) -> None:
        """It never blocks."""

    def sendto(self, datagram: bytes, peer: Peer) -> None:
        self._transport.sendto(bytes(datagram), peer)


class _Conversation(ServerSession):  # type: ignore[misc]
    """One client's session. Where pyghmi would say yes or nothing at all, a real BMC says no: so does this one."""

    def create_open_session_response(self, request: bytearray) -> bytearray:
        """Clients propose what they like best first, and go on to the next when they hear no."""
        if (request[12], request[20], request[28]) == _CIPHER_SUITE_3:
            accepted: bytearray = super().create_open_session_response(request)
            return accepted
        return bytearray((request[0], _NO_CIPHER_SUITE, 0, 0)) + request[4:8]

    def _got_rakp1(self, data: bytearray) -> None:
        if self.authdata.get(bytes(data[28:]).decode(errors="replace")):
            super()._got_rakp1(data)
            return
        refusal = bytearray((data[0], _UNAUTHORIZED_NAME, 0, 0)) + self.clientsessionid
        self.send_payload(refusal, payload_types["rakp2"], retry=False)


class _Passwords:
    """Asked at each login, so that a fault counts from the next one on."""

    def __init__(self, bmc: Bmc) -> None:
        self._bmc = bmc

    def get(self, username: str) -> str | None:
        if username != self._bmc.username:
            return None
        return uuid.uuid4().hex if self._bmc.fault(WrongPassword) else self._bmc.password


class _Core(PyghmiBmc):  # type: ignore[misc]
    """pyghmi's BMC without its socket: what it would set up besides that one stands here."""

    revision = deviceid = additionaldevices = mfgid = prodid = firmwareminor = 0
    firmwaremajor = 1
    ipmiversion = 2
    port = 0
    kg = None
    authcap: ClassVar = bytes((0, 1, 0b10000000, 0b00000100, 0b00000010, 0, 0, 0, 0))  # channel 1, IPMI 2 only, users

    def __init__(self, bmc: Bmc, wire: _Wire, later: Callable[[float, Callable[[], None]], None]) -> None:
        self._bmc = bmc
        self._later = later
        self.serversocket = wire
        self.authdata = _Passwords(bmc)
        self.uuid = uuid.uuid5(uuid.NAMESPACE_OID, bmc.machine.name)

    def handle_raw_request(self, request: dict[str, Any], session: Any) -> None:
        """The handshake is always quick; what is slow, hangs or fails are the commands about the machine."""
        if request["netfn"] not in (_CHASSIS, _STORAGE):
            super().handle_raw_request(request, session)
        elif self._bmc.fault(Hangs):
            return
        elif self._bmc.fault(Fails):
            session.send_ipmi_response(code=_UNSPECIFIED_ERROR)
        elif slow := self._bmc.fault(Slow):
            self._answer_later(slow.seconds, request, session)
        else:
            self._answer(request, session)

    def _answer(self, request: dict[str, Any], session: Any) -> None:
        if request["netfn"] == _STORAGE:
            code, data = self._of_log(request["command"], bytes(request["data"]))
            session.send_ipmi_response(code=code, data=list(data))
        else:
            super().handle_raw_request(request, session)

    def _of_log(self, command: int, content: bytes) -> tuple[int, bytes]:
        """Records are numbered from one."""
        if command == _GET_SEL_TIME and self._bmc.tells_clock:
            return 0, int(self._bmc.now.timestamp()).to_bytes(4, "little")
        if command != _GET_SEL_ENTRY:
            return _NO_SUCH_COMMAND, b""
        asked, count = int.from_bytes(content[2:4], "little"), len(self._bmc.log)
        number = count if asked == _LAST else asked
        if not 0 < number <= count:
            return _NOT_THERE, b""
        following = number + 1 if number < count else _LAST
        return 0, following.to_bytes(2, "little") + record_of(number, self._bmc.log[number - 1])

    def _answer_later(self, seconds: float, request: dict[str, Any], session: Any) -> None:
        """A session knows only its newest request, and by then that may be another one."""
        asked = {name: getattr(session, name) for name in _ADDRESSING}

        def answer() -> None:
            for name, value in asked.items():
                setattr(session, name, value)
            self._answer(request, session)

        self._later(seconds, answer)

    def get_system_guid(self) -> uuid.UUID:
        return self.uuid

    def get_power_state(self) -> str:
        return "on" if self._bmc.shows_on else "off"

    def power_off(self) -> None:
        self._bmc.take(Command.OFF)

    def power_on(self) -> None:
        self._bmc.take(Command.ON)

    def power_cycle(self) -> None:
        self._bmc.take(Command.RESET)

    def power_reset(self) -> None:
        self._bmc.take(Command.RESET)

    def power_shutdown(self) -> None:
        self._bmc.take(Command.SOFT_OFF)

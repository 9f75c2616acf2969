"""IPMI over LAN (RMCP+), by pyghmi, for machines without Redfish. The address is `host` or `host:port`.

pyghmi has two kinds of sessions. The usual one shares sockets, a thread and its mistakes among all machines; the simple
one has a socket of its own and waits for ever (docs/decisions/0010). Here is the simple one with every wait replaced: by
one that ends at our deadline, repeats a datagram that may be lost, and drops what is not IPMI.
"""

import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar
from urllib.parse import urlsplit

from pyghmi.exceptions import IpmiException  # type: ignore[import-untyped]
from pyghmi.ipmi.private.simplesession import Session  # type: ignore[import-untyped]

from defib.clock import Clock
from defib.power.base import Outcome, PowerState, Readiness, Reading, Target
from defib.power.calls import Ask, Calls, Denied, Doubtful, Seen, T
from defib.power.event_log import NEWEST, Entry, EventLog
from defib.power.sel import LAST, RECORD_BYTES, entry_of, number_of
from defib.power.threads import Threads

PORT = 623
DATAGRAM_BYTES_MAX = 3000
REPEAT_SECONDS = 1.0
MARGIN_SECONDS = 0.1
RMCP_VERSION = 6
RMCP_IPMI = b"\xff\x07"
CHASSIS = 0
GET_STATUS = 1
CONTROL = 2
POWER_DOWN = 0
POWER_UP = 1
IS_ON = 0b1
STORAGE = 0x0A
GET_SEL_ENTRY = 0x43
GET_SEL_TIME = 0x48

# Completion codes that leave it open: it took too long inside, it has no answer, it does not say what happened.
_NO_ANSWER = frozenset({0xC3, 0xCE, 0xFF})
# What taking a hostile or broken datagram apart can raise.
_NONSENSE = (IndexError, KeyError, TypeError, ValueError, struct.error)


class Ipmi:
    can_read_state: ClassVar[bool] = True

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._calls = Calls(clock)
        self._threads = Threads()

    @property
    def left_behind(self) -> int:
        """Threads that hang though nobody waits for them any more."""
        return self._threads.left_behind

    async def state(self, target: Target, within_seconds: float) -> Reading:
        return await self._calls.read(target, within_seconds, self._until(within_seconds, self._read))

    async def off(self, target: Target, within_seconds: float) -> Outcome:
        return await self._control(target, within_seconds, POWER_DOWN)

    async def on(self, target: Target, within_seconds: float) -> Outcome:
        return await self._control(target, within_seconds, POWER_UP)

    async def check(self, target: Target, within_seconds: float) -> Readiness:
        return await self._calls.check(target, within_seconds, self._until(within_seconds, self._read))

    async def _control(self, target: Target, within_seconds: float, what: int) -> Outcome:
        return await self._calls.command(
            target, within_seconds, self._until(within_seconds, partial(self._command, what))
        )

    def _until(self, within_seconds: float, ask: Callable[[float, Target], Awaitable[T]]) -> Ask[T]:
        """A little less than is allowed: a thread that ends in time can say more than that none was left."""
        margin = min(MARGIN_SECONDS, within_seconds / 10)
        return partial(ask, self._clock.monotonic() + within_seconds - margin)

    async def _read(self, until: float, target: Target) -> Seen:
        return await self._threads.run(target.address, partial(self._read_now, until, target))

    async def _command(self, what: int, until: float, target: Target) -> None:
        await self._threads.run(target.address, partial(self._command_now, what, until, target))

    def _read_now(self, until: float, target: Target) -> Seen:
        with closing(_Session(target, until, self._clock)) as session:
            status = session.ask(GET_STATUS)
        if not status:
            raise Doubtful("its answer is cut short")
        return Seen(PowerState.ON if status[0] & IS_ON else PowerState.OFF)

    async def log(self, target: Target, within_seconds: float) -> EventLog:
        return await self._calls.log(target, within_seconds, self._until(within_seconds, self._read_log))

    async def _read_log(self, until: float, target: Target) -> EventLog:
        return await self._threads.run(target.address, partial(self._log_now, until, target))

    def _log_now(self, until: float, target: Target) -> EventLog:
        with closing(_Session(target, until, self._clock)) as session:
            ours = self._clock.now()
            seconds = int.from_bytes(session.ask(GET_SEL_TIME, netfn=STORAGE)[:4], "little")
            entries = tuple(session.newest_entries())
        return EventLog(entries=entries, theirs=datetime.fromtimestamp(seconds, UTC), ours=ours)

    def _command_now(self, what: int, until: float, target: Target) -> None:
        with closing(_Session(target, until, self._clock)) as session:
            session.ask(CONTROL, what)


class _Session(Session):  # type: ignore[misc]
    """Logs in when it is made. All its waiting is in `wait_for_rsp`, which pyghmi calls until it has what it waits for."""

    def __init__(self, target: Target, until: float, clock: Clock) -> None:
        self._until = until
        self._clock = clock
        self._heard = False
        host, port = _host_and_port(target.address)
        login = target.credentials
        try:
            super().__init__(host, login.username.reveal(), login.password.reveal(), port=port)
        except IpmiException as error:
            self._close_socket()
            raise Denied(_login_trouble(str(error))) from None
        except Doubtful as trouble:
            self._close_socket()
            # Nothing but a login was tried.
            raise Denied("no login: its answers make no sense" if self._heard else str(trouble)) from None
        except (OSError, UnicodeError) as error:
            self._close_socket()
            raise Denied(f"it cannot be reached: {error}") from None

    def newest_entries(self) -> Iterator[Entry]:
        """From the last one back, as long as each has the number before."""
        number = LAST
        for _ in range(NEWEST):
            try:
                answer = self.ask(GET_SEL_ENTRY, 0, 0, *number.to_bytes(2, "little"), 0, 0xFF, netfn=STORAGE)
            except Denied:
                return  # it is not there, as in an empty log: the end
            record = answer[2 : 2 + RECORD_BYTES]
            if entry := entry_of(record):
                yield entry
            number = number_of(record) - 1
            if number <= 0:
                return

    def ask(self, command: int, *content: int, netfn: int = CHASSIS) -> bytes:
        """What it answers. Raises Denied when it says no."""
        try:
            answer = self.raw_command(netfn=netfn, command=command, data=content)
        except (IpmiException, OSError) as error:
            raise Doubtful(f"the session broke off: {error}") from None
        if code := answer["code"]:
            said = f"it answered {code:#04x}: {answer.get('error', '')}"
            raise Doubtful(said) if code in _NO_ANSWER else Denied(said)
        return bytes(answer["data"])

    def close(self) -> None:
        """A BMC has few sessions to give: this one is given back, without waiting for a receipt."""
        self.incommand = False  # it would wait for the answer to what has failed
        try:
            self.logout()
        except (IpmiException, OSError):
            return
        finally:
            Session.keepalive_sessions.pop(self, None)
            self._close_socket()

    def wait_for_rsp(self, timeout: float | None = None, callout: bool = True) -> None:  # noqa: ARG002 - its signature
        left = self._until - self._clock.monotonic()
        if left <= 0:
            raise Doubtful("no answer, and no time is left")
        self.socket.settimeout(min(left, REPEAT_SECONDS))
        try:
            datagram, peer = self.socket.recvfrom(DATAGRAM_BYTES_MAX)
        except TimeoutError:
            self.timeout = 0.0  # its own count of repetitions, after which it would give up before our deadline
            self._timedout()
            return
        self._take(bytearray(datagram), peer)

    def awaitresponse(self, retry: bool) -> None:
        while retry and self.lastresponse is None and self.logged:
            self.wait_for_rsp()

    def _take(self, datagram: bytearray, peer: tuple[Any, ...]) -> None:
        self._heard = True
        # What is no IPMI, or is cut short, is dropped; the answer to our question may still come.
        with suppress(*_NONSENSE):
            if datagram[0] == RMCP_VERSION and datagram[2:4] == RMCP_IPMI:
                self._handle_ipmi_packet(datagram, sockaddr=peer)

    def _close_socket(self) -> None:
        if isinstance(self.socket, socket.socket):
            self.socket.close()


def _host_and_port(address: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.netloc != address or "@" in address:
        raise Denied("its address is not of the form host or host:port")
    return host, port or PORT


def _login_trouble(said: str) -> str:
    if said == "Incorrect password provided" or "nauthorized name" in said:
        return "it does not accept the user name and the password"
    return f"no login: {said.partition(' for b')[0]}"  # where it would name the user

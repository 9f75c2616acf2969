"""A request that is given up is never delivered: not by asyncio, not by TLS, and not by the kernel.

A mandate ends before anybody else can have one, but a closed socket leaves its unsent bytes to the kernel, which delivers
them when the network is back. For what is told to a BMC there is not even a version that would stop it.
"""

import socket
import struct
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import aiohttp

# Counted from the first retransmission, so about 4.5 s in all: less than a lease is longer than a mandate, which is 5 s.
# Less would give up on networks that lose a packet now and then.
UNACKNOWLEDGED_SECONDS_MAX = 4.0
AT_ONCE = struct.pack("ii", 1, 0)  # struct linger: on, with 0 s

# Whether what is sent here may still leave. A task that writes for another one asks what that one would.
may_leave: ContextVar[Callable[[], bool]] = ContextVar("may_leave", default=lambda: True)


class Wire(socket.socket):
    """Looks once more at the very last moment: between a look and the send, a process may be frozen for minutes."""

    def send(self, *what: Any) -> int:
        self._expect_leave()
        return super().send(*what)

    def sendmsg(self, *what: Any) -> int:
        self._expect_leave()
        return super().sendmsg(*what)

    def _expect_leave(self) -> None:
        if not may_leave.get()():
            raise ConnectionAbortedError("it is too late to send this")


def open_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Whatever was not acknowledged is dropped at the close (with a reset, also when we crash), or after a while.

    The second is for when we cannot close because we are stopped. An idle watch has nothing to be acknowledged, and a slow
    BMC does acknowledge.
    """
    family, kind, protocol, *_ = address
    wire = Wire(family, kind, protocol)
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # on Linux, where replicas run
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNACKNOWLEDGED_SECONDS_MAX * 1000))
    return wire


class DroppingResponse(aiohttp.ClientResponse):
    """Left to itself, asyncio first sends what it still holds, and TLS waits 30 s for a farewell, before the close."""

    def close(self) -> None:
        if self.connection and self.connection.transport:
            self.connection.transport.abort()
        super().close()

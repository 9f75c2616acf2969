"""Nodes in network namespaces of their own, and between them a switch that loses packets by wish, each direction by itself.

    with Network(["n1", "n2"]) as network:
        network.cut(("n1", "n2"))           # packets from n1 to n2 are lost, those from n2 to n1 are not
        network.isolate("n1")               # nothing from it, nothing to it
        network.lose(0.3)                   # of all packets, by chance
        network.heal()

Each node has a TUN device, whose packets this process reads and hands on, or not. `OUTSIDE` is the network of this process:
whatever listens at its address is reached by all nodes. Needs root, and nothing of the kernel but namespaces and TUN.
"""

import fcntl
import os
import random
import select
import struct
import subprocess
import threading
from collections.abc import Iterable
from ipaddress import IPv4Address
from types import TracebackType
from typing import Self

OUTSIDE = "outside"
_TUN = "/dev/net/tun"
_TUNSETIFF = 0x400454CA
_TUN_WITHOUT_HEADER = 0x1001
_PACKET_BYTES = 65536
_SOURCE, _TARGET = slice(12, 16), slice(16, 20)
_IPV4 = 4
_NETWORK = IPv4Address("198.18.0.0")  # for tests of networks: nobody routes it

Link = tuple[str, str]  # from, to


class Network:
    def __init__(self, nodes: Iterable[str]) -> None:
        self._tag = os.getpid() % 250
        self._names = (OUTSIDE, *nodes)
        self._down: frozenset[Link] = frozenset()
        self._loss = 0.0
        self._chance = random.Random(1)
        self._devices: dict[int, str] = {}
        self._by_address = {self._address(name).packed: name for name in self._names}
        self._wake, self._waker = os.pipe()
        self._switch = threading.Thread(target=self._run, name="switch", daemon=True)

    def __enter__(self) -> Self:
        try:
            for name in self._names:
                self._plug_in(name)
        except BaseException:
            self._clear_away()
            raise
        self._switch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.write(self._waker, b"x")
        self._switch.join()
        self._clear_away()

    def address(self, name: str) -> str:
        return str(self._address(name))

    def inside(self, node: str) -> tuple[str, ...]:
        """What to put before a command so that it runs on this node."""
        return ("ip", "netns", "exec", self._namespace(node))

    def cut(self, *links: Link) -> None:
        self._down |= frozenset(links)

    def isolate(self, name: str) -> None:
        self.part([name])

    def part(self, side: Iterable[str]) -> None:
        """These do not hear the others any more, nor the others them."""
        here = set(side)
        there = set(self._names) - here
        self.cut(*((one, other) for one in here for other in there), *((one, other) for one in there for other in here))

    def lose(self, share: float) -> None:
        self._loss = share

    def heal(self) -> None:
        self._down, self._loss = frozenset(), 0.0

    def _address(self, name: str) -> IPv4Address:
        return _NETWORK + 256 * self._tag + 1 + self._names.index(name)

    def _namespace(self, node: str) -> str:
        return f"defib-{self._tag}-{node}"

    def _plug_in(self, name: str) -> None:
        device = f"defib{self._tag}-{self._names.index(name)}"
        descriptor = os.open(_TUN, os.O_RDWR | os.O_CLOEXEC)
        fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", device.encode(), _TUN_WITHOUT_HEADER))
        self._devices[descriptor] = name
        where: tuple[str, ...] = ()
        if name != OUTSIDE:
            _ip("netns", "add", self._namespace(name))
            _ip("link", "set", device, "netns", self._namespace(name))
            where = ("-n", self._namespace(name))
            _ip(*where, "link", "set", "lo", "up")
        _ip(*where, "addr", "add", f"{self.address(name)}/24", "dev", device)
        _ip(*where, "link", "set", device, "up")

    def _clear_away(self) -> None:
        for descriptor in self._devices:
            os.close(descriptor)
        for name in self._names[1:]:
            subprocess.run(["ip", "netns", "del", self._namespace(name)], check=False, capture_output=True)
        os.close(self._wake)
        os.close(self._waker)

    def _run(self) -> None:
        ports = {name: descriptor for descriptor, name in self._devices.items()}
        while True:
            ready, _, _ = select.select([self._wake, *self._devices], [], [])
            if self._wake in ready:
                return
            for descriptor in ready:
                self._hand_on(os.read(descriptor, _PACKET_BYTES), ports)

    def _hand_on(self, packet: bytes, ports: dict[str, int]) -> None:
        source, target = self._by_address.get(packet[_SOURCE]), self._by_address.get(packet[_TARGET])
        if packet[0] >> 4 != _IPV4 or source is None or target is None:
            return
        if (source, target) not in self._down and self._chance.random() >= self._loss:
            os.write(ports[target], packet)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)

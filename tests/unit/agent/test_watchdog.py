"""A watchdog fires unless it is fed, and not when it was disarmed. The device's kernel is a stand-in; the process is real."""

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from defib.agent.countdown import Countdown
from defib.agent.watchdog import (
    CAN_CLOSE_BY_MAGIC,
    CAN_SET_TIMEOUT,
    GET_SUPPORT,
    GET_TIMEOUT,
    SECONDS,
    SET_TIMEOUT,
    SUPPORT,
    Device,
    NoWatchdog,
    Process,
    expect_watchdog,
    open_watchdog,
    start_countdown,
)
from defib.clock import SystemClock
from defib.coordinate.offspring import descendants

CLOCK = SystemClock()
SHORT = 0.4
LONG = 10.0


class Kernel(msgspec.Struct):
    """What a driver answers: what it can, and which timeouts it takes."""

    options: int = CAN_SET_TIMEOUT | CAN_CLOSE_BY_MAGIC
    seconds: int = 60
    at_most: int = 20

    def ioctl(self, _descriptor: int, request: int, given: bytes) -> bytes:
        if request == GET_SUPPORT:
            return SUPPORT.pack(self.options, 1, b"stand-in")
        if request == SET_TIMEOUT:
            (wished,) = SECONDS.unpack(given)
            if wished > self.at_most:
                raise OSError(errno.EINVAL, "out of range")
            self.seconds = wished
        else:
            assert request == GET_TIMEOUT
        return SECONDS.pack(self.seconds)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "watchdog"


def opened(file: Path, kernel: Kernel, wished: float = 15, *, nowayout: bool = False) -> Device:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT)
    return Device(descriptor, wished, nowayout=nowayout, ioctl=kernel.ioctl)


def test_a_device_is_told_the_wished_timeout_and_says_the_real_one(file: Path) -> None:
    assert opened(file, Kernel()).seconds == 15
    assert opened(file, Kernel(), wished=30).seconds == 60  # it cannot: what it has is told
    assert opened(file, Kernel(options=0)).seconds == 60
    assert opened(file, Kernel()).kind == "device"


def test_a_device_is_fed_and_then_closed_with_the_magic_letter(file: Path) -> None:
    device = opened(file, Kernel())
    device.feed()
    device.feed()
    assert b"V" not in file.read_bytes()
    assert device.disarm()
    assert file.read_bytes().endswith(b"V")


@pytest.mark.parametrize(("options", "nowayout"), [(0, False), (CAN_CLOSE_BY_MAGIC, True)])
def test_a_device_without_a_way_out_says_that_it_is_not_disarmed(file: Path, options: int, nowayout: bool) -> None:
    device = opened(file, Kernel(options=options), nowayout=nowayout)
    assert not device.disarm()
    assert b"V" not in file.read_bytes()


def test_a_file_that_is_no_watchdog_is_refused_with_what_to_do(file: Path) -> None:
    with pytest.raises(NoWatchdog, match=r"there is no .*softdog"):
        expect_watchdog(str(file))
    file.touch()
    expect_watchdog(str(file))
    with pytest.raises(NoWatchdog, match="is not a watchdog"):
        open_watchdog(str(file), 15)
    with pytest.raises(NoWatchdog, match="no watchdog answers"):
        open_watchdog(f"unix:{file}", 15)


def counted(seconds: float, *said: bytes, hang_up: bool) -> list[str]:
    """What became of a countdown that was told this."""
    fired: list[str] = []
    ours, its = socket.socketpair()
    with its:
        for word in said:
            ours.sendall(word)
        if hang_up:
            ours.close()
        was_fired = Countdown(seconds, lambda: fired.append("fired"), CLOCK).run(its)
        ours.close()
    assert was_fired == bool(fired)
    return fired


def test_a_countdown_that_nobody_feeds_fires_once() -> None:
    assert counted(SHORT, hang_up=False) == ["fired"]


def test_a_countdown_goes_on_when_whoever_feeds_it_is_gone() -> None:
    assert counted(SHORT, b"k", hang_up=True) == ["fired"]


def test_a_disarmed_countdown_does_not_fire() -> None:
    assert counted(LONG, b"kkV", hang_up=False) == []


def test_a_countdown_says_how_long_it_is_and_is_fed_by_whoever_talks_to_it() -> None:
    ours, its = socket.socketpair()
    fired: list[float] = []
    counting = threading.Thread(
        target=lambda: Countdown(SHORT, lambda: fired.append(CLOCK.monotonic()), CLOCK).run(its)
    )
    counting.start()
    watchdog = Process(ours)
    assert (watchdog.seconds, watchdog.kind) == (SHORT, "software")
    last = CLOCK.monotonic()
    while CLOCK.monotonic() < last + 3 * SHORT and not fired:
        watchdog.feed()
        fed_at = CLOCK.monotonic()
        counting.join(SHORT / 8)  # the process that is fed runs on the real clock
    assert not fired
    counting.join(LONG)
    assert len(fired) == 1
    assert fired[0] >= fed_at + SHORT - 0.05
    its.close()
    ours.close()


class Victim:
    """A process group with a stand-in watchdog, as a node has one."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.node = subprocess.Popen(["sleep", "60"], start_new_session=True)
        self.path = folder / "w.sock"
        self.fired = folder / "fired"
        self.watchdog = subprocess.Popen(
            [sys.executable, "-m", "testbed.watchdog", self.path, str(seconds), str(self.node.pid), self.fired]
        )

    def connect(self) -> Process:
        """As soon as it listens: a process takes a moment to start."""
        ends = CLOCK.monotonic() + LONG
        while True:
            try:
                found = open_watchdog(f"unix:{self.path}", 0)
            except NoWatchdog:
                assert CLOCK.monotonic() < ends
                threading.Event().wait(0.02)
                continue
            assert isinstance(found, Process)
            return found

    def end(self) -> None:
        for process in (self.watchdog, self.node):
            process.kill()
            process.wait()


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Victim]:
    victim = Victim(tmp_path, 1.0)
    yield victim
    victim.end()


def test_the_stand_in_kills_the_node_when_it_is_no_longer_fed(victim: Victim) -> None:
    watchdog = victim.connect()
    watchdog.feed()
    assert victim.node.wait(LONG) == -signal.SIGKILL
    watchdog.leave()


def test_the_stand_in_spares_a_node_whose_agent_disarmed_it_and_serves_the_next_agent(victim: Victim) -> None:
    assert victim.connect().disarm()
    victim.connect().leave()
    assert victim.node.wait(LONG) == -signal.SIGKILL
    assert victim.watchdog.wait(LONG) == 0
    assert victim.fired.exists()


def test_the_software_watchdog_reboots_when_it_is_not_fed_and_ignores_signals(tmp_path: Path) -> None:
    trigger = tmp_path / "sysrq-trigger"
    started = set(descendants(os.getpid()))
    watchdog = start_countdown(SHORT, trigger)
    (counting,) = set(descendants(os.getpid())) - started
    os.kill(counting, signal.SIGTERM)
    watchdog.leave()
    assert os.waitpid(counting, 0) == (counting, 0)
    assert trigger.read_text() == "b"


def test_the_software_watchdog_ends_when_it_is_disarmed(tmp_path: Path) -> None:
    trigger = tmp_path / "sysrq-trigger"
    started = set(descendants(os.getpid()))
    watchdog = start_countdown(LONG, trigger)
    (counting,) = set(descendants(os.getpid())) - started
    watchdog.feed()
    assert watchdog.disarm()
    assert os.waitpid(counting, 0) == (counting, 0)
    assert not trigger.exists()

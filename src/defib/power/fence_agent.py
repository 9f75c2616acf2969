"""Any fence agent of ClusterLabs: a program that reads `name=value` lines and switches one kind of device.

The option `agent` names the program, `fence_apc`; all other options are handed to it as they are, and so is what the
credentials hold. Everything goes over its standard input: a command line and an environment can be read by others. An
option that would make it run, read or write something else is refused, since whoever may write options may not do that.
"""

import asyncio
import os
import re
import signal
from asyncio.subprocess import Process, SubprocessStreamProtocol
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import ClassVar

import msgspec

from defib.clock import Clock
from defib.power.base import Outcome, PowerState, Readiness, Reading, Target
from defib.power.calls import Calls, Denied, Doubtful, Seen, by_node

DIRECTORY = Path("/usr/sbin")  # where Debian, Fedora and SUSE install them
AT_ONCE_MAX = 16  # each is a process of 20 to 40 MB
OUTPUT_BYTES_MAX = 2**16
KILL_SECONDS_MAX = 1.0
EXIT_GOOD = 0
EXIT_OFF = 2

_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
_AGENT = re.compile(r"fence_[a-z0-9_]{1,40}")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_STATUS = re.compile(rb"^Status: (ON|OFF)\s*$", re.MULTILINE)

# They cut a node off from its storage or network, or do nothing at all: their OFF is not about power.
_NOT_POWER = frozenset(
    {
        "fence_ack_manual",
        "fence_brocade",
        "fence_cisco_mds",
        "fence_compute",
        "fence_crosslink",
        "fence_dummy",
        "fence_evacuate",
        "fence_heuristics_ping",
        "fence_ifmib",
        "fence_kdump",
        "fence_mpath",
        "fence_rcd_serial",
        "fence_sanbox2",
        "fence_sbd",
        "fence_scsi",
    }
)
# Programs and files, what reaches them, what prints secrets, and what makes OFF mean something else.
_FORBIDDEN = re.compile(
    r"action|option|nodename|agent|ip|ipaddr|username|login|password|passwd|.*_path|.*script|.*file|.*_options|exec"
    r"|debug.*|boto3_debug|verbose.*|quiet|help|usage|version|sudo|use_sudo|kubeconfig|openrc|tls(ca)?cert|tlskey|cacert"
    r"|missing_as_off|network_fencing|record_only|readonly|method|plug_separator|runon.*|serviceaccount|port_as_ip"
)
_ADDRESS = re.compile(r"[A-Za-z0-9\[/][A-Za-z0-9._:%\[\]/-]*")  # agents put it into a command line, some into a shell's
_ALLOWED_PATHS = frozenset({"api_path"})  # a part of a URL
# What an agent says only when it has failed before it could send a command.
_NOTHING_SENT = ("Unable to connect/login to fencing device", "You have to set login password")


class _Ended(msgspec.Struct, frozen=True):
    code: int
    output: bytes
    complaint: bytes


class FenceAgent:
    can_read_state: ClassVar[bool] = True

    def __init__(self, clock: Clock, *, directory: Path = DIRECTORY) -> None:
        assert directory.is_absolute(), "what runs must not depend on where we were started"
        self._directory = directory
        self._calls = Calls(clock, at_once_max=AT_ONCE_MAX, place=by_node)

    async def state(self, target: Target, within_seconds: float) -> Reading:
        return await self._calls.read(target, within_seconds, self._read)

    async def off(self, target: Target, within_seconds: float) -> Outcome:
        return await self._calls.command(target, within_seconds, partial(self._command, "off"))

    async def on(self, target: Target, within_seconds: float) -> Outcome:
        return await self._calls.command(target, within_seconds, partial(self._command, "on"))

    async def check(self, target: Target, within_seconds: float) -> Readiness:
        return await self._calls.check(target, within_seconds, self._read)

    async def _read(self, target: Target) -> Seen:
        ended = await self._run(target, "status")
        said = _STATUS.findall(ended.output)
        # The exit code alone tells nothing: 2 is also how programs say that their arguments are wrong.
        if (ended.code, said) == (EXIT_GOOD, [b"ON"]):
            return Seen(PowerState.ON)
        if (ended.code, said) == (EXIT_OFF, [b"OFF"]):
            return Seen(PowerState.OFF)
        return Seen(PowerState.UNKNOWN, _complaint(ended))

    async def _command(self, action: str, target: Target) -> None:
        ended = await self._run(target, action)
        if ended.code != EXIT_GOOD:
            complaint = _complaint(ended)
            raise (Denied if any(words in complaint for words in _NOTHING_SENT) else Doubtful)(complaint)

    async def _run(self, target: Target, action: str) -> _Ended:
        program = self._directory / _agent(target)
        told = "".join(f"{name}={value}\n" for name, value in _arguments(target, action)).encode()
        try:
            transport, process = await _start(program)
        except OSError as error:
            raise Denied(f"{program} cannot be started: {error.strerror}; is its package installed?") from None
        try:
            return await _conversation(process, told)
        finally:
            await _end(process)
            transport.close()


async def _start(program: Path) -> tuple[asyncio.SubprocessTransport, Process]:
    """As asyncio.create_subprocess_exec does it, with two differences that keep anything from being left behind.

    The transport is at hand: only that closes all pipes of a process whose children hold on to them. And whoever is
    interrupted while it starts waits until it can be killed; asyncio would kill it alone, and not its children.
    """
    loop = asyncio.get_running_loop()
    starting = asyncio.ensure_future(  # noqa: TID251  it is awaited here, whatever happens
        loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(limit=OUTPUT_BYTES_MAX, loop=loop),
            program,
            env=_ENVIRONMENT,
            cwd="/",
            start_new_session=True,  # its children can be killed with it
        )
    )
    try:
        transport, protocol = await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(OSError):  # then there is nothing to kill
            transport, protocol = await starting
            await _end(Process(transport, protocol, loop))
            transport.close()
        raise
    return transport, Process(transport, protocol, loop)


def _agent(target: Target) -> str:
    name = target.options.get("agent", "")
    if not _AGENT.fullmatch(name):
        raise Denied("its option `agent` must name a fence agent, such as fence_apc")
    if name in _NOT_POWER:
        raise Denied(f"{name} does not switch the power of a machine")
    return name


def _arguments(target: Target, action: str) -> Iterator[tuple[str, str]]:
    """In the order in which they are told; the action and the credentials last, where nothing can replace them."""
    if target.address and not _ADDRESS.fullmatch(target.address):
        raise Denied("its address is neither a name nor a number of a device")
    for name, value in target.options.items():
        if name != "agent":
            yield _allowed(name), _quoted(name, value)
    for name, secret in target.credentials.more.items():
        yield _allowed(name), _quoted(name, secret.reveal())
    ours = {
        "ip": target.address,
        "username": target.credentials.username.reveal(),
        "password": target.credentials.password.reveal(),
        "action": action,
    }
    yield from ((name, _quoted(name, value)) for name, value in ours.items() if value)


def _allowed(name: str) -> str:
    plain = name.replace("-", "_")  # agents take both
    if not _NAME.fullmatch(name) or (_FORBIDDEN.fullmatch(plain) and plain not in _ALLOWED_PATHS):
        raise Denied(f"its option `{name[:64]}` is not allowed for fence agents")
    return name


def _quoted(name: str, value: str) -> str:
    """As it comes out again: agents drop white space at both ends, and one pair of quotes."""
    if any(each in value for each in "\n\r\0\v\f\x1c\x1d\x1e\x85\u2028\u2029"):
        raise Denied(f"its `{name}` has more than one line")
    needs_quotes = value != value.strip() or (value.startswith('"') and value.endswith('"'))
    return f'"{value}"' if needs_quotes else value


async def _conversation(process: Process, told: bytes) -> _Ended:
    assert process.stdin
    assert process.stdout
    assert process.stderr
    with suppress(BrokenPipeError, ConnectionResetError):  # it has ended without listening, and says why
        process.stdin.write(told)
        await process.stdin.drain()
    process.stdin.close()
    async with asyncio.TaskGroup() as tasks:
        output = tasks.create_task(_all_of(process.stdout, process))
        complaint = tasks.create_task(_all_of(process.stderr, process))
    if len(output.result()) > OUTPUT_BYTES_MAX or len(complaint.result()) > OUTPUT_BYTES_MAX:
        raise Doubtful(f"it printed more than {OUTPUT_BYTES_MAX} bytes")
    return _Ended(await process.wait(), output.result(), complaint.result())


async def _all_of(stream: asyncio.StreamReader, process: Process) -> bytes:
    """To its end, or a little more than we want; then it has no use for its other stream either."""
    read = bytearray()
    while chunk := await stream.read(OUTPUT_BYTES_MAX):
        read += chunk
        if len(read) > OUTPUT_BYTES_MAX:
            _kill(process)
            break
    return bytes(read)


def _kill(process: Process) -> None:
    """With all its children: one that lives on could switch the machine later, when nobody expects it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _end(process: Process) -> None:
    assert process.stdout
    assert process.stderr
    _kill(process)
    with suppress(TimeoutError):
        async with asyncio.timeout(KILL_SECONDS_MAX):
            for stream in (process.stdout, process.stderr):
                while await stream.read(OUTPUT_BYTES_MAX):  # to its end, which closes it
                    pass
            await process.wait()


def _complaint(ended: _Ended) -> str:
    """The last of its lines that says something, without the time in front."""
    lines = [
        *ended.output.decode(errors="replace").splitlines(),
        *ended.complaint.decode(errors="replace").splitlines(),
    ]
    errors = [line for line in lines if "ERROR:" in line] or [line for line in lines if line.strip()]
    said = errors[0].partition("ERROR:")[2].strip() or errors[0].strip() if errors else ""
    return f"it ended with {ended.code}" + (f": {said}" if said else "")

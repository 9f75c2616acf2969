"""Credentials from a program, as client.authentication.k8s.io defines it for kubectl.

The program is run without a terminal, for a bounded time, and never twice at once. What it prints is secret: it
reaches no log and no error. The last line of its stderr is meant for people, and is shown to them.
"""

import asyncio
import os
import signal
from asyncio.subprocess import Process
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import msgspec

from defib.clock import Clock
from defib.kube.credentials import Exec, KeyPair, Presented, bearer, is_clean_header
from defib.kube.errors import UNREADABLE, BadConfig
from defib.kube.kubeconfig import Connection
from defib.model.secret import Secret

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
RUN_SECONDS_MAX = 60.0
KILL_SECONDS_MAX = 5.0
RENEW_BEFORE_EXPIRY = timedelta(seconds=10)
STDERR_SHOWN_MAX = 200
HIDE_VALUES_FROM = 6  # characters: hiding "1" or "true" would only make a message unreadable


class _Issued(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    kind: str = ""
    api_version: str = ""
    status: _Issued | None = None


class ExecPlugin:
    """Runs the program when there are no credentials, before they expire, and once after each refusal of them."""

    def __init__(
        self,
        connection: Connection,
        environ: Mapping[str, str],
        clock: Clock,
        *,
        seconds_max: float = RUN_SECONDS_MAX,
    ) -> None:
        program = connection.user.login
        assert isinstance(program, Exec), "only a user with an exec plugin has one"
        self._program = program
        self._connection = connection
        self._environ = environ
        self._clock = clock
        self._seconds_max = seconds_max
        self._one_at_a_time = asyncio.Lock()
        self._presented: Presented | None = None
        self._renew_at: datetime | None = None
        self._is_awaited = False
        self._check()

    async def current(self) -> Presented:
        async with self._one_at_a_time:
            if self._presented is None or self._is_due():
                return await self._renew()
            self._is_awaited = False
            return self._presented

    async def renewed(self, refused: Presented) -> Presented:
        async with self._one_at_a_time:
            # Many requests may be refused at once; the first of them has it renewed for all.
            if self._presented is None or self._is_ours(refused) or self._is_due():
                return await self._renew()
            return self._presented

    def waits_for(self) -> str:
        return f"exec plugin {self._program.command!r}" if self._is_awaited else ""

    def _check(self) -> None:
        program, source = self._program, self._connection.source
        if program.api_version not in API_VERSIONS:
            raise BadConfig(
                f"the exec plugin of {source} speaks {program.api_version!r}, not {' or '.join(API_VERSIONS)}; "
                "update the plugin and its kubeconfig"
            )
        if program.interactive_mode == "Always":
            raise BadConfig(
                f"the exec plugin of {source} wants a terminal (interactiveMode: Always), and Defib has none; "
                "use another way to log in"
            )
        if program.interactive_mode not in ("", "Never", "IfAvailable"):
            raise BadConfig(f"the exec plugin of {source} has an unknown interactiveMode; set it to Never")

    def _is_due(self) -> bool:
        return self._renew_at is not None and self._clock.now() >= self._renew_at

    def _is_ours(self, refused: Presented) -> bool:
        """The user's own certificate may have been added to what we gave, where we gave none."""
        ours = self._presented
        return (
            ours is not None
            and refused.authorization == ours.authorization
            and (ours.key_pair is None or refused.key_pair == ours.key_pair)
        )

    async def _renew(self) -> Presented:
        issued = self._read(await self._run())
        expires, now = issued.expiration_timestamp, self._clock.now()
        # A tenth of a short life: a margin as long as the life would run the program for every request.
        self._renew_at = expires and expires - min(RENEW_BEFORE_EXPIRY, (expires - now) / 10)
        self._presented = self._as_presented(issued)
        return self._presented

    async def _run(self) -> bytes:
        """What the program printed."""
        self._is_awaited = True
        process = await self._start()
        try:
            async with asyncio.timeout(self._seconds_max):
                output, complaint = await process.communicate()
                self._is_awaited = False
        except TimeoutError:
            raise self._bad(f"did not end within {self._seconds_max:g} s; run it by hand to see why") from None
        finally:
            if self._is_awaited:  # also when the request that waits for it is given up
                await _end(process)
        if process.returncode:
            said = self._last_line(complaint)
            raise self._bad(f"failed with exit code {process.returncode}" + (f": {said}" if said else ""))
        return output

    async def _start(self) -> Process:
        """Not to be interrupted by the request being given up: a process that we do not know, we cannot kill."""
        environ = await self._environment()
        async with asyncio.TaskGroup() as group:
            starting = group.create_task(self._spawn(environ))
            try:
                started = await asyncio.shield(starting)
            except asyncio.CancelledError:
                started = await starting
                if isinstance(started, Process):
                    await _end(started)
                raise
        if isinstance(started, BadConfig):
            raise started
        return started

    async def _environment(self) -> dict[str, str]:
        given = {variable.name: variable.value.reveal() for variable in self._program.env}
        return {**self._environ, **given, "KUBERNETES_EXEC_INFO": await self._exec_info()}

    async def _spawn(self, environ: dict[str, str]) -> Process | BadConfig:
        try:
            return await asyncio.create_subprocess_exec(
                self._program.command,
                *(argument.reveal() for argument in self._program.args),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environ,
                start_new_session=True,  # no terminal to ask at, and its children can be killed with it
            )
        except FileNotFoundError:
            hint = " ".join(self._program.install_hint.split())
            return self._bad(f"is not installed{': ' + hint if hint else '; install it or correct `command`'}")
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "an argument holds a null byte"
            return self._bad(f"cannot be started: {why}; correct `command`")

    async def _exec_info(self) -> str:
        spec: dict[str, Any] = {"interactive": False}
        if self._program.provide_cluster_info:
            spec["cluster"] = await asyncio.to_thread(_cluster_info, self._connection)
        info = {"apiVersion": self._program.api_version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(info).decode()

    def _read(self, output: bytes) -> _Issued:
        try:
            answer = msgspec.json.decode(output, type=_Answer)
        except UNREADABLE as error:
            why = str(error) if isinstance(error, msgspec.ValidationError) else "it is not JSON"
            raise self._bad(f"printed no ExecCredential ({why}); is it the right command?") from None
        if answer.kind != "ExecCredential" or answer.status is None:
            raise self._bad("printed no ExecCredential with a status; is it the right command?")
        if answer.api_version != self._program.api_version:
            raise self._bad("answered with another apiVersion than its kubeconfig asks for; make them the same")
        return answer.status

    def _as_presented(self, issued: _Issued) -> Presented:
        if bool(issued.client_certificate_data) != bool(issued.client_key_data):
            raise self._bad("gave a client certificate or a key, but not both; update it")
        if not issued.token and not issued.client_certificate_data:
            raise self._bad("gave neither a token nor a client certificate; run it by hand to see why")
        if not is_clean_header(issued.token):
            raise self._bad("gave a token with characters that no token can have; update it")
        pair = None
        if issued.client_certificate_data:
            pair = KeyPair(Secret(issued.client_certificate_data), Secret(issued.client_key_data))
        authorization = bearer(Secret(issued.token)).authorization if issued.token else None
        return Presented(authorization=authorization, key_pair=pair)

    def _last_line(self, complaint: bytes) -> str:
        lines = complaint.decode("utf-8", "replace").strip().splitlines()
        line = _printable(lines[-1]) if lines else ""
        # A program may repeat what it was given. The longest first: hiding a part would uncover the rest.
        for secret in sorted(self._given(), key=len, reverse=True):
            line = line.replace(secret, "[hidden]") if len(secret) >= HIDE_VALUES_FROM else line
        return line[:STDERR_SHOWN_MAX]

    def _given(self) -> set[str]:
        """The lines of all its variables and arguments; of `--flag=value` also the value."""
        arguments = [argument.reveal() for argument in self._program.args]
        given = [*(variable.value.reveal() for variable in self._program.env), *arguments]
        given += [argument.partition("=")[2] for argument in arguments]
        return {_printable(line.strip()) for text in given for line in text.splitlines()}

    def _bad(self, what: str) -> BadConfig:
        return BadConfig(f"the exec plugin {self._program.command!r} of {self._connection.source} {what}")


def _printable(text: str) -> str:
    return "".join(each for each in text if each.isprintable())


async def _end(process: Process) -> None:
    """Kill it with all its children: one that lives on would hold the pipes open."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(KILL_SECONDS_MAX):
            await process.communicate()  # to the end of its pipes, which closes them


def _cluster_info(connection: Connection) -> dict[str, Any]:
    ca = connection.ca
    try:
        text = ca.read_bytes() if isinstance(ca, Path) else ca.reveal().encode() if ca else b""
    except OSError as error:
        raise BadConfig(f"{ca} cannot be read: {error.strerror}; restore it or name another") from None
    info = {
        "server": connection.server,
        "tls-server-name": connection.tls_server_name,
        "insecure-skip-tls-verify": connection.insecure_skip_tls_verify,
        "certificate-authority-data": b64encode(text).decode(),
        "proxy-url": connection.proxy_url.reveal() if connection.proxy_url else "",
        "config": connection.exec_extension,
    }
    return {name: value for name, value in info.items() if value}

"""Credentials from a program, run as kubectl runs it."""

import asyncio
import json
import os
import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from defib.clock import SystemClock
from defib.kube.client import Client
from defib.kube.credentials import Credentials
from defib.kube.errors import BadConfig, DeadlineExceeded
from defib.kube.exec_plugin import ExecPlugin
from defib.kube.http import HttpTransport
from defib.kube.kubeconfig import load_connection
from tests.contract.auth.desk import GET, Desk, ask, encoded, said
from tests.contract.auth.servers import ApiServer

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


def a_plugin(desk: Desk, script: str = "cat answer.json", **more: Any) -> dict[str, Any]:
    """A user whose plugin stands beside the kubeconfig; each of its runs leaves a line in the file `runs`."""
    desk.script("login", f'cd "$(dirname "$0")"; echo >> runs; {script}')
    return {"exec": {"apiVersion": V1, "command": "./login", "interactiveMode": "Never", **more}}


def answers(
    desk: Desk, *, name: str = "answer", version: str = V1, lives_for: float | None = None, **status: str
) -> None:
    if lives_for is not None:
        expires = desk.clock.now() + timedelta(seconds=lives_for)
        status["expirationTimestamp"] = expires.isoformat().replace("+00:00", "Z")
    desk.write(f"{name}.json", json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status}))


def runs(desk: Desk) -> int:
    return len((desk.folder / "runs").read_text().splitlines())


async def impatient(desk: Desk, seconds: float) -> HttpTransport:
    """A transport whose plugin may run for only so long."""
    connection = await asyncio.to_thread(load_connection, desk.kubeconfig, None, desk.environ)
    plugin = ExecPlugin(connection, desk.environ, desk.clock, seconds_max=seconds)
    return HttpTransport(connection, Credentials(connection.user, plugin, desk.clock), desk.clock)


@asynccontextmanager
async def a_pipe(path: Path) -> AsyncIterator[asyncio.StreamReader]:
    """Reads to the end when the last process that holds the other side is gone."""
    os.mkfifo(path)
    reader = asyncio.StreamReader()
    end = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), end)
    try:
        yield reader
    finally:
        pipe.close()


def next_of(pipe: int) -> bytes:
    """Waits for it with the event loop at a standstill."""
    select.select([pipe], [], [], 5.0)
    return os.read(pipe, 100)


def children() -> set[str]:
    """Of this process, by id. A control plane that other tests share may be among them."""
    return {pid for each in Path("/proc/self/task").glob("*/children") for pid in each.read_text().split()}


@pytest.mark.parametrize("version", [V1, V1BETA1])
async def test_the_token_of_a_plugin_is_sent(desk: Desk, server: ApiServer, version: str) -> None:
    answers(desk, version=version, token="t-1")
    desk.configure(server.url, a_plugin(desk, apiVersion=version))
    async with desk.connected() as transport:
        assert await ask(transport) == 200
        assert await ask(transport) == 200
    assert server.tokens == ["Bearer t-1"] * 2
    assert runs(desk) == 1, "a token without an end is kept"


async def test_a_token_is_renewed_a_little_before_it_expires(desk: Desk, server: ApiServer) -> None:
    answers(desk, token="t-1", lives_for=600)
    desk.configure(server.url, a_plugin(desk))
    async with desk.connected() as transport:
        await ask(transport)
        answers(desk, token="t-2", lives_for=1200)
        desk.clock.advance(589)
        await ask(transport)
        desk.clock.advance(1)
        await ask(transport)
    assert server.tokens == ["Bearer t-1", "Bearer t-1", "Bearer t-2"]
    assert runs(desk) == 2


async def test_a_token_that_lives_for_4_seconds_is_used_for_most_of_them(desk: Desk, server: ApiServer) -> None:
    answers(desk, token="t-1", lives_for=4)
    desk.configure(server.url, a_plugin(desk))
    async with desk.connected() as transport:
        await ask(transport)
        desk.clock.advance(3)
        await ask(transport)
        answers(desk, token="t-2", lives_for=4)
        desk.clock.advance(1)
        await ask(transport)
    assert server.tokens == ["Bearer t-1", "Bearer t-1", "Bearer t-2"]


async def test_a_refused_token_is_renewed_once(desk: Desk, server: ApiServer) -> None:
    answers(desk, token="t-1")
    desk.configure(server.url, a_plugin(desk))
    async with desk.connected() as transport:
        await ask(transport)
        answers(desk, token="t-2")
        server.accept_only("t-2")
        assert await ask(transport) == 200
        server.accept_only("t-3")
        assert "what '" in await said(transport)
    assert server.tokens == ["Bearer t-1", "Bearer t-1", "Bearer t-2", "Bearer t-2"]
    assert runs(desk) == 3, "the last run gave the same token again, so it was not shown again"


async def test_requests_that_wait_share_one_run(desk: Desk, server: ApiServer) -> None:
    answers(desk, token="t-1")
    desk.configure(server.url, a_plugin(desk))
    async with desk.connected() as transport:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(5):
                tasks.create_task(ask(transport))
        assert runs(desk) == 1
        answers(desk, token="t-2")
        server.accept_only("t-2")
        async with asyncio.TaskGroup() as tasks:
            for _ in range(5):
                tasks.create_task(ask(transport))
    assert runs(desk) == 2, "five were refused, one renewed for all"
    assert server.tokens.count("Bearer t-2") == 5


async def test_a_client_certificate_of_a_plugin_is_shown_and_renewed(desk: Desk, server: ApiServer) -> None:
    for name in ("first", "second"):
        issued = desk.authority.issue(name)
        answers(desk, clientCertificateData=issued.certificate, clientKeyData=issued.key)
        if name == "first":
            desk.configure(server.url, a_plugin(desk))
            transport = await desk.opened()
        else:
            server.knows = lambda seen: seen.certificate == "second"
        assert await ask(transport) == 200
    await transport.close()
    assert server.certificates == ["first", "first", "second"]


async def test_the_plugin_is_told_about_itself_and_the_cluster(desk: Desk, server: ApiServer) -> None:
    answers(desk, token="t-1")
    script = 'printf %s "$KUBERNETES_EXEC_INFO" > info; printf "%s %s" "$REGION" "$2" > given; cat answer.json'
    given = {"provideClusterInfo": True, "args": ["--name", "east"], "env": [{"name": "REGION", "value": "eu"}]}
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a-1"}}
    desk.configure(
        server.url, a_plugin(desk, script, **given), extensions=[extension], **{"tls-server-name": "127.0.0.1"}
    )
    async with desk.connected() as transport:
        await ask(transport)
    assert (desk.folder / "given").read_text() == "eu east"
    assert json.loads((desk.folder / "info").read_text()) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {
                "server": server.url,
                "tls-server-name": "127.0.0.1",
                "certificate-authority-data": encoded(desk.authority.certificate),
                "config": {"audience": "a-1"},
            },
        },
    }


async def test_a_plugin_that_does_not_ask_is_told_nothing_of_the_cluster(desk: Desk, server: ApiServer) -> None:
    answers(desk, token="t-1")
    desk.configure(server.url, a_plugin(desk, 'printf %s "$KUBERNETES_EXEC_INFO" > info; cat answer.json'))
    async with desk.connected() as transport:
        await ask(transport)
    assert json.loads((desk.folder / "info").read_text())["spec"] == {"interactive": False}


async def test_a_command_without_a_path_is_looked_up_in_path(desk: Desk, server: ApiServer) -> None:
    answers(desk, token="t-1")
    desk.configure(server.url, a_plugin(desk, command="login"))
    desk.environ["PATH"] = f"{desk.folder}:/usr/bin:/bin"
    async with desk.connected() as transport:
        assert await ask(transport) == 200


@pytest.mark.parametrize(
    ("script", "more", "line"),
    [
        ("exit 3", {}, "failed with exit code 3"),
        (
            "echo first >&2; echo 'your session has ended' >&2; exit 1",
            {},
            "failed with exit code 1: your session has ended",
        ),
        ("kill -9 $$", {}, "failed with exit code -9"),
        ("echo hello", {}, "printed no ExecCredential (it is not JSON); is it the right command?"),
        ("printf '\\377'", {}, "printed no ExecCredential (it is not JSON); is it the right command?"),
        (
            "printf '{\"x\":'; head -c 100000 /dev/zero | tr '\\0' '['",
            {},
            "printed no ExecCredential (it is not JSON); is it the right command?",
        ),
        ("echo '[1]'", {}, "printed no ExecCredential (Expected `object`, got `array`); is it the right command?"),
        ('echo \'{"kind": "Pod"}\'', {}, "printed no ExecCredential with a status; is it the right command?"),
        ("cat empty.json", {}, "gave neither a token nor a client certificate; run it by hand to see why"),
        ("cat half.json", {}, "gave a client certificate or a key, but not both; update it"),
        ("cat folded.json", {}, "gave a token with characters that no token can have; update it"),
        (
            "cat empty.json",
            {"apiVersion": V1BETA1},
            "answered with another apiVersion than its kubeconfig asks for; make them the same",
        ),
        ("", {"command": "no-such-login"}, "is not installed; install it or correct `command`"),
        (
            "",
            {"command": "no-such-login", "installHint": "get it\nfrom example.com"},
            "is not installed: get it from example.com",
        ),
        ("", {"command": "./config"}, "cannot be started: Permission denied; correct `command`"),
    ],
)
async def test_a_plugin_that_fails_leaves_one_line(
    desk: Desk, server: ApiServer, script: str, more: dict[str, Any], line: str
) -> None:
    answers(desk, name="empty")
    answers(desk, name="half", clientKeyData="k")
    answers(desk, name="folded", token="a\nb")
    user = a_plugin(desk, script, **more)
    desk.configure(server.url, user)
    command = user["exec"]["command"]
    shown = str(desk.folder / command) if "/" in command else command
    async with desk.connected() as transport:
        with pytest.raises(BadConfig) as caught:
            await ask(transport)
    assert str(caught.value) == f"the exec plugin {shown!r} of context 'prod' of {desk.kubeconfig} {line}"
    assert server.seen == []


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"interactiveMode": "Always"}, "wants a terminal (interactiveMode: Always), and Defib has none"),
        ({"interactiveMode": "Sometimes"}, "has an unknown interactiveMode; set it to Never"),
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "update the plugin and its kubeconfig"),
    ],
)
async def test_a_plugin_that_cannot_be_used_is_told_before_it_runs(
    desk: Desk, server: ApiServer, more: dict[str, Any], line: str
) -> None:
    desk.configure(server.url, a_plugin(desk, **more))
    with pytest.raises(BadConfig) as caught:
        await desk.opened()
    assert line in str(caught.value)


async def test_a_plugin_that_hangs_is_killed_with_its_children(desk: Desk, server: ApiServer) -> None:
    desk.configure(server.url, a_plugin(desk, "exec 9> alive; echo here >&9; sleep 1000 & sleep 1000"))
    async with a_pipe(desk.folder / "alive") as alive:
        transport = await impatient(desk, seconds=0.5)
        with pytest.raises(BadConfig, match=r"did not end within 0\.5 s; run it by hand to see why"):
            await ask(transport)
        assert await alive.read() == b"here\n", "the pipe's end came, so nobody holds it"
        await transport.close()


async def test_a_plugin_is_killed_when_the_request_is_given_up(desk: Desk, server: ApiServer) -> None:
    desk.configure(server.url, a_plugin(desk, "exec 9> alive; echo here >&9; sleep 1000"))
    async with a_pipe(desk.folder / "alive") as alive, desk.connected() as transport, asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(ask(transport, GET))
        assert await alive.readline() == b"here\n"
        asking.cancel()
        assert await alive.read() == b""


async def test_a_plugin_is_killed_when_the_request_is_given_up_while_it_starts(desk: Desk, server: ApiServer) -> None:
    desk.configure(server.url, a_plugin(desk, "exec 9> alive; sleep 1000 & echo here >&9; sleep 1000"))
    os.mkfifo(desk.folder / "alive")
    alive = os.open(desk.folder / "alive", os.O_RDONLY | os.O_NONBLOCK)
    others = children()
    async with desk.connected() as transport, asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(ask(transport, GET))
        while children() <= others:  # noqa: ASYNC110 - no event tells of it so early
            await asyncio.sleep(0)
        # It runs, with its children, and our event loop has had no turn to find out.
        assert next_of(alive) == b"here\n"
        asking.cancel()
    assert next_of(alive) == b"", "the pipe's end came, so nobody holds it"
    os.close(alive)


async def test_a_plugin_that_outlasts_the_deadline_is_named(desk: Desk, server: ApiServer) -> None:
    desk.configure(server.url, a_plugin(desk, "test -e answer.json && exec cat answer.json; sleep 1000"))
    async with desk.connected() as transport:
        with pytest.raises(DeadlineExceeded) as caught:
            await Client(transport, SystemClock()).ask(GET, deadline=0.5)
        answers(desk, token="t-1")
        assert await ask(transport) == 200
        assert "exec plugin" not in transport.describe(), "it has ended"
    where = f"context 'prod' of {desk.kubeconfig}, whose exec plugin '{desk.folder}/login' did not end"
    assert f"no answer from {server.url} ({where}) within 0.5 s; " in str(caught.value)

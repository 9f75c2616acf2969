"""No credential is ever seen: not in an error, not in a traceback, not in the repr of anything that holds one."""

import json
import traceback
from pathlib import Path
from typing import Any

import pytest

from defib.kube.credentials import Credentials, Fixed, KeyPair, bearer
from defib.kube.errors import KubeError
from defib.kube.http import connect
from defib.kube.kubeconfig import load_connection
from defib.model.secret import Secret
from tests.contract.auth.desk import Desk, ask, encoded, said
from tests.contract.auth.servers import LOOPBACK, ApiServer, Proxy

HUSH = "hunter2-hunter2"
V1 = "client.authentication.k8s.io/v1"


def expect_hidden(error: KubeError) -> None:
    shown = "".join([str(error), repr(error), *traceback.format_exception(error), repr(vars(error))])
    for form in (HUSH, encoded(HUSH), HUSH.encode().hex()):
        assert form not in shown
    assert "\n" not in str(error)


BAD_FILES = {
    "not YAML": f"users: [{{token: {HUSH}\n:",
    "an unknown alias": f"token: *{HUSH}",
    "an unknown tag": f"token: !{HUSH} x",
    "not a mapping": HUSH,
    "not text": f"token: {HUSH}\n\x01".encode(),
    "not UTF-8": f"token: {HUSH}\n".encode() + b"\xff",
    "not a list": f"users: {HUSH}",
    "not a text": f"users: [{{name: a, user: {{token: [{HUSH}]}}}}]",
    "not base64": f"users: [{{name: a, user: {{client-key-data: '%{HUSH}'}}}}]",
    "a mode": f"users: [{{name: a, user: {{exec: {HUSH}}}}}]",
}


@pytest.mark.parametrize("content", BAD_FILES.values(), ids=BAD_FILES.keys())
def test_a_kubeconfig_that_cannot_be_read_is_not_quoted(tmp_path: Path, content: str | bytes) -> None:
    path = tmp_path / "config"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(KubeError) as caught:
        load_connection(path, None, {})
    expect_hidden(caught.value)


BAD_ENTRIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a server with a password": ({}, {"server": f"https://ann:{HUSH}@{LOOPBACK}"}),
    "a proxy that is none": ({}, {"proxy-url": f"http://ann:{HUSH}@"}),
    "a proxy with a strange scheme": ({}, {"proxy-url": f"socks5://ann:{HUSH}@{LOOPBACK}:1"}),
    "a proxy with a strange port": ({}, {"proxy-url": f"http://{LOOPBACK}:{HUSH}"}),
    "a proxy that is down": ({}, {"proxy-url": f"http://ann:{HUSH}@{LOOPBACK}:1"}),
    "a token of two lines": ({"token": f"{HUSH}\nX"}, {}),
    "a token and a password": ({"token": HUSH, "username": "ann", "password": HUSH}, {}),
    "a certificate that is none": (
        {"client-certificate-data": encoded(HUSH), "client-key-data": encoded(HUSH)},
        {},
    ),
    "an old auth provider": ({"auth-provider": {"name": "gcp", "config": {"access-token": HUSH}}}, {}),
}


@pytest.mark.parametrize(("user", "cluster"), BAD_ENTRIES.values(), ids=BAD_ENTRIES.keys())
async def test_an_entry_that_cannot_be_used_is_not_quoted(
    desk: Desk, server: ApiServer, user: dict[str, Any], cluster: dict[str, Any]
) -> None:
    desk.configure(**{"server": server.url, "user": user} | cluster)
    with pytest.raises(KubeError) as caught:
        async with desk.connected() as transport:
            await ask(transport)
    expect_hidden(caught.value)


PASSWORD = {"env": [{"name": "HINT", "value": HUSH[:8]}, {"name": "PASSWORD", "value": HUSH}]}
KEY = {"env": [{"name": "KEY", "value": f"-----BEGIN\n{HUSH}"}]}


@pytest.mark.parametrize(
    ("script", "given"),
    [
        (f"echo {HUSH}; exit 1", {}),
        (f"echo {HUSH}", {}),
        ("printenv PASSWORD >&2; exit 1", PASSWORD),
        ("printenv KEY >&2; exit 1", KEY),
        ('echo "unknown flag: $1" >&2; exit 1', {"args": [f"--client-secret={HUSH}"]}),
        ('echo "who is ${1#*=}?" >&2; exit 1', {"args": [f"--client-secret={HUSH}"]}),
        ('echo "who is $2?" >&2; exit 1', {"args": ["--client-secret", HUSH]}),
        ('cat "$(dirname "$0")/answer.json"', {}),
    ],
)
async def test_what_a_plugin_prints_or_was_given_is_not_quoted(
    desk: Desk, server: ApiServer, script: str, given: dict[str, Any]
) -> None:
    desk.write("answer.json", json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": {"token": [HUSH]}}))
    desk.script("login", script)
    desk.configure(server.url, {"exec": {"apiVersion": V1, "command": "./login", **given}})
    async with desk.connected() as transport:
        with pytest.raises(KubeError) as caught:
            await ask(transport)
    expect_hidden(caught.value)
    assert HUSH[8:] not in str(caught.value), "hiding a short secret must not uncover the rest of a longer one"


async def test_a_refused_token_is_not_quoted(desk: Desk, server: ApiServer) -> None:
    desk.configure(server.url, {"token": HUSH})
    server.knows = lambda _: False
    async with desk.connected() as transport:
        assert HUSH not in await said(transport)


async def test_a_proxy_that_refuses_us_does_not_show_its_password(desk: Desk, server: ApiServer) -> None:
    async with Proxy(login="ann:other").serve() as proxy:
        desk.configure(server.url, {"token": HUSH}, **{"proxy-url": f"http://ann:{HUSH}@{proxy.address}"})
        async with desk.connected() as transport:
            with pytest.raises(KubeError) as caught:
                await ask(transport)
    expect_hidden(caught.value)


@pytest.mark.parametrize(
    "user",
    [
        {"token": HUSH},
        {"username": "ann", "password": HUSH},
        {"client-certificate-data": encoded(HUSH), "client-key-data": encoded(HUSH)},
        {
            "exec": {
                "apiVersion": V1,
                "command": "x",
                "args": [HUSH],
                "env": [{"name": "PASSWORD", "value": HUSH}],
            }
        },
    ],
)
def test_a_connection_does_not_show_its_secrets(desk: Desk, user: dict[str, Any]) -> None:
    desk.configure(f"https://{LOOPBACK}", user, **{"proxy-url": f"http://ann:{HUSH}@{LOOPBACK}:1"})
    connection = load_connection(desk.kubeconfig, None, {})
    assert HUSH not in repr(connection) + str(connection)


def test_nothing_that_holds_a_secret_shows_it(desk: Desk) -> None:
    presented = bearer(Secret(HUSH))
    holders = [Secret(HUSH), presented, KeyPair(Secret(HUSH), Secret(HUSH)), Fixed(presented)]
    connection = load_connection(desk_with_token(desk), None, {})
    holders.append(Credentials(connection.user, Fixed(presented), desk.clock))
    assert HUSH not in "".join(f"{holder!r}{holder!s}{holder}" for holder in holders)


def desk_with_token(desk: Desk) -> Path:
    desk.configure(f"https://{LOOPBACK}", {"token": HUSH})
    return desk.kubeconfig


async def test_a_transport_does_not_show_its_secrets(desk: Desk) -> None:
    transport = await connect(desk_with_token(desk), None, {}, desk.clock)
    assert HUSH not in repr(transport) + repr(transport.connection)
    await transport.close()

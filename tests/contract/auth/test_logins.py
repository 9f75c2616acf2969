"""Who we are: every kind of credentials a kubeconfig or a pod can give, shown to a real TLS server.

The operator and the agent of a node have different transports and one way to log in.
"""

import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from defib.kube.errors import BadConfig, Unreachable
from defib.kube.http import open_transport
from defib.kube.transport import Request
from tests.contract.auth.authority import Authority
from tests.contract.auth.desk import Desk, Opens, as_an_agent, ask, encoded, said
from tests.contract.auth.servers import ApiServer


@pytest.fixture(params=[open_transport, as_an_agent], ids=["operator", "agent"])
def desk(request: pytest.FixtureRequest, tmp_path: Path, authority: Authority) -> Desk:
    opens: Opens = request.param
    return Desk(tmp_path, authority, opens)


def a_pod(desk: Desk, server: ApiServer, token: str) -> Path:
    """The files and variables that a pod finds."""
    folder = desk.folder / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text(token)
    (folder / "ca.crt").write_text(desk.authority.certificate)
    (folder / "namespace").write_text("defib-system")
    host, _, port = server.url.removeprefix("https://").rpartition(":")
    desk.environ |= {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    return folder


async def test_a_client_certificate_in_the_kubeconfig_is_shown(desk: Desk, server: ApiServer) -> None:
    ann = desk.authority.issue("ann")
    user = {"client-certificate-data": encoded(ann.certificate), "client-key-data": encoded(ann.key)}
    desk.configure(server.url, user)
    async with desk.connected() as transport:
        assert await ask(transport) == 200
    assert server.certificates == ["ann"]


async def test_a_client_certificate_in_files_beside_the_kubeconfig_is_shown(desk: Desk, server: ApiServer) -> None:
    ann = desk.authority.issue("ann")
    desk.write("ann.crt", ann.certificate)
    desk.write("ann.key", ann.key)
    desk.configure(server.url, {"client-certificate": "ann.crt", "client-key": "ann.key"})
    async with desk.connected() as transport:
        assert await ask(transport) == 200
    assert server.certificates == ["ann"]


async def test_a_replaced_certificate_file_is_shown_within_a_minute(desk: Desk, server: ApiServer) -> None:
    old, new = desk.authority.issue("old"), desk.authority.issue("new")
    desk.write("tls.crt", old.certificate)
    desk.write("tls.key", old.key)
    desk.configure(server.url, {"client-certificate": "tls.crt", "client-key": "tls.key"})
    async with desk.connected() as transport:
        await ask(transport)
        desk.write("tls.crt", new.certificate)
        desk.write("tls.key", new.key)
        desk.clock.advance(60)
        await ask(transport)
    assert server.certificates == ["old", "new"]


async def test_a_half_replaced_certificate_does_not_stop_us(desk: Desk, server: ApiServer) -> None:
    old, new = desk.authority.issue("old"), desk.authority.issue("new")
    desk.write("tls.crt", old.certificate)
    desk.write("tls.key", old.key)
    desk.configure(server.url, {"client-certificate": "tls.crt", "client-key": "tls.key"})
    async with desk.connected() as transport:
        await ask(transport)
        desk.write("tls.crt", new.certificate)
        desk.clock.advance(60)
        await ask(transport)
        desk.write("tls.key", new.key)
        desk.clock.advance(60)
        await ask(transport)
    assert server.certificates == ["old", "old", "new"]


async def test_on_a_full_disk_the_old_certificate_is_shown_and_later_the_new_one(
    desk: Desk, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = desk.authority.issue("old"), desk.authority.issue("new")
    desk.write("tls.crt", old.certificate)
    desk.write("tls.key", old.key)
    desk.configure(server.url, {"client-certificate": "tls.crt", "client-key": "tls.key"})
    async with desk.connected() as transport:
        await ask(transport)
        desk.write("tls.crt", new.certificate)
        desk.write("tls.key", new.key)
        desk.clock.advance(60)
        with monkeypatch.context() as disk:
            disk.setattr(tempfile, "tempdir", str(desk.folder / "no room"))
            await ask(transport)
        desk.clock.advance(60)
        await ask(transport)
    assert server.certificates == ["old", "old", "new"]


async def test_a_refused_certificate_is_read_again_at_once(desk: Desk, server: ApiServer) -> None:
    old, new = desk.authority.issue("old"), desk.authority.issue("new")
    desk.write("tls.crt", old.certificate)
    desk.write("tls.key", old.key)
    desk.configure(server.url, {"client-certificate": "tls.crt", "client-key": "tls.key"})
    async with desk.connected() as transport:
        await ask(transport)
        desk.write("tls.crt", new.certificate)
        desk.write("tls.key", new.key)
        server.knows = lambda seen: seen.certificate == "new"
        assert await ask(transport) == 200
    assert server.certificates == ["old", "old", "new"]


async def test_a_replaced_ca_file_is_read_again_when_the_server_is_not_trusted(desk: Desk, server: ApiServer) -> None:
    desk.write("ca.crt", Authority("the CA before").certificate)
    desk.configure(server.url, {}, **{"certificate-authority": "ca.crt"})
    async with desk.connected() as transport:
        with pytest.raises(Unreachable):
            await ask(transport)
        desk.write("ca.crt", desk.authority.certificate)
        assert await ask(transport) == 200


async def test_a_half_replaced_ca_file_does_not_stop_us(desk: Desk, server: ApiServer) -> None:
    desk.write("ca.crt", desk.authority.certificate)
    desk.configure(server.url, {}, **{"certificate-authority": "ca.crt"})
    async with desk.connected() as transport:
        await ask(transport)
        desk.write("ca.crt", desk.authority.certificate[:100])
        desk.clock.advance(60)
        assert await ask(transport) == 200


async def test_a_token_is_sent(desk: Desk, server: ApiServer) -> None:
    desk.configure(server.url, {"token": "t-1"})
    async with desk.connected() as transport:
        assert await ask(transport) == 200
    assert server.tokens == ["Bearer t-1"]


async def test_a_username_and_password_are_sent(desk: Desk, server: ApiServer) -> None:
    desk.configure(server.url, {"username": "ann", "password": "p:w"})
    async with desk.connected() as transport:
        assert await ask(transport) == 200
    assert server.tokens == [f"Basic {encoded('ann:p:w')}"]


async def test_a_user_without_credentials_is_anonymous(desk: Desk, server: ApiServer) -> None:
    desk.configure(server.url, {})
    async with desk.connected() as transport:
        assert await ask(transport) == 200
    assert server.tokens == [""]


async def test_credentials_are_not_sent_over_plain_http(desk: Desk, tmp_path: Path) -> None:
    async with ApiServer().serve(None, tmp_path) as plain:
        desk.configure(plain.url, {"token": "t-1"})
        async with desk.connected() as transport:
            assert await ask(transport) == 200
    assert plain.tokens == [""]


async def test_a_token_file_is_read_again_after_a_minute(desk: Desk, server: ApiServer) -> None:
    desk.write("token", "t-1\n")
    desk.configure(server.url, {"tokenFile": "token"})
    async with desk.connected() as transport:
        await ask(transport)
        desk.write("token", "t-2\n")
        desk.clock.advance(59)
        await ask(transport)
        desk.clock.advance(1)
        await ask(transport)
    assert server.tokens == ["Bearer t-1", "Bearer t-1", "Bearer t-2"]


async def test_a_token_file_is_read_again_after_a_401(desk: Desk, server: ApiServer) -> None:
    desk.write("token", "t-1")
    desk.configure(server.url, {"tokenFile": "token"})
    async with desk.connected() as transport:
        await ask(transport)
        desk.write("token", "t-2")
        server.accept_only("t-2")
        write = Request(method="POST", path="/api/v1/nodes", body=b'{"kind":"Node"}')
        assert await ask(transport, write) == 200
    assert server.tokens == ["Bearer t-1", "Bearer t-1", "Bearer t-2"]
    assert [seen.body for seen in server.seen[1:]] == [b'{"kind":"Node"}'] * 2


async def test_a_token_file_that_is_gone_for_a_moment_leaves_us_the_old_token(desk: Desk, server: ApiServer) -> None:
    token = desk.write("token", "t-1")
    desk.configure(server.url, {"tokenFile": "token"})
    async with desk.connected() as transport:
        await ask(transport)
        token.unlink()
        desk.clock.advance(60)
        assert await ask(transport) == 200
    assert server.tokens == ["Bearer t-1", "Bearer t-1"]


@pytest.mark.parametrize("content", ["", " \n", "half\x00"])
async def test_a_token_file_in_the_middle_of_a_rewrite_leaves_us_the_old_token(
    desk: Desk, server: ApiServer, content: str
) -> None:
    desk.write("token", "t-1")
    desk.configure(server.url, {"tokenFile": "token"})
    async with desk.connected() as transport:
        await ask(transport)
        desk.write("token", content)
        desk.clock.advance(60)
        await ask(transport)
        desk.write("token", "t-2")
        await ask(transport)
    assert server.tokens == ["Bearer t-1", "Bearer t-1", "Bearer t-2"], "it is looked at again with the next request"


async def test_a_token_file_that_is_empty_at_first_is_looked_at_again(desk: Desk, server: ApiServer) -> None:
    desk.write("token", "")
    desk.configure(server.url, {"tokenFile": "token"})
    async with desk.connected() as transport:
        with pytest.raises(BadConfig):
            await ask(transport)
        desk.write("token", "t-1")
        assert await ask(transport) == 200


@pytest.mark.parametrize("content", ["", "two\nlines", "\x00"])
async def test_a_token_file_without_a_token_says_so(desk: Desk, server: ApiServer, content: str) -> None:
    desk.write("token", content)
    desk.configure(server.url, {"tokenFile": "token"})
    async with desk.connected() as transport:
        with pytest.raises(BadConfig, match="does not hold a token; write one into it"):
            await ask(transport)


async def test_a_missing_token_file_says_so(desk: Desk, server: ApiServer) -> None:
    desk.configure(server.url, {"tokenFile": "token"})
    async with desk.connected() as transport:
        with pytest.raises(BadConfig, match=r"/token cannot be read: No such file or directory; restore it"):
            await ask(transport)


async def test_a_pod_uses_its_service_account_and_its_renewed_token(desk: Desk, server: ApiServer) -> None:
    folder = a_pod(desk, server, "pod-1")
    async with desk.connected_in_cluster(folder) as transport:
        await ask(transport)
        (folder / "token").write_text("pod-2")
        server.accept_only("pod-2")
        assert await ask(transport) == 200  # refused, read again, accepted
        (folder / "token").write_text("pod-3")
        server.accept_only("pod-2", "pod-3")
        desk.clock.advance(60)
        await ask(transport)
        assert transport.connection.namespace == "defib-system"
    assert server.tokens == ["Bearer pod-1", "Bearer pod-1", "Bearer pod-2", "Bearer pod-3"]


@pytest.mark.parametrize(
    ("user", "advice"),
    [
        ({"token": "t-old"}, "the token of user 'ann' may have expired; log in again, or put a new one there"),
        ({"tokenFile": "token"}, "/token may have expired; write a new one into it"),
        ({"username": "ann", "password": "x"}, "the username or password of user 'ann' is wrong; correct them there"),
        ({}, "there are no credentials; add a user with a token, a client certificate or an exec plugin"),
    ],
    ids=["token", "token file", "password", "nothing"],
)
async def test_expired_credentials_leave_one_line_that_says_what_to_do(
    desk: Desk, server: ApiServer, user: dict[str, Any], advice: str
) -> None:
    desk.write("token", "t-old")
    desk.configure(server.url, user)
    server.accept_only("t-new")
    async with desk.connected() as transport:
        assert await ask(transport) == 401
        line = await said(transport)
    assert line.startswith(f"Unauthorized (context 'prod' of {desk.kubeconfig}): ")
    assert line.endswith(advice)
    assert "\n" not in line
    assert len(server.seen) == 2, "what cannot be renewed is not tried twice"


@pytest.mark.parametrize("page", [b"\xff", b'{"message": "\xff"}', b'{"x":' + b"[" * 100_000])
async def test_a_refusal_that_cannot_be_read_says_what_to_do_all_the_same(
    desk: Desk, server: ApiServer, page: bytes
) -> None:
    desk.configure(server.url, {"token": "t-old"})
    server.knows = lambda _: False
    server.refuses_with = page
    async with desk.connected() as transport:
        assert (await said(transport)).startswith(f"Unauthorized (context 'prod' of {desk.kubeconfig}): the token of")


async def test_an_expired_client_certificate_says_so(desk: Desk, server: ApiServer) -> None:
    ann = desk.authority.issue("ann")
    user = {"client-certificate-data": encoded(ann.certificate), "client-key-data": encoded(ann.key)}
    desk.configure(server.url, user)
    server.knows = lambda _: False
    async with desk.connected() as transport:
        assert "the client certificate of user 'ann' may have expired; fetch a new one" in await said(transport)


async def test_impersonation_is_sent_with_every_request(desk: Desk, server: ApiServer) -> None:
    user = {"token": "t-1", "as": "bob", "as-uid": "u-7", "as-groups": ["ops", "dev"]}
    desk.configure(server.url, user | {"as-user-extra": {"acme.com/project": ["a", "b"]}})
    async with desk.connected() as transport:
        await ask(transport)
    headers = server.seen[0].headers
    assert headers["Impersonate-User"] == ["bob"]
    assert headers["Impersonate-Uid"] == ["u-7"]
    assert headers["Impersonate-Group"] == ["ops", "dev"]
    assert headers["Impersonate-Extra-acme.com%2Fproject"] == ["a", "b"]


async def test_a_context_is_chosen_by_name(desk: Desk, server: ApiServer) -> None:
    cluster = {"server": server.url, "certificate-authority-data": encoded(desk.authority.certificate)}
    desk.write_kubeconfig(
        {
            "current-context": "prod",
            "clusters": [{"name": "east", "cluster": cluster}],
            "users": [{"name": "ann", "user": {"token": "t-ann"}}, {"name": "bob", "user": {"token": "t-bob"}}],
            "contexts": [
                {"name": "prod", "context": {"cluster": "east", "user": "ann"}},
                {"name": "dev", "context": {"cluster": "east", "user": "bob", "namespace": "lab"}},
            ],
        }
    )
    for context in ("dev", None):
        async with desk.connected(context) as transport:
            await ask(transport)
    assert server.tokens == ["Bearer t-bob", "Bearer t-ann"]


async def test_the_files_of_kubeconfig_are_merged(desk: Desk, server: ApiServer) -> None:
    """The cluster and the context are in one file, the user with its token file in another folder."""
    elsewhere = desk.folder / "users"
    elsewhere.mkdir()
    (elsewhere / "token").write_text("t-merged")
    (elsewhere / "config").write_text(yaml.safe_dump({"users": [{"name": "ann", "user": {"tokenFile": "token"}}]}))
    desk.configure(server.url, {})
    first = yaml.safe_load(desk.kubeconfig.read_text())
    desk.write_kubeconfig({name: value for name, value in first.items() if name != "users"})
    desk.environ["KUBECONFIG"] = f"{desk.kubeconfig}:{desk.folder / 'missing'}:{elsewhere / 'config'}"
    async with desk.connected() as transport:
        assert await ask(transport) == 200
    assert server.tokens == ["Bearer t-merged"]

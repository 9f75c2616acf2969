"""Whom we trust, and by which way we get there."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from tempfile import gettempdir

import pytest

from defib.kube.errors import BadConfig, Unreachable
from tests.contract.auth.authority import Authority, Issued
from tests.contract.auth.desk import Desk, ask, encoded
from tests.contract.auth.servers import LOOPBACK, ApiServer, Proxy, server_context


async def the_line(desk: Desk) -> str:
    """What a person reads when the server cannot be reached."""
    async with desk.connected() as transport:
        with pytest.raises(Unreachable) as caught:
            await ask(transport)
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def test_each_ca_of_a_bundle_is_trusted(desk: Desk, server: ApiServer) -> None:
    other = Authority("another CA")
    desk.write("ca.crt", f"# Główne urzędy\n{other.certificate}\n{desk.authority.certificate}")
    desk.configure(server.url, {"token": "t-1"}, **{"certificate-authority": "ca.crt"})
    async with desk.connected() as transport:
        assert await ask(transport) == 200


async def test_a_server_that_our_ca_did_not_sign_is_not_trusted(desk: Desk, server: ApiServer) -> None:
    other = Authority("another CA")
    desk.configure(server.url, {"token": "t-1"}, **{"certificate-authority-data": encoded(other.certificate)})
    line = await the_line(desk)
    assert line.startswith(f"GET /api/v1/nodes: cannot trust {server.url}: its certificate is not signed by a CA that ")
    assert line.endswith(f"context 'prod' of {desk.kubeconfig} names; put the cluster's CA there")
    assert server.seen == []


async def test_an_expired_server_certificate_says_so(desk: Desk, tmp_path: Path) -> None:
    expired = desk.authority.issue("kube-apiserver", LOOPBACK, valid_for=timedelta(days=-1))
    async with ApiServer().serve(expired, tmp_path) as server:
        desk.configure(server.url, {})
        assert "its certificate has expired; renew it on the server" in await the_line(desk)


async def test_a_certificate_for_another_name_says_how_to_set_the_name(desk: Desk, tmp_path: Path) -> None:
    async with ApiServer().serve(desk.authority.issue("x", "kubernetes.internal"), tmp_path) as server:
        desk.configure(server.url, {})
        line = await the_line(desk)
    assert "its certificate is for another name; correct the address in context 'prod'" in line
    assert "set tls-server-name" in line


async def test_tls_server_name_is_the_name_the_certificate_must_have(desk: Desk, tmp_path: Path) -> None:
    async with ApiServer().serve(desk.authority.issue("x", "kubernetes.internal"), tmp_path) as server:
        desk.configure(server.url, {}, **{"tls-server-name": "kubernetes.internal"})
        async with desk.connected() as transport:
            assert await ask(transport) == 200


async def test_insecure_skip_tls_verify_trusts_anybody(desk: Desk, tmp_path: Path) -> None:
    stranger = Authority("a stranger").issue("x", "elsewhere")
    async with ApiServer().serve(stranger, tmp_path) as server:
        desk.configure(server.url, {}, **{"insecure-skip-tls-verify": True})
        async with desk.connected() as transport:
            assert await ask(transport) == 200


async def test_without_a_ca_the_systems_own_are_trusted(desk: Desk, server: ApiServer) -> None:
    desk.configure(server.url, {}, **{"certificate-authority": ""})
    assert "its certificate is not signed by a CA that context" in await the_line(desk)


async def test_a_replaced_ca_file_is_read_again_after_a_failure(desk: Desk, server: ApiServer) -> None:
    desk.write("ca.crt", Authority("the CA before").certificate)
    desk.configure(server.url, {}, **{"certificate-authority": "ca.crt"})
    async with desk.connected() as transport:
        with pytest.raises(Unreachable, match="cannot trust"):
            await ask(transport)
        desk.write("ca.crt", desk.authority.certificate)
        assert await ask(transport) == 200


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_is_used(desk: Desk, server: ApiServer, server_certificate: Issued, scheme: str) -> None:
    context = server_context(server_certificate, desk.folder) if scheme == "https" else None
    async with Proxy().serve(context) as proxy:
        desk.configure(server.url, {"token": "t-1"}, **{"proxy-url": f"{scheme}://{proxy.address}"})
        async with desk.connected() as transport:
            assert await ask(transport) == 200
    assert proxy.tunnels == [server.url.removeprefix("https://")]
    assert server.tokens == ["Bearer t-1"]


async def test_tls_server_name_holds_through_a_proxy(desk: Desk, tmp_path: Path) -> None:
    tls = desk.authority.issue("x", "kubernetes.internal")
    async with ApiServer().serve(tls, tmp_path) as server, Proxy().serve() as proxy:
        names = {"tls-server-name": "kubernetes.internal", "proxy-url": f"http://{proxy.address}"}
        desk.configure(server.url, {}, **names)
        async with desk.connected() as transport:
            assert await ask(transport) == 200


async def test_a_proxy_gets_its_password(desk: Desk, server: ApiServer) -> None:
    async with Proxy(login="ann:s3cret").serve() as proxy:
        desk.configure(server.url, {}, **{"proxy-url": f"http://ann:s3cret@{proxy.address}"})
        async with desk.connected() as transport:
            assert await ask(transport) == 200


async def test_a_proxy_that_refuses_us_says_so(desk: Desk, server: ApiServer) -> None:
    async with Proxy(login="ann:s3cret").serve() as proxy:
        desk.configure(server.url, {}, **{"proxy-url": f"http://ann:wr0ng@{proxy.address}"})
        line = await the_line(desk)
    assert f"cannot reach {server.url} through proxy {proxy.address}: the proxy wants another user name" in line
    assert "wr0ng" not in line


async def test_a_proxy_that_is_down_says_so(desk: Desk, server: ApiServer, unused_port: int) -> None:
    desk.configure(server.url, {}, **{"proxy-url": f"http://{LOOPBACK}:{unused_port}"})
    line = await the_line(desk)
    assert f"through proxy {LOOPBACK}:{unused_port}: connection refused; is the proxy running" in line


async def test_a_proxy_that_is_not_trusted_is_named(desk: Desk, server: ApiServer) -> None:
    stranger = Authority("a stranger").issue("proxy", LOOPBACK)
    async with Proxy().serve(server_context(stranger, desk.folder)) as proxy:
        desk.configure(server.url.replace(LOOPBACK, "localhost"), {}, **{"proxy-url": f"https://{proxy.address}"})
        assert f"cannot trust proxy {proxy.address}: its certificate is not signed" in await the_line(desk)


@pytest.mark.parametrize(
    ("certificate", "key", "line"),
    [
        ("none", "ann.key", "none cannot be read: No such file or directory; restore it or name another"),
        ("ann.crt", "none", "none cannot be read: No such file or directory; restore it or name another"),
        ("text", "ann.key", "the client certificate of {source} is not a PEM certificate; put the right one there"),
        ("ann.crt", "text", "the client key of {source} is not a PEM private key; put the right one there"),
        (
            "ann.crt",
            "bob.key",
            "the client key of {source} does not belong to its certificate; put the right one there",
        ),
        ("ann.crt", "locked", "the client key of {source} is locked with a passphrase; store it without"),
        ("damaged.crt", "ann.key", "the client certificate or key of {source} is damaged"),
    ],
)
async def test_a_key_pair_that_cannot_be_used_is_told_at_once(
    desk: Desk, server: ApiServer, certificate: str, key: str, line: str
) -> None:
    ann, bob = desk.authority.issue("ann"), desk.authority.issue("bob")
    desk.write("ann.crt", ann.certificate)
    desk.write("ann.key", ann.key)
    desk.write("bob.key", bob.key)
    desk.write("damaged.crt", ann.certificate.replace("\nM", "\nA", 1))
    desk.write("text", "hello")
    desk.write("locked", "-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    desk.configure(server.url, {"client-certificate": certificate, "client-key": key})
    with pytest.raises(BadConfig) as caught:
        await desk.opened()
    assert line.format(source=f"context 'prod' of {desk.kubeconfig}") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "hello", "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n"])
async def test_a_ca_that_is_none_is_told_at_once(desk: Desk, server: ApiServer, content: str) -> None:
    desk.write("ca.crt", content)
    desk.configure(server.url, {}, **{"certificate-authority": "ca.crt"})
    with pytest.raises(BadConfig, match="is not a PEM certificate; put the cluster's CA there"):
        await desk.opened()


async def test_no_key_is_left_on_disk(desk: Desk, server: ApiServer) -> None:
    ann = desk.authority.issue("ann")
    user = {"client-certificate-data": encoded(ann.certificate), "client-key-data": encoded(ann.key)}
    desk.configure(server.url, user)
    async with desk.connected() as transport:
        assert await ask(transport) == 200
    assert ann.key not in await asyncio.to_thread(temporary_keys)


def temporary_keys() -> list[str]:
    """Other tests may run beside this one: what they remove under our eyes is gone, too."""
    keys = []
    for path in Path(gettempdir()).glob("defib-*/tls.key"):
        with suppress(FileNotFoundError):
            keys.append(path.read_text())
    return keys

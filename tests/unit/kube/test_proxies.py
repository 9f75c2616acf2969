"""Which proxy the environment asks for, and which servers it spares."""

import pytest

from defib.kube.proxies import proxy_for

PROXY = "http://proxy.corp:3128"


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy"])
def test_the_proxy_of_the_environment_is_used(name: str) -> None:
    assert proxy_for("https://api.example:6443", {name: PROXY}) == PROXY


def test_a_proxy_without_a_scheme_is_an_http_one() -> None:
    assert proxy_for("https://api.example", {"HTTPS_PROXY": "proxy.corp:3128"}) == PROXY


def test_a_plain_server_takes_the_plain_proxy() -> None:
    assert proxy_for("http://api.example", {"HTTP_PROXY": PROXY}) == PROXY
    assert proxy_for("http://api.example", {"HTTPS_PROXY": PROXY}) == ""


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "[::1]"])
def test_this_machine_is_never_reached_through_a_proxy(host: str) -> None:
    assert proxy_for(f"https://{host}:6443", {"HTTPS_PROXY": PROXY}) == ""


@pytest.mark.parametrize(
    ("no_proxy", "host", "spared"),
    [
        ("*", "api.example", True),
        ("api.example", "api.example", True),
        ("example", "api.example", True),
        (".example", "api.example", True),
        (".api.example", "api.example", False),
        ("pi.example", "api.example", False),
        ("other, api.example ", "api.example", True),
        ("API.example", "api.example", True),
        ("api.example:6443", "api.example", True),
        ("api.example:443", "api.example", False),
        ("10.0.0.0/8", "10.96.0.1", True),
        ("10.0.0.0/8", "11.96.0.1", False),
        ("10.96.0.1", "10.96.0.1", True),
        ("10.96.0.1:6443", "10.96.0.1", True),
        ("10.96.0.0/nonsense", "10.96.0.1", False),
        ("fd00::/8", "[fd00::1]", True),
        ("fd00::1", "[fd00::1]", True),
        ("[fd00::1]:6443", "[fd00::1]", True),
        ("", "api.example", False),
    ],
)
def test_no_proxy_spares_what_it_names(no_proxy: str, host: str, spared: bool) -> None:
    chosen = proxy_for(f"https://{host}:6443", {"HTTPS_PROXY": PROXY, "NO_PROXY": no_proxy})
    assert chosen == ("" if spared else PROXY)

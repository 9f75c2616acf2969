"""Which cluster a person means, and what is said when that cannot be known."""

import base64
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from defib.kube.credentials import ClientCertificate, Encoded, Exec, Impersonation, Password, Token, TokenFile, User
from defib.kube.errors import BadConfig
from defib.kube.kubeconfig import Connection, load_connection
from defib.model.secret import Secret


def a_kubeconfig(**parts: Any) -> dict[str, Any]:
    """One context `prod` of user `ann` in cluster `east`; give `user`, `cluster` or whole parts to change it."""
    cluster = {"server": "https://east:6443"} | parts.pop("cluster", {})
    user = parts.pop("user", {"token": "t-1"})
    return {
        "current-context": "prod",
        "clusters": [{"name": "east", "cluster": cluster}],
        "users": [{"name": "ann", "user": user}],
        "contexts": [{"name": "prod", "context": {"cluster": "east", "user": "ann"}}],
    } | parts


def written(path: Path, content: dict[str, Any] | str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def loaded(tmp_path: Path, **parts: Any) -> Connection:
    return load_connection(written(tmp_path / "config", a_kubeconfig(**parts)), None, {})


def refused(kubeconfig: Path | None, context: str | None = None, environ: dict[str, str] | None = None) -> str:
    """The one line that is said."""
    with pytest.raises(BadConfig) as caught:
        load_connection(kubeconfig, context, environ or {}, Path("/nowhere"))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_a_context_gives_a_connection(tmp_path: Path) -> None:
    cluster = {"server": "https://east:6443/", "certificate-authority-data": encoded("CA"), "tls-server-name": "k"}
    connection = loaded(tmp_path, cluster=cluster | {"proxy-url": "http://proxy:3128"})
    assert connection == Connection(
        server="https://east:6443",
        source=f"context 'prod' of {tmp_path / 'config'}",
        ca=Encoded("CA"),
        tls_server_name="k",
        proxy_url=Secret("http://proxy:3128"),
        user=User(name="ann", login=Token(Secret("t-1"))),
    )


def test_the_namespace_is_that_of_the_context(tmp_path: Path) -> None:
    contexts = [{"name": "prod", "context": {"cluster": "east", "namespace": "shop"}}]
    assert loaded(tmp_path, contexts=contexts).namespace == "shop"
    assert loaded(tmp_path).namespace == "default"


@pytest.mark.parametrize(
    ("user", "login"),
    [
        ({}, None),
        ({"token": "t-1"}, Token(Secret("t-1"))),
        ({"tokenFile": "/run/token"}, TokenFile(Path("/run/token"))),
        ({"tokenFile": "/run/token", "token": "t-1"}, TokenFile(Path("/run/token"))),
        ({"username": "ann", "password": "p"}, Password("ann", Secret("p"))),
        ({"username": "ann"}, Password("ann", Secret(""))),
        ({"exec": {"command": "login"}}, Exec(command="login")),
        ({"exec": {"command": "login"}, "token": "t-1"}, Token(Secret("t-1"))),
    ],
)
def test_a_user_logs_in_in_one_way(tmp_path: Path, user: dict[str, Any], login: object) -> None:
    assert loaded(tmp_path, user=user).user.login == login


def test_a_certificate_in_the_file_wins_over_one_beside_it(tmp_path: Path) -> None:
    user = {"client-certificate": "a.crt", "client-key": "a.key", "client-key-data": encoded("KEY")}
    expected = ClientCertificate(tmp_path / "a.crt", Encoded("KEY"))
    assert loaded(tmp_path, user=user).user.certificate == expected


def test_impersonation_is_read(tmp_path: Path) -> None:
    user = {"as": "bob", "as-uid": "7", "as-groups": ["ops"], "as-user-extra": {"team": ["a", "b"]}}
    expected = Impersonation(user="bob", uid="7", groups=("ops",), extra={"team": ("a", "b")})
    assert loaded(tmp_path, user=user).user.impersonate == expected


def test_relative_paths_start_at_the_file_that_has_them(tmp_path: Path) -> None:
    user = {"tokenFile": "run/token", "client-certificate": "../a.crt", "client-key": "/etc/a.key"}
    connection = loaded(tmp_path, user=user, cluster={"certificate-authority": "ca.crt"})
    assert connection.ca == tmp_path / "ca.crt"
    assert connection.user.login == TokenFile(tmp_path / "run/token")
    assert connection.user.certificate == ClientCertificate(tmp_path / ".." / "a.crt", Path("/etc/a.key"))


@pytest.mark.parametrize(
    ("command", "found"), [("bin/login", "{folder}/bin/login"), ("/opt/x", "/opt/x"), ("aws", "aws")]
)
def test_a_command_with_a_path_starts_at_the_file_too(tmp_path: Path, command: str, found: str) -> None:
    login = loaded(tmp_path, user={"exec": {"command": command}}).user.login
    assert login == Exec(command=found.format(folder=tmp_path))


def test_what_we_do_not_know_and_what_is_null_is_passed_over(tmp_path: Path) -> None:
    content = a_kubeconfig(apiVersion="v1", kind="Config", preferences={}, extensions=None)
    content["users"][0]["user"] |= {"tokenFile": None, "exec": None, "new-field": {"a": 1}}
    content["clusters"][0]["cluster"] |= {"extensions": [None, {"name": "x", "extension": {"since": "2030-01-01"}}]}
    connection = load_connection(written(tmp_path / "config", content), None, {})
    assert connection.user.login == Token(Secret("t-1"))


def test_plain_http_gets_no_credentials(tmp_path: Path) -> None:
    assert loaded(tmp_path, cluster={"server": "http://east:8080"}).user == User(name="ann")


def test_the_first_file_that_names_a_thing_wins_and_wins_whole(tmp_path: Path) -> None:
    first = a_kubeconfig(user={"token": "t-first"}, contexts=None)
    second = a_kubeconfig(user={"token": "t-second", "as": "bob"}, cluster={"server": "https://west:6443"})
    second["current-context"] = "other"
    files = [written(tmp_path / "a", first), tmp_path / "missing", written(tmp_path / "b", second)]
    connection = load_connection(None, None, {"KUBECONFIG": os.pathsep.join(map(str, ["", *files]))})
    assert connection.server == "https://east:6443"
    assert connection.user == User(name="ann", login=Token(Secret("t-first")))
    assert connection.source == f"context 'prod' of {tmp_path / 'b'}"


def test_the_flag_is_asked_before_kubeconfig_and_that_before_home(tmp_path: Path) -> None:
    for name in ("flag", "named", "home/.kube/config"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        written(tmp_path / name, a_kubeconfig(user={"token": name}))
    environ = {"HOME": str(tmp_path / "home"), "KUBECONFIG": str(tmp_path / "named")}
    in_pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    found = [
        load_connection(tmp_path / "flag", None, environ | in_pod),
        load_connection(None, None, environ | in_pod),
        load_connection(None, None, environ | in_pod | {"KUBECONFIG": ""}),
    ]
    logins = [Token(Secret(name)) for name in ("flag", "named", "home/.kube/config")]
    assert [connection.user.login for connection in found] == logins


@pytest.mark.parametrize(
    ("host", "port", "server"),
    [
        ("10.0.0.1", "6443", "https://10.0.0.1:6443"),
        ("fd00::1", "443", "https://[fd00::1]:443"),
        ("10.0.0.1", "", "https://10.0.0.1:443"),
    ],
)
def test_a_pod_finds_its_cluster(tmp_path: Path, host: str, port: str, server: str) -> None:
    for name, content in (("token", "t-1"), ("ca.crt", "CA"), ("namespace", "shop\n")):
        (tmp_path / name).write_text(content)
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, "HOME": str(tmp_path)}
    assert load_connection(None, None, environ, tmp_path) == Connection(
        server=server,
        source=f"the service account in {tmp_path}",
        ca=tmp_path / "ca.crt",
        namespace="shop",
        user=User(name="service account", login=TokenFile(tmp_path / "token")),
    )


def test_a_pod_without_a_service_account_says_so() -> None:
    line = refused(None, None, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert line.startswith("this is a pod, but /nowhere/token is missing; give the pod a service account")


def test_a_context_in_a_pod_says_that_there_is_no_kubeconfig() -> None:
    line = refused(None, "prod", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert line == "context 'prod' was asked for, but there is no kubeconfig; name one with --kubeconfig"


def test_nothing_at_all_says_where_a_kubeconfig_may_be(tmp_path: Path) -> None:
    line = refused(None, None, {"HOME": str(tmp_path)})
    assert line.startswith("no kubeconfig found, and this is not a pod in a cluster; name one with --kubeconfig")


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert refused(missing) == f"kubeconfig {missing} does not exist; name another with --kubeconfig"
    line = refused(None, None, {"KUBECONFIG": str(missing)})
    assert line == f"KUBECONFIG names {missing}, which does not exist; correct or unset it, or use --kubeconfig"


def test_a_folder_in_place_of_a_file_says_so(tmp_path: Path) -> None:
    assert refused(tmp_path) == f"{tmp_path} cannot be read: Is a directory; correct its permissions or name another"


CONTEXT = [{"name": "prod", "context": {"cluster": "east", "user": "ann"}}]
BAD_KUBECONFIGS: dict[str, tuple[dict[str, Any] | str, str]] = {
    "broken YAML": ("users: [", "kubeconfig {file} is not valid YAML (line 1, column 9); correct it or fetch it anew"),
    "not text": ("\x01", "kubeconfig {file} is not valid YAML; correct it or fetch it anew"),
    "a text": ("hello", "is not a kubeconfig: Expected object, got str; correct that value"),
    "a list": ("[1]", "is not a kubeconfig: Expected object, got array; correct that value"),
    "strange keys": ({1: 2}, "is not a kubeconfig: Expected str - at key in $; correct that value"),  # type: ignore[dict-item]
    "a number for a token": (
        a_kubeconfig(user={"token": 12345}),
        "is not a kubeconfig: Expected str, got int - at users[0].user.token; correct that value",
    ),
    "no name": (
        a_kubeconfig(users=[{"user": {}}]),
        "is not a kubeconfig: Object missing required field name - at users[0]; correct that value",
    ),
    "bad base64": (
        a_kubeconfig(user={"client-key-data": "%%%"}),
        "is not a kubeconfig: Not valid base64 - at users[0].user.client-key-data; correct that value",
    ),
    "a CA in bad base64": (
        a_kubeconfig(cluster={"certificate-authority-data": "a"}),
        "Not valid base64 - at clusters[0].cluster.certificate-authority-data; correct that value",
    ),
    "an empty file": ("", "kubeconfig {file} has no contexts; add one with `kubectl config set-context`"),
    "no contexts": (a_kubeconfig(contexts=[]), "has no contexts; add one with `kubectl config set-context`"),
    "no current context": (
        a_kubeconfig() | {"current-context": ""},
        "has no current context; choose one with --context: 'prod'",
    ),
    "an unknown current context": (
        a_kubeconfig() | {"current-context": "prdo"},
        "has no context 'prdo'; did you mean 'prod'? it has: 'prod'",
    ),
    "an unlike context": (a_kubeconfig() | {"current-context": "x"}, "has no context 'x'; it has: 'prod'"),
    "many contexts": (
        a_kubeconfig(contexts=[{"name": f"c{n:02}"} for n in range(11)]) | {"current-context": "x"},
        "'c08', 'c09', ...",
    ),
    "no cluster": (
        a_kubeconfig(clusters=[]),
        "context 'prod' of {file} names cluster 'east', which is not there; add it or choose another",
    ),
    "no user": (
        a_kubeconfig(users=[]),
        "context 'prod' of {file} names user 'ann', which is not there; add it or choose another",
    ),
    "no server": (a_kubeconfig(cluster={"server": ""}), "cluster 'east' (context 'prod' of {file}) has no server"),
    "a server without a scheme": (a_kubeconfig(cluster={"server": "east:6443"}), "write it like https://host:6443"),
    "a server with a wrong port": (a_kubeconfig(cluster={"server": "https://east:x"}), "write it like https://host"),
    "a server with a bad name": (a_kubeconfig(cluster={"server": "https://a..b"}), "write it like https://host:6443"),
    "a server with a space": (a_kubeconfig(cluster={"server": "https://a b"}), "write it like https://host:6443"),
    "a server with a query": (a_kubeconfig(cluster={"server": "https://a?b"}), "must be just https://host:port/path"),
    "a server with a login": (a_kubeconfig(cluster={"server": "https://a:b@c"}), "put credentials in a user"),
    "a CA that is not asked": (
        a_kubeconfig(cluster={"certificate-authority": "x", "insecure-skip-tls-verify": True}),
        "has both a certificate authority and insecure-skip-tls-verify; remove one of them",
    ),
    "a SOCKS proxy": (
        a_kubeconfig(cluster={"proxy-url": "socks5://proxy:1080"}),
        "the proxy-url of context 'prod' of {file} is not supported: 'socks5'; use an http or https proxy",
    ),
    "a proxy without a scheme": (a_kubeconfig(cluster={"proxy-url": "proxy"}), "write it like http://host:3128"),
    "a certificate without its key": (
        a_kubeconfig(user={"client-certificate": "a.crt"}),
        "user 'ann' (context 'prod' of {file}) lacks its client-key; a certificate and its key belong together",
    ),
    "a key without its certificate": (a_kubeconfig(user={"client-key": "a.key"}), "lacks its client-certificate"),
    "a token of two lines": (a_kubeconfig(user={"token": "a\nb"}), "paste it again, in one line"),
    "a token and a username": (
        a_kubeconfig(user={"token": "t", "username": "ann"}),
        "has both a token and a username; remove one of them",
    ),
    "a plugin without a command": (
        a_kubeconfig(user={"exec": {"apiVersion": "v1"}}),
        "the exec plugin of user 'ann' (context 'prod' of {file}) has no command; set `command`",
    ),
    "an auth provider": (
        a_kubeconfig(user={"auth-provider": {"name": "gcp"}}),
        "has an auth-provider, which Kubernetes removed; use an exec plugin instead",
    ),
    "groups without a user": (
        a_kubeconfig(user={"as-groups": ["ops"]}),
        "impersonates groups, a uid or extras, but no user; set `as`",
    ),
    "an unsendable name": (a_kubeconfig(user={"as": "a\nb"}), "correct the `as` fields"),
}


@pytest.mark.parametrize(("content", "line"), BAD_KUBECONFIGS.values(), ids=BAD_KUBECONFIGS.keys())
def test_a_bad_kubeconfig_leaves_one_line_that_says_what_to_do(
    tmp_path: Path, content: dict[str, Any] | str, line: str
) -> None:
    file = written(tmp_path / "config", content)
    assert line.format(file=file) in refused(file)


def test_an_unknown_context_on_the_command_line_lists_the_known_ones(tmp_path: Path) -> None:
    contexts = [{"name": name, "context": {"cluster": "east"}} for name in ("prod", "dev")]
    file = written(tmp_path / "config", a_kubeconfig(contexts=contexts))
    line = refused(file, "deb")
    assert line == f"kubeconfig {file} has no context 'deb'; did you mean 'dev'? it has: 'dev', 'prod'"


def test_the_proxy_of_the_environment_is_used_unless_the_cluster_names_its_own(tmp_path: Path) -> None:
    environ = {"HTTPS_PROXY": "http://corp:3128", "NO_PROXY": "west"}
    plain = written(tmp_path / "plain", a_kubeconfig())
    own = written(tmp_path / "own", a_kubeconfig(cluster={"proxy-url": "http://mine:3128"}))
    spared = written(tmp_path / "spared", a_kubeconfig(cluster={"server": "https://west:6443"}))
    proxies = [load_connection(path, None, environ).proxy_url for path in (plain, own, spared)]
    assert proxies == [Secret("http://corp:3128"), Secret("http://mine:3128"), None]


def test_a_proxy_of_the_environment_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    told = refused(written(tmp_path / "config", a_kubeconfig()), environ={"HTTPS_PROXY": "socks5://corp:1080"})
    assert "HTTPS_PROXY" in told
    assert "socks5" in told

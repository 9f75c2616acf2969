"""Where the API server is and who we are there: from --kubeconfig, KUBECONFIG, ~/.kube/config or the pod we run in.

Whatever is wrong ends as one BadConfig line that says what to do. No value that may be secret enters such a line,
nor an exception that a traceback would show below it.
"""

import base64
import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from defib.kube.config_text import BadText, read_text
from defib.kube.credentials import (
    ClientCertificate,
    Encoded,
    Exec,
    Impersonation,
    Login,
    Password,
    Pem,
    Token,
    TokenFile,
    User,
    is_clean_header,
)
from defib.kube.errors import BadConfig
from defib.kube.proxies import proxy_for
from defib.model.secret import Secret

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_EXTENSION = "client.authentication.k8s.io/exec"
CONTEXTS_SHOWN = 10


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """All that is needed to talk to one API server. `source` is what messages call it."""

    server: str
    source: str
    ca: Pem | None = None
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    proxy_url: Secret | None = None  # may hold a password
    namespace: str = "default"
    user: User = User()
    exec_extension: Any = None  # what the kubeconfig wants its exec plugin to know of the cluster


class _Extension(msgspec.Struct, frozen=True):
    name: str = ""
    extension: Any = None


class _Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: Encoded | None = None
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    proxy_url: Secret | None = None
    extensions: tuple[_Extension, ...] = ()


class _User(msgspec.Struct, frozen=True, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: Encoded | None = None
    client_key: str = ""
    client_key_data: Encoded | None = None
    token: Secret | None = None
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: Secret | None = None
    exec: Exec | None = None
    auth_provider: Any = None
    as_: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    as_user_extra: dict[str, tuple[str, ...]] = {}


class _Context(msgspec.Struct, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""
    file: str = ""  # ours: where it stands


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str
    cluster: _Cluster = _Cluster()


class _NamedUser(msgspec.Struct, frozen=True):
    name: str
    user: _User = _User()


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    context: _Context = _Context()


class _File(msgspec.Struct, frozen=True, rename="kebab"):
    current_context: str = ""
    clusters: tuple[_NamedCluster, ...] = ()
    users: tuple[_NamedUser, ...] = ()
    contexts: tuple[_NamedContext, ...] = ()


class _Merged(msgspec.Struct, kw_only=True):
    """Several files as one. The first that names something wins, and wins whole, as in kubectl."""

    files: str
    current_context: str = ""
    clusters: dict[str, _Cluster] = {}
    users: dict[str, _User] = {}
    contexts: dict[str, _Context] = {}

    def add(self, path: Path, file: _File) -> None:
        self.current_context = self.current_context or file.current_context
        folder = path.absolute().parent  # relative paths in a file start where the file is
        for cluster in file.clusters:
            self.clusters.setdefault(cluster.name, _anchored_cluster(cluster.cluster, folder))
        for user in file.users:
            self.users.setdefault(user.name, _anchored_user(user.user, folder))
        for context in file.contexts:
            self.contexts.setdefault(context.name, msgspec.structs.replace(context.context, file=str(path)))


def load_connection(
    kubeconfig: Path | None,
    context: str | None,
    environ: Mapping[str, str],
    service_account: Path = SERVICE_ACCOUNT,
) -> Connection:
    """The connection a person means by these flags and this environment. Reads files: keep it off the event loop."""
    connection = _named_connection(kubeconfig, context, environ, service_account)
    if connection.proxy_url is not None or not (asked := proxy_for(connection.server, environ)):
        return connection
    proxy = _proxy(Secret(asked), "the environment (HTTPS_PROXY, HTTP_PROXY)")
    return msgspec.structs.replace(connection, proxy_url=proxy)


def _named_connection(
    kubeconfig: Path | None, context: str | None, environ: Mapping[str, str], service_account: Path
) -> Connection:
    files = _read_files(kubeconfig, environ)
    if files:
        merged = _Merged(files=", ".join(str(path) for path in files))
        for path, content in files.items():
            merged.add(path, _parse(path, content))
        return _connection(merged, context or merged.current_context)
    if not environ.get("KUBERNETES_SERVICE_HOST"):
        raise BadConfig(
            "no kubeconfig found, and this is not a pod in a cluster; "
            "name one with --kubeconfig or KUBECONFIG, or put it at ~/.kube/config"
        )
    if context:
        raise BadConfig(f"context {context!r} was asked for, but there is no kubeconfig; name one with --kubeconfig")
    return _in_cluster(environ, service_account)


def _read_files(kubeconfig: Path | None, environ: Mapping[str, str]) -> dict[Path, bytes]:
    if kubeconfig is not None:
        content = _content(kubeconfig)
        if content is None:
            raise BadConfig(f"kubeconfig {kubeconfig} does not exist; name another with --kubeconfig")
        return {kubeconfig: content}
    named = [Path(name) for name in environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    if not named and (home := environ.get("HOME")):
        content = _content(Path(home, ".kube", "config"))
        return {} if content is None else {Path(home, ".kube", "config"): content}
    found = {path: content for path in named if (content := _content(path)) is not None}
    if named and not found:
        names = ", ".join(map(str, named))
        raise BadConfig(f"KUBECONFIG names {names}, which does not exist; correct or unset it, or use --kubeconfig")
    return found


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadConfig(f"{path} cannot be read: {error.strerror}; correct its permissions or name another") from None


def _parse(path: Path, content: bytes) -> _File:
    try:
        return msgspec.convert(read_text(content) or {}, _File, dec_hook=_decode)
    except BadText as error:
        raise BadConfig(f"kubeconfig {path} {error}") from None
    except msgspec.ValidationError as error:
        said = str(error).replace("`", "").replace("$.", "").replace("\n", " ")
        raise BadConfig(f"kubeconfig {path} is not a kubeconfig: {said}; correct that value") from None


def _decode(kind: type, value: object) -> Secret:
    if not isinstance(value, str):
        raise TypeError(f"Expected `str`, got `{type(value).__name__}`")
    if kind is not Encoded:
        return Secret(value)
    try:
        # PEM is ASCII; what else there is, is comment.
        return Encoded(base64.b64decode("".join(value.split()), validate=True).decode("ascii", "ignore"))
    except ValueError:
        raise ValueError("Not valid base64") from None


def _anchored_cluster(cluster: _Cluster, folder: Path) -> _Cluster:
    return msgspec.structs.replace(cluster, certificate_authority=_anchored(cluster.certificate_authority, folder))


def _anchored_user(user: _User, folder: Path) -> _User:
    program = user.exec
    if program and os.sep in program.command:  # a bare name is looked up in PATH instead
        program = msgspec.structs.replace(program, command=_anchored(program.command, folder))
    return msgspec.structs.replace(
        user,
        client_certificate=_anchored(user.client_certificate, folder),
        client_key=_anchored(user.client_key, folder),
        token_file=_anchored(user.token_file, folder),
        exec=program,
    )


def _anchored(name: str, folder: Path) -> str:
    return str(folder / name) if name else ""


def _connection(merged: _Merged, name: str) -> Connection:
    context = _chosen(merged, name)
    source = f"context {name!r} of {context.file}"
    cluster = merged.clusters.get(context.cluster)
    if cluster is None:
        raise BadConfig(f"{source} names cluster {context.cluster!r}, which is not there; add it or choose another")
    user = merged.users.get(context.user)
    if user is None and context.user:
        raise BadConfig(f"{source} names user {context.user!r}, which is not there; add it or choose another")
    server = _server(cluster.server, f"cluster {context.cluster!r} ({source})")
    ca = _pem(cluster.certificate_authority_data, cluster.certificate_authority)
    if ca and cluster.insecure_skip_tls_verify:
        raise BadConfig(f"{source} has both a certificate authority and insecure-skip-tls-verify; remove one of them")
    # As in kubectl: over plain HTTP anybody could read them, so credentials are not sent at all.
    is_private = server.startswith("https:")
    return Connection(
        server=server,
        source=source,
        ca=ca,
        tls_server_name=cluster.tls_server_name,
        insecure_skip_tls_verify=cluster.insecure_skip_tls_verify,
        proxy_url=_proxy(cluster.proxy_url, source),
        namespace=context.namespace or "default",
        user=_user(context.user, user, source) if user and is_private else User(name=context.user),
        exec_extension=next((each.extension for each in cluster.extensions if each.name == EXEC_EXTENSION), None),
    )


def _chosen(merged: _Merged, name: str) -> _Context:
    known = sorted(merged.contexts)
    if not known:
        raise BadConfig(f"kubeconfig {merged.files} has no contexts; add one with `kubectl config set-context`")
    listed = ", ".join(map(repr, known[:CONTEXTS_SHOWN])) + (", ..." if len(known) > CONTEXTS_SHOWN else "")
    if not name:
        raise BadConfig(f"kubeconfig {merged.files} has no current context; choose one with --context: {listed}")
    if name not in merged.contexts:
        close = difflib.get_close_matches(name, known, n=1)
        meant = f"did you mean {close[0]!r}? " if close else ""
        raise BadConfig(f"kubeconfig {merged.files} has no context {name!r}; {meant}it has: {listed}")
    return merged.contexts[name]


def _server(address: str, where: str) -> str:
    if not address:
        raise BadConfig(f"{where} has no server address; set `server`")
    parts = _url_parts(address)
    if parts is None or parts.scheme not in ("http", "https"):
        raise BadConfig(f"the server address of {where} is not a URL; write it like https://host:6443")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise BadConfig(f"the server address of {where} must be just https://host:port/path; put credentials in a user")
    return address.rstrip("/")


def _proxy(url: Secret | None, source: str) -> Secret | None:
    if not url:
        return None
    parts = _url_parts(url.reveal())
    if parts is None:
        raise BadConfig(f"the proxy-url of {source} is not a URL; write it like http://host:3128")
    if parts.scheme not in ("http", "https"):
        raise BadConfig(f"the proxy-url of {source} is not supported: {parts.scheme!r}; use an http or https proxy")
    return url


def _url_parts(url: str) -> SplitResult | None:
    """None when it is no address that one could connect to."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")
        is_whole = bool(host) and parts.port != 0
    except ValueError:
        return None
    return parts if is_whole and is_clean_header(url) and " " not in url else None


def _pem(data: Encoded | None, file: str) -> Pem | None:
    return data or (Path(file) if file else None)


def _user(name: str, user: _User, source: str) -> User:
    who = f"user {name!r} ({source})"
    if user.auth_provider is not None:
        raise BadConfig(f"{who} has an auth-provider, which Kubernetes removed; use an exec plugin instead")
    return User(
        name=name,
        login=_login(user, who),
        certificate=_certificate(user, who),
        impersonate=_impersonation(user, who),
    )


def _login(user: _User, who: str) -> Login:
    has_token = bool(user.token or user.token_file)
    if user.username and has_token:
        raise BadConfig(f"{who} has both a token and a username; remove one of them")
    if user.token_file:
        return TokenFile(Path(user.token_file))
    if user.token:
        if not is_clean_header(user.token.reveal()):
            raise BadConfig(f"the token of {who} has characters that no token can have; paste it again, in one line")
        return Token(user.token)
    if user.username:
        return Password(user.username, user.password or Secret(""))
    if user.exec and not user.exec.command:
        raise BadConfig(f"the exec plugin of {who} has no command; set `command`")
    return user.exec


def _certificate(user: _User, who: str) -> ClientCertificate | None:
    certificate = _pem(user.client_certificate_data, user.client_certificate)
    key = _pem(user.client_key_data, user.client_key)
    if not certificate and not key:
        return None
    if not certificate or not key:
        missing = "client-key" if certificate else "client-certificate"
        raise BadConfig(f"{who} lacks its {missing}; a certificate and its key belong together")
    return ClientCertificate(certificate, key)


def _impersonation(user: _User, who: str) -> Impersonation | None:
    values = [user.as_, user.as_uid, *user.as_groups, *(v for each in user.as_user_extra.values() for v in each)]
    if not all(map(is_clean_header, values)):
        raise BadConfig(f"{who} impersonates with characters that cannot be sent; correct the `as` fields")
    if not user.as_ and (any(values) or user.as_user_extra):
        raise BadConfig(f"{who} impersonates groups, a uid or extras, but no user; set `as`")
    if not user.as_:
        return None
    return Impersonation(user=user.as_, uid=user.as_uid, groups=user.as_groups, extra=user.as_user_extra)


def _in_cluster(environ: Mapping[str, str], service_account: Path) -> Connection:
    host = environ["KUBERNETES_SERVICE_HOST"]
    port = environ.get("KUBERNETES_SERVICE_PORT") or "443"
    source = f"the service account in {service_account}"
    for needed in ("token", "ca.crt"):
        if _content(service_account / needed) is None:
            raise BadConfig(
                f"this is a pod, but {service_account / needed} is missing; "
                "give the pod a service account and do not set automountServiceAccountToken: false"
            )
    namespace = (_content(service_account / "namespace") or b"").decode("ascii", "ignore").strip()
    return Connection(
        server=_server(f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}", source),
        source=source,
        ca=service_account / "ca.crt",
        namespace=namespace or "default",
        user=User(name="service account", login=TokenFile(service_account / "token")),
    )

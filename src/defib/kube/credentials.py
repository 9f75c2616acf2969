"""Who we are to the API server: in the headers of a request, and in the TLS below it.

Tokens and certificates in files are replaced by others while we run; they are read again in time. `Secret` keeps
what must not be seen out of logs, errors and reprs.
"""

import asyncio
import os
import ssl
import tempfile
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import msgspec

from defib.clock import Clock
from defib.kube.errors import BadConfig
from defib.model.secret import Secret

RECHECK_SECONDS = 60.0
CERTIFICATE_BEGINS = "-----BEGIN CERTIFICATE-----"
HEADER_TOKEN = "!#$&'*+-.^_`|~"  # noqa: S105 - the punctuation that a header's name may have, RFC 9110


class Encoded(Secret):
    """The same, written in base64 in the file."""


Pem = Secret | Path
"""PEM text: in the kubeconfig itself, or in a file that may be replaced while we run."""


class EnvironmentVariable(msgspec.Struct, frozen=True):
    name: str
    value: Secret


class Exec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A program that prints credentials."""

    command: str = ""
    args: tuple[Secret, ...] = ()
    env: tuple[EnvironmentVariable, ...] = ()
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class Token(msgspec.Struct, frozen=True):
    token: Secret


class TokenFile(msgspec.Struct, frozen=True):
    path: Path


class Password(msgspec.Struct, frozen=True):
    username: str
    password: Secret


Login = Token | TokenFile | Password | Exec | None


class ClientCertificate(msgspec.Struct, frozen=True):
    certificate: Pem
    key: Pem


class Impersonation(msgspec.Struct, frozen=True, kw_only=True):
    """Whom the API server shall take us for."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class User(msgspec.Struct, frozen=True, kw_only=True):
    name: str = ""
    login: Login = None
    certificate: ClientCertificate | None = None
    impersonate: Impersonation | None = None


class KeyPair(msgspec.Struct, frozen=True):
    """A certificate and its key, as PEM."""

    certificate: Secret
    key: Secret


class Presented(msgspec.Struct, frozen=True, kw_only=True):
    """What one request shows to the server. Two that are equal would get the same answer."""

    authorization: Secret | None = None
    key_pair: KeyPair | None = None


class Source(Protocol):
    """Where a login's credentials come from."""

    async def current(self) -> Presented: ...

    async def renewed(self, refused: Presented, /) -> Presented:
        """After a 401: the newest there is, which may be the same."""
        ...

    def waits_for(self) -> str:
        """What has kept the last request from being sent; empty when nothing has."""
        ...


class Fixed:
    """Credentials that stand in the kubeconfig itself."""

    def __init__(self, presented: Presented) -> None:
        self._presented = presented

    async def current(self) -> Presented:
        return self._presented

    async def renewed(self, _refused: Presented) -> Presented:
        return self._presented

    def waits_for(self) -> str:
        return ""


class WatchedText:
    """A text that is given once, or is in a small file that somebody else replaces.

    A file is read again once a minute, or when asked to. One that is not there or not whole is being replaced: what
    it held before is good for a while, and the next request looks again.
    """

    def __init__(
        self, origin: Secret | Path, clock: Clock, *, is_whole: Callable[[str], object] = lambda text: text.strip()
    ) -> None:
        self._origin = origin
        self._clock = clock
        self._is_whole = is_whole
        self._content: Secret | None = None
        self._read_at = 0.0

    async def content(self, *, now: bool = False) -> Secret:
        if isinstance(self._origin, Secret):
            return self._origin
        age = self._clock.monotonic() - self._read_at
        if self._content is None or now or age >= RECHECK_SECONDS:
            found = await asyncio.to_thread(self._read, self._origin)
            if not self._is_whole(found.reveal()):
                return found if self._content is None else self._content
            self._content = found
            self._read_at = self._clock.monotonic()
        return self._content

    def _read(self, path: Path) -> Secret:
        try:
            return Secret(path.read_bytes().decode("ascii", "ignore"))
        except OSError as error:
            if self._content is not None:
                return Secret("")
            raise BadConfig(f"{path} cannot be read: {error.strerror}; restore it or name another") from None


class FromTokenFile:
    """The token in a file, as the kubelet renews it in a pod."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._file = WatchedText(path, clock, is_whole=_is_token)

    async def current(self) -> Presented:
        return self._presented(await self._file.content())

    async def renewed(self, _refused: Presented) -> Presented:
        return self._presented(await self._file.content(now=True))

    def waits_for(self) -> str:
        return ""

    def _presented(self, content: Secret) -> Presented:
        if not _is_token(content.reveal()):
            raise BadConfig(f"{self._path} does not hold a token; write one into it, in one line")
        return bearer(Secret(content.reveal().strip()))


class Credentials:
    """All that a user's requests carry: login, client certificate, impersonation."""

    def __init__(self, user: User, source: Source, clock: Clock) -> None:
        self._source = source
        self._certificate = WatchedText(user.certificate.certificate, clock) if user.certificate else None
        self._key = WatchedText(user.certificate.key, clock) if user.certificate else None
        self._impersonation = _impersonation_headers(user.impersonate)
        self.advice = _advice(user)

    async def current(self) -> Presented:
        return await self._completed(await self._source.current())

    async def renewed(self, refused: Presented) -> Presented:
        """After a 401: the newest there is. When it equals what was refused, there is no use in asking again."""
        return await self._completed(await self._source.renewed(refused), now=True)

    async def own_key_pair(self, *, now: bool = False) -> KeyPair | None:
        """The user's own certificate; one from an exec plugin is not among them."""
        if self._certificate is None or self._key is None:
            return None
        return KeyPair(await self._certificate.content(now=now), await self._key.content(now=now))

    def waits_for(self) -> str:
        """What has kept the last request from being sent; empty when nothing has."""
        return self._source.waits_for()

    def headers(self, presented: Presented) -> list[tuple[str, str]]:
        if presented.authorization is None:
            return self._impersonation
        return [("Authorization", presented.authorization.reveal()), *self._impersonation]

    async def _completed(self, presented: Presented, *, now: bool = False) -> Presented:
        if presented.key_pair or self._certificate is None:
            return presented
        return Presented(authorization=presented.authorization, key_pair=await self.own_key_pair(now=now))


def bearer(token: Secret) -> Presented:
    return Presented(authorization=Secret(f"Bearer {token.reveal()}"))


def basic(login: Password) -> Presented:
    joined = f"{login.username}:{login.password.reveal()}".encode()
    return Presented(authorization=Secret(f"Basic {b64encode(joined).decode()}"))


def is_clean_header(text: str) -> bool:
    """Whether it can be sent as (part of) an HTTP header: a line break in a token would start another header."""
    return text.isascii() and text.isprintable()


def _is_token(text: str) -> bool:
    token = text.strip()
    return bool(token) and is_clean_header(token)


def tls_context(connection_source: str, ca: Secret | None, key_pair: KeyPair | None, *, verify: bool) -> ssl.SSLContext:
    """Whom we trust and what we show. Slow, and it uses files: keep it off the event loop."""
    bad_ca = BadConfig(
        f"the certificate authority of {connection_source} is not a PEM certificate; put the cluster's CA there"
    )
    if ca is not None and CERTIFICATE_BEGINS not in ca.reveal():
        raise bad_ca  # checked here, since an empty text would mean that the system's CAs are trusted
    try:
        context = ssl.create_default_context(cadata=ca.reveal() if ca else None)
    except ssl.SSLError:
        raise bad_ca from None
    # As Go does: an intermediate may be the anchor, and a CA made by kubeadm's older relatives is good enough.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if key_pair:
        _load_key_pair(context, key_pair, connection_source)
    return context


def _load_key_pair(context: ssl.SSLContext, key_pair: KeyPair, connection_source: str) -> None:
    certificate, key = key_pair.certificate.reveal(), key_pair.key.reveal()
    whose = f"of {connection_source}"
    if CERTIFICATE_BEGINS not in certificate:
        raise BadConfig(f"the client certificate {whose} is not a PEM certificate; put the right one there")
    if "PRIVATE KEY-----" not in key:
        raise BadConfig(f"the client key {whose} is not a PEM private key; put the right one there")
    if "ENCRYPTED" in key:
        raise BadConfig(f"the client key {whose} is locked with a passphrase; store it without (`openssl pkey`)")
    try:
        # OpenSSL reads a key pair from files only; these are ours alone and are gone at once.
        with tempfile.TemporaryDirectory(prefix="defib-") as folder:
            certificate_file, key_file = Path(folder, "tls.crt"), Path(folder, "tls.key")
            _write_private(certificate_file, certificate)
            _write_private(key_file, key)
            # An empty passphrase, lest OpenSSL ask for one on the terminal.
            context.load_cert_chain(certificate_file, key_file, password="")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise BadConfig(
                f"the client key {whose} does not belong to its certificate; put the right one there"
            ) from None
        raise BadConfig(f"the client certificate or key {whose} is damaged ({error.reason}); fetch it anew") from None
    except OSError as error:
        raise BadConfig(f"no temporary folder for the client key {whose}: {error.strerror}; set TMPDIR") from None


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def _impersonation_headers(wanted: Impersonation | None) -> list[tuple[str, str]]:
    if wanted is None:
        return []
    headers = [("Impersonate-User", wanted.user)]
    headers += [("Impersonate-Uid", wanted.uid)] if wanted.uid else []
    headers += [("Impersonate-Group", group) for group in wanted.groups]
    for key, values in wanted.extra.items():
        headers += [(f"Impersonate-Extra-{quote(key, safe=HEADER_TOKEN)}", value) for value in values]
    return headers


def _advice(user: User) -> str:
    """What to do when the server does not know us."""
    match user.login:
        case Token():
            return f"the token of user {user.name!r} may have expired; log in again, or put a new one there"
        case TokenFile(path):
            return f"the token in {path} may have expired; write a new one into it"
        case Password():
            return f"the username or password of user {user.name!r} is wrong; correct them there"
        case Exec(command=command):
            return f"what {command!r} gives is not accepted; run it by hand to see whether you must log in again"
        case None if user.certificate:
            return f"the client certificate of user {user.name!r} may have expired; fetch a new one"
    return "there are no credentials; add a user with a token, a client certificate or an exec plugin"

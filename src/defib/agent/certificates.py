"""Whom agents believe: whoever shows a certificate of their own authority, for the name that all agents share.

The files are those of a mounted Secret. They are replaced while we run; what is new counts for the next connection.
TLS 1.3 only: there, whoever answers signs the talk with the key of its certificate, so that an answer can neither be made
up nor kept for later.
"""

import ssl
from pathlib import Path

import msgspec

from defib.agent.trouble import CannotRun

NAME = "defib-agent"
AUTHORITY, CERTIFICATE, KEY = "ca.crt", "tls.crt", "tls.key"


class BadCertificates(CannotRun):
    """They are not there, or do not belong together."""


class Contexts(msgspec.Struct, frozen=True):
    asking: ssl.SSLContext
    answering: ssl.SSLContext


class Certificates:
    """Reads files: small ones, and only when they have changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made_of: tuple[tuple[int, int], ...] = ()
        self._contexts: Contexts | None = None

    def current(self) -> Contexts:
        """The same object for as long as the files are the same. Raises BadCertificates when there never were good ones."""
        try:
            made_of = tuple(self._stamp(name) for name in (AUTHORITY, CERTIFICATE, KEY))
            if self._contexts is None or made_of != self._made_of:
                self._contexts = Contexts(
                    self._context(ssl.PROTOCOL_TLS_CLIENT), self._context(ssl.PROTOCOL_TLS_SERVER)
                )
                self._made_of = made_of
        except (OSError, ssl.SSLError) as error:
            if self._contexts is None:
                raise BadCertificates(
                    f"{self._folder} must hold {AUTHORITY}, {CERTIFICATE} and {KEY}, as PEM, that belong together: {error}"
                ) from error
        assert self._contexts is not None, "made above, or told why not"
        return self._contexts

    def _stamp(self, name: str) -> tuple[int, int]:
        found = (self._folder / name).stat()
        return found.st_ino, found.st_mtime_ns

    def _context(self, side: int) -> ssl.SSLContext:
        context = ssl.SSLContext(side)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(self._folder / AUTHORITY)
        context.load_cert_chain(self._folder / CERTIFICATE, self._folder / KEY, password="")
        return context

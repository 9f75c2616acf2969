"""Logging in at the API server, for every transport: where credentials come from, TLS, and what a refusal says.

Files behind them are replaced while we run, one after the other. What is only half replaced never stops us: what was good
before is used until the rest is there.
"""

import asyncio
import ssl

import msgspec

from defib.clock import Clock
from defib.kube.credentials import (
    RECHECK_SECONDS,
    Exec,
    Fixed,
    FromTokenFile,
    KeyPair,
    Password,
    Presented,
    Source,
    Token,
    TokenFile,
    WatchedText,
    basic,
    bearer,
    tls_context,
)
from defib.kube.errors import UNREADABLE, BadConfig, Status
from defib.kube.kubeconfig import Connection
from defib.model.secret import Secret

UNAUTHORIZED = 401

_Parts = tuple[Secret | None, KeyPair | None]  # the CA, and what we show


def source_of(connection: Connection, clock: Clock) -> Source | Exec:
    """Where its login comes from. Not everybody runs programs for it: such a one is given as it is."""
    match connection.user.login:
        case Token(token):
            return Fixed(bearer(token))
        case TokenFile(path):
            return FromTokenFile(path, clock)
        case Password() as login:
            return Fixed(basic(login))
        case Exec() as program:
            return program
        case None:
            return Fixed(Presented())


class Tls:
    """The TLS settings for new connections, made anew when a file behind them was replaced."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._ca = WatchedText(connection.ca, clock) if connection.ca else None
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()
        self._made_of: _Parts = (None, None)
        self._context: ssl.SSLContext | None = None
        self._failed: tuple[_Parts, float] | None = None
        self._is_in_doubt = False

    def doubt(self) -> None:
        """The server's certificate was not accepted: perhaps its CA was replaced, so look before the next attempt."""
        self._is_in_doubt = True

    async def context(self, key_pair: KeyPair | None) -> ssl.SSLContext:
        """The same one for as long as nothing was replaced."""
        async with self._one_at_a_time:
            ca = await self._ca.content(now=self._is_in_doubt) if self._ca else None
            self._is_in_doubt = False
            parts = (ca, key_pair)
            if self._context is None or (self._made_of != parts and self._may_try(parts)):
                self._context = await self._make(parts)
            return self._context

    async def _make(self, parts: _Parts) -> ssl.SSLContext:
        verify = not self._connection.insecure_skip_tls_verify
        try:
            made = await asyncio.to_thread(tls_context, self._connection.source, *parts, verify=verify)
        except BadConfig:
            if self._context is None:
                raise
            self._failed = (parts, self._clock.monotonic())
            return self._context  # in the middle of a replacement: the certificate is new and the key is not yet
        self._made_of = parts
        return made

    def _may_try(self, parts: _Parts) -> bool:
        """What failed is tried again after a while: perhaps it was not the files, but the disk was full."""
        if self._failed is None or self._failed[0] != parts:
            return True
        return self._clock.monotonic() - self._failed[1] >= RECHECK_SECONDS


def explained(body: bytes, source: str, advice: str) -> bytes:
    """A 401 that came even with the newest credentials: the server's own words, and what to do."""
    try:
        status = msgspec.json.decode(body, type=Status)
    except UNREADABLE:
        status = Status(reason="Unauthorized")  # a proxy's page explains nothing and may hold anything
    said = status.message or "Unauthorized"
    return msgspec.json.encode(msgspec.structs.replace(status, message=f"{said} ({source}): {advice}"))

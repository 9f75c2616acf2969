"""The same API server, asked in somebody else's name: with the token that they showed, and nothing of our own.

Neither our certificate nor our token nor whom we act for goes along, so what the server allows is theirs to do.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from defib.clock import Clock
from defib.kube.client import Client
from defib.kube.credentials import Token, User
from defib.kube.http import open_transport
from defib.kube.kubeconfig import Connection
from defib.model.secret import Secret

SHOWN = "the token that was shown"


@asynccontextmanager
async def with_token(connection: Connection, token: Secret, clock: Clock) -> AsyncIterator[Client]:
    """Raises BadConfig when the certificates at hand cannot be used."""
    user = User(name=SHOWN, login=Token(token))
    theirs = msgspec.structs.replace(connection, user=user, source=SHOWN, exec_extension=None)
    client = Client(await open_transport(theirs, {}, clock), clock, repeats_throttled_writes=True)
    try:
        yield client
    finally:
        await client.close()

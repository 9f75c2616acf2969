"""One person, one authority, one API server; and a blocked event loop fails the test."""

import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

from tests.contract.auth.authority import Authority, Issued
from tests.contract.auth.desk import Desk
from tests.contract.auth.servers import LOOPBACK, ApiServer


@pytest.fixture(autouse=True)
def _the_loop_is_never_blocked() -> Iterator[None]:
    with blockbuster_ctx("defib"):
        yield


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority("cluster CA")


@pytest.fixture(scope="session")
def server_certificate(authority: Authority) -> Issued:
    return authority.issue("kube-apiserver", LOOPBACK)


@pytest.fixture
def desk(tmp_path: Path, authority: Authority) -> Desk:
    return Desk(tmp_path, authority)


@pytest.fixture
async def server(tmp_path: Path, authority: Authority, server_certificate: Issued) -> AsyncIterator[ApiServer]:
    async with ApiServer().serve(server_certificate, tmp_path, clients=authority.certificate) as running:
        yield running


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A port that nobody listens at, and that nobody else can take in the meantime."""
    with socket.socket() as bound:
        bound.bind((LOOPBACK, 0))
        yield bound.getsockname()[1]

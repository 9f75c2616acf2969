"""Both stores, one after the other, each with three replicas that go on from test to test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed.leash import Leash
from tests.contract.tooz.replicas import LEADS_AGAIN_WITHIN, Replicas, eventually
from tests.contract.tooz.servers import Server, redis, zookeeper

STARTS_WITHIN = 15.0


@pytest.fixture(scope="module")
def leash() -> Iterator[Leash]:
    leash = Leash()
    yield leash
    leash.close()


@pytest.fixture(scope="module", params=["redis", "zookeeper"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, leash: Leash) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp(request.param)
    program: Path = request.getfixturevalue("redis_server" if request.param == "redis" else "zookeeper")
    command: Callable[[int, Path], list[str]] = redis(program) if request.param == "redis" else zookeeper
    server = Server(request.param, command, directory, leash)
    yield server
    server.kill()


@pytest.fixture(scope="module")
def all_replicas(store: Server, tmp_path_factory: pytest.TempPathFactory, leash: Leash) -> Iterator[Replicas]:
    replicas = Replicas(store.url, tmp_path_factory.mktemp("replicas"), leash)
    yield replicas
    replicas.kill()


@pytest.fixture
async def replicas(store: Server, all_replicas: Replicas) -> Replicas:
    """Three, of which one leads."""
    all_replicas.complete()
    await eventually(store.answers, all_replicas, within=STARTS_WITHIN)
    await eventually(all_replicas.agree, all_replicas, within=LEADS_AGAIN_WITHIN)
    return all_replicas

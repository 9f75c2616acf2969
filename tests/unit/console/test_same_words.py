"""What `defib why` says of a node is what its status says, word for word, and what the event said."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from defib.app import Operator
from defib.config import Settings
from defib.console.timeline import EVENTS
from defib.console.why import answer
from defib.decide.answers.told import CheckTold
from defib.kube.client import Client
from defib.rules_of import rules_of
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run
from defib.telemetry.metrics import Metrics
from tests.unit.console.desk import CHECKS, a_server, add_check, add_lock, add_nodes

SETTINGS = Settings(default_check="off", upgrade_signals=())
PREFIX = "[remediation] "

Scene = Callable[[ApiServer, Client, VirtualClock], Awaitable[None]]


def with_an_operator(prepare: Callable[[ApiServer], None], scene: Scene) -> None:
    async def main(clock: VirtualClock) -> None:
        server = a_server(clock)
        prepare(server)
        operator = Operator(InProcess(server, client="operator"), clock, SETTINGS, Metrics())
        async with asyncio.TaskGroup() as group:
            running = group.create_task(operator.run())
            await asyncio.sleep(20)  # virtual
            await scene(server, Client(InProcess(server, client="ann"), clock), clock)
            running.cancel()

    run(main, limit=timedelta(hours=1))


async def said_by_why(client: Client, clock: VirtualClock) -> CheckTold:
    (told,) = (await answer("n1", client, clock, rules_of(SETTINGS))).checks
    return told


def said_by_status(server: ApiServer) -> str:
    check = server.store.get(CHECKS, "workers")
    assert check is not None
    (entry,) = [one for one in check.object["status"]["unhealthyNodes"] if one["name"] == "n1"]
    return str(entry["message"])


async def said_by_events(client: Client) -> list[str]:
    return [one.message.removeprefix(PREFIX) for one in (await client.list_all(EVENTS)).items]


def prepared(ill: tuple[str, ...] = ("n1",), *, locked: bool = False, **spec: Any) -> Callable[[ApiServer], None]:
    def prepare(server: ApiServer) -> None:
        add_nodes(server, ill=ill)
        add_check(server, **spec)
        if locked:
            add_lock(server, "n1", "somebody")

    return prepare


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (prepared(mode="Approve"), "waits for a person's approval: defib approve n1"),
        (prepared(locked=True), "somebody works on the node and holds its lock until 00:09:00 UTC"),
    ],
)
def test_of_a_node_that_is_held_back(prepare: Callable[[ApiServer], None], words: str) -> None:
    async def scene(server: ApiServer, client: Client, clock: VirtualClock) -> None:
        told = await said_by_why(client, clock)
        assert told.message == said_by_status(server)
        assert told.message == words
        assert f"node n1: {words}" in await said_by_events(client)

    with_an_operator(prepare, scene)


@pytest.mark.parametrize(
    "prepare",
    [
        prepared(ill=("n1", "n2", "n3"), minHealthy="80%"),
        prepared(pauseRequests=["storage maintenance"]),
        prepared(mode="Observe"),
    ],
    ids=["threshold", "paused", "observe"],
)
def test_of_a_node_whose_whole_check_is_held_back(prepare: Callable[[ApiServer], None]) -> None:
    """The event about that is one about the check, since it is true of every node of it."""

    async def scene(server: ApiServer, client: Client, clock: VirtualClock) -> None:
        told = await said_by_why(client, clock)
        assert told.state == "Unhealthy"
        assert told.message == said_by_status(server)
        assert told.message in await said_by_events(client)

    with_an_operator(prepare, scene)


def test_of_a_node_that_is_being_remediated() -> None:
    async def scene(server: ApiServer, client: Client, clock: VirtualClock) -> None:
        told = await said_by_why(client, clock)
        assert told.message == said_by_status(server) == "FooRemediation ns/n1 is at work"
        assert "FooRemediation ns/n1 was created for node n1" in await said_by_events(client)
        assert told.status is not None
        assert told.status.of_node == told.message

    with_an_operator(prepared(), scene)

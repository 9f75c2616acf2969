"""The operator as a whole: when an outage is over it says that it waits, and begins only then."""

import asyncio
from typing import Any

from defib.decide.settling import LONGEST_SECONDS, SHORTEST_SECONDS
from defib.kube.client import Client
from defib.kube.kinds import NODE_HEALTH_CHECKS
from defib.simulate.server import ApiServer
from tests.unit.test_last_guards import FOOS, operate

SETTLES = "has to stay clear for"


def turns(server: ApiServer, ready: str) -> None:
    """Node n1, for whoever looks."""
    shown = {"type": "Ready", "status": ready, "lastTransitionTime": "2029-01-01T00:00:00Z"}
    stored = server.store.get("nodes", "n1")
    assert stored is not None
    server.store.put("nodes", {**stored.object, "status": {"conditions": [shown]}})


async def allowed(person: Client) -> dict[str, Any]:
    """What the check says of whether it may remediate."""
    (check,) = (await person.list_all(NODE_HEALTH_CHECKS)).items
    conditions: list[dict[str, Any]] = (check.status or {})["conditions"]
    return next(one for one in conditions if one["type"] == "RemediationAllowed")


async def begins_within(person: Client, seconds: int) -> int | None:
    for passed in range(seconds):
        if (await person.list_all(FOOS)).items:
            return passed
        await asyncio.sleep(1)  # virtual
    return None


async def is_well(server: ApiServer, _: Client) -> None:
    turns(server, "True")


async def survive_an_outage(server: ApiServer, person: Client) -> None:
    """After which the node looks ill; up to the moment when it is said that we wait. Nothing has begun by then."""
    await asyncio.sleep(10)  # virtual
    server.stop()
    await asyncio.sleep(40)  # virtual
    turns(server, "Unknown")
    server.start()
    for _ in range(60):
        if SETTLES in (await allowed(person))["message"]:
            break
        await asyncio.sleep(1)  # virtual
    assert (await allowed(person))["reason"] == "SelfDoubt"
    assert (await person.list_all(FOOS)).items == []


def test_what_looks_ill_when_an_outage_ends_is_waited_for_and_then_remediated() -> None:
    async def scenario(server: ApiServer, person: Client) -> None:
        await survive_an_outage(server, person)
        began = await begins_within(person, 120)
        assert began is not None
        assert SHORTEST_SECONDS <= began <= LONGEST_SECONDS + 1
        assert (await allowed(person))["status"] == "True"

    operate(is_well, scenario)


def test_one_that_comes_back_before_that_is_never_touched() -> None:
    async def scenario(server: ApiServer, person: Client) -> None:
        await survive_an_outage(server, person)
        turns(server, "True")
        assert await begins_within(person, 120) is None

    operate(is_well, scenario)


def test_whoever_starts_while_a_doubt_is_written_down_waits_first() -> None:
    async def prepare(server: ApiServer, _: Client) -> None:
        stored = server.store.get(str(NODE_HEALTH_CHECKS), "workers")
        assert stored is not None
        said = {"type": "RemediationAllowed", "status": "False", "reason": "SelfDoubt", "message": "it is dark"}
        said["lastTransitionTime"] = "2029-01-01T00:00:00Z"
        server.store.put(str(NODE_HEALTH_CHECKS), {**stored.object, "status": {"conditions": [said]}})

    async def scenario(_: ApiServer, person: Client) -> None:
        began = await begins_within(person, 120)
        assert began is not None
        assert LONGEST_SECONDS <= began <= LONGEST_SECONDS + 2

    operate(prepare, scenario)


def test_whoever_starts_in_a_calm_cluster_begins_at_once() -> None:
    async def is_ill(_: ApiServer, __: Client) -> None:
        """As it stands."""

    async def scenario(_: ApiServer, person: Client) -> None:
        assert await begins_within(person, 3) is not None

    operate(is_ill, scenario)

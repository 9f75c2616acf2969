"""Accounts, kept by whole operators on the embedded server: of what checks began, by whoever looks after the node."""

import asyncio

import pytest
from structlog.testing import capture_logs

from defib.kube.client import Deletion
from defib.kube.kinds import NODE_INCIDENTS, unstructured
from defib.model.incident import INCIDENTS, NodeIncident, Phase
from defib.simulate.faults import Fault, Refuse
from tests.unit.three_nodes import FAILOVERS, Cluster3, operating, play

DEFINITIONS = unstructured(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)


async def accounts(stage: Cluster3) -> list[NodeIncident]:
    return (await stage.admin.list_all(NODE_INCIDENTS)).items


async def seconds(count: float) -> None:
    await asyncio.sleep(count)  # virtual


def told_on(stage: Cluster3, node: str) -> list[str]:
    events = [version.object for version in stage.server.store.collection("events").objects.values()]
    return [
        event["reason"]
        for event in events
        if (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("Node", node)
    ]


async def fail(stage: Cluster3) -> None:
    await stage.make_check()
    await seconds(20)
    await stage.turn("Unknown")
    await seconds(30)


def test_what_a_check_begins_is_written_down_and_closed_when_the_node_is_back() -> None:
    async def scenario(stage: Cluster3) -> None:
        async with operating(stage):
            await fail(stage)
            (account,) = await accounts(stage)
            (remediation,) = (await stage.admin.list_all(FAILOVERS)).items
            assert (account.is_account, account.is_open, account.spec.check) == (True, True, "hasty")
            assert account.spec.cause.uid == remediation.uid
            assert account.spec.gates
            await stage.turn("True")
            await seconds(30)
            (closed,) = await accounts(stage)
            assert (closed.status.phase, closed.status.outcome) == (Phase.CLOSED, "Recovered")
            assert told_on(stage, "n1") == ["IncidentOpened", "IncidentClosed"]

    play(scenario)


@pytest.mark.parametrize("writes", range(4, 13))
def test_an_operator_that_dies_after_any_write_leaves_it_to_the_next(writes: int) -> None:
    async def scenario(stage: Cluster3) -> None:
        await stage.make_check()
        async with operating(stage, writes=writes):
            await seconds(20)
            await stage.turn("Unknown")
            await seconds(30)
        async with operating(stage):
            await seconds(60)
            await stage.turn("True")
            await seconds(60)
        found = [(one.spec.node, one.status.phase.value) for one in await accounts(stage)]
        assert found == [("n1", "Closed")]

    play(scenario)


def test_where_the_kind_is_not_installed_nothing_is_written_and_remediation_goes_on() -> None:
    async def scenario(stage: Cluster3) -> None:
        definition = await stage.admin.get(DEFINITIONS.at(INCIDENTS))
        await stage.admin.delete(DEFINITIONS.of(definition), Deletion(uid=definition.uid))
        async with operating(stage):
            await fail(stage)
            assert len(await stage.names(FAILOVERS)) == 1
            assert stage.asked("create", "nodeincidents") == []

    play(scenario)


def test_where_it_is_forbidden_that_is_told_once() -> None:
    async def scenario(stage: Cluster3) -> None:
        stage.server.faults.inject(Fault(effect=Refuse(code=403), verbs=("create",), resource=INCIDENTS))
        with capture_logs() as told:
            async with operating(stage):
                await fail(stage)
                await seconds(300)
                assert len(await stage.names(FAILOVERS)) == 1
        warnings = [
            line for line in told if "account" in str(line.get("action", "")) and line["log_level"] == "warning"
        ]
        assert len(warnings) == 1

    play(scenario)


def test_of_what_another_operator_began_nothing_is_written() -> None:
    async def scenario(stage: Cluster3) -> None:
        async with operating(stage):
            await fail(stage)
        for account in await accounts(stage):
            await stage.admin.delete(NODE_INCIDENTS.of(account), Deletion(uid=account.uid))
        async with operating(stage, health_checks="off"):
            await seconds(60)
            assert await accounts(stage) == []

    play(scenario)

"""Accounts are written by whoever has the mandate, once, and never in place of a remediation."""

import asyncio
from typing import Any

import msgspec

from defib.act.accounts import author
from defib.act.executor import Executor
from defib.act.outcome import Done, Stale
from defib.act.places import ACCOUNTS_AT_ONCE, Places, in_turn
from defib.kube.kinds import NODE_INCIDENTS
from defib.manifests import definitions
from defib.model.account_action import MANY_AT_ONCE, DropAccount, OpenAccount, WriteAccount
from defib.model.action import Action, ReportRemediation, Target, TellEvent, WriteStatus
from defib.model.incident import INCIDENT, NodeIncident, Phase
from defib.model.mandate import Mandate
from defib.simulate.faults import Fault, LoseAnswer, Refuse, Slow
from defib.simulate.virtual_time import START
from tests.unit.act.stage import Stage, play

INCIDENTS = str(NODE_INCIDENTS)
CRDS = "customresourcedefinitions.apiextensions.k8s.io"
OURS = Mandate("defib-0_1a2b/7")
NEWS = TellEvent(check="c1", uid="u1", is_warning=False, reason="R", message="news", at=START)


def opening(number: int = 1) -> OpenAccount:
    name = f"n1.{number:08x}"
    cause = {"apiVersion": "example.com/v1", "kind": "FooRemediation", "name": "n1", "uid": f"{number:08x}-1111"}
    spec = {"node": "n1", "cause": cause, "check": "c1", "evidence": ["Ready is Unknown"]}
    return OpenAccount(node="n1", name=name, body={"metadata": {"name": name}, "spec": spec})


def writing(account: NodeIncident, **status: Any) -> WriteAccount:
    return WriteAccount(
        node="n1",
        account=target(account),
        version=account.metadata.resource_version,
        status={"phase": "Closed"} | status,
    )


def target(account: NodeIncident) -> Target:
    return Target(kind=INCIDENT, namespace="", name=account.name, uid=account.uid)


def install(stage: Stage) -> None:
    definition = next(one for one in definitions() if one["metadata"]["name"] == INCIDENTS)
    stage.server.put(CRDS, definition)


def stored(stage: Stage, number: int = 1) -> NodeIncident:
    found = stage.server.store.get(INCIDENTS, f"n1.{number:08x}")
    assert found is not None
    return msgspec.convert(found.object, NodeIncident)


async def seconds(count: float) -> None:
    await asyncio.sleep(count)  # virtual


def test_an_account_is_written_in_the_name_of_the_replica_and_noted() -> None:
    async def scenario(stage: Stage) -> None:
        install(stage)
        outcome = await stage.do(opening(), OURS)
        assert isinstance(outcome, Done)
        account = stored(stage)
        assert (account.spec.by, account.spec.check, account.is_account) == ("defib-0_1a2b", "c1", True)
        assert [name for name, _ in stage.noted] == [INCIDENTS]

    play(scenario)


def test_of_two_replicas_only_one_opens_it() -> None:
    async def scenario(stage: Stage) -> None:
        install(stage)
        await stage.do(opening(), OURS)
        assert isinstance(await stage.do(opening(), Mandate("defib-1/8")), Stale)
        assert stored(stage).spec.by == "defib-0_1a2b"

    play(scenario)


def test_where_the_answer_was_lost_the_next_attempt_finds_it() -> None:
    async def scenario(stage: Stage) -> None:
        install(stage)
        stage.break_creation(LoseAnswer(), of=INCIDENTS, times=1)
        async with asyncio.TaskGroup() as group:
            executor = stage.executor()
            running = group.create_task(executor.run())
            await seconds(0)
            for _ in range(4):
                executor.carry_out([opening()], OURS)
                await seconds(5)
            running.cancel()
        assert len(stage.objects(INCIDENTS)) == 1

    play(scenario)


def test_what_we_tell_is_signed_and_what_others_did_is_not() -> None:
    async def scenario(stage: Stage) -> None:
        install(stage)
        await stage.do(opening(), OURS)
        told = [
            {"at": "2030-01-01T00:00:00Z", "phase": "Unhealthy", "message": "m", "by": "NodeHealthCheck c1"},
            {"at": "2030-01-01T00:01:00Z", "phase": "Closed", "message": "m", "by": "defib"},
        ]
        outcome = await stage.do(writing(stored(stage), timeline=told, outcome="Recovered"), OURS)
        assert isinstance(outcome, Done)
        status = stored(stage).status
        assert (status.phase, status.outcome) == (Phase.CLOSED, "Recovered")
        assert [entry.by for entry in status.timeline or ()] == ["NodeHealthCheck c1", "defib-0_1a2b"]

    play(scenario)


def test_the_timeline_of_a_power_cycle_is_signed_too() -> None:
    async def scenario(stage: Stage) -> None:
        install(stage)
        await stage.do(opening(), OURS)
        account = stored(stage)
        entry = {"at": "2030-01-01T00:01:00Z", "phase": "PoweringOff", "message": "m", "by": "defib"}
        report = ReportRemediation(
            target=target(account), version=account.metadata.resource_version, status={"timeline": [entry]}
        )
        await stage.do(report, OURS)
        assert [one.by for one in stored(stage).status.timeline or ()] == ["defib-0_1a2b"]

    play(scenario)


def test_who_is_alone_needs_no_name() -> None:
    assert author(Mandate("alone")) == "defib"


def test_what_has_changed_since_is_neither_written_nor_dropped() -> None:
    async def scenario(stage: Stage) -> None:
        install(stage)
        await stage.do(opening(), OURS)
        old = stored(stage)
        await stage.do(writing(old), OURS)
        assert isinstance(await stage.do(writing(old, outcome="Ended"), OURS), Stale)
        drop = DropAccount(account=target(old), version=old.metadata.resource_version)
        assert isinstance(await stage.do(drop, OURS), Stale)
        assert stored(stage).status.outcome == ""

    play(scenario)


def test_one_that_is_closed_is_dropped_and_that_it_is_gone_already_is_as_good() -> None:
    async def scenario(stage: Stage) -> None:
        install(stage)
        await stage.do(opening(), OURS)
        await stage.do(writing(stored(stage)), OURS)
        closed = stored(stage)
        drop = DropAccount(account=target(closed), version=closed.metadata.resource_version)
        assert [await stage.do(drop, OURS), await stage.do(drop, OURS)] == [Done(), Done()]
        assert stage.objects(INCIDENTS) == []
        assert isinstance(await stage.do(writing(closed), OURS), Stale)

    play(scenario)


# Whose turn it is


def test_accounts_come_last() -> None:
    async def scenario(stage: Stage) -> None:
        status = WriteStatus(check="c1", uid="u", version="1", status={})
        start = stage.start()
        assert in_turn([opening(), NEWS, status, start], ()) == [start, status, NEWS, opening()]

    play(scenario)


def test_only_a_few_are_written_at_once() -> None:
    places = Places(128, 16, ())
    taken = [places.take(opening(number)) for number in range(ACCOUNTS_AT_ONCE + 2)]
    assert taken == [True] * ACCOUNTS_AT_ONCE + [False] * 2


def test_none_is_written_while_a_remediation_waits_for_its_place() -> None:
    async def scenario(stage: Stage) -> None:
        places = Places(128, 1, ())
        start = stage.start()
        assert [places.take(start), places.take(start), places.take(opening())] == [True, False, False]

    play(scenario)


def test_accounts_wait_while_many_remediations_end_and_are_written_then() -> None:
    async def scenario(stage: Stage) -> None:
        install(stage)
        wanted: list[Action] = [opening(number) for number in range(10)]
        for number in range(MANY_AT_ONCE + 1):
            stage.add_node(f"w{number}", ready="True")
            wanted.append(stage.end(stage.put_foo(f"w{number}", node=f"w{number}"), node=f"w{number}"))
        stage.fault(Fault(effect=Slow(seconds=5), resource="nodes"))
        async with asyncio.TaskGroup() as group:
            executor = stage.executor()
            running = group.create_task(executor.run())
            await seconds(0)
            executor.carry_out(wanted, OURS)
            await seconds(4)
            assert stage.objects(INCIDENTS) == []
            await seconds(4)
            assert (stage.foos(), len(stage.objects(INCIDENTS))) == ([], 10)
            running.cancel()

    play(scenario)


async def with_executor(stage: Stage, *wanted: Action) -> Executor:
    executor = stage.executor()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(executor.run())
        await seconds(0)
        executor.carry_out(wanted, OURS)
        await seconds(1)
        assert not executor.is_busy(OURS), "whoever comes next need not wait for these"
        assert await executor.finish(1.0)
        running.cancel()
    return executor


def test_nobody_waits_for_accounts_when_the_operator_ends() -> None:
    async def scenario(stage: Stage) -> None:
        install(stage)
        stage.break_creation(Slow(seconds=60), of=INCIDENTS)
        began = stage.clock.monotonic()
        await with_executor(stage, opening())
        assert stage.clock.monotonic() - began < 5

    play(scenario)


def test_that_it_is_forbidden_is_known_to_the_next_plan() -> None:
    async def scenario(stage: Stage) -> None:
        install(stage)
        stage.break_creation(Refuse(code=403), of=INCIDENTS)
        executor = await with_executor(stage, opening())
        assert executor.failures[opening().key].forbidden

    play(scenario)

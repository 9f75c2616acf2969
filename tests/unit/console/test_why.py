"""An answer holds everything that a person wants to know about a node."""

from datetime import timedelta

import msgspec
import pytest

from defib.console.session import NotDone
from defib.decide.answers.told import Answer, CheckTold
from defib.simulate.virtual_time import START
from tests.unit.console.desk import (
    Desk,
    add_check,
    add_foo,
    add_lock,
    add_node,
    add_nodes,
    at_the_desk,
    put_config,
    stamp,
)


def closed(told: CheckTold) -> list[str]:
    return [gate.name for gate in told.gates if not gate.is_open]


def test_a_healthy_node_is_explained_too() -> None:
    async def scene(desk: Desk) -> Answer:
        add_nodes(desk.server)
        add_check(desk.server)
        return await desk.why("n2")

    answer = at_the_desk(scene)
    (told,) = answer.checks
    assert (told.state, told.mode, closed(told)) == ("Healthy", "Automatic", [])
    assert len(told.gates) == 9
    assert answer.ready is not None
    assert (answer.ready.status, answer.ready.since) == ("True", START - timedelta(hours=1))
    assert answer.heartbeat == START


def test_a_node_whose_turn_it_is_is_not_called_remediated_before_anything_is_there() -> None:
    async def scene(desk: Desk) -> CheckTold:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server)
        return await desk.told("n1")

    told = at_the_desk(scene)
    assert (told.state, told.reason, told.message) == ("Unhealthy", "Starting", "nothing holds its remediation back")
    assert told.next.message == (
        "the operator creates FooRemediation ns/n1 at once; "
        "if it does not, see whether it runs: kubectl -n defib-system get pods"
    )
    assert told.status is None


def test_a_gate_has_value_limit_and_outcome() -> None:
    async def scene(desk: Desk) -> CheckTold:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server, minHealthy="100%")
        return await desk.told("n1")

    told = at_the_desk(scene)
    (threshold,) = [gate for gate in told.gates if gate.name == "Threshold"]
    assert (threshold.is_open, threshold.value, threshold.limit) == (False, "4 healthy", "at least 5 of 5")
    assert told.message == threshold.message


def test_remediations_lock_and_status_are_told() -> None:
    recorded = {
        "phase": "Remediating",
        "reason": "1 unhealthy node, 1 being remediated",
        "lastUpdateTime": stamp(START - timedelta(seconds=7)),
        "unhealthyNodes": [{"name": "n1", "message": "FooRemediation ns/n1 is at work"}],
    }

    async def scene(desk: Desk) -> Answer:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server, status=recorded)
        add_foo(desk.server, "n1", status={"conditions": [{"type": "Succeeded", "status": "False"}]})
        add_foo(desk.server, "n1", check="", annotations={}, name="by-hand")
        add_lock(desk.server, "n1", "NodeHealthCheck-workers")
        return await desk.why("n1")

    answer = at_the_desk(scene)
    (told,) = answer.checks
    assert told.state == "Remediating"
    assert [(one.kind, one.name, one.template, one.succeeded) for one in told.remediations] == [
        ("FooRemediation", "n1", "foo", "False")
    ]
    assert [one.name for one in answer.foreign] == ["by-hand"]
    assert answer.lock is not None
    assert (answer.lock.holder, answer.lock.until) == ("NodeHealthCheck-workers", START + timedelta(minutes=9))
    assert told.status is not None
    assert (told.status.phase, told.status.of_node) == ("Remediating", "FooRemediation ns/n1 is at work")
    assert told.status.updated == START - timedelta(seconds=7)
    assert told.next.at is None, "it has failed, and need not be waited for"


def test_a_suspect_node_is_unhealthy_at_a_moment_to_come() -> None:
    async def scene(desk: Desk) -> CheckTold:
        add_nodes(desk.server)
        add_node(desk.server, "n9", "Unknown", minutes=2)
        add_check(desk.server)
        return await desk.told("n9")

    told = at_the_desk(scene)
    assert (told.state, told.since, told.next.at) == ("Suspect", None, START + timedelta(minutes=3))


def test_the_brake_of_the_cluster_counts() -> None:
    async def scene(desk: Desk) -> CheckTold:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server)
        put_config(desk.server, "defib-brake", reason="storage", by="bob")
        return await desk.told("n1")

    told = at_the_desk(scene)
    assert (told.message, closed(told)) == ("the brake is on: storage (bob)", ["Brake"])


def test_an_upgrade_that_is_announced_counts() -> None:
    async def scene(desk: Desk) -> CheckTold:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server)
        put_config(desk.server, "defib-upgrade", until=stamp(START + timedelta(hours=1)), reason="to 1.37")
        return await desk.told("n1")

    told = at_the_desk(scene)
    assert closed(told) == ["Upgrade"]
    assert "to 1.37" in told.message


def test_a_node_that_no_check_selects_gets_an_answer() -> None:
    async def scene(desk: Desk) -> CheckTold:
        add_nodes(desk.server)
        return await desk.told("n1")

    told = at_the_desk(scene)
    assert (told.check, told.state, told.message) == ("", "Unseen", "the cluster has no NodeHealthCheck")
    assert told.gates == ()


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ("n0", "there is no node n0; did you mean n3 or n2 or n1?"),
        ("worker", "there is no node worker; did you mean worker-1.example.com?"),
        ("zebra", "there is no node zebra among the 4 of the cluster (kubectl get nodes)"),
    ],
)
def test_a_node_that_does_not_exist_is_told_with_names_near_it(asked: str, line: str) -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server, 3)
        add_node(desk.server, "worker-1.example.com")
        add_check(desk.server)
        await desk.why(asked)

    with pytest.raises(NotDone) as caught:
        at_the_desk(scene)
    assert str(caught.value) == line


def test_a_node_that_is_gone_is_explained_while_something_is_left_of_it() -> None:
    async def scene(desk: Desk) -> Answer:
        add_nodes(desk.server)
        add_check(desk.server)
        add_foo(desk.server, "n9")
        return await desk.why("n9")

    answer = at_the_desk(scene)
    assert (answer.exists, answer.ready) == (False, None)
    assert [told.reason for told in answer.checks] == ["NodeGone"]


def test_what_this_account_may_not_see_is_part_of_the_answer() -> None:
    async def scene(desk: Desk) -> Answer:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server)
        desk.refuse("configmaps")
        return await desk.why("n1")

    assert any("ConfigMaps" in words for words in at_the_desk(scene).unknown)


def test_machines_read_an_answer_by_names_that_stay() -> None:
    async def scene(desk: Desk) -> Answer:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server)
        add_foo(desk.server, "n1")
        return await desk.why("n1")

    read = msgspec.json.decode(msgspec.json.encode(at_the_desk(scene)))
    assert set(read) == {
        *("node", "exists", "now", "ready", "heartbeat", "cordoned", "lock", "checks", "foreign", "unknown", "basis"),
        *("incident", "accounts", "failover", "noFailover"),
    }
    (check,) = read["checks"]
    assert set(check) == {
        *("check", "mode", "state", "reason", "message", "since", "gates", "status", "remediations", "next"),
        "noFastPath",
    }
    assert set(check["gates"][0]) == {"name", "open", "value", "limit", "message"}
    assert set(check["remediations"][0]) == {
        *("kind", "namespace", "name", "owner", "template", "created", "succeeded", "deleting", "because")
    }

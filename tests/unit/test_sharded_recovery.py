"""SH-07: whoever looks after a node ends what was begun for it; that it was begun, and is over, is told in one place."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from defib.coordinate.keys import ADMISSION
from defib.kube.kinds import NODE_HEALTH_CHECKS
from defib.model import medik8s
from defib.simulate.faults import Fault, LateEvents, Refuse
from defib.simulate.virtual_time import VirtualClock, run
from tests.failover_stage import FAILOVERS, Stage
from tests.sharded_replicas import LEASE_SECONDS, SETTLED_SECONDS, Replicas, replicas_on

NAMES = ("a", "b", "c")
NODES = tuple(f"n{number}" for number in range(1, 10))
REMEDIATIONS, LOCKS = FAILOVERS.collection(), f"/namespaces/{medik8s.LOCK_NAMESPACE}/leases"
LAG_SECONDS, LATE_SECONDS = 0.2, 60.0
Story = Callable[[Stage, Replicas], Awaitable[None]]


def play(story: Story, *faults: Fault) -> None:
    async def main(clock: VirtualClock) -> None:
        stage = Stage(clock)
        for name in NODES:
            stage.node(name)
        for name in NAMES:  # what others wrote each replica sees a moment later than they do
            stage.server.faults.inject(Fault(effect=LateEvents(seconds=LAG_SECONDS), client=name))
        stage.server.faults.inject(*faults)
        async with replicas_on(stage.server, clock) as replicas:
            replicas.start(*NAMES)
            assert set((await replicas.settle()).shares) == set(NAMES)
            await story(stage, replicas)

    run(main, limit=timedelta(hours=2))


def in_other_hands(replicas: Replicas, count: int = 1) -> list[str]:
    """Nodes that whoever admits does not look after."""
    admits = replicas.holders.of_node(ADMISSION)
    return [node for node in NODES if replicas.holders.of_node(node) != admits][:count]


async def remediated(stage: Stage, *nodes: str) -> None:
    await stage.fail(*nodes)
    await stage.seconds(15)
    assert len(stage.all(str(FAILOVERS))) == len(nodes)


def doers(stage: Stage, verb: str, what: str = FAILOVERS.plural) -> list[tuple[str, str]]:
    """Which replica did that with success, and to what."""
    asked = [one for one in stage.server.audit if one.verb == verb and f"/{what}" in one.path and one.client in NAMES]
    return [(one.client, one.path.rpartition("/")[2]) for one in asked if one.status in (200, 201)]


def said(stage: Stage) -> dict[str, Any]:
    (check,) = stage.all(str(NODE_HEALTH_CHECKS))
    return dict(check.get("status") or {})


def message_of(stage: Stage, node: str) -> str:
    return next((str(one["message"]) for one in said(stage).get("unhealthyNodes") or () if one["name"] == node), "")


def test_sh_07_a_remediation_of_a_node_that_is_well_is_ended_by_whoever_looks_after_that_node() -> None:
    async def story(stage: Stage, replicas: Replicas) -> None:
        await stage.check(maxUnhealthy=len(NODES))
        failing = list(NODES[:6])
        await remediated(stage, *failing)
        await stage.turn(*failing, ready="True")
        await stage.seconds(10)
        assert stage.all(str(FAILOVERS)) == []
        holders = replicas.holders
        assert sorted(doers(stage, "delete")) == sorted((holders.of_node(node), node) for node in failing)
        assert {doer for doer, _ in doers(stage, "delete")} == set(NAMES)

    play(story)


def test_sh_08_that_it_is_over_is_told_and_its_lock_given_back_where_remediations_are_admitted() -> None:
    async def story(stage: Stage, replicas: Replicas) -> None:
        admits = replicas.holders.of_node(ADMISSION)
        await stage.check()
        failing = in_other_hands(replicas, 3)
        await remediated(stage, *failing)
        await stage.turn(*failing, ready="True")
        await stage.seconds(10)
        assert said(stage)["phase"] == "Enabled"
        assert said(stage)["healthyNodes"] == len(NODES)
        assert "unhealthyNodes" not in said(stage)
        released = [doer for doer, path in doers(stage, "delete", "leases") if path.startswith("node-")]
        assert released == [admits] * 3
        assert {doer for doer, _ in doers(stage, "patch", NODE_HEALTH_CHECKS.plural)} == {admits}
        assert len(stage.events("RemediationRemoved")) == 3

    play(story)


def test_whoever_has_a_share_of_the_nodes_follows_their_recovery_at_once() -> None:
    async def story(stage: Stage, replicas: Replicas) -> None:
        await stage.check()
        (node,) = in_other_hands(replicas)
        await remediated(stage, node)
        await stage.turn(node, ready="True")
        await stage.seconds(LAG_SECONDS + 0.2)
        assert len(doers(stage, "delete")) == 1

    play(story)


@pytest.mark.parametrize("how", ["dies", "is told to end"])
def test_sh_07_who_should_end_it_and_goes_before_leaves_that_to_the_next(how: str) -> None:
    async def story(stage: Stage, replicas: Replicas) -> None:
        await stage.check()
        (node,) = in_other_hands(replicas)
        looks_after = replicas.holders.of_node(node)
        await remediated(stage, node)
        stage.server.faults.inject(Fault(effect=Refuse(code=503), verbs=("delete",), client=looks_after))
        await stage.turn(node, ready="True")
        await stage.seconds(5)
        assert len(stage.all(str(FAILOVERS))) == 1
        if how == "dies":
            replicas.kill(looks_after)
        else:
            await replicas.stop(looks_after)
        await stage.seconds(2 * LEASE_SECONDS + SETTLED_SECONDS)
        assert stage.all(str(FAILOVERS)) == []
        assert [doer for doer, _ in doers(stage, "delete")] == [replicas.holders.of_node(node)]
        assert said(stage)["phase"] == "Enabled"

    play(story)


def test_sh_07_one_that_cannot_be_ended_is_tried_again_and_the_status_says_that_it_is_there() -> None:
    async def story(stage: Stage, replicas: Replicas) -> None:
        await stage.check()
        (node,) = in_other_hands(replicas)
        await remediated(stage, node)
        refused = Fault(effect=Refuse(code=403), verbs=("delete",), resource=str(FAILOVERS))
        stage.server.faults.inject(refused)
        await stage.turn(node, ready="True")
        await stage.seconds(60)
        assert message_of(stage, node) == "the node is healthy again; its remediation is being removed"
        assert said(stage)["phase"] == "Remediating"
        stage.server.faults.remove(refused)
        await stage.seconds(40)
        assert stage.all(str(FAILOVERS)) == []
        assert said(stage)["phase"] == "Enabled"

    play(story)


def test_sh_07_since_when_a_node_is_well_is_noted_by_whoever_ends_its_remediation() -> None:
    """It ends by what is noted, so it must know what it noted last: a node that relapses begins its time anew."""

    async def story(stage: Stage, replicas: Replicas) -> None:
        await stage.check(healthyDelay="30s")
        (node,) = in_other_hands(replicas)
        looks_after = replicas.holders.of_node(node)
        await remediated(stage, node)
        await stage.turn(node, ready="True")
        await stage.seconds(29)
        await stage.turn(node, ready="Unknown")
        await stage.seconds(0.5)
        await stage.turn(node, ready="True")
        await stage.seconds(28)
        assert len(stage.all(str(FAILOVERS))) == 1
        await stage.seconds(5)
        assert [doer for doer, _ in doers(stage, "delete")] == [looks_after]
        marks = [one for one in stage.server.audit if one.verb == "patch" and one.path.startswith(REMEDIATIONS)]
        assert {one.client for one in marks if "status" not in one.path} <= {looks_after}

    play(story)


def test_sh_07_who_does_not_know_yet_that_a_check_was_edited_ends_nothing_that_was_begun_since() -> None:
    """By the check as it was, the node is well. Whoever admits knows better, and has begun something for it."""

    async def story(stage: Stage, replicas: Replicas) -> None:
        (node,) = in_other_hands(replicas)
        await stage.check(unhealthyConditions=[{"type": "Ready", "status": "False", "duration": "10s"}])
        await stage.seconds(LATE_SECONDS + 5)
        await stage.change_check(unhealthyConditions=[{"type": "Ready", "status": "Unknown", "duration": "10s"}])
        await stage.fail(node)
        await stage.seconds(LATE_SECONDS / 2)
        assert replicas.holders.of_node(ADMISSION) == "c"
        assert len(stage.all(str(FAILOVERS))) == 1
        assert doers(stage, "delete") == []
        assert len(doers(stage, "create")) == 1

    late = LateEvents(seconds=LATE_SECONDS)
    play(story, *(Fault(effect=late, client=name, resource=str(NODE_HEALTH_CHECKS)) for name in ("a", "b")))

"""A person approves what a DrainPolicy in mode Approve waits for, and nothing else."""

from datetime import timedelta
from typing import Any

import pytest
import yaml

from defib.console.approval import grant_drain
from defib.console.session import NotDone
from defib.model.node_drain import APPROVED_UNTIL
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import START
from tests.unit.console.desk import DEFINITIONS, ROOT, Desk, add_node, annotations_of, at_the_desk, stamp

HOUR = timedelta(hours=1)
UNTIL = stamp(START + HOUR)
POLICIES, DRAINS = "drainpolicies.defib.dev", "nodedrains.defib.dev"


async def approve(desk: Desk, node: str = "n1") -> str:
    add_node(desk.server, "n1")
    return await grant_drain(node, HOUR, desk.client, desk.clock)


def add_drain_kinds(server: ApiServer) -> None:
    for name in ("drainpolicies", "nodedrains"):
        server.put(DEFINITIONS, yaml.safe_load((ROOT / f"deploy/crds/defib.dev_{name}.yaml").read_text()))


def add_drain(server: ApiServer, node: str = "n1", *, mode: str = "Approve", **status: Any) -> None:
    """The record of a drain of this node, with this status, and the policy all."""
    add_drain_kinds(server)
    server.put(POLICIES, {"metadata": {"name": "all"}, "spec": {"mode": mode}})
    made = server.put(DRAINS, {"metadata": {"name": node}, "spec": {"policy": "all"}})
    server.store.put(DRAINS, {**made.object, "status": {"policy": "all"} | status})


def test_what_waits_for_approval_is_approved_and_told() -> None:
    async def scene(desk: Desk) -> None:
        add_drain(desk.server, phase="WaitingForApproval", next="evict 3 pods")
        assert await approve(desk) == (
            f"pods of node n1 may be made to leave until {UNTIL}; "
            "DrainPolicy all (WaitingForApproval): next, evict 3 pods"
        )
        assert annotations_of(desk.server, "n1") == {APPROVED_UNTIL: UNTIL}

    at_the_desk(scene)


def test_a_drain_that_still_has_time_can_be_approved_ahead() -> None:
    async def scene(desk: Desk) -> None:
        add_drain(desk.server, phase="Watching", next="evict 1 pod", nextAt=stamp(START + HOUR / 2))
        line = await approve(desk)
        assert line.endswith(f"DrainPolicy all (Watching): next, evict 1 pod, after {stamp(START + HOUR / 2)}")
        assert annotations_of(desk.server, "n1") == {APPROVED_UNTIL: UNTIL}

    at_the_desk(scene)


def test_a_drain_of_which_nothing_was_told_yet_can_be_approved() -> None:
    async def scene(desk: Desk) -> None:
        add_drain(desk.server, policy="")
        assert (await approve(desk)).endswith("DrainPolicy all (Watching): next, nothing is left to be done")

    at_the_desk(scene)


def test_what_else_holds_it_back_is_told() -> None:
    async def scene(desk: Desk) -> None:
        add_drain(desk.server, phase="Held", reason="Budget", message="at most 1 of its nodes may be forced at a time")
        assert (await approve(desk)).endswith(
            "DrainPolicy all (Held): still held back, at most 1 of its nodes may be forced at a time"
        )

    at_the_desk(scene)


@pytest.mark.parametrize(
    ("mode", "phase", "why"),
    [
        ("Automatic", "Watching", "its DrainPolicy all is in mode Automatic, which asks nobody"),
        ("Observe", "Observed", "its DrainPolicy all is in mode Observe, which asks nobody"),
        ("Approve", "Drained", "its drain is over: no pod is left that would have to go"),
        ("Approve", "Paused", "its drain was broken off: nobody drains it now"),
    ],
)
def test_where_nothing_waits_nothing_is_written(mode: str, phase: str, why: str) -> None:
    async def scene(desk: Desk) -> None:
        add_drain(desk.server, mode=mode, phase=phase)
        with pytest.raises(NotDone) as caught:
            await approve(desk)
        assert str(caught.value) == f"no drain waits for approval on node n1: {why}"
        assert desk.server.audit.writes("ann") == []

    at_the_desk(scene)


def test_a_node_that_nobody_is_known_to_drain_is_told() -> None:
    async def scene(desk: Desk) -> None:
        add_drain(desk.server)
        add_node(desk.server, "n2")
        with pytest.raises(NotDone, match="Defib knows of no drain of it; who drains it, if anybody: defib drain n2"):
            await approve(desk, "n2")
        assert desk.server.audit.writes("ann") == []

    at_the_desk(scene)


def test_a_policy_that_is_gone_is_told() -> None:
    async def scene(desk: Desk) -> None:
        add_drain(desk.server, policy="another", phase="WaitingForApproval")
        with pytest.raises(NotDone, match="its DrainPolicy another is gone or makes no sense"):
            await approve(desk)

    at_the_desk(scene)


def test_a_cluster_without_drain_policies_is_told() -> None:
    async def scene(desk: Desk) -> None:
        with pytest.raises(NotDone, match="the cluster has no NodeDrains: their CRD is not installed"):
            await approve(desk)

    at_the_desk(scene)


def test_a_node_that_does_not_exist_is_told() -> None:
    async def scene(desk: Desk) -> None:
        add_drain(desk.server)
        with pytest.raises(NotDone, match="there is no node n9"):
            await approve(desk, "n9")

    at_the_desk(scene)


@pytest.mark.parametrize(
    ("resource", "verb", "right"),
    [("nodes", "patch", "patch nodes/n1"), ("nodedrains.defib.dev", "get", "get nodedrains.defib.dev/n1")],
)
def test_a_right_that_is_missing_is_named(resource: str, verb: str, right: str) -> None:
    async def scene(desk: Desk) -> None:
        add_drain(desk.server, phase="WaitingForApproval")
        desk.refuse(resource, verb)
        with pytest.raises(NotDone, match=f"kubectl auth can-i {right}"):
            await approve(desk)

    at_the_desk(scene)


def test_another_node_of_the_same_name_was_not_approved() -> None:
    async def scene(desk: Desk) -> None:
        add_drain(desk.server, phase="WaitingForApproval")
        desk.refuse("nodes", "patch", code=409)
        with pytest.raises(NotDone, match="has been replaced meanwhile"):
            await approve(desk)

    at_the_desk(scene)

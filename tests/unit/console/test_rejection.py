"""A person says no to what a check in mode Approve waits for; and takes back what was approved."""

from datetime import timedelta

import pytest

from defib.console.approval import grant
from defib.console.rejection import No, refuse, take_back
from defib.console.session import NotDone
from defib.decide.admission import APPROVED_BY, APPROVED_UNTIL
from defib.decide.rejection import REJECTED
from defib.model.node_drain import APPROVED_UNTIL as DRAIN_APPROVED_UNTIL
from defib.simulate.virtual_time import START
from tests.unit.console.desk import (
    Desk,
    add_check,
    add_foo,
    add_node,
    add_nodes,
    annotations_of,
    at_the_desk,
    stamp,
)

HOUR = timedelta(hours=1)
UNTIL = stamp(START + HOUR)


async def reject(desk: Desk, node: str = "n1", reason: str = "") -> str:
    return await refuse(node, No(length=HOUR, reason=reason), desk.client, desk.clock, desk.rules)


def test_what_waits_for_approval_is_rejected_and_everybody_who_asks_hears_why() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server, mode="Approve")
        line = await reject(desk, reason="the disk is being copied")
        assert line == (
            f"node n1 is not remediated until {UNTIL} by check workers (Unhealthy); defib approve n1 says yes"
        )
        assert annotations_of(desk.server, "n1") == {REJECTED: f"{UNTIL} ann: the disk is being copied"}
        told = await desk.told("n1")
        assert told.message == f"ann has said no until {UNTIL} (the disk is being copied): defib approve n1"

    at_the_desk(scene)


def test_an_approval_is_taken_back_by_it_and_given_again_over_it() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server, mode="Approve")
        await grant("n1", HOUR, desk.client, desk.clock, desk.rules)
        await reject(desk)
        assert list(annotations_of(desk.server, "n1")) == [REJECTED]
        await grant("n1", HOUR, desk.client, desk.clock, desk.rules)
        assert annotations_of(desk.server, "n1") == {APPROVED_UNTIL: UNTIL, APPROVED_BY: "ann"}
        assert (await desk.told("n1")).reason == "Starting"

    at_the_desk(scene)


def test_what_was_begun_goes_on_and_that_is_said() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server, ill=["n1"])
        steps = [{"remediationTemplate": ref, "order": order, "timeout": "5m"} for order, ref in enumerate(TWO)]
        add_check(desk.server, mode="Approve", escalatingRemediations=steps)
        add_foo(desk.server, "n1")
        assert "what was begun goes on, and nothing more is; defib approve n1 says yes" in await reject(desk)

    at_the_desk(scene)


TWO = [
    {"apiVersion": "test.defib.dev/v1alpha1", "kind": f"{kind}RemediationTemplate", "namespace": "ns", "name": "foo"}
    for kind in ("Foo", "Bar")
]


def test_where_nobody_asks_there_is_nothing_to_reject_and_it_says_what_to_do_instead() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server)
        with pytest.raises(NotDone) as refused:
            await reject(desk)
        assert str(refused.value) == (
            "nothing waits for approval on node n1: no NodeHealthCheck in mode Approve selects it; to have it left alone "
            "by every check: kubectl label node n1 remediation.medik8s.io/exclude-from-remediation=true"
        )

    at_the_desk(scene)


def test_the_approval_of_a_drain_is_taken_back() -> None:
    async def scene(desk: Desk) -> None:
        add_node(desk.server, "n1", annotations={DRAIN_APPROVED_UNTIL: UNTIL})
        line = await take_back("n1", desk.client, desk.clock)
        assert line.startswith("the drain of node n1 is no longer approved: a DrainPolicy in mode Approve makes no pod")
        assert annotations_of(desk.server, "n1") == {}
        with pytest.raises(NotDone, match="no drain of node n1 has been approved, so there is nothing to take back"):
            await take_back("n1", desk.client, desk.clock)

    at_the_desk(scene)


def test_who_may_not_change_nodes_is_told_what_to_ask_for() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server, mode="Approve")
        desk.refuse("nodes", "patch")
        with pytest.raises(NotDone, match=r"kubectl auth can-i patch nodes/n1"):
            await reject(desk)

    at_the_desk(scene)

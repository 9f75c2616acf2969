"""A person approves what a check in mode Approve waits for, and nothing else."""

from datetime import timedelta

import pytest

from defib.console.approval import grant
from defib.console.session import NotDone
from defib.decide.admission import APPROVED_BY, APPROVED_UNTIL
from defib.simulate.virtual_time import START
from tests.unit.console.desk import (
    Desk,
    add_check,
    add_foo,
    add_node,
    add_nodes,
    annotations_of,
    at_the_desk,
    put_config,
    stamp,
    template_ref,
)

HOUR = timedelta(hours=1)
UNTIL = stamp(START + HOUR)


async def approve(desk: Desk, node: str = "n1", length: timedelta = HOUR) -> str:
    return await grant(node, length, desk.client, desk.clock, desk.rules)


def test_what_waits_for_approval_is_approved_and_told() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server, mode="Approve")
        line = await approve(desk)
        assert line == (
            f"node n1 may be remediated until {UNTIL}; "
            "check workers (Unhealthy): the operator creates FooRemediation ns/n1 at once"
        )
        assert annotations_of(desk.server, "n1") == {APPROVED_UNTIL: UNTIL, APPROVED_BY: "ann"}
        assert (await desk.told("n1")).reason == "Starting"

    at_the_desk(scene)


def test_approving_again_sets_the_time_anew_and_nothing_else() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server, mode="Approve")
        await approve(desk)
        await approve(desk, length=timedelta(minutes=5))
        assert annotations_of(desk.server, "n1") == {
            APPROVED_UNTIL: stamp(START + timedelta(minutes=5)),
            APPROVED_BY: "ann",
        }

    at_the_desk(scene)


def test_what_else_holds_it_back_is_told() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server, mode="Approve")
        put_config(desk.server, "defib-brake", reason="storage")
        assert (await approve(desk)).endswith("check workers (Unhealthy): still held back, the brake is on: storage")
        assert annotations_of(desk.server, "n1") == {APPROVED_UNTIL: UNTIL, APPROVED_BY: "ann"}

    at_the_desk(scene)


def test_a_node_that_is_about_to_be_unhealthy_can_be_approved_ahead() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server)
        add_node(desk.server, "n9", "Unknown", minutes=2)
        add_check(desk.server, mode="Approve")
        assert "check workers (Suspect): if it does not recover" in await approve(desk, "n9")

    at_the_desk(scene)


def test_the_next_step_of_an_escalation_can_be_approved_ahead() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server, ill=["n1"])
        steps = [{"remediationTemplate": template_ref(), "order": 1, "timeout": "5m"}]
        add_check(desk.server, "ladder", mode="Approve", escalatingRemediations=steps)
        add_foo(desk.server, "n1", check="ladder")
        assert "check ladder (Remediating)" in await approve(desk)

    at_the_desk(scene)


@pytest.mark.parametrize(
    ("node", "mode", "why"),
    [
        ("n1", "Automatic", "no NodeHealthCheck in mode Approve selects it"),
        ("n1", "Observe", "no NodeHealthCheck in mode Approve selects it"),
        ("n2", "Approve", "check workers finds it Healthy"),
        ("n3", "Approve", "check workers finds it Remediating"),
    ],
)
def test_where_nothing_waits_nothing_is_written(node: str, mode: str, why: str) -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server, 9, ill=["n1", "n3"])
        add_check(desk.server, mode=mode)
        add_foo(desk.server, "n3")
        with pytest.raises(NotDone) as caught:
            await approve(desk, node)
        assert str(caught.value) == f"nothing waits for approval on node {node}: {why}"
        assert desk.server.audit.writes("ann") == []

    at_the_desk(scene)


def test_a_node_that_does_not_exist_is_told() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server)
        add_check(desk.server, mode="Approve")
        with pytest.raises(NotDone, match="there is no node n9"):
            await approve(desk, "n9")

    at_the_desk(scene)


def test_a_right_that_is_missing_is_named() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server, mode="Approve")
        desk.refuse("nodes", "patch")
        with pytest.raises(NotDone, match="kubectl auth can-i patch nodes/n1"):
            await approve(desk)

    at_the_desk(scene)


@pytest.mark.parametrize("code", [404, 409])
def test_another_node_of_the_same_name_was_not_approved(code: int) -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server, mode="Approve")
        desk.refuse("nodes", "patch", code=code)
        with pytest.raises(NotDone, match="has been replaced meanwhile; look again: defib why n1"):
            await approve(desk)

    at_the_desk(scene)

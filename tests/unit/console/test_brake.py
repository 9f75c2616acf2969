"""The brake is pulled and let go by a person, who is told what is now so."""

import asyncio
from datetime import timedelta

import pytest

from defib.console.brake import BRAKE, pull, release
from defib.console.look import look
from defib.console.session import NotDone
from defib.decide.doubt import brake_reason
from defib.kube.kinds import CONFIG_MAPS
from defib.simulate.virtual_time import START
from tests.unit.console.desk import Desk, at_the_desk, config_of, put_config, stamp

NOW = stamp(START)


async def pause(desk: Desk, reason: str = "", namespace: str = "defib-system") -> str:
    return await pull(desk.client, desk.clock, namespace, reason)


async def resume(desk: Desk, namespace: str = "defib-system") -> str:
    return await release(desk.client, desk.clock, namespace)


async def seen_by_the_operator(desk: Desk) -> str:
    """The reason by which it is held back; empty when it is not."""
    return brake_reason((await look(desk.client, desk.clock, desk.rules)).cluster, desk.rules)


def test_pausing_says_who_when_and_why_and_the_operator_sees_it() -> None:
    async def scene(desk: Desk) -> None:
        line = await pause(desk, "storage")
        assert line == f"Defib is paused since {NOW} by ann: storage; defib resume lets it go on"
        assert config_of(desk.server, BRAKE) == {"paused": "true", "reason": "storage", "by": "ann", "since": NOW}
        assert await seen_by_the_operator(desk) == "storage (ann)"

    at_the_desk(scene)


def test_pausing_twice_is_pausing_once() -> None:
    async def scene(desk: Desk) -> None:
        await pause(desk, "storage")
        before = config_of(desk.server, BRAKE)
        writes = len(desk.server.audit.writes("ann"))
        for reason in ("", "storage"):
            assert await pause(desk, reason) == f"Defib was paused already since {NOW} by ann: storage"
        assert config_of(desk.server, BRAKE) == before
        assert len(desk.server.audit.writes("ann")) == writes

    at_the_desk(scene)


def test_a_new_reason_does_not_change_since_when() -> None:
    async def scene(desk: Desk) -> None:
        put_config(desk.server, BRAKE, paused="true", reason="old", by="bob", since="2029-12-31T00:00:00Z")
        assert "since 2029-12-31T00:00:00Z by ann: new" in await pause(desk, "new")
        assert config_of(desk.server, BRAKE)["since"] == "2029-12-31T00:00:00Z"

    at_the_desk(scene)


def test_a_brake_that_was_made_by_hand_is_on() -> None:
    async def scene(desk: Desk) -> None:
        put_config(desk.server, BRAKE)
        assert await pause(desk) == "Defib was paused already"
        assert await resume(desk) == "Defib goes on; it was paused"
        assert await seen_by_the_operator(desk) == ""

    at_the_desk(scene)


def test_resuming_keeps_who_paused_and_notes_who_resumed() -> None:
    async def scene(desk: Desk) -> None:
        put_config(desk.server, BRAKE, paused="true", reason="storage", by="bob", since="2029-12-31T00:00:00Z")
        line = await resume(desk)
        assert line == "Defib goes on; it was paused since 2029-12-31T00:00:00Z by bob: storage"
        assert config_of(desk.server, BRAKE) == {
            "paused": "false",
            "reason": "storage",
            "by": "bob",
            "since": "2029-12-31T00:00:00Z",
            "resumedBy": "ann",
            "resumedAt": NOW,
        }
        assert await seen_by_the_operator(desk) == ""

    at_the_desk(scene)


def test_resuming_twice_is_resuming_once() -> None:
    async def scene(desk: Desk) -> None:
        nothing = "Defib was not paused: there is no ConfigMap defib-system/defib-brake"
        assert await resume(desk) == nothing
        await pause(desk)
        await resume(desk)
        before = config_of(desk.server, BRAKE)
        again = f"Defib was not paused: ConfigMap defib-system/{BRAKE} was let go at {NOW} by ann"
        assert await resume(desk) == again
        assert config_of(desk.server, BRAKE) == before

    at_the_desk(scene)


def test_what_was_noted_of_an_earlier_pause_goes_with_the_next_one() -> None:
    async def scene(desk: Desk) -> None:
        await pause(desk, "storage")
        await resume(desk)
        await pause(desk)
        assert config_of(desk.server, BRAKE) == {"paused": "true", "reason": "", "by": "ann", "since": NOW}
        assert await seen_by_the_operator(desk) == "no reason is given (ann)"

    at_the_desk(scene)


def test_a_brake_that_somebody_edited_is_pulled_all_the_same() -> None:
    async def scene(desk: Desk) -> None:
        put_config(desk.server, BRAKE, paused="false", reason="edited", note="kept")
        await pause(desk, "storage")
        assert await seen_by_the_operator(desk) == "storage (ann)"
        assert config_of(desk.server, BRAKE)["note"] == "kept"

    at_the_desk(scene)


def test_a_server_that_does_not_say_who_we_are_does_not_keep_us_from_pausing() -> None:
    async def scene(desk: Desk) -> None:
        desk.refuse("selfsubjectreviews.authentication.k8s.io", code=404)
        assert await pause(desk, "storage") == f"Defib is paused since {NOW}: storage; defib resume lets it go on"

    at_the_desk(scene)


def test_a_namespace_that_is_missing_is_named() -> None:
    async def scene(desk: Desk) -> None:
        with pytest.raises(NotDone, match=r"no namespace nowhere.*--namespace"):
            await pause(desk, namespace="nowhere")
        assert "there is no ConfigMap nowhere/defib-brake" in await resume(desk, namespace="nowhere")

    at_the_desk(scene)


@pytest.mark.parametrize(("verb", "asked"), [("get", "get"), ("patch", "patch")])
def test_a_right_that_is_missing_is_named(verb: str, asked: str) -> None:
    async def scene(desk: Desk) -> None:
        desk.refuse(str(CONFIG_MAPS), verb)
        with pytest.raises(NotDone) as caught:
            await pause(desk)
        assert "configmaps: you may not" in str(caught.value)
        assert f"kubectl auth can-i {asked} configmaps/defib-brake -n defib-system" in str(caught.value)

    at_the_desk(scene)


def test_since_is_when_it_was_paused() -> None:
    async def scene(desk: Desk) -> None:
        await pause(desk)
        await resume(desk)
        await asyncio.sleep(90)  # virtual
        await pause(desk)
        assert config_of(desk.server, BRAKE)["since"] == stamp(START + timedelta(seconds=90))

    at_the_desk(scene)

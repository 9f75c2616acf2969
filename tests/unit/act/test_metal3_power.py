"""The power of a Metal3 host: asked for by our annotation, believed only while that is there and the host is cared for."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from defib.act.outcome import Failed, PowerChecked, PowerRead, PowerSwitched
from defib.hollow.conductor import Pace
from defib.hollow.machine import Claims, Command, Fails, Fault, Garbage, Hangs, Unreachable, WrongPassword
from defib.hollow.metal3 import HOSTS, HollowMetal3
from defib.kube.client import Client, Merge
from defib.model.action import CheckPower, ReadPower
from defib.model.metal3 import DETACHED, KEPT_OFF_BY, KEPT_OFF_FOR, PAUSED, POWER_ERROR
from defib.model.power import FenceCheck, PowerPath, PowerState, Reading, Sent
from defib.simulate import faults
from defib.simulate.faults import LoseAnswer, Refuse, RequestEffect
from defib.simulate.in_process import InProcess
from defib.simulate.virtual_time import START
from testbed.bmc.metal3 import metal3_definitions
from tests.unit.act.fenced import CRDS, Scene, Story, fence
from tests.unit.act.stage import PLACE

OFF, ON, UNKNOWN = PowerState.OFF, PowerState.ON, PowerState.UNKNOWN
KEY = "reboot.metal3.io/defib"
OTHER = "reboot.metal3.io/somebody-else"
HARD = '{"mode":"hard","force":false}'
PATH = PowerPath(driver="metal3", address=f"{PLACE}/n1", options={"key": KEY})
HOST = HOSTS.at("n1", PLACE)
MARKS = (KEPT_OFF_BY, KEPT_OFF_FOR)
PACE = Pace()
A_WHILE = PACE.poll_seconds + 2 * PACE.change_poll_seconds  # until the operator has looked, acted, and shown it


def metal3(story: Story) -> None:
    """n1 has a BareMetalHost, which is on; nobody looks after it yet."""

    async def whole(scene: Scene) -> None:
        for definition in metal3_definitions():
            if definition["metadata"]["name"] == str(HOSTS):
                scene.stage.server.put(CRDS, definition)
        body = {"metadata": {"name": "n1", "namespace": PLACE}, "spec": {"online": True, "image": {"url": "x"}}}
        scene.stage.server.put(str(HOSTS), body)
        await shows(scene, poweredOn=True)
        await story(scene)

    fence(whole)


async def shows(scene: Scene, **status: Any) -> None:
    await scene.stage.world.patch(HOST, Merge({"status": status}), subresource="status")


async def annotate(scene: Scene, **values: str | None) -> None:
    await scene.stage.world.patch(HOST, Merge({"metadata": {"annotations": values}}))


async def specify(scene: Scene, **spec: Any) -> None:
    await scene.stage.world.patch(HOST, Merge({"spec": spec}))


def annotations(scene: Scene) -> dict[str, str]:
    """Those that say something to the baremetal operator, or to others."""
    host = scene.stored(str(HOSTS), f"{PLACE}/n1")
    return {key: text for key, text in host["metadata"].get("annotations", {}).items() if key not in MARKS}


async def read(scene: Scene) -> Reading:
    outcome = await scene.do(ReadPower(incident_uid=scene.incident.uid, node="n1", path=PATH))
    assert isinstance(outcome, PowerRead)
    assert outcome.can_read
    return outcome.reading


def test_rm_06_off_is_asked_for_hard_under_our_own_key() -> None:
    async def story(scene: Scene) -> None:
        assert await scene.do(scene.switch(path=PATH)) == PowerSwitched(Sent(OFF, START))
        assert annotations(scene) == {KEY: HARD}
        assert scene.writes() == ["patch nodeincidents/status 200", "patch baremetalhosts 200"], "the record first"

    metal3(story)


def test_no_secret_is_asked_for_since_the_baremetal_operator_has_its_own() -> None:
    async def story(scene: Scene) -> None:
        for action in scene.three(PATH):
            await scene.do(action)
        assert not any("secrets" in asked for asked in scene.stage.asked())

    metal3(story)


def test_rm_08_off_without_our_annotation_is_no_proof_and_the_annotation_is_added_again() -> None:
    async def story(scene: Scene) -> None:
        await scene.do(scene.switch(path=PATH))
        await shows(scene, poweredOn=False)
        assert (await read(scene)).state is OFF
        await annotate(scene, **{KEY: None})
        reading = await read(scene)
        assert reading == Reading(UNKNOWN, START, "BareMetalHost remedies/n1 is off, but nothing of ours keeps it off")
        await annotate(scene, **{OTHER: HARD})
        assert (await read(scene)).state is UNKNOWN, "whoever keeps it off may let it go at any moment"
        await scene.do(scene.switch(path=PATH))
        assert annotations(scene) == {KEY: HARD, OTHER: HARD}
        assert (await read(scene)).state is OFF

    metal3(story)


def test_a_request_that_somebody_made_soft_is_made_hard_again() -> None:
    async def story(scene: Scene) -> None:
        await annotate(scene, **{KEY: '{"mode":"soft"}'})
        await scene.do(scene.switch(path=PATH))
        assert annotations(scene) == {KEY: HARD}

    metal3(story)


async def is_paused(scene: Scene) -> None:
    await annotate(scene, **{PAUSED: "maintenance"})


async def is_detached(scene: Scene) -> None:
    await annotate(scene, **{DETACHED: ""})


async def must_stay_on(scene: Scene) -> None:
    await specify(scene, disablePowerOff=True)


async def is_to_stay_off(scene: Scene) -> None:
    await specify(scene, online=False)


async def is_going(scene: Scene) -> None:
    await scene.stage.world.patch(HOST, Merge({"metadata": {"finalizers": ["example.com/hold"]}}))
    await scene.remove(HOST)


UNTOUCHABLE: list[tuple[Callable[[Scene], Awaitable[None]], str]] = [
    (is_paused, f"is paused (annotation {PAUSED})"),
    (is_detached, f"is detached (annotation {DETACHED})"),
    (must_stay_on, "must not be powered off (spec.disablePowerOff)"),
    (is_to_stay_off, "is to stay off (spec.online is not true)"),
    (is_going, "is being deleted"),
]


@pytest.mark.parametrize(("change", "why"), UNTOUCHABLE)
def test_rm_09_a_host_that_its_operator_would_not_switch_is_left_alone_with_the_reason(
    change: Callable[[Scene], Awaitable[None]], why: str
) -> None:
    async def story(scene: Scene) -> None:
        sentence = f"BareMetalHost remedies/n1 {why}"
        await change(scene)
        before = annotations(scene)
        assert await scene.do(scene.switch(path=PATH)) == Failed(sentence)
        assert annotations(scene) == before
        assert await scene.do(CheckPower(node="n1", path=PATH)) == PowerChecked(FenceCheck(PATH, START, sentence))
        for powered_on in (True, False):
            await shows(scene, poweredOn=powered_on)
            assert await read(scene) == Reading(UNKNOWN, START, sentence), "what its status says is old"

    metal3(story)


@pytest.mark.parametrize(("change", "why"), UNTOUCHABLE)
def test_rm_09_even_then_our_own_request_can_be_withdrawn(change: Callable[[Scene], Awaitable[None]], why: str) -> None:
    async def story(scene: Scene) -> None:
        await scene.do(scene.switch(path=PATH))
        await change(scene)
        assert await scene.do(scene.switch(ON, path=PATH)) == PowerSwitched(Sent(ON, START)), f"although it {why}"
        assert KEY not in annotations(scene)

    metal3(story)


def test_rm_09_it_becomes_possible_again_when_the_host_changes() -> None:
    async def story(scene: Scene) -> None:
        await is_paused(scene)
        assert isinstance(await scene.do(scene.switch(path=PATH)), Failed)
        await annotate(scene, **{PAUSED: None})
        assert isinstance(await scene.do(scene.switch(path=PATH)), PowerSwitched)

    metal3(story)


def test_rm_13_only_our_own_annotation_is_removed() -> None:
    async def story(scene: Scene) -> None:
        await annotate(scene, **{OTHER: HARD, "note": "x"})
        await scene.do(scene.switch(path=PATH))
        assert await scene.do(scene.switch(ON, path=PATH)) == PowerSwitched(Sent(ON, START))
        assert annotations(scene) == {OTHER: HARD, "note": "x"}
        patches = scene.writes().count("patch baremetalhosts 200")
        await scene.do(scene.switch(ON, path=PATH))
        assert scene.writes().count("patch baremetalhosts 200") == patches, "what is not there need not be removed"

    metal3(story)


def test_what_was_read_is_noted_so_that_nothing_is_decided_on_an_older_look() -> None:
    async def story(scene: Scene) -> None:
        await shows(scene, poweredOn=False)
        await read(scene)
        noted = [(kind, item.uid) for kind, item in scene.stage.noted]
        assert noted == [(str(HOSTS), scene.stage.uid(str(HOSTS), f"{PLACE}/n1"))]

    metal3(story)


def test_a_host_with_a_power_error_or_without_a_word_is_neither_on_nor_off() -> None:
    async def story(scene: Scene) -> None:
        await scene.do(scene.switch(path=PATH))
        await shows(scene, poweredOn=False, errorType=POWER_ERROR, errorMessage="the BMC cannot be reached")
        why = f"BareMetalHost remedies/n1 has a {POWER_ERROR}: the BMC cannot be reached"
        assert await read(scene) == Reading(UNKNOWN, START, why)
        await shows(scene, poweredOn=None, errorType=None)
        assert (await read(scene)).detail == "BareMetalHost remedies/n1 does not say whether it is on"

    metal3(story)


def test_a_host_that_is_not_there_is_told() -> None:
    async def story(scene: Scene) -> None:
        await scene.remove(HOST)
        why = "there is no BareMetalHost remedies/n1"
        assert await scene.do(scene.switch(path=PATH)) == Failed(why)
        assert await scene.do(scene.switch(ON, path=PATH)) == PowerSwitched(Sent(ON, START)), "nothing keeps it off"
        assert (await read(scene)).detail == why
        assert await scene.do(CheckPower(node="n1", path=PATH)) == PowerChecked(FenceCheck(PATH, START, why))

    metal3(story)


def test_a_cluster_without_metal3_is_told() -> None:
    async def story(scene: Scene) -> None:
        switched, reading, checked = [await scene.do(action) for action in scene.three(PATH)]
        assert isinstance(switched, Failed)
        assert "BareMetalHost" in switched.why
        assert isinstance(reading, PowerRead)
        assert reading.reading.state is UNKNOWN
        assert isinstance(checked, PowerChecked)
        assert "BareMetalHost" in checked.check.why_not

    fence(story)


@pytest.mark.parametrize("power", [OFF, ON])
def test_a_race_against_the_baremetal_operator_is_run_again_a_few_times(power: PowerState) -> None:
    async def story(scene: Scene) -> None:
        if power is ON:
            await annotate(scene, **{KEY: HARD})
        scene.conflicts(str(HOSTS), times=2)
        assert isinstance(await scene.do(scene.switch(power, path=PATH)), PowerSwitched)
        assert annotations(scene) == ({KEY: HARD} if power is OFF else {})
        scene.conflicts(str(HOSTS), times=None)
        again = await scene.do(scene.switch(ON if power is OFF else OFF, path=PATH))
        assert again == Failed("BareMetalHost remedies/n1 changes faster than it can be annotated")

    metal3(story)


def test_a_host_of_that_name_that_came_in_between_is_looked_at_anew() -> None:
    async def story(scene: Scene) -> None:
        async def happen() -> None:
            await scene.remove(HOST)
            body = {
                "metadata": {"name": "n1", "namespace": PLACE, "annotations": {PAUSED: ""}},
                "spec": {"online": True},
            }
            scene.stage.server.put(str(HOSTS), body)

        end = await scene.meanwhile(scene.switch(path=PATH), str(HOSTS), happen)
        assert end == Failed(f"BareMetalHost remedies/n1 is paused (annotation {PAUSED})")
        assert KEY not in annotations(scene)

    metal3(story)


@pytest.mark.parametrize(
    ("effect", "is_doubtful"), [(LoseAnswer(), True), (Refuse(code=500), True), (Refuse(code=403), False)]
)
def test_a_request_whose_answer_is_lost_may_have_been_made(effect: RequestEffect, is_doubtful: bool) -> None:
    async def story(scene: Scene) -> None:
        scene.stage.fault(faults.Fault(effect=effect, verbs=("patch",), resource=str(HOSTS), client="defib"))
        end = await scene.do(scene.switch(path=PATH))
        assert isinstance(end, PowerSwitched if is_doubtful else Failed)

    metal3(story)


def test_a_host_that_cannot_be_read_at_the_moment_is_neither_on_nor_off() -> None:
    async def story(scene: Scene) -> None:
        scene.stage.fault(faults.Fault(effect=Refuse(code=500), verbs=("get",), resource=str(HOSTS), client="defib"))
        reading = await read(scene)
        assert (reading.state, "this was injected" in reading.detail) == (UNKNOWN, True)
        checked = await scene.do(CheckPower(node="n1", path=PATH))
        assert isinstance(checked, PowerChecked)
        assert "this was injected" in checked.check.why_not

    metal3(story)


# With the baremetal operator at work


def cared_for(story: Story) -> None:
    async def whole(scene: Scene) -> None:
        client = Client(InProcess(scene.stage.server, client="metal3"), scene.stage.clock)
        operator = HollowMetal3(client, scene.stage.clock, {"n1": scene.machine})
        async with asyncio.TaskGroup() as tasks:
            living = tasks.create_task(operator.run())
            await asyncio.sleep(A_WHILE)  # virtual: it takes no time
            await story(scene)
            living.cancel()

    metal3(whole)


def test_what_is_read_follows_the_machine() -> None:
    async def story(scene: Scene) -> None:
        assert (await read(scene)).state is ON
        assert isinstance(await scene.do(scene.switch(path=PATH)), PowerSwitched)
        assert (await read(scene)).state is ON, "nothing has come of it yet"
        await asyncio.sleep(A_WHILE)  # virtual
        assert (await read(scene)).state is OFF
        assert not scene.machine.is_on
        assert isinstance(await scene.do(scene.switch(ON, path=PATH)), PowerSwitched)
        await asyncio.sleep(A_WHILE)  # virtual
        assert (await read(scene)).state is ON
        assert scene.machine.bmc.taken == [Command.OFF, Command.ON], "hard, and once each"

    cared_for(story)


def test_the_host_stays_off_while_another_client_wants_it_so() -> None:
    async def story(scene: Scene) -> None:
        await annotate(scene, **{OTHER: HARD})
        await scene.do(scene.switch(path=PATH))
        await asyncio.sleep(A_WHILE)  # virtual
        await scene.do(scene.switch(ON, path=PATH))
        await asyncio.sleep(A_WHILE)  # virtual
        assert not scene.machine.is_on
        assert (await read(scene)).state is UNKNOWN, "nothing of ours keeps it off any more"

    cared_for(story)


@pytest.mark.parametrize(
    "fault", [WrongPassword(), Unreachable(), Fails(), Garbage(), Hangs()], ids=lambda fault: type(fault).__name__
)
def test_a_broken_bmc_never_reads_off_and_heals(fault: Fault) -> None:
    async def story(scene: Scene) -> None:
        scene.machine.bmc.suffer(fault)
        await scene.do(scene.switch(path=PATH))
        for _ in range(10):
            await asyncio.sleep(A_WHILE)  # virtual
            assert (await read(scene)).state is not OFF
        assert scene.machine.is_on
        scene.machine.bmc.suffer()
        await asyncio.sleep(3600)  # virtual: its operator backs off for long
        assert (await read(scene)).state is OFF
        assert not scene.machine.is_on

    cared_for(story)


def test_a_bmc_that_always_says_off_reads_unknown_until_our_annotation_is_there() -> None:
    """Then it reads off, as a BMC does that lies: whether that is a proof is not decided here."""

    async def story(scene: Scene) -> None:
        scene.machine.bmc.suffer(Claims(on=False))
        await asyncio.sleep(A_WHILE)  # virtual
        assert (await read(scene)).state is UNKNOWN
        await scene.do(scene.switch(path=PATH))
        await asyncio.sleep(A_WHILE)  # virtual
        assert (await read(scene)).state is OFF
        assert scene.machine.is_on

    cared_for(story)

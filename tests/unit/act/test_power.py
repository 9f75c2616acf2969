"""Power is switched only by whoever wrote it down first, only while it is still wanted, and no secret is ever shown."""

import base64
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, ClassVar

import msgspec
import pytest
from structlog.testing import capture_logs

from defib.act.means import Means
from defib.act.outcome import Failed, PowerChecked, PowerRead, PowerSwitched, Stale, Withheld
from defib.act.power import COMMAND_SECONDS, check_power, read_power, switch_power
from defib.clock import SystemClock
from defib.hollow.machine import Claims, Command, Fails, Hangs, Unreachable, WrongPassword
from defib.kube.client import Client, Merge
from defib.kube.discovery import Discovery
from defib.kube.errors import Forbidden, KubeError
from defib.kube.kinds import NODE_INCIDENTS
from defib.model import medik8s
from defib.model.action import CheckPower, ReadPower, SwitchPower, Target
from defib.model.mandate import Mandate
from defib.model.power import FenceCheck, PowerPath, PowerState, Reading, Sent
from defib.power.base import Refused, Unknown
from defib.power.manual import Manual
from defib.power.registry import Drivers
from defib.simulate.faults import Fault, LoseAnswer, Refuse, Slow
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import START
from tests.unit.act.fenced import INCIDENTS, PATH, Scene, Witness, fence, put_data, put_incident, put_secret, witnessed
from tests.unit.act.stage import FOO, FOOS, PLACE

OFF, ON = PowerState.OFF, PowerState.ON
WRITTEN = "patch nodeincidents/status 200"
Change = Callable[[Scene], Awaitable[None]]


def taken(scene: Scene) -> list[Command]:
    return scene.machine.bmc.taken


def test_the_record_is_written_before_the_command_is_sent() -> None:
    async def story(scene: Scene) -> None:
        witness = witnessed(scene)
        assert await scene.do(scene.switch(), Mandate("replica-7")) == PowerSwitched(Sent(OFF, START))
        command = {"power": "Off", "at": START.isoformat(), "attempt": 2, "token": "replica-7"}
        assert witness.records == [command], "this is what the world saw when the command was sent"
        assert scene.writes() == [WRITTEN]

    fence(story)


def test_what_was_written_is_noted_so_that_the_next_look_is_not_older() -> None:
    async def story(scene: Scene) -> None:
        await scene.do(scene.switch())
        assert [(kind, item.metadata.resource_version) for kind, item in scene.stage.noted] == [
            (INCIDENTS, scene.record().metadata.resource_version)
        ]

    fence(story)


async def goes_on(scene: Scene) -> None:
    await scene.note(reason="SomebodyElseWasHere")


async def is_deleted(scene: Scene) -> None:
    await scene.remove(NODE_INCIDENTS.at("n1"))


async def is_replaced(scene: Scene) -> None:
    await is_deleted(scene)
    put_incident(scene.stage)


async def is_refused(scene: Scene) -> None:
    scene.conflicts(INCIDENTS, times=None)


@pytest.mark.parametrize("change", [goes_on, is_deleted, is_replaced, is_refused])
@pytest.mark.parametrize("power", [OFF, ON])
def test_who_loses_the_race_for_the_record_sends_nothing(change: Change, power: PowerState) -> None:
    async def story(scene: Scene) -> None:
        action = scene.switch(power)
        await change(scene)
        assert await scene.do(action) == Stale("NodeIncident n1 is newer than what was judged")
        assert taken(scene) == []

    fence(story)


@pytest.mark.parametrize("effect", [LoseAnswer(), Refuse(code=500), Refuse(code=403)])
def test_who_cannot_know_whether_it_is_written_sends_nothing(effect: Any) -> None:
    async def story(scene: Scene) -> None:
        scene.stage.fault(Fault(effect=effect, verbs=("patch",), resource=INCIDENTS))
        with pytest.raises(KubeError):
            await scene.do(scene.switch())
        assert taken(scene) == []

    fence(story)


def test_the_brake_stops_an_off_and_lets_an_on_through() -> None:
    async def story(scene: Scene) -> None:
        scene.stage.stop = lambda: "the brake is on"
        assert await scene.do(scene.switch()) == Withheld("the brake is on")
        assert scene.writes() == []
        assert await scene.do(scene.switch(ON)) == PowerSwitched(Sent(ON, START))
        assert taken(scene) == [Command.ON]

    fence(story)


@pytest.mark.parametrize("power", [OFF, ON])
def test_nothing_is_written_or_sent_without_a_mandate(power: PowerState) -> None:
    async def story(scene: Scene) -> None:
        ended = Mandate("old", ends=scene.stage.clock.monotonic())
        assert await scene.do(scene.switch(power), ended) == Withheld("our mandate has ended")
        assert scene.writes() == []
        assert taken(scene) == []

    fence(story)


@pytest.mark.parametrize("power", [OFF, ON])
def test_nothing_is_sent_when_the_mandate_ends_while_the_record_is_written(power: PowerState) -> None:
    async def story(scene: Scene) -> None:
        scene.stage.fault(Fault(effect=Slow(seconds=5), verbs=("patch",), resource=INCIDENTS))
        short = Mandate("short", ends=scene.stage.clock.monotonic() + 4)
        assert await scene.do(scene.switch(power), short) == Withheld("our mandate has ended")
        assert scene.writes() == [WRITTEN]
        assert taken(scene) == []

    fence(story)


async def cause_is_gone(scene: Scene) -> None:
    await scene.remove(FOOS.at("n1", PLACE))


async def cause_is_going(scene: Scene) -> None:
    ref = FOOS.at("n1", PLACE)
    await scene.stage.world.patch(ref, Merge({"metadata": {"finalizers": ["example.com/hold"]}}))
    await scene.remove(ref)


async def cause_is_another(scene: Scene) -> None:
    await cause_is_gone(scene)
    scene.stage.put_foo()


async def time_is_up(scene: Scene) -> None:
    annotations = {medik8s.TIMED_OUT: "2030-01-01T00:00:00Z"}
    await scene.stage.world.patch(FOOS.at("n1", PLACE), Merge({"metadata": {"annotations": annotations}}))


async def node_is_another(scene: Scene) -> None:
    await scene.stage.remove_node("n1")
    scene.stage.add_node("n1")


async def node_is_ready(scene: Scene) -> None:
    await scene.stage.turn("True")


CHANGES: list[tuple[Change, str]] = [
    (cause_is_gone, "FooRemediation remedies/n1 is gone, or going"),
    (cause_is_going, "FooRemediation remedies/n1 is gone, or going"),
    (cause_is_another, "FooRemediation remedies/n1 is gone, or going"),
    (time_is_up, "the time of FooRemediation remedies/n1 is up"),
    (node_is_another, "node n1 is another one now"),
    (node_is_ready, "node n1 is ready again"),
]


@pytest.mark.parametrize(("change", "why"), CHANGES)
def test_what_is_not_wanted_any_more_is_not_switched_off(change: Change, why: str) -> None:
    async def story(scene: Scene) -> None:
        action = scene.switch(unless_ready=True)
        await change(scene)
        assert await scene.do(action) == Stale(why)
        assert scene.writes() == []
        assert taken(scene) == []

    fence(story)


@pytest.mark.parametrize(("change", "why"), CHANGES)
def test_on_is_always_right(change: Change, why: str) -> None:
    async def story(scene: Scene) -> None:
        action = scene.switch(ON, unless_ready=True)
        await change(scene)
        assert await scene.do(action) == PowerSwitched(Sent(ON, START)), f"although {why}"
        assert taken(scene) == [Command.ON]

    fence(story)


def test_a_node_that_is_ready_is_switched_off_when_a_person_asks() -> None:
    async def story(scene: Scene) -> None:
        await scene.stage.turn("True")
        assert await scene.do(scene.switch(unless_ready=False)) == PowerSwitched(Sent(OFF, START))

    fence(story)


def test_who_asked_by_an_annotation_and_took_it_back_does_not_want_it_any_more() -> None:
    async def story(scene: Scene) -> None:
        marker = "host.metal3.io/external-remediation"
        why = f"FooRemediation remedies/n1 has no annotation {marker} any more"
        assert await scene.do(scene.switch(marker=marker)) == Stale(why)
        assert isinstance(await scene.do(scene.switch(ON, marker=marker)), PowerSwitched)
        ref = FOOS.at("n1", PLACE)
        await scene.stage.world.patch(ref, Merge({"metadata": {"annotations": {marker: ""}}}))
        assert isinstance(await scene.do(scene.switch(marker=marker)), PowerSwitched)
        assert taken(scene) == [Command.ON, Command.OFF]

    fence(story)


@pytest.mark.parametrize("had_one", [True, False])
def test_a_machine_without_a_node_can_be_switched_off(had_one: bool) -> None:
    async def story(scene: Scene) -> None:
        action = scene.switch(unless_ready=True) if had_one else scene.switch(node_uid="")
        await scene.stage.remove_node("n1")
        assert await scene.do(action) == PowerSwitched(Sent(OFF, START))
        assert taken(scene) == [Command.OFF]

    fence(story)


def test_the_secret_is_read_at_each_call_and_a_changed_password_is_used_by_the_next() -> None:
    async def story(scene: Scene) -> None:
        read = ReadPower(incident_uid=scene.incident.uid, node="n1", path=PATH)
        assert await scene.do(read) == PowerRead(Reading(ON, START))
        scene.machine.bmc.password = "a new one"
        changed = await scene.do(read)
        assert isinstance(changed, PowerRead)
        assert changed.reading.detail == "it does not accept our credentials"
        put_secret(scene.stage, username="admin", password="a new one")
        assert await scene.do(read) == PowerRead(Reading(ON, START))
        assert scene.stage.asked().count("get secrets 200") == 3

    fence(story)


def test_a_line_end_after_a_password_does_not_belong_to_it() -> None:
    async def story(scene: Scene) -> None:
        put_secret(scene.stage, username="admin\n", password=f"{scene.machine.bmc.password}\n")
        assert await scene.do(CheckPower(node="n1", path=PATH)) == PowerChecked(FenceCheck(PATH, START, "", ON))

    fence(story)


def test_the_certificates_of_the_secret_become_an_option_and_all_else_stays_secret() -> None:
    async def story(scene: Scene) -> None:
        put_secret(scene.stage, **{"username": "u", "password": "p", "ca.crt": "-----BEGIN", "token": "t"})
        witness = witnessed(scene)
        path = msgspec.structs.replace(PATH, options={"system": "/1"})
        for action in scene.three(path):
            await scene.do(action)
        assert len(witness.targets) == 4, "a check also reads"
        for target in witness.targets:
            assert target.options == {"ca": "-----BEGIN", "system": "/1"}
            assert {key: secret.reveal() for key, secret in target.credentials.more.items()} == {"token": "t"}
            login = target.credentials
            assert (login.username.reveal(), login.password.reveal(), target.address) == ("u", "p", "n1")

    fence(story)


def test_a_way_without_a_secret_asks_for_none() -> None:
    async def story(scene: Scene) -> None:
        witness = witnessed(scene)
        await scene.do(scene.switch(path=PowerPath(driver="hollow", address="n1")))
        assert not witness.targets[0].credentials.password
        assert "get secrets 200" not in scene.stage.asked()

    fence(story)


HIDDEN = "a-password-that-nobody-may-see"
NO_TEXT = base64.b64encode(b"\xff\xfe" + HIDDEN.encode()).decode()
SECRETS: list[tuple[dict[str, str] | None, str]] = [
    (None, "there is no Secret remedies/bmc; create it, with username and password"),
    ({"password": f"{HIDDEN}!"}, "Secret remedies/bmc cannot be used: its key 'password' does not hold a text"),
    (
        {"username": "YQ==", "password": NO_TEXT},
        "Secret remedies/bmc cannot be used: its key 'password' does not hold a text",
    ),
    ({"password": "é"}, "Secret remedies/bmc cannot be used: its key 'password' does not hold a text"),
]


@pytest.mark.parametrize(("data", "sentence"), SECRETS, ids=["missing", "not base64", "binary", "not ascii"])
def test_a_secret_that_cannot_be_used_is_told_in_a_sentence(data: dict[str, str] | None, sentence: str) -> None:
    async def story(scene: Scene) -> None:
        put_data(scene.stage, data or {})
        if data is None:
            scene.stage.server.store.remove("secrets", scene.stored("secrets", f"{PLACE}/bmc"))
        with capture_logs() as logs:
            ends = [await scene.do(action) for action in scene.three(PATH)]
        assert ends == [
            Failed(sentence),
            PowerRead(Reading(PowerState.UNKNOWN, START, sentence)),
            PowerChecked(FenceCheck(PATH, START, sentence)),
        ]
        assert scene.writes() == [], "nothing is written down that could not be sent"
        assert HIDDEN not in repr((ends, logs))

    fence(story)


def test_a_secret_that_we_may_not_read_is_an_error_that_says_so() -> None:
    async def story(scene: Scene) -> None:
        scene.stage.fault(Fault(effect=Refuse(code=403, message="secrets is forbidden"), resource="secrets"))
        for action in scene.three(PATH):
            with pytest.raises(Forbidden, match="secrets is forbidden"):
                await scene.do(action)
        assert taken(scene) == []

    fence(story)


def test_no_secret_is_seen_anywhere() -> None:
    """Whatever happens: not in the log, not in what an action ends with, not in anything that is stored."""

    async def story(scene: Scene) -> None:
        put_secret(scene.stage, username="admin", password=HIDDEN, token=f"{HIDDEN}-too")
        refused, doubtful = Refused("it said no"), Unknown("it said nothing")
        ends: list[Any] = []
        with capture_logs() as logs:
            for outcome in (None, refused, doubtful):
                witness = witnessed(scene, outcome)
                ends += [await scene.do(action) for action in scene.three(PATH)]
                ends += [await scene.do(scene.switch(ON)), witness.targets]
        assert "Secret(hidden)" in repr(ends)
        assert HIDDEN not in repr((ends, logs, scene.stage.noted))
        assert HIDDEN not in repr((scene.record(), scene.stage.foos(), scene.stage.objects("events")))
        hidden = base64.b64encode(HIDDEN.encode()).decode()[:-2]
        assert hidden in repr(scene.stage.objects("secrets"))
        assert hidden not in repr((ends, logs, scene.stage.noted, scene.record()))

    fence(story)


def test_what_is_refused_has_failed_and_what_is_doubtful_may_have_been_done() -> None:
    async def story(scene: Scene) -> None:
        scene.machine.bmc.suffer(WrongPassword())
        assert await scene.do(scene.switch()) == Failed("it does not accept our credentials")
        scene.machine.bmc.suffer(Unreachable())
        assert await scene.do(scene.switch()) == Failed("n1 cannot be reached")
        scene.machine.bmc.suffer(Fails())
        with capture_logs() as logs:
            assert await scene.do(scene.switch()) == PowerSwitched(Sent(OFF, START))
        warning = next(line for line in logs if line["log_level"] == "warning")
        assert (warning["node"], warning["why"]) == ("n1", "it answered with an internal error")

    fence(story)


def test_a_bmc_that_hangs_is_left_and_the_command_counts_from_when_it_ended() -> None:
    """What was read before that says nothing; and a slow BMC is not told again before it could have done anything."""

    async def story(scene: Scene) -> None:
        scene.machine.bmc.suffer(Hangs())
        end = START + timedelta(seconds=COMMAND_SECONDS)
        assert await scene.do(scene.switch()) == PowerSwitched(Sent(OFF, end))
        assert scene.stage.clock.now() == end

    fence(story)


def test_what_a_check_finds() -> None:
    async def story(scene: Scene) -> None:
        check = CheckPower(node="n1", path=PATH)
        assert await scene.do(check) == PowerChecked(FenceCheck(PATH, START, "", ON))
        scene.machine.bmc.suffer(Claims(on=False))
        assert await scene.do(check) == PowerChecked(FenceCheck(PATH, START, "", OFF)), "its node knows better"
        scene.machine.bmc.suffer(WrongPassword())
        assert await scene.do(check) == PowerChecked(FenceCheck(PATH, START, "it does not accept our credentials"))
        assert scene.writes() == []
        assert taken(scene) == []

    fence(story)


def test_a_driver_that_cannot_read_says_so() -> None:
    async def story(scene: Scene) -> None:
        scene.stage.drivers = Drivers(scene.stage.clock, {"manual": Manual(scene.stage.clock)})
        by_hand = "only a person can switch this machine, and confirm that it is off"
        switched, read, checked = [await scene.do(one) for one in scene.three(PowerPath(driver="manual"))]
        assert switched == Failed(by_hand)
        assert read == PowerRead(Reading(PowerState.UNKNOWN, START, by_hand), can_read=False)
        assert checked == PowerChecked(FenceCheck(PowerPath(driver="manual"), START, by_hand))

    fence(story)


async def test_a_driver_that_is_not_installed_is_told_with_those_that_are() -> None:
    """In real time, because what is installed is looked up in a thread."""
    clock = SystemClock()
    client = Client(InProcess(ApiServer(clock), client="defib"), clock)
    means = Means(
        client=client,
        discovery=Discovery(client),
        clock=clock,
        lock_namespace="",
        namespace="defib-system",
        stop=str,
        note=lambda *_: None,
        drivers=Drivers(clock),
    )
    nobody = Target(kind=FOO, namespace=PLACE, name="n1", uid="u")
    path = PowerPath(driver="telepathy", address="n1")
    on = SwitchPower(incident=nobody, version="1", node="n1", node_uid="", path=path, power=ON, attempt=1, cause=nobody)
    switched = await switch_power(means, on, Mandate("test"))
    read = await read_power(means, ReadPower(incident_uid="u", node="n1", path=path))
    checked = await check_power(means, CheckPower(node="n1", path=path))
    sentence = "there is no power driver 'telepathy', only fence-agent, ipmi, manual, redfish, webhook"
    assert isinstance(switched, Failed)
    assert switched.why.startswith(sentence)
    assert isinstance(read, PowerRead)
    assert (read.reading.state, read.reading.detail) == (PowerState.UNKNOWN, switched.why)
    assert isinstance(checked, PowerChecked)
    assert checked.check.why_not == switched.why


@pytest.mark.parametrize(
    "path",
    [
        PowerPath(driver="metal3", address="n1", options={"key": "reboot.metal3.io/defib"}),
        PowerPath(driver="metal3", address="metal/n1"),
        PowerPath(driver="hollow", address="n1", secret="bmc"),
        PowerPath(driver="hollow", address="n1", secret="/bmc"),
    ],
)
def test_a_path_that_leads_nowhere_is_told_and_stops_nobody(path: PowerPath) -> None:
    async def story(scene: Scene) -> None:
        switch, read, check = scene.three(path)
        assert isinstance(await scene.do(switch), Failed)
        assert isinstance(reading := await scene.do(read), PowerRead)
        assert reading.reading.state is PowerState.UNKNOWN
        assert isinstance(checked := await scene.do(check), PowerChecked)
        assert checked.check.why_not
        assert scene.writes() == []

    fence(story)


class Blind(Witness):
    can_read_state: ClassVar[bool] = False


@pytest.mark.parametrize("power", [OFF, ON])
def test_what_was_not_clearly_accepted_counts_only_where_it_can_be_read_back(power: PowerState) -> None:
    """A proof of grade C rests on nothing but a yes: no answer at all must not become one."""

    async def story(scene: Scene) -> None:
        for kind, outcome, end in (
            (Witness, Unknown("no answer"), PowerSwitched(Sent(power, START))),
            (Blind, Unknown("no answer"), Failed("no answer")),
            (Blind, None, PowerSwitched(Sent(power, START))),
        ):
            scene.stage.drivers = Drivers(scene.stage.clock, {"hollow": kind(scene.stage, outcome)})
            assert await scene.do(scene.switch(power)) == end

    fence(story)

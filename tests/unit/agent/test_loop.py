"""The life of an agent in virtual time: when it arms, feeds, stops feeding, and disarms. Peers are silent here."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from defib.agent.answering import Found, Relay
from defib.agent.asking import Asking
from defib.agent.certificates import Certificates
from defib.agent.lease import Leases
from defib.agent.loop import STOP_SECONDS, Agent, Means
from defib.agent.settings import AgentSettings, problems_of
from defib.agent.words import Word
from defib.forms import ANY_HOST, Address
from defib.kube.client import Client, Deletion, Merge
from defib.kube.kinds import LEASES
from defib.model.node import Lease
from defib.model.self_fence import (
    LABEL,
    LABEL_VALUE,
    ORDER,
    PEERS_EVERY,
    Kind,
    Order,
    Pace,
    Report,
    lease_name,
    read_report,
    text_of,
)
from defib.simulate.faults import Fault, Hang, LoseAnswer, Refuse
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run

HOME = "default"
PACE = Pace(interval_seconds=10, request_seconds=3, failures=2, peer_seconds=12)  # fresh for 19 s, patient for 31 s
REF = LEASES.at(lease_name("n1"), HOME)
SETTINGS = AgentSettings(
    node="n1",
    namespace=HOME,
    address=Address("10.0.0.1", 9640),
    tls=Path("nowhere"),
    watchdog="stand-in",
    watchdog_seconds=12,
    pace=PACE,
)


class Recorder:
    """A watchdog that notes when it was fed."""

    kind: Kind = "device"
    seconds = 12.0

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.fed: list[float] = []
        self.ended = ""

    def feed(self) -> None:
        self.fed.append(self._clock.monotonic())

    def disarm(self) -> bool:
        self.ended = "disarmed"
        return True

    def leave(self) -> None:
        self.ended = "left"


class Room:
    def __init__(
        self,
        clock: VirtualClock,
        group: asyncio.TaskGroup,
        leases: Callable[..., Leases] = Leases,
        agent: Callable[..., Agent] = Agent,
    ) -> None:
        self.clock = clock
        self.server = ApiServer(clock)
        self.admin = Client(InProcess(self.server, "admin"), clock)
        self.watchdog = Recorder(clock)
        self.armed_at: float | None = None
        self._group = group
        self.running: asyncio.Task[bool] | None = None
        self.leases = leases(Client(InProcess(self.server, "agent"), clock), HOME, "n1", PACE.request_seconds, clock)
        self.relay = Relay(self.leases.look, clock)
        asking = Asking("n1", "boot-1", PACE, Certificates(Path("nowhere")), clock)
        means = Means(leases=self.leases, asking=asking, relay=self.relay, arm=self._arm, clock=clock)
        self.agent = agent(SETTINGS, "east", 9640, means)

    def _arm(self) -> Recorder:
        self.armed_at = self.clock.monotonic()
        return self.watchdog

    def start(self) -> None:
        self.running = self._group.create_task(self.agent.run())

    def a_silent_peer(self) -> None:
        """Known, and never heard of: so this node is not alone, and half of two is not most."""
        metadata = {"name": lease_name("n2"), "namespace": HOME, "labels": {LABEL: LABEL_VALUE}}
        self.server.put(str(LEASES), {"metadata": metadata, "spec": {}})

    async def order(self, boot_id: str = "boot-1") -> None:
        order = text_of(Order(remediation="uid", boot_id=boot_id))
        await self.admin.patch(REF, Merge({"metadata": {"annotations": {ORDER: order}}}))

    def fault(self, effect: Hang | Refuse | LoseAnswer) -> None:
        self.server.faults.inject(Fault(effect=effect, client="agent"))

    def report(self) -> Report:
        stored = self.server.store.get(str(LEASES), f"{HOME}/{REF.name}")
        assert stored is not None
        report = read_report(msgspec.convert(stored.object, Lease))
        assert report is not None
        return report


def play(
    scenario: Callable[[Room], Awaitable[None]],
    *,
    leases: Callable[..., Leases] = Leases,
    agent: Callable[..., Agent] = Agent,
    clock_of: Callable[[asyncio.AbstractEventLoop], VirtualClock] = VirtualClock,
) -> None:
    async def main(_clock: VirtualClock) -> None:
        async with asyncio.TaskGroup() as group:
            room = Room(clock_of(asyncio.get_running_loop()), group, leases, agent)
            await scenario(room)
            if room.running:
                room.running.cancel()

    run(main)


def asked_by(room: Room) -> list[str]:
    return [one.verb for one in room.server.audit if one.client == "agent"]


async def seconds(count: float) -> None:
    """Virtual ones."""
    await asyncio.sleep(count)


async def until_listed_again(room: Room) -> None:
    """And a moment longer. Then nothing but renewals follow for a while, 10 s after each other."""
    while asked_by(room).count("list") < 2:
        await seconds(0.5)
    await seconds(0.5)


def test_the_watchdog_is_armed_only_after_the_api_server_has_spoken_and_peers_are_known() -> None:
    async def scenario(room: Room) -> None:
        fault = Fault(effect=Refuse(code=503), client="agent")
        room.server.faults.inject(fault)
        room.start()
        await seconds(300)
        assert room.armed_at is None
        room.server.faults.remove(fault)
        await seconds(PACE.retry_seconds + 2.5)
        assert room.armed_at is not None
        assert room.report().armed, "and that is said at once"

    play(scenario)


def test_one_request_is_made_in_each_interval_and_the_report_says_how_the_agent_really_works() -> None:
    async def scenario(room: Room) -> None:
        room.start()
        await seconds(102.5)
        assert asked_by(room)[:4] == ["patch", "create", "list", "patch"], (
            "it is armed, and says so, as soon as it can be"
        )
        assert len(asked_by(room)) == 4 + 10
        report = room.report()
        assert (report.watchdog, report.watchdog_seconds, report.feed_seconds) == ("device", 12, 3)
        assert (report.pace, report.boot_id, report.domain, report.port) == (PACE, "boot-1", "east", 9640)
        assert report.answered_seconds == 10
        assert report.steady_seconds == 102

    play(scenario)


def test_the_list_of_peers_is_read_again_and_again_instead_of_a_renewal() -> None:
    async def scenario(room: Room) -> None:
        room.start()
        await seconds(10 * PEERS_EVERY * 4 + 1.5)
        verbs = asked_by(room)
        assert verbs[:4] == ["patch", "create", "list", "patch"]
        lists = [number for number, verb in enumerate(verbs) if verb == "list"]
        assert 1 + 3 <= len(lists) <= 1 + 4
        assert {later - one for one, later in pairwise(lists[1:])} == {PEERS_EVERY}
        assert set(verbs[3:]) == {"patch", "list"}

    play(scenario)


def test_a_report_to_rely_on_says_whom_the_node_knows() -> None:
    async def scenario(room: Room) -> None:
        room.a_silent_peer()
        room.start()
        while not (room.server.store.get(str(LEASES), f"{HOME}/{REF.name}") and room.report().armed):
            await seconds(1)
        assert room.report().known == {"east": 1, "unknown n2": 1}

    play(scenario)


@pytest.mark.parametrize(("renewals", "lives"), [(0, False), (1, True)])
def test_a_new_list_counts_alone_only_after_it_was_reported(renewals: int, lives: bool) -> None:
    """The other agent is gone, so that the node is alone and outlives its API server. Does the operator know that it is?"""

    async def scenario(room: Room) -> None:
        room.a_silent_peer()
        room.start()
        await seconds(30)
        other = await room.admin.get(LEASES.at(lease_name("n2"), HOME))
        await room.admin.delete(LEASES.at(other.name, HOME), Deletion(uid=other.uid))
        while asked_by(room).count("list") < 2:
            await seconds(1)
        await seconds(renewals * PACE.interval_seconds)
        assert room.report().known == ({"east": 1} if renewals else {"east": 1, "unknown n2": 1})
        room.fault(Hang())
        await seconds(300)
        assert (room.watchdog.fed[-1] > room.clock.monotonic() - room.watchdog.seconds) is lives

    play(scenario)


@pytest.mark.parametrize("effect", [Hang(), Refuse(code=503)], ids=repr)
def test_what_gets_no_answer_is_asked_again_sooner_than_usual(effect: Hang | Refuse) -> None:
    async def scenario(room: Room) -> None:
        room.start()
        await until_listed_again(room)
        fault = Fault(effect=effect, client="agent")
        room.server.faults.inject(fault)
        before = len(asked_by(room))
        await seconds(PACE.interval_seconds + 2 * PACE.retry_seconds)
        assert len(asked_by(room)) == before + 3
        room.server.faults.remove(fault)
        await seconds(PACE.retry_seconds)
        assert room.report().answered_seconds == PACE.interval_seconds + 3 * PACE.retry_seconds
        await seconds(PACE.interval_seconds)
        assert room.report().answered_seconds == PACE.interval_seconds

    play(scenario)


def test_whoever_has_an_order_renews_for_as_long_as_it_lives_and_reads_no_list() -> None:
    """So that a watchdog that does not fire is noticed."""

    async def scenario(room: Room) -> None:
        room.start()
        await seconds(60.5)
        await room.order()
        await seconds(10)
        fed = list(room.watchdog.fed)
        await seconds(1000)
        assert room.watchdog.fed == fed
        assert set(asked_by(room)[-100:]) == {"patch"}

    play(scenario)


def test_a_lease_that_is_gone_is_made_anew() -> None:
    async def scenario(room: Room) -> None:
        room.start()
        await until_listed_again(room)
        lease = await room.admin.get(REF)
        await room.admin.delete(REF, Deletion(uid=lease.uid))
        await seconds(10)
        assert asked_by(room)[-2:] == ["patch", "create"]
        assert room.report().armed

    play(scenario)


def test_a_list_that_fails_is_not_asked_for_again_at_once() -> None:
    async def scenario(room: Room) -> None:
        room.start()
        await until_listed_again(room)
        room.server.faults.inject(Fault(effect=Hang(), client="agent", verbs=("list",)))
        before = asked_by(room).count("list")
        await seconds(1000)
        assert 5 <= asked_by(room).count("list") - before <= 16
        assert room.watchdog.fed[-1] > 1000

    play(scenario)


def test_a_node_with_an_order_is_fed_no_more() -> None:
    async def scenario(room: Room) -> None:
        room.start()
        await seconds(60)
        await room.order()
        at = room.clock.monotonic()
        await seconds(60)
        assert room.watchdog.fed[-1] <= at + PACE.interval_seconds
        assert room.watchdog.ended == "", "and it is not let go of either"

    play(scenario)


def test_an_order_for_another_boot_is_not_for_this_one() -> None:
    async def scenario(room: Room) -> None:
        room.start()
        await seconds(60)
        await room.order("boot-0")
        await seconds(60)
        assert room.watchdog.fed[-1] >= 115

    play(scenario)


def test_an_agent_that_is_started_with_an_order_arms_the_watchdog_and_never_feeds_it() -> None:
    async def scenario(room: Room) -> None:
        metadata = {
            "name": REF.name,
            "namespace": HOME,
            "annotations": {ORDER: text_of(Order(remediation="uid", boot_id="boot-1"))},
        }
        room.server.put(str(LEASES), {"metadata": metadata, "spec": {}})
        room.start()
        await seconds(60)
        assert room.armed_at is not None
        assert room.watchdog.fed == []

    play(scenario)


@pytest.mark.parametrize("effect", [Hang(), Refuse(code=503), Refuse(code=403), LoseAnswer()], ids=repr)
def test_a_node_that_hears_nothing_lives_for_as_long_as_its_last_word_is_good(
    effect: Hang | Refuse | LoseAnswer,
) -> None:
    async def scenario(room: Room) -> None:
        room.a_silent_peer()
        room.start()
        await seconds(60.5)
        room.fault(effect)
        await seconds(120)
        last_word = 60.0
        assert last_word + PACE.fresh_seconds < room.watchdog.fed[-1] < last_word + PACE.patience_seconds

    play(scenario)


def test_a_single_node_outlives_its_api_server() -> None:
    async def scenario(room: Room) -> None:
        room.start()
        await seconds(60)
        room.fault(Hang())
        await seconds(600)
        assert room.watchdog.fed[-1] > 650

    play(scenario)


def test_renewals_that_arrive_without_their_answers_say_so() -> None:
    async def scenario(room: Room) -> None:
        room.start()
        await seconds(60.5)
        room.fault(LoseAnswer())
        await seconds(30)
        assert room.report().answered_seconds > 2 * PACE.interval_seconds

    play(scenario)


def test_a_report_says_since_when_no_peer_was_told_that_we_are_cut_off() -> None:
    async def scenario(room: Room) -> None:
        room.start()
        await until_listed_again(room)
        assert (await room.relay.ask("n1"))[0].word is Word.REACHED
        await seconds(PACE.interval_seconds)
        assert room.report().steady_seconds >= room.clock.monotonic() - 2
        room.server.faults.inject(Fault(effect=Hang(), client="agent", verbs=("get",)))
        assert (await room.relay.ask("n1"))[0].word is Word.CUT_OFF
        await seconds(PACE.interval_seconds)
        assert 0 < room.report().steady_seconds < PACE.interval_seconds

    play(scenario)


def test_a_peer_is_told_of_its_order_or_that_nobody_answers_and_nothing_of_a_lease_that_is_not_there() -> None:
    async def scenario(room: Room) -> None:
        assert await room.leases.look("n1") == Found(Word.UNKNOWN)
        room.start()
        await seconds(1)
        assert await room.leases.look("n1") == Found(Word.REACHED)
        await room.order()
        assert await room.leases.look("n1") == Found(Word.REACHED, Order(remediation="uid", boot_id="boot-1"))
        room.fault(Refuse(code=503))
        assert await room.leases.look("n1") == Found(Word.CUT_OFF)

    play(scenario)


def test_an_agent_that_is_stopped_disarms_once_the_api_server_knows() -> None:
    async def scenario(room: Room) -> None:
        room.start()
        await seconds(60)
        room.agent.stop()
        assert room.running is not None
        assert await room.running
        assert room.watchdog.ended == "disarmed"
        assert not room.report().armed
        assert room.clock.monotonic() < 62

    play(scenario)


def test_an_agent_that_is_stopped_with_an_order_does_not_disarm() -> None:
    async def scenario(room: Room) -> None:
        room.start()
        await seconds(60)
        await room.order()
        room.agent.stop()  # it has not read the order yet, and does so with the same request that would have been its last
        assert room.running is not None
        assert not await room.running
        assert room.watchdog.ended == "left"

    play(scenario)


def test_an_agent_that_is_stopped_while_the_api_server_is_out_does_not_disarm() -> None:
    async def scenario(room: Room) -> None:
        room.start()
        await seconds(60)
        room.fault(Refuse(code=503))
        room.agent.stop()
        assert room.running is not None
        assert not await room.running
        assert room.watchdog.ended == "left"
        assert 60 + STOP_SECONDS <= room.clock.monotonic() < 60 + STOP_SECONDS + PACE.request_seconds

    play(scenario)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"address": Address(ANY_HOST, 9640)}, "--address"),
        ({"pace": msgspec.structs.replace(PACE, request_seconds=11.0)}, "--request-timeout"),
        ({"pace": msgspec.structs.replace(PACE, failures=1)}, "--failures"),
        ({"pace": msgspec.structs.replace(PACE, peer_seconds=7.9)}, "--peer-time: 8s"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(changes: dict[str, object], problem: str) -> None:
    assert problems_of(SETTINGS) == []
    (told,) = problems_of(msgspec.structs.replace(SETTINGS, **changes))
    assert told.startswith(problem)

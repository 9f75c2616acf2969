"""The operator dies before or after any of its writes while pods leave a failed node: in the end all that should have
moved has moved, nothing else was ever deleted, and what the policies say is right. EV-21 is one of these deaths.

Two policies share a node: the first takes its web servers, the second the rest, of which one pod has a claim that must be
read, one is excluded, and two must not run twice.
"""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from tests.failover_stage import Stage, play
from tests.mortal_operator import Doom

FRONT, REST = "front", "rest"
MOVED = {FRONT: ["web-1", "web-2", "web-3"], REST: ["job-1", "web-shared-1"]}
STAYING = ["agent-1", "db-0", "noobaa-db-pg-0", "web-9", "web-own-1"]
DEEDS = 8  # that it takes at least

Twist = Callable[[Stage], Awaitable[None]]


async def prepare(stage: Stage) -> None:
    stage.claim("shared", "ReadWriteMany")
    stage.claim("own", "ReadWriteOnce")
    for name in MOVED[FRONT]:
        stage.pod(name, labels={"tier": "front"})
    for name in ("job-1", "db-0", "noobaa-db-pg-0", "agent-1"):
        stage.pod(name)
    for name in ("shared", "own"):
        stage.pod(f"web-{name}-1", claims=[name])
    stage.pod("web-9", "n2")
    await stage.policy(FRONT, selector={"matchLabels": {"tier": "front"}})
    await stage.policy(REST, selector={}, exclude={"names": ["noobaa-db-pg-*"]})


def is_moved(stage: Stage) -> None:
    """Every pod that should move was asked to once, and everything that is said about it is right."""
    assert stage.pods() == STAYING
    assert stage.tried == sorted([*MOVED[FRONT], *MOVED[REST]])
    front, rest = stage.entry("n1", FRONT), stage.entry("n1", REST)
    assert (front["state"], front["found"], front["moved"], front["waiting"]) == ("Moved", 3, 3, 0)
    assert (rest["state"], rest["found"], rest["moved"]) == ("WaitingForProof", 2, 2)
    assert (rest["waiting"], rest["kept"]) == (2, 2)
    assert (stage.settled(FRONT), stage.settled(REST)) == ("True Moved", "False WaitingForProof")
    assert [stage.status(policy)["moved"] for policy in (FRONT, REST)] == [3, 2]


async def is_over(stage: Stage) -> None:
    """And it stays right when the node is back."""
    await stage.turn("n1", ready="True")
    await stage.seconds(30)
    for policy, moved in ((FRONT, 3), (REST, 2)):
        status = stage.status(policy)
        assert (stage.settled(policy), status["moved"], status["waiting"]) == ("True Quiet", moved, 0)
    assert stage.pods() == STAYING


async def _sweep_one(doom: Doom, rest_seconds: float, stage: Stage, struck: list[bool]) -> None:
    await prepare(stage)
    await stage.fail("n1")
    async with stage.operator(doom) as running:
        await stage.seconds(20)
    struck.append(running.life.was_struck)
    await stage.seconds(rest_seconds)
    async with stage.operator():
        await stage.seconds(60)
        is_moved(stage)
        await is_over(stage)


@pytest.mark.parametrize("after", [False, True])
def test_ev_21_whoever_comes_after_an_operator_that_died_moves_exactly_what_is_left(after: bool) -> None:
    deed, struck = 0, [True]
    while struck[-1]:
        deed += 1
        doom = Doom(at=deed, after=after)
        play(partial(_sweep_one, doom, 300.0 * (deed % 3), struck=struck))
    assert deed > DEEDS


def test_ev_21_pods_of_the_node_under_the_operator_are_moved_by_the_next_one() -> None:
    async def story(stage: Stage) -> None:
        await prepare(stage)
        async with stage.operator(node_name="n1"):
            await stage.seconds(60)
        await stage.fail("n1")
        await stage.seconds(15)
        async with stage.operator(node_name="n2"):
            await stage.seconds(2)
            is_moved(stage)

    play(story)


def test_operators_that_die_with_every_second_write_get_there_all_the_same() -> None:
    async def story(stage: Stage) -> None:
        await prepare(stage)
        await stage.fail("n1")
        for _ in range(20):
            async with stage.operator(Doom(at=2)):
                await stage.seconds(10)
        is_moved(stage)

    play(story)


# Somebody steps in, with the write of every number, and the operator dies of it or not.


class Moment:
    """When it happened, and what was deleted until then."""

    def __init__(self, stage: Stage, twist: Twist) -> None:
        self._stage = stage
        self._twist = twist
        self.at = float("inf")

    async def __call__(self) -> None:
        await self._twist(self._stage)
        self.at = self._stage.clock.monotonic()

    @property
    def deleted_since(self) -> list[str]:
        """What was asked for at the same moment had passed its last look already."""
        return [one.pod for one in self._stage.deleted if one.at > self.at]


async def step_in(stage: Stage, deed: int, twist: Twist, *, spares: bool) -> Moment | None:
    """What has come of it half a minute later; None when all was over before."""
    await prepare(stage)
    await stage.fail("n1")
    moment = Moment(stage, twist)
    async with stage.operator(Doom(at=deed, twist=moment, spares=spares)) as running:
        await stage.seconds(30)
    if not running.life.was_struck:
        return None
    return moment


async def put_brake_on(stage: Stage) -> None:
    await stage.brake()


async def come_back(stage: Stage) -> None:
    await stage.turn("n1", ready="True")


async def delete_policy(stage: Stage) -> None:
    await stage.give_up(REST)


def for_every_deed(end: Callable[[Stage, Moment], Awaitable[None]], twist: Twist, *, spares: bool) -> None:
    deed, struck = 0, [True]

    async def story(stage: Stage) -> None:
        moment = await step_in(stage, deed, twist, spares=spares)
        struck.append(moment is not None)
        if moment is not None:
            await end(stage, moment)

    while struck[-1]:
        deed += 1
        play(story)
    assert deed > DEEDS


@pytest.mark.parametrize("spares", [False, True])
def test_the_brake_in_the_middle_holds_what_is_left_and_no_more_until_it_is_released(spares: bool) -> None:
    async def end(stage: Stage, moment: Moment) -> None:
        async with stage.operator() as running:
            await stage.seconds(120)
            assert moment.deleted_since == []
            gone = set(stage.tried)
            held = {policy for policy, pods in MOVED.items() if set(pods) - gone}
            assert {policy for policy in MOVED if stage.settled(policy) == "False Brake"} == held
            assert running.held("Brake") == (1.0 if held else None)
            await stage.release()
            await stage.seconds(60)
            is_moved(stage)
            await is_over(stage)

    for_every_deed(end, put_brake_on, spares=spares)


@pytest.mark.parametrize("spares", [False, True])
def test_a_node_that_comes_back_in_the_middle_keeps_what_is_left(spares: bool) -> None:
    async def end(stage: Stage, moment: Moment) -> None:
        async with stage.operator():
            await stage.seconds(120)
            assert moment.deleted_since == []
            assert set(stage.pods()) >= set(STAYING)
            assert (stage.settled(FRONT), stage.settled(REST)) == ("True Quiet", "True Quiet")
            for policy, pods in MOVED.items():  # nobody looks after pods of a node that is well
                assert stage.status(policy)["moved"] in (0, len(set(pods) & set(stage.tried)))

    for_every_deed(end, come_back, spares=spares)


@pytest.mark.parametrize("spares", [False, True])
def test_a_policy_that_is_deleted_in_the_middle_moves_nothing_more(spares: bool) -> None:
    async def end(stage: Stage, moment: Moment) -> None:
        async with stage.operator():
            await stage.seconds(120)
            assert not set(moment.deleted_since) & set(MOVED[REST])
            assert set(stage.pods()) >= set(STAYING)
            assert not set(stage.pods()) & set(MOVED[FRONT])
            assert (stage.settled(FRONT), stage.status(FRONT)["moved"]) == ("True Moved", 3)

    for_every_deed(end, delete_policy, spares=spares)

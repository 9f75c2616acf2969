"""The operator dies before or after any of its writes while it finishes drains: in the end all that had to go has gone,
nothing was done twice, nothing else was touched, nobody lost a place, and the locks are given back.

Two nodes are drained, and one at a time may be forced. On the first there is a pod for each strategy, one that is made
again elsewhere under the same name, and one that must not be forced; the second has to wait for its turn.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

import pytest

from defib.kube.transport import Request
from tests.drain_stage import EVICT, NEVER, WHEN_KILLED, Stage, play
from tests.mortal_operator import Doom

FINALIZER = "example.com/hold"
FREE = {"app": "free"}
GOING = ["db-0", "web-budget", "web-held", "web-never", "web-plain", "web-shared", "web-stuck"]
STAYING = ["agent-1", "db-9", "web-kept"]
QUICK = {"timeout": "60s", "expectedDrainTime": "20s", "pdbForceDrainTimeout": "100s", "extraGrace": "10s"}
PARTS = 12  # the deeds are shared out, since no single test may take long
DEEDS = 40  # that it takes at least
LONG = 400  # seconds, in which all is done

Twist = Callable[[Stage], Awaitable[None]]


async def prepare(stage: Stage) -> dict[str, str]:
    """The UIDs of those that have to go."""
    stage.claim("shared", "ReadWriteMany")
    stage.remade_on = "n3"
    uids = {
        "db-0": stage.pod("db-0", labels=FREE),
        "web-budget": stage.pod("web-budget"),
        "web-held": stage.pod("web-held", labels=FREE, finalizers=[FINALIZER]),
        "web-never": stage.pod("web-never", labels=FREE, habit=NEVER),
        "web-plain": stage.pod("web-plain", labels=FREE),
        "web-shared": stage.pod("web-shared", labels=FREE, habit=NEVER, claims=["shared"]),
        "web-stuck": stage.pod("web-stuck", labels=FREE, habit=WHEN_KILLED),
        "web-later": stage.pod("web-later", "n2", labels=FREE),
    }
    stage.pod("db-9", labels=FREE, habit=NEVER)
    stage.pod("agent-1")
    stage.pod("web-kept", annotations={"defib.dev/keep": ""})
    stage.pod("web-elsewhere", "n4")
    await stage.budget()
    await stage.drain_policy(finalizers=[FINALIZER], **QUICK)
    stage.before = partial(_one_at_a_time, stage)
    await stage.cordon("n1", "n2")
    return uids


async def _one_at_a_time(stage: Stage, _: Request) -> None:
    begun = [node for node in ("n1", "n2") if stage.drain(node).get("begun")]
    if len(begun) > 1:
        stage.wrongs.append("both nodes are forced")


def is_finished(stage: Stage, uids: dict[str, str]) -> None:
    assert (stage.there("n1"), stage.there("n2")) == (STAYING, [])
    assert {one.uid for one in stage.done} - set(uids.values()) <= {stage.uid("db-9")}
    assert "db-0" in stage.there("n3")  # the one that was made again
    # What a budget refuses may be asked for again, and nothing else.
    often = Counter((one.rung, one.uid) for one in stage.done if (one.rung, one.pod) != (EVICT, "web-budget"))
    assert [deed for deed, times in often.items() if times > 1] == []
    assert (stage.stands("n1"), stage.stands("n2")) == ("Watching", "Drained")  # db-9 waits for a proof
    assert not any(stage.drain(node).get("begun") for node in ("n1", "n2"))
    assert (stage.holder("n1"), stage.holder("n2")) == ("", "")


async def is_over(stage: Stage) -> None:
    await stage.uncordon("n1", "n2")
    await stage.seconds(5)
    assert stage.drains() == ["n1"]  # it may go on
    await stage.minutes(11)
    assert stage.drains() == []
    assert stage.policy_status()["draining"] == 0


def deeds(part: int, struck: list[bool]) -> Iterator[int]:
    """Every so many, until all is over before the deed of the number."""
    deed = part + 1
    while struck[-1]:
        yield deed
        deed += PARTS
    assert deed > DEEDS


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("after", [False, True])
def test_shx_04_whoever_comes_after_an_operator_that_died_finishes_exactly_what_is_left(after: bool, part: int) -> None:
    struck = [True]

    async def story(doom: Doom, stage: Stage) -> None:
        uids = await prepare(stage)
        async with stage.operator(doom) as running:
            await stage.minutes(6)
        struck.append(running.life.was_struck)
        async with stage.operator():
            await stage.minutes(6)
            is_finished(stage, uids)
            await is_over(stage)

    for deed in deeds(part, struck):
        play(partial(story, Doom(at=deed, after=after)))


def test_shx_04_operators_that_die_with_every_third_write_get_there_all_the_same() -> None:
    async def story(stage: Stage) -> None:
        uids = await prepare(stage)
        for _ in range(60):
            async with stage.operator(Doom(at=3)):
                await stage.seconds(10)
        is_finished(stage, uids)

    play(story)


async def put_brake_on(stage: Stage) -> None:
    await stage.brake()


async def uncordon(stage: Stage) -> None:
    await stage.uncordon("n1", "n2")


async def drop_policy(stage: Stage) -> None:
    await stage.drop_policy()


class Moment:
    """When somebody stepped in, and what was done to pods since."""

    def __init__(self, stage: Stage, twist: Twist) -> None:
        self._stage = stage
        self._twist = twist
        self.at = float("inf")

    async def __call__(self) -> None:
        await self._twist(self._stage)
        self.at = (self._stage.clock.monotonic() - self._stage.begun_at) / 60

    @property
    def done_since(self) -> list[str]:
        """What was asked for at the same moment had passed its last look already."""
        return [f"{one.rung} {one.pod}" for one in self._stage.done if one.at > self.at]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("twist", [put_brake_on, uncordon, drop_policy])
def test_whoever_steps_in_at_any_write_has_nothing_more_done(twist: Twist, part: int) -> None:
    """Whether the operator lives on, or dies of it and another one comes."""
    struck = [True]

    async def story(deed: int, stage: Stage) -> None:
        await prepare(stage)
        moment = Moment(stage, twist)
        async with stage.operator(Doom(at=deed, twist=moment, spares=deed % 2 == 0)) as running:
            await stage.minutes(6)
        struck.append(running.life.was_struck)
        if not running.life.was_struck:
            return
        async with stage.operator():
            await stage.minutes(4)
        assert moment.done_since == []
        assert (stage.holder("n1"), stage.holder("n2")) == ("", "")

    for deed in deeds(part, struck):
        play(partial(story, deed))


@pytest.mark.parametrize("part", range(PARTS))
def test_a_node_that_was_replaced_by_a_namesake_keeps_its_pods(part: int) -> None:
    """The new one is cordoned, too, but nobody has drained it for long."""
    struck = [True]

    async def replace(stage: Stage) -> None:
        await stage.remove_node("n1")
        stage.node("n1")
        await stage.cordon("n1")

    async def story(deed: int, stage: Stage) -> None:
        await prepare(stage)
        async with stage.operator(Doom(at=deed, twist=partial(replace, stage), spares=True)) as running:
            while not running.life.was_struck and stage.clock.monotonic() < LONG:
                await stage.seconds(0.1)
            before = len(stage.done)
            await stage.seconds(50)  # of the 60 that it has
        struck.append(running.life.was_struck)
        since = [one for one in stage.done[before:] if one.pod != "web-later"]
        assert not running.life.was_struck or since == []

    for deed in deeds(part, struck):
        play(partial(story, deed))


def test_a_pod_that_is_replaced_by_a_namesake_before_the_request_is_sent_loses_nothing() -> None:
    async def story(stage: Stage) -> None:
        old = stage.pod("db-0")
        await stage.drain_policy(**QUICK)
        new: list[str] = []

        async def before(request: Request) -> None:
            if request.path.endswith("/db-0/eviction") and not new:
                stage.server.store.remove("pods", stage.all("pods")[0])
                stage.server.settle()
                new.append(stage.pod("db-0", "n2"))

        stage.before = before
        async with stage.operator():
            await stage.cordon("n1")
            await stage.minutes(10)
        assert [one.uid for one in stage.done] == [old]
        assert (stage.uid("db-0"), stage.pods(), stage.stands()) == (new[0], ["db-0"], "Drained")

    play(story)

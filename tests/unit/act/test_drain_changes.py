"""Nothing is forced when the world has changed meanwhile: the node, the record of its drain, its lock, the brake, our mandate."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from defib.act.outcome import Done, Stale, Withheld
from defib.kube.kinds import LEASES
from defib.model.mandate import Mandate
from defib.model.node_drain import LOCK_HOLDER, Phase, Rung
from defib.simulate.virtual_time import START
from tests.unit.act.drained import DRAINS, Scene, drain

change = msgspec.structs.replace
Happening = Callable[[Scene], Awaitable[None]]

each_rung = pytest.mark.parametrize("rung", list(Rung))


async def _uncordoned(scene: Scene) -> None:
    await scene.uncordon()


async def _record_gone(scene: Scene) -> None:
    await scene.remove(DRAINS.at("n1"))


async def _record_replaced(scene: Scene) -> None:
    await scene.replace_record()


async def _paused(scene: Scene) -> None:
    await scene.note(phase=Phase.PAUSED.value)


async def _held(scene: Scene) -> None:
    await scene.note(phase=Phase.HELD.value)


async def _unreadable(scene: Scene) -> None:
    await scene.note(phase="Sideways")


async def _entry_gone(scene: Scene) -> None:
    await scene.note(pods=[])


async def _node_gone(scene: Scene) -> None:
    await scene.stage.remove_node("n1")


async def _node_replaced(scene: Scene) -> None:
    await _node_gone(scene)
    scene.stage.add_node("n1", ready="True")


async def _lock_gone(scene: Scene) -> None:
    scene.stage.server.store.remove(str(LEASES), _stored_lock(scene))


async def _lock_taken(scene: Scene) -> None:
    await _lock_gone(scene)
    scene.stage.put_lock("NodeHealthCheck-c1", renewed=scene.stage.clock.now())


async def _lock_run_out(scene: Scene) -> None:
    await _lock_gone(scene)
    scene.stage.put_lock(LOCK_HOLDER, renewed=START - timedelta(seconds=60), seconds=60)


async def _lock_about_to_end(scene: Scene) -> None:
    """Before the request has an answer, somebody else may have it."""
    await _lock_gone(scene)
    scene.stage.put_lock(LOCK_HOLDER, renewed=scene.stage.clock.now(), seconds=19)


def _stored_lock(scene: Scene) -> Any:
    (stored,) = scene.stage.objects(str(LEASES))
    return stored


CHANGES: dict[str, tuple[Happening, str]] = {
    "uncordoned": (_uncordoned, "node n1 is not cordoned any more"),
    "node gone": (_node_gone, "node n1 is gone"),
    "another node": (_node_replaced, "node n1 is another one now"),
    "record gone": (_record_gone, "NodeDrain n1 is gone"),
    "another record": (_record_replaced, "NodeDrain n1 is another one now"),
    "paused": (_paused, "NodeDrain n1 says Paused now, so nothing is forced"),
    "held": (_held, "NodeDrain n1 says Held now, so nothing is forced"),
    "unreadable": (_unreadable, "NodeDrain n1 says Watching now, so nothing is forced"),
    "no entry": (_entry_gone, "NodeDrain n1 says nothing of pod default/web-1"),
    "lock gone": (_lock_gone, "the lock of node n1 is not ours any more"),
    "lock taken": (_lock_taken, "the lock of node n1 is not ours any more"),
    "lock run out": (_lock_run_out, "the lock of node n1 is not ours any more"),
    "lock about to end": (_lock_about_to_end, "the lock of node n1 is not ours any more"),
}


@each_rung
@pytest.mark.parametrize(("happening", "why"), CHANGES.values(), ids=CHANGES.keys())
def test_nothing_is_forced_when_the_world_has_changed_while_we_looked_at_the_pod(
    rung: Rung, happening: Happening, why: str
) -> None:
    async def story(scene: Scene) -> None:
        step = await scene.step(rung)
        before = scene.pod()
        assert await scene.meanwhile(step, "pods", lambda: happening(scene)) == Stale(why)
        assert scene.writes() == []
        assert scene.pod() == before

    drain(story)


@each_rung
@pytest.mark.parametrize("recorded", list(Rung))
def test_only_the_step_that_was_written_down_is_taken(rung: Rung, recorded: Rung) -> None:
    async def story(scene: Scene) -> None:
        step = await scene.step(rung)
        await scene.write_down(step.pod, recorded)
        outcome = await scene.do(step)
        if recorded is rung:
            assert outcome == Done()
        else:
            why = f"NodeDrain n1 says {recorded.value} of pod default/web-1, and not {rung.value}"
            assert outcome == Stale(why)
            assert scene.writes() == []

    drain(story)


@each_rung
def test_the_brake_that_is_pulled_while_we_look_stops_each_step(rung: Rung) -> None:
    async def story(scene: Scene) -> None:
        step = await scene.step(rung)

        async def pull() -> None:
            scene.stage.stop = lambda: "the brake is on"

        assert await scene.meanwhile(step, "nodes", pull) == Withheld("the brake is on")
        assert scene.writes() == []

    drain(story)


@each_rung
def test_a_mandate_that_has_ended_stops_each_step(rung: Rung) -> None:
    async def story(scene: Scene) -> None:
        step = await scene.step(rung)
        ended = Mandate("old", ends=scene.stage.clock.monotonic())
        assert await scene.do(step, ended) == Withheld("our mandate has ended")
        assert scene.writes() == []

    drain(story)


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute", "PreferNoSchedule"])
def test_a_node_that_is_drained_by_a_taint_must_have_it_still(effect: str) -> None:
    async def story(scene: Scene) -> None:
        await scene.uncordon()
        evict = await scene.evict()
        step = change(evict, pod=change(evict.pod, taint="karpenter.sh/disrupted"))
        lost = Stale("node n1 has lost its taint karpenter.sh/disrupted")
        assert await scene.do(step) == lost
        await scene.mend_node(spec={"taints": [{"key": "karpenter.sh/disrupted", "effect": effect}]})
        assert await scene.do(step) == (lost if effect == "PreferNoSchedule" else Done())

    drain(story)

"""What keeps a Metal3 host off says that it is ours and for whom, so that it can be taken away when we are gone."""

import pytest

from defib.hollow.metal3 import HOSTS
from defib.model.metal3 import KEPT_OFF_BY, KEPT_OFF_FOR
from defib.model.power import PowerPath, PowerState
from tests.unit.act.fenced import Scene
from tests.unit.act.stage import PLACE
from tests.unit.act.test_metal3_power import HARD, KEY, MARKS, OFF, ON, OTHER, PATH, annotate, annotations, metal3


def marks(scene: Scene) -> list[str | None]:
    """Which annotation is ours, and for whom it is there."""
    host = scene.stored(str(HOSTS), f"{PLACE}/n1")
    return [host["metadata"].get("annotations", {}).get(mark) for mark in MARKS]


def test_what_keeps_a_host_off_is_marked_as_ours_for_as_long_as_it_does() -> None:
    async def story(scene: Scene) -> None:
        await scene.do(scene.switch(path=PATH))
        assert marks(scene) == [KEY, "n1"]
        await scene.do(scene.switch(ON, path=PATH))
        assert (annotations(scene), marks(scene)) == ({}, [None, None])

    metal3(story)


@pytest.mark.parametrize("last", [OFF, ON])
def test_a_key_that_was_chosen_anew_in_between_leaves_nothing_under_the_old_one(last: PowerState) -> None:
    async def story(scene: Scene) -> None:
        await annotate(scene, **{OTHER: HARD})
        await scene.do(scene.switch(path=PATH))
        anew = PowerPath(driver="metal3", address=f"{PLACE}/n1", options={"key": "reboot.metal3.io/anew"})
        await scene.do(scene.switch(last, path=anew))
        kept = {"reboot.metal3.io/anew": HARD} if last is OFF else {}
        assert annotations(scene) == {OTHER: HARD} | kept
        assert marks(scene) == (["reboot.metal3.io/anew", "n1"] if kept else [None, None])

    metal3(story)


@pytest.mark.parametrize("named", ["note", OTHER])
def test_what_a_mark_names_that_is_not_ours_or_not_for_this_node_stays(named: str) -> None:
    async def story(scene: Scene) -> None:
        await annotate(scene, **{"note": HARD, OTHER: HARD, KEPT_OFF_BY: named})
        await annotate(scene, **{KEPT_OFF_FOR: "n1" if named == "note" else "n2"})
        await scene.do(scene.switch(path=PATH))
        assert annotations(scene) == {"note": HARD, OTHER: HARD, KEY: HARD}

    metal3(story)


def test_a_mark_that_stands_for_another_node_stays_with_what_it_marks() -> None:
    async def story(scene: Scene) -> None:
        await annotate(scene, **{OTHER: HARD, KEPT_OFF_BY: OTHER, KEPT_OFF_FOR: "n2"})
        await scene.do(scene.switch(ON, path=PATH))
        assert (annotations(scene), marks(scene)) == ({OTHER: HARD}, [OTHER, "n2"])

    metal3(story)

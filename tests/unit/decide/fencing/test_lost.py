"""Pods that nobody makes again are named once, before they are ended, and from what is written down."""

from typing import Any

from defib.decide.fencing.lost import NOBODY, is_untold, words
from defib.model.incident import Entry, Phase
from tests.builders import T0
from tests.unit.decide.fencing.cases import NODE, PROOF, a_case, a_pod, tainted

MIRROR = {"kubernetes.io/config.mirror": "x"}


def freeing(*bare: str, **more: Any) -> Any:
    pods = [a_pod(name, owner="") for name in bare]
    return a_case(Phase.FREEING, proof=PROOF, node=tainted(NODE), **({"pods": pods} | more))


def an_entry(phase: Phase, message: str) -> Entry:
    return Entry(at=T0, phase=phase, message=message)


def test_a_few_of_them_are_named_and_all_are_counted() -> None:
    assert words(freeing("a")) == f"{NOBODY} (1): d/a"
    assert words(freeing("a", "b", "c", "d", "e")) == f"{NOBODY} (5): d/a, d/b, d/c, d/d, d/e"
    assert words(freeing("a", "b", "c", "d", "e", "f", "g")) == f"{NOBODY} (7): d/a, d/b, d/c, d/d, d/e and 2 more"


def test_what_a_controller_or_a_kubelet_makes_again_is_not_lost() -> None:
    pods = [a_pod("a"), a_pod("b", owner="StatefulSet"), a_pod("c", owner="", annotations=MIRROR)]
    assert words(freeing(pods=pods)) == ""
    assert words(freeing(pods=[a_pod(owner="", phase="Succeeded")])) == ""
    assert words(freeing(pods=None)) == ""


def test_they_are_told_once_while_workloads_are_freed() -> None:
    began, told = an_entry(Phase.FREEING, "it is proved to be down"), an_entry(Phase.FREEING, f"{NOBODY} (1): d/a")
    assert is_untold(freeing("a"))
    assert is_untold(freeing("a", timeline=[began]))
    assert not is_untold(freeing("a", timeline=[began, told]))
    assert not is_untold(freeing("b", timeline=[began, told, began]))
    assert not is_untold(freeing(timeline=[began]))
    assert not is_untold(freeing(pods=None, timeline=[began]))


def test_what_was_told_in_an_earlier_attempt_does_not_count() -> None:
    earlier = [an_entry(Phase.FREEING, f"{NOBODY} (1): d/a"), an_entry(Phase.POWERING_ON, "its workloads are free")]
    assert is_untold(freeing("a", timeline=earlier))
    assert is_untold(freeing("a", timeline=[*earlier, an_entry(Phase.FREEING, "it is proved to be down")]))

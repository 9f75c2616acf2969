"""SHX-01: whoever gets the lock of a node next finds that nothing is under way there any more."""

import pytest

from defib.model.action import Action, ReleaseLock
from defib.model.drain_action import DeletePod, EvictPod, Leaving, RemoveFinalizers
from defib.model.node_drain import DRAIN
from defib.model.target import Target
from tests.builders import a_node
from tests.unit.decide.drains.wing import a_lock, a_wing, planned

LEAVING = Leaving(
    drain=Target(kind=DRAIN, namespace="", name="n1", uid="u1"),
    node="n1",
    node_uid="uid-n1",
    taint="",
    namespace="apps",
    name="web-1",
    uid="uid-web-1",
    because="the drain takes too long",
)


@pytest.mark.parametrize(
    "step",
    [EvictPod(pod=LEAVING), DeletePod(pod=LEAVING), RemoveFinalizers(pod=LEAVING, version="1", finalizers=("a/b",))],
    ids=lambda step: type(step).__name__,
)
def test_shx_01_a_lock_is_given_back_only_when_what_was_asked_for_under_it_has_ended(step: Action) -> None:
    cluster = a_wing([a_node("n1"), a_node("n2")], locks=[a_lock("n1"), a_lock("n2")])

    def given_back(*underway: Action) -> list[str]:
        drains = planned(a_wing(cluster.nodes.values(), locks=cluster.locks.values(), underway=underway))
        return [one.node for one in drains.actions if isinstance(one, ReleaseLock)]

    assert given_back() == ["n1", "n2"]
    assert given_back(step) == ["n2"]

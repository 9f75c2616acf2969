"""What counts as cordoned, and since when: as Nodekeeper sees it, but never for ever without a time."""

from itertools import permutations
from typing import Any

import pytest

from defib.decide.drains.intent import Intent, cordoned_at, is_cordoned
from defib.decide.drains.survey import Record, started_at
from defib.model.meta import Meta, Unstructured
from defib.model.node import Node, Taint
from defib.model.node_drain import DrainStatus
from tests.builders import MINUTE
from tests.unit.decide.drains.drains import NODE, START, a_cordon, a_drained_node, an_intent, minute

PRESSURE = Taint(key="node.kubernetes.io/memory-pressure", effect="NoSchedule", time_added=minute(9))
PARKED = Taint(key="example.com/parked", effect="NoSchedule", time_added=minute(9))


def test_dk_03_a_node_is_cordoned_that_is_unschedulable_and_has_the_taint_of_it() -> None:
    assert is_cordoned(a_drained_node(a_cordon()))
    assert not is_cordoned(a_drained_node(a_cordon(), cordoned=False))
    assert not is_cordoned(a_drained_node())


@pytest.mark.parametrize("taint", [PRESSURE, PARKED, a_cordon(effect="NoExecute"), a_cordon(effect="PreferNoSchedule")])
def test_dk_03_other_taints_do_not_count(taint: Taint) -> None:
    assert not is_cordoned(a_drained_node(taint))
    assert cordoned_at(a_drained_node(taint)) is None


def test_dk_03_the_order_of_taints_does_not_matter() -> None:
    for taints in permutations((PRESSURE, a_cordon(added=minute(3)), PARKED)):
        assert is_cordoned(a_drained_node(*taints))
        assert cordoned_at(a_drained_node(*taints)) == minute(3)


def a_record(*, node_uid: str = f"uid-{NODE}", made: float = 5, **status: Any) -> Record:
    meta = Meta(name=NODE, uid="uid-of-record", creation_timestamp=minute(made))
    return Record(Unstructured(metadata=meta), DrainStatus(node_uid=node_uid, **status))


def since(node: Node, intent: Intent | None = None, record: Record | None = None, now: float = 8) -> float:
    """The minute at which the drain began."""
    return (started_at(node, intent or an_intent(), record, minute(now)) - START) / MINUTE


CORDONED = a_drained_node(a_cordon(added=minute(3)))


def test_dk_04_what_we_have_written_down_counts_first() -> None:
    record = a_record(started_at=minute(1))
    assert since(CORDONED, an_intent(started_at=minute(2)), record) == 1
    assert since(CORDONED, an_intent(started_at=minute(2)), record, now=500) == 1


def test_dk_04_what_was_written_about_another_node_of_that_name_does_not_count() -> None:
    assert since(CORDONED, record=a_record(node_uid="uid-of-another", started_at=minute(1))) == 3


def test_dk_04_then_what_the_drainer_says_and_then_the_cordon() -> None:
    assert since(CORDONED, an_intent(started_at=minute(2))) == 2
    assert since(CORDONED) == 3
    assert since(CORDONED, record=a_record(), now=500) == 3


def test_dk_04_a_cordon_that_is_much_older_than_the_drain_says_nothing() -> None:
    assert since(CORDONED, now=60) == 60
    assert since(CORDONED, record=a_record(made=60), now=70) == 60


def test_dk_04_a_cordon_without_a_time_does_not_block_for_ever() -> None:
    silent = a_drained_node(a_cordon())
    assert since(silent) == 8  # since now: it was not seen before
    assert since(silent, record=a_record(), now=500) == 5  # and since then once there is a record


def test_dk_04_a_drain_never_began_in_the_future() -> None:
    assert since(a_drained_node(a_cordon(added=minute(90)))) == 8
    assert since(CORDONED, record=a_record(started_at=minute(90))) == 8

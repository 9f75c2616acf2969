"""The lines of the demo: what becomes one, who says it, and what is no news."""

import pytest

from defib.cli.demo.story import changes_told, deeds
from defib.decide.changes import Change, What
from defib.model.incident import Phase
from defib.model.verdict import State, Verdict
from defib.picture import Told
from tests.builders import SECOND, T0, a_node
from tests.unit.cli.demo_scenes import NAMES, a_picture, a_verdict, an_incident

N1 = a_node("n1", ready="Unknown")
SUSPECT = a_verdict("n1", State.SUSPECT, since=T0 + 3 * SECOND)
HELD = a_verdict("n1", State.UNHEALTHY, reason="Brake", message="the brake is on")
STORMY = a_verdict("n1", State.UNHEALTHY, reason="Storm", message="there is a storm")
STARTING = a_verdict("n1", State.REMEDIATING, reason="Starting")
AT_WORK = a_verdict("n1", State.REMEDIATING, reason="Remediating")
RECOVERING = a_verdict("n1", State.RECOVERING)


def turned(before: Verdict | None, after: Verdict | None) -> list[str]:
    was, now = (a_picture(N1, verdicts=(verdict,) if verdict else ()) for verdict in (before, after))
    return [f"{line.by} {line.text}" for line in deeds(was, now, T0)]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (None, SUSPECT, "n1 is suspect: unhealthy if that lasts 3.0 s more"),
        (SUSPECT, STARTING, "n1 is unhealthy, every gate is open: remediation begins"),
        (HELD, AT_WORK, "n1 is unhealthy, every gate is open: remediation begins"),
        (SUSPECT, HELD, "n1 is unhealthy, but held back: the brake is on"),
        (HELD, STORMY, "n1 is unhealthy, but held back: there is a storm"),
        (AT_WORK, None, "n1 is well again: its remediation is removed"),
        (RECOVERING, None, "n1 is well again: its remediation is removed"),
    ],
)
def test_a_verdict_that_turns_is_a_line(before: Verdict | None, after: Verdict | None, words: str) -> None:
    assert turned(before, after) == [f"defib {words}"]


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, None), (SUSPECT, SUSPECT), (HELD, HELD), (STARTING, AT_WORK), (AT_WORK, RECOVERING), (RECOVERING, AT_WORK)],
)
def test_a_verdict_that_stays_or_is_on_its_way_is_none(before: Verdict | None, after: Verdict | None) -> None:
    assert turned(before, after) == []


def test_each_step_of_a_power_cycle_is_one_line_in_the_words_of_its_incident() -> None:
    looking = a_picture(N1, incidents=(an_incident("n1", Phase.LOOKING, "its power is read"),))
    off = a_picture(N1, incidents=(an_incident("n1", Phase.POWERING_OFF, "it is on"),))
    stuck = a_picture(N1, incidents=(an_incident("n1", Phase.NEEDS_PERSON, "it cannot be reached"),))
    assert [line.text for line in deeds(a_picture(N1), looking, T0)] == ["n1 LookingAtPower: its power is read"]
    assert [line.text for line in deeds(looking, off, T0)] == ["n1 PoweringOff: it is on"]
    assert list(deeds(off, a_picture(N1, incidents=(an_incident("n1", Phase.POWERING_OFF, "still"),)), T0)) == []
    assert [line.bad for line in deeds(off, stuck, T0)] == [True]


def test_nodes_that_join_together_are_one_line() -> None:
    told = tuple(Told(T0, Change(name, What.JOINED)) for name in NAMES)
    assert [str(line) for line in changes_told(told)] == ["00:00:00  kube   9 nodes joined"]


def test_what_becomes_of_nodes_is_said_by_kubernetes_and_what_of_our_sight_by_defib() -> None:
    told = (
        Told(T0, Change("n1", What.NOT_READY, "Ready is Unknown")),
        Told(T0, Change("nodes", What.SEES)),
        Told(T0, Change("nodes", What.BLIND, "cut")),
        Told(T0, Change("nodes", What.SEES)),
        Told(T0, Change("nodes n2", What.UNREAD, "no object")),
    )
    assert [f"{line.by} {line.text}" for line in changes_told(told)] == [
        "kube n1 not ready: Ready is Unknown",
        "defib lost sight of the nodes: cut",
        "defib sees the nodes again",
        "defib nodes n2 cannot be read: no object",
    ]


def test_how_a_kind_first_comes_into_sight_is_no_story() -> None:
    told = (Told(T0, Change("pods", What.BLIND, "not listed yet")), Told(T0, Change("pods", What.SEES)))
    assert list(changes_told(told)) == []

"""What `defib why` prints: readable at 80 columns, wrapped and never cut, nothing that steers a terminal."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from rich.console import Console

from defib.cli.why import page
from defib.console.why import BASIS
from defib.decide.answers.told import (
    Answer,
    CheckTold,
    ConditionTold,
    EntryTold,
    FailoverTold,
    GateTold,
    IncidentTold,
    LockTold,
    Next,
    Recorded,
    RemediationTold,
)
from defib.model.incident import Part, SafeTime
from tests.builders import HOUR, MINUTE, T0

GATES = (
    GateTold(name="Brake", is_open=True, value="", limit="", message="the brake is off"),
    GateTold(
        name="Threshold",
        is_open=False,
        value="2 healthy",
        limit="at least 3 of 5",
        message="2 of 5 nodes are healthy, at least 3 must be",
    ),
    GateTold(name="ForeignRemediation", is_open=True, value="", limit="", message="nobody else remediates the node"),
)
FOO = RemediationTold(
    kind="FooRemediation",
    namespace="ns",
    name="n1",
    owner="workers",
    template="foo",
    created=T0 - MINUTE,
    succeeded="",
    is_deleting=False,
)


def a_case(**changes: Any) -> CheckTold:
    case = CheckTold(
        check="workers",
        mode="Automatic",
        state="Unhealthy",
        reason="Threshold",
        message="2 of 5 nodes are healthy, at least 3 must be",
        since=T0 - 7 * MINUTE,
        gates=GATES,
        status=Recorded(
            phase="Enabled",
            reason="3 unhealthy nodes, none being remediated",
            of_node="",
            updated=T0 - timedelta(seconds=5),
        ),
        remediations=(),
        next=Next(message="it goes on by itself when enough nodes are healthy", at=None),
    )
    return msgspec.structs.replace(case, **changes)


def an_answer(*checks: CheckTold, **changes: Any) -> Answer:
    answer = Answer(
        node="n1",
        exists=True,
        now=T0,
        ready=ConditionTold(
            type="Ready", status="Unknown", reason="NodeStatusUnknown", message="", since=T0 - 12 * MINUTE
        ),
        heartbeat=T0 - 13 * MINUTE,
        is_cordoned=False,
        lock=None,
        checks=checks or (a_case(),),
        foreign=(),
        unknown=(),
        basis=BASIS,
    )
    return msgspec.structs.replace(answer, **changes)


def drawn(answer: Answer, width: int = 80, *, colour: bool = False) -> str:
    console = Console(width=width, force_terminal=colour, color_system="standard" if colour else None, highlight=False)
    with console.capture() as capture:
        console.print(page(answer))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def test_it_reads_like_this() -> None:
    assert (
        drawn(an_answer())
        == """\
Node n1
  Ready        Unknown (NodeStatusUnknown) since 2029-12-31 23:48:00 UTC (12m
               ago)
  heartbeat    13m ago

Check workers, mode Automatic
  verdict      Unhealthy since 2029-12-31 23:53:00 UTC (7m ago)
               2 of 5 nodes are healthy, at least 3 must be
  next         it goes on by itself when enough nodes are healthy
  gates        CLOSED  Threshold: 2 of 5 nodes are healthy, at least 3 must be
               open    Brake, ForeignRemediation
  its status   Enabled, written 5s ago: 3 unhealthy nodes, none being remediated

Worked out from the cluster as it is now, by the operator's rules and the
settings given to this command. What only a running operator knows is not in it:
doubts about its own sight, actions that have just failed."""
    )


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_every_word_is_there_at_any_width(width: int) -> None:
    long = "word " * 60 + "end-of-sentence"
    answer = an_answer(a_case(message=long, gates=(msgspec.structs.replace(GATES[1], message=long),)), unknown=(long,))
    text = drawn(answer, width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert text.count("word") == 180
    assert text.count("end-of-sentence") == 3
    assert "\u2026" not in text


def test_gates_that_hold_it_back_come_first_then_those_that_count_then_the_names_of_the_others() -> None:
    gates = (*GATES, GateTold(name="InFlight", is_open=True, value="1", limit="2", message="1 of 2 at once"))
    text = drawn(an_answer(a_case(gates=gates)))
    rows = [line.split(maxsplit=1) for line in text.split("gates")[1].splitlines()[:3]]
    assert rows == [
        ["CLOSED", "Threshold: 2 of 5 nodes are healthy, at least 3 must be"],
        ["open", "InFlight: 1 of 2 at once"],
        ["open", "Brake, ForeignRemediation"],
    ]


def test_a_fast_path_that_is_not_taken_is_told_and_one_that_is_goes_without_saying() -> None:
    assert "fast path    not taken: the template" in drawn(
        an_answer(a_case(no_fast_path="the template accepts less")), 160
    )
    assert "fast path" not in drawn(an_answer(a_case()), 160)


def test_remediation_lock_and_what_comes_when_are_told() -> None:
    case = a_case(remediations=(FOO,), next=Next(message="a person has to look", at=T0 + 29 * MINUTE))
    foreign = msgspec.structs.replace(FOO, owner="", name="by-hand", template="", succeeded="False", is_deleting=True)
    lock = LockTold(holder="NodeHealthCheck-workers", until=T0 + HOUR)
    text = drawn(an_answer(case, lock=lock, foreign=(foreign,), is_cordoned=True), 160)
    for words in (
        "next         00:29:00 UTC (in 29m): a person has to look",
        "remediation  FooRemediation ns/n1, from template foo, created 1m ago",
        "FooRemediation ns/by-hand, created 1m ago, says that it failed, being deleted, made by no check",
        "lock         held by NodeHealthCheck-workers until 01:00:00 UTC (in 1h)",
        "cordoned     no new pods are placed on it",
    ):
        assert words in text


def test_who_said_what_of_a_silent_node_is_told_with_what_was_begun_for_that() -> None:
    because = "it hangs [Kubelet Silent at 00:00:01; Power On at 00:00:02]"
    case = a_case(remediations=(msgspec.structs.replace(FOO, because=because),))
    assert f"created 1m ago\n               {because}\n" in drawn(an_answer(case), 160)


@pytest.mark.parametrize(
    ("succeeded", "said"),
    [("True", ", says that it succeeded"), ("False", ", says that it failed"), ("Unknown", ""), ("", "")],
)
def test_who_does_not_know_yet_has_not_failed(succeeded: str, said: str) -> None:
    case = a_case(remediations=(msgspec.structs.replace(FOO, succeeded=succeeded),))
    assert f"created 1m ago{said}\n" in drawn(an_answer(case), 160)


def test_what_is_not_known_is_told_before_the_checks() -> None:
    text = drawn(an_answer(unknown=("the locks in medik8s-leases could not be read: forbidden",)), 160)
    assert text.index("not known    the locks") < text.index("Check workers")


def test_what_the_status_says_of_the_node_is_told_where_it_differs() -> None:
    recorded = Recorded(phase="Enabled", reason="1 unhealthy node", of_node="the brake is on: storage", updated=None)
    assert "of this node: the brake is on: storage" in drawn(an_answer(a_case(status=recorded)))
    same = a_case(status=recorded, message="the brake is on: storage")
    assert "of this node" not in drawn(an_answer(same))


def test_a_check_that_nobody_has_looked_at_says_so() -> None:
    assert "nothing yet: no operator has looked at the check" in drawn(an_answer(a_case(status=None)))


def test_a_node_that_no_check_selects_has_no_gates() -> None:
    nobody = a_case(check="", mode="", state="Unseen", since=None, gates=(), status=None, message="no check selects it")
    text = drawn(an_answer(nobody))
    assert "verdict      Unseen\n               no check selects it\n" in text
    assert "gates" not in text
    assert "its status" not in text


def test_what_no_check_says_is_not_told_as_part_of_what_becomes_of_the_pods() -> None:
    nobody = a_case(check="", mode="", state="Unseen", since=None, gates=(), status=None, message="no check selects it")
    missing = ("the cluster has no kind PodFailoverPolicy",)
    assert "Policy\n\nChecks\n  verdict      Unseen\n" in drawn(an_answer(nobody, no_failover=missing))
    assert "Checks" not in drawn(an_answer(nobody))


def test_a_node_that_is_gone_is_called_gone() -> None:
    text = drawn(an_answer(exists=False, ready=None, heartbeat=None))
    assert text.startswith("Node n1 does not exist any more\n")


@pytest.mark.parametrize(
    ("ago", "told"),
    [
        (timedelta(milliseconds=900), "0s ago"),
        (timedelta(seconds=59.9), "59s ago"),
        (timedelta(minutes=7, seconds=30), "7m30s ago"),
        (timedelta(hours=5, minutes=3, seconds=30), "5h3m ago"),
        (timedelta(days=3, minutes=59), "72h ago"),
    ],
)
def test_times_are_as_fine_as_anybody_cares(ago: timedelta, told: str) -> None:
    assert f"heartbeat    {told}" in drawn(an_answer(heartbeat=T0 - ago))


def test_without_a_terminal_there_is_no_colour() -> None:
    assert "\x1b" not in drawn(an_answer())
    assert "\x1b[1;31mCLOSED" in drawn(an_answer(), colour=True)


def test_what_is_hostile_is_shown_and_not_obeyed() -> None:
    evil = "\x1b[2J[bold]\r\nnext line"
    case = a_case(
        check=evil,
        message=evil,
        gates=(msgspec.structs.replace(GATES[0], name=evil, message=evil, value=evil, limit=evil),),
        remediations=(msgspec.structs.replace(FOO, name=evil),),
        next=Next(message=evil, at=datetime.max.replace(tzinfo=T0.tzinfo)),
    )
    text = drawn(an_answer(case, node=evil, unknown=(evil,), lock=LockTold(holder=evil, until=None)), 400)
    assert "\x1b" not in text
    assert "\r" not in text
    assert "[bold]" in text


def test_what_is_being_done_about_its_machine_is_told() -> None:
    incident = IncidentTold(
        phase="PoweringOff",
        reason="PowerFailed",
        message="it does not accept our credentials",
        attempt=2,
        since=T0 - MINUTE,
        outcome="",
        proof="",
        cause="PowerCycleRemediation ns/n1",
        timeline=tuple(
            EntryTold(at=T0 - timedelta(seconds=60 - second), phase=f"Phase{second}", message="so")
            for second in range(10)
        ),
    )
    shown = drawn(an_answer(incident=incident))
    assert "PoweringOff since" in shown
    assert "it does not accept our credentials" in shown
    assert "PowerCycleRemediation ns/n1" in shown
    assert "Phase9: so" in shown
    assert "Phase1: so" not in shown, "the latest are enough"


def test_the_time_after_which_a_node_is_dead_is_shown_as_a_sum_with_its_parts() -> None:
    parts = [Part(name="watchdog", seconds=15, why="as the watchdog itself says"), Part(name="clocks", seconds=1.5)]
    incident = IncidentTold(
        phase="PoweringOff",
        reason="TakingItselfDown",
        message="it takes itself down",
        attempt=1,
        since=T0,
        outcome="",
        safe_time=SafeTime(seconds=16.5, parts=parts),
        proof="",
        cause="SelfFenceRemediation ns/n1",
        timeline=(),
    )
    shown = drawn(an_answer(incident=incident))
    assert "15 s watchdog + 1.5 s clocks = 16.5 s" in shown
    assert "15 s watchdog: as the watchdog itself says" in shown


def test_what_becomes_of_its_pods_is_told_with_what_a_person_can_do() -> None:
    waits = FailoverTold(
        kind="PodFailoverPolicy",
        namespace="shop",
        name="web",
        state="WaitingForProof",
        reason="",
        message="2 pods moved; 1 pod waits for a proof",
        advice="nobody proves it",
    )
    held = msgspec.structs.replace(waits, name="api", state="Held", reason="Budget", message="1 pod waits")
    text = drawn(an_answer(failover=(held, waits), no_failover=("the cluster has no kind PodFailoverRemediation",)))
    assert (
        """\
Pods
  failover     PodFailoverPolicy shop/api: Held (Budget)
               1 pod waits
  failover     PodFailoverPolicy shop/web: WaitingForProof
               2 pods moved; 1 pod waits for a proof
  next         nobody proves it
  failover     the cluster has no kind PodFailoverRemediation

Check workers"""
        in text
    )


def test_an_incident_in_which_somebody_else_mends_it_is_named() -> None:
    assert "incident     n1.0a1b2c3d is open: defib timeline n1.0a1b2c3d" in drawn(an_answer(accounts=("n1.0a1b2c3d",)))

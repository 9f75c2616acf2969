"""What the bench makes of leaders that end: seconds, and whether our promises are kept."""

from tests.bench.moves import Spread
from tests.bench.report import Results, text
from tests.bench.results import Machine
from tests.bench.successions import (
    CRASH,
    ORDERLY,
    End,
    Ends,
    HandedOver,
    Succession,
    spreads_of,
    verdicts,
)


def a_succession(
    end: End = ORDERLY, *, led: float = 1.0, acted: float = 1.2, is_followed: bool = True, strays: int = 0
) -> Succession:
    """The leader is told at 100.0, the node is due 0.3 s later."""
    return Succession(
        end=end,
        signalled=100.0,
        due=100.3,
        acquired=100.0 + led,
        acted=100.0 + acted,
        is_followed=is_followed,
        strays=strays,
    )


def broken(*successions: Succession) -> list[str]:
    return [verdict.what for verdict in verdicts(successions) if not verdict.ok]


def test_all_is_counted_from_the_signal_but_the_promotion() -> None:
    one = a_succession(led=1.0, acted=1.5)
    assert (one.led_after_seconds, one.acted_after_seconds, one.promoted_seconds) == (1.0, 1.5, 0.5)


def test_a_leader_that_was_there_before_there_was_anything_to_do_counts_from_when_there_was() -> None:
    assert round(a_succession(led=0.1, acted=0.5).promoted_seconds, 6) == 0.2


def test_the_two_kinds_of_ends_are_not_mixed() -> None:
    spreads = spreads_of([a_succession(acted=1.5), a_succession(CRASH, led=16.0, acted=16.5)])
    assert spreads["SIGTERM to the next leader's first action"].max_seconds == 1.5
    assert spreads["kill -9 to the next leader's lock"] == Spread(p50_seconds=16.0, p99_seconds=16.0, max_seconds=16.0)
    assert spreads["the next leader's lock to its first action"].max_seconds == 0.5


def test_ends_of_one_kind_are_enough_for_a_table() -> None:
    assert list(spreads_of([a_succession()])) == [
        "SIGTERM to the next leader's lock",
        "SIGTERM to the next leader's first action",
        "the next leader's lock to its first action",
    ]


def test_quick_successions_keep_all_promises() -> None:
    assert broken(a_succession(), a_succession(CRASH, led=17.0, acted=17.5)) == []


def test_the_slowest_of_few_orderly_ends_is_enough_to_break_the_promise() -> None:
    assert broken(a_succession(), a_succession(led=2.5, acted=3.1)) == ["SIGTERM to the next's first action: p99"]


def test_a_crash_has_twenty_seconds() -> None:
    late = a_succession(CRASH, led=19.5, acted=20.1)
    assert broken(a_succession(), late) == ["kill -9 to the next's first action: the last"]


def test_whoever_leads_must_act_within_a_second() -> None:
    assert broken(a_succession(led=0.5, acted=1.6)) == ["lock to first action: the last"]


def test_a_node_that_was_forgotten_or_remediated_twice_breaks_it() -> None:
    assert broken(a_succession(strays=1)) == ["nodes remediated, once each"]
    assert "nodes remediated, once each" in broken(a_succession(is_followed=False, acted=60.0))


def test_fewer_ends_or_nodes_are_a_trial() -> None:
    assert Ends().is_whole
    assert not Ends(crashes=1).is_whole
    assert not Ends(nodes=100).is_whole


def test_the_report_shows_seconds_bounds_and_ends_that_did_not_count() -> None:
    successions = [a_succession(), a_succession(CRASH, led=17.0, acted=17.5)]
    handover = HandedOver(
        ends=Ends(),
        judged=True,
        load_before=0.5,
        load_after=1.5,
        quicker=2,
        spreads=spreads_of(successions),
        successions=successions,
        verdicts=verdicts(successions),
    )
    machine = Machine(cores=2, load=0.5, python="3.11", kubernetes="v1.37.1")
    results = Results(machine=machine, handover=handover)
    told = text(results)
    assert not results.is_broken
    assert "asked to stop 30 times and killed 8 times" in told
    assert "2 more ends came too late to count" in told
    assert "17.50" in told
    assert "<= 20 s" in told

"""Whether an agent feeds its watchdog: each row of the table, and what lies between two rows."""

import msgspec
import pytest

from defib.decide.self_fence.memory import Memory, Place, ask_again, conclude, list_anew, was_answered, was_told
from defib.decide.self_fence.verdict import ROWS, Peer, Reason, Round, Says, Sight, Verdict, judge
from defib.model.self_fence import Pace

PACE = Pace(interval_seconds=9, request_seconds=3, failures=3, peer_seconds=12)  # fresh for 24 s, patient for 36 s
ME = Peer("n1", "east")
PEERS = (Peer("n2", "east"), Peer("n3", "east"), Peer("n4", "west"), Peer("n5", "west"), Peer("n6", "north"))
PLACE = Place(me=ME, peers=PEERS)
NO, YES, CUT = Says.NO_ORDER, Says.ORDER, Says.CUT_OFF


def verdict(*, now: float = 130.0, ordered: bool = False, words: dict[str, Says] | None = None) -> Verdict:
    """The API server last answered what was asked at 100; 130 is when that is no longer fresh, and 136 too long ago."""
    asked = None if words is None else Round(began_at=now - 2, words=words)
    sight = Sight(now=now, own_at=100, word_at=100, is_ordered=ordered, me=ME, peers=PEERS, round=asked)
    return judge(sight, PACE)


def test_a_node_with_an_order_stops_feeding_although_everything_answers() -> None:
    said = verdict(now=101, ordered=True, words={"n2": NO, "n4": NO, "n5": NO, "n6": NO})
    assert (said.reason, said.feed, said.ask) == (Reason.ORDERED, False, False)


def test_a_node_that_the_api_server_answers_lives_and_asks_nobody() -> None:
    said = verdict(now=123.9)
    assert (said.reason, said.feed, said.ask) == (Reason.ANSWERED, True, False)
    assert said.until == 136  # counted from when it asked, not from when it was answered


def test_a_node_without_a_fresh_answer_asks_its_peers_and_lives_meanwhile() -> None:
    said = verdict(now=124)
    assert (said.reason, said.feed, said.ask, said.until) == (Reason.WAITING, True, True, 136)


def test_a_node_without_any_word_stops_after_the_time_for_peers_and_goes_on_asking() -> None:
    said = verdict(now=136)
    assert (said.reason, said.feed, said.ask) == (Reason.SILENCE, False, True)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"n4": YES, "n5": YES, "n6": YES}, Reason.RELAYED_ORDER),
        ({"n4": NO, "n5": NO, "n6": NO}, Reason.RELAYED),
        ({"n4": CUT, "n5": CUT, "n2": CUT}, Reason.NOBODY_REACHES),
        # One agent of our own domain that is cut off like us is not most of it; two are.
        ({"n2": CUT}, Reason.WAITING),
        # Two of three domains are more than half, and an agent that is silent counts in its domain.
        ({"n4": NO, "n6": NO}, Reason.WAITING),
        ({"n4": NO, "n5": NO}, Reason.WAITING),
        ({"n2": CUT, "n4": CUT, "n6": CUT}, Reason.NOBODY_REACHES),
        ({"n2": CUT, "n4": CUT, "n5": NO}, Reason.WAITING),
        # Where the API server is reached by few, as when the load balancer of all others is down, nobody dies of it.
        ({"n2": CUT, "n3": CUT, "n4": CUT, "n5": CUT, "n6": NO}, Reason.NOBODY_REACHES),
        # An order that only few relay leaves us in doubt.
        ({"n2": NO, "n3": NO, "n4": NO, "n5": NO, "n6": YES}, Reason.WAITING),
        ({"n2": CUT, "n3": CUT, "n4": CUT, "n5": CUT, "n6": YES}, Reason.WAITING),
        ({}, Reason.WAITING),
    ],
)
def test_what_peers_say_counts_by_domains(words: dict[str, Says], reason: Reason) -> None:
    assert verdict(words=words).reason is reason


def test_within_one_domain_the_nodes_are_counted() -> None:
    peers = tuple(Peer(f"n{number}", "") for number in range(2, 6))
    sight = Sight(now=130, own_at=100, word_at=100, is_ordered=False, me=Peer("n1", ""), peers=peers)

    def reason(**words: Says) -> Reason:
        return judge(msgspec.structs.replace(sight, round=Round(began_at=128, words=words)), PACE).reason

    assert reason(n2=NO, n3=NO, n4=NO) is Reason.RELAYED
    assert reason(n2=NO, n3=NO) is Reason.WAITING
    assert reason(n2=CUT, n3=CUT) is Reason.NOBODY_REACHES
    assert reason(n2=CUT) is Reason.WAITING
    assert reason(n2=YES, n3=YES, n4=YES) is Reason.RELAYED_ORDER


def test_a_single_node_does_not_die_because_its_api_server_is_down() -> None:
    sight = Sight(
        now=130,
        own_at=100,
        word_at=100,
        is_ordered=False,
        me=ME,
        round=Round(began_at=130, words={}),
    )
    assert judge(sight, PACE).reason is Reason.NOBODY_REACHES


def test_a_relayed_word_is_good_from_when_it_was_asked_for() -> None:
    said = verdict(words={"n4": NO, "n5": NO, "n6": NO})
    assert (said.until, said.word_at) == (128 + 36, 128)


def test_peers_are_asked_again_when_their_word_is_no_longer_fresh() -> None:
    words = {"n4": NO, "n5": NO, "n6": NO}
    sight = Sight(
        now=131,
        own_at=100,
        word_at=100,
        is_ordered=False,
        me=ME,
        peers=PEERS,
        round=Round(began_at=130, words=words),
    )
    assert not judge(sight, PACE).ask
    assert not judge(msgspec.structs.replace(sight, now=153.9), PACE).ask
    later = judge(msgspec.structs.replace(sight, now=154), PACE)
    assert (later.ask, later.feed, later.until) == (True, True, 166)


def test_a_word_that_took_longer_than_it_is_good_for_lets_nobody_live() -> None:
    sight = Sight(
        now=170,
        own_at=100,
        word_at=100,
        is_ordered=False,
        me=ME,
        peers=PEERS,
        round=Round(began_at=130, words={"n4": NO, "n5": NO, "n6": NO}),
    )
    assert judge(sight, PACE).reason is Reason.SILENCE


def test_every_row_of_the_table_was_tried_here() -> None:
    assert [row.reason for row in ROWS] == list(Reason)


def test_an_order_that_was_relayed_is_kept() -> None:
    memory = was_answered(ask_again(Memory()), asked_at=100, has_order=False)
    asked = Round(began_at=130, words={"n4": YES, "n5": YES, "n6": YES})
    said, memory = conclude(memory, PACE, 131, PLACE, asked)
    assert said.reason is Reason.RELAYED_ORDER
    memory = was_answered(ask_again(memory), asked_at=132, has_order=False)
    said, _ = conclude(memory, PACE, 133, PLACE, None)
    assert (said.reason, said.feed) == (Reason.ORDERED, False)


def test_a_node_that_hears_the_api_server_again_before_its_watchdog_fires_lives() -> None:
    memory = was_answered(ask_again(Memory()), asked_at=100, has_order=False)
    said, memory = conclude(memory, PACE, 140, PLACE, None)
    assert said.reason is Reason.SILENCE
    memory = was_answered(ask_again(memory), asked_at=141, has_order=False)
    assert conclude(memory, PACE, 142, PLACE, None)[0].reason is Reason.ANSWERED


def test_an_agent_that_has_heard_nothing_yet_does_not_feed() -> None:
    assert not conclude(Memory(), PACE, 5, Place(me=ME), None)[0].feed


def test_until_the_operator_knows_of_a_new_list_what_most_say_must_be_so_by_the_former_one_too() -> None:
    """The operator counts by what was reported last, and a report may be on its way, or lost."""
    place = list_anew(list_anew(Place(me=Peer("n1", "a")), (Peer("n2", "b"), Peer("n3", "c"))), (Peer("n2", "b"),))
    memory = was_answered(ask_again(Memory()), asked_at=100, has_order=False)
    n2_is_cut_off = Round(began_at=130, words={"n2": CUT})
    assert conclude(memory, PACE, 131, place, n2_is_cut_off)[0].reason is Reason.NOBODY_REACHES
    alone = list_anew(was_told(place), ())
    assert conclude(memory, PACE, 131, alone, Round(began_at=130, words={}))[0].reason is Reason.WAITING
    assert (
        conclude(memory, PACE, 131, was_told(alone), Round(began_at=130, words={}))[0].reason is Reason.NOBODY_REACHES
    )


def test_an_agent_reports_how_many_it_knows_of_each_domain_and_itself_among_them() -> None:
    place = Place(me=Peer("n1", "a"))
    assert place.known() == {"a": 1}
    place = list_anew(place, (Peer("n2", "a"), Peer("n3", "b")))
    assert place.known() == {"a": 2, "b": 1}
    assert place.former is None, "nobody relied on it before its first list"

"""After how long a node that was ordered to die is counted as dead, and by whom."""

from collections import Counter
from collections.abc import Mapping

import msgspec
import pytest

from defib.decide.self_fence.heard import Heard, Meant, Witness, enough_heard
from defib.decide.self_fence.safe_time import CLOCKS_SHARE, lives_seconds, safe_time
from defib.model.meta import Meta
from defib.model.node import Lease
from defib.model.self_fence import (
    ORDER,
    PEERS_EVERY,
    PEERS_EVERY_MAX,
    REPORT,
    Order,
    Pace,
    Report,
    domain_of,
    peers_every,
    read_order,
    read_report,
    text_of,
)

PACE = Pace(interval_seconds=15, request_seconds=3, failures=2, peer_seconds=12)
REPORTED = Report(
    pace=PACE,
    watchdog="device",
    watchdog_seconds=15,
    feed_seconds=3,
    armed=True,
    boot_id="b-1",
    address="10.0.0.1",
    port=9640,
    domain="east",
    version="1.0",
    answered_seconds=10,
    steady_seconds=500,
    known={"east": 3, "west": 2},
)
SAFE = safe_time(REPORTED).seconds
LIVES = lives_seconds(safe_time(REPORTED))
LATE = PACE.late_seconds


def witness(domain: str, *, silent: float = 1, known: float = 9999, **changes: object) -> Witness:
    report = msgspec.structs.replace(REPORTED, **changes)
    return Witness(node="n2", domain=domain, report=report, silent_seconds=silent, known_seconds=known)


def heard(
    agents: list[Witness],
    *,
    ordered: float = SAFE,
    answered: float = 0,
    dead_by: float = 0,
    known: Mapping[str, int] | None = None,
) -> Heard:
    """By one that knows all of them, if nothing else is said."""
    counted = Counter(agent.domain for agent in agents) if known is None else known
    meant = Meant(
        node="n1",
        known=counted,
        lives_seconds=LIVES,
        safe_seconds=SAFE,
        ordered_seconds=ordered,
        answered_seconds=answered,
        interval_seconds=PACE.interval_seconds,
        dead_by_seconds=dead_by,
    )
    return enough_heard(agents, meant)


def test_the_safe_time_is_a_sum_that_a_person_can_check() -> None:
    time = safe_time(REPORTED)
    assert str(time) == ("24 s renewals + 12 s peers + 3 s feed + 15 s watchdog + 10 s reboot + 6.4 s clocks = 70.4 s")
    assert all(part.why for part in time.parts)


def test_a_machine_that_is_being_reset_lives_by_nobodys_word() -> None:
    assert pytest.approx(SAFE - 10) == LIVES


def test_what_gets_no_answer_is_asked_again_soon_and_never_later_than_usual() -> None:
    assert (PACE.retry_seconds, PACE.fresh_seconds) == (6, 15 + 6 + 3)
    quick = msgspec.structs.replace(PACE, interval_seconds=4.0)
    assert (quick.retry_seconds, quick.fresh_seconds) == (4, 4 + 4 + 3)


def test_the_real_timeout_of_the_watchdog_counts() -> None:
    longer = safe_time(msgspec.structs.replace(REPORTED, watchdog_seconds=60))
    assert longer.seconds == pytest.approx(SAFE + 1.1 * 45)


def test_a_software_watchdog_takes_longer_to_be_believed() -> None:
    assert safe_time(msgspec.structs.replace(REPORTED, watchdog="software")).seconds > SAFE


@pytest.mark.parametrize(
    ("who", "is_so"),
    [
        (witness("east"), True),
        (witness("east", silent=SAFE - LIVES - LATE), True),
        (witness("east", silent=SAFE - LIVES - LATE + 0.1), False),  # what it said since, nobody knows
        (witness("east", steady_seconds=SAFE * (1 + CLOCKS_SHARE) + 0.1), True),
        (witness("east", steady_seconds=SAFE * (1 + CLOCKS_SHARE) - 0.1), False),  # its clock may be fast
        (
            witness("east", pace=msgspec.structs.replace(PACE, request_seconds=5.0)),
            False,
        ),  # it may be old, when it comes
        (witness("east", pace=msgspec.structs.replace(PACE, interval_seconds=60.0)), True),
        (Witness(node="n2", domain="east", report=None, silent_seconds=0, known_seconds=9999), False),
    ],
)
def test_an_agent_is_heard_when_it_reports_that_it_has_told_nobody_that_it_is_cut_off(
    who: Witness, is_so: bool
) -> None:
    assert heard([who]).enough is is_so


def test_nobody_is_heard_before_the_order_has_stood_for_the_safe_time() -> None:
    assert not heard([witness("east", silent=0)], ordered=SAFE - 0.1).enough
    assert heard([witness("east", silent=0)], ordered=SAFE).enough


def test_the_time_need_not_have_begun_with_the_order() -> None:
    """Who was cut off at first is heard as soon as that is long enough ago."""
    was_cut_off = witness("east", steady_seconds=1.2 * SAFE)
    assert heard([was_cut_off], ordered=3600).enough


def test_but_it_is_one_and_the_same_time_for_all() -> None:
    """One is heard from before until a while ago, the other one since then."""
    before, since = witness("east", silent=100), witness("west", steady_seconds=110)
    assert heard([before], ordered=3600).enough
    assert heard([since], ordered=3600).enough
    assert str(heard([before, since], ordered=3600, known={"east": 1, "west": 1, "south": 1})).startswith("1 of 3")
    longer = witness("west", steady_seconds=300)
    assert str(heard([before, longer], ordered=3600, known={"east": 1, "west": 1, "south": 1})).startswith("2 of 3")


def test_whoever_is_heard_itself_had_to_be_dead_before_that() -> None:
    """It was heard 20 s ago: that says something only if it had to be dead by then."""
    assert not heard([witness("east")], ordered=SAFE + 19, dead_by=20).enough
    assert heard([witness("east")], ordered=SAFE + 21, dead_by=20).enough


def test_nobody_is_a_witness_of_its_own_death() -> None:
    """It may count itself as cut off without telling anybody."""
    assert not heard([msgspec.structs.replace(witness("east"), node="n1")]).enough


LISTED = 2 * PEERS_EVERY * PACE.interval_seconds


@pytest.mark.parametrize(
    ("known", "answered", "listed"),
    [(LISTED, 0, True), (LISTED - 1, 0, False), (LISTED, 1, False), (9999, 9999 - LISTED, True)],
)
def test_a_node_knows_an_agent_that_was_there_when_the_api_server_last_answered_it(
    known: float, answered: float, listed: bool
) -> None:
    """Whoever is cut off reads no list: it would not ask those who came later, and lives by the word of the others."""
    assert heard([witness("east", known=known)], answered=answered).enough is listed


def test_how_often_a_node_lists_is_its_own_pace_and_not_that_of_others() -> None:
    quick = msgspec.structs.replace(PACE, interval_seconds=1.0)
    assert not heard([witness("east", known=LISTED - 1, pace=quick)]).enough


def test_where_there_are_many_agents_one_is_known_to_its_peers_later() -> None:
    """They read the list of all less often, and an agent that they do not know is not asked."""
    new = witness("east", known=LISTED)
    assert heard([new] * 100).enough
    assert not heard([new] * 1000).enough
    old = witness("east", known=2 * PEERS_EVERY_MAX * PACE.interval_seconds)
    assert heard([old] * 1000).enough


@pytest.mark.parametrize(
    ("agents", "requests"), [(0, 14), (3, 14), (168, 14), (600, 50), (960, 80), (1_000, 80), (100_000, 80)]
)
def test_the_more_agents_the_less_often_each_lists_them(agents: int, requests: int) -> None:
    assert peers_every(agents) == requests


@pytest.mark.parametrize(
    ("silent", "enough"),
    [
        ((), True),
        (("west", "west"), True),  # half of two domains
        (("east", "east", "west", "west"), False),
        (("east", "east", "west"), True),
        (("east",), True),
    ],
)
def test_at_least_half_of_the_domains_must_be_heard(silent: tuple[str, ...], enough: bool) -> None:
    left = list(silent)
    agents = []
    for domain in ("east", "east", "east", "west", "west"):
        is_silent = domain in left
        if is_silent:
            left.remove(domain)
        agents.append(witness(domain, silent=99 if is_silent else 1))
    assert heard(agents).enough is enough


def test_whom_the_node_knows_counts_and_not_whose_lease_is_still_there() -> None:
    """Somebody deletes the Lease of a silent agent: the node that is meant may live by the word of that agent all the same."""
    agents = [witness("east", silent=99), witness("west")]
    assert heard(agents).enough
    assert str(heard(agents, known={"east": 1, "south": 1, "west": 1})) == "1 of 3 failure domains are heard"
    assert not heard(agents, known={"east": 1, "south": 1, "west": 1}).enough
    assert not heard([witness("west")], known={"west": 3}).enough


def test_a_domain_that_the_node_does_not_know_is_not_asked_and_does_not_count() -> None:
    agents = [witness("east", silent=99), witness("west"), witness("north"), witness("south")]
    assert str(heard(agents, known={"east": 1, "west": 1})) == "1 of 2 failure domains are heard"


def test_without_agents_nobody_is_heard() -> None:
    assert not heard([]).enough
    assert str(heard([])) == "0 of 0 failure domains are heard"


def test_a_report_and_an_order_are_read_as_they_were_written() -> None:
    order = Order(remediation="uid-1", boot_id="b-1")
    lease = Lease(metadata=Meta(annotations={REPORT: text_of(REPORTED), ORDER: text_of(order)}))
    assert (read_report(lease), read_order(lease)) == (REPORTED, order)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"bootId": 7}', '{"remediation": "x"}'])
def test_what_cannot_be_read_is_neither_a_report_nor_an_order(text: str) -> None:
    lease = Lease(metadata=Meta(annotations={REPORT: text, ORDER: text}))
    assert (read_report(lease), read_order(lease)) == (None, None)


def test_a_report_that_counts_nobody_in_a_domain_is_not_relied_on() -> None:
    told = text_of(msgspec.structs.replace(REPORTED, known={"east": 0}))
    assert read_report(Lease(metadata=Meta(annotations={REPORT: told}))) is None


@pytest.mark.parametrize("seconds", [0, -5, 100_000])
def test_a_report_with_a_time_that_makes_no_sense_is_not_relied_on(seconds: float) -> None:
    told = text_of(msgspec.structs.replace(REPORTED, watchdog_seconds=seconds))
    assert read_report(Lease(metadata=Meta(annotations={REPORT: told}))) is None


def test_an_agent_whose_report_cannot_be_read_is_alone_in_its_domain() -> None:
    assert domain_of(Lease(metadata=Meta(name="defib-agent-n1"))) == "unknown n1"
    assert domain_of(Lease(metadata=Meta(annotations={REPORT: text_of(REPORTED)}))) == "east"

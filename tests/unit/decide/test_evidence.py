"""What evidence comes to: every row of the table, and that nobody is acted on who may be alive."""

from datetime import timedelta
from itertools import product

import msgspec
import pytest

from defib.decide.evidence import (
    ACTED_ON,
    FRESH,
    TABLE,
    Conclusion,
    Facts,
    conclude,
    facts_from,
    is_log_wanted,
    missing,
)
from defib.model.evidence import Evidence, Says, Source
from tests.builders import SECOND, T0

SAME = Says.SAME
HUNG = Facts(heartbeat=SAME, kubelet=Says.SILENT, power=Says.ON)  # or cut off; and no neighbour could be asked


def but(facts: Facts, **changes: Says) -> Facts:
    return msgspec.structs.replace(facts, **changes)


CASES = [
    (but(HUNG, log=Says.STOPPED), Conclusion.ISOLATED),
    (but(HUNG, log=Says.STOPPED, neighbours=Says.SILENT), Conclusion.ISOLATED),
    (but(HUNG, log=Says.STOPPED, power=Says.UNKNOWN), Conclusion.DONT_KNOW),
    (but(HUNG, log=Says.STOPPED, kubelet=Says.REFUSES), Conclusion.DONT_KNOW),
    (but(HUNG, log=Says.STOPPED, kubelet=Says.ANSWERS), Conclusion.CONTROL_PLANE),
    (but(HUNG, log=Says.STARTED), Conclusion.DONT_KNOW),
    (but(HUNG, log=Says.QUIET), Conclusion.DONT_KNOW),
    (but(HUNG, others=Says.GONE), Conclusion.ISOLATED),
    (but(HUNG, others=Says.GONE, neighbours=Says.SILENT), Conclusion.CONTROL_PLANE),
    (but(HUNG, others=Says.GONE, power=Says.UNKNOWN), Conclusion.DONT_KNOW),
    (but(HUNG, others=Says.ALIVE, neighbours=Says.ANSWERS), Conclusion.DONT_KNOW),
    (but(HUNG, others=Says.ALIVE, power=Says.OFF), Conclusion.DONT_KNOW),
    (Facts(heartbeat=SAME, kubelet=Says.SILENT, power=Says.OFF, crowd="9 of 10"), Conclusion.CONTROL_PLANE),
    (Facts(heartbeat=Says.RENEWED, kubelet=Says.SILENT, power=Says.OFF), Conclusion.ALIVE),
    (Facts(kubelet=Says.SILENT, power=Says.OFF), Conclusion.DONT_KNOW),
    (Facts(heartbeat=SAME, kubelet=Says.ANSWERS, power=Says.OFF), Conclusion.CONTROL_PLANE),
    (Facts(heartbeat=SAME, power=Says.OFF), Conclusion.DEAD),
    (Facts(heartbeat=SAME, kubelet=Says.REFUSES, power=Says.ON), Conclusion.DONT_KNOW),
    (Facts(heartbeat=SAME, kubelet=Says.SILENT, neighbours=Says.SILENT, power=Says.ON), Conclusion.CONTROL_PLANE),
    (Facts(heartbeat=SAME, kubelet=Says.SILENT, power=Says.ON), Conclusion.DONT_KNOW),
    (Facts(heartbeat=SAME, kubelet=Says.SILENT, neighbours=Says.ANSWERS, power=Says.ON), Conclusion.ISOLATED),
    (Facts(heartbeat=SAME, kubelet=Says.SILENT, neighbours=Says.ANSWERS), Conclusion.DONT_KNOW),
    (Facts(heartbeat=SAME), Conclusion.DONT_KNOW),
]
HEARTBEATS = (Says.RENEWED, Says.SAME, Says.UNKNOWN)
KUBELETS = (Says.ANSWERS, Says.REFUSES, Says.SILENT, Says.UNKNOWN)
NEAR = (Says.ANSWERS, Says.SILENT, Says.UNKNOWN)
POWERS = (Says.ON, Says.OFF, Says.UNKNOWN)
LOGS = (Says.STOPPED, Says.STARTED, Says.QUIET, Says.UNKNOWN)
OTHERS = (Says.ALIVE, Says.GONE, Says.UNKNOWN)
ALL = [
    Facts(heartbeat=beat, kubelet=kubelet, neighbours=near, power=power, log=log, others=others, crowd=crowd)
    for beat, kubelet, near, power, log, others, crowd in product(
        HEARTBEATS, KUBELETS, NEAR, POWERS, LOGS, OTHERS, ("", "many")
    )
]
LIFE = (
    {"heartbeat": Says.RENEWED},
    {"kubelet": Says.ANSWERS},
    {"others": Says.ALIVE},
    {"log": Says.STARTED},
)


@pytest.mark.parametrize(("facts", "conclusion"), CASES)
def test_what_is_thought_of_a_silent_node(facts: Facts, conclusion: Conclusion) -> None:
    assert conclude(facts).conclusion is conclusion


def test_every_row_has_its_case_and_every_combination_its_row() -> None:
    assert {id(conclude(facts)) for facts, _ in CASES} == {id(row) for row in TABLE}
    assert all(conclude(facts).because for facts in ALL)


def test_nobody_is_acted_on_who_answers_who_was_heard_or_who_is_one_of_many() -> None:
    for facts in ALL:
        if conclude(facts).conclusion in ACTED_ON:
            assert (facts.heartbeat, facts.crowd) == (SAME, "")
            assert facts.kubelet is not Says.ANSWERS
            assert facts.power is not Says.UNKNOWN, "there would be no way to prove that it is off"
            assert facts.others is not Says.ALIVE
            is_its_own = facts.neighbours is Says.ANSWERS or facts.log is Says.STOPPED
            is_borne_out = facts.neighbours is Says.UNKNOWN and facts.others is Says.GONE
            assert facts.power is Says.OFF or is_its_own or is_borne_out, "its silence may be everybody's"


@pytest.mark.parametrize("life", LIFE, ids=[str(*life.values()) for life in LIFE])
def test_a_sign_of_life_never_makes_anybody_act_who_would_have_waited(life: dict[str, Says]) -> None:
    for facts in ALL:
        if conclude(facts).conclusion not in ACTED_ON:
            assert conclude(but(facts, **life)).conclusion not in ACTED_ON


def test_the_log_alone_acts_on_nobody_and_a_node_that_was_to_be_acted_on_is_so_whatever_its_log_says() -> None:
    for facts in ALL:
        unread, read = conclude(but(facts, log=Says.UNKNOWN)).conclusion, conclude(facts).conclusion
        if unread in ACTED_ON:
            assert read in ACTED_ON
        elif read in ACTED_ON:
            assert (facts.kubelet, facts.power) == (Says.SILENT, Says.ON)


def test_a_bmc_is_asked_for_its_log_only_where_that_could_change_anything() -> None:
    assert is_log_wanted(HUNG)
    assert is_log_wanted(but(HUNG, neighbours=Says.SILENT))
    assert is_log_wanted(but(HUNG, log=Says.QUIET)), "it may come to say more"
    for changes in ({"neighbours": Says.ANSWERS}, {"power": Says.OFF}, {"power": Says.UNKNOWN}):
        assert not is_log_wanted(but(HUNG, **changes))
    for answer in (Says.ANSWERS, Says.REFUSES, Says.UNKNOWN):
        assert not is_log_wanted(but(HUNG, kubelet=answer))


def said(source: Source, says: Says, seconds: float) -> Evidence:
    return Evidence(source, says, T0 + seconds * SECOND)


def test_only_what_was_asked_after_the_silence_and_not_long_ago_counts() -> None:
    now = T0 + FRESH
    before, old = said(Source.POWER, Says.OFF, -1), said(Source.KUBELET, Says.SILENT, 0)
    assert facts_from([before, old], T0, now, "") == Facts(kubelet=Says.SILENT)
    assert facts_from([old], T0, now + SECOND, "") == Facts()
    assert facts_from([said(Source.POWER, Says.OFF, 60)], T0, now, "") == Facts(), "a reading from the future is none"


def test_of_one_source_the_latest_word_counts_in_whichever_order_it_came() -> None:
    on, off = said(Source.POWER, Says.ON, 5), said(Source.POWER, Says.OFF, 3)
    for order in ([on, off], [off, on]):
        assert facts_from(order, T0, T0 + timedelta(seconds=6), "").power is Says.ON


def test_whoever_was_asked_for_and_cannot_tell_is_missing() -> None:
    facts = Facts(heartbeat=SAME, power=Says.OFF)
    assert missing(facts, (Source.KUBELET, Source.POWER)) == (Source.KUBELET,)
    assert missing(facts, ()) == ()

"""What evidence comes to: every row of the table, and that nobody is acted on who may be alive."""

from datetime import timedelta
from itertools import product

import pytest

from defib.decide.evidence import ACTED_ON, FRESH, TABLE, Conclusion, Facts, conclude, facts_from, missing
from defib.model.evidence import Evidence, Says, Source
from tests.builders import SECOND, T0

SAME = Says.SAME
CASES = [
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
ALL = [
    Facts(heartbeat=beat, kubelet=kubelet, neighbours=near, power=power, crowd=crowd)
    for beat, kubelet, near, power, crowd in product(HEARTBEATS, KUBELETS, NEAR, POWERS, ("", "many"))
]


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
            assert facts.power is Says.OFF or facts.neighbours is Says.ANSWERS, "its silence may be everybody's"


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

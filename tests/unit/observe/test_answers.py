"""A server most of whose answers are failures is doubted, and trusted again when that is over."""

from hypothesis import given
from hypothesis import strategies as st

from defib.kube.client import Answer
from defib.observe.answers import ApiHealth

MOSTLY_FAILED = "most answers of the API server in the last 30 s were failures, or never came"
TOO_BUSY = "the API server has refused everything in the last 30 s because it is too busy"


def after(*codes: str, at: float = 100.0) -> ApiHealth:
    health = ApiHealth()
    for code in codes:
        health.answered(Answer("GET", code, 0.01), at)
    return health


def test_a_server_that_has_said_nothing_yet_is_not_doubted() -> None:
    assert ApiHealth().doubt(0.0) == ""


def test_more_than_half_must_have_failed_of_at_least_five() -> None:
    assert after("500", "503", "none", "200", "200").doubt(101) == MOSTLY_FAILED
    assert after("500", "503", "none", "200", "200", "200").doubt(101) == ""
    assert after("500", "503", "none", "none").doubt(101) == ""


def test_a_refusal_is_an_answer() -> None:
    assert after("403", "404", "409", "410", "422", "401").doubt(101) == ""


def test_a_busy_server_is_doubted_only_when_nothing_else_comes() -> None:
    assert after("429", "429", "429", "429", "200").doubt(101) == ""
    assert after("429", "429", "429", "429", "500").doubt(101) == TOO_BUSY
    assert after(*["429"] * 5).doubt(101) == TOO_BUSY


def test_what_is_older_than_half_a_minute_is_forgotten() -> None:
    health = after(*["503"] * 100)
    assert health.doubt(129.9) == MOSTLY_FAILED
    assert health.doubt(130.0) == ""
    for second in range(30):
        health.answered(Answer("GET", "200", 0.01), 130.0 + second)
    assert health.doubt(160.0) == ""
    assert ApiHealth().doubt(1_000_000.0) == ""


codes = st.sampled_from(["200", "201", "404", "429", "500", "503", "none"])


@given(st.lists(st.tuples(st.floats(0, 10), codes), max_size=60), st.floats(0, 40))
def test_it_counts_what_a_list_of_all_answers_would_count(steps: list[tuple[float, str]], later: float) -> None:
    health, moment = ApiHealth(), 0.0
    told: list[tuple[float, str]] = []
    for pause, code in steps:
        moment += pause
        health.answered(Answer("GET", code, 0.01), moment)
        told.append((moment, code))
    now = moment + later
    recent = [code for at, code in told if int(at) > int(now) - 30]
    failed = sum(code in ("500", "503", "none") for code in recent)
    busy = recent.count("429")
    doubted = len(recent) >= 5 and (2 * failed > len(recent) or failed + busy == len(recent))
    assert bool(health.doubt(now)) == doubted

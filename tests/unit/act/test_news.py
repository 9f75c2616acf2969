"""What is told, what is told already, and what is too much."""

import msgspec

from defib.act.news import AGAIN_AFTER_SECONDS, MANY, TOLD_MAX, News
from defib.model.action import TellEvent
from defib.simulate.virtual_time import START

NEWS = TellEvent(check="c1", uid="u1", is_warning=False, reason="R", message="news", at=START)


def of_nodes(count: int, reason: str = "R") -> list[TellEvent]:
    return [msgspec.structs.replace(NEWS, reason=reason, message=f"node {number}") for number in range(count)]


def test_what_was_told_is_not_told_again_for_a_while() -> None:
    news = News()
    assert news.worth_telling([NEWS, NEWS], 0.0) == [NEWS]
    assert news.worth_telling([NEWS], AGAIN_AFTER_SECONDS - 0.1) == []
    assert news.worth_telling([NEWS], AGAIN_AFTER_SECONDS) == [NEWS]


def test_what_could_not_be_told_may_be_told_again_at_once() -> None:
    news = News()
    news.worth_telling([NEWS], 0.0)
    news.not_told(NEWS)
    assert news.worth_telling([NEWS], 0.1) == [NEWS]


def test_only_so_much_is_remembered_and_the_oldest_is_forgotten() -> None:
    news = News()
    news.worth_telling([NEWS], 0.0)
    news.worth_telling(of_nodes(TOLD_MAX), 1.0)
    assert news.worth_telling([NEWS, *of_nodes(TOLD_MAX)[1:]], 2.0) == [NEWS]


def test_very_much_of_one_reason_is_told_as_some_and_a_number() -> None:
    few, many = of_nodes(MANY, "Few"), of_nodes(MANY + 1)
    told = News().worth_telling([*many, *few], 0.0)
    assert told == [*many[:20], *few, msgspec.structs.replace(NEWS, message="and 31 more nodes")]


def test_what_was_told_as_a_number_counts_as_told() -> None:
    news = News()
    news.worth_telling(of_nodes(MANY + 1), 0.0)
    assert news.worth_telling(of_nodes(MANY + 1), 1.0) == []

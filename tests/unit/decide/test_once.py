"""What has one answer for a whole pass is worked out when somebody asks, and never twice."""

from collections.abc import Callable

import pytest

from defib.decide.once import Once


@pytest.mark.parametrize("answer", ["yes", "", None])
def test_however_often_it_is_asked_it_is_worked_out_once(answer: str | None) -> None:
    asked: list[str] = []
    once = Once(_told(asked, answer))
    assert asked == [], "nobody has asked yet"
    assert [once(), once(), once()] == [answer] * 3
    assert asked == ["worked out"]


def _told(asked: list[str], answer: str | None) -> Callable[[], str | None]:
    def work_out() -> str | None:
        asked.append("worked out")
        return answer

    return work_out

"""A question with one answer for a whole pass, dear enough to be asked only when somebody needs it, and then once."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """As functools.cache does it, but made in no time: each pass makes some that nobody asks."""

    __slots__ = ("_answers", "_ask")

    def __init__(self, ask: Callable[[], T]) -> None:
        self._ask = ask
        self._answers: list[T] = []

    def __call__(self) -> T:
        if not self._answers:
            self._answers.append(self._ask())
        return self._answers[0]

"""Every state that a small world can get into, by every order of events: breadth first, each state once.

A model is what it begins with and, for each state, what can happen next. So what is found first is also a shortest way
to it, and `Explored.trace` tells it event by event.
"""

import gc
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

import msgspec

S = TypeVar("S", bound=Hashable)


class Move(NamedTuple, Generic[S]):
    """`is_trouble`: it need not happen, and whoever hopes for a good end must not count on it."""

    name: str
    to: S
    is_trouble: bool = False


class Model(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """`wrong` says what is wrong with a state, or nothing. `is_good` is what must stay within reach of every state."""

    begins: tuple[S, ...]
    moves: Callable[[S], Iterable[Move[S]]]
    wrong: Callable[[S], str]
    is_good: Callable[[S], bool]


class Explored(msgspec.Struct, frozen=True, kw_only=True):
    states: int
    moves: int = 0
    wrong: str = ""
    trace: tuple[str, ...] = ()  # the events that led there
    last: str = ""  # the state that they led to

    def __str__(self) -> str:
        if not self.wrong:
            return f"{self.states} states, {self.moves} moves"
        return "\n  ".join((self.wrong, *self.trace, f"and so: {self.last}"))


class _Seen(Generic[S]):
    """Each state by the number under which it was met, where it was met from, and by what."""

    def __init__(self) -> None:
        self.numbers: dict[S, int] = {}
        self.states: list[S] = []
        self._met: list[tuple[int, str]] = []
        self.before: list[list[int]] = []  # by which states each can be reached without trouble

    def number(self, state: S, source: int, by: str) -> tuple[int, bool]:
        known = self.numbers.get(state)
        if known is not None:
            return known, False
        self.numbers[state] = number = len(self.states)
        self.states.append(state)
        self._met.append((source, by))
        self.before.append([])
        return number, True

    def trace(self, number: int) -> tuple[str, ...]:
        events: list[str] = []
        while number >= 0:
            number, by = self._met[number]
            events.append(by)
        return tuple(reversed(events))

    def cut_off(self, is_good: Callable[[S], bool]) -> int | None:
        """The first state from which nothing good can be reached any more, unless trouble helps."""
        reaches = [is_good(state) for state in self.states]
        todo = [number for number, reached in enumerate(reaches) if reached]
        while todo:
            for number in self.before[todo.pop()]:
                if not reaches[number]:
                    reaches[number] = True
                    todo.append(number)
        return next((number for number, reached in enumerate(reaches) if not reached), None)


def explore(model: Model[S], *, most: int = 2_000_000) -> Explored:
    """All of it, or up to the first state that is wrong. More than `most` states are a model that is not small."""
    gc.disable()  # all that is made here is kept to the end, and looking through it again and again takes its time
    try:
        return _explore(model, most)
    finally:
        gc.enable()


def _explore(model: Model[S], most: int) -> Explored:
    seen: _Seen[S] = _Seen()
    todo = deque(seen.number(state, -1, "it begins")[0] for state in model.begins)
    moves = 0
    while todo:
        number = todo.popleft()
        state = seen.states[number]
        if found := model.wrong(state):
            return _told(seen, number, found, moves)
        for move in model.moves(state):
            moves += 1
            to, is_new = seen.number(move.to, number, move.name)
            if not move.is_trouble:
                seen.before[to].append(number)
            if is_new:
                todo.append(to)
        assert len(seen.states) <= most, f"more than {most} states: {state}"
    stuck = seen.cut_off(model.is_good)
    if stuck is not None:
        return _told(seen, stuck, "from here, nothing good can be reached any more", moves)
    return Explored(states=len(seen.states), moves=moves)


def _told(seen: _Seen[S], number: int, wrong: str, moves: int) -> Explored:
    return Explored(
        states=len(seen.states), moves=moves, wrong=wrong, trace=seen.trace(number), last=str(seen.states[number])
    )

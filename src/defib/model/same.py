"""Something that never changes once it is there, known by being the very same: by that, what came of it is found again."""

from collections.abc import Callable, Mapping
from itertools import compress
from operator import is_, is_not
from typing import Generic, TypeVar

T = TypeVar("T")


class Same(Generic[T]):
    """A key for what cannot be one itself, such as a map. Whoever remembers by it also keeps it, so no other takes its place."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value


def changed(was: Mapping[str, object], now: Mapping[str, object]) -> tuple[str, ...]:
    """The keys of what is new, another object than before, or gone. Of thousands hardly any is, so they are not asked one by one."""
    if has_same_keys(was, now):
        return tuple(compress(now, map(is_not, was.values(), now.values())))
    return (*(key for key, one in now.items() if was.get(key) is not one), *(was.keys() - now.keys()))


def has_same_keys(was: Mapping[str, object], now: Mapping[str, object]) -> bool:
    """Where nothing came or went, they are the very same and stand in the same order. False says less: ask each."""
    return len(was) == len(now) and all(map(is_, was, now))


class Sieve(Generic[T]):
    """Those of a map that are wanted, in the order of their keys. Of thousands, only those are asked that are others than last time.

    While nothing of it changes, the answer is the very same map.
    """

    def __init__(self, is_wanted: Callable[[T], bool]) -> None:
        self._is_wanted = is_wanted
        self._last: tuple[Mapping[str, T], Mapping[str, T]] = ({}, {})

    def of(self, now: Mapping[str, T]) -> Mapping[str, T]:
        was, found = self._last
        if now is was:
            return found
        others = frozenset(changed(was, now))
        fresh = {key: now[key] for key in others if key in now and self._is_wanted(now[key])}
        if fresh or not others.isdisjoint(found):
            kept = {key: one for key, one in found.items() if key not in others}
            found = dict(sorted((kept | fresh).items()))
        self._last = now, found
        return found

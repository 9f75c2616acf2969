"""Something that never changes once it is there, known by being the very same: by that, what came of it is found again."""

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

"""What one replica spent while it was measured."""

import msgspec


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """What its own metrics say."""

    writes: int
    """With the renewals of its locks."""
    heartbeats: int
    node_events: int
    passes: int
    pods_moved: int

    def since(self, before: "Counted") -> "Counted":
        fields = self.__struct_fields__
        return Counted(**{name: getattr(self, name) - getattr(before, name) for name in fields})

    def plus(self, other: "Counted") -> "Counted":
        fields = self.__struct_fields__
        return Counted(**{name: getattr(self, name) + getattr(other, name) for name in fields})


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    replica: str
    cpu_seconds: float
    counted: Counted

"""The permission to act: who gave it, and until when on the monotonic clock."""

import math
from typing import Protocol

import msgspec

from defib.model.action import Action


class Permit(Protocol):
    """What we may do, where that is not the same for everything."""

    def of(self, action: Action) -> "Mandate | None":
        """Under which mandate this may be done; None when it is not ours to do."""
        ...


class Mandate(msgspec.Struct, eq=False):
    """One term. Whoever gave it moves its end on while they can, and takes it back when they must."""

    token: str
    ends: float = math.inf

    def holds(self, monotonic: float) -> bool:
        return monotonic < self.ends

    def take_back(self) -> None:
        self.ends = -math.inf

    @property
    def is_taken_back(self) -> bool:
        return self.ends == -math.inf

    def of(self, action: Action) -> "Mandate":  # noqa: ARG002  it is good for everything
        return self


class Nobody:
    """The permit of whoever does not lead."""

    def of(self, action: Action) -> Mandate | None:  # noqa: ARG002  for nothing
        return None

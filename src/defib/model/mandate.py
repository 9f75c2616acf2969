"""The permission to act: who gave it, and until when on the monotonic clock."""

import math

import msgspec


class Mandate(msgspec.Struct, frozen=True):
    token: str
    ends: float = math.inf

    def holds(self, monotonic: float) -> bool:
        return monotonic < self.ends

"""No power at all: a person switches the machine, and says so where the operator reads it. Nothing is claimed here."""

from typing import ClassVar

from defib.clock import Clock
from defib.power.base import NotReady, Outcome, PowerState, Readiness, Reading, Refused, Target

_BY_HAND = "only a person can switch this machine, and confirm that it is off"


class Manual:
    can_read_state: ClassVar[bool] = False

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def state(self, target: Target, within_seconds: float) -> Reading:  # noqa: ARG002 - nobody is asked
        return Reading(PowerState.UNKNOWN, self._clock.now(), _BY_HAND)

    async def off(self, target: Target, within_seconds: float) -> Outcome:  # noqa: ARG002 - the same
        return Refused(_BY_HAND)

    async def on(self, target: Target, within_seconds: float) -> Outcome:  # noqa: ARG002 - the same
        return Refused(_BY_HAND)

    async def check(self, target: Target, within_seconds: float) -> Readiness:  # noqa: ARG002 - the same
        return NotReady(_BY_HAND)

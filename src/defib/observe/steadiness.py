"""Whether our own clock goes evenly: what happened when is judged by it."""

from datetime import datetime

JUMP_SECONDS = 5.0
DOUBT_SECONDS = 60.0


class Steadiness:
    """Compares the time that people go by with the one that only ever passes.

    After a jump they differ by another amount than before. The new time may be the right one, so the doubt ends after
    a while; by then whoever keeps the clock has had time to put it right.
    """

    def __init__(self, now: datetime, monotonic: float) -> None:
        self._offset = now.timestamp() - monotonic
        self._doubt_until = monotonic

    def doubt(self, now: datetime, monotonic: float) -> str:
        """Why not to trust times now; empty when there is no reason."""
        offset = now.timestamp() - monotonic
        if abs(offset - self._offset) > JUMP_SECONDS:
            self._doubt_until = monotonic + DOUBT_SECONDS
        self._offset = offset
        return "our own clock has jumped" if monotonic < self._doubt_until else ""

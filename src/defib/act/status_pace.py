"""How often a status is written while much changes: it changes with everything that ends, whoever does it."""

import math
from collections.abc import Iterable

from defib.model.action import Action, EndRemediation, StartRemediation, WriteStatus

PAUSE_SECONDS = 0.5


class StatusPace:
    """All moments are of the monotonic clock. `due` is the first at which something that was held back may be written."""

    def __init__(self) -> None:
        self._began: dict[str, float] = {}  # when each check's was last begun to be written
        self._is_busy = False
        self.due: float | None = None

    def begin(self, at_work: Iterable[Action]) -> None:
        """Another pass: what is under way, and what others are to do."""
        self._is_busy = any(isinstance(action, StartRemediation | EndRemediation) for action in at_work)
        self.due = None

    def writes(self, status: WriteStatus, now: float) -> None:
        recent = {check: began for check, began in self._began.items() if now - began < PAUSE_SECONDS}
        self._began = recent | {status.check: now}  # checks come and go

    def is_too_soon(self, action: Action, now: float) -> bool:
        if not isinstance(action, WriteStatus) or not self._is_busy:
            return False
        due = self._began.get(action.check, -math.inf) + PAUSE_SECONDS
        if now >= due:
            return False
        self.due = due if self.due is None else min(due, self.due)
        return True

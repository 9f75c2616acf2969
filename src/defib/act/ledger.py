"""What became of actions: which failed and must wait, and which ended so recently that asking again is an echo.

Bounded by the plan: what is no longer wanted is forgotten.
"""

from collections.abc import Collection, Mapping
from datetime import timedelta
from types import MappingProxyType

import msgspec

from defib.act.outcome import Failed
from defib.model.action import Action, Failure

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0  # what a person mends (a role, a webhook) works again within half a minute
# A plan that is made before the watch has told what we did asks for the same again, and so would the next one.
ECHO_SECONDS = 5.0


class _Ended(msgspec.Struct, frozen=True):
    action: Action
    until: float


class Ledger:
    """All moments are of the monotonic clock."""

    def __init__(self) -> None:
        self._failures: dict[str, Failure] = {}
        self._retries: dict[str, float] = {}
        self._ended: dict[str, _Ended] = {}

    @property
    def failures(self) -> Mapping[str, Failure]:
        return MappingProxyType(self._failures.copy())

    def failed(self, action: Action, outcome: Failed, now: float) -> Failure:
        before = self._failures.get(action.key)
        times = before.times + 1 if before else 1
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(times - 1, 20), LONGEST_PAUSE_SECONDS)
        pause = max(pause, outcome.retry_after_seconds)
        failure = Failure(why=outcome.why, times=times, again_in=timedelta(seconds=pause))
        self._failures[action.key] = failure
        self._retries[action.key] = now + pause
        return failure

    def ended(self, action: Action, now: float, *, may_echo: bool) -> None:
        self._failures.pop(action.key, None)
        self._retries.pop(action.key, None)
        self._ended.pop(action.key, None)
        if may_echo:
            self._ended[action.key] = _Ended(action, now + ECHO_SECONDS)

    def must_wait(self, action: Action, now: float) -> bool:
        if self._retries.get(action.key, now) > now:
            return True
        ended = self._ended.get(action.key)
        return ended is not None and ended.until > now and ended.action == action

    def keep_only(self, wanted: Collection[str], now: float) -> None:
        self._failures = {key: failure for key, failure in self._failures.items() if key in wanted}
        self._retries = {key: moment for key, moment in self._retries.items() if key in wanted}
        self._ended = {key: ended for key, ended in self._ended.items() if key in wanted and ended.until > now}

    def next_retry(self, underway: Collection[str]) -> float | None:
        moments = {key: ended.until for key, ended in self._ended.items()} | self._retries
        return min((moment for key, moment in moments.items() if key not in underway), default=None)

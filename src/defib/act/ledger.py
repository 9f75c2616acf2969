"""What became of actions: which failed and must wait, and which ended so recently that asking again is an echo.

Bounded by the plan: what is no longer wanted is forgotten, but for a while not a start whose answer was lost.
"""

from collections.abc import Collection, Mapping
from datetime import timedelta
from types import MappingProxyType

import msgspec

from defib.act.outcome import Failed
from defib.model.account_action import WriteAccount
from defib.model.action import Action, HoldLock, ReportRemediation, StartRemediation
from defib.model.failure import Failure

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0  # what a person mends (a role, a webhook) works again within half a minute
# A plan that is made before the watch has told what we did asks for the same again, and so would the next one.
ECHO_SECONDS = 5.0
STARTED_ECHO_SECONDS = 1.0  # what we created is in the cache at once: if it is asked for again, it is probably gone
# After so many ends without any effect that a plan could see, starting the same once more is no cure.
REPEATS_MAX = 3
# What may have been started counts until it must have been seen: a watch that is silent for longer counts as dead, and
# whoever is blind starts nothing.
UNSURE_SECONDS = 120.0


class _Ended(msgspec.Struct, frozen=True):
    action: Action
    until: float


class _Unsure(msgspec.Struct, frozen=True):
    failure: Failure
    until: float


class Ledger:
    """All moments are of the monotonic clock."""

    def __init__(self) -> None:
        self._failures: dict[str, Failure] = {}
        self._retries: dict[str, float] = {}
        self._ended: dict[str, _Ended] = {}
        self._repeats: dict[str, int] = {}  # ends of a start that was wanted all the while
        self._unsure: dict[str, _Unsure] = {}  # starts that may have been done, wanted still or not

    @property
    def failures(self) -> Mapping[str, Failure]:
        return MappingProxyType({key: one.failure for key, one in self._unsure.items()} | self._failures)

    def failed(self, action: Action, outcome: Failed, now: float) -> Failure:
        before = self._failures.get(action.key)
        times = before.times + 1 if before else 1
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(times - 1, 20), LONGEST_PAUSE_SECONDS)
        pause = max(pause, outcome.retry_after_seconds)
        failure = Failure(why=outcome.why, times=times, again_in=timedelta(seconds=pause), forbidden=outcome.forbidden)
        if isinstance(action, StartRemediation) and outcome.may_pass:
            failure = msgspec.structs.replace(failure, check=action.check, node=action.node)
            self._unsure[action.key] = _Unsure(failure, now + UNSURE_SECONDS)
        self._failures[action.key] = failure
        self._retries[action.key] = now + pause
        return failure

    def ended(self, action: Action, why: str, now: float, *, is_done: bool = False) -> Failure | None:
        """It did not fail; but a start that ends again and again, and is wanted still, counts as if it had."""
        if isinstance(action, StartRemediation):
            self._repeats[action.key] = self._repeats.get(action.key, 0) + 1
            if self._repeats[action.key] > REPEATS_MAX:
                return self.failed(action, Failed(why, retry_after_seconds=ECHO_SECONDS), now)
        if is_done:
            self._unsure.pop(action.key, None)
        self.withheld(action)
        echo = STARTED_ECHO_SECONDS if is_done and isinstance(action, StartRemediation) else ECHO_SECONDS
        self._ended[action.key] = _Ended(_gist(action), now + echo)
        return None

    def withheld(self, action: Action) -> None:
        """Neither has it failed, nor was anything done that a plan could be too early for."""
        self._failures.pop(action.key, None)
        self._retries.pop(action.key, None)
        self._ended.pop(action.key, None)

    def must_wait(self, action: Action, now: float) -> bool:
        if self._retries.get(action.key, now) > now:
            return True
        ended = self._ended.get(action.key)
        return ended is not None and ended.until > now and ended.action == _gist(action)

    def keep_only(self, wanted: Collection[str], now: float) -> None:
        self._failures = {key: failure for key, failure in self._failures.items() if key in wanted}
        self._retries = {key: moment for key, moment in self._retries.items() if key in wanted}
        self._ended = {key: ended for key, ended in self._ended.items() if key in wanted and ended.until > now}
        self._unsure = {key: one for key, one in self._unsure.items() if one.until > now}
        self._repeats = {key: times for key, times in self._repeats.items() if key in wanted}

    def next_retry(self, underway: Collection[str], *, after: float) -> float | None:
        moments = {key: ended.until for key, ended in self._ended.items()} | self._retries
        waiting = [moment for key, moment in moments.items() if key not in underway and moment > after]
        return min((*waiting, *(one.until for one in self._unsure.values() if one.until > after)), default=None)


def _gist(action: Action) -> Action:
    """Renewing the lock changes what is known of it, and nothing about what was asked for. What is reported has times in
    it; written onto the same version, it ends in the same way.
    """
    if isinstance(action, ReportRemediation | WriteAccount):
        return msgspec.structs.replace(action, status={}, tells=())
    if not isinstance(action, StartRemediation | HoldLock):
        return action
    return msgspec.structs.replace(action, claim=msgspec.structs.replace(action.claim, known=None))

"""When each strategy is due in a drain, and when the drain counts as failed. To the minute as seed 004 has it."""

from collections.abc import Collection
from datetime import datetime, timedelta

import msgspec

from defib.decide.drains.intent import Intent
from defib.model.drain_policy import Policy, Strategy, Times

_AFTER_BUDGETS = frozenset({Strategy.PDB_DELETE, Strategy.PDB_FINALIZERS})


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """Of one drain. A moment is over strictly after it."""

    started_at: datetime
    times: Times
    strategies: frozenset[Strategy]
    evicts: bool = False  # from the start, since nobody else does
    peer_deadline: datetime | None = None  # until then whoever drains the node forces by itself

    def due_at(self, strategy: Strategy) -> datetime:
        return self._not_before_peer(self.started_at + wait_of(strategy, self.times))

    @property
    def evicts_at(self) -> datetime:
        return self.started_at if self.evicts else self.due_at(Strategy.DELETE)

    def failed_at(self, needed: Collection[Strategy], now: datetime) -> datetime | None:
        """From when on the drain has failed, as things are now; None while a strategy is still to come that is needed.

        `needed` are those that have pods to deal with, or will have when they are due. The others are not waited for: in
        seed 004 they are, so that a drain that has failed counts as well again when one of them becomes due.
        """
        ours = self.strategies & frozenset(needed)
        if any(now <= self.due_at(one) for one in ours):
            return None
        executed = [one for one in ours or self.strategies - _AFTER_BUDGETS if self.due_at(one) < now]
        after = failed_after([wait_of(one, self.times) for one in executed], self.times)
        return self._not_before_peer(self.started_at + after)

    def turns_at(self, now: datetime) -> datetime | None:
        """After which moment something else may come next for a pod though nothing happens; None when there is none left."""
        moments = [self.due_at(one) for one in (Strategy.DELETE, Strategy.PDB_DELETE)]
        return min((moment for moment in moments if now <= moment), default=None)

    def _not_before_peer(self, moment: datetime) -> datetime:
        if self.peer_deadline is None:
            return moment
        return max(moment, self.peer_deadline + self.times.expected)


def schedule_of(policy: Policy, intent: Intent, started_at: datetime) -> Schedule:
    return Schedule(
        started_at=started_at,
        times=policy.times,
        strategies=policy.strategies,
        evicts=intent.evicts,
        peer_deadline=intent.deadline,
    )


def wait_of(strategy: Strategy, times: Times) -> timedelta:
    return times.expected + times.pdb_timeout if strategy in _AFTER_BUDGETS else times.timeout


def failed_after(executed: Collection[timedelta], times: Times) -> timedelta:
    """`executed` are the waits of the strategies that are due. The last of them has the expected time to take effect."""
    last = max(executed, default=timedelta())
    return last + times.expected if executed and last + times.expected > times.timeout else times.timeout

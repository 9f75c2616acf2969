"""Whose turn it is, and whether there is a place for it, so that one broken remediator leaves room for everybody else."""

from collections import Counter
from collections.abc import Iterable

from defib.model.account_action import MANY_AT_ONCE, AccountAction, DropAccount, OpenAccount, WriteAccount
from defib.model.action import (
    Action,
    CheckPower,
    DeleteAttachment,
    EndRemediation,
    FreePod,
    GatherEvidence,
    MovePod,
    ReadPower,
    StartRemediation,
    SwitchPower,
    TellEvent,
    WriteStatus,
)
from defib.model.drain_action import DeletePod, EvictPod, PodStep, RemoveFinalizers

# Pods come last: there may be thousands of them, and none of the others should wait for that.
_RANKS: dict[type[Action], int] = {
    StartRemediation: 0,
    EndRemediation: 0,
    SwitchPower: 0,
    GatherEvidence: 0,
    WriteStatus: 2,
    MovePod: 3,
    FreePod: 3,
    EvictPod: 3,
    DeletePod: 3,
    RemoveFinalizers: 3,
    DeleteAttachment: 3,
    CheckPower: 3,
    TellEvent: 3,
    # Nobody waits for these, so they wait for everybody.
    OpenAccount: 4,
    WriteAccount: 4,
    DropAccount: 4,
}
_RANK_OF_OTHERS = 1
ACCOUNTS_AT_ONCE = 4
_HANGING = StartRemediation | MovePod | PodStep | SwitchPower | ReadPower | CheckPower | GatherEvidence


class Places:
    """How many may be under way. Starts, moves and power can hang for as long as they may last: half is for the rest.

    News has tellers of its own, and takes no place here. Accounts have few places, and none while remediations wait or
    many of them begin or end: the API server's time goes to those first.
    """

    def __init__(self, at_once: int, starts_per_kind: int, underway: Iterable[Action]) -> None:
        self._at_once = at_once
        self._hanging_max = max(at_once // 2, 1)
        self._starts_per_kind = starts_per_kind
        self._taken = 0
        self._hanging = 0
        self._moving = 0
        self._accounts = 0
        self._has_line = False
        self._starts: Counter[str] = Counter()
        for action in underway:
            self._count(action)

    @property
    def are_full(self) -> bool:
        return self._taken >= self._at_once

    def take(self, action: Action) -> bool:
        """Whether there was one."""
        if not self._has_place(action):
            self._has_line = self._has_line or isinstance(action, StartRemediation)
            return False
        self._count(action)
        return True

    def _has_place(self, action: Action) -> bool:
        if self.are_full:
            return False
        if isinstance(action, AccountAction):
            return self._accounts < ACCOUNTS_AT_ONCE and self._moving <= MANY_AT_ONCE and not self._has_line
        if isinstance(action, _HANGING) and self._hanging >= self._hanging_max:
            return False
        return not isinstance(action, StartRemediation) or self._starts[str(action.kind)] < self._starts_per_kind

    def _count(self, action: Action) -> None:
        self._taken += not isinstance(action, TellEvent)
        self._hanging += isinstance(action, _HANGING)
        self._moving += isinstance(action, StartRemediation | EndRemediation)
        self._accounts += isinstance(action, AccountAction)
        if isinstance(action, StartRemediation):
            self._starts[str(action.kind)] += 1


def in_turn(actions: Iterable[Action], underway: Iterable[Action]) -> list[Action]:
    """By rank, and within one by turns: the check with the least under way goes first."""
    actions = _longest_unread_first(list(actions))
    seen = Counter(_queue(action) for action in underway)

    def turn(action: Action) -> tuple[int, int]:
        queue = _queue(action)
        seen[queue] += 1
        return queue[0], seen[queue]

    return sorted(actions, key=turn)


def _longest_unread_first(actions: list[Action]) -> list[Action]:
    """Readings among themselves: else many BMCs that hang would always come before one that answers, by their names."""
    reads = [action for action in actions if isinstance(action, ReadPower)]
    turns = iter(sorted(reads, key=lambda one: one.after.timestamp() if one.after is not None else 0.0))
    return [next(turns) if isinstance(action, ReadPower) else action for action in actions]


def _queue(action: Action) -> tuple[int, str]:
    return _RANKS.get(type(action), _RANK_OF_OTHERS), str(getattr(action, "check", ""))

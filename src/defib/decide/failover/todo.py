"""What is to be done about pods of failed nodes, by whoever wants it."""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from defib.decide.failover.pods import Sorted
from defib.model.action import Action, MovePod
from defib.model.pod import Pod


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of a node as they were sorted for somebody; good for as long as nothing of this changes."""

    pods: Mapping[str, Pod]
    of: tuple[object, ...]  # what else it depends on
    sorted: Sorted
    moves: tuple[MovePod, ...]
    modes: Mapping[str, tuple[frozenset[str] | None, bool]] = {}  # of claims, as they were known, and if unreadable
    ever: frozenset[str] = frozenset()  # UIDs of all that were to be moved in the course of this failure


class Todo(msgspec.Struct, frozen=True, kw_only=True):
    """What to do, of which nodes the pods must be in sight, and when to look again even if nothing changes."""

    actions: tuple[Action, ...] = ()
    nodes: frozenset[str] = frozenset()
    wake_at: datetime | None = None
    judged: Mapping[str, Judged] = {}
    claims: frozenset[str] = frozenset()  # of which the modes are to be remembered, while the pods are in sight


NOTHING = Todo()


def together(parts: Iterable[Todo]) -> Todo:
    parts = tuple(parts)
    return Todo(
        actions=tuple(action for part in parts for action in part.actions),
        nodes=frozenset(node for part in parts for node in part.nodes),
        wake_at=min((part.wake_at for part in parts if part.wake_at is not None), default=None),
        judged={name: judged for part in parts for name, judged in part.judged.items()},
        claims=frozenset(claim for part in parts for claim in part.claims),
    )

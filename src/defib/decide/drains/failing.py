"""From when on a drain has failed, by the pods that are left. One rule: the record is written, and the doctor tells, by it."""

from datetime import datetime

from defib.decide.drains.survey import DrainLook
from defib.decide.rules import INSTANT
from defib.model.drain_policy import Strategy

_OF_PROTECTED = frozenset({Strategy.PDB_DELETE, Strategy.PDB_FINALIZERS})
_OF_OTHERS = frozenset({Strategy.DELETE, Strategy.FINALIZERS, Strategy.STUCK})


def failed_at(look: DrainLook, now: datetime) -> datetime | None:
    """None where it has not, and will not as things are. A node that goes anyway has not."""
    if not look.pods or look.node.metadata.deletion_timestamp is not None:
        return None
    return look.schedule.failed_at(_needed(look), now)


def fails_at(look: DrainLook, now: datetime) -> datetime | None:
    """The same, if all the pods stay: when every strategy that they need has been tried."""
    due = [look.schedule.due_at(one) + INSTANT for one in _needed(look) & look.schedule.strategies]
    return failed_at(look, max((now, *due)))


def _needed(look: DrainLook) -> frozenset[Strategy]:
    ours = [one for one in look.pods if not one.is_left_alone]
    return frozenset(strategy for one in ours for strategy in (_OF_PROTECTED if one.is_protected else _OF_OTHERS))

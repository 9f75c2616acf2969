"""Remediations that do not go although they should. Only a person can help, so it must be said."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from defib.decide.rules import INSTANT, REPLACED_WITHIN, STUCK_AFTER
from defib.model.duration import say
from defib.model.reasons import EventReason
from defib.model.remediation import Remediation

STUCK = EventReason.DELETION_STUCK
NOT_REPLACED = EventReason.REPLACEMENT_STUCK


class Delay(msgspec.Struct, frozen=True):
    """`message` names one that is late, if one is; `wake_at` is when the next one will be."""

    message: str = ""
    wake_at: datetime | None = None


def leaving(found: Iterable[Remediation], now: datetime) -> Delay:
    """Those that are being deleted."""
    words = f"has been on its way out for longer than {say(STUCK_AFTER)}: a finalizer of its remediator holds it"
    return _delay(((one, one.deleting_since) for one in found), STUCK_AFTER, words, now)


def replacing(found: Iterable[Remediation], now: datetime) -> Delay:
    """Those whose node was deleted on purpose, which their remediators have to follow up."""
    words = f"has waited for longer than {say(REPLACED_WITHIN)}, and its remediator has not said that it succeeded"
    return _delay(((one, one.created) for one in found), REPLACED_WITHIN, words, now)


def _delay(
    found: Iterable[tuple[Remediation, datetime | None]], patience: timedelta, words: str, now: datetime
) -> Delay:
    ends = [(one, since + patience) for one, since in found if since is not None]
    late = [f"{one} {words}" for one, end in ends if now > end]
    return Delay(late[0] if late else "", min((end + INSTANT for _, end in ends if now <= end), default=None))

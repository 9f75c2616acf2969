"""Storms: when too many nodes fail at once, wait until it has been calm for a while before anything new is begun."""

from datetime import datetime, timedelta

import msgspec

from defib.model.health_check import CheckStatus

ACTIVE = "StormActive"
COOLDOWN = "StormCooldownActive"
REASON = "HealthyNodeThresholdChange"


class Storm(msgspec.Struct, frozen=True, kw_only=True):
    """`known` says whether the conditions stand in the status at all: they do not before the first storm."""

    is_active: bool = False
    calms_until: datetime | None = None
    known: bool = False


def storm(cooldown: timedelta | None, status: CheckStatus, *, too_many: bool, now: datetime) -> Storm:
    """The next state. It is evaluated in every pass, also when no node is unhealthy any more."""
    was_active, was_calming = status.is_true(ACTIVE), status.is_true(COOLDOWN)
    known = status.condition(ACTIVE) is not None
    if cooldown is None:
        return Storm(known=known)
    if too_many:
        return Storm(is_active=True, known=True)
    if not was_active:
        return Storm(known=known)
    began = status.condition(COOLDOWN)
    since = began.last_transition_time if began and was_calming else None
    if since is None or since > now:
        return Storm(is_active=True, calms_until=now + cooldown, known=True)
    if now < since + cooldown:
        return Storm(is_active=True, calms_until=since + cooldown, known=True)
    return Storm(known=True)

"""How long an incident may stay in each phase."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from defib.decide.fencing.agents import is_by_agent, safe_time_of, told_seconds
from defib.decide.fencing.proofs import BMO_POLL
from defib.model.incident import Phase

if TYPE_CHECKING:
    from defib.decide.fencing.case import Case


def limit_of(case: "Case") -> timedelta | None:
    """None where only something else can end it."""
    limit = _LIMITS.get(case.status.phase)
    return limit(case) if limit is not None else None


def _off_is_slow(case: "Case") -> timedelta:
    time = safe_time_of(case)
    if is_by_agent(case) and time is not None:
        return timedelta(seconds=time.seconds + told_seconds(case))
    return BMO_POLL if case.status.was_off and case.is_metal3 else timedelta()


_LIMITS: Mapping[Phase, Callable[["Case"], timedelta]] = {
    Phase.LOOKING: lambda case: case.policy.off_within,
    Phase.POWERING_OFF: lambda case: case.policy.off_within + _off_is_slow(case),
    Phase.FREEING: lambda case: case.policy.free_within,
    **dict.fromkeys((Phase.TESTING, Phase.POWERING_ON), lambda case: case.policy.on_within),
    **dict.fromkeys((Phase.RETURNING, Phase.RESTORING), lambda case: case.policy.back_within),
    Phase.RESTING: lambda case: case.policy.backoff * 2 ** min(case.status.attempt - 1, 10),
    Phase.CANCELLING: lambda case: case.late_off + case.policy.on_within + case.policy.back_within,
    Phase.REPLACING: lambda case: case.policy.back_within * 6,
}

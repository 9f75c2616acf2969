"""When an incident is to be looked at again, even if nothing changes."""

from datetime import datetime

from defib.decide.fencing.agents import is_by_agent, needs_agents, next_list
from defib.decide.fencing.case import OFF_IS_OVER, Case
from defib.decide.fencing.proofs import UNREADABLE_WAIT, is_still_off
from defib.decide.fencing.work import next_command, next_reading
from defib.decide.rules import INSTANT, LOOK_AGAIN
from defib.model.incident import Phase
from defib.model.power import PowerState

_AWAITED = frozenset({Phase.POWERING_ON, Phase.RETURNING, Phase.RESTING, Phase.CANCELLING, Phase.NEEDS_PERSON})


def wake_at(case: Case) -> datetime | None:
    """The next reading, the next command, what we do ourselves, the deadline; and what only a heartbeat could change is looked at again."""
    moments = [case.deadline + INSTANT] if case.deadline is not None else []
    phase = case.status.phase
    power = {
        Phase.TESTING: PowerState.ON,
        Phase.POWERING_OFF: PowerState.OFF,
        Phase.POWERING_ON: PowerState.ON,
        Phase.CANCELLING: PowerState.ON,
        Phase.NEEDS_PERSON: PowerState.ON,
    }.get(phase)
    is_doubted = phase is Phase.FREEING and not is_still_off(case) and not is_by_agent(case)
    if phase is Phase.LOOKING or power is not None or is_doubted:
        moments.append(next_reading(case))
    if power is not None:
        moments.append(next_command(case, power))
    if needs_agents(case.incident):
        moments.append(next_list(case.cluster))
    if not case.can_read and (sent := case.was_sent(PowerState.OFF)):
        moments.append(sent + UNREADABLE_WAIT)
    if phase is Phase.FREEING:
        moments.append(case.detaches_at)
    if case.is_back:
        moments.append(case.since + OFF_IS_OVER)
    waits = case.obstacle is not None and phase in (Phase.OPEN, Phase.RESTING)
    is_unwanted = bool(case.order.withdrawn) and phase is Phase.NEEDS_PERSON
    is_silent = case.is_alive and (not case.policy.needs_new_boot or is_unwanted) and phase in _AWAITED
    if waits or is_silent or case.is_held_back:
        moments.append(case.cluster.now + LOOK_AGAIN)
    return min((moment for moment in moments if moment > case.cluster.now), default=None)

"""What is said of how actions ended: to whoever reads the log, and to a plan that asks for the same again."""

import structlog

from defib.act.outcome import (
    AgentsHeard,
    ClaimRead,
    Done,
    EvidenceGathered,
    Failed,
    Held,
    MembersRead,
    Outcome,
    PowerChecked,
    PowerRead,
    PowerSwitched,
    Stale,
    Taken,
    Withheld,
)
from defib.model.account_action import AccountAction
from defib.model.action import Action, EndRemediation, StartRemediation, TellEvent
from defib.model.drain_action import BLOCKED
from defib.model.failure import Failure

log = structlog.get_logger("act")


def log_failure(action: Action, failure: Failure) -> None:
    if isinstance(action, TellEvent):
        log.warning("event not told", check=action.check, reason=action.reason, message=action.message, why=failure.why)
        return
    again_in = f"{failure.again_in.total_seconds():g}s"
    if isinstance(action, AccountAction) and failure.times > 1:  # nothing depends on it, so once is enough
        log.debug("account not written", action=action.key, why=failure.why, times=failure.times, again_in=again_in)
        return
    if failure.why.startswith(BLOCKED):  # that is what budgets are for, and is told in the record of the drain
        log.debug("eviction refused", action=action.key, why=failure.why, times=failure.times, again_in=again_in)
        return
    log.warning("action failed", action=action.key, why=failure.why, times=failure.times, again_in=again_in)


def log_end(action: Action, outcome: Outcome) -> None:
    """A line for each remediation that begins or ends, or does not after all; the rest is for whoever looks closely."""
    match action, outcome:
        case StartRemediation(), Done():
            log.info("remediation started", node=action.node, check=action.check, kind=action.kind.name)
        case EndRemediation(), Done():
            log.info("remediation ended", node=action.node, check=action.check, remediation=str(action.target))
        case StartRemediation(), _:
            log.info("remediation not started", node=action.node, check=action.check, why=_why(outcome))
        case EndRemediation(), _:
            log.info("remediation not ended", node=action.node, check=action.check, why=_why(outcome))
        case _:
            log.debug("action ended", action=action.key, how=type(outcome).__name__, why=_why(outcome))


def why_again(outcome: Outcome) -> str:
    """What it says to somebody who asks once more."""
    if not isinstance(outcome, Done):
        return _why(outcome)
    which = f": {outcome.result.key}" if outcome.result is not None else ""
    return f"a remediation of that name is there already{which}"


def _why(outcome: Outcome) -> str:
    match outcome:
        case Done() | PowerRead() | PowerSwitched() | PowerChecked() | ClaimRead():
            return ""
        case MembersRead() | AgentsHeard() | EvidenceGathered():
            return ""
        case Held(by):
            return f"its lock is held by {by}"
        case Taken(by):
            return f"a remediation of that name belongs to {by}"
        case Stale(why) | Withheld(why) | Failed(why):
            return why

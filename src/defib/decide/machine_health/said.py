"""What the status of a MachineHealthCheck says: counts, whether anything may be done, and what holds it back."""

from datetime import datetime
from typing import Any

from defib.decide.entries import stamp
from defib.decide.fencing.order import Obstacle
from defib.decide.machine_health.budget import Budget
from defib.decide.machine_health.reading import NEWER, MachineCheck
from defib.model.action import ReportRemediation

ALLOWED = "RemediationAllowed"
OPEN = "RemediationAllowed"  # the reason for it
MESSAGE_MAX = 1024


def report(
    check: MachineCheck, budget: Budget | None, closed: Obstacle | None, notes: list[str], now: datetime
) -> tuple[ReportRemediation, ...]:
    """Nothing when it says all that already. `closed` is why nothing may be done; `notes` are about single machines."""
    before = check.item.status or {}
    counts = _counts(budget, is_closed=closed is not None)
    reason = closed.reason if closed is not None else OPEN
    message = "; ".join([closed.message] if closed is not None else notes)[:MESSAGE_MAX]
    known = _conditions(before)
    old = next((one for one in known if one.get("type") == ALLOWED), {})
    status = str(closed is None)
    if (old.get("status"), old.get("reason"), old.get("message", "")) == (status, reason, message) and all(
        before.get(name) == count for name, count in counts.items()
    ):
        return ()
    condition: dict[str, Any] = {"type": ALLOWED, "status": status, "reason": reason, "message": message}
    if closed is not None and check.kind.version != NEWER:
        condition["severity"] = "Warning"
    is_same = old.get("status") == status and isinstance(old.get("lastTransitionTime"), str)
    condition["lastTransitionTime"] = old["lastTransitionTime"] if is_same else stamp(now)
    others = [one for one in known if one.get("type") != ALLOWED]
    return (
        ReportRemediation(
            target=check.target,
            version=check.item.metadata.resource_version,
            status=counts | {"conditions": [*others, condition]},
        ),
    )


def _counts(budget: Budget | None, *, is_closed: bool) -> dict[str, int]:
    if budget is None:
        return {"remediationsAllowed": 0}
    return {
        "expectedMachines": budget.expected,
        "currentHealthy": budget.healthy,
        "remediationsAllowed": 0 if is_closed else budget.left,
    }


def _conditions(status: dict[str, Any]) -> list[dict[str, Any]]:
    listed = status.get("conditions")
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []

"""The conditions of an incident, for whoever waits for one: `kubectl wait --for=condition=Closed nodeincident/worker-7`."""

from defib.decide.fencing.case import Case
from defib.decide.fencing.table import Changes, Row
from defib.decide.status import merged
from defib.model.health_check import StatusCondition
from defib.model.incident import Phase


def conditions_after(case: Case, row: Row, changes: Changes) -> list[StatusCondition]:
    """As they are once this row is taken. Fenced is about the proof of this attempt, not about the power by now."""
    proof = changes.get("proof", case.status.proof)
    holds = {
        "Closed": row.target is Phase.CLOSED,
        "Fenced": proof is not None,
        "NeedsPerson": row.target is Phase.NEEDS_PERSON,
    }
    reason, message = str(row.target), changes["message"]
    wanted = [
        StatusCondition(type=kind, status=str(is_so), reason=reason, message=message) for kind, is_so in holds.items()
    ]
    generation = case.incident.metadata.generation
    return merged(case.status.conditions or [], wanted, generation, case.cluster.now)

"""What is told as Events about an incident: that it is proved, over, or in need of a person, and which pods are lost. Not every step of it."""

from collections.abc import Mapping
from types import MappingProxyType

from defib.decide.fencing.case import Case
from defib.decide.fencing.lost import words as lost_words
from defib.decide.fencing.table import Row
from defib.model.action import TellEvent
from defib.model.incident import INCIDENT, Phase

_REASONS: Mapping[Phase, str] = MappingProxyType(
    {
        Phase.POWERING_OFF: "PoweringOff",
        Phase.FREEING: "MachineIsDown",
        Phase.POWERING_ON: "PoweringOn",
        Phase.RESTING: "AttemptFailed",
        Phase.CANCELLING: "Cancelled",
        Phase.REPLACING: "ReplacingMachine",
        Phase.NEEDS_PERSON: "NeedsPerson",
        Phase.CLOSED: "IncidentClosed",
    }
)
BARE_PODS_LOST = "BarePodsLost"
_WARNINGS = frozenset({Phase.RESTING, Phase.REPLACING, Phase.NEEDS_PERSON})


def news_of(case: Case, row: Row, message: str) -> tuple[TellEvent, ...]:
    reason = _REASONS.get(row.target)
    if reason is None:
        return ()
    proof = row.also(case).get("proof") if row.target is Phase.FREEING else None
    words = f"{proof.how} (grade {proof.grade})" if proof is not None else message
    event = _event(case, reason, words, is_warning=row.target in _WARNINGS)
    return (event, *news_of_lost(case)) if row.target is Phase.FREEING else (event,)


def news_of_lost(case: Case) -> tuple[TellEvent, ...]:
    lost = lost_words(case)
    return (_event(case, BARE_PODS_LOST, lost, is_warning=True),) if lost else ()


def _event(case: Case, reason: str, words: str, *, is_warning: bool) -> TellEvent:
    return TellEvent(
        check=case.incident.name,
        uid=case.incident.uid,
        kind=INCIDENT,
        is_warning=is_warning,
        reason=reason,
        message=f"{case.order.name}: {words}",
        at=case.cluster.now,
    )

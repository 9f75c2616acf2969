"""What is told as Events about an incident: that it is proved, over, or in need of a person, and which pods are lost. Not every step of it."""

from collections.abc import Mapping
from types import MappingProxyType

from defib.decide.accounts.news import on_node
from defib.decide.fencing.case import Case
from defib.decide.fencing.lost import words as lost_words
from defib.decide.fencing.table import Row
from defib.model.action import TellEvent
from defib.model.incident import INCIDENT, Phase
from defib.model.reasons import EventReason

_REASONS: Mapping[Phase, EventReason] = MappingProxyType(
    {
        Phase.POWERING_OFF: EventReason.POWERING_OFF,
        Phase.FREEING: EventReason.MACHINE_IS_DOWN,
        Phase.POWERING_ON: EventReason.POWERING_ON,
        Phase.RESTING: EventReason.ATTEMPT_FAILED,
        Phase.CANCELLING: EventReason.CANCELLED,
        Phase.REPLACING: EventReason.REPLACING_MACHINE,
        Phase.NEEDS_PERSON: EventReason.NEEDS_PERSON,
        Phase.CLOSED: EventReason.INCIDENT_CLOSED,
    }
)
_ON_THE_NODE = frozenset(
    {Phase.NEEDS_PERSON, Phase.CLOSED}
)  # for whoever describes the node, and knows nothing of incidents
_WARNINGS = frozenset({Phase.RESTING, Phase.REPLACING, Phase.NEEDS_PERSON})


def news_of(case: Case, row: Row, message: str) -> tuple[TellEvent, ...]:
    reason = _REASONS.get(row.target)
    if reason is None:
        return ()
    proof = row.also(case).get("proof") if row.target is Phase.FREEING else None
    words = f"{proof.how} (grade {proof.grade})" if proof is not None else message
    event = _event(case, reason, words, is_warning=row.target in _WARNINGS)
    if row.target is Phase.FREEING:
        return (event, *news_of_lost(case))
    if row.target not in _ON_THE_NODE:
        return (event,)
    return (event, *on_node(case.node, reason, f"{case.order.cause}: {words}", case.cluster.now))


def news_of_lost(case: Case) -> tuple[TellEvent, ...]:
    lost = lost_words(case)
    return (_event(case, EventReason.BARE_PODS_LOST, lost, is_warning=True),) if lost else ()


def _event(case: Case, reason: EventReason, words: str, *, is_warning: bool) -> TellEvent:
    return TellEvent(
        check=case.incident.name,
        uid=case.incident.uid,
        kind=INCIDENT,
        is_warning=is_warning,
        reason=reason,
        message=f"{case.order.name}: {words}",
        at=case.cluster.now,
        node=case.order.node,
    )

"""What is told as Events on a Node about its incidents: that one is open, over, or in need of a person."""

from datetime import datetime

from defib.model.event import NODE, TellEvent
from defib.model.node import Node
from defib.model.reasons import EventReason

_WARNINGS = frozenset({EventReason.NEEDS_PERSON})


def on_node(node: Node | None, reason: EventReason, message: str, now: datetime) -> tuple[TellEvent, ...]:
    """Nothing, where there is no node to tell it on."""
    if node is None:
        return ()
    event = TellEvent(
        check=node.name,
        uid=node.uid,
        kind=NODE,
        node=node.name,
        is_warning=reason in _WARNINGS,
        reason=reason,
        message=message,
        at=now,
    )
    return (event,)

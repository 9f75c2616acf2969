"""Somebody wants a machine to be power-cycled: who, which machine, how, and whether it is still wanted."""

from collections.abc import Callable
from datetime import datetime

import msgspec

from defib.model.action import Action, Target
from defib.model.health_check import KindRef
from defib.model.incident import Cause, NodeIncident
from defib.model.power import PowerPath
from defib.model.power_cycle import Policy


class Obstacle(msgspec.Struct, frozen=True):
    """Why something cannot begin, or go on: a word that stays the same, and a sentence for a person."""

    reason: str
    message: str


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """From whichever trigger. All of them are served by the same table."""

    cause: Target
    node: str  # empty for a machine that never became a node
    name: str  # of its incident: the node's, or else one of its machine
    path: PowerPath | Obstacle
    policy: Policy = Policy()
    withdrawn: str = ""  # why it is not wanted any more; empty while it is
    is_over: bool = False  # it has had its power cycle and asks for no other
    repeats: bool = False  # the same object may ask again, once it has had its power cycle
    marker: str = ""  # the annotation by which its cause asks: without it, nothing is switched off
    tells_by_incident: bool = False  # its own object has no place to say why it cannot begin
    is_held: bool = True  # it cannot vanish while we work for it
    obstacle: Obstacle | None = None  # why it cannot begin, besides what holds for all
    silent_since: datetime | None = None  # the last heartbeat of a node that failed: until the next, it is not ready
    unless_ready: bool = False  # made for a node that had failed: once that is ready again, it is not switched off
    lock_holder: str = ""  # who holds the node's lock for this; we, if nobody does
    finish: tuple[Action, ...] = ()  # what is left to do when the node is back, last of all
    machine: Target | None = None  # what can be handed over, to whoever replaces it
    knows_machine: bool = True  # whether it would be in sight, if there were one
    host: Target | None = None


Report = Callable[[NodeIncident | None, Obstacle], tuple[Action, ...]]
"""Tells whoever gave an order how it stands: what to write, given its incident, if there is one yet."""


def cause_of(target: Target) -> Cause:
    return Cause(
        api_version=target.kind.api_version,
        kind=target.kind.name,
        namespace=target.namespace,
        name=target.name,
        uid=target.uid,
    )


def target_of(cause: Cause) -> Target:
    return Target(
        kind=KindRef(cause.api_version, cause.kind), namespace=cause.namespace, name=cause.name, uid=cause.uid
    )

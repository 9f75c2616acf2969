"""What can hold back a whole check. Each gate has a name that stays the same, and says its sentence open or closed.

The first group holds back every new remediation. The second holds back only nodes that are not being remediated yet:
a node that was admitted goes on to its next step.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

import msgspec

from defib.decide.doubt import brake_reason, doubts, overdue_heartbeats
from defib.decide.rules import INSTANT, LOOK_AGAIN
from defib.decide.storm import Storm
from defib.decide.templates import Disabled
from defib.decide.upgrade import Signal, holding
from defib.decide.view import View
from defib.model.duration import say
from defib.model.health_check import Mode
from defib.model.verdict import Gate


class Upgrade(msgspec.Struct, frozen=True, kw_only=True):
    """An upgrade of everything, since when, and whether it has taken too long to be believed."""

    signal: Signal | None = None
    is_stuck: bool = False
    changes_at: datetime | None = None  # when it is over, or counts as stuck, by time alone


class CheckGates(msgspec.Struct, frozen=True, kw_only=True):
    always: tuple[Gate, ...]
    admission: tuple[Gate, ...]

    @property
    def all(self) -> tuple[Gate, ...]:
        return (*self.always, *self.admission)


def first_closed(gates: tuple[Gate, ...]) -> Gate | None:
    return next((gate for gate in gates if not gate.is_open), None)


def check_gates(view: View, disabled: Disabled | None, storm: Storm, upgrade: Upgrade) -> CheckGates:
    return CheckGates(
        always=(disabled_gate(disabled), *(gate(view) for gate in _ALWAYS)),
        admission=(_threshold(view), _storm(view, storm), _upgrade(view, upgrade)),
    )


def disabled_gate(disabled: Disabled | None) -> Gate:
    if disabled is None:
        return Gate(name="Disabled", is_open=True, message="the check and its templates make sense")
    return Gate(name="Disabled", is_open=False, value=disabled.reason, message=disabled.message)


def _deletion(view: View) -> Gate:
    leaves = view.check.is_being_deleted
    return Gate(
        name="BeingDeleted",
        is_open=not leaves,
        message="the check is being deleted" if leaves else "the check is there to stay",
    )


def _brake(view: View) -> Gate:
    why = brake_reason(view.ground.cluster, view.ground.rules)
    return Gate(name="Brake", is_open=not why, message=f"the brake is on: {why}" if why else "the brake is off")


def _paused(view: View) -> Gate:
    requests = view.check.pause_requests
    return Gate(
        name="Paused",
        is_open=not requests,
        value=str(len(requests)),
        limit="0",
        message=f"paused: {'; '.join(requests)}" if requests else "nobody asks for a pause",
    )


def _mode(view: View) -> Gate:
    observes = view.check.mode is Mode.OBSERVE
    return Gate(
        name="ModeObserve" if observes else "Mode",
        is_open=not observes,
        value=view.check.mode.value,
        message="the mode is Observe: it is only recorded what would be done"
        if observes
        else f"the mode is {view.check.mode.value}",
    )


def _sight(view: View) -> Gate:
    """Nobody needs the answer while no node is ill, and it is the most expensive one."""
    is_asked = view.unhealthy or not view.owned.keys() <= view.census.selected
    why = doubts(view.check, view.ground) if is_asked else ""
    if not why:
        return Gate(name="SelfDoubt", is_open=True, message="we see the cluster as it is")
    silent, known = overdue_heartbeats(view.ground.cluster)
    return Gate(
        name="SelfDoubt",
        is_open=False,
        value=f"{silent} of {known} heartbeats overdue" if silent else "",
        message=f"we do not trust our own sight: {why}",
        opens_at=view.now + LOOK_AGAIN,  # perhaps: heartbeats tell nobody that they are back
    )


_ALWAYS: tuple[Callable[[View], Gate], ...] = (_deletion, _brake, _paused, _mode, _sight)


def _threshold(view: View) -> Gate:
    fewest = view.fewest_healthy
    too_few = is_below_threshold(view)
    hint = ""
    if too_few and fewest >= view.total:
        hint = "; as the limit stands, not even one node may fail (spec.guards.alwaysAllowOne would allow one)"
    return Gate(
        name="Threshold",
        is_open=not too_few,
        value=f"{view.healthy_count} healthy",
        limit=f"at least {fewest} of {view.total}",
        message=f"{view.healthy_count} of {view.total} nodes are healthy, at least {fewest} must be{hint}",
    )


def is_below_threshold(view: View) -> bool:
    return bool(view.unhealthy) and view.healthy_count < view.fewest_healthy


def _storm(view: View, storm: Storm) -> Gate:
    if view.check.storm_cooldown is None or not storm.is_active:
        return Gate(name="Storm", is_open=True, message="there is no storm")
    if storm.calms_until is None:
        return Gate(name="Storm", is_open=False, message="too many nodes have failed at once: a storm")
    until = f"{storm.calms_until:%H:%M:%S}"
    return Gate(
        name="Storm",
        is_open=False,
        limit=until,
        message=f"a storm has passed; it must stay calm until {until} UTC",
        opens_at=storm.calms_until,
    )


def _upgrade(view: View, upgrade: Upgrade) -> Gate:
    if upgrade.signal is None:
        return Gate(name="Upgrade", is_open=True, message="no upgrade is under way")
    limit = say(view.ground.rules.upgrade_limit)
    if upgrade.is_stuck:
        message = (
            f"an upgrade has taken longer than {limit} and no longer holds anything back: {upgrade.signal.message}"
        )
        return Gate(name="Upgrade", is_open=True, limit=limit, message=message)
    return Gate(
        name="Upgrade",
        is_open=False,
        value=upgrade.signal.name,
        limit=limit,
        message=f"an upgrade is under way: {upgrade.signal.message}",
        opens_at=upgrade.changes_at,
    )


def upgrade_of(view: View) -> Upgrade:
    """The upgrade that concerns every node of this check; else one that is stuck on a node of it; else none."""
    signal = next(_everywhere(view), None)
    if signal is None:
        return next(_stuck_on_a_node(view), Upgrade())
    known = view.status.condition("Upgrading")
    began = known.last_transition_time if known is not None and known.status == "True" else None
    since = min(moment for moment in (began, signal.since, view.now) if moment is not None)
    limit = view.ground.rules.upgrade_limit
    is_stuck = view.now - since > limit
    moments = (signal.until, None if is_stuck else since + limit + INSTANT)
    return Upgrade(
        signal=signal,
        is_stuck=is_stuck,
        changes_at=min((moment for moment in moments if moment is not None), default=None),
    )


def _stuck_on_a_node(view: View) -> Iterator[Upgrade]:
    for name, trouble in view.unhealthy.items() if view.ground.signals else ():
        signal = holding(view.ground.signals, view.check.name, name)
        if signal is not None and view.now - trouble.unhealthy_at > view.ground.rules.upgrade_limit:
            yield Upgrade(signal=signal, is_stuck=True, changes_at=signal.until)


def _everywhere(view: View) -> Iterator[Signal]:
    for signal in view.ground.signals:
        if signal.nodes is None and (signal.checks is None or view.check.name in signal.checks):
            yield signal

"""What is to be done while an incident is in a phase, again and again until its next row fits.

Each deed may be done twice: whoever comes after a crash does it once more, and nothing changes by it.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType

import msgspec

from defib.decide.fencing.agents import expose, is_by_agent, lacks_order
from defib.decide.fencing.case import Case
from defib.decide.fencing.lost import is_untold
from defib.decide.fencing.proofs import is_still_off
from defib.model.action import (
    Action,
    DeleteAttachment,
    DeleteMachine,
    DeleteNode,
    FreePod,
    ReadPower,
    RestoreNode,
    SwitchPower,
    TaintNode,
    Target,
    UntaintNode,
)
from defib.model.incident import INCIDENT, NodeIncident, Phase
from defib.model.power import PowerState
from defib.model.saved import Saved

SENT_AGAIN = timedelta(seconds=10)  # a machine that says yes and does nothing is told once more
SENT_SELDOM = timedelta(minutes=5)  # and while a person is awaited, now and then
UNHEALTHY_HOST = ("capm3.metal3.io/unhealthy", "capm3/UnhealthyNode")  # by which Metal3 does not use a host again

# How often the power is read, by how long it has been waited for.
_PACES = (
    (timedelta(seconds=15), timedelta(seconds=0.5)),
    (timedelta(minutes=1), timedelta(seconds=2)),
    (timedelta(minutes=10), timedelta(seconds=10)),
)
_SELDOM = timedelta(minutes=1)
_OF_HOST = timedelta(seconds=10)  # it is looked at for longer than the baremetal operator may take to look itself


def work(case: Case) -> tuple[Action, ...]:
    """What shows that a death was no death comes first: nothing may be done by it any more."""
    return expose(case) or _WORK[case.status.phase](case)


def target(incident: NodeIncident) -> Target:
    return Target(kind=INCIDENT, namespace="", name=incident.name, uid=incident.uid)


def pace(case: Case) -> timedelta:
    if case.status.phase is Phase.FREEING and case.is_metal3:
        return _OF_HOST
    age = case.cluster.now - case.since
    return next((pause for limit, pause in _PACES if age < limit), _SELDOM)


def next_reading(case: Case) -> datetime:
    """When the power is to be read again."""
    looks = case.looks
    return looks[-1].reading.at + pace(case) if looks else case.cluster.now


def next_command(case: Case, power: PowerState) -> datetime:
    sent = case.was_sent(power)
    if sent is None or (is_by_agent(case) and power is PowerState.OFF and lacks_order(case, sent)):
        return case.cluster.now
    # Where nothing can be read, nobody knows that it had no effect; and what waits for its effect would wait anew.
    seldom = case.status.phase is Phase.NEEDS_PERSON or not case.can_read
    if seldom and power is PowerState.ON and sent < case.on_counts_from:
        return case.on_counts_from  # an off may have come after it
    return sent + (SENT_SELDOM if seldom else SENT_AGAIN)


def _nothing(_: Case) -> tuple[Action, ...]:
    return ()


def _looking(case: Case) -> tuple[Action, ...]:
    if case.path is None or next_reading(case) > case.cluster.now:
        return ()
    after = case.seen.looks[-1].reading.at if case.seen.looks else None
    return (ReadPower(incident_uid=case.incident.uid, node=case.order.name, path=case.path, after=after),)


def _switching(case: Case, power: PowerState) -> tuple[Action, ...]:
    """Told, then read until it is so; told again when nothing has come of it."""
    if case.path is None:
        return ()
    told = case.was_sent(power)
    read = _looking(case) if told is not None and case.can_read else ()
    if next_command(case, power) > case.cluster.now or (told is not None and case.reads is power):
        return read
    command = SwitchPower(
        incident=target(case.incident),
        version=case.incident.metadata.resource_version,
        node=case.order.name,
        node_uid=case.status.node_uid,
        path=case.path,
        power=power,
        attempt=case.status.attempt,
        cause=case.order.cause,
        unless_ready=case.order.unless_ready,
        silent_since=case.order.silent_since,
        marker=case.order.marker,
        after=told,
    )
    return (command, *read)


def _powering_off(case: Case) -> tuple[Action, ...]:
    return _switching(case, PowerState.OFF) if case.hold() is None else ()


def _powering_on(case: Case) -> tuple[Action, ...]:
    return _switching(case, PowerState.ON)


def _freeing(case: Case) -> tuple[Action, ...]:
    if not case.order.node or case.status.proof is None or case.hold() is not None:
        return ()
    if not is_still_off(case):
        return () if is_by_agent(case) else _looking(case)
    incident = target(case.incident)
    if not case.is_told and case.node is not None:
        node, uid, saved = case.node.name, case.node.uid, case.status.saved
        if case.deletes_node:
            return (DeleteNode(incident=incident, node=node, node_uid=uid, saved=saved),) if saved is not None else ()
        return (TaintNode(incident=incident, node=node, node_uid=uid),) if case.status.tainted else ()
    if case.pods == ():
        return _detaching(case)
    kept = is_untold(case)  # nothing would be left to tell of
    return tuple(
        FreePod(incident=incident, node=case.order.node, namespace=pod.namespace, name=pod.name, uid=pod.uid)
        for pod in case.pods or ()
        if not (kept and pod.is_bare)
    )


def _detaching(case: Case) -> tuple[Action, ...]:
    """What Kubernetes has not detached by itself."""
    if case.cluster.now < case.detaches_at:
        return ()
    return tuple(
        DeleteAttachment(incident=target(case.incident), node=case.order.node, name=one.name, uid=one.uid)
        for one in case.attachments or ()
        if one.metadata.deletion_timestamp is None
    )


def _restoring(case: Case) -> tuple[Action, ...]:
    """What was there comes back before the taint goes: nothing may be put there in between that does not belong."""
    node, saved = case.node, case.status.saved
    if node is None:
        return ()
    if case.is_clean:
        return case.order.finish
    if saved is not None and not case.is_restored:
        kept = saved if case.policy.restores_taints else _without_taints(saved)
        return (RestoreNode(node=node.name, node_uid=node.uid, saved=kept),)
    return (UntaintNode(node=node.name, node_uid=node.uid),) if case.has_our_taint else ()


def _without_taints(saved: Saved) -> Saved:
    return msgspec.structs.replace(saved, taints=None)


def _cancelling(case: Case) -> tuple[Action, ...]:
    return _powering_on(case) if case.was_commanded and not case.is_on else ()


def _needing_person(case: Case) -> tuple[Action, ...]:
    """What we may have left off is told to go on, now and then; unless a person is the one who switches it."""
    return () if case.is_by_hand or case.awaits_silence else _cancelling(case)


def _replacing(case: Case) -> tuple[Action, ...]:
    machine = case.order.machine
    if machine is None or case.hold() is not None:
        return ()
    return (
        DeleteMachine(
            incident=target(case.incident),
            node=case.order.name,
            machine=machine,
            host=case.order.host,
            mark=UNHEALTHY_HOST,
        ),
    )


_WORK: Mapping[Phase, Callable[[Case], tuple[Action, ...]]] = MappingProxyType(
    {
        Phase.OPEN: _nothing,
        Phase.LOOKING: _looking,
        Phase.TESTING: _powering_on,
        Phase.POWERING_OFF: _powering_off,
        Phase.FREEING: _freeing,
        Phase.POWERING_ON: _powering_on,
        Phase.RETURNING: _nothing,
        Phase.RESTORING: _restoring,
        Phase.RESTING: _nothing,
        Phase.CANCELLING: _cancelling,
        Phase.REPLACING: _replacing,
        Phase.NEEDS_PERSON: _needing_person,
        Phase.CLOSED: _nothing,
    }
)

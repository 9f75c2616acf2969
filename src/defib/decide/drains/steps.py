"""The actions by which pods of a node are made to leave. Only what stands in the record, and only while we have the lock."""

from collections.abc import Iterator

from defib.decide.drains.ladder import KILL_SECONDS
from defib.decide.drains.record import target_of
from defib.decide.drains.standing import Standing
from defib.decide.drains.survey import PodLook, Record
from defib.decide.drains.waiting import Asking
from defib.model.action import Action
from defib.model.drain_action import DeletePod, EvictPod, Leaving, PodStep, RemoveFinalizers
from defib.model.drain_policy import POLICY, Strategy
from defib.model.node_drain import Phase, Rung

_ORDER = tuple(Strategy)


def reads_for(standing: Standing) -> Iterator[Action]:
    """What must be known before a step can be taken."""
    for one in (*standing.due, *(one for one in standing.look.pods if one.step.rung is None)):
        yield from one.step.to_read


def steps_for(standing: Standing, record: Record, asking: Asking) -> Iterator[PodStep]:
    """`record` is as it is written: what is to be written first is done in a later pass."""
    if record.status.phase is not Phase.FORCING or standing.status.phase is not Phase.FORCING:
        return
    written = {entry.uid: entry.rung for entry in record.status.pods or ()}
    for one in sorted(standing.due, key=_in_turn):
        is_written = not one.step.to_read and one.step.rung is written.get(one.pod.uid)
        if is_written and (one.step.rung is not Rung.EVICT or _is_worth_it(one, asking)):
            yield _step(one, standing, record)


def _is_worth_it(one: PodLook, asking: Asking) -> bool:
    return asking.is_worth_it(one.pod, one.budgets, one.step.refused_since)


def _in_turn(one: PodLook) -> int:
    return _ORDER.index(one.step.strategy) if one.step.strategy is not None else 0


def _step(one: PodLook, standing: Standing, record: Record) -> PodStep:
    look, pod, step = standing.look, one.pod, one.step
    leaving = Leaving(
        drain=target_of(record.item),
        node=look.node.name,
        node_uid=look.node.uid,
        taint=look.intent.taint,
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        because=f"{POLICY.name} {look.known.item.name}: {step.why}",
    )
    match step.rung:
        case Rung.EVICT:
            return EvictPod(pod=leaving)
        case Rung.FINALIZERS:
            return RemoveFinalizers(pod=leaving, version=pod.metadata.resource_version, finalizers=step.finalizers)
        case Rung.KILL:
            return DeletePod(pod=leaving, grace_seconds=KILL_SECONDS)
        case Rung.FORCE:
            return DeletePod(pod=leaving, grace_seconds=0)
    return DeletePod(pod=leaving)

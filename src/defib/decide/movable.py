"""Which pods of a failed node may run elsewhere at once, and why the others stay.

A pod is moved by deleting it, so another one runs while nobody knows whether the first has ended. That is harmless only
for pods of which there may be any number: those of a ReplicaSet or ReplicationController, without data of their own.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

import msgspec

from defib.model.pod import Pod
from defib.model.pod_failover import KEEP

_REPLACED_BY_COPIES = (("apps/v1", "ReplicaSet"), ("v1", "ReplicationController"))


class Sorted(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of one node. Those that are finished, or leave already, are nobody's business any more."""

    movable: tuple[Pod, ...] = ()
    left: int = 0
    why_left: str = ""


def sort_pods(pods: Iterable[Pod], *, failed_at: datetime) -> Sorted:
    movable: list[Pod] = []
    reasons: Counter[str] = Counter()
    for pod in sorted(pods, key=lambda one: one.key):
        if pod.is_leaving or pod.is_finished:
            continue
        if why := why_it_stays(pod, failed_at):
            reasons[why] += 1
        else:
            movable.append(pod)
    told = sorted(reasons.items(), key=lambda one: (-one[1], one[0]))
    return Sorted(
        movable=tuple(movable),
        left=reasons.total(),
        why_left=", ".join(f"{count} {why}" for why, count in told),
    )


def why_it_stays(pod: Pod, failed_at: datetime) -> str:
    """As it is told in a status, after a number; empty when the pod may go."""
    if not _is_one_of_many(pod):
        return _whose(pod)
    if pod.holds_data:
        return "with volumes"
    if KEEP in pod.annotations:
        return f"kept by the annotation {KEEP}"
    created = pod.metadata.creation_timestamp
    if created is None or created >= failed_at:
        # Whatever was put on the node after it had failed does not mind. Its copy would come here as well, and its
        # copy's copy, and none of them would ever end, since nobody is there to confirm it.
        return "placed there since the node failed"
    return ""


def _is_one_of_many(pod: Pod) -> bool:
    owner = pod.controller
    return not pod.is_mirror and owner is not None and (owner.api_version, owner.kind) in _REPLACED_BY_COPIES


def _whose(pod: Pod) -> str:
    if pod.is_mirror:
        return "static"
    return f"of a {pod.controller.kind}" if pod.controller is not None else "without a controller"

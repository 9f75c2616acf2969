"""How it is said what becomes of pods: the same words in every status and event."""

from defib.decide.failover.pods import NAMED_MOST, Sorted
from defib.model.action import MovePod
from defib.model.failover_policy import say_proofs
from defib.model.failure import Failure
from defib.model.pod import Pod
from defib.model.pod_failover import Wish


def count(pods: int) -> str:
    return "1 pod" if pods == 1 else f"{pods} pods"


def named(pods: tuple[Pod, ...]) -> str:
    """`shop/db-0, shop/db-1, shop/db-2 and 4 more`."""
    shown = ", ".join(pod.key for pod in pods[:NAMED_MOST])
    return f"{shown} and {len(pods) - NAMED_MOST} more" if len(pods) > NAMED_MOST else shown


def to_move(pods: Sorted) -> str:
    verb = "waits" if len(pods.waiting) == 1 else "wait"
    waiting = f"; {len(pods.waiting)} more {verb} for a proof that the node is down" if pods.waiting else ""
    return f"{count(len(pods.movable))} to be moved{waiting}{pods.rest}"


def not_deleted(failures: list[tuple[MovePod, Failure]]) -> str:
    move, failure = failures[0]
    return f"{count(len(failures))} could not be deleted, such as {move.namespace}/{move.name}: {failure.why}"


def waiting_for(pods: Sorted, wish: Wish) -> str:
    verb = "waits" if len(pods.waiting) == 1 else "wait"
    return (
        f"{count(len(pods.waiting))} that must not run twice {verb} for a proof of grade {say_proofs(wish.accepts)} "
        f"that the node is down: {named(pods.waiting)}{pods.rest}"
    )


def moved_and_waiting(moved: int, pods: Sorted, wish: Wish) -> str:
    if not pods.waiting:
        return f"{count(moved)} moved{pods.rest}"
    return f"{count(moved)} moved; {waiting_for(pods, wish)}" if moved else waiting_for(pods, wish)

"""Which pods of a failed node leave at once, which wait for a proof that it is down, and which stay, and why.

A pod is moved by deleting it, so another one runs while nobody knows whether the first has ended. That is harmless for
pods of which there may be any number. A pod of a StatefulSet, or with a volume that only one pod may have, must not
run twice: it waits until its node is proved to be down, unless somebody has said in so many words that it need not.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from defib.model.action import ReadClaim
from defib.model.failure import Failure
from defib.model.node import NOT_READY_TAINTS, Taint
from defib.model.pod import Pod
from defib.model.pod_failover import KEEP, Wish

TO_READ = ReadClaim("", "").key.removesuffix("/")  # what the keys of readings begin with
SHARED_MODES = frozenset({"ReadOnlyMany", "ReadWriteMany"})  # of a claim that any number of pods may have

NAMED_MOST = 3
TAINTED_WITHIN = timedelta(seconds=5)

# With one of these Kubernetes keeps pods away from a node that is not ready.
_KEEPING_AWAY = tuple(Taint(key=key, effect="NoSchedule") for key in NOT_READY_TAINTS)
_REPLACED_BY_COPIES = (("apps/v1", "ReplicaSet"), ("v1", "ReplicationController"))
_STATEFUL = "StatefulSet"  # of whichever group: others have made their own

Claims = Mapping[str, frozenset[str]]
"""The access modes of claims, by namespace and name, as far as they were read."""


class ClaimFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of claims. One that cannot be read counts as not shared, and is tried again all the same."""

    claims: Claims = {}
    unreadable: frozenset[str] = frozenset()


NO_FACTS = ClaimFacts()


class Sorted(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of one node, the most important first. Those that are finished are nobody's business any more."""

    movable: tuple[Pod, ...] = ()
    waiting: tuple[Pod, ...] = ()
    unsure: tuple[Pod, ...] = ()  # what must be read first says whether they wait
    bare: tuple[Pod, ...] = ()  # nobody would make another one
    left: int = 0  # with the bare ones
    why_left: str = ""
    unread: tuple[ReadClaim, ...] = ()
    claims: frozenset[str] = frozenset()  # of which the modes matter

    @property
    def rest(self) -> str:
        """What is said of those that stay, at the end of a sentence."""
        if not self.left:
            return ""
        bare = ", ".join(pod.key for pod in self.bare[:NAMED_MOST])
        return f"; {self.left} left in place: {self.why_left}{f'; {bare} would be lost' if bare else ''}"


def unreadable_claims(failures: Mapping[str, Failure]) -> frozenset[str]:
    return frozenset(key.removeprefix(TO_READ) for key in failures if key.startswith(TO_READ))


def sort_pods(pods: Iterable[Pod], wish: Wish, *, failed_at: datetime, facts: ClaimFacts = NO_FACTS) -> Sorted:
    """Only those that the wish selects."""
    movable: list[Pod] = []
    waiting: list[Pod] = []
    unsure: list[Pod] = []
    leaving: list[Pod] = []
    bare: list[Pod] = []
    reasons: Counter[str] = Counter()
    unread: dict[str, ReadClaim] = {}
    for pod in sorted(pods, key=lambda one: (-one.spec.priority, one.key)):
        if _is_over(pod) or not wish.selector.selects(pod.labels):
            continue
        if why := why_it_stays(pod, wish, failed_at):
            reasons[why] += 1
            bare += [pod] if pod.controller is None and not pod.is_mirror else []
        elif to_read := claims_to_read(pod, wish, facts.claims):
            (waiting if to_read.keys() & facts.unreadable else unsure).append(pod)
            unread |= to_read
        elif needs_proof(pod, wish, facts.claims):
            waiting.append(pod)
        elif not pod.is_leaving or (wish.is_forced and not pod.is_forced):
            movable.append(pod)
        else:
            leaving.append(pod)  # nothing is to be done, for as long as what is known of its claims is known
    concerned = [*movable, *waiting, *unsure, *leaving]
    told = sorted(reasons.items(), key=lambda one: (-one[1], one[0]))
    return Sorted(
        movable=tuple(movable),
        waiting=tuple(waiting),
        unsure=tuple(unsure),
        bare=tuple(bare),
        left=reasons.total(),
        why_left=", ".join(f"{count} {why}" for why, count in told),
        unread=tuple(unread.values()),
        claims=frozenset(f"{pod.namespace}/{claim}" for pod in concerned for claim in pod.claims),
    )


def _is_over(pod: Pod) -> bool:
    return pod.is_finished and not pod.is_leaving


def why_it_stays(pod: Pod, wish: Wish, failed_at: datetime) -> str:
    """As it is told in a status, after a number; empty when the pod may go, or will."""
    excluded = wish.exclude.reason(pod)
    reasons = (
        (pod.is_mirror, "static"),
        (pod.controller is None, "without a controller that would make another one"),
        (pod.is_of_daemon_set, "of a DaemonSet"),
        (bool(excluded), f"excluded (exclude.{excluded})"),
        (KEEP in pod.annotations, f"kept by the annotation {KEEP}"),
        (_does_not_mind(pod, failed_at), "placed there since the node failed"),
    )
    return next((why for is_so, why in reasons if is_so), "")


def _does_not_mind(pod: Pod, failed_at: datetime) -> bool:
    """Whatever was put on a node that had failed would be put there again, and none of the copies would ever end.

    But for a moment, until Kubernetes has tainted the node, it may happen to every pod, and to the copies that we cause.
    """
    created = pod.metadata.creation_timestamp
    if created is None or created >= failed_at + TAINTED_WITHIN:
        return True
    return created >= failed_at and any(pod.tolerates(taint) for taint in _KEEPING_AWAY)


def needs_proof(pod: Pod, wish: Wish, claims: Claims) -> bool:
    """Whether it must not run twice, as far as anybody can tell, and nobody has said that it may."""
    if not wish.accepts:
        return False
    if _owner(pod)[1] == _STATEFUL or pod.holds_data_itself:
        return True
    if not wish.is_chosen and _owner(pod) not in _REPLACED_BY_COPIES:
        return True
    return any(not is_shared(claims.get(f"{pod.namespace}/{claim}")) for claim in pod.claims)


def is_shared(modes: frozenset[str] | None) -> bool:
    return modes is not None and frozenset() < modes <= SHARED_MODES


def claims_to_read(pod: Pod, wish: Wish, claims: Claims) -> dict[str, ReadClaim]:
    """Claims of which nothing is known yet, where it depends on them alone."""
    keys = [f"{pod.namespace}/{claim}" for claim in pod.claims]
    if not wish.accepts or needs_proof(pod, wish, {key: claims.get(key, SHARED_MODES) for key in keys}):
        return {}
    return {key: ReadClaim(*key.split("/", 1)) for key in keys if key not in claims}


def _owner(pod: Pod) -> tuple[str, str]:
    owner = pod.controller
    return (owner.api_version, owner.kind) if owner is not None else ("", "")

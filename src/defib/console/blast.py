"""How much of what runs in a cluster is on some of its nodes: pods, and the workloads that would have fewer of them."""

from collections import Counter
from collections.abc import Iterable

from defib.console.thorough import PodsByNode
from defib.decide.answers.told import Told
from defib.model.pod import Pod

SHOWN = 50  # workloads that are named; of the others it is told how many there are


class WorkloadHit(Told, frozen=True, kw_only=True):
    kind: str
    namespace: str
    name: str
    lost: int
    of: int

    @property
    def is_gone(self) -> bool:
        return self.lost == self.of


class Blast(Told, frozen=True, kw_only=True):
    """`workloads` has those first that lose every pod, then StatefulSets; pods of DaemonSets belong to their nodes."""

    pods: int
    of: int
    bare: int  # nobody would make them again
    of_daemon_sets: int
    with_claims: int
    stateful_sets: int
    workloads: tuple[WorkloadHit, ...]
    more_workloads: int = 0


def blast_of(nodes: Iterable[str], pods: PodsByNode) -> Blast:
    hit = [pod for node in nodes for pod in pods.get(node, ()) if _runs(pod)]
    every = [pod for found in pods.values() for pod in found if _runs(pod)]
    lost = Counter(owner for pod in hit if (owner := _owner(pod)) is not None)
    total = Counter(owner for pod in every if (owner := _owner(pod)) is not None)
    workloads = [
        WorkloadHit(kind=kind, namespace=namespace, name=name, lost=count, of=total[kind, namespace, name])
        for (kind, namespace, name), count in lost.items()
    ]
    workloads.sort(key=lambda one: (not one.is_gone, one.kind != "StatefulSet", -one.lost, one.namespace, one.name))
    return Blast(
        pods=len(hit),
        of=len(every),
        bare=sum(pod.is_bare for pod in hit),
        of_daemon_sets=sum(pod.is_of_daemon_set for pod in hit),
        with_claims=sum(bool(pod.claims) for pod in hit),
        stateful_sets=sum(one.kind == "StatefulSet" for one in workloads),
        workloads=tuple(workloads[:SHOWN]),
        more_workloads=max(len(workloads) - SHOWN, 0),
    )


def _runs(pod: Pod) -> bool:
    return not pod.is_finished


def _owner(pod: Pod) -> tuple[str, str, str] | None:
    """None of a pod that belongs to its node, or to nobody."""
    owner = pod.controller
    if owner is None or pod.is_of_daemon_set or pod.is_mirror:
        return None
    return (owner.kind, pod.namespace, owner.name)

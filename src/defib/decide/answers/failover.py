"""What pod failover does about the pods of one node, as its objects say: policies of teams, and remediations of the node."""

from collections.abc import Iterator

import msgspec

from defib.decide.answers.told import FailoverTold
from defib.decide.failover.remediation import PROOF_NEEDED, WAITING
from defib.model import medik8s
from defib.model.cluster import Cluster, Missing
from defib.model.failover_policy import POLICY, State, read_policy_status
from defib.model.health_check import KindRef
from defib.model.meta import Unstructured
from defib.model.pod_failover import REMEDIATION, read_failover_status
from defib.model.remediation import read_remediation

KINDS = (POLICY, REMEDIATION)
WHO_ASKS = (
    "a PowerCycleRemediation opens one, with the driver manual where only a person can switch the machine, and so does "
    "a PodFailoverRemediation with D in its acceptedProofs, while pods wait for it (docs/pod-failover.md)"
)
NOBODY_PROVES = f"no open NodeIncident is in sight, so nobody is about to prove that the node is down; {WHO_ASKS}"

_WAITS = frozenset({State.WAITING.value, PROOF_NEEDED, WAITING})


def failover_of(node: str, cluster: Cluster) -> tuple[FailoverTold, ...]:
    """As the operator last wrote it. Policies first, each kind by namespace and name."""
    incident = cluster.incidents().get(node)
    advice = "" if incident is not None and incident.is_open else NOBODY_PROVES
    told = (*_of_policies(node, cluster), *_of_remediations(node, cluster))
    return tuple(msgspec.structs.replace(one, advice=advice) if one.state in _WAITS else one for one in told)


def missing_kinds(cluster: Cluster) -> tuple[str, ...]:
    """Where the cluster lacks a kind, nobody can have asked for anything by it."""
    return tuple(
        f"the cluster has no kind {kind.name}: its CRD is not installed (kubectl apply -f deploy/crds)"
        for kind in KINDS
        if isinstance(cluster.kinds.get(kind), Missing)
    )


def _of_policies(node: str, cluster: Cluster) -> Iterator[FailoverTold]:
    for item in _sorted(POLICY, cluster):
        for entry in read_policy_status(item).nodes or ():
            if entry.name == node:
                told = _told(POLICY, item, entry.state.value, entry.message)
                yield msgspec.structs.replace(told, reason=entry.reason)


def _of_remediations(node: str, cluster: Cluster) -> Iterator[FailoverTold]:
    for item in _sorted(REMEDIATION, cluster):
        if read_remediation(item, REMEDIATION).node != node:
            continue
        said = read_failover_status(item).condition(medik8s.SUCCEEDED)
        if said is None:
            yield _told(REMEDIATION, item, "New", "no operator has said anything about it yet")
        else:
            yield _told(REMEDIATION, item, said.reason, said.message)


def _sorted(kind: KindRef, cluster: Cluster) -> list[Unstructured]:
    return sorted(cluster.every(kind), key=lambda item: item.key)


def _told(kind: KindRef, item: Unstructured, state: str, message: str) -> FailoverTold:
    return FailoverTold(
        kind=kind.name, namespace=item.namespace, name=item.name, state=state, reason="", message=message
    )

"""What is being done about machines already, by whomever: it counts against the budget, and nothing is added to it."""

from collections.abc import Mapping

import msgspec

from defib.decide.machine_health.verdicts import Verdict
from defib.model import pod_failover
from defib.model.cluster import Cluster
from defib.model.health_check import KindRef
from defib.model.metal3 import TRIGGER
from defib.model.remediation import read_remediation


class Care(msgspec.Struct, frozen=True):
    """Remediations and open incidents, each as a person would call it."""

    by_machine: Mapping[str, str]  # by the UID of the machine
    by_name: Mapping[str, str]  # by namespace/name of the machine after which they are named
    by_node: Mapping[str, str]


def remediations(cluster: Cluster) -> frozenset[KindRef]:
    """Kinds that mend a machine. Pods that leave a failed node do not: it is as broken as before."""
    return frozenset(
        kind for kind in cluster.kinds if kind.name.endswith("Remediation") and kind != pod_failover.REMEDIATION
    )


def care_in(cluster: Cluster) -> Care:
    by_machine: dict[str, str] = {}
    by_name: dict[str, str] = {}
    by_node: dict[str, str] = {}
    for kind in sorted(remediations(cluster), key=str):
        for item in cluster.every(kind):
            found = read_remediation(item, kind)
            by_name[found.key] = by_node[found.node] = str(found)
            for owner in item.metadata.owner_references or ():
                if owner.kind == "Machine":
                    by_machine[owner.uid] = str(found)
    for incident in cluster.incidents().values():
        if incident.is_open:
            by_machine[incident.spec.cause.uid] = f"incident {incident.name}"
            by_node[incident.spec.node] = f"incident {incident.name}"
    return Care(by_machine, by_name, by_node)


def care_for(verdict: Verdict, care: Care) -> str:
    """What is being done about it; empty when nothing is."""
    machine = verdict.machine.item
    if verdict.is_leaving:
        return "it is being deleted"
    if TRIGGER in machine.annotations:
        return f"a power cycle was asked for ({TRIGGER})"
    by = care.by_machine.get(machine.uid) or care.by_name.get(machine.key)
    return by or (care.by_node.get(verdict.node_name, "") if verdict.node_name else "")

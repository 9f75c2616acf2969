"""Which kinds must be in sight for deciding, beside those that always are. Each with the namespace that is enough."""

from collections.abc import Mapping

from defib.decide.machine_checks import MACHINE_HEALTH_CHECK
from defib.decide.plan import Plan
from defib.decide.quorum import CLUSTER_VERSION, ETCD_NAMESPACE, PODS
from defib.decide.rules import Rules
from defib.decide.topology import INFRASTRUCTURE
from defib.decide.upgrade import WATCHES
from defib.model.budget import BUDGET
from defib.model.cluster import Cluster, Served, Wanted
from defib.model.health_check import Check, KindRef
from defib.model.node_drain import DRAIN


def widest(*wishes: Mapping[KindRef, Wanted]) -> dict[KindRef, Wanted]:
    """All together. Where two want a kind, it is seen as widely and as soon as either wants it."""
    found: dict[KindRef, Wanted] = {}
    for kind, wanted in (pair for wish in wishes for pair in wish.items()):
        there = found.get(kind, wanted)
        namespace = there.namespace if there.namespace == wanted.namespace else ""
        found[kind] = Wanted(namespace, can_wait=there.can_wait and wanted.can_wait)
    return found


def wanted_kinds(plan: Plan, cluster: Cluster, rules: Rules) -> dict[KindRef, Wanted]:
    """Templates and remediations of the checks, what tells of upgrades and drains, and what guards OpenShift's etcd."""
    if not plan.checks:
        return {}
    watches = [watch for name in rules.upgrade_signals for watch in WATCHES[name]]
    wanted = {kind: Wanted(watch.namespace, can_wait=True) for watch in watches for kind in watch.kinds}
    wanted |= dict.fromkeys((CLUSTER_VERSION, MACHINE_HEALTH_CHECK, DRAIN), Wanted(can_wait=True))
    if isinstance(cluster.kinds.get(CLUSTER_VERSION), Served):
        wanted |= dict.fromkeys((BUDGET, PODS), Wanted(ETCD_NAMESPACE)) | {INFRASTRUCTURE: Wanted()}
    for one in plan.checks.values() if rules.runs_checks else ():
        steps = one.known.check.steps if isinstance(one.known.check, Check) else ()
        wanted |= dict.fromkeys((*(step.template.kind for step in steps), *one.known.makes), Wanted())
    return wanted

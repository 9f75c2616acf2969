"""Which kinds must be in sight for deciding, beside those that always are. Each with the namespace that is enough."""

from defib.decide.machine_checks import MACHINE_HEALTH_CHECK
from defib.decide.plan import Plan
from defib.decide.quorum import BUDGETS, CLUSTER_VERSION, ETCD_NAMESPACE, PODS
from defib.decide.rules import Rules
from defib.decide.topology import INFRASTRUCTURE
from defib.decide.upgrade import WATCHES
from defib.model.cluster import Cluster, Served, Wanted
from defib.model.health_check import Check, KindRef


def wanted_kinds(plan: Plan, cluster: Cluster, rules: Rules) -> dict[KindRef, Wanted]:
    """Templates and remediations of the checks, what tells of upgrades, and what guards OpenShift's etcd."""
    if not plan.checks:
        return {}
    watches = [watch for name in rules.upgrade_signals for watch in WATCHES[name]]
    wanted = {kind: Wanted(watch.namespace, can_wait=True) for watch in watches for kind in watch.kinds}
    wanted |= dict.fromkeys((CLUSTER_VERSION, MACHINE_HEALTH_CHECK), Wanted(can_wait=True))
    if isinstance(cluster.kinds.get(CLUSTER_VERSION), Served):
        wanted |= dict.fromkeys((BUDGETS, PODS), Wanted(ETCD_NAMESPACE)) | {INFRASTRUCTURE: Wanted()}
    for one in plan.checks.values():
        steps = one.known.check.steps if isinstance(one.known.check, Check) else ()
        wanted |= dict.fromkeys((*(step.template.kind for step in steps), *one.known.makes), Wanted())
    return wanted

"""Which kinds must be in sight for deciding, beside those that always are. Each with the namespace that is enough."""

from collections.abc import Mapping
from functools import lru_cache

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
    for wish in wishes:
        for kind, wanted in wish.items():
            found[kind] = _wider(found[kind], wanted) if kind in found else wanted
    return found


def _wider(one: Wanted, other: Wanted) -> Wanted:
    namespace = one.namespace if one.namespace == other.namespace else ""
    return Wanted(namespace, can_wait=one.can_wait and other.can_wait)


def wanted_kinds(plan: Plan, cluster: Cluster, rules: Rules) -> dict[KindRef, Wanted]:
    """Templates and remediations of the checks, what tells of upgrades and drains, and what guards OpenShift's etcd."""
    if not plan.checks:
        return {}
    wanted = dict(_by_any_check(rules.upgrade_signals))
    if isinstance(cluster.kinds.get(CLUSTER_VERSION), Served):
        wanted |= dict.fromkeys((BUDGET, PODS), Wanted(ETCD_NAMESPACE)) | {INFRASTRUCTURE: Wanted()}
    for one in plan.checks.values() if rules.runs_checks else ():
        steps = one.known.check.steps if isinstance(one.known.check, Check) else ()
        wanted |= dict.fromkeys((*(step.template.kind for step in steps), *one.known.makes), Wanted())
    return wanted


@lru_cache(maxsize=8)  # settings do not change, and it is asked in every pass
def _by_any_check(signals: tuple[str, ...]) -> Mapping[KindRef, Wanted]:
    watches = [watch for name in signals for watch in WATCHES[name]]
    wanted = {kind: Wanted(watch.namespace, can_wait=True) for watch in watches for kind in watch.kinds}
    return wanted | dict.fromkeys((CLUSTER_VERSION, MACHINE_HEALTH_CHECK, DRAIN), Wanted(can_wait=True))

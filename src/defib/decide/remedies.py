"""The kinds behind each remedy. Of one that is switched off, its kinds count as ones that the cluster does not have.

So whoever asks for it is told, as for any kind that is not there, and nothing is asked of the API server for it: where it is
switched off, our account may have no right to.
"""

from collections.abc import Collection, Mapping

from defib.decide.drains.compatibility import CONFIG_MAP
from defib.decide.fencing.kinds import METAL3_MACHINES
from defib.model import drain_policy, node_drain, pod_failover, power_cycle, self_fencing
from defib.model.cluster import Missing
from defib.model.health_check import KindRef
from defib.model.metal3 import HOST

KINDS: Mapping[str, tuple[KindRef, ...]] = {
    "pod-failover": (pod_failover.REMEDIATION, pod_failover.TEMPLATE),
    "power-cycle": (power_cycle.REMEDIATION, power_cycle.TEMPLATE),
    "self-fence": (self_fencing.REMEDIATION, self_fencing.TEMPLATE),
    "drains": (drain_policy.POLICY, node_drain.DRAIN),
    "metal3": (HOST, *METAL3_MACHINES),
    "nodekeeper": (CONFIG_MAP,),  # those of its namespace; our own are always in sight
}


def switched_off(remedies: Collection[str]) -> dict[KindRef, Missing]:
    """The kinds of all others."""
    return {
        kind: Missing(f"{name} is switched off in this cluster (setting remedies; in the chart, features)", is_off=True)
        for name, kinds in KINDS.items()
        if name not in remedies
        for kind in kinds
    }

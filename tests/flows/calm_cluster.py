"""A small cluster with one check that waits for five minutes, on which nothing has happened yet."""

from defib.hollow.attacher import StorageTimers
from defib.hollow.timers import Timers
from defib.simulate.cluster import SimulatedCluster
from defib.simulate.kinds.crds import DEFINITIONS
from defib.simulate.virtual_time import VirtualClock
from defib.simulate.workloads import WorkloadTimers
from tests.simulation.furniture import definitions, furniture, let_in
from tests.simulation.shape import POWER, Object, Shape


def calm_shape(fast_path: Object | None, *, nodes: int = 5, mode: str = "Automatic") -> Shape:
    return Shape(
        nodes=nodes,
        zones=1,
        control_plane=0,
        databases=1,
        web_pods=2,
        ladder=(POWER,),
        limit={"maxUnhealthy": "40%"},
        max_in_flight=None,
        per_zone=None,
        patience_seconds=300,
        healthy_delay_seconds=0,
        mode=mode,
        workloads="Auto",
        attempts=1,
        replicas=1,
        lease_seconds=15.0,
        resync_seconds=300.0,
        demands={} if fast_path is None else {"fastPath": fast_path},
    )


def calm_cluster(clock: VirtualClock, shape: Shape) -> SimulatedCluster:
    """With its kinds, its check and its workloads, and BMCs that let Defib in. Nothing runs yet."""
    cluster = SimulatedCluster(clock, Timers(), shape.blueprints(), WorkloadTimers(), StorageTimers())
    for definition in definitions():
        cluster.server.put(DEFINITIONS, definition)
    for node in cluster.nodes.values():
        let_in(node.machine.bmc)
    for resource, item in furniture(shape):
        cluster.server.put(resource, item)
    return cluster

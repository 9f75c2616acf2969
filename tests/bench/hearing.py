"""The heartbeats of thousands of nodes, renewed hundreds of times a second: what hearing them costs, on a real API server.

The operator is `defib run` in a process of its own, and so is the writer of heartbeats. The check's template is one by
which a person switches machines, so that no BMC is ever asked: what is measured is hearing.
"""

import asyncio
import os
from typing import Any

from defib.kube.client import Merge
from defib.kube.kinds import NODE_HEALTH_CHECKS, unstructured
from testbed.cluster import ControlPlane
from tests.bench.heard import HASTY, HEARD, NODES, RENEW_SECONDS, SECONDS, UNHEARD, Hearing, verdicts
from tests.bench.processes import BenchFailed, say, write, writing
from tests.bench.replica import operating
from tests.bench.stretches import Stretch, between, meter_of
from tests.bench.ward import NAME, Ward, all_watched, warded

TEMPLATES = unstructured(
    "defib.dev", "v1alpha1", "powercycleremediationtemplates", "PowerCycleRemediationTemplate", namespaced=True
)
TEMPLATE = {
    "metadata": {"name": NAME},
    "spec": {"template": {"spec": {"power": {"driver": "manual"}, "acceptedProofs": ["A"]}}},
}
FAST: dict[str, Any] = {}
SETTLED_WITHIN = 60.0
WARM_UP_SECONDS = 15.0  # longer than every node takes for its first renewal
LIFE_SECONDS = 3600.0  # longer than any run; it is ended with it


async def hear(cluster: ControlPlane, nodes: int, seconds: float) -> Hearing:
    say(f"Installing the kinds, a check with a fast path, and {nodes:,} nodes without heartbeats")
    load_before, _, _ = os.getloadavg()
    pace = nodes / RENEW_SECONDS
    async with warded(cluster) as ward:
        await ward.remediate_by(TEMPLATES, TEMPLATE)
        await write("nodes", cluster.kubeconfig, nodes=nodes)
        await _hurry(ward, FAST)
        stretches = {UNHEARD: await _rest(cluster, ward, nodes, seconds)}
        await write("heartbeats", cluster.kubeconfig, nodes=nodes)
        say(f"All of them have heartbeats now, {pace:.0f} a second")
        async with writing("renewals", cluster.kubeconfig, nodes=nodes, pace=pace, seconds=LIFE_SECONDS) as life:
            stretches[HASTY] = await _rest(cluster, ward, nodes, seconds)
            await _hurry(ward, None)
            stretches[HEARD] = await _rest(cluster, ward, nodes, seconds)
            if life.returncode is not None:
                raise BenchFailed("the writer of heartbeats ended too early; its own words are above")
    load_after, _, _ = os.getloadavg()
    return Hearing(
        nodes=nodes,
        judged=nodes >= NODES and seconds >= SECONDS,
        load_before=load_before,
        load_after=load_after,
        pace=pace,
        stretches={what: stretches[what] for what in (UNHEARD, HEARD, HASTY)},
        verdicts=verdicts(stretches, pace),
    )


async def _hurry(ward: Ward, path: dict[str, Any] | None) -> None:
    """From now on the check has this fast path, or none."""
    await ward.client.patch(NODE_HEALTH_CHECKS.at(NAME), Merge({"spec": {"fastPath": path}}))


async def _rest(cluster: ControlPlane, ward: Ward, nodes: int, seconds: float) -> Stretch:
    """An operator that was just started, while nothing happens to any node."""
    async with operating(cluster.kubeconfig, cluster.directory / "operator.log") as replica:
        await replica.until_ready()
        await ward.until(f"all {nodes:,} nodes are healthy", all_watched(nodes), SETTLED_WITHIN)
        await asyncio.sleep(WARM_UP_SECONDS)  # until the start is over and every rhythm is known
        before = await meter_of(replica)
        await asyncio.sleep(seconds)  # the cost over this time is what is measured
        one = between(before, await meter_of(replica), replica.resident_mib)
    say(
        f"  {one.seconds:.0f} s: {100 * one.cpu_share:.1f} % of a core, {one.heartbeats / one.seconds:.0f} renewals/s, "
        f"{one.passes} passes, {one.resident_mib:.1f} MiB"
    )
    return one

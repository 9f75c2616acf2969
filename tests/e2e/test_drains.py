"""Drains that hang, on a real control plane: each is ended in order and on time, and nothing else is touched.

Here the waits are seconds, where people have minutes. What is done too early fails; what is done late fails only when it
is very late, since the machine may be busy.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from datetime import datetime, timedelta

import msgspec
import pytest
import pytest_asyncio

from defib.decide.drains.ladder import WAITS_FOR_PROOF
from defib.hollow.objects import PODS, Pod
from defib.hollow.site import in_zones
from defib.kube.errors import Conflict, NotFound
from defib.kube.kinds import NODE_HEALTH_CHECKS, unstructured
from defib.model import medik8s
from defib.model.node_drain import (
    LOCK_HOLDER,
    DrainStatus,
    Phase,
    Rung,
)
from testbed.programs import Programs
from tests.e2e.audit import requests_of
from tests.e2e.drain_cluster import PATIENCE_SECONDS, Deed, DrainCluster, Drill, drain_cluster
from tests.e2e.drain_stage import EXPECTED, EXTRA, FOREIGN, PDB, TIMEOUT, TIMES, Stage, dies, set_stage
from tests.e2e.replica_set import SHORT, ReplicaSet, replica_set

pytestmark = [pytest.mark.real, pytest.mark.timeout(120, func_only=True), pytest.mark.asyncio(loop_scope="module")]

WRITTEN = {
    "drainpolicies.defib.dev/status",
    "nodedrains.defib.dev",
    "nodedrains.defib.dev/status",
    "leases.coordination.k8s.io",
    "events",
    "pods",
    "pods/eviction",
}
LATE = timedelta(seconds=30)
TEMPLATES = unstructured(
    "defib.dev", "v1alpha1", "podfailoverremediationtemplates", "PodFailoverRemediationTemplate", namespaced=True
)
PLACE = "defib-system"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DrainCluster]:
    path = tmp_path_factory.mktemp("drains") / "audit.yaml"
    blueprints = [msgspec.structs.replace(one, static_pods=("proxy",)) for one in in_zones("a", 12)]
    async with drain_cluster(programs, blueprints, path) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replicas(cluster: DrainCluster) -> AsyncIterator[ReplicaSet]:
    async with replica_set(cluster, *SHORT, replicas=1) as replicas:
        yield replicas


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(cluster: DrainCluster, replicas: ReplicaSet) -> AsyncIterator[Stage]:
    assert replicas.alive
    async with set_stage(cluster) as stage:
        yield stage


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def _nothing_is_refused(replicas: ReplicaSet) -> AsyncIterator[None]:
    yield
    assert [str(one) for one in await replicas.requests() if one.code == 403] == []


def after(status: DrainStatus, seconds: float) -> datetime:
    assert status.started_at is not None
    return status.started_at + timedelta(seconds=seconds)


def expect_in_time(deeds: Iterable[Deed], due: datetime) -> None:
    for deed in deeds:
        assert due < deed.at < due + LATE, f"{deed} was due after {due}"


def ends_at(evicted: Deed, grace: int) -> datetime:
    """By when a pod must have ended that was told to so. The API server counts in whole seconds."""
    return evicted.at.replace(microsecond=0) + timedelta(seconds=grace)


def uids(deeds: Iterable[Deed]) -> list[str]:
    return sorted(deed.uid for deed in deeds)


async def test_dk_06_dk_23_a_drain_that_hangs_on_a_budget_ends_when_the_budget_had_its_time(stage: Stage) -> None:
    drill = stage.budget
    async with asyncio.timeout(2 * PATIENCE_SECONDS):
        said, _ = await stage.kubectl.communicate()
    assert stage.kubectl.returncode == 0, said.decode()
    assert f"node/{drill.node} drained" in said.decode()
    await drill.team.until_running(2, "web", without=drill.node)
    status = await drill.until_phase(Phase.DRAINED)
    evicted, deleted = await drill.deeds(Rung.EVICT), await drill.deeds(Rung.DELETE)
    assert {deed.code for deed in evicted} == {429}
    assert {deed.uid for deed in evicted} == drill.uids("web")
    expect_in_time(evicted, after(status, TIMEOUT))
    assert uids(deleted) == sorted(drill.uids("web"))
    expect_in_time(deleted, after(status, EXPECTED + PDB))
    assert await drill.deeds() == [*evicted, *deleted]
    assert {(entry.uid, entry.rung, entry.why) for entry in status.pods or ()} == {
        (uid, Rung.DELETE, "disruption budget web had 8s to let it go") for uid in drill.uids("web")
    }


async def test_dk_12_an_allowed_finalizer_is_removed_when_its_pod_is_overdue_and_any_other_stays(
    stage: Stage, replicas: ReplicaSet
) -> None:
    drill = stage.finalizers
    await drill.team.until_running(1, "ours", without=drill.node)
    status = await drill.until("one pod is left", lambda one: one.pods_left == 1 and one.phase is Phase.WATCHING)
    (held,) = [pod for pod in await drill.team.pods("foreign") if pod.is_deleted]
    assert (held.uid in drill.there, held.metadata.finalizers) == (True, [FOREIGN])
    assert status.message == (
        f"1 pod left; nothing will be done about {held.key}: "
        f"it is held by {FOREIGN}, which the policy does not allow to be removed (spec.finalizers)"
    )
    evicted, removed = await drill.deeds(Rung.EVICT), await drill.deeds(Rung.FINALIZERS)
    assert uids(evicted) == sorted(drill.uids("ours", "foreign"))
    assert uids(removed) == sorted(drill.uids("ours"))
    expect_in_time(evicted, after(status, TIMEOUT))
    (first,) = [deed for deed in evicted if deed.uid == removed[0].uid]
    expect_in_time(removed, max(after(status, TIMEOUT), ends_at(first, 0) + timedelta(seconds=EXTRA)))
    assert [deed for deed in await drill.deeds() if not deed.has_worked] == []
    assert len(await drill.deeds()) == 3
    await drill.until("it counts as failed", lambda one: one.failed)

    async def is_told() -> bool:
        _, text = await replicas.alive[0].probe("metrics")
        return f'upgradeoperator_node_drain_timeout{{node_name="{drill.node}"}} 1.0' in text

    await drill.cluster.eventually("the alert that people know from before", is_told)


async def test_dk_11_a_pod_that_does_not_end_is_killed_by_its_kubelet_which_says_so(stage: Stage) -> None:
    drill = stage.stubborn
    await drill.team.until_running(1, "stubborn", without=drill.node)
    status = await drill.until_phase(Phase.DRAINED)
    evicted, killed = await drill.deeds()
    assert [evicted.rung, killed.rung] == [Rung.EVICT, Rung.KILL], "and it was never deleted by force"
    assert {evicted.uid, killed.uid} == drill.uids("stubborn")
    expect_in_time([evicted], after(status, 0))  # Defib was asked to drain this one
    expect_in_time([killed], max(after(status, TIMEOUT), ends_at(evicted, 3) + timedelta(seconds=4)))
    assert killed.uid not in drill.machine.containers()


async def test_pods_of_a_dead_kubelet_are_deleted_by_force_but_for_those_that_must_not_run_twice(stage: Stage) -> None:
    drill = stage.dead
    await drill.team.until_running(2, "web", without=drill.node)
    status = await drill.until("one pod is left", lambda one: one.pods_left == 1 and one.phase is Phase.WATCHING)
    (database,) = await drill.team.pods("db")
    assert (database.uid in drill.there, database.is_deleted) == (True, True)
    assert status.message == f"1 pod left; nothing will be done about {database.key}: {WAITS_FOR_PROOF}"
    evicted, forced = await drill.deeds(Rung.EVICT), await drill.deeds(Rung.FORCE)
    assert uids(evicted) == sorted(drill.uids("web", "db"))
    assert uids(forced) == sorted(drill.uids("web"))
    expect_in_time(evicted, after(status, TIMEOUT))
    for deed in forced:
        (first,) = [one for one in evicted if one.uid == deed.uid]
        expect_in_time([deed], ends_at(first, 2) + timedelta(seconds=EXTRA))
    assert await drill.deeds() == [*evicted, *forced], "nobody would have heard a kill"
    drill.machine.machine.set_power(True)
    await drill.until_phase(Phase.DRAINED)
    assert len(await drill.deeds()) == len(evicted) + len(forced), "its kubelet has ended it"


async def test_dk_08_dk_09_dk_17_nothing_outside_of_the_policies_is_touched(
    cluster: DrainCluster, stage: Stage
) -> None:
    await stage.mixed.until("four may stay", lambda one: one.pods_left == 4 and one.phase is Phase.WATCHING)
    for drill in (stage.budget, stage.stubborn):
        await drill.until_phase(Phase.DRAINED)
    for drill in (stage.finalizers, stage.dead):
        await drill.until("one is held at most", lambda one: one.pods_left is not None and one.pods_left <= 1)
    may_go = {
        *stage.budget.uids("web"),
        *stage.finalizers.uids("ours", "foreign"),
        *stage.stubborn.uids("stubborn"),
        *stage.dead.uids("web", "db"),
        *stage.mixed.uids("goes"),
    }
    assert {deed.uid for deed in await cluster.deeds()} == may_go
    stay = {pod.uid: pod.key for drill in (*stage.drained, stage.parked) for pod in drill.there.values()}
    now = {pod.uid for pod in (await cluster.client.list_all(PODS)).items if not pod.is_deleted}
    assert [key for uid, key in stay.items() if uid not in now and uid not in may_go] == []
    assert await stage.parked.status() is None
    asked = {one.what for one in await requests_of(cluster.plane) if one.is_write}
    assert asked == WRITTEN
    locked = {node for node in cluster.hollow.nodes if await cluster.holds(node)}
    assert locked == {drill.node for drill in stage.drained}


async def test_a_pod_that_came_again_under_its_old_name_is_left_alone(cluster: DrainCluster) -> None:
    drill = await cluster.drill("races", "zone-a-7", **TIMES)
    names = [f"ledger-{number}" for number in range(1, 7)]
    for name in names:
        await drill.team.state(name, drill.template(name, grace=1))
    await drill.until_here(*names)
    await drill.begin()
    await drill.until_phase(Phase.FORCING)
    async with asyncio.TaskGroup() as tasks:
        for pod in drill.pods(*names[::2]):
            tasks.create_task(force_delete(cluster, pod))
    await drill.team.until_running(len(names), without=drill.node)
    came = {pod.key: pod.uid for pod in await drill.team.pods()}
    status = await drill.until_phase(Phase.DRAINED)
    deeds = [deed for deed in await cluster.deeds() if deed.key.startswith(f"{drill.name}/")]
    assert {deed.uid for deed in deeds} <= drill.uids(*names)
    expect_in_time(deeds, after(status, TIMEOUT))
    assert {deed.uid for deed in deeds if deed.has_worked} >= drill.uids(*names[1::2])
    assert {pod.key: pod.uid for pod in await drill.team.pods() if not pod.is_deleted} == came
    assert came.keys() == {pod.key for pod in drill.pods(*names)}


async def force_delete(cluster: DrainCluster, pod: Pod) -> None:
    """As somebody else does who is in a hurry. The drain may be faster."""
    with suppress(NotFound, Conflict):
        await cluster.hollow.force_delete(pod)


async def test_dk_23_a_budget_that_is_tightened_at_the_last_moment_holds(cluster: DrainCluster) -> None:
    drill = await cluster.drill("tightened", "zone-a-8", **TIMES)
    await drill.deploy("api", 2)
    await drill.team.until_running(2)
    await drill.until_here("api")
    await drill.protect("api", min_available=0)
    await drill.begin()
    await drill.until_overdue(TIMEOUT - 1)
    await drill.tighten("api", min_available=2)
    await drill.team.until_running(2, without=drill.node)
    status = await drill.until_phase(Phase.DRAINED)
    evicted, deleted = await drill.deeds(Rung.EVICT), await drill.deeds(Rung.DELETE)
    assert {deed.code for deed in evicted} == {429}
    assert uids(deleted) == sorted(drill.uids("api"))
    expect_in_time(deleted, after(status, EXPECTED + PDB))


async def test_shx_01_a_drain_makes_way_when_its_node_dies_and_is_remediated(cluster: DrainCluster) -> None:
    drill = await cluster.drill("way", "zone-a-10", **TIMES | {"pdbForceDrainTimeout": "1h"})
    await drill.deploy("web", 2)
    await drill.deploy("slow", grace=600, habits={"ignores-sigterm": "true"})
    await drill.team.until_running(3)
    await drill.until_here("web", "slow")
    await drill.protect("web", min_available=2)
    await look_after(drill)
    await drill.begin()
    await drill.until("the slow one is leaving", lambda one: one.phase is Phase.FORCING and bool(one.pods))
    await dies(drill)
    held = await drill.until_phase(Phase.HELD)
    assert held.reason == "Remediation"
    await drill.team.until_running(2, "web", without=drill.node)
    await drill.team.until_running(1, "slow", without=drill.node)
    drill.machine.machine.set_power(True)
    await drill.until_phase(Phase.DRAINED)
    await expect_one_at_a_time(drill)


async def look_after(drill: Drill) -> None:
    """By a NodeHealthCheck, which has pods moved."""
    whole = {"metadata": {"name": drill.name}, "spec": {"template": {"spec": {}}}}
    await drill.client.create(TEMPLATES, whole, namespace=PLACE)
    template = {"apiVersion": TEMPLATES.api_version, "kind": TEMPLATES.name, "namespace": PLACE, "name": drill.name}
    ill = [{"type": "Ready", "status": status, "duration": "1s"} for status in ("False", "Unknown")]
    spec = {
        "selector": {"matchLabels": {"drill": drill.node}},
        "minHealthy": 0,
        "unhealthyConditions": ill,
        "remediationTemplate": template,
    }
    await drill.client.create(NODE_HEALTH_CHECKS, {"metadata": {"name": drill.name}, "spec": spec})


async def expect_one_at_a_time(drill: Drill) -> None:
    """Whoever did something had the lock; what the one had not done was done by the other, who had it next."""
    first, second, *more = await drill.cluster.holds(drill.node)
    assert (first.holder, second.holder) == (LOCK_HOLDER, medik8s.holder_of(drill.name))
    assert {hold.holder for hold in more} <= {LOCK_HOLDER}, "the drain goes on, once the node is well"
    deeds = await drill.deeds()
    by_drain, by_check = ([deed for deed in deeds if hold.has(deed)] for hold in (first, second))
    assert [(deed.rung, deed.uid) for deed in by_drain if deed.has_worked] == [(Rung.EVICT, *drill.uids("slow"))]
    assert {(deed.rung, deed.uid) for deed in by_check} == {(Rung.DELETE, uid) for uid in drill.uids("web")}
    assert deeds == [*by_drain, *by_check]


async def test_dk_04_dk_20_who_is_killed_in_the_middle_goes_on_where_it_was_by_the_same_clock(
    cluster: DrainCluster, replicas: ReplicaSet
) -> None:
    late = 12
    drill = await cluster.drill("restart", "zone-a-9", **TIMES | {"pdbForceDrainTimeout": f"{late}s"})
    await drill.deploy("web", 2)
    await drill.deploy("plain")
    await drill.team.until_running(3)
    await drill.until_here("web", "plain")
    await drill.protect("web", min_available=2)
    await drill.begin()

    async def plain_is_evicted() -> bool:
        return any(deed.has_worked for deed in await drill.deeds())

    await cluster.eventually("the first pod leaves", plain_is_evicted)
    await drill.team.until_running(1, "plain", without=drill.node)
    (old,) = replicas.alive
    await old.kill()
    replicas.lose(old)
    await drill.flap()
    before = await drill.status()
    done = await drill.deeds()
    assert before is not None
    assert [deed.rung for deed in done if deed.has_worked] == [Rung.EVICT]
    await replicas.add()
    await drill.team.until_running(3, without=drill.node)
    status = await drill.until_phase(Phase.DRAINED)
    assert status.started_at == before.started_at
    since = [deed for deed in (await drill.deeds())[len(done) :] if deed.has_worked]
    assert uids(since) == sorted(drill.uids("web"))
    assert {deed.rung for deed in since} == {Rung.DELETE}
    expect_in_time(since, after(before, EXPECTED + late))
    kept = [entry for entry in before.pods or () if entry.uid in drill.uids("plain")]
    assert [entry for entry in status.pods or () if entry.uid in drill.uids("plain")] == kept

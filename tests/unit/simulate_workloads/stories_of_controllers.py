"""Stories about Deployments, StatefulSets, DaemonSets and Jobs. Each returns what must be alike on every control plane."""

from typing import Any

from tests.unit.simulate_workloads.looking import all_ready, labels_of, owner_of, picked
from tests.unit.simulate_workloads.stage import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Stage,
    a_pod_spec,
    a_workload,
    node_of,
    ready,
    says,
)

Outcome = Any


async def scaled_deployment(stage: Stage) -> Outcome:
    for name in ("n1", "n2"):
        await stage.add_node(name)
    await stage.make(DEPLOYMENTS, a_workload("web", 2))
    names = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")
    seen = []
    for size in (2, 5, 1):
        await stage.change(DEPLOYMENTS, "web", {"spec": {"replicas": size}})

        async def counted(size: int = size) -> bool:
            return ((await stage.get(DEPLOYMENTS, "web")).status or {}).get("readyReplicas") == size

        await stage.until(counted)
        await stage.until(lambda size=size: all_ready(stage, size))  # type: ignore[misc]
        await stage.rest(0.5)
        deployment = await stage.get(DEPLOYMENTS, "web")
        conditions = {c["type"]: (c["status"], c["reason"]) for c in (deployment.status or {})["conditions"]}
        seen.append((picked(deployment.status, *names), conditions))
    (replica_set,), (pod,) = await stage.all(REPLICA_SETS), await stage.all(PODS)
    counts = picked(replica_set.status, "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    return seen, counts, owner_of(replica_set), owner_of(pod), (pod.spec or {})["tolerations"], labels_of(pod)


async def updated_deployment(stage: Stage) -> Outcome:
    await stage.add_node("n1")
    await stage.make(DEPLOYMENTS, a_workload("web", 3))
    await stage.until(lambda: all_ready(stage, 3))
    old = {pod.uid for pod in await stage.all(PODS)}
    container = {"name": "app", "image": "app:2"}
    await stage.change(DEPLOYMENTS, "web", {"spec": {"template": {"spec": {"containers": [container]}}}})
    fewest = 3

    async def done() -> bool:
        nonlocal fewest
        staying = [pod for pod in await stage.all(PODS) if not pod.metadata.deletion_timestamp]
        fewest = min(fewest, sum(map(ready, staying)))
        return len(staying) == 3 and all(ready(pod) and pod.uid not in old for pod in staying)

    await stage.until(done)
    await stage.rest(0.5)
    sets = await stage.all(REPLICA_SETS)
    revisions = [rs.annotations["deployment.kubernetes.io/revision"] for rs in sets]
    return fewest, sorted((rs.spec or {})["replicas"] for rs in sets), sorted(revisions)


async def stateful_order(stage: Stage) -> Outcome:
    """In order, a pod that hangs in its deletion holds up all behind it; forced away, everything goes on."""
    for name in ("n1", "n2"):
        await stage.add_node(name)
    await stage.make(STATEFUL_SETS, a_workload("db", 3, serviceName="db"))
    await stage.until(lambda: all_ready(stage, 3))
    first = {name: pod.uid for name, pod in (await stage.pods()).items()}
    await stage.rest(0.5)
    status = (await stage.get(STATEFUL_SETS, "db")).status
    names = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    counts = picked(status, *names)
    stage.dead |= {"n1", "n2"}
    await stage.delete(PODS, "db-1")
    await stage.delete(PODS, "db-2", grace_seconds=0)
    await stage.rest(1.5)
    waiting = {name: bool(pod.metadata.deletion_timestamp) for name, pod in (await stage.pods()).items()}
    await stage.delete(PODS, "db-1", grace_seconds=0)
    await stage.until(lambda: is_new(stage, "db-1", first["db-1"]))
    await stage.rest(0.5)
    after = {name: pod.uid == first[name] for name, pod in (await stage.pods()).items()}
    pod = (await stage.pods())["db-1"]
    return counts, waiting, after, labels_of(pod), picked(pod.spec, "hostname", "subdomain"), owner_of(pod)


async def is_new(stage: Stage, name: str, uid: str) -> bool:
    pod = (await stage.pods()).get(name)
    return pod is not None and pod.uid != uid


async def stateful_parallel(stage: Stage) -> Outcome:
    await stage.add_node("n1")
    await stage.make(STATEFUL_SETS, a_workload("db", 3, serviceName="db", podManagementPolicy="Parallel"))
    await stage.until(lambda: all_ready(stage, 3))
    stage.dead.add("n1")
    last = (await stage.pods())["db-2"].uid
    await stage.delete(PODS, "db-0")
    await stage.delete(PODS, "db-2", grace_seconds=0)
    await stage.until(lambda: is_new(stage, "db-2", last))
    await stage.rest(0.5)
    pods = await stage.pods()
    return {name: (bool(pod.metadata.deletion_timestamp), (pod.status or {})["phase"]) for name, pod in pods.items()}


async def stateful_failed_pod(stage: Stage) -> Outcome:
    """On a node that still works a failed pod is replaced; marked Failed while it hangs in its deletion, it stays."""
    await stage.add_node("n1")
    await stage.make(STATEFUL_SETS, a_workload("db", 1, serviceName="db"))
    await stage.until(lambda: all_ready(stage, 1))
    first = (await stage.pods())["db-0"].uid
    stage.dead.add("n1")
    await stage.delete(PODS, "db-0")
    await stage.change(PODS, "db-0", {"status": {"phase": "Failed"}}, "status")
    await stage.rest(1)
    hanging = (await stage.pods())["db-0"].uid == first
    stage.dead.clear()

    async def replaced() -> bool:
        pod = (await stage.pods()).get("db-0")
        return pod is not None and pod.uid != first and ready(pod)

    await stage.until(replaced)
    second = (await stage.pods())["db-0"].uid
    await stage.change(PODS, "db-0", {"status": {"phase": "Failed"}}, "status")
    first = second
    await stage.until(replaced)
    return hanging


async def daemons(stage: Stage) -> Outcome:
    for name in ("n1", "tainted", "cordoned"):
        await stage.add_node(name)
    await stage.change(NODES, "cordoned", {"spec": {"unschedulable": True}})
    await stage.taint("tainted", {"key": "example.com/gpu", "effect": "NoSchedule"})
    await stage.rest(0.5)
    await stage.make(DAEMON_SETS, a_workload("logs", None))
    await stage.until(lambda: all_ready(stage, 2))
    await stage.rest(0.5)
    pods = sorted(await stage.all(PODS), key=node_of)
    names = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "numberAvailable", "numberMisscheduled")
    status = picked((await stage.get(DAEMON_SETS, "logs")).status, *names)
    specs = [((p.spec or {})["tolerations"], (p.spec or {})["affinity"], labels_of(p)) for p in pods]
    stage.dead.add("n1")
    await stage.delete(PODS, pods[1].name)
    await stage.rest(1)
    return list(map(node_of, pods)), status, specs, owner_of(pods[0]), len(await stage.pods())


async def job(stage: Stage) -> Outcome:
    await stage.add_node("n1")
    template = {"spec": {**a_pod_spec(), "restartPolicy": "Never"}}
    await stage.make(JOBS, {"metadata": {"name": "sum"}, "spec": {"template": template, "completions": 2}})
    await stage.until(lambda: all_ready(stage, 1))
    (first,) = await stage.all(PODS)
    await stage.change(PODS, first.name, {"status": {"phase": "Succeeded"}}, "status")

    async def second() -> bool:
        return len(await stage.pods()) == 2 and any(
            ready(p) for n, p in (await stage.pods()).items() if n != first.name
        )

    await stage.until(second)
    halfway = picked((await stage.get(JOBS, "sum")).status, "succeeded", "active", "failed")
    (other,) = [name for name in await stage.pods() if name != first.name]
    finalizers = {name: pod.metadata.finalizers for name, pod in (await stage.pods()).items()}
    await stage.change(PODS, other, {"status": {"phase": "Succeeded"}}, "status")

    async def complete() -> bool:
        return says(await stage.get(JOBS, "sum"), "Complete").get("status") == "True"

    await stage.until(complete)
    ending = picked((await stage.get(JOBS, "sum")).status, "succeeded", "active", "failed")
    return halfway, finalizers[first.name], finalizers[other], ending, owner_of(first), labels_of(first)


async def job_pod_deleted(stage: Stage) -> Outcome:
    """It counts as failed as soon as it is being deleted, loses its finalizer, and is replaced after a pause."""
    await stage.add_node("n1")
    template = {"spec": {**a_pod_spec(), "restartPolicy": "Never"}}
    await stage.make(JOBS, {"metadata": {"name": "sum"}, "spec": {"template": template}})
    await stage.until(lambda: all_ready(stage, 1))
    (pod,) = await stage.all(PODS)
    stage.dead.add("n1")
    await stage.delete(PODS, pod.name)

    async def counted() -> bool:
        return not (await stage.pods())[pod.name].metadata.finalizers

    await stage.until(counted)
    await stage.rest(1)
    pods = await stage.pods()
    counts = picked((await stage.get(JOBS, "sum")).status, "active", "failed")
    return pods[pod.name].metadata.finalizers, counts, len(pods)

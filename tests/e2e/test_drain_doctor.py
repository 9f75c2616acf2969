"""What the doctor says about a drain on the real control plane, and that the API server is of the same opinion."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from defib.clock import SystemClock
from defib.hollow.objects import PODS, Pod
from defib.hollow.site import in_zones
from defib.kube.client import Blocked, Deletion, Evicted, Merge, Scope
from defib.kube.errors import KubeError
from defib.kube.kinds import NODES, unstructured
from defib.model.node_drain import WATCH_MARK
from testbed.programs import Programs
from tests.e2e.hollow_cluster import HollowCluster, eventually, hollow_cluster

pytestmark = [pytest.mark.real, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 30.0
CRDS = ("deploy/crds/defib.dev_drainpolicies.yaml", "deploy/crds/defib.dev_nodedrains.yaml")
BUDGETS = unstructured("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
POLICIES = unstructured("defib.dev", "v1alpha1", "drainpolicies", "DrainPolicy", namespaced=False)
DRAINED, OTHER = "zone-a-1", "zone-a-2"
RUNNING = {"web": 3, "twice": 1, "tight": 2}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs) -> AsyncIterator[HollowCluster]:
    """Everything runs on one of two nodes. That one is drained, by somebody who marked it; the other is parked."""
    async with hollow_cluster(programs, in_zones("a", 2)) as cluster:
        for path in CRDS:
            code, _, err = await said([str(cluster.plane.kubectl), "apply", "-f", str(ROOT / path)], cluster)
            assert code == 0, err
        await cordon(cluster, OTHER)
        for app, replicas in RUNNING.items():
            await cluster.deploy(app, replicas)
        for name, app, least in (("web", "web", 3), ("once", "twice", 1), ("again", "twice", 1), ("tight", "tight", 1)):
            await protect(cluster, name, app, least)
        await make_bare(cluster, "alone")
        await make_bare(cluster, "held", finalizers=["example.com/backup"])
        await eventually(lambda: is_settled(cluster))
        await cordon(cluster, DRAINED, {WATCH_MARK: "true"})
        await eventually(lambda: makes_policy(cluster))
        held = await cluster.pod("held")
        assert held is not None
        await cluster.client.delete(PODS.of(held), Deletion(uid=held.uid, grace_seconds=1))
        gone = (await cluster.running("tight"))[0]
        await cluster.client.delete(PODS.of(gone), Deletion(uid=gone.uid))
        await eventually(lambda: waits_for_a_place(cluster))
        await eventually(lambda: should_have_ended(cluster, "held"))
        yield cluster


WIDTH = 100  # of the terminal that it is read on


async def said(command: list[str], cluster: HollowCluster, *, kubeconfig: Path | None = None) -> tuple[Any, str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    known = str(kubeconfig or cluster.plane.kubeconfig)
    environ = {"PATH": path, "KUBECONFIG": known, "LANG": "C.UTF-8", "HOME": str(cluster.plane.directory)}
    environ["COLUMNS"] = str(WIDTH)
    process = await asyncio.create_subprocess_exec(*command, env=environ, stdout=PIPE, stderr=PIPE)
    async with asyncio.timeout(PATIENCE_SECONDS):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def drain(cluster: HollowCluster, *arguments: str) -> tuple[Any, str]:
    code, out, err = await said([str(cluster.plane.kubectl), "defib", "drain", *arguments], cluster)
    assert err == ""
    return code, out


async def cordon(cluster: HollowCluster, node: str, labels: dict[str, str] | None = None) -> None:
    await cluster.client.patch(
        NODES.at(node), Merge({"metadata": {"labels": labels or {}}, "spec": {"unschedulable": True}})
    )


async def protect(cluster: HollowCluster, name: str, app: str, least: int) -> None:
    spec = {"minAvailable": least, "selector": {"matchLabels": {"app": app}}}
    await cluster.client.create(BUDGETS, {"metadata": {"name": name}, "spec": spec}, namespace="default")


async def make_bare(cluster: HollowCluster, name: str, **metadata: Any) -> None:
    container = {"name": "main", "image": "registry.example.com/app:1"}
    spec = {"nodeName": DRAINED, "containers": [container], "terminationGracePeriodSeconds": 1}
    await cluster.client.create(PODS, {"metadata": {"name": name, **metadata}, "spec": spec}, namespace="default")


async def makes_policy(cluster: HollowCluster) -> bool:
    """A kind is served a moment after its CRD was written."""
    try:
        await cluster.client.create(POLICIES, {"metadata": {"name": "workers"}, "spec": {"timeout": "45m"}})
    except KubeError:
        return False
    return True


async def is_settled(cluster: HollowCluster) -> bool:
    """Of two budgets on one pod, Kubernetes keeps one up to date."""
    budgets = (await cluster.client.list_all(BUDGETS, Scope(namespace="default"))).items
    counted = {item.name: (item.status or {}).get("currentHealthy") for item in budgets}
    are_running = [len(await cluster.running(app)) for app in RUNNING] == [*RUNNING.values()]
    return are_running and (counted["web"], counted["tight"]) == (3, 2)


async def should_have_ended(cluster: HollowCluster, name: str) -> bool:
    pod = await cluster.pod(name)
    ends = pod.metadata.deletion_timestamp if pod is not None else None
    return ends is not None and ends + timedelta(seconds=1) < SystemClock().now()


async def waits_for_a_place(cluster: HollowCluster) -> bool:
    """The scheduler has said that there is none, and the budget has been counted anew."""
    pending = [pod for pod in await cluster.pods("tight") if pod.phase == "Pending"]
    said_so = [one for pod in pending for one in (pod.status or {}).get("conditions") or () if one.get("message")]
    budget = await cluster.client.get(BUDGETS.at("tight", "default"))
    return bool(said_so) and (budget.status or {}).get("disruptionsAllowed") == 0


async def the_pods(cluster: HollowCluster) -> dict[str, dict[str, Any]]:
    """What is said of each application, or of each pod that belongs to none."""
    code, out = await drain(cluster, DRAINED, "-o", "json")
    assert code == 3
    told = msgspec.json.decode(out)
    assert told["unknown"] == []
    found = {}
    for pod in told["pods"]:
        name = pod["pod"].removeprefix("default/")
        found[name.split("-")[0]] = pod
    return found


def reasons(pod: dict[str, Any]) -> list[str]:
    return [finding["reason"] for finding in pod["findings"]]


async def test_the_doctor_says_of_every_pod_why_it_is_still_there(cluster: HollowCluster) -> None:
    pods = await the_pods(cluster)
    assert {name: reasons(pod) for name, pod in pods.items()} == {
        "web": ["BudgetNeverAllows"],
        "twice": ["SeveralBudgets"],
        "tight": ["BudgetAllowsNone", "ReplacementPending"],
        "alone": ["BarePod"],
        "held": ["Finalizer", "Terminating", "BarePod"],
    }
    (never,) = pods["web"]["findings"]
    assert never["message"] == "disruption budget default/web never lets a pod go: minAvailable 3 of 3 pods"
    assert "whoever uses the domain example.com" in pods["held"]["findings"][0]["message"]
    assert "0/2 nodes are available" in pods["tight"]["findings"][1]["message"]
    assert "asks for its eviction" in pods["web"]["next"]["message"]


async def test_the_text_is_calm_and_fits(cluster: HollowCluster) -> None:
    code, out = await drain(cluster, DRAINED)
    assert code == 3
    assert max(map(len, out.splitlines())) <= WIDTH
    assert "being drained: the node is cordoned, and marked with defib.dev/watch-drain" in out
    assert "watches the drain, by DrainPolicy workers, mode Automatic" in out


async def test_the_api_server_refuses_and_allows_what_the_doctor_says(cluster: HollowCluster) -> None:
    async def evicted(app: str) -> Evicted | Blocked | KubeError:
        pod: Pod = (await cluster.running(app))[0]
        try:
            return await cluster.client.evict(PODS.of(pod), Deletion(uid=pod.uid))
        except KubeError as error:
            return error

    assert isinstance(await evicted("web"), Blocked)
    assert isinstance(await evicted("tight"), Blocked)
    refused = await evicted("twice")
    assert isinstance(refused, KubeError)
    assert "more than one PodDisruptionBudget" in str(refused)


async def test_the_forecast_names_the_budgets_and_the_node(cluster: HollowCluster) -> None:
    code, out = await drain(cluster, "--forecast", "-o", "json")
    told = msgspec.json.decode(out)
    assert (code, told["nodes"], told["blocked"], told["unknown"]) == (3, 2, [DRAINED], [])
    blamed = {one["budget"]: (one["reason"], one["pods"]) for one in told["budgets"]}
    assert blamed == {
        "default/web": ("BudgetNeverAllows", 3),
        "default/again": ("SeveralBudgets", 1),
        "default/tight": ("BudgetAllowsNone", 1),
    }
    assert [one["pod"] for one in told["bare"]] == ["default/alone"]
    code, out = await drain(cluster, "--forecast")
    assert out.startswith("1 of 2 nodes could not be drained as things are")
    assert max(map(len, out.splitlines())) <= WIDTH


async def test_a_node_with_nothing_on_it_is_fine(cluster: HollowCluster) -> None:
    code, out = await drain(cluster, OTHER)
    assert code == 0
    assert "it is cordoned, but nobody we know drains it (parked)" in out
    code, out = await drain(cluster, "--forecast", "--selector", f"kubernetes.io/hostname={OTHER}")
    assert (code, out.splitlines()[0]) == (0, "1 node could be drained as things are")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["zone-a-9"], "there is no node zone-a-9; did you mean zone-a-"),
        (["--forecast", "--selector", "a in b"], "unable to parse requirement"),
    ],
)
async def test_a_wrong_question_gets_one_line(cluster: HollowCluster, arguments: list[str], words: str) -> None:
    code, out, err = await said([str(cluster.plane.kubectl), "defib", "drain", *arguments], cluster)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert words in err


async def test_who_may_not_read_is_told_what_to_ask_for(cluster: HollowCluster) -> None:
    command = [str(cluster.plane.kubectl), "defib", "drain", DRAINED]
    code, out, err = await said(command, cluster, kubeconfig=cluster.plane.restricted_kubeconfig)
    assert (code, out) == (1, "")
    assert "kubectl auth can-i get nodes" in err

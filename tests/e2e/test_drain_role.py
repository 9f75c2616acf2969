"""What the account of deploy/install.yaml may do about drains, and what the feature nodekeeper of the chart adds."""

import asyncio
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from defib.clock import SystemClock
from defib.decide.drains.compatibility import CONFIG_KEY, NAMESPACE
from defib.kube.client import Client, Deletion, Evicted, JsonPatch, Merge, Scope
from defib.kube.errors import Forbidden, NotFound
from defib.kube.http import connect
from defib.kube.kinds import NAMESPACES, PODS, unstructured
from testbed.chart import render
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from testbed.settings import Settings
from tests.contract.api_server.steps import eventually, raw
from tests.drain_corpus import a_drain, a_policy
from tests.e2e.rights import until_allowed

pytestmark = [pytest.mark.real, pytest.mark.timeout(60, func_only=True), pytest.mark.asyncio(loop_scope="module")]

DEPLOY = Path(__file__).parents[2] / "deploy"
PATIENCE_SECONDS = 20.0
SHOP = "shop"
POLICIES = unstructured("defib.dev", "v1alpha1", "drainpolicies", "DrainPolicy", namespaced=False)
DRAINS = unstructured("defib.dev", "v1alpha1", "nodedrains", "NodeDrain", namespaced=False)
CONFIGS = unstructured("", "v1", "configmaps", "ConfigMap", namespaced=True)
ACCOUNTS = unstructured("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs) -> AsyncIterator[ControlPlane]:
    async with ControlPlane(programs, Settings(api_only=True)) as cluster:
        await apply(cluster, DEPLOY / "install.yaml")
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin(cluster: ControlPlane) -> AsyncIterator[Client]:
    client = await a_client(cluster.kubeconfig)
    for name in (SHOP, NAMESPACE):
        await client.create(NAMESPACES, {"metadata": {"name": name}})
    await client.create(ACCOUNTS, {"metadata": {"name": "default"}}, namespace=SHOP)
    yield client
    await client.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(cluster: ControlPlane, admin: Client) -> AsyncIterator[Client]:
    """As the pod would be it: with a token of its service account and nothing else."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    asked = await raw(admin, "POST", "/api/v1/namespaces/defib-system/serviceaccounts/defib/token", body)
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"] = [{"name": user["name"], "user": {"token": asked["status"]["token"]}} for user in config["users"]]
    path = cluster.directory / "operator.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    client = await a_client(path)
    await until_allowed(admin, "create", "nodedrains.defib.dev", "")
    yield client
    await client.close()


async def a_client(kubeconfig: Path) -> Client:
    clock = SystemClock()
    return Client(await connect(kubeconfig, None, {}, clock), clock)


async def apply(cluster: ControlPlane, file: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        cluster.kubectl, f"--kubeconfig={cluster.kubeconfig}", "apply", f"-f={file}", stdout=PIPE, stderr=STDOUT
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()


def a_pod(name: str, *finalizers: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "example.com/c"}]}
    return {"metadata": {"name": name, "finalizers": list(finalizers)}, "spec": spec}


async def test_a_drain_is_recorded_told_of_and_dropped_and_its_policy_is_not_ours_to_change(
    admin: Client, operator: Client
) -> None:
    policy = await admin.create(POLICIES, a_policy({}, "workers"))
    owner = {"apiVersion": POLICIES.api_version, "kind": POLICIES.name, "name": policy.name, "uid": policy.uid}
    body = a_drain("workers", "w1")
    body["metadata"]["ownerReferences"] = [owner]
    drain = await operator.create(DRAINS, body)
    told = await operator.patch(DRAINS.of(drain), Merge({"status": {"phase": "Watching"}}), subresource="status")
    assert told.status == {"phase": "Watching"}
    told = await operator.patch(POLICIES.of(policy), Merge({"status": {"draining": 1}}), subresource="status")
    assert told.status == {"draining": 1}
    with pytest.raises(Forbidden):
        await operator.patch(POLICIES.of(policy), Merge({"spec": {"acceptedProofs": ["None"]}}))
    with pytest.raises(Forbidden):
        await operator.delete(POLICIES.of(policy), Deletion(uid=policy.uid))
    with pytest.raises(Forbidden):
        await operator.patch(DRAINS.of(drain), Merge({"spec": {"policy": "other"}}))
    await operator.delete(DRAINS.of(drain), Deletion(uid=drain.uid))


async def test_a_pod_is_evicted_and_freed_of_a_finalizer(admin: Client, operator: Client) -> None:
    pod = await admin.create(PODS, a_pod("held", "example.com/x"), namespace=SHOP)
    assert await operator.evict(PODS.of(pod), Deletion(uid=pod.uid)) == Evicted()
    pod = await operator.get(PODS.of(pod))
    assert pod.is_leaving
    steps: list[Mapping[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": pod.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": pod.metadata.resource_version},
        {"op": "replace", "path": "/metadata/finalizers", "value": []},
    ]
    await operator.patch(PODS.of(pod), JsonPatch(steps))
    with pytest.raises(NotFound):
        await admin.get(PODS.of(pod))


async def test_a_pod_is_deleted_past_its_budget(admin: Client, operator: Client) -> None:
    pod = await admin.create(PODS, a_pod("plain"), namespace=SHOP)
    await operator.delete(PODS.of(pod), Deletion(uid=pod.uid))
    with pytest.raises(NotFound):
        await admin.get(PODS.of(pod))


async def test_how_nodekeeper_is_configured_is_read_only_where_somebody_has_allowed_it(
    cluster: ControlPlane, helm: Path, admin: Client, operator: Client
) -> None:
    config = {"metadata": {"name": "managed-upgrade-operator-config"}, "data": {CONFIG_KEY: "nodeDrain: {timeOut: 45}"}}
    await admin.create(CONFIGS, config, namespace=NAMESPACE)
    with pytest.raises(Forbidden):
        await operator.list_all(CONFIGS, Scope(namespace=NAMESPACE))
    added = cluster.directory / "nodekeeper.yaml"
    added.write_text(render(helm, {"features.nodekeeper": True}, "--show-only=templates/nodekeeper.yaml"))
    await apply(cluster, added)
    await until_allowed(admin, "watch", "configmaps", NAMESPACE)

    async def is_read() -> bool:
        try:
            found = await operator.list_all(CONFIGS, Scope(namespace=NAMESPACE))
        except Forbidden:
            return False
        return [item.data for item in found.items] == [config["data"]]

    await eventually(is_read)
    with pytest.raises(Forbidden):
        await operator.create(CONFIGS, {"metadata": {"name": "x"}}, namespace=NAMESPACE)
    with pytest.raises(Forbidden):
        await operator.list_all(CONFIGS, Scope(namespace=SHOP))

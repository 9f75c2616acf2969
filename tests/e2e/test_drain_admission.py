"""What the admission policies of deploy/install.yaml keep from happening in drains: a kubelet that speaks for people, and Defib that changes pods."""

import asyncio
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from defib.clock import SystemClock
from defib.kube.client import Client, Deletion, JsonPatch, Merge
from defib.kube.errors import Forbidden, Invalid, NotFound, Refused
from defib.kube.http import connect
from defib.kube.kinds import NAMESPACES, NODES, PODS, unstructured
from defib.model.node_drain import APPROVED_UNTIL, DRAIN_MARK, WATCH_MARK
from defib.model.pod import Pod
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from testbed.settings import Settings, TokenUser
from tests.contract.api_server.steps import eventually
from tests.e2e.audit import ACCOUNT

pytestmark = [pytest.mark.real, pytest.mark.timeout(60, func_only=True), pytest.mark.asyncio(loop_scope="module")]

DEPLOY = Path(__file__).parents[2] / "deploy"
PATIENCE_SECONDS = 20.0
NODE = "w1"
KUBELET = f"system:node:{NODE}"
SHOP = "shop"
BINDINGS = unstructured(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
FINALIZERS = ["example.com/a", "example.com/b"]


class People(msgspec.Struct, frozen=True):
    admin: Client
    kubelet: Client
    defib: Client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def people(programs: Programs) -> AsyncIterator[People]:
    users = (TokenUser(KUBELET, ("system:nodes",)), TokenUser(ACCOUNT))
    async with (
        ControlPlane(programs, Settings(api_only=True, token_users=users)) as cluster,
        AsyncExitStack() as stack,
    ):
        admin = await a_client(cluster.kubeconfig, stack)
        await apply(cluster, "install.yaml")
        await admin.create(NAMESPACES, {"metadata": {"name": SHOP}})
        await admin.create(BINDINGS, kubelets_may_what_they_may_everywhere())
        kubelet = await a_client(cluster.token_kubeconfig(KUBELET), stack)
        people = People(admin, kubelet, await a_client(cluster.token_kubeconfig(ACCOUNT), stack))
        await until_in_force(people)
        yield people


async def a_client(kubeconfig: Path, stack: AsyncExitStack) -> Client:
    clock = SystemClock()
    client = Client(await connect(kubeconfig, None, {}, clock), clock)
    stack.push_async_callback(client.close)
    return client


async def apply(cluster: ControlPlane, *files: str) -> None:
    options = [f"-f={DEPLOY / file}" for file in files]
    process = await asyncio.create_subprocess_exec(
        cluster.kubectl, f"--kubeconfig={cluster.kubeconfig}", "apply", *options, stdout=PIPE, stderr=STDOUT
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    assert "Warning" not in said.decode(), said.decode()


def kubelets_may_what_they_may_everywhere() -> dict[str, Any]:
    subjects = [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:nodes"}]
    ref = {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": "system:node"}
    return {"metadata": {"name": "kubelets-in-this-test"}, "roleRef": ref, "subjects": subjects}


async def until_in_force(people: People) -> None:
    """The API server learns of roles and policies by watches of its own, a moment after they are written."""
    pod = await people.admin.create(PODS, a_pod("first"), namespace=SHOP)

    async def is_so() -> bool:
        marked = {"metadata": {"name": "first", "annotations": {DRAIN_MARK: "mine"}}}
        may_register = not await refusal(people.kubelet.create(NODES, {"metadata": {"name": NODE}}))
        if may_register:
            await people.admin.delete(NODES.at(NODE), Deletion(uid=(await people.admin.get(NODES.at(NODE))).uid))
        labels = Merge({"metadata": {"labels": {"app": "another"}}})
        said = (
            await refusal(people.kubelet.create(NODES, marked)),
            await refusal(people.defib.patch(PODS.of(pod), labels)),
        )
        return may_register and "for people" in said[0] and "Defib changes" in said[1]

    await eventually(is_so, within=PATIENCE_SECONDS)


async def refusal(request: Awaitable[object]) -> str:
    try:
        await request
    except Refused as error:
        return str(error)
    return ""


def a_pod(name: str, **metadata: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "example.com/c"}]}
    return {"metadata": {"name": name} | metadata, "spec": spec}


async def an_ending_pod(admin: Client, name: str) -> Pod:
    pod = await admin.create(PODS, a_pod(name, finalizers=FINALIZERS), namespace=SHOP)
    await admin.delete(PODS.of(pod), Deletion(uid=pod.uid))
    return await admin.get(PODS.of(pod))


async def test_a_kubelet_registers_with_the_labels_of_its_pool_and_says_nothing_else_for_people(people: People) -> None:
    node = {"metadata": {"name": NODE, "labels": {WATCH_MARK: "true"}, "annotations": {"example.com/x": "y"}}}
    await people.kubelet.create(NODES, node)
    await people.kubelet.patch(NODES.at(NODE), Merge({"metadata": {"annotations": {"example.com/x": "z"}}}))
    await people.kubelet.patch(NODES.at(NODE), Merge({"spec": {"unschedulable": True}}))
    for subresource in ("", "status"):
        for mark in (DRAIN_MARK, APPROVED_UNTIL, "defib.dev/approved-until", WATCH_MARK):
            said = Merge({"metadata": {"annotations": {mark: "2999-01-01T00:00:00Z"}}})
            with pytest.raises(Forbidden, match="are for people and for Defib"):
                await people.kubelet.patch(NODES.at(NODE), said, subresource=subresource)
        for labels in ({WATCH_MARK: "false"}, {WATCH_MARK: None}, {"defib.dev/other": "x"}):
            with pytest.raises(Forbidden, match="are for people and for Defib"):
                await people.kubelet.patch(
                    NODES.at(NODE), Merge({"metadata": {"labels": labels}}), subresource=subresource
                )


async def test_what_a_person_said_stays_and_the_kubelet_goes_on(people: People) -> None:
    await people.admin.create(NODES, {"metadata": {"name": "w2"}})
    await people.admin.patch(NODES.at("w2"), Merge({"metadata": {"annotations": {DRAIN_MARK: "new kernel"}}}))
    ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    told = await people.kubelet.patch(NODES.at("w2"), Merge({"status": {"conditions": ready}}), subresource="status")
    assert told.annotations[DRAIN_MARK] == "new kernel"
    with pytest.raises(Forbidden, match="are for people and for Defib"):
        await people.kubelet.patch(NODES.at("w2"), Merge({"metadata": {"annotations": {DRAIN_MARK: None}}}))


async def test_defib_takes_finalizers_from_pods_that_are_ending(people: People) -> None:
    pod = await an_ending_pod(people.admin, "held")
    steps: list[Mapping[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": pod.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": pod.metadata.resource_version},
        {"op": "replace", "path": "/metadata/finalizers", "value": FINALIZERS[1:]},
    ]
    left = await people.defib.patch(PODS.of(pod), JsonPatch(steps))
    assert left.metadata.finalizers == FINALIZERS[1:]
    with pytest.raises(Invalid, match="no new finalizers"):
        await people.defib.patch(PODS.of(pod), Merge({"metadata": {"finalizers": FINALIZERS}}))
    await people.defib.patch(PODS.of(pod), Merge({"metadata": {"finalizers": None}}))
    with pytest.raises(NotFound):
        await people.admin.get(PODS.of(pod))


CHANGES = [
    {"spec": {"containers": [{"name": "c", "image": "example.com/another"}]}},
    {"spec": {"activeDeadlineSeconds": 1}},
    {"metadata": {"labels": {"app": "another"}}},
    {"metadata": {"annotations": {"defib.dev/keep": ""}}},
    {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": "u"}]}},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
async def test_defib_can_change_nothing_else_of_a_pod(people: People, change: dict[str, Any]) -> None:
    name = f"pod-{CHANGES.index(change)}"
    pod = await an_ending_pod(people.admin, name)
    with pytest.raises(Forbidden, match="Defib changes nothing of a pod but"):
        await people.defib.patch(PODS.of(pod), Merge(change))
    running = await people.admin.create(PODS, a_pod(f"{name}-runs", finalizers=FINALIZERS), namespace=SHOP)
    with pytest.raises(Forbidden, match="is not ending"):
        await people.defib.patch(PODS.of(running), Merge(change))
    with pytest.raises(Forbidden, match="is not ending"):
        await people.defib.patch(PODS.of(running), Merge({"metadata": {"finalizers": None}}))

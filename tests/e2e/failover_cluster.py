"""A real control plane with hollow nodes, Defib installed as its manifests say, and the applications of a team.

Pods tolerate an unreachable node for five minutes here, as they do everywhere, so whatever leaves within the time of a
test was moved by us. The API server writes down what the operator asks for: nothing that it deletes goes unseen.
"""

import asyncio
import json
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from defib.hollow.objects import PODS, Pod
from defib.hollow.site import Blueprint
from defib.hollow.storage import CLASS
from defib.hollow.timers import Timers
from defib.kube.client import Client, Scope
from defib.kube.kinds import NAMESPACES, unstructured
from defib.model import medik8s
from defib.model.failover_policy import FailedNode, PolicyStatus, read_policy_status
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from testbed.settings import Settings
from tests.contract.api_server.steps import raw
from tests.e2e.audit import audited, requests_of
from tests.e2e.check_cluster import last_words
from tests.e2e.hollow_cluster import SETTINGS, TIMERS, HollowCluster, eventually, hollow_cluster
from tests.e2e.rights import until_allowed

Body = dict[str, Any]

DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = ("install.yaml",)
PATIENCE_SECONDS = 30.0
POLICIES = unstructured("defib.dev", "v1alpha1", "podfailoverpolicies", "PodFailoverPolicy", namespaced=True)
# Roles come into force a moment after they were written, and those that are added up another moment later.
RIGHTS = (
    ("watch", "podfailoverpolicies.defib.dev", ""),
    ("delete", "pods", "default"),
    ("get", "persistentvolumeclaims", "default"),
    ("watch", "leases.coordination.k8s.io", "kube-node-lease"),
    ("watch", "configmaps", "defib-system"),
    ("patch", "leases.coordination.k8s.io", "defib-system"),
    ("create", "events", "default"),
    ("create", "leases.coordination.k8s.io", medik8s.LOCK_NAMESPACE),
)


class FailoverCluster:
    def __init__(self, hollow: HollowCluster) -> None:
        self.hollow = hollow

    @property
    def plane(self) -> ControlPlane:
        return self.hollow.plane

    @property
    def client(self) -> Client:
        return self.hollow.client

    async def team(self, name: str) -> "Team":
        await self.client.create(NAMESPACES, {"metadata": {"name": name}})
        await self.plane.wait_for_namespace(name)
        return Team(self, name)

    async def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """As somebody types it; their home is empty, so that nothing is remembered from elsewhere."""
        fresh = f"--cache-dir={self.plane.directory / 'kubectl'}"
        command = (str(self.plane.kubectl), f"--kubeconfig={self.plane.kubeconfig}", fresh, *arguments)
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=STDOUT)
        async with asyncio.timeout(PATIENCE_SECONDS):
            said, _ = await process.communicate(stdin.encode())
        assert process.returncode == 0, said.decode()
        return said.decode()

    async def pods_on(self, node: str) -> list[Pod]:
        return (await self.client.list_all(PODS, Scope(fields=f"spec.nodeName={node}"))).items

    async def deleted(self) -> list[str]:
        """Every pod that the operator has asked to be deleted so far, as `namespace/name`."""
        asked = await requests_of(self.plane)
        return sorted(one.key for one in asked if (one.verb, one.what) == ("delete", "pods"))

    async def is_ready(self, node: str) -> bool:
        return (await self.hollow.node(node)).ready == "True"

    async def eventually(
        self, what: str, question: Callable[[], Awaitable[bool]], *, within: float = PATIENCE_SECONDS
    ) -> None:
        try:
            await eventually(question, within=within)
        except TimeoutError:
            await self.fail(f"not within {within:g} s: {what}")

    async def fail(self, why: str) -> None:
        """With what the policies say, and the end of what the operator said."""
        self.plane.keep()
        policies = (await self.client.list_all(POLICIES)).items
        told = [f"{one.key}: {json.dumps(one.status)}" for one in policies]
        pytest.fail("\n".join([why, *told, *await last_words(self.plane)]))


class Team:
    """A namespace with one policy, and what runs there."""

    def __init__(self, cluster: FailoverCluster, name: str) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.name = name

    async def make(self, api_version: str, kind: str, name: str, **body: Any) -> None:
        group, _, version = api_version.rpartition("/")
        of = unstructured(group, version, f"{kind.lower()}s", kind, namespaced=True)
        metadata = {"name": name, **body.pop("metadata", {})}
        await self.client.create(of, {"metadata": metadata, **body}, namespace=self.name)

    async def deploy(self, name: str, replicas: int, template: Body | None = None) -> None:
        labels = {"matchLabels": {"app": name}}
        spec = {"replicas": replicas, "selector": labels, "template": template or pod_template(name)}
        await self.make("apps/v1", "Deployment", name, spec=spec)

    async def state(self, name: str, template: Body) -> None:
        """A StatefulSet of one."""
        spec = {"serviceName": name, "selector": {"matchLabels": {"app": name}}, "template": template}
        await self.make("apps/v1", "StatefulSet", name, spec=spec)

    async def claim(self, name: str, mode: str) -> None:
        spec = {"accessModes": [mode], "storageClassName": CLASS, "resources": {"requests": {"storage": "1Gi"}}}
        await self.make("v1", "PersistentVolumeClaim", name, spec=spec)

    async def ask_for(self, name: str, **spec: Any) -> None:
        """By a policy."""
        await self.client.create(POLICIES, {"metadata": {"name": name}, "spec": spec}, namespace=self.name)

    async def until_served(self, name: str) -> None:
        async def is_served() -> bool:
            valid = (await self.status(name)).condition("Valid")
            return valid is not None and valid.status == "True"

        await self.cluster.eventually(f"policy {self.name}/{name} is served", is_served)

    async def status(self, name: str) -> PolicyStatus:
        return read_policy_status(await self.client.get(POLICIES.at(name, self.name)))

    async def entry(self, policy: str, node: str) -> FailedNode:
        return next(one for one in (await self.status(policy)).nodes or () if one.name == node)

    async def until_it_says(self, policy: str, reason: str) -> PolicyStatus:
        """The reason of its condition Settled."""
        status = PolicyStatus()

        async def is_so() -> bool:
            nonlocal status
            status = await self.status(policy)
            settled = status.condition("Settled")
            return settled is not None and settled.reason == reason

        await self.cluster.eventually(f"policy {self.name}/{policy} says {reason}", is_so)
        return status

    async def pods(self, app: str = "") -> list[Pod]:
        return (await self.client.list_all(PODS, Scope(namespace=self.name, labels=f"app={app}" if app else ""))).items

    async def running(self, app: str, *, without: str = "") -> list[Pod]:
        return [pod for pod in await self.pods(app) if is_ready(pod) and pod.spec.node_name != without]

    async def until_running(self, replicas: int, app: str = "", *, without: str = "") -> None:
        async def all_run() -> bool:
            return len(await self.running(app, without=without)) == replicas

        await self.cluster.eventually(f"{replicas} pods {app} of {self.name} run outside of `{without}`", all_run)

    async def deleted(self) -> list[str]:
        """Those of its pods that the operator has asked to be deleted."""
        return [key for key in await self.cluster.deleted() if key.startswith(f"{self.name}/")]

    async def events(self, name: str) -> list[tuple[str, str]]:
        """Reasons and messages of those about a policy."""
        query = {"fieldSelector": f"involvedObject.name={name}"}
        listed = await raw(self.client, "GET", f"/api/v1/namespaces/{self.name}/events", **query)
        return [(one["reason"], one["message"]) for one in listed["items"]]


def pod_template(app: str, *, node: str = "", claims: tuple[str, ...] = ()) -> Body:
    return {"metadata": {"labels": {"app": app}}, "spec": pod_spec(node=node, claims=claims)}


def pod_spec(*, node: str = "", claims: tuple[str, ...] = ()) -> Body:
    """On a certain node, for as long as that can be had."""
    mounts = [{"name": claim, "mountPath": f"/{claim}"} for claim in claims]
    container = {"name": "main", "image": "registry.example.com/app:1", "volumeMounts": mounts}
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    there = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": there}]}
    spec: Body = {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 5}
    return spec | ({"affinity": {"nodeAffinity": wish}} if node else {})


def is_ready(pod: Pod) -> bool:
    conditions = (pod.status or {}).get("conditions") or ()
    is_so = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return is_so and pod.phase == "Running" and not pod.is_deleted


@asynccontextmanager
async def failover_cluster(
    programs: Programs, blueprints: list[Blueprint], policy: Path, timers: Timers = TIMERS
) -> AsyncIterator[FailoverCluster]:
    """`policy` is a file to be written: the API server reads there what to write down."""
    settings = Settings(controller_manager=SETTINGS.controller_manager, apiserver=await audited(policy))
    async with hollow_cluster(programs, blueprints, settings=settings, timers=timers) as hollow:
        cluster = FailoverCluster(hollow)
        await cluster.kubectl("apply", *(option for file in FILES for option in ("-f", str(DEPLOY / file))))
        for right in RIGHTS:
            await until_allowed(cluster.client, *right)
        yield cluster

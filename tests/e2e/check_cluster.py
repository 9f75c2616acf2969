"""A real control plane with Defib installed as its manifests say, test remediators, and nodes that a test makes ill.

The operator is a process of its own and logs in as the service account of deploy/install.yaml: what its role does not
allow, it cannot do here either. Nodes are plain objects; nobody but the test says how they are.
"""

import asyncio
import json
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from defib.clock import SystemClock
from defib.decide.reading import read_status
from defib.kube.client import Apply, Client, Merge, Scope
from defib.kube.errors import NotFound
from defib.kube.http import connect
from defib.kube.kinds import LEASES, NAMESPACES, NODE_HEALTH_CHECKS, NODES, Kind, Ref, unstructured
from defib.model import medik8s
from defib.model.health_check import CheckStatus, NodeHealthCheck
from defib.model.meta import Unstructured
from defib.model.node import Lease
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from testbed.settings import Settings
from tests.contract.api_server.steps import eventually, install, raw
from tests.e2e.audit import Request, audited, requests_of
from tests.e2e.rights import may, until_allowed

Body = dict[str, Any]

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
REMEDIATORS = ROOT / "testbed/crds/test-remediators.yaml"
PLACE = "remedies"  # where templates and remediations are
GROUP = "test.defib.dev"
PATIENCE_SECONDS = 20.0
SOON_SECONDS = 15.0  # for what the operator does at once; a busy machine may take a while over it
CLUSTER_ROLES = unstructured("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
OPERATOR_LOG = "operator.log"
OPERATOR_LOGS = "operator*.log"  # of several replicas
# What the operator needs from its first moment on. Roles come into force by watches, a moment after they are written.
RIGHTS = (
    ("watch", "nodes", ""),
    ("watch", "nodehealthchecks.remediation.medik8s.io", ""),
    ("watch", "leases.coordination.k8s.io", "kube-node-lease"),
    ("watch", "leases.coordination.k8s.io", medik8s.LOCK_NAMESPACE),
    ("watch", "configmaps", "defib-system"),
    ("patch", "leases.coordination.k8s.io", "defib-system"),
    ("create", "events", "default"),
    ("delete", "podfailoverremediations.defib.dev", PLACE),
)


def remediations(name: str) -> Kind[Unstructured]:
    """Of the remediator Foo, Bar or another of that shape."""
    return unstructured(GROUP, "v1alpha1", f"{name.lower()}remediations", f"{name}Remediation", namespaced=True)


def templates(name: str) -> Kind[Unstructured]:
    return unstructured(
        GROUP, "v1alpha1", f"{name.lower()}remediationtemplates", f"{name}RemediationTemplate", namespaced=True
    )


def template_ref(name: str) -> Body:
    """Templates are called after their remediator: foo, foo-b, bar."""
    kind = templates(name.partition("-")[0].capitalize())
    return {"apiVersion": kind.api_version, "kind": kind.name, "namespace": PLACE, "name": name}


def step(template: str, order: int, timeout: str) -> Body:
    return {"remediationTemplate": template_ref(template), "order": order, "timeout": timeout}


class Event(msgspec.Struct, frozen=True, rename="camel"):
    reason: str
    message: str
    type: str
    source: dict[str, str]
    involved_object: dict[str, str]


class CheckCluster:
    def __init__(self, plane: ControlPlane, client: Client) -> None:
        self.plane = plane
        self.client = client  # of somebody who may do everything

    async def install_remediator(self, name: str) -> None:
        """Its two kinds, as its own manifests would bring them."""
        text = await asyncio.to_thread(REMEDIATORS.read_text)
        known = [one for one in yaml.safe_load_all(text) if one["metadata"]["name"].startswith("foo")]
        renamed = yaml.safe_dump_all(known).replace("foo", name.lower()).replace("Foo", name)
        for definition in yaml.safe_load_all(renamed):
            await install(self.client, definition)

    async def grant(self, name: str, *, only_look: bool = False) -> None:
        """The role that a remediator brings along for whoever starts remediations."""
        look = ["get", "list", "watch"]
        verbs = look if only_look else [*look, "create", "update", "patch", "delete"]
        rules = [
            {"apiGroups": [GROUP], "resources": [templates(name).plural], "verbs": look},
            {"apiGroups": [GROUP], "resources": [remediations(name).plural], "verbs": verbs},
        ]
        labels = {"rbac.ext-remediation/aggregate-to-ext-remediation": "true"}
        role = Apply(body={"metadata": {"labels": labels}, "rules": rules})
        await self.client.patch(CLUSTER_ROLES.at(f"{name.lower()}-ext-remediation"), role)

    async def may(self, verb: str, what: str, namespace: str) -> bool:
        return await may(self.client, verb, what, namespace)

    async def wait_for(self, verb: str, what: str, namespace: str) -> None:
        await until_allowed(self.client, verb, what, namespace, within=PATIENCE_SECONDS)

    async def add_template(self, name: str, *, many: bool = False, spec: Any = None) -> None:
        kind = templates(name.partition("-")[0].capitalize())
        annotations = {medik8s.MULTIPLE_TEMPLATES: "true"} if many else {}
        wanted = {"template": {"spec": {"from": name}}} if spec is None else spec
        body = {"metadata": {"name": name, "annotations": annotations}, "spec": wanted}
        await self.client.create(kind, body, namespace=PLACE)

    async def add_node(self, name: str, **labels: str) -> None:
        await self.client.create(NODES, {"metadata": {"name": name, "labels": labels}})
        await self.set_ready(name, "True")

    async def set_ready(self, node: str, status: str) -> None:
        """As of now, as its kubelet or the node controller would say it."""
        now = f"{SystemClock().now():%Y-%m-%dT%H:%M:%SZ}"
        shown = {"type": "Ready", "status": status, "reason": "Test", "lastTransitionTime": now}
        await self.client.patch(NODES.at(node), Merge({"status": {"conditions": [shown]}}), subresource="status")

    async def pool(self, name: str, *, nodes: int = 3, **fields: Any) -> "Pool":
        """Nodes, and a check that selects them and no others. A node is unhealthy after a second."""
        members = [f"{name}-{number}" for number in range(1, nodes + 1)]
        for member in members:
            await self.add_node(member, pool=name)
        if "escalatingRemediations" not in fields:
            fields.setdefault("remediationTemplate", template_ref("foo"))
        conditions = [{"type": "Ready", "status": status, "duration": "1s"} for status in ("False", "Unknown")]
        spec = {"selector": {"matchLabels": {"pool": name}}, "unhealthyConditions": conditions, **fields}
        await self.client.create(NODE_HEALTH_CHECKS, {"metadata": {"name": name}, "spec": spec})
        return Pool(self, name, members)

    async def requests(self) -> list[Request]:
        return await requests_of(self.plane)

    async def fail(self, why: str) -> None:
        """With what the checks say, and the end of what the operator said."""
        self.plane.keep()
        checks = (await self.client.list_all(NODE_HEALTH_CHECKS)).items
        statuses = [f"{check.name}: {json.dumps(check.status)}" for check in checks]
        pytest.fail("\n".join([why, *statuses, *await last_words(self.plane)]))


async def last_words(plane: ControlPlane) -> list[str]:
    """The end of what the operator said, or of what each replica did."""
    logs = await asyncio.to_thread(lambda: [log.read_text() for log in sorted(plane.directory.glob(OPERATOR_LOGS))])
    return [line for text in logs for line in text.splitlines()[-15:]]


class Pool:
    """A NodeHealthCheck and its nodes."""

    def __init__(self, cluster: CheckCluster, name: str, nodes: list[str]) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.name = name
        self.nodes = nodes

    @property
    def ref(self) -> Ref[NodeHealthCheck]:
        return NODE_HEALTH_CHECKS.at(self.name)

    async def fails(self, node: str, ready: str = "Unknown") -> None:
        await self.cluster.set_ready(node, ready)

    async def recovers(self, node: str) -> None:
        await self.cluster.set_ready(node, "True")

    async def write_on(self, node: str, annotation: str, value: str) -> None:
        """What a person says about a node."""
        await self.client.patch(NODES.at(node), Merge({"metadata": {"annotations": {annotation: value}}}))

    async def change(self, **fields: Any) -> None:
        await self.client.patch(self.ref, Merge({"spec": fields}))

    async def status(self) -> CheckStatus:
        return read_status(await self.client.get(self.ref))

    async def raw_status(self) -> Body:
        whole = await raw(self.client, "GET", self.ref.path())
        status: Body = whole.get("status") or {}
        return status

    async def remedies(self, remediator: str = "Foo") -> list[Unstructured]:
        """Of this check's nodes, whoever made them."""
        known = (await self.client.list_all(remediations(remediator), Scope(namespace=PLACE))).items
        return [one for one in known if (one.annotations.get(medik8s.NODE_NAME) or one.name) in self.nodes]

    async def lock(self, node: str) -> Lease | None:
        try:
            return await self.client.get(LEASES.at(medik8s.lock_of(node), medik8s.LOCK_NAMESPACE))
        except NotFound:
            return None

    async def holder(self, node: str) -> str:
        """Who holds its lock; empty when nobody does."""
        lock = await self.lock(node)
        return (lock.spec.holder_identity or "") if lock else ""

    async def events(self, *reasons: str) -> list[Event]:
        """Those about this check; with reasons, only such."""
        query = {"fieldSelector": f"involvedObject.name={self.name}"}
        listed = await raw(self.client, "GET", "/api/v1/namespaces/default/events", **query)
        told = msgspec.convert(listed["items"], list[Event])
        return [one for one in told if not reasons or one.reason in reasons]

    async def eventually(
        self, what: str, question: Callable[[], Awaitable[bool]], *, within: float = SOON_SECONDS
    ) -> None:
        try:
            await eventually(question, within=within)
        except TimeoutError:
            await self.cluster.fail(f"{self.name}: not within {within:g} s: {what}")

    async def expect_remedy(
        self, node: str, remediator: str = "Foo", *, template: str = "", within: float = SOON_SECONDS
    ) -> Unstructured:
        """The one remediation of a node, once it is there and the status speaks of it."""
        found: list[Unstructured] = []

        async def is_there() -> bool:
            found[:] = [
                one
                for one in await self.remedies(remediator)
                if (one.annotations.get(medik8s.NODE_NAME) or one.name) == node
                and template in ("", one.annotations.get(medik8s.TEMPLATE_NAME))
            ]
            told = (await self.status()).node(node)
            listed = {one.resource.uid for one in (told.remediations if told else None) or ()}
            return bool(found) and {one.uid for one in found} <= listed

        await self.eventually(f"{node} has a {remediator}Remediation {template}", is_there, within=within)
        assert len(found) == 1, found
        return found[0]

    async def expect_at_rest(self, *, within: float = SOON_SECONDS) -> None:
        """Every node is healthy, and nothing is left of any remediation."""

        async def is_at_rest() -> bool:
            status = await self.status()
            left = [*(await self.remedies("Foo")), *(await self.remedies("Bar"))]
            locks = [node for node in self.nodes if await self.holder(node)]
            return not (left or locks or status.unhealthy_nodes) and status.healthy_nodes == status.observed_nodes

        await self.eventually("it is at rest", is_at_rest, within=within)

    async def expect_cleared(self, node: str) -> None:
        """Nothing is left of this node's remediation, and it is not locked."""

        async def is_cleared() -> bool:
            left = [one for one in await self.remedies() if one.annotations.get(medik8s.NODE_NAME) == node]
            return not left and not await self.holder(node)

        await self.eventually(f"what was of {node} is cleared away", is_cleared)

    async def expect_word_taken_off(self, node: str, annotation: str) -> None:
        async def is_taken_off() -> bool:
            return annotation not in (await self.client.get(NODES.at(node))).annotations

        await self.eventually(f"{annotation} is taken off {node}", is_taken_off)

    async def expect_held(self, node: str, reason: str) -> str:
        """The node is known to be unhealthy, nothing was begun, and the status says why: that sentence."""

        async def is_held() -> bool:
            told = (await self.status()).node(node)
            return told is not None and told.reason == reason and not told.remediations

        await self.eventually(f"{node} is held back by {reason}", is_held)
        assert [one for one in await self.remedies() if one.annotations[medik8s.NODE_NAME] == node] == []
        told = (await self.status()).node(node)
        assert told is not None
        return told.message

    async def expect_disabled(self, reason: str) -> str:
        """The check says that it does nothing, and why."""

        async def is_disabled() -> bool:
            disabled = (await self.status()).condition("Disabled")
            return disabled is not None and (disabled.status, disabled.reason) == ("True", reason)

        await self.eventually(f"it is disabled: {reason}", is_disabled)
        status = await self.status()
        assert status.phase == "Disabled"
        return status.reason

    async def expect_event(self, reason: str, *words: str) -> Event:
        told: list[Event] = []

        async def is_told() -> bool:
            told[:] = [one for one in await self.events(reason) if all(word in one.message for word in words)]
            return bool(told)

        await self.eventually(f"an event {reason} {words}", is_told)
        return told[0]


@asynccontextmanager
async def check_cluster(programs: Programs, policy: Path) -> AsyncIterator[CheckCluster]:
    """With the templates foo and bar, and foo-a and foo-b, which can be used together.

    `policy` is a file to be written: the API server reads there what to write down.
    """
    settings = Settings(
        apiserver=await audited(policy),
        controller_manager=("--controllers=*,-node-lifecycle-controller",),  # it has its own mind about how nodes are
    )
    clock = SystemClock()
    async with ControlPlane(programs, settings) as plane:
        await plane.wait_for_namespace("default")
        client = Client(await connect(plane.kubeconfig, None, {}, clock), clock)
        try:
            cluster = CheckCluster(plane, client)
            await _install(cluster)
            yield cluster
        finally:
            await client.close()


async def _install(cluster: CheckCluster) -> None:
    plane = cluster.plane
    manifest = f"--filename={DEPLOY / 'install.yaml'}"
    process = await asyncio.create_subprocess_exec(
        plane.kubectl, f"--kubeconfig={plane.kubeconfig}", "apply", manifest, stdout=PIPE, stderr=STDOUT
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    await cluster.client.create(NAMESPACES, {"metadata": {"name": PLACE}})
    for name in ("Foo", "Bar"):
        await cluster.install_remediator(name)
        await cluster.grant(name)
    for right in RIGHTS:
        await cluster.wait_for(*right)
    for name in ("Foo", "Bar"):
        await cluster.wait_for("delete", f"{remediations(name).plural}.{GROUP}", PLACE)
    for template in ("foo", "bar"):
        await cluster.add_template(template)
    for template in ("foo-a", "foo-b"):
        await cluster.add_template(template, many=True)

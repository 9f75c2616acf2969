"""A cluster on the embedded server with checks, templates and nodes in every state, for whoever asks or tells."""

from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from defib.clock import Clock
from defib.console.why import answer
from defib.decide.answers.told import Answer, CheckTold
from defib.decide.rules import Rules
from defib.decide.upgrade import SIGNALS
from defib.kube.client import Client
from defib.kube.kinds import CONFIG_MAPS, LEASES, NODE_HEALTH_CHECKS
from defib.model import medik8s
from defib.model.incident import INCIDENTS
from defib.simulate.faults import Fault, Refuse
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run

Body = dict[str, Any]

ROOT = Path(__file__).parents[3]
DEFINED_IN = (
    "deploy/crds/remediation.medik8s.io_nodehealthchecks.yaml",
    "testbed/crds/test-remediators.yaml",
    "deploy/crds/defib.dev_nodeincidents.yaml",
    "deploy/crds/defib.dev_podfailoverpolicies.yaml",
    "deploy/crds/defib.dev_podfailoverremediations.yaml",
)
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
CHECKS = str(NODE_HEALTH_CHECKS)
API = "test.defib.dev/v1alpha1"
FOOS = "fooremediations.test.defib.dev"
TEMPLATES = "fooremediationtemplates.test.defib.dev"
POLICIES = "podfailoverpolicies.defib.dev"
FAILOVERS = "podfailoverremediations.defib.dev"
WORKERS = {"node-role.kubernetes.io/worker": ""}
MINUTE = timedelta(minutes=1)


def stamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def a_server(clock: Clock, *, with_checks: bool = True) -> ApiServer:
    """With every kind, the template foo, and the namespaces of Defib and of the locks."""
    server = ApiServer(clock)
    for path in DEFINED_IN if with_checks else DEFINED_IN[1:]:
        for definition in yaml.safe_load_all((ROOT / path).read_text()):
            server.put(DEFINITIONS, definition)
    for name in ("defib-system", medik8s.LOCK_NAMESPACE, "ns"):
        server.put("namespaces", {"metadata": {"name": name}})
    server.put(TEMPLATES, {"metadata": {"name": "foo", "namespace": "ns"}, "spec": {"template": {"spec": {"size": 1}}}})
    return server


def add_node(
    server: ApiServer, name: str, ready: str = "True", *, minutes: float = 60, silent_minutes: float = 0, **meta: Any
) -> None:
    """`minutes` is for how long its Ready condition has been as it is."""
    now = server.clock.now()
    condition = {
        "type": "Ready",
        "status": ready,
        "reason": "KubeletReady" if ready == "True" else "NodeStatusUnknown",
        "lastTransitionTime": stamp(now - minutes * MINUTE),
    }
    labels = WORKERS | meta.pop("labels", {})
    server.put("nodes", {"metadata": {"name": name, "labels": labels, **meta}, "status": {"conditions": [condition]}})
    renewed = f"{now - silent_minutes * MINUTE:%Y-%m-%dT%H:%M:%S.%fZ}"
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": renewed}
    server.put(str(LEASES), {"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": spec})


def add_nodes(server: ApiServer, count: int = 5, *, ill: Sequence[str] = ()) -> None:
    """n1 and so on. Those that are ill have been Unknown for an hour."""
    for number in range(1, count + 1):
        name = f"n{number}"
        add_node(server, name, "Unknown" if name in ill else "True", silent_minutes=61 if name in ill else 0)


def template_ref(name: str = "foo") -> Body:
    return {"apiVersion": API, "kind": "FooRemediationTemplate", "namespace": "ns", "name": name}


def add_check(server: ApiServer, name: str = "workers", *, status: Body | None = None, **spec: Any) -> None:
    if "escalatingRemediations" not in spec:
        spec.setdefault("remediationTemplate", template_ref())
    spec.setdefault("selector", {"matchExpressions": [{"key": next(iter(WORKERS)), "operator": "Exists"}]})
    made = server.put(CHECKS, {"metadata": {"name": name}, "spec": spec})
    if status is not None:
        server.store.put(CHECKS, {**made.object, "status": status})


def add_foo(server: ApiServer, node: str, *, check: str = "workers", status: Body | None = None, **meta: Any) -> None:
    owner = {"apiVersion": medik8s.API_VERSION, "kind": medik8s.CHECK_KIND, "name": check, "uid": f"uid-{check}"}
    annotations = {medik8s.NODE_NAME: node, medik8s.TEMPLATE_NAME: "foo"} | meta.pop("annotations", {})
    metadata = {"name": node, "namespace": "ns", "annotations": annotations, **meta}
    if check:
        metadata["ownerReferences"] = [owner]
    made = server.put(FOOS, {"metadata": metadata, "spec": {}})
    if status is not None:
        server.store.put(FOOS, {**made.object, "status": status})


def add_incident(server: ApiServer, node: str, phase: str, **status: Any) -> None:
    cause = {"apiVersion": "defib.dev/v1alpha1", "kind": "PowerCycleRemediation", "namespace": "ns", "name": node}
    made = server.put(INCIDENTS, {"metadata": {"name": node}, "spec": {"node": node, "cause": cause | {"uid": "u"}}})
    server.store.put(INCIDENTS, {**made.object, "status": {"phase": phase} | status})


def add_policy(server: ApiServer, name: str, *nodes: Body) -> None:
    """Of the namespace ns, with what it says about failed nodes."""
    made = server.put(POLICIES, {"metadata": {"name": name, "namespace": "ns"}, "spec": {"selector": {}}})
    server.store.put(POLICIES, {**made.object, "status": {"nodes": [*nodes]}})


def add_failover(server: ApiServer, name: str, node: str = "", **succeeded: str) -> None:
    """A PodFailoverRemediation, and what its condition Succeeded says, if anything."""
    annotations = {medik8s.NODE_NAME: node} if node else {}
    metadata = {"name": name, "namespace": "ns", "annotations": annotations}
    made = server.put(FAILOVERS, {"metadata": metadata, "spec": {}})
    conditions = [{"type": medik8s.SUCCEEDED, **succeeded}] if succeeded else []
    server.store.put(FAILOVERS, {**made.object, "status": {"conditions": conditions}})


def incident_of(server: ApiServer, node: str) -> Body:
    stored = server.store.get(INCIDENTS, node)
    assert stored is not None
    return dict(stored.object)


def add_lock(server: ApiServer, node: str, holder: str, *, seconds: int = 600) -> None:
    moment = f"{server.clock.now() - MINUTE:%Y-%m-%dT%H:%M:%S.%fZ}"
    spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "acquireTime": moment, "renewTime": moment}
    meta = {"name": medik8s.lock_of(node), "namespace": medik8s.LOCK_NAMESPACE}
    server.put(str(LEASES), {"metadata": meta, "spec": spec})


def put_config(server: ApiServer, name: str, **data: str) -> None:
    server.put(str(CONFIG_MAPS), {"metadata": {"name": name, "namespace": "defib-system"}, "data": data})


def config_of(server: ApiServer, name: str) -> dict[str, str]:
    stored = server.store.get(str(CONFIG_MAPS), f"defib-system/{name}")
    return dict(stored.object["data"]) if stored else {}


def annotations_of(server: ApiServer, node: str) -> dict[str, str]:
    stored = server.store.get("nodes", node)
    assert stored is not None
    return dict(stored.object["metadata"].get("annotations") or {})


class Desk(msgspec.Struct):
    """Somebody at a keyboard, and the server they talk to."""

    server: ApiServer
    client: Client
    clock: VirtualClock
    rules: Rules = Rules(upgrade_signals=tuple(SIGNALS))

    async def why(self, node: str) -> Answer:
        return await answer(node, self.client, self.clock, self.rules)

    async def told(self, node: str) -> CheckTold:
        """When there is one check."""
        (told,) = (await self.why(node)).checks
        return told

    def refuse(self, resource: str, *verbs: str, code: int = 403, namespace: str = "") -> None:
        refusal = Refuse(code=code, message=f"{resource}: you may not")
        self.server.faults.inject(Fault(effect=refusal, resource=resource, verbs=verbs, namespace=namespace))


T = TypeVar("T")


def at_the_desk(scene: Callable[[Desk], Coroutine[Any, Any, T]], *, with_checks: bool = True) -> T:
    """In virtual time."""

    async def main(clock: VirtualClock) -> T:
        server = a_server(clock, with_checks=with_checks)
        return await scene(Desk(server, Client(InProcess(server, client="ann"), clock), clock))

    return run(main)

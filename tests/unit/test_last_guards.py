"""The operator as a whole: guards that must hold at the very last moment, and from the very first."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from defib.app import Operator
from defib.config import Settings
from defib.kube.client import Client
from defib.kube.kinds import CONFIG_MAPS, LEASES, NAMESPACES, NODE_HEALTH_CHECKS, unstructured
from defib.simulate.faults import Fault, Refuse, Slow
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run
from defib.telemetry.metrics import Metrics

ROOT = Path(__file__).parents[2]
FILES = ("deploy/crds/remediation.medik8s.io_nodehealthchecks.yaml", "testbed/crds/test-remediators.yaml")
CRDS = [crd for file in FILES for crd in yaml.safe_load_all((ROOT / file).read_text())]
API = "test.defib.dev/v1alpha1"
FOOS = unstructured("test.defib.dev", "v1alpha1", "fooremediations", "FooRemediation", namespaced=True)
TEMPLATES = unstructured(
    "test.defib.dev", "v1alpha1", "fooremediationtemplates", "FooRemediationTemplate", namespaced=True
)
REFERENCE = {"apiVersion": API, "kind": "FooRemediationTemplate", "name": "foo", "namespace": "defib-system"}
ILL = [{"type": "Ready", "status": "Unknown", "duration": "5s"}]

Scenario = Callable[[ApiServer, Client], Awaitable[None]]


def operate(prepare: Scenario, scenario: Scenario) -> None:
    """A check over three nodes, of which n1 is long unhealthy."""

    async def main(clock: VirtualClock) -> None:
        server = ApiServer(clock)
        for crd in CRDS:
            server.put("customresourcedefinitions.apiextensions.k8s.io", crd)
        for name, ready in (("n1", "Unknown"), ("n2", "True"), ("n3", "True")):
            shown: dict[str, Any] = {"type": "Ready", "status": ready, "lastTransitionTime": "2029-01-01T00:00:00Z"}
            server.put("nodes", {"metadata": {"name": name}, "status": {"conditions": [shown]}})
        person = Client(InProcess(server, client="person"), clock)
        for namespace in ("defib-system", "medik8s-leases"):
            await person.create(NAMESPACES, {"metadata": {"name": namespace}})
        template = {"metadata": {"name": "foo"}, "spec": {"template": {"spec": {}}}}
        await person.create(TEMPLATES, template, namespace="defib-system")
        spec = {"unhealthyConditions": ILL, "remediationTemplate": REFERENCE}
        await person.create(NODE_HEALTH_CHECKS, {"metadata": {"name": "workers"}, "spec": spec})
        await prepare(server, person)
        operator = Operator(InProcess(server, client="operator"), clock, Settings(default_check="off"), Metrics())
        async with asyncio.TaskGroup() as group:
            running = group.create_task(operator.run())
            await scenario(server, person)
            running.cancel()

    run(main, limit=timedelta(hours=1))


def test_a_brake_that_is_pulled_while_a_remediation_begins_still_stops_it() -> None:
    async def prepare(server: ApiServer, _: Client) -> None:
        server.faults.inject(Fault(effect=Slow(seconds=3), verbs=("create",), resource=str(LEASES), client="operator"))

    async def scenario(_: ApiServer, person: Client) -> None:
        await asyncio.sleep(1)  # virtual: the lock is being taken
        await person.create(CONFIG_MAPS, {"metadata": {"name": "defib-brake"}}, namespace="defib-system")
        await asyncio.sleep(60)  # virtual
        assert (await person.list_all(FOOS)).items == []
        assert (await person.list_all(LEASES)).items == [], "the lock is given back"

    operate(prepare, scenario)


def test_nothing_is_said_or_done_before_everything_was_seen_once() -> None:
    blind = Fault(effect=Refuse(code=503), resource="nodes", client="operator")

    async def prepare(server: ApiServer, _: Client) -> None:
        server.faults.inject(blind)

    async def scenario(server: ApiServer, person: Client) -> None:
        await asyncio.sleep(60)  # virtual
        assert server.audit.writes("operator") == []
        server.faults.remove(blind)
        await asyncio.sleep(60)  # virtual
        assert [foo.name for foo in (await person.list_all(FOOS)).items] == ["n1"]

    operate(prepare, scenario)

"""Where clusters differ: on Metal3, on OpenShift, without Leases, with the page in reach of others.

Each time what Helm installed starts under its own account, leads, does what the values ask for, and is refused nothing.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from defib.clock import SystemClock
from defib.config import load
from defib.coordinate.lock import RECORD, read_annotation
from defib.decide.admission import APPROVED_UNTIL
from defib.decide.drains.compatibility import NAMESPACE as NODEKEEPER
from defib.kube.client import Client, Merge
from defib.kube.errors import NotFound
from defib.kube.http import connect
from defib.kube.kinds import CONFIG_MAPS, NODE_HEALTH_CHECKS, NODES, unstructured
from testbed.chart import NAMESPACE, ROOT
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from testbed.settings import Settings
from tests.drain_corpus import NODEKEEPERS, a_policy
from tests.e2e.as_deployed import as_deployed
from tests.e2e.audit import audited, requests_of
from tests.e2e.helm_release import Release, until_one_leads
from tests.e2e.hollow_cluster import eventually
from tests.e2e.rights import may, until_allowed
from tests.e2e.test_dashboard import Page

pytestmark = [pytest.mark.real, pytest.mark.timeout(120, func_only=True), pytest.mark.asyncio(loop_scope="module")]

WITHIN = 40.0
SHORT = ("--lease-duration=3s", "--renew-deadline=2s", "--retry-period=0.5s")
CRDS = [*sorted((ROOT / "testbed" / "crds").glob("metal3-*.yaml")), ROOT / "testbed" / "crds" / "test-openshift.yaml"]
DEFIB = ("defib.dev", "v1alpha1")
HOSTS = unstructured("metal3.io", "v1alpha1", "baremetalhosts", "BareMetalHost", namespaced=True)
ENDPOINTS = unstructured("", "v1", "endpoints", "Endpoints", namespaced=True)
POLICIES = unstructured(*DEFIB, "drainpolicies", "DrainPolicy", namespaced=False)
TEMPLATES = unstructured(*DEFIB, "powercycleremediationtemplates", "PowerCycleRemediationTemplate", namespaced=True)
FAILOVER = {"apiVersion": "defib.dev/v1alpha1", "kind": "PodFailoverRemediationTemplate"}
FAILOVERS = unstructured(*DEFIB, "podfailoverremediationtemplates", FAILOVER["kind"], namespaced=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    """With the kinds of Metal3 and OpenShift, and the namespace in which Nodekeeper is configured."""
    policy = tmp_path_factory.mktemp("audit") / "policy.yaml"
    settings = Settings(api_only=True, apiserver=await audited(policy))
    async with ControlPlane(programs, settings) as plane:
        await plane.wait_for_namespace("kube-node-lease")
        yield plane


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(plane: ControlPlane) -> AsyncIterator[Client]:
    clock = SystemClock()
    client = Client(await connect(plane.kubeconfig, None, {}, clock), clock)
    yield client
    await client.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def release(plane: ControlPlane, client: Client, helm: Path) -> Release:
    """With its defaults, where somebody asks for Metal3 and for Nodekeeper all the same; and a check that asks people."""
    release = Release(helm, plane)
    for file in CRDS:
        await release.kubectl("apply", f"--filename={file}")
    await release.kubectl("create", "namespace", NODEKEEPER)
    await release.install()
    await release.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=20s")
    since = f"{SystemClock().now() - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    for name, ready in (("n1", "Unknown"), ("n2", "True"), ("n3", "True")):
        await client.create(NODES, {"metadata": {"name": name}, "spec": {"providerID": f"metal3://default/{name}"}})
        said = {"type": "Ready", "status": ready, "lastTransitionTime": since}
        await client.patch(NODES.at(name), Merge({"status": {"conditions": [said]}}), subresource="status")
        await client.create(HOSTS, {"metadata": {"name": name}, "spec": {"online": True}}, namespace="default")
    spec = {"template": {"spec": {"power": {"driver": "metal3", "address": "default/{node}"}}}}
    await client.create(TEMPLATES, {"metadata": {"name": "hosts"}, "spec": spec}, namespace=NAMESPACE)
    await client.create(FAILOVERS, {"metadata": {"name": "t"}, "spec": {"template": {"spec": {}}}}, namespace=NAMESPACE)
    await client.create(POLICIES, a_policy(NODEKEEPERS, "as-nodekeeper"))
    check = {"mode": "Approve", "selector": {}, "remediationTemplate": FAILOVER | {"name": "t", "namespace": NAMESPACE}}
    await client.create(NODE_HEALTH_CHECKS, {"metadata": {"name": "people"}, "spec": check})
    await until_allowed(client, "create", "nodedrains.defib.dev", "")
    return release


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def _nothing_is_refused(plane: ControlPlane) -> AsyncIterator[None]:
    yield
    assert [str(one) for one in await requests_of(plane) if one.code == 403] == []


async def change(release: Release, client: Client, *values: str, gets: tuple[str, str, str]) -> None:
    """To other values, and on until one of the rights that they bring along is in force."""
    await release.upgrade("--reset-values", *(f"--set={value}" for value in values))
    await until_allowed(client, *gets)


async def until_seen(release: Release, replica: str, *kinds: str) -> None:
    """As it says of itself since it was started last."""
    log = release.plane.directory / f"{replica}.log"

    async def is_so() -> bool:
        lines = (await asyncio.to_thread(log.read_text)).rpartition('"operator started"')[2].splitlines()
        return set(kinds) <= {json.loads(line)["kind"] for line in lines if '"watch sees"' in line}

    await eventually(is_so, within=WITHIN)


async def told(client: Client) -> str:
    """What stands in the policy that is configured as Nodekeeper was."""
    return str((await client.get(POLICIES.at("as-nodekeeper"))).status or "")


async def test_by_default_neither_hosts_nor_nodekeeper_are_looked_at_and_who_asks_for_them_is_told(
    release: Release, plane: ControlPlane, client: Client
) -> None:
    async with release.replicas(*SHORT) as replicas:
        await until_one_leads(client, set(replicas))

        async def is_told() -> bool:
            return "nodekeeper is switched off in this cluster" in await told(client)

        await eventually(is_told, within=WITHIN)
    assert not [str(one) for one in await requests_of(plane) if "metal3.io" in one.what or NODEKEEPER in one.key]


async def test_on_metal3_hosts_and_machines_are_in_sight(release: Release, client: Client) -> None:
    serves = "serves={machine-annotation,metal3-remediation,machine-health-check}"
    right = ("patch", "metal3remediations/status.infrastructure.cluster.x-k8s.io", "default")
    await change(release, client, "features.metal3=true", serves, gets=right)
    async with release.replicas(*SHORT) as replicas:
        leader = await until_one_leads(client, set(replicas))
        machines = ("Machine.v1beta1.machine.openshift.io", "Machine.v1beta2.cluster.x-k8s.io")
        asked = "Metal3Remediation.v1beta2.infrastructure.cluster.x-k8s.io"
        await until_seen(release, leader, "BareMetalHost.v1alpha1.metal3.io", asked, *machines)


async def test_on_openshift_the_configuration_of_nodekeeper_is_read(release: Release, client: Client) -> None:
    right = ("list", "configmaps", NODEKEEPER)
    await change(release, client, "features.nodekeeper=true", "features.metal3=true", gets=right)
    async with release.replicas(*SHORT) as replicas:
        leader = await until_one_leads(client, set(replicas))
        await until_seen(release, leader, "ConfigMap.v1", "ClusterVersion.v1.config.openshift.io")

        async def is_looked_for() -> bool:
            return "is not there, so nothing is forced" in await told(client)

        await eventually(is_looked_for, within=WITHIN)


async def test_without_leases_one_leads_by_an_endpoints_object(release: Release, client: Client) -> None:
    await change(release, client, "election=endpoints", gets=("create", "endpoints", NAMESPACE))
    async with release.replicas(*SHORT) as replicas:

        async def leads() -> bool:
            try:
                lock = await client.get(ENDPOINTS.at("defib-leader", NAMESPACE))
            except NotFound:
                return False
            return read_annotation(lock.annotations[RECORD]).holder in replicas

        await eventually(leads, within=WITHIN)
        assert not await may(client, "patch", "endpoints", NAMESPACE), "but for that one"


@asynccontextmanager
async def people(release: Release) -> AsyncIterator[dict[str, str]]:
    """Tokens of those to whom the roles of the chart were given, as the comments above them say."""
    for name in ("nobody", "looker", "captain"):
        await release.kubectl("create", "serviceaccount", name, f"-n={NAMESPACE}")
    to = "--serviceaccount={}:{}".format
    await release.kubectl("create", "clusterrolebinding", "looks", "--clusterrole=defib-look", to(NAMESPACE, "looker"))
    captain = to(NAMESPACE, "captain")
    await release.kubectl("create", "clusterrolebinding", "acts", "--clusterrole=defib-act", captain)
    await release.kubectl("create", "rolebinding", "acts", f"-n={NAMESPACE}", "--role=defib-act", captain)
    names = ("nobody", "looker", "captain")
    yield {name: (await release.kubectl("create", "token", name, f"-n={NAMESPACE}")).strip() for name in names}


async def page_of(release: Release, replica: str, tokens: dict[str, str]) -> Page:
    log = release.plane.directory / f"{replica}.log"
    served: list[str] = []

    async def is_served() -> bool:
        lines = (await asyncio.to_thread(log.read_text)).splitlines()
        served[:] = [json.loads(line)["page"] for line in lines if '"dashboard is served"' in line]
        return bool(served) and "0.0.0.0" in served[-1]

    await eventually(is_served, within=WITHIN)
    return Page(served[-1].replace("0.0.0.0", "127.0.0.1"), tokens)


async def test_where_the_page_has_a_service_it_asks_for_tokens_and_the_roles_of_the_chart_are_enough(
    release: Release, client: Client
) -> None:
    values = ("dashboard.service=true", "dashboard.mode=act", "replicas=1")
    await change(release, client, *values, gets=("create", "nodedrains.defib.dev", ""))
    environment = as_deployed(await release.manifest())[1]
    settings = load({}, {name: value for name, value in environment.items() if name.startswith("DEFIB_")}, str)
    address = f"--dashboard-address={settings.dashboard_address.host}:0"
    async with people(release) as tokens, release.replicas(*SHORT, address) as replicas:
        page = await page_of(release, await until_one_leads(client, set(replicas)), tokens)
        assert [(await page.ask("board", who))[0] for who in ("", "nobody", "looker", "captain")] == [
            401,
            403,
            200,
            200,
        ]
        assert (await page.ask("pause", "looker", {"reason": "x"}))[0] == 403
        everything = dict.fromkeys(("look", "pause", "resume", "approve", "confirm-down"), True)
        assert (await page.ask("me", "captain"))[1]["can"] == everything
        for wish, body in (("pause", {"reason": "x"}), ("resume", {}), ("approve", {"node": "n1"})):
            status, answer = await page.ask(wish, "captain", body)
            assert status == 200, answer
    assert (await client.get(CONFIG_MAPS.at("defib-brake", NAMESPACE))).data
    assert APPROVED_UNTIL in (await client.get(NODES.at("n1"))).annotations

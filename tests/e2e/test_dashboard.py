"""The dashboard of a running operator on a real API server: who may look and act there, the API server decides."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio
import yaml

from defib.clock import SystemClock
from defib.decide.admission import APPROVED_UNTIL
from defib.kube.client import Client, Merge
from defib.kube.kinds import CONFIG_MAPS, NAMESPACES, NODE_HEALTH_CHECKS, NODE_INCIDENTS, NODES
from defib.model import medik8s
from defib.model.incident import Phase
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from tests.contract.api_server.steps import eventually, raw
from tests.e2e.crd_cluster import client_of, kubectl, with_crds
from tests.e2e.running_operator import start

pytestmark = [pytest.mark.real, pytest.mark.timeout(60, func_only=True), pytest.mark.asyncio(loop_scope="module")]

PATIENCE_SECONDS = 20.0
HERE = "127.0.0.1"
NAMESPACE = "defib-system"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:"
TEMPLATE = {"apiVersion": "defib.dev/v1alpha1", "kind": "PodFailoverRemediationTemplate"}
LOOK = [{"apiGroups": ["remediation.medik8s.io"], "resources": ["nodehealthchecks"], "verbs": ["list"]}]
READ_ALL = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]
ACT = [
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]},
    {"apiGroups": ["defib.dev"], "resources": ["nodeincidents"], "verbs": ["patch"]},
]
PEOPLE: dict[str, list[dict[str, Any]]] = {
    "stranger": [],
    "looker": LOOK,
    "reader": READ_ALL,
    "captain": [*READ_ALL, *ACT],
}


class Page:
    """The dashboard of one operator, as whoever has a token meets it."""

    def __init__(self, address: str, tokens: dict[str, str]) -> None:
        self.address = address
        self._tokens = tokens | {"forger": "not.a.token"}

    async def ask(self, path: str, who: str = "", body: Any = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self._tokens[who]}"} if who else {}
        method = "GET" if body is None else "POST"
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.request(method, f"{self.address}api/{path}", json=body) as answer,
        ):
            return answer.status, await answer.json()

    async def board(self, who: str = "") -> Any:
        status, told = await self.ask("board", who)
        assert status == 200, told
        return told


def accounts() -> str:
    """One account for each, with a role of its own."""
    objects: list[dict[str, Any]] = []
    for name, rules in PEOPLE.items():
        subject = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
        role = {"kind": "ClusterRole", "name": f"test-{name}", "apiGroup": "rbac.authorization.k8s.io"}
        of_roles = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": f"test-{name}"}}
        objects += [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}},
            of_roles | {"kind": "ClusterRole", "rules": rules},
            of_roles | {"kind": "ClusterRoleBinding", "subjects": [subject], "roleRef": role},
        ]
    return yaml.safe_dump_all(objects)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs) -> AsyncIterator[ControlPlane]:
    async with with_crds(programs) as plane:
        yield plane


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin(cluster: ControlPlane) -> AsyncIterator[Client]:
    """Five nodes, n1 of them Unknown for an hour; a check that waits for approval."""
    clock = SystemClock()
    async with client_of(cluster, (NODE_HEALTH_CHECKS.collection(""), NODE_INCIDENTS.collection(""))) as client:
        for name in (NAMESPACE, medik8s.LOCK_NAMESPACE):
            await client.create(NAMESPACES, {"metadata": {"name": name}})
        since = f"{clock.now() - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
        for number in range(1, 6):
            await client.create(NODES, {"metadata": {"name": f"n{number}"}})
            ready = {"type": "Ready", "status": "Unknown" if number == 1 else "True", "lastTransitionTime": since}
            await client.patch(NODES.at(f"n{number}"), Merge({"status": {"conditions": [ready]}}), subresource="status")
        template = TEMPLATE | {"metadata": {"name": "t", "namespace": NAMESPACE}, "spec": {"template": {"spec": {}}}}
        await kubectl(cluster, "apply", "-f", "-", text=yaml.safe_dump(template))
        reference = TEMPLATE | {"name": "t", "namespace": NAMESPACE}
        spec = {"mode": "Approve", "remediationTemplate": reference}
        await client.create(NODE_HEALTH_CHECKS, {"metadata": {"name": "workers"}, "spec": spec})
        await kubectl(cluster, "apply", "-f", "-", text=accounts())
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tokens(admin: Client) -> dict[str, str]:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    return {name: (await raw(admin, "POST", f"{path}/{name}/token", body))["status"]["token"] for name in PEOPLE}


@asynccontextmanager
async def serving(cluster: ControlPlane, tokens: dict[str, str], name: str, host: str) -> AsyncIterator[Page]:
    """`defib run` with all rights of its own, and its page at this address. It leaves everything to whoever is there."""
    log = cluster.directory / f"{name}.log"
    more = (f"--kubeconfig={cluster.kubeconfig}", "--watch-only=on", "--dashboard=act", f"--dashboard-address={host}:0")
    process = await start(log, *more)
    served: list[str] = []

    async def is_served() -> bool:
        text = await asyncio.to_thread(log.read_text)
        assert process.returncode is None, text
        served[:] = [json.loads(line)["page"] for line in text.splitlines() if '"dashboard is served"' in line]
        return bool(served)

    try:
        await eventually(is_served, within=PATIENCE_SECONDS)
        yield Page(served[0].replace("0.0.0.0", HERE), tokens)
    finally:
        process.terminate()
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await process.wait() == 0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def page(cluster: ControlPlane, tokens: dict[str, str]) -> AsyncIterator[Page]:
    """At a loopback address, where everybody may look."""
    async with serving(cluster, tokens, "page", HERE) as page:

        async def sees_all() -> bool:
            told = await page.board()
            return bool(told["checks"]) and told["checks"][0]["observed"] == 5

        await eventually(sees_all, within=PATIENCE_SECONDS)
        yield page


async def test_what_the_operator_sees_is_shown(page: Page) -> None:
    told = await page.board()
    assert [row[0] for row in told["nodes"]] == ["n1", "n2", "n3", "n4", "n5"]
    assert [told["states"][row[2]] for row in told["nodes"]] == ["Unhealthy", *["Healthy"] * 4]
    (check,) = told["checks"]
    assert (check["name"], check["mode"], check["unhealthy"]) == ("workers", "Approve", 1)
    status, node = await page.ask("node/n1")
    assert (status, node["checks"][0]["next"]["message"]) == (
        200,
        "it goes on when a person approves it: defib approve n1",
    )


@pytest.mark.parametrize("who", ["stranger", "looker", "reader", "captain"])
async def test_everybody_is_told_who_they_are_and_what_they_may(page: Page, who: str) -> None:
    status, told = await page.ask("me", who)
    acts = dict.fromkeys(("pause", "resume", "approve", "confirm-down"), who == "captain")
    assert (status, told) == (200, {"user": f"{ACCOUNT}{who}", "can": {"look": who != "stranger"} | acts})


async def test_a_token_that_the_api_server_does_not_know_is_good_for_nothing(page: Page, admin: Client) -> None:
    for path, body in (("me", None), ("pause", {}), ("approve", {"node": "n1"}), ("confirm-down", {"node": "n1"})):
        status, told = await page.ask(path, "forger", body)
        assert (status, told) == (401, {"error": "the API server does not accept this token; it may have expired"})
    assert APPROVED_UNTIL not in (await admin.get(NODES.at("n1"))).annotations


@pytest.mark.parametrize("who", ["stranger", "looker", "reader"])
async def test_whoever_may_not_by_kubectl_may_not_here_although_the_operator_may(
    page: Page, admin: Client, who: str
) -> None:
    """The incident is one that a person could confirm."""
    await an_incident(admin, "n2")
    for path, body in (("pause", {"reason": "x"}), ("approve", {"node": "n1"}), ("confirm-down", {"node": "n2"})):
        status, told = await page.ask(path, who, body)
        assert status == 403, (path, told)
        assert f'User "{ACCOUNT}{who}" cannot' in told["error"]
    assert not (await page.board())["brake"]["on"]
    assert APPROVED_UNTIL not in (await admin.get(NODES.at("n1"))).annotations
    assert (await admin.get(NODE_INCIDENTS.at("n2"))).spec.confirmed_off is None


async def an_incident(admin: Client, node: str) -> None:
    """Of a machine of which nobody but a person can say that it is off."""
    unknown = {"type": "Ready", "status": "Unknown"}
    await admin.patch(NODES.at(node), Merge({"status": {"conditions": [unknown]}}), subresource="status")
    cause = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": NAMESPACE, "name": "x", "uid": "u"}
    body = {"metadata": {"name": node}, "spec": {"node": node, "cause": cause}}
    known = {one.name for one in (await admin.list_all(NODE_INCIDENTS)).items}
    if node not in known:
        await admin.create(NODE_INCIDENTS, body)
    await admin.patch(NODE_INCIDENTS.at(node), Merge({"status": {"phase": Phase.NEEDS_PERSON}}), subresource="status")


async def test_whoever_may_pauses_everything_in_their_own_name_and_the_page_shows_it(page: Page, admin: Client) -> None:
    status, told = await page.ask("pause", "captain", {"reason": "storage"})
    assert status == 200, told
    noted = (await admin.get(CONFIG_MAPS.at("defib-brake", NAMESPACE))).data or {}
    assert (noted["paused"], noted["by"], noted["reason"]) == ("true", f"{ACCOUNT}captain", "storage")

    async def is_shown() -> bool:
        return bool((await page.board())["brake"]["by"] == f"{ACCOUNT}captain")

    await eventually(is_shown, within=2.0)
    status, told = await page.ask("resume", "captain", {})
    assert (status, told["message"].startswith("Defib goes on")) == (200, True)


async def test_a_change_is_heard_within_a_second(page: Page, admin: Client) -> None:
    clock = SystemClock()
    async with (
        aiohttp.ClientSession(read_bufsize=2**20) as session,
        session.get(f"{page.address}api/live") as stream,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        board = await stream.content.readuntil(b"\n\n")
        assert board.startswith(b"event: board\n")
        began = clock.monotonic()
        await admin.patch(NODES.at("n5"), Merge({"spec": {"unschedulable": True}}))
        while True:
            event = await stream.content.readuntil(b"\n\n")
            told = msgspec.json.decode(event.split(b"data: ")[1])
            if any(row[0] == 4 and row[3] & 2 for row in told.get("nodes", ())):
                break
        seconds = clock.monotonic() - began
    assert seconds < 1.0


async def test_whoever_may_approves_a_node_that_waits(page: Page, admin: Client) -> None:
    status, told = await page.ask("approve", "captain", {"node": "n1", "seconds": 600})
    assert (status, told["message"].startswith("node n1 may be remediated until")) == (200, True)
    assert APPROVED_UNTIL in (await admin.get(NODES.at("n1"))).annotations
    status, told = await page.ask("approve", "captain", {"node": "n3"})
    assert (status, told["error"].startswith("nothing waits for approval on node n3")) == (409, True)


async def test_whoever_may_confirms_that_a_machine_is_off_with_their_name(page: Page, admin: Client) -> None:
    await an_incident(admin, "n2")
    status, told = await page.ask("confirm-down", "captain", {"node": "n2"})
    assert status == 200, told
    confirmed = (await admin.get(NODE_INCIDENTS.at("n2"))).spec.confirmed_off
    assert confirmed is not None
    assert confirmed.by == f"{ACCOUNT}captain"
    assert (await page.ask("incident/n2"))[1]["phase"] == "NeedsPerson"


async def test_what_nobody_asks_about_cannot_be_confirmed_by_anybody(page: Page) -> None:
    status, told = await page.ask("confirm-down", "captain", {"node": "n4"})
    assert (status, "there is no incident of node n4" in told["error"]) == (409, True)


async def test_beyond_loopback_nobody_sees_anything_without_the_right_to(
    cluster: ControlPlane, tokens: dict[str, str]
) -> None:
    async with serving(cluster, tokens, "reachable", "0.0.0.0") as page:
        for path in ("board", "live", "node/n1", "me"):
            assert (await page.ask(path))[0] == 401
            assert (await page.ask(path, "forger"))[0] == 401
            status, told = await page.ask(path, "stranger")
            assert (status, "may not list nodehealthchecks" in told["error"]) == (403, True)
        assert (await page.ask("me", "looker"))[1]["user"] == f"{ACCOUNT}looker"
        assert (await page.board("looker"))["states"]
        assert (await page.ask("pause", "looker", {}))[0] == 403
        async with aiohttp.ClientSession() as session, session.get(page.address) as answer:
            assert answer.status == 200, "the page itself holds nothing"

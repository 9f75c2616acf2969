"""Agents on a real API server, each with a token that is bound to its own pod: what it opens, and what it does not."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
import yaml

from defib.agent.lease import Leases
from defib.clock import SystemClock
from defib.kube.client import Client, Deletion, Merge
from defib.kube.errors import Forbidden
from defib.kube.kinds import LEASES, NODES, PODS
from defib.model.node import ZONE_LABEL
from defib.model.self_fence import ORDER, Order, lease_name, text_of
from testbed.chart import WITH_AGENTS, render
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from testbed.settings import Settings
from tests.contract.api_server.steps import eventually, raw
from tests.security.people import PATIENCE_SECONDS, a_client, apply, may, refusal
from tests.security.roles import Asked
from tests.unit.decide.self_fence.test_safe_time import REPORTED

pytestmark = [pytest.mark.real, pytest.mark.timeout(60, func_only=True), pytest.mark.asyncio(loop_scope="module")]

HOME = "defib-system"
TOKENS = f"/api/v1/namespaces/{HOME}/serviceaccounts/{{}}/token"
ORDERED = {ORDER: text_of(Order(remediation="r", boot_id="b"))}
NODE_NAMES = ("w1", "w2")
WRITES = ("create", "update", "patch", "delete", "deletecollection")


class Site(msgspec.Struct, frozen=True):
    """`agents` by the node of their pods; `unbound` has the account of agents by a token of no pod."""

    admin: Client
    operator: Client
    agents: dict[str, Client]
    unbound: Client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(programs: Programs, helm: Path) -> AsyncIterator[Site]:
    async with ControlPlane(programs, Settings(api_only=True)) as plane, AsyncExitStack() as stack:
        admin = await a_client(plane.kubeconfig)
        stack.push_async_callback(admin.close)
        manifest = plane.directory / "with-agents.yaml"
        manifest.write_text(render(helm, {**WITH_AGENTS, "namespace.create": True}))
        await apply(plane, manifest)

        async def logged_in(account: str, name: str, **spec: Any) -> Client:
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
            given = await raw(admin, "POST", TOKENS.format(account), body)
            config = yaml.safe_load(plane.kubeconfig.read_text())
            config["users"] = [{"name": one["name"], "user": given["status"]} for one in config["users"]]
            path = plane.directory / f"{name}.kubeconfig"
            path.write_text(yaml.safe_dump(config))
            client = await a_client(path)
            stack.push_async_callback(client.close)
            return client

        agents = {
            node: await logged_in("defib-agent", node, boundObjectRef=await pod_on(admin, node)) for node in NODE_NAMES
        }
        operator, unbound = await logged_in("defib", "operator"), await logged_in("defib-agent", "unbound")
        site = Site(admin, operator, agents, unbound)
        await until_in_force(site)
        yield site


async def pod_on(admin: Client, node: str) -> dict[str, str]:
    """As the DaemonSet would have one there. What a token is bound to."""
    await admin.create(NODES, {"metadata": {"name": node, "labels": {ZONE_LABEL: f"zone-of-{node}"}}})
    spec = {
        "nodeName": node,
        "serviceAccountName": "defib-agent",
        "hostNetwork": True,
        "containers": [
            {"name": "agent", "image": "example.com/defib", "securityContext": {"privileged": True}},
        ],
    }
    pod = await admin.create(PODS, {"metadata": {"name": f"defib-agent-{node}"}, "spec": spec}, namespace=HOME)
    return {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}


async def until_in_force(site: Site) -> None:
    """The API server learns of roles and policies by watches."""
    asked = Asked("patch", "leases.coordination.k8s.io", namespace=HOME)
    for client in (site.operator, *site.agents.values()):
        await eventually(partial(may, client, asked), within=PATIENCE_SECONDS)

    async def policy_holds() -> bool:
        tried = raw(site.unbound, "POST", LEASES.collection(HOME), a_lease("x"), dryRun="All")
        return "of its own node alone" in await refusal(tried)

    await eventually(policy_holds, within=PATIENCE_SECONDS)


def a_lease(name: str, **annotations: str) -> dict[str, Any]:
    meta = {"name": name, "annotations": annotations}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": {"holderIdentity": name}}


def agent_of(site: Site, node: str) -> Leases:
    """As the program of the agent asks."""
    return Leases(site.agents[node], HOME, node, 5.0, SystemClock())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def renewed(site: Site) -> Site:
    """Both agents have spoken."""
    for node in NODE_NAMES:
        await agent_of(site, node).renew(REPORTED)
    return site


async def test_an_agent_makes_and_renews_the_lease_of_its_own_node(renewed: Site) -> None:
    lease = await agent_of(renewed, "w1").renew(msgspec.structs.replace(REPORTED, steady_seconds=7))
    assert lease.name == lease_name("w1")
    assert [one.name for one in await agent_of(renewed, "w1").all()] == [lease_name(node) for node in NODE_NAMES]
    assert await agent_of(renewed, "w1").domain() == "zone-of-w1"


async def test_an_agent_writes_no_lease_of_another_node(renewed: Site) -> None:
    agent = renewed.agents["w1"]
    with pytest.raises(Forbidden, match="here defib-agent-w1"):
        await agent.patch(LEASES.at(lease_name("w2"), HOME), Merge({"spec": {"holderIdentity": "w1"}}))
    with pytest.raises(Forbidden, match="here defib-agent-w1"):
        await agent.create(LEASES, a_lease(lease_name("w3")), namespace=HOME)


async def test_an_agent_does_not_say_who_leads(renewed: Site) -> None:
    agent = renewed.agents["w1"]
    await renewed.operator.create(LEASES, a_lease("defib-leader"), namespace=HOME)
    with pytest.raises(Forbidden, match="of its own node alone"):
        await agent.patch(LEASES.at("defib-leader", HOME), Merge({"spec": {"holderIdentity": "w1"}}))
    for name in ("defib-bucket-1", "defib-member-1"):
        with pytest.raises(Forbidden, match="of its own node alone"):
            await agent.create(LEASES, a_lease(name), namespace=HOME)


async def test_an_order_is_the_operators_to_write_and_to_take_back(renewed: Site) -> None:
    ref = LEASES.at(lease_name("w1"), HOME)
    ordered = await renewed.operator.patch(ref, Merge({"metadata": {"annotations": ORDERED}}))
    assert ordered.annotations.items() >= ORDERED.items()
    renewal = await agent_of(renewed, "w1").renew(msgspec.structs.replace(REPORTED, steady_seconds=8))
    assert renewal.annotations.items() >= ORDERED.items(), "an agent goes on to report, and reads it"
    for words in (None, "another"):
        with pytest.raises(Forbidden, match="do not write it or take it away"):
            await renewed.agents["w1"].patch(ref, Merge({"metadata": {"annotations": {ORDER: words}}}))
    left = await renewed.operator.patch(ref, Merge({"metadata": {"annotations": {ORDER: None}}}))
    assert ORDER not in left.annotations


async def test_an_agent_orders_nobody_to_die_neither_itself(renewed: Site) -> None:
    for node in NODE_NAMES:
        with pytest.raises(Forbidden):
            await renewed.agents["w1"].patch(
                LEASES.at(lease_name(node), HOME), Merge({"metadata": {"annotations": ORDERED}})
            )


async def test_a_person_with_the_right_may_order_by_hand(renewed: Site) -> None:
    ref = LEASES.at(lease_name("w2"), HOME)
    assert ORDER in (await renewed.admin.patch(ref, Merge({"metadata": {"annotations": ORDERED}}))).annotations
    await renewed.admin.patch(ref, Merge({"metadata": {"annotations": {ORDER: None}}}))


async def test_an_agent_takes_no_lease_away_its_own_neither(renewed: Site) -> None:
    for node in NODE_NAMES:
        lease = await renewed.admin.get(LEASES.at(lease_name(node), HOME))
        with pytest.raises(Forbidden):
            await renewed.agents["w1"].delete(LEASES.of(lease), Deletion(uid=lease.uid))


async def test_a_token_of_agents_that_is_bound_to_no_pod_writes_nothing(renewed: Site) -> None:
    for request in (
        renewed.unbound.patch(LEASES.at(lease_name("w1"), HOME), Merge({"spec": {"holderIdentity": "w1"}})),
        renewed.unbound.create(LEASES, a_lease(lease_name("w3")), namespace=HOME),
    ):
        with pytest.raises(Forbidden, match="this token names no node"):
            await request


async def test_an_agent_reads_nodes_by_name_and_the_leases_of_its_namespace_and_does_nothing_else(
    renewed: Site,
) -> None:
    agent = renewed.agents["w1"]
    tried = [
        Asked(verb, what, namespace=place)
        for what in ("pods", "secrets", "configmaps", "nodeincidents.defib.dev", "selffenceremediations.defib.dev")
        for verb in ("get", "list", *WRITES)
        for place in (HOME, "default")
    ]
    tried += [Asked(verb, "nodes") for verb in ("list", "watch", *WRITES)]
    tried += [Asked("patch", "nodes", "status")]
    tried += [
        Asked(verb, "leases.coordination.k8s.io", namespace=place)
        for place in ("kube-node-lease", "medik8s-leases")
        for verb in ("get", "list", *WRITES)
    ]
    assert [str(one) for one in tried if await may(agent, one)] == []
    assert (await agent.get(NODES.at("w2"))).name == "w2"


async def test_with_agents_the_operator_may_order_and_tell_of_it(renewed: Site) -> None:
    kinds = ("selffenceremediations.defib.dev", "selffenceremediationtemplates.defib.dev")
    wanted = [Asked("patch", kind, "status", HOME) for kind in kinds]
    wanted += [Asked(verb, kind, namespace=HOME) for kind in kinds for verb in ("get", "list", "watch")]
    wanted += [Asked("create", kinds[1], namespace=HOME), Asked("patch", kinds[0], namespace=HOME)]
    assert [str(one) for one in wanted if not await may(renewed.operator, one)] == []
    tried = [Asked(verb, kinds[1], namespace=HOME) for verb in ("update", "patch", "delete")]
    tried += [Asked("create", "podfailoverremediationtemplates.defib.dev", namespace=HOME)]
    assert [str(one) for one in tried if await may(renewed.operator, one)] == []

"""The threat model on a real API server with its usual authorizers: each who tries gets what the page says, and no more."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from defib.kube.client import Client, Deletion, Merge
from defib.kube.errors import Forbidden, NotFound
from defib.kube.kinds import LEASES, NAMESPACES, NODE_HEALTH_CHECKS, NODE_INCIDENTS, NODES, PODS, unstructured
from defib.model.node import OUT_OF_SERVICE
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from testbed.settings import Settings, TokenUser
from tests.check_corpus import a_check, simple
from tests.contract.api_server.steps import eventually, raw
from tests.e2e.audit import ACCOUNT
from tests.failover_corpus import SEED, a_policy
from tests.security.people import PATIENCE_SECONDS, a_client, apply, may, refusal
from tests.security.roles import Asked

pytestmark = [pytest.mark.real, pytest.mark.timeout(60, func_only=True), pytest.mark.asyncio(loop_scope="module")]

HOME, SHOP, LOCKS = "defib-system", "shop", "medik8s-leases"
KUBELET, OTHER_KUBELET = "system:node:w1", "system:node:w2"
OWNER, NOBODY, POWER = "owner", "nobody", "power"
INSTALL = Path(__file__).parents[2] / "deploy" / "install.yaml"
SECRETS = unstructured("", "v1", "secrets", "Secret", namespaced=True)
POLICIES = unstructured("defib.dev", "v1alpha1", "podfailoverpolicies", "PodFailoverPolicy", namespaced=True)
POWER_CYCLES = unstructured("defib.dev", "v1alpha1", "powercycleremediations", "PowerCycleRemediation", namespaced=True)
BINDINGS = unstructured("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", namespaced=True)
TOKEN = f"/api/v1/namespaces/{HOME}/serviceaccounts/defib/token"

REMEDIATIONS = ("powercycleremediation", "podfailoverremediation", "selffenceremediation")
OURS = (*(f"{name}{part}" for name in REMEDIATIONS for part in ("s", "templates")), "nodeincidents")
OF_THE_CLUSTER = (
    *(f"{name}.defib.dev" for name in (*OURS, "drainpolicies", "nodedrains")),
    "nodehealthchecks.remediation.medik8s.io",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
)
WRITES = ("create", "update", "patch", "delete", "deletecollection")


class People(msgspec.Struct, frozen=True):
    admin: Client
    by_name: dict[str, Client]

    def __getitem__(self, name: str) -> Client:
        return self.by_name[name]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def people(programs: Programs) -> AsyncIterator[People]:
    nodes = tuple(TokenUser(name, ("system:nodes",)) for name in (KUBELET, OTHER_KUBELET))
    others = tuple(TokenUser(name) for name in (ACCOUNT, OWNER, NOBODY, POWER))
    usual = ("--authorization-mode=Node", "--enable-admission-plugins=NodeRestriction")
    alone = ("--controllers=*,-node-lifecycle-controller",)  # nobody else says how nodes are
    settings = Settings(token_users=(*nodes, *others), apiserver=usual, controller_manager=alone)
    async with ControlPlane(programs, settings) as plane, AsyncExitStack() as stack:
        await plane.wait_for_namespace("default")
        admin = await a_client(plane.kubeconfig)
        stack.push_async_callback(admin.close)
        await apply(plane, INSTALL)
        clients = {}
        for user in (*nodes, *others):
            clients[user.name] = await a_client(plane.token_kubeconfig(user.name))
            stack.push_async_callback(clients[user.name].close)
        people = People(admin, clients)
        await furnish(people)
        yield people


async def furnish(people: People) -> None:
    admin = people.admin
    await admin.create(NAMESPACES, {"metadata": {"name": SHOP}})
    await admin.create(SECRETS, {"metadata": {"name": "bmc-w1"}}, namespace=HOME)
    for name, role, place in ((OWNER, "admin", SHOP), (POWER, "defib-power-cycle", HOME)):
        await admin.create(BINDINGS, binding(name, role), namespace=place)
    for name in ("w1", "w2"):
        await admin.create(NODES, {"metadata": {"name": name}, "spec": {"taints": [OUT]} if name == "w1" else {}})
    for name in (KUBELET, OTHER_KUBELET):
        await eventually(partial(may, people[name], Asked("patch", "nodes")), within=PATIENCE_SECONDS)
    marked = {"metadata": {"name": "w1", "annotations": {"defib.dev/drain": "mine"}}}

    async def policies_hold() -> bool:
        return "for people" in await refusal(people[KUBELET].create(NODES, marked))

    await eventually(policies_hold, within=PATIENCE_SECONDS)
    for who, asked in IN_FORCE:
        await eventually(partial(may, people[who], asked), within=PATIENCE_SECONDS)


OUT = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
IN_FORCE = (
    (OWNER, Asked("create", "secrets", namespace=SHOP)),
    (OWNER, Asked("deletecollection", "podfailoverpolicies.defib.dev", namespace=SHOP)),
    (POWER, Asked("create", "powercycleremediations.defib.dev", namespace=HOME)),
    (ACCOUNT, Asked("create", "events", namespace="default")),
)


def binding(name: str, role: str) -> dict[str, Any]:
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}
    ref = {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": role}
    return {"metadata": {"name": name}, "roleRef": ref, "subjects": [subject]}


async def allowed(client: Client, asked: list[Asked]) -> list[str]:
    return [str(one) for one in asked if await may(client, one)]


# Who owns a namespace


async def test_who_owns_a_namespace_asks_for_failover_there_and_for_nothing_that_is_for_nodes(people: People) -> None:
    owner = people[OWNER]
    tried = [Asked(verb, what, namespace=SHOP) for what in OF_THE_CLUSTER for verb in (*WRITES, "get", "list", "watch")]
    assert await allowed(owner, tried) == []
    for place in (HOME, LOCKS, "kube-node-lease"):
        tried = [Asked(verb, what, namespace=place) for what in PRIVATE for verb in ("get", "list", *WRITES)]
        assert await allowed(owner, tried) == []


PRIVATE = (
    "secrets",
    "configmaps",
    "pods",
    "leases.coordination.k8s.io",
    "serviceaccounts",
    "podfailoverpolicies.defib.dev",
)


async def test_who_owns_a_namespace_cannot_make_the_account_work_for_them(people: People) -> None:
    """Neither by running as it, nor by a token of it, nor by giving themselves its roles."""
    owner = people[OWNER]
    assert await refusal(raw(owner, "POST", TOKEN, token_request()))
    ref = binding(OWNER, "defib-power") | {"metadata": {"name": "more"}}
    with pytest.raises(Forbidden, match="attempting to grant RBAC permissions not currently held"):
        await owner.create(BINDINGS, ref, namespace=SHOP)


# A node's own credentials


async def test_a_stolen_kubelet_speaks_for_its_own_node_and_for_no_other(people: People) -> None:
    kubelet = people[KUBELET]
    ready = Merge({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    await kubelet.patch(NODES.at("w1"), ready, subresource="status")
    for request in (
        kubelet.patch(NODES.at("w2"), ready, subresource="status"),
        kubelet.patch(NODES.at("w2"), Merge({"metadata": {"annotations": {"a": "b"}}})),
        kubelet.create(
            LEASES, {"metadata": {"name": "w2"}, "spec": {"holderIdentity": "w2"}}, namespace="kube-node-lease"
        ),
    ):
        with pytest.raises(Forbidden):
            await request


async def test_a_stolen_kubelet_cannot_take_our_taint_off_nor_delete_its_node(people: People) -> None:
    kubelet = people[KUBELET]
    with pytest.raises(Forbidden, match="taints"):
        await kubelet.patch(NODES.at("w1"), Merge({"spec": {"taints": None}}))
    node = await people.admin.get(NODES.at("w1"))
    with pytest.raises(Forbidden):
        await kubelet.delete(NODES.at("w1"), Deletion(uid=node.uid))


async def test_a_stolen_kubelet_cannot_lock_approve_confirm_or_ask_for_anything(people: People) -> None:
    kubelet = people[KUBELET]
    tried = [Asked(verb, what, namespace=HOME) for what in OF_THE_CLUSTER for verb in WRITES]
    assert await allowed(kubelet, tried) == []
    for place in (LOCKS, HOME):
        with pytest.raises(Forbidden):
            await kubelet.create(LEASES, {"metadata": {"name": "node-w2"}, "spec": {}}, namespace=place)
    for key in ("defib.dev/approved-until", "defib.dev/drain", "defib.dev/out-of-service-since"):
        with pytest.raises(Forbidden, match="for people and for Defib"):
            await kubelet.patch(NODES.at("w1"), Merge({"metadata": {"annotations": {key: "2999-01-01T00:00:00Z"}}}))


async def test_a_stolen_kubelet_cannot_choose_the_bmc_that_answers_for_it(people: People) -> None:
    """Of the labels of a node only these may stand in the address or the credentials of a BMC."""
    with pytest.raises(Forbidden, match="node-restriction"):
        await people[KUBELET].patch(
            NODES.at("w1"), Merge({"metadata": {"labels": {"node-restriction.kubernetes.io/bmc": "mine"}}})
        )


async def test_a_stolen_kubelet_reads_no_login_of_a_bmc(people: People) -> None:
    for kubelet in (people[KUBELET], people[OTHER_KUBELET]):
        with pytest.raises(Forbidden):
            await kubelet.get(SECRETS.at("bmc-w1", HOME))
        with pytest.raises(Forbidden):
            await kubelet.list_all(SECRETS)


async def test_the_kubelet_under_a_replica_can_be_the_replica_and_no_other_kubelet_can(people: People) -> None:
    """So where replicas run matters: a node on which one runs is as much to be trusted as Defib itself."""
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "example.com/c"}],
        "serviceAccountName": "defib",
        "nodeName": "w2",
    }
    spec["automountServiceAccountToken"] = True  # as the Deployment has it
    pod = await people.admin.create(PODS, {"metadata": {"name": "defib-0"}, "spec": safe(spec)}, namespace=HOME)
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
    with pytest.raises(Forbidden):
        await raw(people[KUBELET], "POST", TOKEN, token_request(boundObjectRef=bound))

    async def is_given() -> bool:
        return not await refusal(raw(people[OTHER_KUBELET], "POST", TOKEN, token_request(boundObjectRef=bound)))

    await eventually(is_given, within=PATIENCE_SECONDS)


def token_request(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}


def safe(spec: dict[str, Any]) -> dict[str, Any]:
    """As the restricted Pod Security standard asks for it."""
    (container,) = spec["containers"]
    limits = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    whole = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    return spec | {"containers": [container | {"securityContext": limits}], "securityContext": whole}


# The token of Defib itself


async def test_a_stolen_token_of_defib_runs_nothing_and_reads_no_secrets_but_logins_of_bmcs(people: People) -> None:
    defib = people[ACCOUNT]
    tried = [
        Asked(verb, what, namespace=place)
        for what in ("pods", "secrets")
        for verb in ("create", "update")
        for place in (SHOP, HOME)
    ]
    tried += [Asked(verb, "secrets", namespace=SHOP) for verb in ("get", "list", "watch")]
    tried += [Asked(verb, "secrets", namespace=HOME) for verb in ("list", "watch", *WRITES)]
    tried += [Asked("create", "pods", part, SHOP) for part in ("exec", "attach", "portforward", "ephemeralcontainers")]
    tried += [Asked(verb, "nodes", "proxy") for verb in ("get", "create")]
    assert await allowed(defib, tried) == []
    assert (await defib.get(SECRETS.at("bmc-w1", HOME))).name == "bmc-w1"


async def test_a_stolen_token_of_defib_cannot_be_made_into_more(people: People) -> None:
    defib = people[ACCOUNT]
    rbac = ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
    tried = [
        Asked(verb, f"{what}.rbac.authorization.k8s.io") for what in rbac for verb in (*WRITES, "bind", "escalate")
    ]
    tried += [Asked("impersonate", what) for what in ("users", "groups", "serviceaccounts")]
    tried += [Asked("create", "serviceaccounts", "token", place) for place in (HOME, "kube-system")]
    tried += [Asked(verb, f"{what}.admissionregistration.k8s.io") for what in ADMISSION for verb in WRITES]
    tried += [Asked(verb, "customresourcedefinitions.apiextensions.k8s.io") for verb in WRITES]
    tried += [Asked("create", "certificatesigningrequests.certificates.k8s.io")]
    assert await allowed(defib, tried) == []


ADMISSION = (
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
)


async def test_a_stolen_token_of_defib_changes_no_policy_and_no_check(people: People) -> None:
    policy = await people.admin.create(POLICIES, a_policy(SEED, "theirs"), namespace=SHOP)
    check = await people.admin.create(NODE_HEALTH_CHECKS, a_check(simple(), "theirs"))
    for request in (
        people[ACCOUNT].patch(POLICIES.of(policy), Merge({"spec": {"acceptedProofs": ["None"]}})),
        people[ACCOUNT].patch(NODE_HEALTH_CHECKS.of(check), Merge({"spec": {"mode": "Automatic"}})),
        people[ACCOUNT].delete(NODE_HEALTH_CHECKS.of(check), Deletion(uid=check.uid)),
    ):
        with pytest.raises(Forbidden):
            await request


# Who may write our own kinds


async def test_who_may_ask_for_power_cycles_sees_no_login_and_confirms_nothing(people: People) -> None:
    power = people[POWER]
    body = {"metadata": {"name": "w2"}, "spec": {"power": {"driver": "manual"}}}
    made = await power.create(POWER_CYCLES, body, namespace=HOME)
    await power.delete(POWER_CYCLES.of(made), Deletion(uid=made.uid))
    tried = [Asked(verb, "secrets", namespace=HOME) for verb in ("get", "list", *WRITES)]
    tried += [Asked(verb, "nodeincidents.defib.dev") for verb in WRITES]
    tried += [Asked("patch", "powercycleremediations.defib.dev", "status", HOME), Asked("patch", "nodes")]
    tried += [Asked("create", "powercycleremediations.defib.dev", namespace=SHOP)]
    assert await allowed(power, tried) == []


async def test_nobody_without_rights_reads_or_writes_anything_of_ours(people: People) -> None:
    tried = [
        Asked(verb, what, namespace=HOME) for what in (*OF_THE_CLUSTER, *PRIVATE) for verb in ("get", "list", *WRITES)
    ]
    assert await allowed(people[NOBODY], tried) == []
    with pytest.raises(Forbidden):
        await people[NOBODY].get(NODE_INCIDENTS.at("w1"))
    with pytest.raises(NotFound):
        await people.admin.get(NODE_INCIDENTS.at("w1"))

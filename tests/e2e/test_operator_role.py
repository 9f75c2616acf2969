"""deploy/install.yaml on a real API server: its account may do what the operator does, and exactly that."""

import asyncio
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from defib.clock import SystemClock
from defib.kube.client import Client, Deletion, JsonPatch, Merge, Scope
from defib.kube.errors import Forbidden
from defib.kube.http import connect
from defib.kube.kinds import (
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODE_HEALTH_CHECKS,
    NODES,
    Kind,
    metadata_only,
    unstructured,
)
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from testbed.settings import Settings, TokenUser
from tests.check_corpus import a_check, simple
from tests.contract.api_server.steps import eventually, raw
from tests.failover_corpus import EV_12, SEED, a_policy

pytestmark = [pytest.mark.real, pytest.mark.timeout(90, func_only=True), pytest.mark.asyncio(loop_scope="module")]

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFEST = DEPLOY / "install.yaml"
PATIENCE_SECONDS = 20.0
CLUSTER_ROLES = unstructured("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
SECRETS = unstructured("", "v1", "secrets", "Secret", namespaced=True)
PODS = unstructured("", "v1", "pods", "Pod", namespaced=True)
CLAIMS = unstructured("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True)
ATTACHMENTS = unstructured("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False)
POLICIES = unstructured("defib.dev", "v1alpha1", "podfailoverpolicies", "PodFailoverPolicy", namespaced=True)
BUDGETS = unstructured("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
ROLE_BINDINGS = unstructured("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", namespaced=True)

READ = "get list watch"
WRITE = "create patch delete"
VERBS = f"{READ} {WRITE} update deletecollection bind escalate impersonate".split()
PLACES = ("", "default", "defib-system", "medik8s-leases", "kube-node-lease", "kube-system")

# A team, and which of the roles that Kubernetes ships each has in the namespace of its application. They have no others.
SHOP = "shop"
TEAM = {"viewer": "view", "editor": "edit", "owner": "admin"}

# Everywhere, whatever the namespace.
ANYWHERE = {
    "nodes": f"{READ} patch delete",
    "pods": f"{READ} patch delete",
    "pods/status": "patch",
    "pods/eviction": "create",
    "persistentvolumeclaims": "get",
    "volumeattachments.storage.k8s.io": f"{READ} delete",
    "events": "create",
    "namespaces": "create",
    "nodehealthchecks.remediation.medik8s.io": f"{READ} create",
    "nodehealthchecks/status.remediation.medik8s.io": "patch",
    "podfailoverpolicies.defib.dev": READ,
    "podfailoverpolicies/status.defib.dev": "patch",
    "drainpolicies.defib.dev": READ,
    "drainpolicies/status.defib.dev": "patch",
    "nodedrains.defib.dev": f"{READ} create delete",
    "nodedrains/status.defib.dev": "patch",
    "podfailoverremediationtemplates.defib.dev": f"{READ} create",
    "podfailoverremediations.defib.dev": f"{READ} {WRITE} update",
    "podfailoverremediations/status.defib.dev": "patch",
    "nodeincidents.defib.dev": f"{READ} create delete",
    "nodeincidents/status.defib.dev": "patch",
    "powercycleremediationtemplates.defib.dev": READ,
    "powercycleremediationtemplates/status.defib.dev": "patch",
    "powercycleremediations.defib.dev": f"{READ} {WRITE} update",
    "powercycleremediations/status.defib.dev": "patch",
    **dict.fromkeys(("selffenceremediations.defib.dev", "selffenceremediationtemplates.defib.dev"), READ),
    **dict.fromkeys(("poddisruptionbudgets.policy", "daemonsets.apps", "jobs.batch", "plans.upgrade.cattle.io"), READ),
    **dict.fromkeys(("clusterversions.config.openshift.io", "infrastructures.config.openshift.io"), READ),
    **dict.fromkeys(("machinehealthchecks.machine.openshift.io", "machines.machine.openshift.io"), READ),
    "machineconfigpools.machineconfiguration.openshift.io": READ,
    "upgradeconfigs.upgrade.managed.openshift.io": READ,
    "nodeclaims.karpenter.sh": READ,
    **dict.fromkeys(("machines.cluster.x-k8s.io", "machinedeployments.cluster.x-k8s.io"), READ),
    "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io": READ,
}
# In one namespace alone.
THERE = {
    ("medik8s-leases", "leases.coordination.k8s.io"): f"{READ} {WRITE}",
    ("kube-node-lease", "leases.coordination.k8s.io"): READ,
    ("defib-system", "leases.coordination.k8s.io"): f"get list {WRITE}",
    ("defib-system", "configmaps"): READ,
    ("defib-system", "secrets"): "get",
}
# What an intruder would like.
NEVER = (
    *("serviceaccounts", "serviceaccounts/token", "users", "groups", "services", "persistentvolumes"),
    *("nodes/status", "nodes/proxy", "pods/exec", "pods/finalizers", "pods/log", "namespaces/finalize"),
    *("deployments.apps", "statefulsets.apps", "daemonsets/status.apps", "jobs/status.batch", "events.events.k8s.io"),
    *("roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io"),
    *("clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io"),
    *("customresourcedefinitions.apiextensions.k8s.io", "volumeattachments/status.storage.k8s.io"),
    *("persistentvolumeclaims/status", "podfailoverpolicies/finalizers.defib.dev"),
    *("drainpolicies/finalizers.defib.dev", "poddisruptionbudgets/status.policy", "nodeclaims/status.karpenter.sh"),
    *("validatingadmissionpolicies.admissionregistration.k8s.io", "certificatesigningrequests.certificates.k8s.io"),
    *("machines/status.machine.openshift.io", "kubeadmcontrolplanes/status.controlplane.cluster.x-k8s.io"),
    # Those come with agent.enabled, election=endpoints and features.metal3 of the chart, for whoever wants them.
    *("selffenceremediations/status.defib.dev", "selffenceremediationtemplates/status.defib.dev"),
    *("endpoints", "endpointslices.discovery.k8s.io"),
    *("baremetalhosts.metal3.io", "metal3machines.infrastructure.cluster.x-k8s.io"),
    *("metal3remediations.infrastructure.cluster.x-k8s.io", "machinehealthchecks/status.machine.openshift.io"),
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs) -> AsyncIterator[ControlPlane]:
    """With its controllers: one of them adds up the rights that remediators bring along, and those of teams."""
    settings = Settings(token_users=tuple(TokenUser(name) for name in TEAM))
    async with ControlPlane(programs, settings) as cluster:
        await cluster.wait_for_namespace("default")
        assert "Warning" not in await applied(cluster), "the pod breaks the rules of its namespace"
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin(cluster: ControlPlane) -> AsyncIterator[Client]:
    client = await a_client(cluster.kubeconfig)
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
    # Roles come into force by a watch of the API server, and aggregated ones by a controller before.
    await eventually(lambda: may(client, "create", "podfailoverremediations.defib.dev", ""), within=PATIENCE_SECONDS)
    await eventually(lambda: may(client, "create", "events", "default"), within=PATIENCE_SECONDS)
    yield client
    await client.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def team(cluster: ControlPlane, admin: Client) -> AsyncIterator[dict[str, Client]]:
    await admin.create(NAMESPACES, {"metadata": {"name": SHOP}})
    team = {name: await a_client(cluster.token_kubeconfig(name)) for name in TEAM}
    for name, client in team.items():
        subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}
        role = {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": TEAM[name]}
        binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
        await admin.create(ROLE_BINDINGS, binding, namespace=SHOP)
        verb = "watch" if name == "viewer" else "deletecollection"
        await eventually(partial(may, client, verb, "podfailoverpolicies.defib.dev", SHOP), within=PATIENCE_SECONDS)
    yield team
    for client in team.values():
        await client.close()


async def a_client(kubeconfig: Path) -> Client:
    clock = SystemClock()
    return Client(await connect(kubeconfig, None, {}, clock), clock)


async def applied(cluster: ControlPlane) -> str:
    process = await asyncio.create_subprocess_exec(
        cluster.kubectl, f"--kubeconfig={cluster.kubeconfig}", "apply", "-f", str(MANIFEST), stdout=PIPE, stderr=STDOUT
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    return said.decode()


async def may(client: Client, verb: str, what: str, namespace: str) -> bool:
    """What the API server says when the account asks about itself."""
    resource, _, group = what.partition(".")
    resource, _, subresource = resource.partition("/")
    asked = {"verb": verb, "resource": resource, "subresource": subresource, "group": group, "namespace": namespace}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    review = await raw(client, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    allowed: bool = review["status"]["allowed"]
    return allowed


async def test_no_rule_is_a_wildcard(operator: Client) -> None:
    """As the API server adds them up for the account, whoever they came from."""
    for place in PLACES[1:]:
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": place},
        }
        review = await raw(operator, "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", body)
        rules = review["status"]["resourceRules"]
        assert len(rules) >= len(ANYWHERE)
        assert [rule for rule in rules if any("*" in word for words in rule.values() for word in words)] == []


async def test_the_account_may_do_what_the_operator_does_and_exactly_that(operator: Client) -> None:
    asked = [*ANYWHERE, *{what for _, what in THERE}, *NEVER]
    wrong = []
    for place in PLACES:
        for what in asked:
            wanted = f"{ANYWHERE.get(what, '')} {THERE.get((place, what), '')}".split()
            allowed = {verb: await may(operator, verb, what, place) for verb in VERBS}
            wrong += [
                f"{verb} {what} in {place!r}: {told}" for verb, told in allowed.items() if told != (verb in wanted)
            ]
    assert wrong == []


async def test_applying_the_manifest_again_changes_nothing(
    cluster: ControlPlane, admin: Client, operator: Client
) -> None:
    said = dict(line.rsplit(" ", 1) for line in (await applied(cluster)).splitlines())
    # Of a budget kubectl sends the selector each time, although it is the same; the API server sees that it is.
    del said["poddisruptionbudget.policy/defib"]
    assert set(said.values()) == {"unchanged"}
    budget = await raw(admin, "GET", BUDGETS.at("defib", "defib-system").path())
    assert budget["metadata"]["generation"] == 1
    assert await may(operator, "create", "podfailoverremediations.defib.dev", "defib-system")


async def test_a_remediator_brings_its_own_rights_along(admin: Client, operator: Client) -> None:
    assert not await may(operator, "create", "reboots.example.com", "")
    rule = {"apiGroups": ["example.com"], "resources": ["reboots"], "verbs": ["create"]}
    labels = {"rbac.ext-remediation/aggregate-to-ext-remediation": "true"}
    await admin.create(CLUSTER_ROLES, {"metadata": {"name": "rebooter", "labels": labels}, "rules": [rule]})
    await eventually(lambda: may(operator, "create", "reboots.example.com", ""))


async def test_the_operator_can_report_on_checks(admin: Client, operator: Client) -> None:
    check = await operator.create(NODE_HEALTH_CHECKS, a_check(simple(), "nhc-worker-default"))
    version = {"uid": check.uid, "resourceVersion": check.metadata.resource_version}
    patch = Merge({"metadata": version, "status": {"phase": "Enabled"}})
    check = await operator.patch(NODE_HEALTH_CHECKS.of(check), patch, subresource="status")
    assert check.status == {"phase": "Enabled"}
    about = {"apiVersion": NODE_HEALTH_CHECKS.api_version, "kind": "NodeHealthCheck", "name": check.name}
    event = {"metadata": {"name": "e1"}, "involvedObject": about, "reason": "Enabled", "type": "Normal"}
    await operator.create(EVENTS, event, namespace="default")
    assert (await admin.get(EVENTS.at("e1", "default"))).name == "e1"
    with pytest.raises(Forbidden):
        await operator.patch(NODE_HEALTH_CHECKS.of(check), Merge({"spec": {"mode": "Observe"}}))
    with pytest.raises(Forbidden):
        await operator.delete(NODE_HEALTH_CHECKS.of(check), Deletion(uid=check.uid))


async def test_the_operator_can_write_to_a_node_and_not_say_how_it_is(admin: Client, operator: Client) -> None:
    key = "defib.dev/approved-until"
    node = await admin.create(NODES, {"metadata": {"name": "n1", "annotations": {key: "2030-01-01T00:00:00Z"}}})
    path = f"/metadata/annotations/{key.replace('/', '~1')}"
    node = await operator.patch(NODES.of(node), JsonPatch([{"op": "remove", "path": path}]))
    assert key not in node.annotations
    with pytest.raises(Forbidden):
        await operator.patch(NODES.of(node), Merge({"status": {"phase": "Terminated"}}), subresource="status")


async def test_credentials_are_read_by_name_in_one_namespace(admin: Client, operator: Client) -> None:
    for namespace in ("defib-system", "default"):
        await admin.create(SECRETS, {"metadata": {"name": "bmc-n1"}}, namespace=namespace)
    assert (await operator.get(SECRETS.at("bmc-n1", "defib-system"))).name == "bmc-n1"
    with pytest.raises(Forbidden):
        await operator.get(SECRETS.at("bmc-n1", "default"))


async def test_the_health_check_operator_of_medik8s_could_drive_our_remediators(admin: Client) -> None:
    """It is given what roles with its label allow, and needs no more than these two rules."""
    labelled = Scope(labels="rbac.ext-remediation/aggregate-to-ext-remediation=true")
    roles = [await raw(admin, "GET", CLUSTER_ROLES.of(role).path()) for role in await listed(admin, labelled)]
    rules = [rule for role in roles for rule in role["rules"] if "defib.dev" in rule["apiGroups"]]
    for remediator in ("podfailover", "powercycle"):
        look, work = (_verbs(rules, f"{remediator}{what}") for what in ("remediationtemplates", "remediations"))
        assert {"get", "list", "watch"} <= look
        assert {"get", "list", "watch", "create", "update", "patch", "delete"} <= work


async def listed(admin: Client, scope: Scope) -> list[Any]:
    return (await admin.list_all(CLUSTER_ROLES, scope)).items


def _verbs(rules: list[dict[str, list[str]]], resource: str) -> set[str]:
    return {verb for rule in rules if resource in rule["resources"] for verb in rule["verbs"]}


async def test_the_operator_can_lock_nodes_and_touches_no_heartbeat(admin: Client, operator: Client) -> None:
    locks = "medik8s-leases"
    spec = {"holderIdentity": "NodeHealthCheck-c", "leaseDurationSeconds": 660}
    lock = await operator.create(LEASES, {"metadata": {"name": "node-n1"}, "spec": spec}, namespace=locks)
    lock = await operator.patch(LEASES.of(lock), Merge({"spec": {"leaseDurationSeconds": 900}}))
    assert [one.name for one in (await operator.list_all(LEASES, Scope(namespace=locks))).items] == ["node-n1"]
    await operator.delete(LEASES.of(lock), Deletion(uid=lock.uid))
    heartbeat = await admin.create(LEASES, {"metadata": {"name": "n1"}, "spec": spec}, namespace="kube-node-lease")
    assert (await operator.get(LEASES.of(heartbeat))).uid == heartbeat.uid
    with pytest.raises(Forbidden):
        await operator.delete(LEASES.of(heartbeat), Deletion(uid=heartbeat.uid))


async def test_the_operator_can_make_the_namespace_of_the_locks_and_read_none(operator: Client) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "locks"}}
    await raw(operator, "POST", NAMESPACES.collection(), body, dryRun="All")
    with pytest.raises(Forbidden):
        await operator.get(NAMESPACES.at("medik8s-leases"))


@pytest.mark.parametrize(
    ("kind", "namespace"),
    [(SECRETS, ""), (SECRETS, "defib-system"), (CONFIG_MAPS, ""), (CONFIG_MAPS, "kube-system"), (LEASES, "default")],
)
async def test_the_operator_cannot_look_around(operator: Client, kind: Kind[Any], namespace: str) -> None:
    with pytest.raises(Forbidden):
        await operator.list_all(metadata_only(kind), Scope(namespace=namespace))


async def test_the_operator_can_see_its_brake_and_the_pods(operator: Client) -> None:
    brakes = await operator.list_all(CONFIG_MAPS, Scope(namespace="defib-system"))
    assert "defib-brake" not in {one.name for one in brakes.items}
    assert (await operator.list_all(PODS, Scope(namespace="defib-system"))).version


async def test_the_operator_reports_on_policies_where_they_are_and_does_not_change_them(
    admin: Client, operator: Client, team: dict[str, Client]
) -> None:
    policy = await team["editor"].create(POLICIES, a_policy(SEED, "told"), namespace=SHOP)
    patch = Merge({"metadata": {"uid": policy.uid}, "status": {"proofs": "A or B", "moved": 3}})
    told = await operator.patch(POLICIES.of(policy), patch, subresource="status")
    assert told.status == {"proofs": "A or B", "moved": 3}
    about = {"apiVersion": POLICIES.api_version, "kind": POLICIES.name, "name": policy.name, "namespace": SHOP}
    event = {"metadata": {"name": "e1"}, "involvedObject": about, "reason": "Moved", "type": "Normal"}
    await operator.create(EVENTS, event, namespace=SHOP)
    assert (await admin.get(EVENTS.at("e1", SHOP))).name == "e1"
    with pytest.raises(Forbidden):
        await operator.patch(POLICIES.of(policy), Merge({"spec": {"acceptedProofs": ["None"]}}))
    with pytest.raises(Forbidden):
        await operator.delete(POLICIES.of(policy), Deletion(uid=policy.uid))


async def test_the_operator_reads_claims_by_name_and_takes_attachments_away(
    admin: Client, operator: Client, team: dict[str, Client]
) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = await team["editor"].create(CLAIMS, {"metadata": {"name": "data-0"}, "spec": spec}, namespace=SHOP)
    assert (await operator.get(CLAIMS.of(claim))).uid == claim.uid
    with pytest.raises(Forbidden):
        await operator.delete(CLAIMS.of(claim), Deletion(uid=claim.uid))
    with pytest.raises(Forbidden):
        await operator.list_all(CLAIMS, Scope(namespace=SHOP))
    held = {"attacher": "csi.example.com", "nodeName": "n1", "source": {"persistentVolumeName": "pv-0"}}
    attachment = await admin.create(ATTACHMENTS, {"metadata": {"name": "a1"}, "spec": held})
    with pytest.raises(Forbidden):
        await operator.patch(ATTACHMENTS.of(attachment), Merge({"metadata": {"labels": {"a": "b"}}}))
    await operator.delete(ATTACHMENTS.of(attachment), Deletion(uid=attachment.uid))


async def test_who_edits_a_namespace_owns_its_policies_and_who_views_it_sees_them(team: dict[str, Client]) -> None:
    for name in ("editor", "owner"):
        client = team[name]
        policy = await client.create(POLICIES, a_policy(SEED, f"by-{name}"), namespace=SHOP)
        policy = await client.patch(POLICIES.of(policy), Merge({"spec": EV_12}))
        assert policy.spec == EV_12
        assert (await team["viewer"].get(POLICIES.of(policy))).spec == EV_12
        with pytest.raises(Forbidden):
            await client.patch(POLICIES.of(policy), Merge({"status": {"moved": 7}}), subresource="status")
        with pytest.raises(Forbidden):
            await client.create(POLICIES, a_policy(SEED), namespace="default")
        await client.delete(POLICIES.of(policy), Deletion(uid=policy.uid))


async def test_a_team_may_do_exactly_that_with_policies_and_nothing_with_what_is_for_nodes(
    team: dict[str, Client],
) -> None:
    every = f"{READ} {WRITE} update deletecollection".split()
    wanted = {"viewer": READ.split(), "editor": every, "owner": every}
    others = ("podfailoverpolicies/status", "podfailoverremediations", "podfailoverremediationtemplates")
    for name, client in team.items():
        for place in (SHOP, "default", ""):
            allowed = [verb for verb in VERBS if await may(client, verb, "podfailoverpolicies.defib.dev", place)]
            assert set(allowed) == set(wanted[name] if place == SHOP else ()), f"{name} in {place!r}"
        for what in (*others, "powercycleremediations", "nodeincidents"):
            assert not [verb for verb in VERBS if await may(client, verb, f"{what}.defib.dev", SHOP)]

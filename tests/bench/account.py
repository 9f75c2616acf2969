"""The operator's own account, as deploy/install.yaml makes it, with the rights that remediators bring along.

No controller runs in these clusters that adds up roles, so the account is bound to those of the remediators one by one.
"""

import asyncio
from pathlib import Path

import msgspec

from defib.kube.client import Client
from defib.kube.kinds import unstructured
from defib.kube.transport import Request
from testbed.cluster import ControlPlane
from tests.bench.processes import BenchFailed
from tests.bench.ward import GROUP, LOOK_EVERY

NAMESPACE = "defib-system"
NAME = "defib"
USER = f"system:serviceaccount:{NAMESPACE}:{NAME}"
GROUPS = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}")
IN_FORCE_WITHIN = 30.0

RBAC = "rbac.authorization.k8s.io"
ROLES = unstructured(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
BINDINGS = unstructured(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
REMEDIATOR = "bench-remediator"
OWN_REMEDIATORS = "defib-ext-remediation"
ROLE = {
    "metadata": {"name": REMEDIATOR},
    "rules": [
        {
            "apiGroups": [GROUP],
            "resources": ["fooremediations", "fooremediationtemplates"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
        }
    ],
}
RIGHTS = (
    {"verb": "list", "resource": "nodes"},
    {"verb": "create", "resource": "fooremediations", "group": GROUP, "namespace": "default"},
    {"verb": "create", "resource": "podfailoverremediations", "group": "defib.dev", "namespace": "default"},
    {"verb": "patch", "resource": "leases", "group": "coordination.k8s.io", "namespace": NAMESPACE},
    {"verb": "create", "resource": "leases", "group": "coordination.k8s.io", "namespace": "medik8s-leases"},
    {"verb": "watch", "resource": "leases", "group": "coordination.k8s.io", "namespace": "kube-node-lease"},
)


class _Answer(msgspec.Struct, frozen=True):
    allowed: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _Answer


async def account_of(cluster: ControlPlane, client: Client) -> Path:
    """A kubeconfig of the account, once its rights are in force. The manifests are there already."""
    await client.create(ROLES, ROLE)
    for role in (REMEDIATOR, OWN_REMEDIATORS):
        await client.create(BINDINGS, _binding(role))
    try:
        async with asyncio.timeout(IN_FORCE_WITHIN):
            for right in RIGHTS:
                while not await _may(client, right):  # noqa: ASYNC110  the server does not tell
                    await asyncio.sleep(LOOK_EVERY)
    except TimeoutError:
        raise BenchFailed(f"the rights of {USER} were not in force within {IN_FORCE_WITHIN:.0f} s") from None
    return await cluster.kubeconfig_for(USER, GROUPS)


def _binding(role: str) -> dict[str, object]:
    return {
        "metadata": {"name": f"bench-{role}"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "namespace": NAMESPACE, "name": NAME}],
    }


async def _may(client: Client, right: dict[str, str]) -> bool:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": USER, "groups": GROUPS, "resourceAttributes": right},
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    answer = await client.ask(Request(method="POST", path=path, body=msgspec.json.encode(body)))
    return msgspec.json.decode(answer, type=_Review).status.allowed

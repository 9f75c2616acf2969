"""The roles of the chart on a real API server: it judges each request that was recorded as our tours do, and no others pass."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from defib.kube.client import Client
from testbed.chart import objects, render
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from testbed.settings import Settings, TokenUser
from tests.contract.api_server.steps import eventually, raw
from tests.e2e.audit import ACCOUNT
from tests.security.guarded import made
from tests.security.people import a_client, apply, may
from tests.security.roles import Asked, Right, allowed, rights_of
from tests.security.tours import TOURS

pytestmark = [pytest.mark.real, pytest.mark.timeout(90, func_only=True), pytest.mark.asyncio(loop_scope="module")]

VALUES = {"features.metal3": True, "features.nodekeeper": True, "election": "endpoints", "namespace.create": True}
QUICK = ("a first start", "an election by Endpoints", "a drain in which everything is tried", "leftovers of a check")
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "escalate")
PLACES = ("default", "defib-system", "medik8s-leases", "kube-node-lease", "kube-system")
LAST = Asked("delete", "podfailoverremediations.defib.dev", namespace="default")  # comes by way of a controller


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def account(programs: Programs, helm: Path) -> AsyncIterator[Client]:
    """A client in the name of Defib's account."""
    settings = Settings(token_users=(TokenUser(ACCOUNT),))
    async with ControlPlane(programs, settings) as plane:
        await plane.wait_for_namespace("default")
        manifest = plane.directory / "everything.yaml"
        admin = await a_client(plane.kubeconfig)
        await raw(admin, "POST", "/api/v1/namespaces", _namespace("openshift-managed-upgrade-operator"))
        await admin.close()
        manifest.write_text(render(helm, VALUES))
        await apply(plane, manifest)
        client = await a_client(plane.token_kubeconfig(ACCOUNT))
        await eventually(lambda: may(client, LAST), within=30.0)
        yield client
        await client.close()


def _namespace(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


@pytest.fixture(scope="module")
def rights(helm: Path) -> frozenset[Right]:
    return rights_of(objects(render(helm, VALUES)))


@pytest.fixture(scope="module")
def recorded(rights: frozenset[Right]) -> frozenset[Asked]:
    return frozenset[Asked]().union(*(made(TOURS[tour], rights).used for tour in QUICK))


async def test_every_request_that_was_recorded_is_allowed(account: Client, recorded: frozenset[Asked]) -> None:
    assert [str(asked) for asked in sorted(recorded) if not await may(account, asked)] == []


async def test_the_server_allows_exactly_what_the_roles_say(account: Client, rights: frozenset[Right]) -> None:
    """Of everything that any role speaks of, in namespaces that mean something and in one that does not."""
    spoken_of = {(right.resource, right.subresource) for right in rights}
    spoken_of |= {
        ("secrets", ""),
        ("nodes", "proxy"),
        ("pods", "exec"),
        ("serviceaccounts", "token"),
        ("nodes", "status"),
    }
    wrong = []
    for resource, part in sorted(spoken_of):
        for place in PLACES:
            asked = [Asked(verb, resource, part, place) for verb in VERBS]
            wrong += [str(one) for one in asked if await may(account, one) != allowed(rights, one)]
    assert wrong == []

"""The life of a release on a real control plane: installed, upgraded, rolled back, gone, and what people wrote stays."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from defib.clock import SystemClock
from defib.kube.client import Client
from defib.kube.errors import NotFound
from defib.kube.http import connect
from defib.kube.kinds import NAMESPACES, NODE_HEALTH_CHECKS, unstructured
from testbed.chart import CHART, DEPLOY, NAMESPACE
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from tests.check_corpus import a_check, simple
from tests.contract.api_server.steps import raw
from tests.drain_corpus import a_policy
from tests.e2e.helm_release import Refused, Release, said

pytestmark = [pytest.mark.real, pytest.mark.timeout(150)]

CRDS = unstructured(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
POLICIES = unstructured("defib.dev", "v1alpha1", "drainpolicies", "DrainPolicy", namespaced=False)
LABEL = "app.kubernetes.io/name=defib"
OURS = "clusterroles,clusterrolebindings,validatingadmissionpolicies,flowschemas"
CHECK_CRD = "remediation.medik8s.io_nodehealthchecks.yaml"
LOCKS = "medik8s-leases"


@pytest.fixture
async def plane(programs: Programs) -> AsyncIterator[ControlPlane]:
    async with ControlPlane(programs) as plane:
        await plane.wait_for_namespace("default")
        yield plane


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[Client]:
    clock = SystemClock()
    client = Client(await connect(plane.kubeconfig, None, {}, clock), clock)
    yield client
    await client.close()


async def written(client: Client) -> list[tuple[str, Any]]:
    """What people wrote: as they wrote it, and the same objects as before."""
    check = await client.get(NODE_HEALTH_CHECKS.at("people-wrote-this"))
    policy = await client.get(POLICIES.at("people-wrote-this"))
    return [(one.uid, one.spec) for one in (check, policy)]


async def write(client: Client) -> list[tuple[str, Any]]:
    await client.create(NODE_HEALTH_CHECKS, a_check(simple(), "people-wrote-this"))
    await client.create(POLICIES, a_policy({}, "people-wrote-this"))
    return await written(client)


async def established(release: Release) -> None:
    await release.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=20s")


async def replicas(release: Release) -> str:
    return await release.kubectl("get", "deployment", "defib", f"-n={NAMESPACE}", "-o=jsonpath={.spec.replicas}")


async def test_what_people_wrote_outlives_upgrades_rollbacks_and_the_release_itself(
    plane: ControlPlane, client: Client, helm: Path
) -> None:
    release = Release(helm, plane)
    told = await release.install()
    assert f"is installed in {NAMESPACE}" in told
    await established(release)
    before = await write(client)

    await release.upgrade("--set=replicas=3", "--set=features.metal3=true", "--set=election=shards")
    assert await replicas(release) == "3"
    assert "defib-metal3" in await release.kubectl("get", "clusterroles", f"-l={LABEL}")
    assert await written(client) == before

    await release.rollback(1)
    assert await replicas(release) == "2"
    assert "defib-metal3" not in await release.kubectl("get", "clusterroles", f"-l={LABEL}")
    assert await written(client) == before

    await release.uninstall()
    assert await release.kubectl("get", OURS, f"-l={LABEL}", "-o=name") == ""
    assert await release.kubectl("get", "deployments,serviceaccounts,roles", "-A", f"-l={LABEL}", "-o=name") == ""
    assert (await client.get(NAMESPACES.at(LOCKS))).name == LOCKS
    assert await written(client) == before

    await release.install()
    assert await written(client) == before


async def test_an_upgrade_brings_the_kinds_up_to_date_and_a_rollback_takes_no_object_along(
    plane: ControlPlane, client: Client, helm: Path, tmp_path: Path
) -> None:
    older = tmp_path / "defib"
    await asyncio.to_thread(shutil.copytree, CHART, older)  # links become files
    kind = yaml.safe_load((older / "files" / "crds" / CHECK_CRD).read_text())
    version = kind["spec"]["versions"][0]
    assert version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"].pop("mode")
    # Rules of the newer kind that speak of the field would not compile without it.
    _without_rules_about(version["schema"]["openAPIV3Schema"], "mode")
    (older / "files" / "crds" / CHECK_CRD).write_text(yaml.safe_dump(kind, sort_keys=False))
    path = CRDS.at("nodehealthchecks.remediation.medik8s.io").path()

    async def knows_modes() -> bool:
        seen = await raw(client, "GET", path)
        schema = seen["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        return "mode" in schema["properties"]["spec"]["properties"]

    await Release(helm, plane, older).install()
    release = Release(helm, plane)
    await established(release)
    assert not await knows_modes()
    before = await write(client)
    await release.upgrade()
    assert await knows_modes()
    upgraded = await written(client)
    assert upgraded[0][1].pop("mode") == "Automatic", "the newer kind knows what an older check means"
    assert upgraded == before
    await release.rollback(1)
    assert not await knows_modes()
    assert await written(client) == before


def _without_rules_about(schema: Any, word: str) -> None:
    if isinstance(schema, dict):
        rules = schema.pop("x-kubernetes-validations", [])
        if left := [one for one in rules if word not in one["rule"]]:
            schema["x-kubernetes-validations"] = left
    parts = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    for part in parts:
        _without_rules_about(part, word)


async def test_where_medik8s_was_before_its_kind_is_taken_over_on_demand_and_its_locks_stay_its_own(
    plane: ControlPlane, client: Client, helm: Path
) -> None:
    release = Release(helm, plane)
    await client.create(NAMESPACES, {"metadata": {"name": LOCKS}})
    await release.kubectl("apply", "-f", str(DEPLOY / "crds" / CHECK_CRD))
    await established(release)
    check = await client.create(NODE_HEALTH_CHECKS, a_check(simple(), "theirs"))
    with pytest.raises(Refused, match=r"nodehealthchecks\.remediation\.medik8s\.io"):
        await release.install()
    await release.run("uninstall", "defib", "--ignore-not-found")
    await release.install("--take-ownership", "--force-conflicts")
    locks = await client.get(NAMESPACES.at(LOCKS))
    assert "meta.helm.sh/release-name" not in locks.annotations
    await release.upgrade()
    await release.uninstall()
    assert (await client.get(NODE_HEALTH_CHECKS.at("theirs"))).uid == check.uid
    assert (await client.get(NAMESPACES.at(LOCKS))).uid == locks.uid


async def test_a_release_that_only_watches_can_become_one_that_acts_and_back(
    plane: ControlPlane, client: Client, helm: Path
) -> None:
    release = Release(helm, plane)
    await release.install("--set=mode=watch")
    assert await release.kubectl("get", "clusterroles", f"-l={LABEL}", "-o=name") == (
        "clusterrole.rbac.authorization.k8s.io/defib-sight\n"
    )
    with pytest.raises(NotFound):
        await client.get(NAMESPACES.at(LOCKS))
    await release.upgrade("--set=mode=act")
    assert (await client.get(NAMESPACES.at(LOCKS))).name == LOCKS
    await release.upgrade("--set=mode=watch")
    roles = await release.kubectl("get", "clusterroles", f"-l={LABEL}", "-o=name")
    assert roles.splitlines() == ["clusterrole.rbac.authorization.k8s.io/defib-sight"]


async def test_the_plain_manifest_can_be_taken_away_without_what_people_wrote(
    plane: ControlPlane, client: Client
) -> None:
    file, kubectl = f"-f={DEPLOY / 'install.yaml'}", (plane.kubectl, f"--kubeconfig={plane.kubeconfig}")
    told = await said(*kubectl, "apply", file)
    assert "Warning" not in told
    await said(*kubectl, "wait", "crd", "--all", "--for=condition=Established", "--timeout=20s")
    before = await write(client)
    await said(*kubectl, "delete", file, f"-l={LABEL}")
    assert await said(*kubectl, "get", OURS, f"-l={LABEL}", "-o=name") == ""
    assert (await client.get(NAMESPACES.at(NAMESPACE))).name == NAMESPACE
    assert await written(client) == before


async def test_a_plain_manifest_can_be_handed_over_to_helm(plane: ControlPlane, client: Client, helm: Path) -> None:
    release = Release(helm, plane)
    await release.kubectl("apply", "-f", str(DEPLOY / "install.yaml"))
    await established(release)
    before = await write(client)
    await release.install("--take-ownership", "--force-conflicts")
    with pytest.raises(Refused, match="kubectl-client-side-apply"):
        await release.upgrade("--set=replicas=3")
    await release.upgrade("--set=replicas=3", "--force-conflicts")
    assert await replicas(release) == "3"
    assert await written(client) == before

"""deploy/ works: a real API server takes the manifest, and its service account may do what we need, and no more."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.chart import render
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from tests.e2e.as_deployed import ON_LOOPBACK, as_deployed

pytestmark = [pytest.mark.real, pytest.mark.timeout(90)]

DEPLOY = Path(__file__).parents[2] / "deploy"
ACCOUNT = "system:serviceaccount:defib-system:defib"
PATIENCE_SECONDS = 20.0


@pytest.fixture
async def cluster(programs: Programs) -> AsyncIterator[ControlPlane]:
    async with ControlPlane(programs) as cluster:
        await cluster.wait_for_namespace("default")
        yield cluster


def manifest(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


async def told(*command: str | Path) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=asyncio.subprocess.STDOUT)
    async with asyncio.timeout(PATIENCE_SECONDS):
        said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


async def kubectl(cluster: ControlPlane, *arguments: str) -> str:
    code, said = await told(cluster.kubectl, f"--kubeconfig={cluster.kubeconfig}", *arguments)
    assert code == 0, said
    return said


async def may(cluster: ControlPlane, *what: str) -> bool:
    """`kubectl auth can-i` answers by its exit code too."""
    code, _ = await told(
        cluster.kubectl, f"--kubeconfig={cluster.kubeconfig}", "auth", "can-i", *what, f"--as={ACCOUNT}"
    )
    return code == 0


async def as_account(cluster: ControlPlane) -> Path:
    """The kubeconfig of the service account, as a pod would be it."""
    token = (await kubectl(cluster, "create", "token", "defib", "--namespace=defib-system")).strip()
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    path = cluster.directory / "account.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


async def test_the_manifest_is_taken_and_its_account_can_watch_and_nothing_else(cluster: ControlPlane) -> None:
    await kubectl(cluster, "apply", "-f", str(DEPLOY / "observe.yaml"))
    again = await kubectl(cluster, "apply", "-f", str(DEPLOY / "observe.yaml"))
    # Of a budget kubectl sends the selector each time, although it is the same.
    others = [line for line in again.splitlines() if not line.startswith("poddisruptionbudget")]
    assert {line.rpartition(" ")[2] for line in others} == {"unchanged"}
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await may(cluster, "list", "leases.coordination.k8s.io", "--namespace=kube-node-lease"):
            pass  # the API server learns of roles by a watch of its own; asking takes long enough
    for what in ("delete nodes", "patch nodes", "list secrets", "delete pods", "create events"):
        assert not await may(cluster, *what.split()), f"it may {what}"
    defib = Path(sys.executable).parent / "defib"
    arguments, environment = as_deployed(manifest("observe.yaml"))
    account = await as_account(cluster)
    process = await asyncio.create_subprocess_exec(
        defib, *arguments, f"--kubeconfig={account}", *ON_LOOPBACK, stdout=PIPE, env=environment
    )
    assert process.stdout is not None
    seen: set[str] = set()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(seen) < 2:
                line = (await process.stdout.readline()).decode()
                assert line, "it ended"
                assert "the lock" not in line, "it takes part in no election"
                seen |= {kind for kind in ("nodes", "heartbeats") if "watch sees" in line and kind in line}
    finally:
        process.terminate()
        await process.wait()
    assert process.returncode == 0


async def test_the_pod_is_allowed_where_only_restricted_pods_are(cluster: ControlPlane) -> None:
    """The namespace enforces the restricted Pod Security standard: a pod that breaks it is refused with a warning."""
    said = await kubectl(cluster, "apply", "-f", str(DEPLOY / "observe.yaml"))
    assert "Warning" not in said
    async with asyncio.timeout(PATIENCE_SECONDS):
        while "defib" not in await kubectl(cluster, "get", "pods", "--namespace=defib-system", "--no-headers"):
            pass  # the Deployment's controller makes it; asking takes long enough


async def test_who_elects_by_an_endpoints_object_may_write_that_one_and_no_other(
    cluster: ControlPlane, helm: Path
) -> None:
    manifest = cluster.directory / "endpoints.yaml"
    manifest.write_text(await asyncio.to_thread(render, helm, {"election": "endpoints", "namespace.create": True}))
    await kubectl(cluster, "apply", f"-f={manifest}")
    here = "--namespace=defib-system"
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await may(cluster, "patch", "endpoints/defib-leader", here):
            pass  # the API server learns of roles by a watch of its own; asking takes long enough
    assert await may(cluster, "get", "endpoints/defib-leader", here)
    assert await may(cluster, "create", "endpoints", here)
    for verb, what, where in (
        ("patch", "endpoints/defib", here),
        ("delete", "endpoints/defib-leader", here),
        ("create", "endpoints", "--namespace=default"),
        ("patch", "endpoints/kubernetes", "--namespace=default"),
    ):
        assert not await may(cluster, verb, what, where), f"it may {verb} {what} {where}"

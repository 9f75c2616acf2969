"""examples/01-watch-only does what its page says, on a real API server, with the rights of its role and no others."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from testbed.cluster import ControlPlane
from testbed.programs import Programs
from testbed.settings import Settings

pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]

EXAMPLE = Path(__file__).parents[2] / "examples/01-watch-only"
PATIENCE_SECONDS = 15.0


@pytest.fixture
async def cluster(programs: Programs) -> AsyncIterator[ControlPlane]:
    async with ControlPlane(programs, Settings(api_only=True)) as cluster:
        yield cluster


async def kubectl(cluster: ControlPlane, *arguments: str) -> str:
    """Its complaint; empty when it did what it was told."""
    process = await asyncio.create_subprocess_exec(
        cluster.kubectl, f"--kubeconfig={cluster.kubeconfig}", *arguments, stdout=PIPE, stderr=PIPE
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        said, complaints = await process.communicate()
    return (said + complaints).decode() if process.returncode else ""


async def wait_for_role(cluster: ControlPlane) -> None:
    """The API server learns of roles by a watch of its own, so a moment after they are written."""
    question = ["list", "leases", "--namespace=kube-node-lease", "--as=ann", "--as-group=defib-watchers"]
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await kubectl(cluster, "auth", "can-i", *question):
            pass


@asynccontextmanager
async def defib_run(kubeconfig: Path) -> AsyncIterator[Process]:
    """As on the page, but on a free port: others may test at the same time."""
    defib = Path(sys.executable).parent / "defib"
    options = [f"--config={EXAMPLE / 'settings.yaml'}", f"--kubeconfig={kubeconfig}", "--probes-address=127.0.0.1:0"]
    process = await asyncio.create_subprocess_exec(defib, "run", *options, stdout=PIPE, stderr=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def expect_line(process: Process, *words: str) -> None:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        while line := (await process.stdout.readline()).decode():
            if all(word in line for word in words):
                return
    pytest.fail(f"it ended without a word about {words}")


async def expect_end(process: Process, code: int) -> str:
    """What it complained about."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        _, complaints = await process.communicate()
    assert process.returncode == code
    return complaints.decode()


async def test_the_example_tells_what_happens_to_nodes_with_its_role_alone(cluster: ControlPlane) -> None:
    watcher = await cluster.kubeconfig_for("ann", ("defib-watchers",))
    async with defib_run(watcher) as process:
        complaint = await expect_end(process, 1)
    assert "cannot list resource" in complaint
    assert complaint.count("\n") == 1
    assert await kubectl(cluster, "apply", "-f", str(EXAMPLE / "role.yaml")) == ""
    await wait_for_role(cluster)
    node = cluster.directory / "node.json"
    node.write_text('{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}')
    assert await kubectl(cluster, "create", "-f", str(node)) == ""
    async with defib_run(watcher) as process:
        await expect_line(process, "watch sees", "kind=heartbeats")
        assert await kubectl(cluster, "cordon", "n1") == ""
        await expect_line(process, "cluster changed", "subject=n1", "what=cordoned")
        process.terminate()
        assert await expect_end(process, 0) == ""


async def test_a_token_that_the_server_no_longer_takes_is_told_in_one_line(cluster: ControlPlane) -> None:
    stale = cluster.directory / "stale.kubeconfig"
    config = yaml.safe_load(cluster.token_kubeconfig("token-admin").read_text())
    config["users"][0]["user"]["token"] = "expired"
    stale.write_text(yaml.safe_dump(config))
    async with defib_run(stale) as process:
        complaint = await expect_end(process, 1)
    assert "Unauthorized" in complaint
    assert "may have expired" in complaint
    assert complaint.count("\n") == 1

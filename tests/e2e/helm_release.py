"""Defib as Helm installs it: one release, and the processes that its Deployment would start, under its own account."""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from defib.kube.client import Client
from defib.kube.errors import NotFound
from defib.kube.kinds import LEASES
from testbed.chart import CHART, NAMESPACE, objects
from testbed.cluster import ControlPlane
from tests.e2e.as_deployed import ON_LOOPBACK, as_deployed
from tests.e2e.hollow_cluster import eventually

PATIENCE_SECONDS = 90.0
ENDS_WITHIN = 20.0
LEADS_WITHIN = 60.0


class Refused(Exception):
    """Helm or kubectl ended with an error. `str()` is what it said."""


class Release:
    """A person's Helm: its home is empty, so that nothing is remembered from elsewhere."""

    def __init__(self, helm: Path, plane: ControlPlane, chart: Path = CHART) -> None:
        self.plane = plane
        self.chart = chart
        self._helm = helm

    async def run(self, *arguments: str) -> str:
        there = self.plane.directory / "helm"
        homes = {f"HELM_{name}_HOME": str(there / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        kubeconfig = f"--kubeconfig={self.plane.kubeconfig}"
        return await said(self._helm, *arguments, kubeconfig, f"--namespace={NAMESPACE}", env=os.environ | homes)

    async def install(self, *options: str) -> str:
        return await self.run("install", "defib", str(self.chart), "--create-namespace", *options)

    async def upgrade(self, *options: str) -> str:
        return await self.run("upgrade", "defib", str(self.chart), *options)

    async def rollback(self, revision: int) -> str:
        return await self.run("rollback", "defib", str(revision))

    async def uninstall(self) -> str:
        return await self.run("uninstall", "defib")

    async def manifest(self) -> list[dict[str, Any]]:
        """As it stands in the cluster now."""
        return objects(await self.run("get", "manifest", "defib"))

    async def kubectl(self, *arguments: str) -> str:
        return await said(self.plane.kubectl, f"--kubeconfig={self.plane.kubeconfig}", *arguments)

    async def log_in(self, name: str) -> Path:
        """The kubeconfig of the release's service account, as a pod would be it."""
        token = (await self.kubectl("create", "token", "defib", f"--namespace={NAMESPACE}")).strip()
        config = yaml.safe_load(await asyncio.to_thread(self.plane.kubeconfig.read_text))
        config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
        path = self.plane.directory / f"{name}.kubeconfig"
        await asyncio.to_thread(path.write_text, yaml.safe_dump(config))
        return path

    @asynccontextmanager
    async def replicas(self, *more: str) -> AsyncIterator[dict[str, Process]]:
        """Each that the Deployment asks for, with its arguments and its environment."""
        documents = await self.manifest()
        (deployment,) = (one for one in documents if one["kind"] == "Deployment")
        async with AsyncExitStack() as stack:
            names = [f"replica-{number}" for number in range(deployment["spec"]["replicas"])]
            yield {name: await stack.enter_async_context(self._replica(documents, name, more)) for name in names}

    @asynccontextmanager
    async def _replica(
        self, documents: list[dict[str, Any]], name: str, more: tuple[str, ...]
    ) -> AsyncIterator[Process]:
        arguments, environment = as_deployed(documents, node="")
        kubeconfig = f"--kubeconfig={await self.log_in(name)}"
        with await asyncio.to_thread((self.plane.directory / f"{name}.log").open, "ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "defib", *arguments, kubeconfig, f"--replica-name={name}", *ON_LOOPBACK, *more),
                env=environment,
                stdout=log,
                stderr=STDOUT,
            )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.terminate()
            async with asyncio.timeout(ENDS_WITHIN):
                await process.wait()


async def until_one_leads(client: Client, among: set[str]) -> str:
    """By its Lease."""
    seen: list[str] = []

    async def leads() -> bool:
        try:
            lock = await client.get(LEASES.at("defib-leader", NAMESPACE))
        except NotFound:
            return False
        seen[:] = [lock.spec.holder_identity or ""]
        return seen[0] in among

    await eventually(leads, within=LEADS_WITHIN)
    return seen[0]


async def said(*command: str | Path, env: dict[str, str] | None = None) -> str:
    process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, env=env)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            answer, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise Refused(answer.decode())
    return answer.decode()

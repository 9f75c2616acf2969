"""`defib run` as a process of its own, logged in as the service account of deploy/install.yaml, and what it says of itself."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import STDOUT, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import aiohttp
import yaml
from prometheus_client.parser import text_string_to_metric_families

from defib.kube.client import Client
from testbed.cluster import ControlPlane
from tests.contract.api_server.steps import eventually, raw
from tests.e2e.audit import credential_of, requests_of
from tests.e2e.check_cluster import OPERATOR_LOG, PATIENCE_SECONDS, Body


class Installed(Protocol):
    """A control plane with Defib installed on it, written down what it asks, and a client that may do everything."""

    @property
    def plane(self) -> ControlPlane: ...
    @property
    def client(self) -> Client: ...


class RunningOperator:
    """`defib run` as a process, and what it says of itself."""

    def __init__(self, process: Process, address: str) -> None:
        self.process = process
        self.address = address
        self._expected = 0

    async def refused(self) -> int:
        """Requests that were answered with 403, as the operator itself counts them."""
        async with aiohttp.ClientSession() as session, session.get(f"{self.address}metrics") as answer:
            families = text_string_to_metric_families(await answer.text())
        samples = [sample for family in families for sample in family.samples]
        return int(
            sum(
                sample.value
                for sample in samples
                if sample.name == "defib_api_requests_total" and sample.labels["code"] == "403"
            )
        )

    @asynccontextmanager
    async def provoking(self) -> AsyncIterator[None]:
        """Something is refused meanwhile, on purpose."""
        before = await self.refused()
        yield
        provoked = await self.refused() - before
        assert provoked > 0
        self._expected += provoked

    async def is_ready(self) -> bool:
        async with aiohttp.ClientSession() as session, session.get(f"{self.address}readyz") as answer:
            return answer.status == 200

    async def expect_nothing_refused(self, cluster: Installed) -> None:
        """But what was provoked on purpose, or has been complained about already."""
        refused = await self.refused()
        unexpected, self._expected = refused - self._expected, refused
        assert unexpected == 0, [str(request) for request in await requests_of(cluster.plane) if request.code == 403]


@asynccontextmanager
async def defib_run(cluster: Installed, *more: str) -> AsyncIterator[RunningOperator]:
    """The operator, from when it sees everything to its orderly end."""
    log = cluster.plane.directory / OPERATOR_LOG
    kubeconfig, _ = await log_in(cluster)
    process = await start(log, f"--kubeconfig={kubeconfig}", *more)
    try:
        operator = RunningOperator(process, await probes_address(process, log))
        await eventually(operator.is_ready, within=PATIENCE_SECONDS)
        yield operator
        assert process.returncode is None, "it has ended by itself"
        process.terminate()
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def start(log: Path, *more: str) -> Process:
    options = ("--probes-address=127.0.0.1:0", "--default-check=off", "--log-format=json", *more)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DEFIB_")}
    with await asyncio.to_thread(log.open, "wb") as out:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "defib", "run", *options), stdout=out, stderr=STDOUT, env=environment
        )


async def log_in(cluster: Installed, name: str = "operator") -> tuple[Path, str]:
    """The kubeconfig of the service account, as a pod would be it; and by which credential the API server knows it."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = "/api/v1/namespaces/defib-system/serviceaccounts/defib/token"
    asked = await raw(cluster.client, "POST", path, body)
    config = yaml.safe_load(await asyncio.to_thread(cluster.plane.kubeconfig.read_text))
    token = asked["status"]["token"]
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    kubeconfig = cluster.plane.directory / f"{name}.kubeconfig"
    await asyncio.to_thread(kubeconfig.write_text, yaml.safe_dump(config))
    return kubeconfig, credential_of(token)


async def probes_address(process: Process, log: Path) -> str:
    """Where it serves its metrics: it says so when it has started."""
    said: list[Body] = []

    async def has_started() -> bool:
        text = await asyncio.to_thread(log.read_text)
        assert process.returncode is None, text
        said[:] = [json.loads(line) for line in text.splitlines() if '"operator started"' in line]
        return bool(said)

    await eventually(has_started, within=PATIENCE_SECONDS)
    return str(said[0]["probes"])

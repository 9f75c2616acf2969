"""A real Prometheus that reads running replicas once a second and has our alerts, without the minutes that they wait."""

import asyncio
import re
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.contract.api_server.steps import eventually

ALERTS = Path(__file__).parents[2] / "deploy" / "alerts.yaml"
STARTS_SECONDS = 20.0
LISTENS = re.compile(rb'msg="Listening on" address=(\S+)')


class RunningPrometheus:
    def __init__(self, address: str) -> None:
        self._address = address

    async def asked(self, path: str, **query: str) -> Any:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{self._address}/api/v1/{path}", params=query) as answer,
        ):
            said = await answer.json()
        assert said["status"] == "success", said
        return said["data"]

    async def value(self, expr: str) -> float | None:
        """Of the only series that there is."""
        found = (await self.asked("query", query=expr))["result"]
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None

    async def firing(self, alert: str) -> list[dict[str, Any]]:
        alerts = (await self.asked("alerts"))["alerts"]
        return [one for one in alerts if one["labels"]["alertname"] == alert and one["state"] == "firing"]

    async def rules(self) -> list[dict[str, Any]]:
        return [rule for group in (await self.asked("rules"))["groups"] for rule in group["rules"]]


def rules_without_waiting() -> dict[str, Any]:
    """What is tested here is that they fire; for how long they wait, promtool tests."""
    rules: dict[str, Any] = yaml.safe_load(ALERTS.read_text())["spec"]
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule["for"] = "0s"
    return rules


@asynccontextmanager
async def running_prometheus(program: Path, folder: Path, target: str) -> AsyncIterator[RunningPrometheus]:
    await asyncio.to_thread(_prepare, folder, target)
    options = (
        *(f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'series'}"),
        "--web.listen-address=127.0.0.1:0",
    )
    process = await asyncio.create_subprocess_exec(str(program), *options, stdout=DEVNULL, stderr=PIPE)
    try:
        prometheus = RunningPrometheus(await _address(process))
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(_read_on(process))  # else it would stop when nobody reads what it says
            await eventually(lambda: _is_up(prometheus), within=STARTS_SECONDS)
            yield prometheus
            reading.cancel()
    finally:
        process.kill()
        await process.wait()


def _prepare(folder: Path, target: str) -> None:
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["alerts.yaml"],
        "scrape_configs": [{"job_name": "defib", "static_configs": [{"targets": [target]}]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    (folder / "alerts.yaml").write_text(yaml.safe_dump(rules_without_waiting()))


async def _address(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    said = b""
    async with asyncio.timeout(STARTS_SECONDS):
        while line := await process.stderr.readline():
            said += line
            if found := LISTENS.search(line):
                return found[1].decode()
    raise AssertionError(said.decode())


async def _read_on(process: asyncio.subprocess.Process) -> None:
    assert process.stderr is not None
    while await process.stderr.readline():
        pass


async def _is_up(prometheus: RunningPrometheus) -> bool:
    """It serves, and has read the operator once."""
    try:
        return await prometheus.value("up") == 1
    except (aiohttp.ClientError, AssertionError):
        return False

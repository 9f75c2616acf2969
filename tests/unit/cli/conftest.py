"""A command line whose cluster is the embedded server of the test."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from defib.cli.main import execute
from defib.simulate.http import serving
from defib.simulate.server import ApiServer
from tests.unit.cli.at_the_prompt import Defib


@pytest.fixture
async def defib(server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Defib]:
    async with serving(server) as front:
        kubeconfig = await asyncio.to_thread(front.write_kubeconfig, tmp_path / "kubeconfig")

        async def said(*arguments: str) -> tuple[int, str, str]:
            command = [*arguments, "--kubeconfig", str(kubeconfig)]
            code = await asyncio.to_thread(execute, command, program="defib")
            captured = capsys.readouterr()
            return code, captured.out, captured.err

        yield said

"""The processes of the bench: those that are measured and the one that writes, each with an end that is certain."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from tests.bench.stages import Stage

OUR_PYTHON = Path(sys.executable)
ROOT = Path(__file__).parents[2]
PEERS_PYTHON = ROOT / ".venv-bench" / "bin" / "python"
STAGE_WITHIN = 900.0
WRITTEN_WITHIN = 900.0


class BenchFailed(Exception):
    """Nothing can be said about the numbers. One line says why."""


def say(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)  # noqa: T201 - progress, for a person


@asynccontextmanager
async def running(python: Path, module: str, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        python,
        "-m",
        module,
        *arguments,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def stages_until(process: asyncio.subprocess.Process, last: str) -> dict[str, Stage]:
    """What it tells, up to a stage. Lines that are not ours, such as a client's log, are passed over."""
    found: dict[str, Stage] = {}
    try:
        async with asyncio.timeout(STAGE_WITHIN):
            while last not in found:
                found |= await _next_stage(process)
    except TimeoutError:
        raise BenchFailed(f"a measured process was not {last} within {STAGE_WITHIN:.0f} s") from None
    return found


async def _next_stage(process: asyncio.subprocess.Process) -> dict[str, Stage]:
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise BenchFailed("a measured process ended too early; its own words are above")
    if not line.startswith(b'{"name":'):
        return {}
    stage = msgspec.json.decode(line, type=Stage)
    return {stage.name: stage}


@asynccontextmanager
async def writing(what: str, kubeconfig: Path, **numbers: float) -> AsyncIterator[asyncio.subprocess.Process]:
    arguments = [text for name, number in numbers.items() for text in (f"--{name}", str(number))]
    module = "tests.bench.writer"
    async with running(OUR_PYTHON, module, what, "--kubeconfig", str(kubeconfig), *arguments) as writer:
        yield writer


async def write(what: str, kubeconfig: Path, **numbers: float) -> None:
    """Let the writer do one thing, to its end."""
    async with writing(what, kubeconfig, **numbers) as writer:
        try:
            code = await asyncio.wait_for(writer.wait(), WRITTEN_WITHIN)
        except TimeoutError:
            raise BenchFailed(f"the {what} were not written within {WRITTEN_WITHIN:.0f} s") from None
    if code:
        raise BenchFailed(f"the {what} could not be written; the writer's own words are above")

"""`defib demo`: the real operator on a simulated cluster in this process. Nothing else is needed, nothing is touched."""

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from rich.console import Console, RenderableType
from rich.live import Live

from defib.cli import demo_view as view
from defib.cli.demo_stage import Stage
from defib.cli.run import until_stopped
from defib.clock import SystemClock
from defib.manifests import definitions
from defib.simulate.http import serving
from defib.simulate.virtual_time import VirtualClock
from defib.telemetry.log import set_up

FRAMES_PER_SECOND = 4


def run_demo(*, seconds: float | None, seed: int, speed: float) -> None:
    with tempfile.TemporaryDirectory(prefix="defib-demo-") as folder, _logging_to(Path(folder) / "defib.log"):
        until_stopped(_play(Path(folder), seconds, seed, speed))


@contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """The operator's log would tear the picture apart, so it goes to a file beside the kubeconfig."""
    with path.open("wb") as file:
        set_up(style="json", level="info", fd=file.fileno(), clock=SystemClock())
        yield


async def _play(folder: Path, seconds: float | None, seed: int, speed: float) -> None:
    loop = asyncio.get_running_loop()
    # The time is the real one; only chance is the seed's.
    clock = VirtualClock(loop, seed, SystemClock().now() - timedelta(seconds=loop.time()))
    stage = Stage(clock, speed, await asyncio.to_thread(definitions))
    async with serving(stage.cluster.server) as front, asyncio.TaskGroup() as group:
        kubeconfig = await asyncio.to_thread(front.write_kubeconfig, folder / "kubeconfig")
        playing = group.create_task(stage.run(), name="stage")
        try:
            async with asyncio.timeout(seconds):
                await _show(stage, str(kubeconfig))
        except TimeoutError:
            pass  # the time that was asked for is over
        playing.cancel()


async def _show(stage: Stage, kubeconfig: str) -> None:
    console = Console()
    try:
        if console.is_terminal and not console.is_dumb_terminal:
            await _show_live(stage, kubeconfig, console)
        else:
            await _show_lines(stage, kubeconfig)
    except OSError:  # the reader has seen enough, or the terminal was closed; what Python still holds goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


async def _show_live(stage: Stage, kubeconfig: str, console: Console) -> None:
    def frame() -> RenderableType:
        return view.screen(stage.scene(kubeconfig), *console.size)

    try:
        with Live(frame(), console=console, screen=True, auto_refresh=False) as live:
            while console.is_terminal:  # until somebody closes it
                live.update(frame(), refresh=True)
                await asyncio.sleep(1 / FRAMES_PER_SECOND)
    finally:
        for line in view.story(stage.scene(kubeconfig))[-view.EVENTS_MAX :]:
            console.print(str(line), markup=False, highlight=False)
        console.print(view.CLOSING, highlight=False)


async def _show_lines(stage: Stage, kubeconfig: str) -> None:
    """Each line once, as it happens."""
    scene = stage.scene(kubeconfig)
    opening = [f"Defib demo: {view.headline(scene)}", view.HONESTY, f"Look yourself: {view.connect_hint(scene)}"]
    print(*opening, sep="\n", flush=True)
    told_until = scene.now
    while True:
        news = [line for line in view.story(stage.scene(kubeconfig)) if line.at > told_until]
        if news:
            print(*news, sep="\n", flush=True)
            told_until = news[-1].at
        await asyncio.sleep(1 / FRAMES_PER_SECOND)

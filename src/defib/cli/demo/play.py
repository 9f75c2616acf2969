"""The show on a terminal, as lines elsewhere, and as a page in a browser, all at the same time."""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path

import msgspec
from rich.console import Console, RenderableType
from rich.live import Live

from defib.cli.demo import view
from defib.cli.demo.furniture import DATABASES
from defib.cli.demo.keys import pressed
from defib.cli.demo.page import serving_page
from defib.cli.demo.scenes import SCENES
from defib.cli.demo.stage import START_SECONDS, Stage
from defib.cli.run import until_stopped
from defib.clock import SystemClock
from defib.manifests import definitions
from defib.simulate.http import serving
from defib.simulate.virtual_time import VirtualClock
from defib.telemetry.log import set_up

FRAMES_PER_SECOND = 4
QUIT = "q"


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asked for."""

    seconds: float | None
    seed: int
    speed: float
    port: int | None  # of the page; None: without one


def run_demo(wishes: Wishes) -> None:
    with tempfile.TemporaryDirectory(prefix="defib-demo-") as folder, _logging_to(Path(folder) / "defib.log"):
        until_stopped(_play(Path(folder), wishes))


@contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """The operator's log would tear the picture apart, so it goes to a file beside the kubeconfig."""
    with path.open("wb") as file:
        set_up(style="json", level="info", fd=file.fileno(), clock=SystemClock())
        yield


async def _play(folder: Path, wishes: Wishes) -> None:
    loop = asyncio.get_running_loop()
    # The time is the real one; only chance is the seed's.
    clock = VirtualClock(loop, wishes.seed, SystemClock().now() - timedelta(seconds=loop.time()))
    stage = Stage(clock, wishes.speed, await asyncio.to_thread(definitions))
    async with serving(stage.cluster.server) as front, asyncio.TaskGroup() as group:
        kubeconfig = await asyncio.to_thread(front.write_kubeconfig, folder / "kubeconfig")
        playing = group.create_task(stage.run(), name="stage")
        try:
            async with asyncio.timeout(wishes.seconds):
                await _begun(stage)
                async with _page(stage, wishes.port) as page:
                    await _show(Show(stage, str(kubeconfig), page))
        except TimeoutError:
            pass  # the time that was asked for is over
        playing.cancel()


async def _begun(stage: Stage) -> None:
    """There is something to be seen."""
    await stage.until(lambda: stage.picture is not None, START_SECONDS)


@asynccontextmanager
async def _page(stage: Stage, port: int | None) -> AsyncIterator[str]:
    if port is None:
        yield ""
        return
    async with serving_page(stage, port) as address:
        yield address


class Show:
    """What is to be seen now."""

    def __init__(self, stage: Stage, kubeconfig: str, page: str) -> None:
        self.stage = stage
        self._kubeconfig = kubeconfig
        self._page = page

    def now(self) -> view.Shown:
        stage = self.stage
        picture = stage.picture
        assert picture is not None, "the show has begun"
        return view.Shown(
            now=stage.clock.now(),
            picture=picture,
            lines=tuple(stage.lines),
            caption=stage.caption,
            playing=stage.playing.name if stage.playing is not None else "",
            pods=stage.pods(),
            power={name: node.is_on for name, node in stage.nodes.items()},
            databases={pod: stage.place_of(pod) for pod in DATABASES},
            replicas=stage.cast.names,
            leader=stage.cast.leader,
            speed=stage.pace.speed,
            grace_seconds=stage.pace.grace_seconds,
            keys=tuple((scene.key, scene.name) for scene in SCENES),
            page=self._page,
            kubeconfig=self._kubeconfig,
        )


async def _show(show: Show) -> None:
    console = Console()
    try:
        if console.is_terminal and not console.is_dumb_terminal:
            await _show_live(show, console)
        else:
            await _show_lines(show)
    except OSError:  # the reader has seen enough, or the terminal was closed; what Python still holds goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


async def _show_live(show: Show, console: Console) -> None:
    quits = asyncio.Event()

    def press(key: str) -> None:
        if key == QUIT:
            quits.set()
        show.stage.ask_for(key)

    def frame() -> RenderableType:
        return view.screen(show.now(), *console.size)

    try:
        with pressed(press), Live(frame(), console=console, screen=True, auto_refresh=False) as live:
            while console.is_terminal and not quits.is_set():  # until somebody closes it
                live.update(frame(), refresh=True)
                await asyncio.sleep(1 / FRAMES_PER_SECOND)
    finally:
        for line in view.story(show.now())[-view.EVENTS_MAX :]:
            console.print(str(line), markup=False, highlight=False)
        console.print(view.CLOSING, highlight=False)


async def _show_lines(show: Show) -> None:
    """Each line once, as it happens."""
    shown = show.now()
    opening = [f"Defib demo: {view.headline(shown)}", *([f"In a browser: {shown.page}"] if shown.page else [])]
    opening.append(f"Look yourself: {view.connect_hint(shown)}")
    print(*opening, sep="\n", flush=True)
    told_until = shown.now
    while True:
        news = [line for line in view.story(show.now()) if line.at > told_until]
        if news:
            print(*news, sep="\n", flush=True)
            told_until = news[-1].at
        await asyncio.sleep(1 / FRAMES_PER_SECOND)

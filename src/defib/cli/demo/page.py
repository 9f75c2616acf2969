"""The demo in a browser: the same page as an operator's, with a bar that says what is to be seen and asks for more."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from defib import __version__
from defib.cli.demo.scenes import SCENES
from defib.cli.demo.stage import Stage
from defib.config import Settings
from defib.picture import Picture
from defib.rules_of import rules_of
from defib.web.access import Access, NotAllowed
from defib.web.board import Site
from defib.web.board_work import Seats
from defib.web.dashboard import Dashboard, serving_dashboard
from defib.web.door import CannotListen
from defib.web.live import Sight

LOOPBACK = "127.0.0.1"
SHOW = "demo"  # what the page asks for when its address ends with it
ANY_PORT = 0
NO_TOKENS = "the demo knows no tokens"


@asynccontextmanager
async def serving_page(stage: Stage, port: int) -> AsyncIterator[str]:
    """Gives the page's address. Where the port is taken, any other one is as good."""
    async with AsyncExitStack() as stack:
        dashboard = _dashboard(stage)
        try:
            served = await stack.enter_async_context(serving_dashboard(dashboard, LOOPBACK, port))
        except CannotListen:
            served = await stack.enter_async_context(serving_dashboard(dashboard, LOOPBACK, ANY_PORT))
        yield f"http://{LOOPBACK}:{served}/?{SHOW}"


def _dashboard(stage: Stage) -> Dashboard:
    settings = Settings()
    return Dashboard(
        sight=Sight(picture=partial(_picture, stage), seats=partial(_seats, stage)),
        site=Site(replica="demo", version=__version__, can_act=False, rules=rules_of(settings)),
        clock=stage.clock,
        access=Access(_nobody, stage.clock, settings.namespace),
        reads={SHOW: partial(_show, stage)},
        tells={f"{SHOW}/{scene.key}": partial(_play, stage, scene.key) for scene in SCENES},
    )


def _picture(stage: Stage) -> Picture:
    picture = stage.picture
    assert picture is not None, "the page is served when the show has begun"
    return picture


def _seats(stage: Stage) -> Seats:
    leader = stage.cast.leader
    return Seats(mode="lease", leader=leader, leads=False, holders={}, unowned=0)


async def _show(stage: Stage) -> dict[str, Any]:
    return {
        "caption": stage.caption,
        "playing": stage.playing.key if stage.playing is not None else "",
        "scenes": [{"key": scene.key, "title": scene.name} for scene in SCENES],
    }


async def _play(stage: Stage, key: str) -> dict[str, Any]:
    stage.ask_for(key)
    return {"message": "it comes next"}


def _nobody(_: object) -> Any:
    raise NotAllowed(403, NO_TOKENS)

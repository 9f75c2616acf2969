"""Ours, with the nodes alone: the operator's transport, client, watcher and shelf, wired as the operator wires them."""

import os
from pathlib import Path

from defib import __version__
from defib.clock import SystemClock
from defib.kube.client import Client
from defib.kube.http import connect
from defib.kube.kinds import NODES
from defib.model.node import Node
from defib.observe.shelf import Shelf
from defib.observe.watch import Patience, Watcher
from tests.bench.stages import Tally

VERSION = __version__
REST_SECONDS = 1.0


class Counting:
    """The watcher's witness."""

    def __init__(self, shelf: Shelf[Node], tally: Tally) -> None:
        self._shelf = shelf
        self._tally = tally

    def changed(self, name: str) -> None: ...

    def heard(self, name: str, events: int, news: int) -> None:  # noqa: ARG002 - bookmarks are no news, so only news count
        self._tally.saw(news)

    def relisted(self, name: str, reason: str) -> None:
        assert reason == "start", f"{name} had to be listed again: {reason}"
        self._tally.holds(len(self._shelf.objects))

    def sight_changed(self, name: str) -> None:
        """The bench itself notices when events are missing."""


async def follow(kubeconfig: str, tally: Tally) -> None:
    clock = SystemClock()
    client = Client(await connect(Path(kubeconfig), None, os.environ, clock), clock)
    shelf = Shelf(NODES, since=clock.now())
    try:
        await Watcher(client, shelf, clock, Counting(shelf, tally), Patience()).run()
    finally:
        await client.close()

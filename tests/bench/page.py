"""Somebody opens the page of a large cluster in a real browser: how soon there is something to see, and how soon a change is.

The operator watches an embedded server here, in a thread beside: what is measured is the operator's pass, its web server
and the page, on the way from a write to the picture on the screen.
"""

import asyncio
import os
from collections.abc import Sequence
from statistics import median
from typing import Any

import msgspec
from playwright.sync_api import Browser, Page, sync_playwright

from testbed.packages import ensure
from tests.bench.results import Verdict, at_most
from tests.browser.scenes import LOOKING, MANY, SHORT, crowded
from tests.browser.stage import Stage, on_stage
from tests.browser.world import a_node

LOADS = 7
CHANGES = 20
WITHIN_MS = 30_000.0
PAINT_SECONDS_MAX = 1.0
UPDATE_SECONDS_MAX = 1.0
KILOBYTES_MAX = 300.0

# Two frames after the last cell was made, it has been painted.
WATCH = """(() => {
  window.painted = new Promise((resolve) => {
    const look = () => {
      if (document.querySelector("#map .cell")) requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now())));
      else requestAnimationFrame(look);
    };
    look();
  });
})()"""
SEEN = """(name) => new Promise((resolve) => {
  const cell = [...document.querySelectorAll("#map .cell")].find((one) => one.ariaLabel.startsWith(`${name},`));
  const was = cell.dataset.state;
  window.changed = new Promise((done) => new MutationObserver((_, observer) => {
    if (cell.dataset.state === was) return;
    observer.disconnect();
    requestAnimationFrame(() => done(performance.timeOrigin + performance.now()));
  }).observe(cell, { attributeFilter: ["data-state"] }));
  resolve();
})"""
FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """By a browser that has nothing of it yet."""

    first_paint_seconds: float
    map_seconds: float
    kilobytes: float


class Paged(msgspec.Struct, frozen=True, kw_only=True):
    nodes: int
    judged: bool
    loads: list[Load]
    update_seconds: list[float]
    verdicts: list[Verdict]


async def show(nodes: int) -> Paged:
    return await asyncio.to_thread(_show, nodes)


def _show(nodes: int) -> Paged:
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with on_stage(LOOKING, crowded(nodes)) as stage, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=ensure("chromium"), args=arguments)
        loads = [_load(browser, stage.url) for _ in range(LOADS)]
        updates = _updates(browser, stage)
        browser.close()
    return Paged(
        nodes=nodes, judged=nodes == MANY, loads=loads, update_seconds=updates, verdicts=verdicts(loads, updates)
    )


def _load(browser: Browser, url: str) -> Load:
    page = _page(browser)
    received: list[int] = []

    def receive(told: dict[str, Any]) -> None:
        received.append(told["encodedDataLength"])

    wire = page.context.new_cdp_session(page)
    wire.send("Network.enable")
    wire.on("Network.dataReceived", receive)
    page.add_init_script(WATCH)
    page.goto(url)
    drawn = page.evaluate("window.painted")
    load = Load(
        first_paint_seconds=page.evaluate(FIRST_PAINT) / 1000, map_seconds=drawn / 1000, kilobytes=sum(received) / 1000
    )
    page.context.close()
    return load


def _updates(browser: Browser, stage: Stage) -> list[float]:
    page = _page(browser)
    page.goto(stage.url)
    page.locator("#map .cell").first.wait_for()
    names = [f"worker-{'abc'[number % 3]}-{100 + number:04}" for number in range(CHANGES)]
    found = [_update(page, stage, name) for name in names]
    page.context.close()
    return found


def _update(page: Page, stage: Stage, name: str) -> float:
    """Seconds from the write to the changed cell on the screen. Both clocks are this machine's."""
    page.evaluate(SEEN, name)
    written = stage.clock.now()
    stage.put(a_node(name, name.split("-")[1], written, silent=SHORT))
    return float(page.evaluate("window.changed")) / 1000 - written.timestamp()


def _page(browser: Browser) -> Page:
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.set_default_timeout(WITHIN_MS)
    return page


def verdicts(loads: Sequence[Load], updates: Sequence[float]) -> list[Verdict]:
    return [
        at_most("page: first paint, p50", median(one.first_paint_seconds for one in loads), PAINT_SECONDS_MAX, "s"),
        at_most("page: all nodes painted, p50", median(one.map_seconds for one in loads), PAINT_SECONDS_MAX, "s"),
        at_most("page: transferred until then", max(one.kilobytes for one in loads), KILOBYTES_MAX, "kB"),
        at_most("page: from a change to the screen, slowest", max(updates), UPDATE_SECONDS_MAX, "s"),
    ]

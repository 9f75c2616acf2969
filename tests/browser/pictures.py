"""`python -m tests.browser.pictures`: the pictures of the page for README and documentation, made anew.

Of a cluster of the embedded server, by a real browser, so that they show what is there.
"""

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from playwright.sync_api import Browser, ViewportSize, expect, sync_playwright

from testbed.packages import ensure
from tests.browser.scenes import LONG, LOOKING, SHORT
from tests.browser.stage import Put, Stage, on_stage
from tests.browser.world import a_failover_check, a_hanging_drain, a_node, a_power_cycle, a_remediation, nodes, past

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
SIZE = ViewportSize(width=1440, height=900)


def scene(stage: Stage) -> Iterator[Put]:
    """A machine is being power-cycled while others wait, and a drain does not end."""
    now = stage.clock.now()
    yield from nodes(240, ("eu-1a", "eu-1b", "eu-1c"), now)
    for name, zone, silent in (
        ("worker-eu-1a-0031", "eu-1a", SHORT),
        ("worker-eu-1b-0012", "eu-1b", LONG),
        ("worker-eu-1b-0047", "eu-1b", LONG),
        ("worker-eu-1c-0060", "eu-1c", SHORT),
    ):
        yield a_node(name, zone, now, silent=silent)
    yield a_node("worker-eu-1c-0018", "eu-1c", now, drained_for="a new kernel")
    yield from a_failover_check(guards={"maxInFlight": 1, "rateLimit": {"remediations": 5, "per": "1h"}})
    yield a_remediation("worker-eu-1b-0012", now - timedelta(minutes=4))
    yield a_power_cycle("worker-eu-1b-0012", now - timedelta(seconds=40), steps=6)
    closed = [f"worker-eu-1{'abc'[number % 3]}-{number * 7 % 80 + 1:04}" for number in range(48)]
    yield from past((name for name in closed if name != "worker-eu-1b-0012"), now)
    yield from a_hanging_drain("worker-eu-1c-0018", now)


def take(browser: Browser, url: str, scheme: str) -> Path:
    path = FOLDER / f"dashboard-{scheme}.png"
    context = browser.new_context(color_scheme="dark" if scheme == "dark" else "light", viewport=SIZE)
    page = context.new_page()
    page.goto(url)
    expect(page.locator("#map [role=option]")).to_have_count(240)
    expect(page.locator("#drains")).to_contain_text("pods left")
    page.screenshot(path=path)
    context.close()
    return path


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with on_stage(LOOKING, scene) as stage, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=ensure("chromium"), args=arguments)
        for scheme in ("light", "dark"):
            path = take(browser, stage.url, scheme)
            print(f"{path.relative_to(Path.cwd())}: {path.stat().st_size:,} bytes")  # noqa: T201 - what was made
        browser.close()


if __name__ == "__main__":
    main()

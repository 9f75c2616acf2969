"""A real browser for the tests of the page: Debian's Chromium."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

Look = Callable[..., AbstractContextManager[Page]]

WITHIN_MS = 20_000.0  # on a machine that has more to do

expect.set_options(timeout=WITHIN_MS)


@pytest.fixture(scope="module")  # not longer: while it is there, no other test can have an event loop
def browser(chromium: Path) -> Iterator[Browser]:
    # To root, Chromium gives no sandbox; it only ever sees our own page.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as play:
        launched = play.chromium.launch(executable_path=chromium, args=arguments)
        yield launched
        launched.close()


@pytest.fixture
def look(browser: Browser) -> Look:
    """A page in a browser that knows nothing yet. What it complains about fails the test: errors, refused content."""

    @contextmanager
    def looking(url: str, *, expected: str = "no complaint", **options: Any) -> Iterator[Page]:
        heard: list[str] = []

        def hear(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning") and expected not in message.text:
                heard.append(message.text)

        context = browser.new_context(**options)
        page = context.new_page()
        page.set_default_timeout(WITHIN_MS)
        page.on("console", hear)
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.goto(url)
        yield page
        context.close()
        assert heard == []

    return looking

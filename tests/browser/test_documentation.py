"""The documentation in a real browser: it is found by its search box, and asks nobody else for anything."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Look
from tests.tidy.site import build_site

pytestmark = pytest.mark.timeout(180, func_only=True)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  so the server calls it
        """Nobody wants to read it."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    site: Path = build_site(tmp_path_factory.mktemp("site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        serving = threading.Thread(target=server.serve_forever, name="site")
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join(timeout=10)


@pytest.mark.parametrize("page", ["index.html", "concepts.html", "tutorial.html", "reference/power-cycle-phases.html"])
def test_a_page_is_complete_without_anybody_else(address: str, look: Look, page: str) -> None:
    asked: list[str] = []
    with look("about:blank") as view:
        view.on("request", lambda request: asked.append(request.url))
        view.goto(f"{address}/{page}", wait_until="networkidle")
        broken = view.evaluate("[...document.images].filter(one => !one.naturalWidth).map(one => one.src)")
    assert asked
    assert [url for url in asked if not url.startswith((address, "data:"))] == []
    assert broken == []


def test_a_setting_is_found_by_the_search_box(address: str, look: Look) -> None:
    with look(f"{address}/index.html") as view:
        view.locator("[data-md-component=search-query]").click()
        expect(view.locator(".md-search-result__meta")).to_have_text("Type to start searching")
        # Key by key, as a person types: the page listens to keys, and not to text that is suddenly there.
        view.locator("[data-md-component=search-query]").press_sequentially("lease_duration")
        found = view.locator(".md-search-result__link").first
        expect(found).to_be_visible()
        found.click()
        expect(view.locator("h1").first).to_be_visible()
        assert "lease_duration" in view.content()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_in_light_and_in_dark(address: str, look: Look, scheme: str) -> None:
    with look(f"{address}/index.html", color_scheme=scheme) as view:
        chosen = view.locator("body").get_attribute("data-md-color-scheme")
    assert chosen == {"light": "default", "dark": "slate"}[scheme]

"""The page of the demo says what happens and has a button for each scene; the page of an operator asks for neither."""

from typing import Any

import msgspec
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Look
from tests.browser.scenes import LOOKING, calm
from tests.browser.stage import on_stage

pytestmark = pytest.mark.timeout(90)


def test_a_scene_is_asked_for_with_a_click_and_explained(look: Look) -> None:
    told: dict[str, Any] = {
        "caption": "All is well.",
        "playing": "",
        "scenes": [{"key": "1", "title": "A node dies"}, {"key": "2", "title": "A zone is lost"}],
    }

    async def tell() -> dict[str, Any]:
        return told

    async def play() -> dict[str, Any]:
        told.update(caption="Zone b has lost its power.", playing="2")
        return {}

    with on_stage(LOOKING, calm) as stage:
        stage.go_away()
        stage.dashboard = msgspec.structs.replace(stage.dashboard, reads={"demo": tell}, tells={"demo/2": play})
        stage.come_back()
        with look(f"{stage.url}?demo") as page:
            show = page.get_by_role("region", name="The show")
            expect(show).to_contain_text("All is well.")
            show.get_by_role("button", name="2 A zone is lost").click()
            expect(show).to_contain_text("Zone b has lost its power.")
            expect(show.get_by_role("button", name="2 A zone is lost")).to_have_attribute("aria-pressed", "true")


def test_an_operator_is_not_asked_for_a_show(look: Look) -> None:
    asked: list[str] = []
    with on_stage(LOOKING, calm) as stage, look("about:blank") as page:
        page.on("request", lambda request: asked.append(request.url))
        page.goto(stage.url)
        expect(page.locator("#map [role=option]")).to_have_count(9)
        expect(page.get_by_role("region", name="The show")).to_have_count(0)
    assert [url for url in asked if "demo" in url] == []

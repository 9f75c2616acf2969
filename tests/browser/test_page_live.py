"""The page follows what happens, without being loaded again, and says so when it cannot."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Look
from tests.browser.scenes import LONG, LOOKING, SHORT, calm, thousands
from tests.browser.stage import on_stage
from tests.browser.world import a_node, a_power_cycle

pytestmark = pytest.mark.timeout(90)  # a browser, and perhaps thousands of nodes

GONE = "net::ERR"  # what a browser says of a server that is not there


def test_a_node_that_changes_changes_on_the_page_and_nothing_else_is_drawn_anew(look: Look) -> None:
    with on_stage(LOOKING, calm) as stage, look(stage.url) as page:
        cells = page.locator("#map [role=option]")
        expect(cells).to_have_count(9)
        cells.first.evaluate("cell => { cell.wasHere = true; }")
        stage.put(a_node("worker-b-0001", "b", stage.clock.now(), silent=SHORT))
        expect(page.locator('[aria-label^="worker-b-0001, Suspect"]')).to_be_visible()
        expect(page.locator("#verdict")).to_have_text("1 node suspect")
        stage.put(a_node("worker-b-0001", "b", stage.clock.now()))
        expect(page.locator("#verdict")).to_have_text("All well: 9 nodes")
        assert cells.first.evaluate("cell => cell.wasHere") is True


def test_a_node_among_thousands_changes_on_the_page(look: Look) -> None:
    with on_stage(LOOKING, thousands) as stage, look(stage.url) as page:
        changing = page.locator('#map [aria-label^="worker-c-0900,"]')
        expect(changing).to_have_attribute("data-state", "Healthy")
        stage.put(a_node("worker-c-0900", "c", stage.clock.now(), silent=SHORT))
        expect(changing).to_have_attribute("data-state", "Suspect")


def test_nodes_come_and_go(look: Look) -> None:
    with on_stage(LOOKING, calm) as stage, look(stage.url) as page:
        expect(page.locator("#map [role=option]")).to_have_count(9)
        stage.put(a_node("worker-d-0001", "d", stage.clock.now()))
        expect(page.locator("#map [role=option]")).to_have_count(10)
        expect(page.get_by_role("group", name="zone d: 1 node")).to_be_visible()


def test_a_new_incident_is_told_to_those_who_listen(look: Look) -> None:
    with on_stage(LOOKING, calm) as stage, look(stage.url) as page:
        expect(page.locator("#incidents")).to_contain_text("No incident is open.")
        now = stage.clock.now()
        stage.put(a_node("worker-a-0001", "a", now, silent=LONG), a_power_cycle("worker-a-0001", now, steps=3))
        expect(page.get_by_role("log")).to_contain_text(
            "New incident on worker-a-0001: the machine is told to switch off."
        )
        stage.put(a_power_cycle("worker-a-0001", now))
        expect(page.get_by_role("log")).to_contain_text("The incident on worker-a-0001 is closed: Recovered.")


def test_an_open_panel_follows_its_node(look: Look) -> None:
    with on_stage(LOOKING, calm) as stage, look(f"{stage.url}#node/worker-a-0001") as page:
        panel = page.get_by_role("complementary", name="worker-a-0001")
        expect(panel).to_contain_text("Healthy")
        stage.put(a_node("worker-a-0001", "a", stage.clock.now(), silent=SHORT))
        expect(panel).to_contain_text("Suspect")


def test_a_lost_connection_is_told_with_the_time_of_what_is_shown_and_comes_back(look: Look) -> None:
    with on_stage(LOOKING, calm) as stage, look(stage.url, expected=GONE) as page:
        expect(page.locator("#line-text")).to_have_text("Live")
        stage.go_away()
        banner = page.get_by_role("region", name="Warnings")
        expect(banner).to_contain_text(re.compile(r"Connection lost.*showing \d\d:\d\d:\d\d UTC"))
        expect(page.locator("#map [role=option]")).to_have_count(9)
        stage.put(a_node("worker-b-0001", "b", stage.clock.now(), silent=SHORT))
        stage.come_back()
        banner.get_by_role("button", name="Try now").click()
        expect(page.locator("#verdict")).to_have_text("1 node suspect")
        expect(banner).not_to_contain_text("Connection lost")


def test_it_comes_back_by_itself(look: Look) -> None:
    with on_stage(LOOKING, calm) as stage, look(stage.url, expected=GONE) as page:
        expect(page.locator("#line-text")).to_have_text("Live")
        stage.go_away()
        expect(page.locator("#line-text")).to_have_text("Offline")
        stage.come_back()
        expect(page.locator("#line-text")).to_have_text("Live")

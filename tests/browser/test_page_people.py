"""The page without a mouse, without eyes, in the dark, on a phone, and for whom movement is too much."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Look
from tests.browser.scenes import ACTING, ILL, LOOKING, SUSPECT, thousands, trouble
from tests.browser.stage import Stage, on_stage

pytestmark = pytest.mark.timeout(90)  # a browser, and perhaps thousands of nodes

PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def troubled() -> Iterator[Stage]:
    with on_stage(ACTING, trouble) as stage:
        yield stage


@pytest.fixture(scope="module")
def crowd() -> Iterator[Stage]:
    with on_stage(LOOKING, thousands) as stage:
        yield stage


def active(page: Page) -> str:
    """The name of the cell that the keys are at."""
    return str(page.locator("#map [aria-selected=true]").get_attribute("aria-label")).split(",")[0]


def test_the_map_is_walked_with_keys(troubled: Stage, look: Look) -> None:
    with look(troubled.url) as page:
        expect(page.locator("#map [role=option]")).to_have_count(9)
        page.locator("#map").focus()
        assert active(page) == "worker-a-0001"
        page.keyboard.press("ArrowDown")
        assert active(page) == ILL
        page.keyboard.press("PageDown")
        assert active(page) == "worker-b-0001"
        page.keyboard.press("End")
        assert active(page) == "worker-c-0003"
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        expect(page.locator("#panel-title")).to_have_text(ILL)
        expect(page.locator("#panel-title")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.locator("#panel")).to_be_hidden()
        expect(page.locator("#map")).to_be_focused()


def test_the_next_node_in_trouble_is_one_key_away(troubled: Stage, look: Look) -> None:
    with look(troubled.url) as page:
        expect(page.locator("#map [role=option]")).to_have_count(9)
        page.keyboard.press("n")
        assert active(page) == ILL
        page.keyboard.press("n")
        assert active(page) == SUSPECT
        page.keyboard.press("n")
        assert active(page) == ILL


def test_search_is_one_key_away_and_leads_to_the_first_that_fits(troubled: Stage, look: Look) -> None:
    with look(troubled.url) as page:
        expect(page.locator("#map [role=option]")).to_have_count(9)
        page.keyboard.press("/")
        page.keyboard.type("c-0002")
        page.keyboard.press("Enter")
        assert active(page) == "worker-c-0002"


def test_rows_of_thousands_are_walked_with_keys(crowd: Stage, look: Look) -> None:
    with look(crowd.url) as page:
        page.locator("#map [role=option]").first.wait_for()
        page.locator("#map").focus()
        page.keyboard.press("ArrowDown")
        below = page.locator(f'[aria-label^="{active(page)},"]')
        first = page.locator("#map [role=option]").first
        assert below.evaluate("cell => cell.offsetLeft") == first.evaluate("cell => cell.offsetLeft")
        assert below.evaluate("cell => cell.offsetTop") > first.evaluate("cell => cell.offsetTop")
        page.keyboard.press("ArrowUp")
        assert active(page) == "worker-a-0001"


def test_everything_that_can_be_pressed_is_reached_with_tab_and_has_a_name(troubled: Stage, look: Look) -> None:
    with look(troubled.url) as page:
        expect(page.locator("#map [role=option]")).to_have_count(9)
        reached = set()
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.id || document.activeElement.dataset.key || ''"))
        assert {"search", "brake-button", "theme", "keys", "as-table", "map", f"incident {ILL}"} <= reached
        unnamed = page.get_by_role("button", name=re.compile("^$"))
        assert unnamed.count() == 0


def test_a_screen_reader_finds_its_way(troubled: Stage, look: Look) -> None:
    with look(troubled.url) as page:
        expect(page.locator("#map [role=option]")).to_have_count(9)
        expect(page.locator("body")).to_match_aria_snapshot("""
            - banner:
              - heading "Defib" [level=1]
              - paragraph: 1 node unhealthy
              - searchbox "Find nodes by name, zone or state"
            - main:
              - region "Cluster":
                - heading "Cluster" [level=2]
                - group "Show only nodes in these states":
                  - button "Healthy 7"
                  - button "Suspect 1"
                  - button "Unhealthy 1"
                - listbox "Nodes by zone":
                  - 'group "zone a: 3 nodes, 1 in trouble"':
                    - option "worker-a-0001, Healthy, zone a"
                    - option "worker-a-0002, Unhealthy, zone a, incident open"
              - region "Checks and their gates"
              - region "Time to recover":
                - img /42 closed incidents between/
              - region "Incidents":
                - heading "Incidents" [level=2]
              - region "Drains"
              - region "Fences"
              - region "Replicas"
        """)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_as_light_or_dark_as_the_system_until_somebody_chooses(troubled: Stage, look: Look, scheme: str) -> None:
    def shade(page: Page) -> int:
        """How bright the page's ground is, from 0 to 765."""
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in re.findall(r"\d+", colour)[:3])

    with look(troubled.url, color_scheme=scheme) as page:
        before = shade(page)
        assert (before < 380) == (scheme == "dark")
        page.locator("#theme").click()
        assert (shade(page) < 380) == (scheme == "light")
        page.reload()
        assert (shade(page) < 380) == (scheme == "light"), "a choice is kept"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_their_ground(troubled: Stage, look: Look, scheme: str) -> None:
    """At least 4.5 to 1, as accessibility guidelines ask for small text."""
    with look(troubled.url, color_scheme=scheme) as page:
        expect(page.locator("#map [role=option]")).to_have_count(9)
        page.locator(f'[aria-label^="{ILL},"]').click()
        expect(page.get_by_role("complementary")).to_contain_text("waits for")
        assert page.evaluate(CONTRAST) == []


def test_on_a_phone_nothing_has_to_be_pushed_sideways(troubled: Stage, look: Look) -> None:
    with look(troubled.url, viewport=PHONE) as page:
        expect(page.locator("#map [role=option]")).to_have_count(9)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        page.locator(f'[aria-label^="{ILL},"]').click()
        expect(page.get_by_role("complementary")).to_contain_text("waits for")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_nothing_moves_for_whom_that_is_too_much(troubled: Stage, look: Look) -> None:
    with look(troubled.url, reduced_motion="reduce") as page:
        cell = page.locator("#map [role=option]").first
        cell.evaluate("cell => cell.classList.add('new')")
        assert cell.evaluate("cell => getComputedStyle(cell).animationName") == "none"


# What is written in an element of its own, against the nearest ground that is painted behind it.
CONTRAST = """() => {
  const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    paint.clearRect(0, 0, 1, 1);
    paint.fillStyle = colour;
    paint.fillRect(0, 0, 1, 1);
    return [...paint.getImageData(0, 0, 1, 1).data];
  };
  const light = (colour) => {
    const parts = colour.slice(0, 3).map((part) => part / 255).map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = rgba(getComputedStyle(one).backgroundColor);
      if (colour[3] > 250) return colour;
    }
    return [255, 255, 255, 255];
  };
  const faded = (element) => { for (let one = element; one; one = one.parentElement) if (getComputedStyle(one).opacity < 1) return true; return false; };
  const found = new Set();
  for (const one of document.body.querySelectorAll("*")) {
    const own = [...one.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!own || one.closest("svg, noscript, .unseen, [hidden]") || one.getAttribute("aria-hidden") || faded(one) || !one.checkVisibility()) continue;
    const [text, behind] = [light(rgba(getComputedStyle(one).color)), light(ground(one))];
    const ratio = (Math.max(text, behind) + 0.05) / (Math.min(text, behind) + 0.05);
    if (ratio < 4.5) found.add(`${one.tagName}.${one.className}: ${ratio.toFixed(2)}`);
  }
  return [...found];
}"""

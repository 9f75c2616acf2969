"""What the page shows, in a real browser, from the real web server, of an embedded cluster."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from defib.model.node import ZONE_LABEL
from tests.browser.conftest import Look
from tests.browser.scenes import ACTING, DRAINED, ILL, LOOKING, MANY, SUSPECT, calm, thousands, trouble
from tests.browser.stage import Put, Stage, on_stage
from tests.browser.world import INCIDENTS, a_failover_check, a_node, a_power_cycle

pytestmark = pytest.mark.timeout(90)  # a browser, and perhaps thousands of nodes

TRANSFERRED_MAX = 300_000
HOSTILE_NAME = "<img src=x onerror=alert(1)>"
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


@pytest.fixture(scope="module")
def troubled() -> Iterator[Stage]:
    with on_stage(ACTING, trouble) as stage:
        stage.until(lambda: bool(stage.operator.picture.own.drains.standings))
        yield stage


def cell(node: str) -> str:
    return f'#map [role=option][aria-label^="{node},"]'


def test_a_calm_cluster_is_told_to_be_well(look: Look) -> None:
    with on_stage(LOOKING, calm) as stage, look(stage.url) as page:
        expect(page.locator("#verdict")).to_have_text("All well: 9 nodes")
        expect(page.locator("#map [role=option]")).to_have_count(9)
        expect(page.locator("#incidents")).to_contain_text("No incident is open.")
        expect(page.locator("#brake-button")).to_be_hidden()
        expect(page).to_have_title("All well: 9 nodes | Defib")


def test_every_node_is_named_with_its_state_its_zone_and_its_marks(troubled: Stage, look: Look) -> None:
    with look(troubled.url) as page:
        names = page.locator("#map [role=option]").evaluate_all("cells => cells.map(one => one.ariaLabel)")
    assert names[:3] == [
        "worker-a-0001, Healthy, zone a",
        f"{ILL}, Unhealthy, zone a, incident open",
        "worker-a-0003, Healthy, zone a",
    ]
    assert f"{SUSPECT}, Suspect, zone b" in names
    assert f"{DRAINED}, Healthy, zone c, cordoned, draining" in names


def test_a_state_is_told_by_more_than_its_colour(troubled: Stage, look: Look) -> None:
    with look(troubled.url) as page:
        expect(page.locator(f"{cell(ILL)} i")).to_have_text("!")
        expect(page.locator(f"{cell(SUSPECT)} i")).to_have_text("?")
        expect(page.locator(f"{cell(ILL)} small")).to_contain_text("Unhealthy")


def test_gates_and_budgets_are_gauges(troubled: Stage, look: Look) -> None:
    with look(troubled.url) as page:
        gauge = page.get_by_role("meter", name="Threshold, open")
        expect(gauge).to_have_attribute("aria-valuenow", "50")
        expect(gauge).to_have_attribute("aria-valuetext", "7 of 9 nodes are healthy, at least 5 must be")
        expect(page.get_by_role("meter", name="In flight, open")).to_be_visible()


def test_a_drain_tells_which_pods_are_left_and_why(troubled: Stage, look: Look) -> None:
    with look(troubled.url) as page:
        left = page.get_by_role("list", name=f"Pods that are still on {DRAINED}")
        expect(left).to_contain_text("shop/queue-0")
        expect(left).to_contain_text("disruption budget web")


def test_the_panel_of_a_node_says_what_the_operator_thinks_of_it(troubled: Stage, look: Look) -> None:
    with look(troubled.url) as page:
        page.locator(cell(ILL)).click()
        panel = page.get_by_role("complementary", name=ILL)
        expect(panel).to_contain_text("waits for a person's approval")
        expect(panel).to_contain_text("it goes on when a person approves it")
        expect(panel.get_by_role("img", name=re.compile("^Phases in order: Open"))).to_be_visible()
        assert page.url.endswith(f"#node/{ILL}"), "it can be sent to a colleague"


def test_an_address_opens_the_incident_that_it_names(troubled: Stage, look: Look) -> None:
    with look(f"{troubled.url}#incident/worker-b-0007") as page:
        panel = page.get_by_role("complementary", name="worker-b-0007")
        expect(panel).to_contain_text("Recovered")
        expect(panel).to_contain_text("Unhealthy since")
        expect(panel.get_by_role("img", name=re.compile("^Phases in order: Open"))).to_be_visible()
        expect(panel.get_by_role("listitem").filter(has_text="its power was read as off, twice")).to_be_visible()


def test_history_is_a_chart_that_can_be_read_as_a_table(troubled: Stage, look: Look) -> None:
    with look(troubled.url) as page:
        expect(page.get_by_role("img", name=re.compile("^42 closed incidents between"))).to_be_visible()
        page.get_by_text("As a table").click()
        expect(page.locator("#history tbody tr")).to_have_count(42)


def test_the_same_nodes_can_be_read_as_a_table(troubled: Stage, look: Look) -> None:
    with look(troubled.url) as page:
        page.get_by_role("button", name="Table", exact=True).click()
        rows = page.locator("#table tbody tr")
        expect(rows).to_have_count(9)
        expect(rows.first).to_contain_text(ILL)


def test_search_and_states_leave_only_what_fits(troubled: Stage, look: Look) -> None:
    with look(troubled.url) as page:
        page.get_by_role("searchbox").fill("zone b")
        expect(page.locator("#map .cell:not(.dim)")).to_have_count(3)
        page.get_by_role("button", name="Suspect 1").click()
        expect(page.locator("#map .cell:not(.dim)")).to_have_count(1)
        expect(page.locator("#found")).to_contain_text("1 node of 9 shown")


def hostile(stage: Stage) -> Iterator[Put]:
    now = stage.clock.now()
    # No API server lets such a name in; should one do so, the page must not be the one to fall for it.
    _, node = a_node(HOSTILE_NAME, HOSTILE, now)
    stage.server.store.put(
        "nodes", {**node, "metadata": {**node["metadata"], "uid": "1", "labels": {ZONE_LABEL: HOSTILE}}}
    )
    yield from a_failover_check()
    kind, incident = a_power_cycle("well", now, steps=3)
    incident["status"]["message"] = HOSTILE
    incident["status"]["timeline"][0]["message"] = HOSTILE
    assert kind == INCIDENTS
    yield kind, incident
    brake = {"on": "true", "reason": HOSTILE, "by": HOSTILE}
    yield "configmaps", {"metadata": {"name": "defib-brake", "namespace": "defib-system"}, "data": brake}


def test_markup_in_names_and_messages_is_shown_as_it_is_written(look: Look) -> None:
    with on_stage(LOOKING, hostile) as stage, look(f"{stage.url}#incident/well") as page:
        expect(page.locator("#banners")).to_contain_text(HOSTILE)
        expect(page.locator("#map")).to_contain_text(HOSTILE)
        expect(page.locator("#map")).to_contain_text(HOSTILE_NAME)
        expect(page.locator("#incidents")).to_contain_text(HOSTILE)
        expect(page.locator(".entries")).to_contain_text(HOSTILE)
        assert page.locator("img[src], main script").count() == 0
        assert "owned" not in page.title()


def test_five_thousand_nodes_are_shown_with_little_traffic_and_only_from_here(look: Look) -> None:
    with on_stage(LOOKING, thousands) as stage, look("about:blank") as page:
        asked: list[str] = []
        received: list[int] = []
        page.on("request", lambda request: asked.append(request.url))
        wire = page.context.new_cdp_session(page)
        wire.send("Network.enable")
        wire.on("Network.dataReceived", lambda told: received.append(told["encodedDataLength"]))
        page.goto(stage.url)
        expect(page.locator("#map [role=option]")).to_have_count(MANY)
        expect(page.locator("#verdict")).to_contain_text("unhealthy")
        assert {urlsplit(url).port for url in asked} == {stage.port}
        assert 0 < sum(received) < TRANSFERRED_MAX
        assert page.evaluate("document.getElementById('map').offsetHeight") < 900, "it fits on a screen"

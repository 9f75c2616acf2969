"""Acting on the page: only where it is allowed, only with a token, only after somebody has said so twice."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from defib.model.incident import INCIDENTS
from tests.browser.conftest import Look
from tests.browser.scenes import ACTING, ILL, LOOKING, trouble
from tests.browser.stage import Stage, on_stage

BRAKE = "defib-system/defib-brake"
REFUSED = "409"
UNKNOWN = "401"
EVERYWHERE = "0.0.0.0"

pytestmark = pytest.mark.timeout(90)


def stored(stage: Stage, resource: str, key: str) -> dict[str, Any]:
    version = stage.do(lambda: stage.server.store.get(resource, key))
    return version.object if version is not None else {}


def written(stage: Stage) -> int:
    """How often a person has changed something."""
    return len(stage.do(lambda: [one for one in stage.server.audit.writes("person") if "reviews" not in str(one)]))


def confirm(page: Page, verb: str, **fields: str) -> None:
    dialog = page.get_by_role("dialog")
    for label, value in fields.items():
        dialog.get_by_label(label.capitalize()).fill(value)
    dialog.get_by_role("button", name=verb, exact=True).click()


def test_where_it_may_only_be_looked_at_there_is_nothing_to_press(look: Look) -> None:
    with on_stage(LOOKING, trouble) as stage, look(f"{stage.url}#node/{ILL}") as page:
        expect(page.get_by_role("complementary")).to_contain_text("waits for a person's approval")
        for name in ("Pause", "Sign in", "Approve …", "Confirm that it is down …"):
            expect(page.get_by_role("button", name=name)).to_have_count(0)


def test_a_pause_needs_a_reason_a_token_and_a_second_yes(look: Look) -> None:
    with on_stage(ACTING, trouble) as stage, look(stage.url) as page:
        page.get_by_role("button", name="Pause").click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        assert written(stage) == 0
        page.get_by_role("button", name="Pause").click()
        confirm(page, "Pause")
        expect(page.get_by_role("alert")).to_have_text("Reason is needed.")
        confirm(page, "Pause", reason="somebody works on the switches")
        expect(page.get_by_role("alert")).to_have_text("Token is needed.")
        assert written(stage) == 0
        confirm(page, "Pause", token="a-token")
        expect(page.get_by_role("region", name="Warnings")).to_contain_text("somebody works on the switches")
        assert stored(stage, "configmaps", BRAKE)["data"]["reason"] == "somebody works on the switches"
        expect(page.locator("input[type=password]")).to_have_count(0)


def test_who_has_signed_in_need_not_again_and_a_brake_can_be_released(look: Look) -> None:
    with on_stage(ACTING, trouble) as stage, look(stage.url) as page:
        page.get_by_role("button", name="Pause").click()
        confirm(page, "Pause", reason="a test", token="a-token")
        page.get_by_role("button", name="Resume").click()
        expect(page.get_by_role("dialog").get_by_label("Token")).to_have_count(0)
        confirm(page, "Resume")
        expect(page.get_by_role("region", name="Warnings")).not_to_contain_text("The brake is on")
        page.get_by_role("button", name=re.compile("^Sign out")).click()
        expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def test_a_token_is_hidden_while_it_is_typed_and_kept_nowhere(look: Look) -> None:
    with on_stage(ACTING, trouble) as stage, look(stage.url) as page:
        page.get_by_role("button", name="Sign in").click()
        field = page.get_by_role("dialog").get_by_label("Token")
        expect(field).to_have_attribute("type", "password")
        confirm(page, "Sign in", token="a-token")
        expect(page.get_by_role("button", name=re.compile("^Sign out"))).to_be_visible()
        kept = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])")
        assert "a-token" not in kept
        page.reload()
        expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def test_where_others_can_reach_it_nothing_is_shown_without_a_token(look: Look) -> None:
    with on_stage(LOOKING, trouble, host=EVERYWHERE) as stage, look(stage.url, expected=UNKNOWN) as page:
        expect(page.get_by_role("dialog")).to_contain_text("show a token of the cluster")
        expect(page.locator("#verdict")).to_have_text("Sign in to look at this cluster")
        expect(page.locator("#map [role=option]")).to_have_count(0)
        confirm(page, "Sign in", token="a-token")
        expect(page.locator("#map [role=option]")).to_have_count(9)
        page.locator(f'[aria-label^="{ILL},"]').click()
        expect(page.get_by_role("complementary")).to_contain_text("waits for a person's approval")


def test_a_node_that_waits_can_be_approved(look: Look) -> None:
    with on_stage(ACTING, trouble) as stage, look(f"{stage.url}#node/{ILL}") as page:
        page.get_by_role("button", name="Approve …").click()
        confirm(page, "Approve", token="a-token")
        expect(page.get_by_role("log")).to_contain_text(ILL)
        annotations = stored(stage, "nodes", ILL)["metadata"]["annotations"]
        assert any("approved" in name for name in annotations)


def test_that_a_machine_is_down_must_be_confirmed_by_its_name(look: Look) -> None:
    with on_stage(ACTING, trouble) as stage, look(f"{stage.url}#node/{ILL}", expected=REFUSED) as page:
        page.get_by_role("button", name="Confirm that it is down …").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label(f"Type {ILL} to confirm").fill("worker-a-0001")
        confirm(page, "It is off", token="a-token")
        expect(page.get_by_role("alert")).to_have_text(f"Type {ILL} to confirm.")
        assert written(stage) == 0
        dialog.get_by_label(f"Type {ILL} to confirm").fill(ILL)
        confirm(page, "It is off")
        expect(dialog).to_be_hidden()
        assert stored(stage, INCIDENTS, ILL)["spec"]["confirmedOff"]["by"]

"""The guide to drains says what the code does: its policies are valid, its tables complete, its minutes right."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from defib.decide.doubt import BRAKE, SELF_DOUBT
from defib.decide.drains import record, turns
from defib.decide.drains.intent import Intent
from defib.decide.drains.intents import RECOGNISERS
from defib.decide.drains.policy_report import DELAYED
from defib.decide.drains.reading import read_policy
from defib.decide.drains.schedule import schedule_of
from defib.decide.drains.standing import MOST_ENTRIES, OUT_OF_SIGHT
from defib.decide.drains.survey import OLD_CORDON
from defib.model.drain_policy import ALL_STRATEGIES, Policy, Source, Strategy
from defib.model.node_drain import APPROVED_UNTIL, CLUSTER_API_SKIP, DO_NOT_DISRUPT, DRAIN_MARK, WATCH_MARK, Phase, Rung
from defib.model.pod_failover import KEEP
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import START, VirtualClock, run
from defib.telemetry.catalogue import METRICS

ROOT = Path(__file__).parents[2]
GUIDES = ("drains.md", "nodekeeper.md")
PAGE = (ROOT / "docs" / "drains.md").read_text()
INTENT = Intent(source=Source.KURED, why="kured is rebooting the node")


def blocks(page: str) -> list[dict[str, Any]]:
    text = (ROOT / "docs" / page).read_text()
    return [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]


def part(heading: str) -> str:
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def rows(heading: str) -> list[str]:
    """What stands in the first column of the table in that part, but for its head."""
    return re.findall(r"^\| ([^|]+) \|", part(heading), re.MULTILINE)[1:]


def a_server(clock: VirtualClock) -> ApiServer:
    server = ApiServer(clock)
    definition = yaml.safe_load((ROOT / "deploy/crds/defib.dev_drainpolicies.yaml").read_text())
    server.put("customresourcedefinitions.apiextensions.k8s.io", definition)
    return server


@pytest.mark.parametrize("page", GUIDES)
def test_every_policy_in_a_guide_is_accepted_and_makes_sense(page: str) -> None:
    async def main(clock: VirtualClock) -> None:
        server = a_server(clock)
        for body in blocks(page):
            assert body["kind"] == "DrainPolicy"
            assert isinstance(read_policy(body["spec"]), Policy)
            server.put("drainpolicies.defib.dev", body)

    assert blocks(page)
    run(main)


def test_the_policy_with_all_fields_has_all_of_them_and_says_the_defaults() -> None:
    spec = next(body["spec"] for body in blocks("drains.md") if body["metadata"]["name"] == "all-fields")
    assert read_policy(spec) == read_policy({}) == Policy()
    crd = yaml.safe_load((ROOT / "deploy/crds/defib.dev_drainpolicies.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert spec.keys() == schema.keys()


def test_every_source_is_explained_in_the_order_in_which_they_count() -> None:
    named = [re.findall(r"`(\w+)`", row)[0] for row in rows("Which drains are seen")]
    assert named == [source.value for source in RECOGNISERS]


def test_every_phase_rung_and_reason_is_explained() -> None:
    assert {phase.value for phase in Phase} <= set(re.findall(r"`(\w+)`", part("What can be seen")))
    assert {rung.value for rung in Rung} <= set(re.findall(r"\*\*(\w+)\*\*", part("The ladder")))
    of_turns = (turns.REMEDIATION, turns.FAILOVER, turns.LOCK, turns.CONTROL_PLANE, turns.BUDGET)
    reasons = [BRAKE, SELF_DOUBT, OUT_OF_SIGHT, *of_turns]
    assert rows("What holds a drain back") == [f"`{reason}`" for reason in reasons]


def test_every_event_is_named() -> None:
    seen = part("What can be seen")
    for reason in ("DrainStarted", "DrainFailed", DELAYED, *record._EVENTS.values()):
        assert f"`{reason}`" in seen


def test_every_metric_of_drains_is_named() -> None:
    named = [metric.name for metric in METRICS if "drain" in metric.name]
    assert [name for name in named if name not in PAGE] == []
    assert str(MOST_ENTRIES) in part("What can be seen")


def test_every_mark_is_named() -> None:
    for mark in (WATCH_MARK, DRAIN_MARK, APPROVED_UNTIL, DO_NOT_DISRUPT, CLUSTER_API_SKIP, KEEP):
        assert mark in PAGE


def test_the_minutes_of_the_ladder_are_right() -> None:
    schedule = schedule_of(Policy(), INTENT, START)
    waits = [
        round((schedule.due_at(one) - START) / timedelta(minutes=1)) for one in (Strategy.DELETE, Strategy.PDB_DELETE)
    ]
    assert [int(minutes) for minutes in re.findall(r"^\| (\d+) min", part("The ladder"), re.MULTILINE)] == waits
    assert f"more than {round(OLD_CORDON / timedelta(minutes=1))} minutes before" in part("Start and flapping")


def test_the_minutes_after_which_a_drain_has_failed_are_right() -> None:
    late = START + timedelta(hours=3)
    schedule = schedule_of(Policy(), INTENT, START)
    without = ALL_STRATEGIES - {Strategy.PDB_DELETE, Strategy.PDB_FINALIZERS}
    moments = [schedule.failed_at(without, late), schedule.failed_at(ALL_STRATEGIES, late)]
    minutes = [round((moment - START) / timedelta(minutes=1)) for moment in moments if moment is not None]
    text = " ".join(part("When a drain has failed").split())
    assert f"after {minutes[0]} minutes where only pods without a budget" in text
    assert f"after {minutes[1]} where one with a budget is" in text
    off = schedule_of(Policy(strategies=frozenset()), INTENT, START)
    assert off.failed_at((), late) == START + Policy().times.timeout

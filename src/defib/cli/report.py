"""`defib report`: what other durations, the fast path and other budgets would have done, check by check."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from defib.cli.drawing import INDENT, Fact, count, facts, length, moment, text
from defib.cli.output import ask, show
from defib.config import Settings
from defib.console.report import Question, Report, report_now, report_of_dump
from defib.decide.answers.regret import SOON
from defib.decide.answers.report import Alternative, CheckReport, ConditionReport, Pool
from defib.model.duration import say

TABLE_INDENT = (0, 0, 0, 15)
COLUMNS = ("ACTS", "CAME BACK", "STAYED AWAY", "NOT KNOWN", "HELD BACK", "SOONER BY")
LEGEND = (
    f"ACTS: how often it would have acted. CAME BACK: nodes that were well again by themselves within {say(SOON)} after it. "
    "STAYED AWAY: nodes that were not. NOT KNOWN: nodes that somebody remediated, that are gone, or still ill; + means that "
    "it may have acted on so many more. HELD BACK: never begun, since too many were ill. SOONER BY: how much earlier, all in all."
)


def show_report(question: Question, dump: Path | None, settings: Settings, output: str) -> None:
    if dump is None:
        told = ask(report_now(question, settings), "reading what the checks remember")
    else:
        told = ask(asyncio.to_thread(report_of_dump, question, dump), f"reading {dump}")
    show(told, lambda _: page(told), output)


def page(told: Report) -> RenderableType:
    source = f"dump {told.source}" if told.source else "the cluster as it is now"
    parts: list[RenderableType] = [text(f"Report on {source}", "bold"), facts(_head(told))]
    for check in told.checks:
        parts += ["", text(f"Check {check.check}, mode {check.mode}", "bold"), *_check(check, told)]
    if any(check.pools for check in told.checks):
        parts += ["", text(LEGEND, "dim")]
    return Group(*parts, "", text("Worked out from what the checks remember. Nothing was changed.", "dim"))


def _head(told: Report) -> Iterator[Fact]:
    yield "as of", text(f"{told.now:%Y-%m-%d %H:%M:%S} UTC")
    if not told.checks:
        yield "checks", text("there is no NodeHealthCheck to report on", "yellow")
    for note in told.unknown:
        yield "not known", text(note, "yellow")


def _check(check: CheckReport, told: Report) -> Iterator[RenderableType]:
    yield facts(_of_check(check, told.now))
    for pool in check.pools:
        if told.by:
            yield Padding(text(f"{told.by}={pool.name}", "bold"), INDENT)
        yield facts(_of_pool(pool))
        for condition in pool.conditions:
            yield facts(_of_condition(condition))
            rows = [*condition.alternatives, *([condition.fast_path] if condition.fast_path is not None else [])]
            yield _table("DURATION", rows)
    if check.pools:
        yield facts([("budget", text(_budget(check)))])
        yield _table("MOST ILL", check.budgets)
    yield facts(("" if place else "not known", text(note, "yellow")) for place, note in enumerate(check.unknown))


def _of_check(check: CheckReport, now: datetime) -> Iterator[Fact]:
    if check.since is not None:
        since = f"{count(check.spells, 'spell')} of illness, since {moment(check.since, now)}"
        yield "remembers", text(since)
    if check.upgrades:
        yield "", text(f"{count(check.upgrades, 'spell')} left out: nodes were taken down on purpose, by an upgrade")


def _of_pool(pool: Pool) -> Iterator[Fact]:
    yield "outages", text(f"{pool.outages} of {count(pool.nodes, 'node')}")
    if pool.often:
        listed = ", ".join(f"{one.node} ({one.outages} times)" for one in pool.often)
        yield "", text(f"most often: {listed}")


def _of_condition(condition: ConditionReport) -> Iterator[Fact]:
    longest = ""
    if condition.longest_seconds is not None:
        longest = f", the longest after {length(timedelta(seconds=condition.longest_seconds))}"
    told = f"{count(condition.outages, 'outage')}, {condition.came_back} came back by themselves{longest}"
    yield condition.type, text(told)
    advice = condition.advice
    yield "advice", text(advice.message, "bold green" if advice.duration else "yellow")


def _budget(check: CheckReport) -> str:
    own = next(one for one in check.budgets if one.is_now)
    return f"{check.most_at_once} of {count(check.nodes, 'node')} ill at once at most; now up to {own.name} may be"


def _table(first: str, rows: Sequence[Alternative]) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    table.add_column(first, no_wrap=True)
    for column in COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        name = Text.assemble(text(row.name), (" now", "bold") if row.is_now else "")
        table.add_row(name, *_cells(row))
    return Padding(table, TABLE_INDENT)


def _cells(row: Alternative) -> Iterator[Text]:
    most = "≤" if row.at_most else ""
    more = f"+{row.unsure}" if row.unsure else ""
    yield text(f"{most}{row.acted}")
    yield text(f"{most}{row.came_back}", "red" if row.came_back else "")
    yield text(f"{most}{row.stayed}")
    yield text(f"{most}{row.not_known}{more}")
    yield text(str(row.held))
    yield text(f"{most}{length(timedelta(seconds=row.sooner_seconds))}")

"""`defib drain`: what is in the way of a drain, of one node or of all, as text for people and as JSON for machines."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import click
import msgspec
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from defib.cli.failed import Failed
from defib.cli.why import relative
from defib.config import Settings
from defib.console.drain import BASIS, drain, drain_forecast
from defib.console.session import NotDone
from defib.decide.drains.doctor import Diagnosis, Moment, PodDiagnosis, State
from defib.decide.drains.forecast import BudgetForecast, Forecast
from defib.rules_of import rules_of
from defib.telemetry.log import printable

UNSURE, STUCK = 1, 3  # exit codes: when that cannot be known; when something does not leave, or would not
PIPED_WIDTH = 100
LABEL_WIDTH = 12
NAMES_SHOWN = 12
LINES_SHOWN = 20
STYLES = {State.DRAINING: "bold yellow", State.DRAINED: "green", State.PARKED: "yellow", State.IN_SERVICE: ""}

Fact = tuple[str, RenderableType]


def diagnose_drain(node: str, settings: Settings, output: str) -> int:
    """The exit code: whether anything does not leave, or would not."""
    try:
        told = asyncio.run(drain(node, settings, rules_of(settings)))
    except NotDone as error:
        raise Failed(str(error)) from error
    _print(told, page, output)
    return _code(is_bad=told.is_stuck, is_sure=told.is_sure)


def forecast_drains(selector: str, settings: Settings, output: str) -> int:
    """The exit code: whether there is a node that could not be drained."""
    try:
        told = asyncio.run(drain_forecast(selector, settings))
    except NotDone as error:
        raise Failed(str(error)) from error
    _print(told, forecast_page, output)
    return _code(is_bad=told.is_blocked, is_sure=told.is_sure)


def _code(*, is_bad: bool, is_sure: bool) -> int:
    """Who goes by it alone must not take for good what nobody could see."""
    return STUCK if is_bad else 0 if is_sure else UNSURE


def check_question(node: str, selector: str, *, is_forecast: bool) -> None:
    """One node, or a forecast. Raises UsageError."""
    if is_forecast and node:
        raise click.UsageError("give a node or --forecast, not both; for one node, the answer holds its forecast too")
    if not is_forecast and not node:
        raise click.UsageError("which node? Give its name, or --forecast for all nodes")
    if selector and not is_forecast:
        raise click.UsageError("--selector says which nodes --forecast is about; give that too")


def _print(told: Any, draw: Callable[[Any], RenderableType], output: str) -> None:
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(told)).decode())
        return
    width = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else PIPED_WIDTH
    console = Console(width=width, highlight=False)
    with console.capture() as captured:
        console.print(draw(told))
    # A table is filled up with blanks to its last column, which nobody wants to copy.
    print(*(line.rstrip() for line in captured.get().splitlines()), sep="\n")


def page(told: Diagnosis) -> RenderableType:
    """What does not leave comes first; of pods about which there is nothing to say, the names."""
    parts: list[RenderableType] = [Text(f"Node {printable(told.node)}", style="bold"), _facts(_of_node(told))]
    quiet = [pod for pod in told.pods if not pod.findings]
    for pod in told.pods:
        if pod.findings:
            owner = f" ({pod.owner})" if pod.owner else ""
            parts += ["", _text(f"Pod {pod.pod}{owner}", "bold"), _facts(_of_pod(pod, told.now))]
    if quiet:
        parts += ["", _text("Nothing is in the way of", "bold"), _facts(_of_quiet(quiet, told.now))]
    return Group(*parts, "", _text(BASIS, "dim"))


def _of_node(told: Diagnosis) -> Iterator[Fact]:
    now = told.now
    yield "drain", _text(told.summary, STYLES[told.state])
    if told.since is not None:
        yield "since", _text(_moment(told.since, now))
    if told.unready:
        yield "kubelet", _text(f"{told.unready}: pods there do not end, or nobody hears of it", "bold red")
    yield from _of_defib(told)
    if told.staying:
        counts = ", ".join(f"{count} {why}" for why, count in sorted(told.staying.items()))
        yield "staying", _text(f"pods that no drain waits for: {counts}")
    for note in told.unknown:
        yield "not known", _text(note, "yellow")


def _of_defib(told: Diagnosis) -> Iterator[Fact]:
    now = told.now
    yield "Defib", _text(told.defib)
    if told.record is not None:
        reason = f" ({told.record.reason})" if told.record.reason else ""
        yield "its record", _text(f"{told.record.phase}{reason}: {told.record.message}")
    for hold in told.holds:
        yield "held", _text(f"nothing is forced: {hold}", "yellow")
    if told.peer_deadline is not None:
        yield "deadline", _text(f"whoever drains it forces by itself from {_moment(told.peer_deadline, now)} on")
    if told.record is not None and told.record.has_failed:
        yield "failed", _text("the drain takes longer than it may: it counts as failed", "bold red")
    elif told.fails_at is not None:
        yield "fails", _text(f"{_moment(told.fails_at, now)} it counts as failed, if pods are still there")


def _of_pod(pod: PodDiagnosis, now: datetime) -> Iterator[Fact]:
    for finding in pod.findings:
        yield "blocked by" if finding.blocks else "note", _text(finding.message, "bold" if finding.blocks else "")
        if finding.advice:
            yield "", _text(f"-> {finding.advice}")
    yield from _moments(pod, now)


def _moments(pod: PodDiagnosis, now: datetime) -> Iterator[Fact]:
    for label, moment in (("last", pod.last), ("next", pod.next), ("later", pod.later)):
        if moment is not None:
            yield label, _text(_happening(moment, now))


def _of_quiet(pods: Sequence[PodDiagnosis], now: datetime) -> Iterator[Fact]:
    """Together, where the same comes next for them."""
    together: dict[str, list[PodDiagnosis]] = {}
    for pod in pods:
        together.setdefault(_happening(pod.next, now) if pod.next is not None else "", []).append(pod)
    for happening, alike in together.items():
        yield _count(len(alike), "pod"), _text(_names([pod.pod for pod in alike]))
        if happening:
            yield "next", _text(happening)


def _happening(moment: Moment, now: datetime) -> str:
    return f"{_moment(moment.at, now)}: {moment.message}" if moment.at is not None else moment.message


def forecast_page(told: Forecast) -> RenderableType:
    parts: list[RenderableType] = [_head(told), _facts(_of_forecast(told))]
    for budget in told.budgets[:LINES_SHOWN]:
        parts += ["", _text(f"Disruption budget {budget.budget}", "bold"), _facts(_of_budget(budget))]
    if (more := len(told.budgets) - LINES_SHOWN) > 0:
        parts += ["", _text(f"and {_count(more, 'more budget')}; -o json has them all")]
    if told.stuck:
        parts += ["", _text("Pods that hang already", "bold"), *_of_stuck(told)]
    return Group(*parts)


def _head(told: Forecast) -> Text:
    nodes = _count(told.nodes, "node")
    if told.blocked:
        return _text(f"{len(told.blocked)} of {nodes} could not be drained as things are", "bold red")
    if not told.is_sure:
        return _text(f"Whether {nodes} could be drained is not known", "bold yellow")
    return _text(f"{nodes} could be drained as things are", "green")


def _of_forecast(told: Forecast) -> Iterator[Fact]:
    yield "pods", _text(f"{_count(told.pods, 'pod')} would have to leave")
    if told.unready:
        yield "not ready", _text(f"no kubelet would end the pods of {_names(told.unready)}", "bold red")
    for slow in told.slow[:LINES_SHOWN]:
        at_a_time = f"{slow.budget} lets {slow.allowed} go at a time, and has more on {_names(slow.nodes)}"
        yield "slow", _text(at_a_time)
    if told.bare:
        names = _names([f"{one.pod} on {one.node}" for one in told.bare])
        yield "bare", _text(f"nobody would make another one of {names}", "yellow")
    if told.with_local_data:
        pods, nodes = sum(told.with_local_data.values()), len(told.with_local_data)
        yield "local data", _text(f"{_count(pods, 'pod')} on {_count(nodes, 'node')} with emptyDir or hostPath volumes")
    for why, count in told.left_alone.items():
        yield "asks to stay", _text(f"{_count(count, 'pod')}: {why}")
    for note in told.unknown:
        yield "not known", _text(note, "yellow")


def _of_budget(told: BudgetForecast) -> Iterator[Fact]:
    blocks = f"{_count(len(told.nodes), 'node')} with {_count(told.pods, 'pod')}: {_names(told.nodes)}"
    yield "blocks", _text(blocks)
    yield "why", _text(told.message, "bold")
    if told.advice:
        yield "change", _text(told.advice)


def _of_stuck(told: Forecast) -> Iterator[RenderableType]:
    for one in told.stuck[:LINES_SHOWN]:
        yield Padding(_text(f"{one.pod} on {one.node}: {one.message}"), (0, 0, 0, 2))
    if (more := len(told.stuck) - LINES_SHOWN) > 0:
        yield Padding(_text(f"and {more} more; -o json has them all"), (0, 0, 0, 2))


def _facts(facts: Iterator[Fact]) -> RenderableType:
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(width=LABEL_WIDTH, style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, said in facts:
        table.add_row(label, said)
    return Padding(table, (0, 0, 0, 2))


def _names(names: Sequence[str]) -> str:
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _count(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"


def _moment(moment: datetime, now: datetime) -> str:
    day = "" if moment.date() == now.date() else f"{moment:%Y-%m-%d} "
    return f"{day}{moment:%H:%M:%S} UTC ({relative(moment, now)})"


def _text(said: str, style: str = "") -> Text:
    return Text(printable(" ".join(said.split())), style=style)

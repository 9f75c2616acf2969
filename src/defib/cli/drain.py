"""`defib drain`: what is in the way of a drain, of one node or of all, as text for people."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import click
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from defib.cli.drawing import INDENT, Fact, count, facts, moment, names, text
from defib.cli.output import ask, show
from defib.config import Settings
from defib.console.drain import BASIS, drain, drain_forecast
from defib.decide.drains.doctor import Diagnosis, Moment, PodDiagnosis, State
from defib.decide.drains.forecast import BudgetForecast, Forecast
from defib.rules_of import rules_of
from defib.telemetry.printable import printable

UNSURE, STUCK = 1, 3  # exit codes: when that cannot be known; when something does not leave, or would not
LINES_SHOWN = 20
STYLES = {State.DRAINING: "bold yellow", State.DRAINED: "green", State.PARKED: "yellow", State.IN_SERVICE: ""}


def diagnose_drain(node: str, settings: Settings, output: str) -> int:
    """The exit code: whether anything does not leave, or would not."""
    told = ask(drain(node, settings, rules_of(settings)), f"looking at the pods of {node}")
    show(told, lambda _: page(told), output)
    return _code(is_bad=told.is_stuck, is_sure=told.is_sure)


def forecast_drains(selector: str, settings: Settings, output: str) -> int:
    """The exit code: whether there is a node that could not be drained."""
    told = ask(drain_forecast(selector, settings), "counting the pods of the whole cluster")
    show(told, lambda _: forecast_page(told), output)
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


def page(told: Diagnosis) -> RenderableType:
    """What does not leave comes first; of pods about which there is nothing to say, the names."""
    parts: list[RenderableType] = [Text(f"Node {printable(told.node)}", style="bold"), facts(_of_node(told))]
    quiet = [pod for pod in told.pods if not pod.findings]
    for pod in told.pods:
        if pod.findings:
            owner = f" ({pod.owner})" if pod.owner else ""
            parts += ["", text(f"Pod {pod.pod}{owner}", "bold"), facts(_of_pod(pod, told.now))]
    if quiet:
        parts += ["", text("Nothing is in the way of", "bold"), facts(_of_quiet(quiet, told.now))]
    return Group(*parts, "", text(BASIS, "dim"))


def _of_node(told: Diagnosis) -> Iterator[Fact]:
    now = told.now
    yield "drain", text(told.summary, STYLES[told.state])
    if told.since is not None:
        yield "since", text(moment(told.since, now))
    if told.unready:
        yield "kubelet", text(f"{told.unready}: pods there do not end, or nobody hears of it", "bold red")
    yield from _of_defib(told)
    if told.staying:
        counts = ", ".join(f"{number} {why}" for why, number in sorted(told.staying.items()))
        yield "staying", text(f"pods that no drain waits for: {counts}")
    for note in told.unknown:
        yield "not known", text(note, "yellow")


def _of_defib(told: Diagnosis) -> Iterator[Fact]:
    now = told.now
    yield "Defib", text(told.defib)
    if told.record is not None:
        reason = f" ({told.record.reason})" if told.record.reason else ""
        yield "its record", text(f"{told.record.phase}{reason}: {told.record.message}")
    for hold in told.holds:
        yield "held", text(f"nothing is forced: {hold}", "yellow")
    if told.peer_deadline is not None:
        yield "deadline", text(f"whoever drains it forces by itself from {moment(told.peer_deadline, now)} on")
    if told.record is not None and told.record.has_failed:
        yield "failed", text("the drain takes longer than it may: it counts as failed", "bold red")
    elif told.fails_at is not None:
        yield "fails", text(f"{moment(told.fails_at, now)} it counts as failed, if pods are still there")


def _of_pod(pod: PodDiagnosis, now: datetime) -> Iterator[Fact]:
    for finding in pod.findings:
        yield "blocked by" if finding.blocks else "note", text(finding.message, "bold" if finding.blocks else "")
        if finding.advice:
            yield "", text(f"-> {finding.advice}")
    yield from _moments(pod, now)


def _moments(pod: PodDiagnosis, now: datetime) -> Iterator[Fact]:
    for label, happens in (("last", pod.last), ("next", pod.next), ("later", pod.later)):
        if happens is not None:
            yield label, text(_happening(happens, now))


def _of_quiet(pods: Sequence[PodDiagnosis], now: datetime) -> Iterator[Fact]:
    """Together, where the same comes next for them."""
    together: dict[str, list[PodDiagnosis]] = {}
    for pod in pods:
        together.setdefault(_happening(pod.next, now) if pod.next is not None else "", []).append(pod)
    for happening, alike in together.items():
        yield count(len(alike), "pod"), text(names([pod.pod for pod in alike]))
        if happening:
            yield "next", text(happening)


def _happening(what: Moment, now: datetime) -> str:
    return f"{moment(what.at, now)}: {what.message}" if what.at is not None else what.message


def forecast_page(told: Forecast) -> RenderableType:
    parts: list[RenderableType] = [_head(told), facts(_of_forecast(told))]
    for budget in told.budgets[:LINES_SHOWN]:
        parts += ["", text(f"Disruption budget {budget.budget}", "bold"), facts(_of_budget(budget))]
    if (more := len(told.budgets) - LINES_SHOWN) > 0:
        parts += ["", text(f"and {count(more, 'more budget')}; -o json has them all")]
    if told.stuck:
        parts += ["", text("Pods that hang already", "bold"), *_of_stuck(told)]
    return Group(*parts)


def _head(told: Forecast) -> Text:
    nodes = count(told.nodes, "node")
    if told.blocked:
        return text(f"{len(told.blocked)} of {nodes} could not be drained as things are", "bold red")
    if not told.is_sure:
        return text(f"Whether {nodes} could be drained is not known", "bold yellow")
    return text(f"{nodes} could be drained as things are", "green")


def _of_forecast(told: Forecast) -> Iterator[Fact]:
    yield "pods", text(f"{count(told.pods, 'pod')} would have to leave")
    if told.unready:
        yield "not ready", text(f"no kubelet would end the pods of {names(told.unready)}", "bold red")
    for slow in told.slow[:LINES_SHOWN]:
        at_a_time = f"{slow.budget} lets {slow.allowed} go at a time, and has more on {names(slow.nodes)}"
        yield "slow", text(at_a_time)
    if told.bare:
        shown = names([f"{one.pod} on {one.node}" for one in told.bare])
        yield "bare", text(f"nobody would make another one of {shown}", "yellow")
    if told.with_local_data:
        pods, nodes = sum(told.with_local_data.values()), len(told.with_local_data)
        yield "local data", text(f"{count(pods, 'pod')} on {count(nodes, 'node')} with emptyDir or hostPath volumes")
    for why, pods in told.left_alone.items():
        yield "asks to stay", text(f"{count(pods, 'pod')}: {why}")
    for note in told.unknown:
        yield "not known", text(note, "yellow")


def _of_budget(told: BudgetForecast) -> Iterator[Fact]:
    blocks = f"{count(len(told.nodes), 'node')} with {count(told.pods, 'pod')}: {names(told.nodes)}"
    yield "blocks", text(blocks)
    yield "why", text(told.message, "bold")
    if told.advice:
        yield "change", text(told.advice)


def _of_stuck(told: Forecast) -> Iterator[RenderableType]:
    for one in told.stuck[:LINES_SHOWN]:
        yield Padding(text(f"{one.pod} on {one.node}: {one.message}"), INDENT)
    if (more := len(told.stuck) - LINES_SHOWN) > 0:
        yield Padding(text(f"and {more} more; -o json has them all"), INDENT)

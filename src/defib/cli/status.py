"""`defib status`: one screen about the whole cluster, with what to look at first at the top."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from defib.cli.drawing import INDENT, Fact, count, facts, names, relative, text
from defib.cli.output import ask, show
from defib.cli.why import STYLES
from defib.config import Settings
from defib.console.shards import Sharing
from defib.console.status import Status, status
from defib.decide.answers.attention import Attention, held_by
from defib.decide.answers.overview import UNWATCHED, CheckBrief, DrainBrief, IncidentBrief, Overview
from defib.model.incident import Phase
from defib.model.verdict import State
from defib.rules_of import rules_of

UNSURE, NOT_WELL = 1, 3  # exit codes: when it cannot be known; when there is something to look at
LINES_SHOWN = 10
ROOMY_WIDTH = 100  # below it, a check is told without its mode, so that nothing is cut


def show_status(settings: Settings, output: str) -> int:
    """The exit code: whether there is anything to look at. Who goes by it alone must not take for good what nobody saw."""
    told = ask(status(settings, rules_of(settings)), "looking at the whole cluster")
    show(told, lambda width: page(told, width), output)
    return NOT_WELL if not told.is_well else UNSURE if told.unknown else 0


def page(told: Status, width: int) -> RenderableType:
    parts: list[RenderableType] = [_head(told)]
    if told.first:
        parts += ["", Text("Look at first", style="bold"), _first(told.first)]
    parts += ["", facts(_of_cluster(told))]
    if told.cluster.checks:
        parts += ["", Padding(_checks(told.cluster.checks, width), INDENT)]
    parts += ["", text(told.basis, "dim")]
    return Group(*parts)


def _head(told: Status) -> Text:
    if not told.is_well:
        return text(f"✗ {told.headline}", "bold red")
    if told.unknown:
        return text(f"? {told.headline}, as far as can be seen", "bold yellow")
    return text(f"✓ {told.headline}", "bold green")


def _first(first: tuple[Attention, ...]) -> RenderableType:
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(justify="right", style="bold red", no_wrap=True)
    table.add_column(overflow="fold")
    for number, one in enumerate(first[:LINES_SHOWN], start=1):
        table.add_row(f"{number}.", text(one.message))
        if one.command:
            table.add_row("", text(f"→ {one.command}", "cyan"))
    if (more := len(first) - LINES_SHOWN) > 0:
        table.add_row("", text(f"and {more} more; -o json has them all", "dim"))
    return Padding(table, INDENT)


def _of_cluster(told: Status) -> Iterator[Fact]:
    cluster = told.cluster
    yield "nodes", _states(cluster)
    for one in [one for one in cluster.ill if one.state in (State.SUSPECT, State.RECOVERING)][:LINES_SHOWN]:
        yield "", text(f"{one.node} is {one.state.lower()}: {one.message}", STYLES[State(one.state)])
    yield "brake", text("on", "bold red") if cluster.brake else text("off")
    for line, style in _incidents(cluster.incidents, cluster):
        yield line[0], text(line[1], style)
    for number, drain in enumerate(cluster.drains[:LINES_SHOWN]):
        yield "" if number else "drains", text(_drain(drain, cluster))
    if covered := sum(one.covered for one in cluster.fences):
        ready = sum(one.ready for one in cluster.fences)
        yield (
            "power",
            text(f"{ready} of {covered} machines could be switched off", "" if ready == covered else "yellow"),
        )
    if told.operator is not None:
        yield "operator", text(_operator(told.operator), "" if told.operator.is_well else "bold red")
    for note in told.unknown:
        yield "not known", text(note, "yellow")


def _states(cluster: Overview) -> Text:
    """Each state by its name and in its colour; those that no node is in are left out."""
    line = Text(f"{cluster.nodes:,}: ")
    told = [(state.value, STYLES[state]) for state in State if state.value in cluster.states]
    for number, (name, style) in enumerate(told):
        line.append(", " if number else "").append(f"{cluster.states[name]:,} {name.lower()}", style=style)
    if unwatched := cluster.states.get(UNWATCHED, 0):
        line.append(", " if told else "").append(f"{unwatched:,} looked after by no check", style="dim")
    return line


def _incidents(incidents: tuple[IncidentBrief, ...], cluster: Overview) -> Iterator[tuple[tuple[str, str], str]]:
    if not incidents:
        yield ("incidents", "none open"), ""
    for number, one in enumerate(incidents[:LINES_SHOWN]):
        words = f"{one.name}: {one.phase}{f', begun {relative(one.since, cluster.now)}' if one.since else ''}"
        yield ("" if number else "incidents", words), "bold red" if one.phase == Phase.NEEDS_PERSON else ""
    if (more := len(incidents) - LINES_SHOWN) > 0:
        yield ("", f"and {more} more: defib incidents"), "dim"


def _drain(one: DrainBrief, cluster: Overview) -> str:
    left = f", {count(one.pods_left, 'pod')} left" if one.pods_left is not None else ""
    begun = f", begun {relative(one.since, cluster.now)}" if one.since is not None else ""
    return f"{one.node}: {one.phase}{left}{begun}"


def _operator(told: Sharing) -> str:
    if told.is_shared:
        live = [one.name for one in told.members if one.is_live]
        return f"{count(len(live), 'replica')} share the nodes: {names(live)}; {told.leader or 'nobody'} admits"
    if told.leader:
        return f"{told.leader} leads, last heard of {relative(told.renewed, told.now)}"
    return "nobody leads"


def _checks(checks: tuple[CheckBrief, ...], width: int) -> RenderableType:
    is_roomy = width >= ROOMY_WIDTH
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    table.add_column("CHECK", overflow="fold")
    for heading in ("MODE", "PHASE") if is_roomy else ("PHASE",):
        table.add_column(heading, no_wrap=True)
    for heading in ("NODES", "HEALTHY", "UNHEALTHY", "REMEDIATING") if is_roomy else ("NODES", "WELL", "ILL", "ACTING"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("HELD BACK BY", overflow="fold")
    for one in checks:
        mode = [text(one.mode)] if is_roomy else []
        phase = text(one.phase, "green" if one.phase == "Enabled" else "yellow")
        numbers = (one.nodes, one.healthy, one.unhealthy, one.remediating)
        ill = "bold red" if one.unhealthy else ""
        cells = [text(f"{number:,}", ill if place == 2 else "") for place, number in enumerate(numbers)]  # noqa: PLR2004
        table.add_row(text(one.name, "bold"), *mode, phase, *cells, text(held_by(one), "bold red"))
    return table

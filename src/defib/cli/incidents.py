"""`defib incidents`: what failed and how it ended, as a table."""

from datetime import datetime, timedelta

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from defib.cli.drawing import count, length, relative, text
from defib.cli.output import ask, show
from defib.config import Settings
from defib.console.incidents import Incidents, incidents
from defib.decide.answers.overview import IncidentBrief
from defib.model.incident import Outcome, Phase

GOOD = frozenset({Outcome.RECOVERED.value, Outcome.REPLACED.value})
ROOMY_WIDTH = 110  # below it, what asked for it is left out; -o json and defib timeline have it
WORDS_MAX = 160  # of the last column: the whole of it is in defib timeline


def show_incidents(settings: Settings, node: str, output: str, *, every: bool) -> None:
    told = ask(incidents(settings, node, every=every), "reading the incidents")
    show(told, lambda width: page(told, node, width), output)


def page(told: Incidents, node: str, width: int) -> RenderableType:
    parts: list[RenderableType] = []
    if told.incidents:
        parts += [_table(told, width), "", text("More of one: defib timeline INCIDENT", "dim")]
    else:
        of_node = f" of node {node}" if node else ""
        parts.append(text(f"no incident{of_node} {'is open' if told.closed else 'is written down'}", "green"))
    if told.closed:
        parts.append(text(f"{count(told.closed, 'incident')} closed; --all shows them too", "dim"))
    parts += [text(f"not known: {note}", "yellow") for note in told.unknown]
    return Group(*parts)


def _table(told: Incidents, width: int) -> RenderableType:
    is_roomy = width >= ROOMY_WIDTH
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    table.add_column("INCIDENT", overflow="fold")
    table.add_column("STATE", no_wrap=True)
    table.add_column("BEGAN", no_wrap=True)
    table.add_column("TOOK", no_wrap=True, justify="right")
    if is_roomy:
        table.add_column("ASKED FOR BY", overflow="fold")
    table.add_column("WHAT", overflow="fold", ratio=1)
    for one in told.incidents:
        cause = [text(one.cause)] if is_roomy else []
        began = text(relative(one.since, told.now))
        table.add_row(
            text(one.name, "bold"), _state(one), began, _took(one, told.now), *cause, text(_short(one.message))
        )
    return table


def _state(one: IncidentBrief) -> Text:
    if one.is_open:
        return text(one.phase, "bold red" if one.phase == Phase.NEEDS_PERSON else "bold yellow")
    return text(one.outcome or one.phase, "green" if one.outcome in GOOD else "yellow")


def _took(one: IncidentBrief, now: datetime) -> Text:
    if one.seconds is not None:
        return text(length(timedelta(seconds=one.seconds)))
    if one.since is None:
        return text("")
    return text(length((one.closed or now) - one.since), "bold yellow" if one.is_open else "")


def _short(words: str) -> str:
    return words if len(words) <= WORDS_MAX else f"{words[: WORDS_MAX - 1]}…"

"""`defib timeline`: what happened to a node, line by line, with who did it; and how it stands now."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from defib.cli.drawing import INDENT, Fact, facts, length, moment, text
from defib.cli.output import ask, show
from defib.cli.why import STYLES
from defib.config import Settings
from defib.console.timeline import Timeline, timeline
from defib.decide.answers.timeline import Happening
from defib.model.incident import EntryKind
from defib.model.medik8s import CHECK_KIND
from defib.model.verdict import State
from defib.rules_of import rules_of

LINES_SHOWN = 200
WHO_MAX = 24
KINDS = {
    EntryKind.EVIDENCE: "yellow",
    EntryKind.GATE: "dim",
    EntryKind.DECISION: "cyan",
    EntryKind.ACTION: "bold",
    EntryKind.PROOF: "magenta",
    EntryKind.END: "green",
}


def show_timeline(name: str, settings: Settings, output: str) -> None:
    told = ask(timeline(name, settings, rules_of(settings)), f"reading what happened to {name}")
    show(told, lambda _: page(told), output)


def page(told: Timeline) -> RenderableType:
    parts: list[RenderableType] = [_head(told)]
    for day, lines in _by_day(told.happenings[-LINES_SHOWN:]):
        parts += ["", text(day, "dim"), _lines(lines, told)]
    if not told.happenings:
        parts += ["", text("Nothing is known to have happened to it.")]
    if (more := len(told.happenings) - LINES_SHOWN) > 0:
        parts += ["", text(f"{more} earlier ones are left out; -o json has them all", "dim")]
    if told.checks or told.unknown:
        parts += ["", Text("Now", style="bold"), facts(_now(told))]
    return Group(*parts, "", text(told.basis, "dim"))


def _head(told: Timeline) -> Text:
    if told.incident is None:
        return text(f"Node {told.node}", "bold")
    one = told.incident
    over = f"{one.outcome or one.phase}" if not one.is_open else one.phase
    return text(f"Incident {one.name} of node {told.node}: {over}", "bold")


def _by_day(happened: tuple[Happening, ...]) -> Iterator[tuple[str, list[Happening]]]:
    days: dict[str, list[Happening]] = {}
    for one in happened:
        days.setdefault(f"{one.at:%A, %Y-%m-%d} (UTC)", []).append(one)
    yield from days.items()


def _lines(happened: list[Happening], told: Timeline) -> RenderableType:
    """The second column is how long after the first thing of all: nobody wants to subtract at night."""
    shown = told.happenings[-LINES_SHOWN:]
    later = {one.at: f"+{length(one.at - shown[0].at)}" if one.at > shown[0].at else "" for one in shown}
    widths = (
        0,
        max(map(len, later.values())),
        max(len(one.kind) for one in shown),
        max(len(_short(one.by)) for one in shown),
    )
    table = Table.grid(padding=(0, 2, 0, 0))
    for style, width in zip(("", "dim", "", "dim"), widths, strict=True):  # the same on every day
        table.add_column(no_wrap=True, style=style, min_width=width)
    table.add_column(overflow="fold")
    for one in happened:
        style = "yellow" if one.is_warning else ""
        kind = text(one.kind, KINDS.get(one.kind, "dim"))  # type: ignore[call-overload]  # an older version's may be none of them
        table.add_row(f"{one.at:%H:%M:%S}", later[one.at], kind, text(_short(one.by)), text(one.message, style))
    return Padding(table, INDENT)


def _short(who: str) -> str:
    who = who.replace(f"{CHECK_KIND} ", "check ", 1)  # as everywhere else on the screen, and so that its name has room
    return who if len(who) <= WHO_MAX else f"{who[: WHO_MAX - 1]}…"


def _now(told: Timeline) -> Iterator[Fact]:
    for one in told.checks:
        name = f", check {one.check}" if one.check else ""
        yield "verdict", Text.assemble((one.state, STYLES[State(one.state)]), f"{name}: ", text(one.message))
        at = f"{moment(one.next.at, told.now)}: " if one.next.at else ""
        yield "next", text(f"{at}{one.next.message}")
    for note in told.unknown:
        yield "not known", text(note, "yellow")

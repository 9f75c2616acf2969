"""The pieces of which the text of every command is made: labelled facts, moments, counts. What is hostile is defused here."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from defib.model.duration import say
from defib.telemetry.printable import printable

LABEL_WIDTH = 12
NAMES_SHOWN = 12
INDENT = (0, 0, 0, 2)
MINUTES_FROM, HOURS_FROM = timedelta(hours=1), timedelta(days=2)  # from here on, nobody counts seconds, or minutes

Fact = tuple[str, RenderableType]


def text(said: str, style: str = "") -> Text:
    """In one piece, whatever line breaks it came with, and with nothing in it that a terminal would obey."""
    return Text(printable(" ".join(said.split())), style=style)


def facts(told: Iterable[Fact]) -> RenderableType:
    """A label and what there is to say, for each; an empty label goes on with the one before."""
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(width=LABEL_WIDTH, style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, said in told:
        table.add_row(label, said)
    return Padding(table, INDENT)


def since(at: datetime | None, now: datetime) -> str:
    return f" since {moment(at, now)}" if at is not None else ""


def moment(at: datetime | None, now: datetime) -> str:
    if at is None:
        return ""
    day = "" if at.date() == now.date() else f"{at:%Y-%m-%d} "
    return f"{day}{at:%H:%M:%S} UTC ({relative(at, now)})"


def relative(at: datetime | None, now: datetime) -> str:
    if at is None:
        return ""
    told = length(now - at)
    return f"{told} ago" if at <= now else f"in {told}"


def length(span: timedelta) -> str:
    """As exact as a person wants it."""
    span = abs(span)
    unit = 3600 if span >= HOURS_FROM else 60 if span >= MINUTES_FROM else 1
    return say(timedelta(seconds=int(span.total_seconds()) // unit * unit))


def names(all_of_them: Sequence[str]) -> str:
    more = len(all_of_them) - NAMES_SHOWN
    return ", ".join(all_of_them[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"

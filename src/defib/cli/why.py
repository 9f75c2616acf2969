"""`defib why`: the question, and what an answer looks like as text for people and as JSON for machines."""

import asyncio
import os
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from defib.cli.failed import Failed
from defib.config import Settings
from defib.console.failover import FailoverTold
from defib.console.session import NotDone
from defib.console.why import Answer, CheckTold, GateTold, IncidentTold, RemediationTold, why
from defib.model.duration import say
from defib.model.verdict import State
from defib.rules_of import rules_of
from defib.telemetry.log import printable

LABEL_WIDTH = 12
ROOMY_WIDTH = 110  # from here on a gate's value and limit have columns of their own; its sentence says them anyway
PIPED_WIDTH = 120
TIMELINE_SHOWN = 8
SUCCESS = {"True": "says that it succeeded", "False": "says that it failed"}  # Unknown is neither
NODE_PARTS = 2  # of a page: the name of the node, and the facts about it
MINUTES_FROM, HOURS_FROM = timedelta(hours=1), timedelta(days=2)  # from here on, nobody counts seconds, or minutes
STYLES = {
    State.HEALTHY: "green",
    State.SUSPECT: "yellow",
    State.UNHEALTHY: "bold red",
    State.REMEDIATING: "bold yellow",
    State.RECOVERING: "yellow",
    State.UNSEEN: "bold",
}

Fact = tuple[str, RenderableType]


def explain_node(node: str, settings: Settings, output: str) -> None:
    try:
        answer = asyncio.run(why(node, settings, rules_of(settings)))
    except NotDone as error:
        raise Failed(str(error)) from error
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(answer)).decode())
        return
    width = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else PIPED_WIDTH
    console = Console(width=width, highlight=False)
    with console.capture() as captured:
        console.print(page(answer, console.width))
    # A table is filled up with blanks to its last column, which nobody wants to copy.
    print(*(line.rstrip() for line in captured.get().splitlines()), sep="\n")


def page(answer: Answer, width: int) -> RenderableType:
    """Of the width of the terminal; what does not fit is wrapped, never cut."""
    gone = "" if answer.exists else " does not exist any more"
    parts: list[RenderableType] = [Text(f"Node {printable(answer.node)}{gone}", style="bold"), _facts(_of_node(answer))]
    if answer.incident is not None:
        parts += ["", Text("Incident", style="bold"), _facts(_of_incident(answer.incident, now=answer.now))]
    if answer.failover or answer.no_failover:
        parts += ["", Text("Pods", style="bold"), _facts(_of_failover(answer.failover, answer.no_failover))]
    for check in answer.checks:
        if check.check:
            mode = f", mode {check.mode}" if check.mode else ""
            parts += ["", Text(f"Check {printable(check.check)}{mode}", style="bold")]
        elif len(parts) > NODE_PARTS:  # else it would read as part of what was told before
            parts += ["", Text("Checks", style="bold")]
        parts.append(_facts(_of_check(check, answer.now, width)))
    parts += ["", _text(answer.basis, "dim")]
    return Group(*parts)


def _facts(facts: Iterator[Fact]) -> RenderableType:
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(width=LABEL_WIDTH, style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, said in facts:
        table.add_row(label, said)
    return Padding(table, (0, 0, 0, 2))


def _of_node(answer: Answer) -> Iterator[Fact]:
    now = answer.now
    if answer.ready is not None:
        reason = f" ({answer.ready.reason})" if answer.ready.reason else ""
        yield "Ready", _text(f"{answer.ready.status}{reason}{_since(answer.ready.since, now)}")
    elif answer.exists:
        yield "Ready", _text("the node does not say", "yellow")
    if answer.heartbeat is not None:
        yield "heartbeat", _text(relative(answer.heartbeat, now))
    if answer.is_cordoned:
        yield "cordoned", _text("no new pods are placed on it")
    if answer.lock is not None:
        until = f" until {_moment(answer.lock.until, now)}" if answer.lock.until else ""
        yield "lock", _text(f"held by {answer.lock.holder}{until}")
    for one in answer.foreign:
        yield "remediation", _text(f"{_remediation(one, now)}, made by no check")
    for note in answer.unknown:
        yield "not known", _text(note, "yellow")


def _of_incident(told: IncidentTold, now: datetime) -> Iterator[Fact]:
    yield "phase", _text(f"{told.phase}{f' ({told.outcome})' if told.outcome else ''}{_since(told.since, now)}", "bold")
    yield "", _text(told.message)
    yield "asked by", _text(told.cause)
    if told.attempt > 1:
        yield "attempt", _text(str(told.attempt))
    if told.proof:
        yield "proof", _text(told.proof)
    for entry in told.timeline[-TIMELINE_SHOWN:]:
        yield f"{entry.at:%H:%M:%S}", _text(f"{entry.phase}: {entry.message}")


def _of_failover(told: tuple[FailoverTold, ...], missing: tuple[str, ...]) -> Iterator[Fact]:
    for one in told:
        reason = f" ({one.reason})" if one.reason else ""
        yield "failover", _text(f"{one.kind} {one.namespace}/{one.name}: {one.state}{reason}", "bold")
        yield "", _text(one.message)
    for advice in dict.fromkeys(one.advice for one in told if one.advice):
        yield "next", _text(advice, "yellow")
    for note in missing:
        yield "failover", _text(note)


def _of_check(told: CheckTold, now: datetime, width: int) -> Iterator[Fact]:
    style = STYLES[State(told.state)]
    yield "verdict", Text.assemble((told.state, style), _since(told.since, now))
    yield "", _text(told.message)
    at = f"{_moment(told.next.at, now)}: " if told.next.at else ""
    yield "next", _text(f"{at}{told.next.message}")
    if told.gates:
        yield "gates", _gates(told.gates, width)
    for one in told.remediations:
        yield "remediation", _text(_remediation(one, now))
    if told.status is not None:
        written = f", written {relative(told.status.updated, now)}" if told.status.updated else ""
        yield "its status", _text(f"{told.status.phase}{written}: {told.status.reason}")
        if told.status.of_node not in ("", told.message):  # as a rule they say the same
            yield "", _text(f"of this node: {told.status.of_node}")
    elif told.check:
        yield "its status", _text("nothing yet: no operator has looked at the check", "yellow")


def _gates(gates: tuple[GateTold, ...], width: int) -> RenderableType:
    is_roomy = width >= ROOMY_WIDTH
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(4 if is_roomy else 2):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for gate in gates:
        mark = Text("open", "green") if gate.is_open else Text("CLOSED", "bold red")
        numbers = [_text(gate.value), _text(gate.limit)] if is_roomy else []
        table.add_row(mark, _text(gate.name), *numbers, _text(gate.message, "" if gate.is_open else "bold"))
    return table


def _remediation(one: RemediationTold, now: datetime) -> str:
    where = f"{one.namespace}/" if one.namespace else ""
    parts = [f"{one.kind} {where}{one.name}"]
    if one.template:
        parts.append(f"from template {one.template}")
    if one.created is not None:
        parts.append(f"created {relative(one.created, now)}")
    if one.succeeded in SUCCESS:
        parts.append(SUCCESS[one.succeeded])
    if one.is_deleting:
        parts.append("being deleted")
    return ", ".join(parts)


def _text(said: str, style: str = "") -> Text:
    return Text(printable(" ".join(said.split())), style=style)


def _since(moment: datetime | None, now: datetime) -> str:
    return f" since {_moment(moment, now)}" if moment is not None else ""


def _moment(moment: datetime | None, now: datetime) -> str:
    if moment is None:
        return ""
    day = "" if moment.date() == now.date() else f"{moment:%Y-%m-%d} "
    return f"{day}{moment:%H:%M:%S} UTC ({relative(moment, now)})"


def relative(moment: datetime | None, now: datetime) -> str:
    if moment is None:
        return ""
    length = abs(now - moment)
    unit = 3600 if length >= HOURS_FROM else 60 if length >= MINUTES_FROM else 1
    told = say(timedelta(seconds=int(length.total_seconds()) // unit * unit))
    return f"{told} ago" if moment <= now else f"in {told}"

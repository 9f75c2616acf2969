"""`defib why`: the question, and what an answer looks like as text for people."""

from collections.abc import Iterator
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from defib.cli.drawing import Fact, facts, moment, relative, since, text
from defib.cli.output import ask, show
from defib.config import Settings
from defib.console.why import why
from defib.decide.answers.told import Answer, CheckTold, FailoverTold, GateTold, IncidentTold, RemediationTold
from defib.model.verdict import State
from defib.rules_of import rules_of
from defib.telemetry.printable import printable

TIMELINE_SHOWN = 8
SUCCESS = {"True": "says that it succeeded", "False": "says that it failed"}  # Unknown is neither
NODE_PARTS = 2  # of a page: the name of the node, and the facts about it
STYLES = {
    State.HEALTHY: "green",
    State.SUSPECT: "yellow",
    State.UNHEALTHY: "bold red",
    State.REMEDIATING: "bold yellow",
    State.RECOVERING: "yellow",
    State.UNSEEN: "bold",
}


def explain_node(node: str, settings: Settings, output: str) -> None:
    answer = ask(why(node, settings, rules_of(settings)), f"looking at the cluster to say why {node} is as it is")
    show(answer, lambda _: page(answer), output)


def page(answer: Answer) -> RenderableType:
    """Of the width of the terminal; what does not fit is wrapped, never cut."""
    gone = "" if answer.exists else " does not exist any more"
    parts: list[RenderableType] = [Text(f"Node {printable(answer.node)}{gone}", style="bold"), facts(_of_node(answer))]
    if answer.incident is not None:
        parts += ["", Text("Incident", style="bold"), facts(_of_incident(answer.incident, now=answer.now))]
    if answer.failover or answer.no_failover:
        parts += ["", Text("Pods", style="bold"), facts(_of_failover(answer.failover, answer.no_failover))]
    for check in answer.checks:
        if check.check:
            mode = f", mode {check.mode}" if check.mode else ""
            parts += ["", Text(f"Check {printable(check.check)}{mode}", style="bold")]
        elif len(parts) > NODE_PARTS:  # else it would read as part of what was told before
            parts += ["", Text("Checks", style="bold")]
        parts.append(facts(_of_check(check, answer.now)))
    parts += ["", text(answer.basis, "dim")]
    return Group(*parts)


def _of_node(answer: Answer) -> Iterator[Fact]:
    now = answer.now
    if answer.ready is not None:
        reason = f" ({answer.ready.reason})" if answer.ready.reason else ""
        yield "Ready", text(f"{answer.ready.status}{reason}{since(answer.ready.since, now)}")
    elif answer.exists:
        yield "Ready", text("the node does not say", "yellow")
    if answer.heartbeat is not None:
        yield "heartbeat", text(relative(answer.heartbeat, now))
    if answer.is_cordoned:
        yield "cordoned", text("no new pods are placed on it")
    if answer.lock is not None:
        until = f" until {moment(answer.lock.until, now)}" if answer.lock.until else ""
        yield "lock", text(f"held by {answer.lock.holder}{until}")
    yield from (("incident", text(f"{name} is open: defib timeline {name}")) for name in answer.accounts)
    for one in answer.foreign:
        yield "remediation", text(f"{_remediation(one, now)}, made by no check")
    for note in answer.unknown:
        yield "not known", text(note, "yellow")


def _of_incident(told: IncidentTold, now: datetime) -> Iterator[Fact]:
    yield "phase", text(f"{told.phase}{f' ({told.outcome})' if told.outcome else ''}{since(told.since, now)}", "bold")
    yield "", text(told.message)
    yield "asked by", text(told.cause)
    if told.attempt > 1:
        yield "attempt", text(str(told.attempt))
    if told.safe_time is not None:
        yield "safe time", text(str(told.safe_time))
        yield from (("", text(f"{part.seconds:.3g} s {part.name}: {part.why}")) for part in told.safe_time.parts)
    if told.proof:
        yield "proof", text(told.proof)
    for entry in told.timeline[-TIMELINE_SHOWN:]:
        yield f"{entry.at:%H:%M:%S}", text(f"{entry.phase}: {entry.message}")


def _of_failover(told: tuple[FailoverTold, ...], missing: tuple[str, ...]) -> Iterator[Fact]:
    for one in told:
        reason = f" ({one.reason})" if one.reason else ""
        yield "failover", text(f"{one.kind} {one.namespace}/{one.name}: {one.state}{reason}", "bold")
        yield "", text(one.message)
    for advice in dict.fromkeys(one.advice for one in told if one.advice):
        yield "next", text(advice, "yellow")
    for note in missing:
        yield "failover", text(note)


def _of_check(told: CheckTold, now: datetime) -> Iterator[Fact]:
    style = STYLES[State(told.state)]
    yield "verdict", Text.assemble((told.state, style), since(told.since, now))
    yield "", text(told.message)
    at = f"{moment(told.next.at, now)}: " if told.next.at else ""
    yield "next", text(f"{at}{told.next.message}")
    if told.no_fast_path:
        yield "fast path", text(f"not taken: {told.no_fast_path}", "yellow")
    if told.gates:
        yield "gates", _gates(told.gates)
    for one in told.remediations:
        yield "remediation", text(_remediation(one, now))
        if one.because:
            yield "", text(one.because)
    if told.status is not None:
        written = f", written {relative(told.status.updated, now)}" if told.status.updated else ""
        yield "its status", text(f"{told.status.phase}{written}: {told.status.reason}")
        if told.status.of_node not in ("", told.message):  # as a rule they say the same
            yield "", text(f"of this node: {told.status.of_node}")
    elif told.check:
        yield "its status", text("nothing yet: no operator has looked at the check", "yellow")


def _gates(gates: tuple[GateTold, ...]) -> RenderableType:
    """Those that hold it back come first, then those that count something. Of the others, their names say enough."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for gate in [gate for gate in gates if not gate.is_open]:
        table.add_row(Text("CLOSED", "bold red"), Text.assemble(text(gate.name), ": ", text(gate.message, "bold")))
    for gate in [gate for gate in gates if gate.is_open and gate.limit]:
        table.add_row(Text("open", "green"), text(f"{gate.name}: {gate.message}"))
    if rest := [gate.name for gate in gates if gate.is_open and not gate.limit]:
        table.add_row(Text("open", "green"), text(", ".join(rest)))
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

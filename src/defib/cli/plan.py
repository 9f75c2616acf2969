"""`defib plan`: what would be done now, what waits, and what is in the way, one check after the other."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from defib.cli.drawing import Fact, count, facts, moment, names, text
from defib.cli.output import ask, show
from defib.config import Settings
from defib.console.deeds import ACTS, ASKS, Deed
from defib.console.plan import CheckPlanned, NodeTold, PlanTold, plan_now, plan_of_dump
from defib.model.verdict import State
from defib.rules_of import rules_of
from defib.telemetry.printable import printable

DEEDS_SHOWN = 20
NODES_SHOWN = 20
OWN_WORK = "For drains, machines and pods of our own"


def show_plan(dump: Path | None, settings: Settings, output: str) -> None:
    if dump is None:
        told = ask(plan_now(settings, rules_of(settings)), "looking at the cluster to see what would be done")
    else:
        told = ask(asyncio.to_thread(plan_of_dump, dump), f"reading {dump}")
    show(told, lambda _: page(told), output)


def page(told: PlanTold) -> RenderableType:
    source = f"dump {told.source}" if told.source else "the cluster as it is now"
    parts: list[RenderableType] = [text(f"Plan for {source}", "bold"), facts(_head(told))]
    for check in told.checks:
        mode = f", mode {check.mode}" if check.mode else ""
        parts += ["", Text(f"Check {printable(check.check)}{mode}", style="bold"), facts(_of_check(check, told.now))]
    if told.deeds:
        parts += ["", Text(OWN_WORK, style="bold"), facts(_deeds(told.deeds))]
    parts += ["", text("This only says what would be done. Nothing was changed.", "dim")]
    return Group(*parts)


def _head(told: PlanTold) -> Iterator[Fact]:
    yield "as of", text(f"{told.now:%Y-%m-%d %H:%M:%S} UTC, {count(told.nodes, 'node')}")
    acts = sum(deed.effect == ACTS for deed in told.all_deeds)
    yield "in short", text(f"{count(acts, 'change')} would be made now" if acts else "nothing would be changed", "bold")
    if told.wake_at is not None:
        yield "next look", text(f"{moment(told.wake_at, told.now)}, or when something changes")
    if not told.checks:
        yield "checks", text("there is no NodeHealthCheck, so no node is looked after", "yellow")
    for note in told.unknown:
        yield "not known", text(note, "yellow")


def _of_check(check: CheckPlanned, now: datetime) -> Iterator[Fact]:
    seen = f"{check.healthy} of {count(check.observed, 'node')} healthy" if check.observed else ""
    yield "phase", text(", ".join(part for part in (check.phase, seen) if part))
    if check.reason:
        yield "", text(check.reason)
    yield from _deeds(check.deeds)
    yield from _nodes(check.nodes, now)
    closed = [gate for gate in check.gates if not gate.is_open]
    for place, gate in enumerate(closed):
        yield "" if place else "gates", Text.assemble(("CLOSED ", "bold red"), text(f"{gate.name}: {gate.message}"))
    if not closed:
        yield "gates", text("all open", "green")


def _deeds(deeds: Iterable[Deed]) -> Iterator[Fact]:
    listed = tuple(deeds)
    acts = [deed.what for deed in listed if deed.effect == ACTS]
    for place, what in enumerate(acts[:DEEDS_SHOWN]):
        yield "" if place else "would now", text(what, "bold")
    if len(acts) > DEEDS_SHOWN:
        yield "", text(f"and {len(acts) - DEEDS_SHOWN} more; -o json has all")
    yield from _in_short("would ask", [deed for deed in listed if deed.effect == ASKS])
    yield from _in_short("would note", [deed for deed in listed if deed.effect not in (ACTS, ASKS)])


def _in_short(label: str, deeds: list[Deed]) -> Iterator[Fact]:
    """Of what changes nothing, one of each sort."""
    of_sort = Counter(deed.action for deed in deeds)
    first = {deed.action: deed.what for deed in reversed(deeds)}
    for place, action in enumerate(sorted(of_sort)):
        more = of_sort[action] - 1
        yield "" if place else label, text(first[action] + (f", and {more} more like it" if more else ""), "dim")


def _nodes(nodes: tuple[NodeTold, ...], now: datetime) -> Iterator[Fact]:
    """Nodes of which the same is to be said stand together: of a lost zone, hundreds do."""
    alike: dict[tuple[str, str, str], list[NodeTold]] = {}
    for node in nodes:
        if node.state != State.HEALTHY.value:
            alike.setdefault((node.state, node.held_by, node.message), []).append(node)
    for place, ((state, held_by, message), found) in enumerate(alike.items()):
        if place == NODES_SHOWN:
            yield "", text("and more; -o json has all")
            return
        held = f", HELD BACK by {held_by}" if held_by else ""
        yield "" if place else "nodes", text(f"{names([node.node for node in found])}: {state}{held}: {message}")
        if found[0].next:
            at = f"{moment(found[0].next_at, now)}: " if found[0].next_at else ""
            yield "", text(f"  next: {at}{found[0].next}", "dim")

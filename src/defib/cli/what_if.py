"""`defib simulate`: the story of a failure that has not happened, and how it ends for each node."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from defib.cli.drawing import Fact, count, facts, names, text
from defib.cli.output import ask, show
from defib.config import Settings
from defib.console.blast import Blast, WorkloadHit
from defib.console.mishap import Mishap
from defib.console.what_if import CheckAfter, Fate, Happening, WhatIf, what_if_now, what_if_of_dump
from defib.model.duration import say
from defib.model.verdict import State
from defib.rules_of import rules_of

WORKLOADS_SHOWN = 10
STORY_SHOWN = 60


def show_what_if(mishap: Mishap, seconds: float, dump: Path | None, settings: Settings, output: str) -> None:
    length = timedelta(seconds=seconds)
    if dump is None:
        told = ask(
            what_if_now(mishap, length, settings, rules_of(settings)), "looking at the cluster, to try it on a copy"
        )
    else:
        told = ask(asyncio.to_thread(what_if_of_dump, mishap, length, dump), f"trying it on {dump}")
    show(told, lambda _: page(told), output)


def page(told: WhatIf) -> RenderableType:
    parts: list[RenderableType] = [text(_title(told), "bold"), facts(_head(told))]
    if told.blast is not None:
        parts += ["", text("What runs there", "bold"), facts(_blast(told.blast))]
    parts += ["", text("What would happen", "bold"), facts(_story(told.happenings))]
    if told.fates:
        parts += ["", text(f"After {say(told.ends - told.begins)}", "bold"), facts(_ends(told))]
    for check in told.checks:
        parts += ["", text(f"Check {check.check}", "bold"), facts(_check(check))]
    parts += ["", text("Tried on a copy in memory. Nothing was done to the cluster.", "dim")]
    return Group(*parts)


def _title(told: WhatIf) -> str:
    died = f"{count(len(told.killed), 'node')} died" if told.killed else "the API server did not answer"
    source = f"dump {told.source}" if told.source else "the cluster as it is now"
    return f"What if {died}? ({source})"


def _head(told: WhatIf) -> Iterator[Fact]:
    yield "begins", text(f"{told.begins:%Y-%m-%d %H:%M:%S} UTC, {count(told.nodes, 'node')}")
    if told.killed:
        yield "dead", text(names(told.killed))
    for place, one in enumerate(told.assumptions):
        yield "" if place else "assumed", text(one, "dim")
    for note in told.unknown:
        yield "not known", text(note, "yellow")


def _blast(blast: Blast) -> Iterator[Fact]:
    yield "pods", text(f"{blast.pods:,} of {blast.of:,}, {blast.with_claims:,} with volumes", "bold")
    if blast.of_daemon_sets:
        yield "", text(f"{blast.of_daemon_sets:,} of DaemonSets, which belong to their nodes")
    if blast.bare:
        yield "", text(f"{blast.bare:,} bare pods, which nobody makes again", "yellow")
    for place, one in enumerate(blast.workloads[:WORKLOADS_SHOWN]):
        yield "" if place else "workloads", _workload(one)
    more = len(blast.workloads) + blast.more_workloads - WORKLOADS_SHOWN
    if more > 0:
        yield "", text(f"and {more:,} more")


def _workload(one: WorkloadHit) -> Text:
    lost = f"{one.kind} {one.namespace}/{one.name}: {one.lost} of {count(one.of, 'pod')}"
    return text(f"{lost}: ALL OF THEM", "bold red") if one.is_gone else text(lost)


def _story(happenings: tuple[Happening, ...]) -> Iterator[Fact]:
    if not happenings:
        yield "", text("nothing: no NodeHealthCheck has anything to do with it")
    for one in happenings[:STORY_SHOWN]:
        whom = f" [{names(one.nodes)}{_more(one)}]" if one.nodes else ""
        style = "bold red" if "HELD BACK" in one.what or "CLOSES" in one.what else ""
        who = "" if one.who == "Kubernetes" else f"{one.who}: "
        yield f"+{say(timedelta(seconds=int(one.after_seconds)))}", text(f"{who}{one.what}{whom}", style)
    if len(happenings) > STORY_SHOWN:
        yield "", text(f"and {len(happenings) - STORY_SHOWN} more; -o json has all")


def _more(one: Happening) -> str:
    more = one.count - len(one.nodes)
    return f" and {more:,} more" if more > 0 else ""


def _ends(told: WhatIf) -> Iterator[Fact]:
    """Nodes with the same fate stand together."""
    alike: dict[tuple[str, str, tuple[str, ...]], list[Fate]] = {}
    for fate in told.fates:
        alike.setdefault((_ended(fate), fate.message if not fate.by else "", fate.pods), []).append(fate)
    for (said, message, pods), found in alike.items():
        listed = names([fate.node for fate in found])
        style = "bold red" if found[0].held_by else ""
        yield count(len(found), "node"), text(f"{said}: {message or _when(found, told)} [{listed}]", style)
        for one in pods:
            yield "", text(f"its pods: {one}" if len(found) == 1 else f"pods of each: {one}")


def _ended(fate: Fate) -> str:
    if not fate.check:
        return "nobody looks after it"
    if fate.held_by:
        return f"HELD BACK by {fate.held_by}, for check {fate.check}"
    being = "being remediated" if fate.state == State.REMEDIATING.value else fate.state.lower()
    return f"{being}, by check {fate.check}" if fate.by else f"{being}, for check {fate.check}"


def _when(found: list[Fate], told: WhatIf) -> str:
    moments = sorted(fate.remediated_at for fate in found if fate.remediated_at is not None)
    if not moments:
        return found[0].message
    first, last = (say(timedelta(seconds=int((at - told.begins).total_seconds()))) for at in (moments[0], moments[-1]))
    return f"its remediation began after {first}" if first == last else f"remediations began from {first} to {last}"


def _check(check: CheckAfter) -> Iterator[Fact]:
    yield "phase", text(f"{check.phase}: {check.reason}" if check.reason else check.phase)
    yield "budget", text(f"{check.remediating} being remediated, never more than {check.most_remediating} at once")
    closed = [gate for gate in check.gates if not gate.is_open]
    for place, gate in enumerate(closed):
        yield "" if place else "gates", Text.assemble(("CLOSED ", "bold red"), text(f"{gate.name}: {gate.message}"))
    if not closed:
        yield "gates", text("all open", "green")

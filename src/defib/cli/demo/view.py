"""What the demo shows on a terminal, and as plain lines elsewhere. Pure: a scene in, text out."""

import textwrap
from collections.abc import Mapping
from datetime import datetime

import msgspec
from rich.console import Group, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from defib.cli.demo.story import DEFIB, DEMO, POWER, Spoken, changes_told
from defib.cli.drawing import count
from defib.decide.explain import explain
from defib.model.node import Node
from defib.model.verdict import State, Verdict
from defib.picture import Picture
from defib.telemetry.printable import printable

CLOSING = "The demo is over; nothing is left of it. On a real cluster: defib run"
ROOMY_WIDTH = 100
NARROW_WIDTH = 76
TITLES = ("NODE", "READY", "POWER", "PODS UP", "HEARTBEAT", "DEFIB SEES")
NUMBERS = {"PODS UP", "HEARTBEAT"}
WIDEST = {"READY": "Unknown", "HEARTBEAT": "never"}  # or the table would jump
FROM_WIDTH = {"POWER": NARROW_WIDTH}  # below it, there is no room for it
ROOMY_HEIGHT = 28  # from here on there are blank lines between the parts
FRAME_LINES = 3  # the title, the table's header, the replicas
EVENTS_MAX = 14
NO_BREAK = "\u00a0"
NEEDED = {"nodes", "heartbeats"}
STYLES = {POWER: "yellow", DEFIB: "green", DEMO: "magenta"}
GRAVEST_FIRST = (
    State.UNHEALTHY,
    State.REMEDIATING,
    State.SUSPECT,
    State.RECOVERING,
    State.HEALTHY,
    State.UNSEEN,
)


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a frame is made of. `pods` are those that are ready, by node; `keys` what can be pressed."""

    now: datetime
    picture: Picture
    lines: tuple[Spoken, ...]
    caption: str
    playing: str
    pods: Mapping[str, int]
    power: Mapping[str, bool]
    databases: Mapping[str, str]
    replicas: tuple[str, ...]
    leader: str
    speed: float
    grace_seconds: float
    keys: tuple[tuple[str, str], ...]
    page: str
    kubeconfig: str


def headline(shown: Shown) -> str:
    pace = "at real speed" if shown.speed == 1 else f"{shown.speed:g}x faster"
    return f"{len(shown.power)} simulated machines, {pace}; the operator is the real one"


def story(shown: Shown) -> list[Spoken]:
    return sorted([*changes_told(shown.picture.story), *shown.lines], key=lambda line: line.at)


def connect_hint(shown: Shown) -> str:
    return f"KUBECONFIG={shown.kubeconfig} kubectl get nodes,nhc,ni"


def screen(shown: Shown, width: int, height: int) -> RenderableType:
    """One frame that fits the terminal; the newest events take what the nodes leave."""
    title = Text.assemble((" Defib demo ", "bold reverse"), "  ", (headline(shown), "dim"))
    scene = f"{shown.playing}: " if shown.playing else ""
    said = _wrapped(f"{scene}{shown.caption}", width, "bold")
    below = [
        *_wrapped(_keys(shown), width, "cyan"),
        *([Text.assemble(("page  ", "dim"), (shown.page, "cyan underline"))] if shown.page else []),
        *_wrapped(connect_hint(shown), width, "dim"),
    ]
    blank = [""] if height >= ROOMY_HEIGHT else []
    taken = FRAME_LINES + 4 * len(blank) + len(shown.picture.cluster.nodes) + len(said) + len(below)
    room = max(1, min(EVENTS_MAX, height - taken))
    events = [_event(line) for line in story(shown)[-room:]]
    events += [Text()] * (room - len(events))  # so that what stands below stays where it is
    nodes: list[RenderableType] = [_nodes(shown, width), _replicas(shown)]
    parts: list[RenderableType] = [_one_line(title), *blank, *nodes, *blank, *said, *blank, *events, *blank, *below]
    return Padding(Group(*parts), (0, 1))


def _keys(shown: Shown) -> str:
    """A key and what it does stay on one line."""
    pairs = (*shown.keys, ("q", "quit"))
    return "   ".join(f"{key} {name}".replace(" ", NO_BREAK) for key, name in pairs)


def _wrapped(text: str, width: int, style: str) -> list[Text]:
    """One line each, so that they can be counted."""
    return [Text(line, style=style) for line in textwrap.wrap(printable(text), width - 2, break_on_hyphens=False)]


def _one_line(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _event(line: Spoken) -> Text:
    style = "red" if line.bad else STYLES.get(line.by, "cyan")
    return _one_line(Text.assemble((f"{line.at:%H:%M:%S}  ", "dim"), (f"{line.by:5}  ", style), line.text))


def _replicas(shown: Shown) -> Text:
    who = [(f"{name} leads" if name == shown.leader else f"{name} stands by") for name in shown.replicas]
    places = [f"{pod} on {place}" if place else f"{pod} nowhere" for pod, place in shown.databases.items()]
    return _one_line(
        Text.assemble((", ".join(who), "green" if shown.leader else "bold red"), ("   " + ", ".join(places), "dim"))
    )


def _nodes(shown: Shown, width: int) -> Table:
    table = Table(box=None, padding=(0, 3 if width >= ROOMY_WIDTH else 2, 0, 0), header_style="dim", pad_edge=False)
    names = sorted(shown.picture.cluster.nodes)
    titles = [title for title in TITLES if width >= FROM_WIDTH.get(title, 0)]
    for title in titles:
        justify: JustifyMethod = "right" if title in NUMBERS else "left"
        wide = max(len(title), len(WIDEST.get(title, "")), *(map(len, names) if title == "NODE" else ()))
        shrinks = title == TITLES[-1]  # what is cut off there stands in the lines below; a name is needed whole
        table.add_column(title, justify=justify, min_width=None if shrinks else wide, no_wrap=True, overflow="ellipsis")
    for name in names:
        cells = _row(shown, shown.picture.cluster.nodes[name], width)
        table.add_row(*(cells[title] for title in titles))
    return table


def _row(shown: Shown, node: Node, width: int) -> dict[str, Text]:
    age = heartbeat_age(shown, node.name)
    said, style = seen(shown, node, age)
    is_on = shown.power.get(node.name, False)
    return {
        "NODE": Text(printable(node.name)),
        "READY": Text(printable(node.ready), style="red" if node.ready != "True" else style),
        "POWER": Text("on" if is_on else "OFF", style="" if is_on else "bold red"),
        "PODS UP": Text(str(shown.pods.get(node.name, 0))),
        "HEARTBEAT": Text("never" if age is None else f"{age:.1f} s", style=style),
        "DEFIB SEES": Text(said if width >= NARROW_WIDTH else said.partition(":")[0], style=style),
    }


def heartbeat_age(shown: Shown, name: str) -> float | None:
    lease = shown.picture.cluster.heartbeat_of(name)
    if lease is None or lease.spec.renew_time is None:
        return None
    return max(0.0, (shown.now - lease.spec.renew_time).total_seconds())


def seen(shown: Shown, node: Node, age: float | None) -> tuple[str, str]:
    """What Defib thinks of a node, in few words, and the colour of it. Behind a colon stands why."""
    picture = shown.picture
    if any(blindness.kind in NEEDED for blindness in picture.cluster.blind):
        return "cannot see now", "yellow"
    verdict = verdict_of(picture, node.name)
    if verdict.state is not State.HEALTHY:
        return _worry(shown, verdict)
    if standing := picture.own.drains.standings.get(node.name):
        left = standing.status.pods_left
        return f"draining: {count(left, 'pod') if left is not None else '? pods'} left", "magenta"
    silent = age is None or age > shown.grace_seconds / 2
    return ("silent", "yellow") if silent else ("well", "green")


def verdict_of(picture: Picture, node: str) -> Verdict:
    """Of several checks, the one that worries most about the node speaks."""
    verdicts = explain(node, picture.cluster, picture.plan)
    return min(verdicts, key=lambda verdict: GRAVEST_FIRST.index(verdict.state))


def _worry(shown: Shown, verdict: Verdict) -> tuple[str, str]:
    match verdict.state:
        case State.SUSPECT:
            left = (verdict.since - shown.now).total_seconds() if verdict.since else 0.0
            return f"suspect: {max(left, 0.0):.1f} s to go", "yellow"
        case State.UNHEALTHY:
            return f"unhealthy: held back by {verdict.reason}", "bold red"
        case State.REMEDIATING:
            incident = shown.picture.cluster.incidents().get(verdict.node)
            is_open = incident is not None and incident.is_open
            return f"remediating: {incident.status.phase if incident and is_open else verdict.reason}", "bold yellow"
        case State.RECOVERING:
            return "recovering", "yellow"
        case _:
            return "no check", "dim"

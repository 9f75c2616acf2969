"""What the demo shows, as a table on a terminal and as plain lines elsewhere. Pure: a scene in, text out."""

from collections.abc import Iterator
from datetime import datetime

import msgspec
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from defib.app import Picture, Told
from defib.decide.changes import Change, What
from defib.model.node import Node
from defib.telemetry.log import printable

HONESTY = "This version of Defib watches and explains. It does not act on nodes yet."
CLOSING = "The demo is over; nothing is left of it. On a real cluster: defib run"
ROOMY_WIDTH = 100
NARROW_WIDTH = 76
TITLES = ("NODE", "ZONE", "READY", "HEARTBEAT", "SINCE", "BOOT", "DEFIB SEES")
NUMBERS = {"HEARTBEAT", "SINCE"}
LEFT_OUT = {"ZONE", "BOOT"}
FRAME_LINES = 9  # of a screen, besides the nodes and the events
EVENTS_MAX = 15
MINUTES_FROM = 120
BAD = {What.NOT_READY, What.BLIND, What.LEFT, What.UNREAD}


class Spoken(msgspec.Struct, frozen=True):
    """One line of the story. `by` is who knows it: the machine room, or Defib from what it sees."""

    at: datetime
    by: str
    text: str
    bad: bool = False

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S}  {self.by:5}  {self.text}"


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a frame is made of."""

    now: datetime
    picture: Picture
    power_events: tuple[Spoken, ...]
    victim: str
    has_power: bool
    machines: int
    zones: int
    speed: float
    grace_seconds: float
    kubeconfig: str


def headline(scene: Scene) -> str:
    speed = "in real time" if scene.speed == 1 else f"{scene.speed:g}x faster than real"
    return f"{scene.machines} simulated nodes in {scene.zones} zones, timers {speed}"


def happening(scene: Scene) -> str:
    """One sentence about where the story is."""
    node = scene.picture.cluster.nodes.get(scene.victim)
    if not scene.victim or node is None:
        return "All is well. In a moment, a node loses its power."
    match scene.has_power, node.ready == "True":
        case False, True:
            return (
                f"{scene.victim} lost its power. Kubernetes notices after {scene.grace_seconds:g} s without heartbeat."
            )
        case False, False:
            return f"Kubernetes gave {scene.victim} up. Defib sees it, and in this version only watches."
        case True, False:
            return f"{scene.victim} has power again and boots."
        case _:
            return f"{scene.victim} is back, with a new boot ID."


def spoken(told: tuple[Told, ...]) -> Iterator[Spoken]:
    """Defib's story. Nodes that join in the same look are one line, however many."""
    joined: list[Told] = []
    for one in told:
        if one.change.what is What.JOINED:
            joined.append(one)
            continue
        yield Spoken(one.at, "defib", printable(_sentence(one.change)), one.change.what in BAD)
    for at in sorted({one.at for one in joined}):
        names = [one.change.subject for one in joined if one.at == at]
        text = f"{names[0]} joined" if len(names) == 1 else f"{len(names)} nodes joined"
        yield Spoken(at, "defib", printable(text))


def _sentence(change: Change) -> str:
    match change.what:
        case What.SEES:
            return f"sees the {change.subject}"
        case What.BLIND:
            return f"lost sight of the {change.subject}: {change.why}"
        case _:
            return str(change)


def story(scene: Scene) -> list[Spoken]:
    return sorted([*spoken(scene.picture.story), *scene.power_events], key=lambda line: line.at)


def connect_hint(scene: Scene) -> str:
    return f"KUBECONFIG={scene.kubeconfig} kubectl get nodes"


def screen(scene: Scene, width: int, height: int) -> RenderableType:
    """One frame that fits the terminal; the newest events take what the nodes leave."""
    hint = connect_hint(scene)
    wrapped = len(hint) // (width - 2)
    room = max(1, min(EVENTS_MAX, height - FRAME_LINES - wrapped - len(scene.picture.cluster.nodes)))
    parts: list[RenderableType] = [
        Text.assemble((" Defib demo ", "bold reverse"), "  ", (headline(scene), "dim")),
        "",
        _nodes(scene, width),
        "",
        Text(happening(scene), style="bold"),
        *(_event(line) for line in story(scene)[-room:]),
        "",
        Text(HONESTY, style="dim"),
        Text("Ctrl-C ends it. Meanwhile, in another terminal:", style="dim"),
        Text(hint, style="cyan", overflow="fold"),
    ]
    return Padding(Group(*parts), (0, 1))


def _event(line: Spoken) -> Text:
    style = "red" if line.bad else "yellow" if line.by == "power" else "green"
    text = Text.assemble((f"{line.at:%H:%M:%S}  ", "dim"), (f"{line.by:5}  ", style), line.text)
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _nodes(scene: Scene, width: int) -> Table:
    table = Table(box=None, padding=(0, 3 if width >= ROOMY_WIDTH else 2, 0, 0), header_style="dim", pad_edge=False)
    for title in _row_titles(width):
        table.add_column(title, justify="right" if title in NUMBERS else "left", no_wrap=True, overflow="ellipsis")
    for name in sorted(scene.picture.cluster.nodes):
        cells = _row(scene, scene.picture.cluster.nodes[name], width)
        table.add_row(*(cells[title] for title in _row_titles(width)))
    return table


def _row_titles(width: int) -> list[str]:
    """What a narrow terminal has no room for is left out whole."""
    return [title for title in TITLES if width >= NARROW_WIDTH or title not in LEFT_OUT]


def _row(scene: Scene, node: Node, width: int) -> dict[str, Text]:
    age = heartbeat_age(scene, node.name)
    verdict, style = seen(scene, node, age)
    boot = node.status.node_info.boot_id
    return {
        "NODE": Text(printable(node.name)),
        "ZONE": Text(printable(node.zone)),
        "READY": Text(printable(node.ready), style=style),
        "HEARTBEAT": Text("never" if age is None else f"{age:.1f} s", style=style),
        "SINCE": Text(_since(node, scene.now)),
        "BOOT": Text(printable(boot if width >= ROOMY_WIDTH else boot[:8])),
        "DEFIB SEES": Text(verdict, style=style),
    }


def heartbeat_age(scene: Scene, name: str) -> float | None:
    lease = scene.picture.cluster.heartbeat_of(name)
    if lease is None or lease.spec.renew_time is None:
        return None
    return max(0.0, (scene.now - lease.spec.renew_time).total_seconds())


def seen(scene: Scene, node: Node, age: float | None) -> tuple[str, str]:
    """What Defib can tell about a node by itself, and the colour of it."""
    if scene.picture.cluster.blind:
        return "cannot see now", "yellow"
    if node.ready != "True":
        condition = node.condition("Ready")
        return printable(condition.reason) if condition else "no Ready condition", "red"
    if age is None or age > scene.grace_seconds / 2:
        return "silent", "yellow"
    return "well", "green"


def _since(node: Node, now: datetime) -> str:
    condition = node.condition("Ready")
    if condition is None or condition.last_transition_time is None:
        return ""
    seconds = max(0.0, (now - condition.last_transition_time).total_seconds())
    return f"{seconds:.0f} s" if seconds < MINUTES_FROM else f"{seconds // 60:.0f} m"

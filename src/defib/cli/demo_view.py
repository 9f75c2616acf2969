"""What the demo shows, as a table on a terminal and as plain lines elsewhere. Pure: a scene in, text out."""

import textwrap
from collections.abc import Mapping
from datetime import datetime

import msgspec
from rich.console import Group, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from defib.cli.demo_story import DEFIB, POWER, Spoken, changes_told, pods_said
from defib.decide.explain import explain
from defib.model.node import Node
from defib.model.pod_failover import REMEDIATION, read_failover_status
from defib.model.verdict import State, Verdict
from defib.picture import Picture
from defib.telemetry.log import printable

HONESTY = "Defib moves the pods. The machine it leaves alone: power returns by itself."
CLOSING = "The demo is over; nothing is left of it. On a real cluster: defib run"
ROOMY_WIDTH = 100
NARROW_WIDTH = 76
TITLES = ("NODE", "ZONE", "READY", "PODS", "HEARTBEAT", "SINCE", "BOOT", "DEFIB SEES")
NUMBERS = {"PODS", "HEARTBEAT", "SINCE"}
FROM_WIDTH = {"ZONE": NARROW_WIDTH, "BOOT": ROOMY_WIDTH}  # below it, there is no room for them
BOOT_SHOWN = 8
FRAME_LINES = 5  # the title, the table's header, and blanks
EVENTS_MAX = 12
MINUTES_FROM = 120
NEEDED = {"nodes", "heartbeats"}
STYLES = {POWER: "yellow", DEFIB: "green"}
UNDERWAY = {"Starting", "Remediating"}
GRAVEST_FIRST = (
    State.UNHEALTHY,
    State.REMEDIATING,
    State.SUSPECT,
    State.RECOVERING,
    State.HEALTHY,
    State.UNSEEN,
)


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How fast the demo runs, and how long that makes what a person waits for."""

    speed: float
    grace_seconds: float
    patience_seconds: float
    toleration_seconds: float

    @property
    def alone_seconds(self) -> float:
        """From the loss of power until Kubernetes by itself lets the pods run elsewhere."""
        return self.grace_seconds + self.toleration_seconds


class Outage(msgspec.Struct, frozen=True, kw_only=True):
    """A node that lost its power, and `pods` with it. `served_after_seconds`: when others did their work.

    `by_defib`: it did not leave that to Kubernetes.
    """

    node: str
    since: datetime
    pods: int
    has_power: bool = False
    served_after_seconds: float | None = None
    by_defib: bool = False


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a frame is made of. `pods` are those that are ready, by node."""

    now: datetime
    picture: Picture
    lines: tuple[Spoken, ...]
    outage: Outage | None
    pods: Mapping[str, int]
    machines: int
    replicas: int
    pace: Pace
    kubeconfig: str


def headline(scene: Scene) -> str:
    speed = scene.pace.speed
    pace = "in real time" if speed == 1 else f"{speed:g}x faster than real"
    return f"{scene.machines} simulated nodes, {pods_said(scene.replicas)}, timers {pace}"


def happening(scene: Scene) -> str:
    """One sentence or two about where the story is."""
    outage = scene.outage
    if outage is None:
        return "All is well. In a moment, a node loses its power."
    node = scene.picture.cluster.nodes.get(outage.node)
    if node is None:
        return f"{outage.node} lost its power, and somebody removed it from the cluster."
    verdict = verdict_of(scene.picture, node.name)
    if outage.has_power:
        return _afterwards(node, verdict)
    if node.ready == "True":
        grace = scene.pace.grace_seconds
        return f"{node.name} lost its power. Kubernetes notices after {grace:.3g} s without heartbeat."
    if outage.served_after_seconds is not None:
        return _served(outage, outage.served_after_seconds, scene.pace)
    return f"Kubernetes gave {node.name} up. {_meanwhile(scene, verdict)}"


def _served(outage: Outage, seconds: float, pace: Pace) -> str:
    alone = (
        f"Kubernetes alone would have taken about {pace.alone_seconds:.3g} s."
        if outage.by_defib
        else "Kubernetes did it alone."
    )
    return f"{pods_said(outage.pods)} of {outage.node} run elsewhere, {seconds:.1f} s after the power was lost. {alone}"


def _afterwards(node: Node, verdict: Verdict) -> str:
    if node.ready != "True":
        return f"{node.name} has power again and boots. Its pods stay where they are."
    if verdict.state is State.RECOVERING:
        return f"{node.name} is back. Defib removes its remediation."
    return f"{node.name} is back, and Defib is done with it."


def _meanwhile(scene: Scene, verdict: Verdict) -> str:
    match verdict.state:
        case State.SUSPECT:
            return f"Defib waits for {scene.pace.patience_seconds:.3g} s, in case it comes back."
        case State.UNHEALTHY:
            return f"Defib holds back: {printable(verdict.message)}."
        case State.REMEDIATING:
            return "Defib lets its pods start elsewhere."
        case _:
            return f"By itself, it waits {scene.pace.toleration_seconds:.3g} s before its pods may leave."


def verdict_of(picture: Picture, node: str) -> Verdict:
    """Of several checks, the one that worries most about the node speaks."""
    verdicts = explain(node, picture.cluster, picture.plan)
    return min(verdicts, key=lambda verdict: GRAVEST_FIRST.index(verdict.state))


def story(scene: Scene) -> list[Spoken]:
    return sorted([*changes_told(scene.picture.story), *scene.lines], key=lambda line: line.at)


def connect_hint(scene: Scene) -> str:
    return f"KUBECONFIG={scene.kubeconfig} kubectl get nodes,nhc,pods"


def screen(scene: Scene, width: int, height: int) -> RenderableType:
    """One frame that fits the terminal; the newest events take what the nodes leave."""
    title = Text.assemble((" Defib demo ", "bold reverse"), "  ", (headline(scene), "dim"))
    said = _wrapped(happening(scene), width, "bold")
    below = [
        *_wrapped(HONESTY, width, "dim"),
        *_wrapped("Ctrl-C ends it. Meanwhile, in another terminal:", width, "dim"),
        *_wrapped(connect_hint(scene), width, "cyan"),
    ]
    taken = FRAME_LINES + len(scene.picture.cluster.nodes) + len(said) + len(below)
    room = max(1, min(EVENTS_MAX, height - taken))
    events = [_event(line) for line in story(scene)[-room:]]
    events += [Text()] * (room - len(events))  # so that what stands below stays where it is
    return Padding(Group(_one_line(title), "", _nodes(scene, width), "", *said, *events, "", *below), (0, 1))


def _wrapped(text: str, width: int, style: str) -> list[Text]:
    """One line each, so that they can be counted."""
    return [Text(line, style=style) for line in textwrap.wrap(text, width - 2, break_on_hyphens=False)]


def _one_line(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _event(line: Spoken) -> Text:
    style = "red" if line.bad else STYLES.get(line.by, "cyan")
    return _one_line(Text.assemble((f"{line.at:%H:%M:%S}  ", "dim"), (f"{line.by:5}  ", style), line.text))


def _nodes(scene: Scene, width: int) -> Table:
    table = Table(box=None, padding=(0, 3 if width >= ROOMY_WIDTH else 2, 0, 0), header_style="dim", pad_edge=False)
    titles = [title for title in TITLES if width >= FROM_WIDTH.get(title, 0)]
    for title in titles:
        justify: JustifyMethod = "right" if title in NUMBERS else "left"
        wide = max(len(title), len("Unknown")) if title == "READY" else None  # or the table would jump
        table.add_column(title, justify=justify, min_width=wide, no_wrap=True, overflow="ellipsis")
    for name in sorted(scene.picture.cluster.nodes):
        cells = _row(scene, scene.picture.cluster.nodes[name], width)
        table.add_row(*(cells[title] for title in titles))
    return table


def _row(scene: Scene, node: Node, width: int) -> dict[str, Text]:
    age = heartbeat_age(scene, node.name)
    said, style = seen(scene, node, age)
    return {
        "NODE": Text(printable(node.name)),
        "ZONE": Text(printable(node.zone)),
        "READY": Text(printable(node.ready), style="red" if node.ready != "True" else style),
        "PODS": Text(str(scene.pods.get(node.name, 0))),
        "HEARTBEAT": Text("never" if age is None else f"{age:.1f} s", style=style),
        "SINCE": Text(_since(node, scene.now)),
        "BOOT": Text(printable(node.status.node_info.boot_id[:BOOT_SHOWN])),
        "DEFIB SEES": Text(said if width >= NARROW_WIDTH else said.partition(":")[0], style=style),
    }


def heartbeat_age(scene: Scene, name: str) -> float | None:
    lease = scene.picture.cluster.heartbeat_of(name)
    if lease is None or lease.spec.renew_time is None:
        return None
    return max(0.0, (scene.now - lease.spec.renew_time).total_seconds())


def seen(scene: Scene, node: Node, age: float | None) -> tuple[str, str]:
    """What Defib thinks of a node, in few words, and the colour of it. Behind a colon stands why."""
    if any(blindness.kind in NEEDED for blindness in scene.picture.cluster.blind):
        return "cannot see now", "yellow"
    verdict = verdict_of(scene.picture, node.name)
    if verdict.state is not State.HEALTHY:
        return _worry(scene, verdict)
    silent = age is None or age > scene.pace.grace_seconds / 2
    return ("silent", "yellow") if silent else ("well", "green")


def _worry(scene: Scene, verdict: Verdict) -> tuple[str, str]:
    match verdict.state:
        case State.SUSPECT:
            left = (verdict.since - scene.now).total_seconds() if verdict.since else 0.0
            return f"suspect: {max(left, 0.0):.1f} s to go", "yellow"
        case State.UNHEALTHY:
            return f"unhealthy: {verdict.reason}", "bold red"
        case State.REMEDIATING:
            return f"remediating: {_progress(scene, verdict)}", "bold yellow"
        case State.RECOVERING:
            return "recovering", "yellow"
        case _:
            return "no check", "dim"


def _progress(scene: Scene, verdict: Verdict) -> str:
    if verdict.reason not in UNDERWAY:
        return verdict.reason
    known = [read_failover_status(item) for item in scene.picture.cluster.every(REMEDIATION)]
    moved = sum(status.moved or 0 for status in known if status.node == verdict.node)
    return f"{pods_said(moved)} moved" if moved else verdict.reason.lower()


def _since(node: Node, now: datetime) -> str:
    condition = node.condition("Ready")
    if condition is None or condition.last_transition_time is None:
        return ""
    seconds = max(0.0, (now - condition.last_transition_time).total_seconds())
    return f"{seconds:.0f} s" if seconds < MINUTES_FROM else f"{seconds // 60:.0f} m"

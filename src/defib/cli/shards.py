"""`defib shards`: who holds what, as text for people."""

from collections.abc import Iterator
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from defib.cli.drawing import relative, text
from defib.cli.output import ask, show
from defib.config import Settings
from defib.console.shards import IdleTold, MemberTold, NodeTold, Sharing, shards
from defib.coordinate.seats import BUCKETS

UNOWNED = 3  # the exit code


def show_shards(settings: Settings, node: str, output: str) -> int:
    """The exit code: whether everything is somebody's."""
    told = ask(shards(settings, node), "reading the Leases of the replicas")
    show(told, lambda _: page(told), output)
    return 0 if told.is_well else UNOWNED


def page(told: Sharing) -> RenderableType:
    if not told.is_shared:
        return text(_leading(told), "" if told.leader else "bold red")
    live = sum(one.is_live for one in told.members)
    replicas = "1 replica has" if live == 1 else f"{live} replicas share"
    admits = f"{told.leader} admits what is counted" if told.leader else "nobody admits anything"
    parts: list[RenderableType] = [text(f"{replicas} {BUCKETS} buckets; {admits}", "bold"), "", _table(told)]
    if told.idle:
        parts += ["", *(text(line, "bold red") for line in _idle(told.idle, told.now))]
    if told.node is not None:
        parts += ["", text(_node(told.node))]
    parts += [text(f"not known: {note}", "yellow") for note in told.unknown]
    return Group(*parts, "", text(told.basis, "dim"))


def _leading(told: Sharing) -> str:
    if told.leader:
        return f"{told.leader} leads in everything, by the lock {told.lock}, renewed {relative(told.renewed, told.now)}"
    last = f"; it was last renewed {relative(told.renewed, told.now)}" if told.renewed is not None else ""
    what = "nobody holds the lock" if last else "there is no lock"
    return f"nobody leads: {what} {told.lock}{last} (other settings of the operator: --namespace, --leader-lock)"


def _table(told: Sharing) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("REPLICA", "STATE", "BUCKETS", "SHARE", "NODES"):
        table.add_column(heading, justify="right" if heading in ("BUCKETS", "SHARE", "NODES") else "left")
    for one in told.members:
        share = f"{100 * len(one.buckets) / BUCKETS:.0f}%"
        nodes = "?" if one.nodes is None else str(one.nodes)
        table.add_row(text(one.name), _state(one, told.now), str(len(one.buckets)), share, nodes)
    return table


def _state(one: MemberTold, now: datetime) -> Text:
    if one.is_live:
        return Text("live", "green")
    if one.renewed is None:
        return Text("holds buckets, and is no member", "yellow")
    return Text(f"silent, last seen {relative(one.renewed, now)}", "bold yellow" if one.buckets else "dim")


def _idle(idle: tuple[IdleTold, ...], now: datetime) -> Iterator[str]:
    """One line for each former holder: what one replica has lost is one piece of news."""
    for who in sorted({one.had_by for one in idle}):
        lost = [one for one in idle if one.had_by == who]
        numbers = ", ".join(str(one.bucket) for one in lost)
        nodes = "" if any(one.nodes is None for one in lost) else f" with {sum(one.nodes or 0 for one in lost)} nodes"
        since = max((one.since for one in lost if one.since is not None), default=None)
        known = f", {f'last held by {who}' if who else 'given back'} {relative(since, now)}" if since else ""
        yield f"nobody has {'bucket' if len(lost) == 1 else 'buckets'} {numbers}{nodes}{known}"


def _node(node: NodeTold) -> str:
    missing = " (there is no such node)" if node.exists is False else ""
    holder = f"which {node.holder} looks after" if node.holder else "which nobody looks after"
    return f"node {node.name}{missing} is in bucket {node.bucket}, {holder}"

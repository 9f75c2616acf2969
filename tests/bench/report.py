"""The results as a person reads them."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import msgspec

from tests.bench.agents import PACE, Burden, Guarding
from tests.bench.asked import BARE, Answered, Asking
from tests.bench.bars import bars
from tests.bench.drained import Draining
from tests.bench.growth import Growing
from tests.bench.growth_page import cells
from tests.bench.heard import Hearing
from tests.bench.moves import PODS_EACH, Memory, Moving, Spread
from tests.bench.page import Paged
from tests.bench.results import Idle, Machine, Measured, Watching
from tests.bench.shares import REPLICAS as SHARING
from tests.bench.shares import Load, Sharing, most_of_mean
from tests.bench.stretches import WATCH, Stretch
from tests.bench.successions import REPLICAS, HandedOver
from tests.bench.tables import table
from tests.bench.turns import REFERENCE_NAME, REFERENCES, Reference, Remediating, Turn, Watched

Part = Watching | Hearing | Guarding | Remediating | Moving | Draining | HandedOver | Sharing | Asking | Paged | Growing


class Results(msgspec.Struct, frozen=True, kw_only=True):
    machine: Machine
    watching: Watching | None = None
    leases: Hearing | None = None
    agents: Guarding | None = None
    remediating: Remediating | None = None
    moving: Moving | None = None
    draining: Draining | None = None
    handover: HandedOver | None = None
    sharing: Sharing | None = None
    asking: Asking | None = None
    page: Paged | None = None
    growth: Growing | None = None

    @property
    def parts(self) -> dict[str, Part]:
        """Those that were measured."""
        return {name: part for name in PARTS if (part := getattr(self, name)) is not None}

    @property
    def is_broken(self) -> bool:
        return not all(verdict.ok for part in self.parts.values() if part.judged for verdict in part.verdicts)


PARTS = tuple(name for name in Results.__struct_fields__ if name != "machine")


def text(results: Results) -> str:
    machine = results.machine
    cores = f"{machine.cores} cores with a load of {machine.load:.1f} before the start"
    parts = [f"Kubernetes {machine.kubernetes}; {cores}; Python {machine.python}."]
    for part in results.parts.values():
        parts += _PAGES[type(part)](part)
    if not all(part.judged for part in results.parts.values()):
        parts.append(
            "A small run: the bounds are for all nodes, clients, pods and ends, so not all of them were judged."
        )
    return "\n\n".join((*parts, bars(PARTS, results.parts)))


def _watching(watching: Watching) -> list[str]:
    head = (
        f"Watching {watching.nodes:,} nodes of {watching.node_bytes / 1000:.1f} kB.\n"
        "CPU is CPU time of the client's process, not time on the wall; MiB are resident memory of the whole process,\n"
        "after garbage collection and with free memory given back. One client at a time; each gets its own events."
    )
    rest = [_idle(watching.idle)] if watching.idle else []
    return [head, table(_clients(watching.clients)), *rest]


def _remediating(remediating: Remediating) -> list[str]:
    head = (
        "Remediating: a check over all nodes; many of them turn Unknown in the same second, and are Ready again later.\n"
        "Seconds from a node's deadline to its remediation, and from its recovery to the end of that, as an onlooker sees\n"
        "them. CPU is from the first change to the operator's rest, MiB the most resident memory since its start."
    )
    return [head, table(_turns(remediating.turns)), _watched(remediating.watched)]


def _turns(turns: list[Turn]) -> list[Sequence[str]]:
    head = ("nodes", "operator", "followed", "p50 s", "p99 s", "last s", "CPU s", "peak MiB")
    rows: list[Sequence[str]] = [head]
    for turn in turns:
        rows.append(_turn(turn))
        rows += [_reference(one) for one in REFERENCES if _same(one, turn)]
    return rows


def _turn(turn: Turn) -> Sequence[str]:
    return (
        f"{turn.bar} {turn.way}",
        "Defib",
        f"{turn.followed:,}",
        f"{turn.p50_seconds:.2f}",
        f"{turn.p99_seconds:.2f}",
        f"{turn.max_seconds:.2f}",
        f"{turn.cpu_seconds:.2f}",
        f"{turn.peak_mib:.0f}",
    )


def _reference(one: Reference) -> Sequence[str]:
    cpu = "" if one.cpu_seconds is None else f"{one.cpu_seconds:.1f}"
    peak = "" if one.peak_mib is None else f"{one.peak_mib:.0f}"
    return ("", REFERENCE_NAME, "", "", "", f"{one.max_seconds:.1f}", cpu, peak)


def _same(one: Reference, turn: Turn) -> bool:
    return (one.nodes, one.turning, one.way) == (turn.bar.nodes, turn.bar.turning, turn.way)


def _moving(moving: Moving) -> list[str]:
    scale = moving.scale
    head = (
        f"Moving pods: one PodFailoverPolicy with {moving.memory_with.pods:,} pods on {scale.nodes:,} nodes; of these "
        f"{scale.failures}, with {PODS_EACH} pods each, turn Unknown,\none after the other, each under an operator that "
        "was just started. Seconds until an onlooker sees a pod go.\n"
        f"The load was {moving.load_before:.1f} before and {moving.load_after:.1f} after."
    )
    spreads = {
        "pods, since the node was written not ready": moving.pods,
        "pods, since the operator knew of it": moving.pods_since_seen,
        "last pod of a node, since it was written not ready": moving.nodes,
    }
    rows: list[Sequence[str]] = [
        ("of", "p50 s", "p99 s", "last s"),
        *((what, *_spread(one)) for what, one in spreads.items()),
    ]
    rest = f"The operator used {moving.cpu_seconds_each:.2f} s of CPU for a failed node."
    memory: list[Sequence[str]] = [
        ("pods in the cluster", "MiB", "most MiB", "peak MiB"),
        _memory(moving.memory_without),
        _memory(moving.memory_with),
    ]
    return [head, table(rows), rest, table(memory)]


def _draining(draining: Draining) -> list[str]:
    crowd = draining.crowd
    head = (
        f"Draining: {crowd.draining} of {crowd.nodes:,} nodes at once, with {crowd.pods:,} pods and a budget for those of each "
        "node. Whoever drains has time (watching); then Defib\nis to help, every pod is asked to leave once and is refused "
        "(refused once), then nothing changes (waiting), then all budgets let go (leaving).\n"
        "All the while somebody else's budget is counted anew every two seconds. "
        f"CPU with all heartbeats; MiB at the end of each. The most was {draining.peak_mib:.0f} MiB. "
        f"The load was {draining.load_before:.1f} before and {draining.load_after:.1f} after."
    )
    rows = [_stretch(what, one) for what, one in draining.stretches.items()]
    columns = ("", "s", "CPU s", "% of a core", "passes", "reads", "writes", "watches ended", "evictions tried", "MiB")
    return [head, table([columns, *rows])]


def _stretch(what: str, one: Stretch) -> Sequence[str]:
    return (
        what,
        f"{one.seconds:.0f}",
        f"{one.cpu_seconds:.2f}",
        f"{100 * one.cpu_share:.1f}",
        f"{one.passes:,}",
        f"{one.made - one.writes:,}",
        f"{one.writes:,}",
        f"{one.requests.get(WATCH, 0):,}",
        f"{one.asked:,}",
        f"{one.resident_mib:.0f}",
    )


def _handover(handed: HandedOver) -> list[str]:
    ends = handed.ends
    late = f" {handed.quicker} more ends came too late to count: the old leader had acted." if handed.quicker else ""
    head = (
        f"Handing over: of {REPLICAS} replicas with the default settings, over {ends.nodes:,} nodes, the leader is asked to "
        f"stop {ends.orderly} times and killed {ends.crashes} times,\neach time a moment before a failed node is due. "
        f"Seconds until onlookers see the lock with another one, and its first remediation.\n"
        f"The load was {handed.load_before:.1f} before and {handed.load_after:.1f} after.{late}"
    )
    rows: list[Sequence[str]] = [
        ("from and to", "p50 s", "p99 s", "last s"),
        *((what, *_spread(one)) for what, one in handed.spreads.items()),
    ]
    return [head, table(rows)]


def _sharing(sharing: Sharing) -> list[str]:
    fleet, moved = sharing.fleet, sharing.moved
    head = (
        f"Sharing: {len(SHARING)} replicas act, each for its share of {fleet.nodes:,} nodes. {fleet.failures} of them fail "
        f"at once, and their {moved.pods:,} pods are moved by whoever looks after\nthe node: "
        f"p50 {moved.seconds.p50_seconds:.2f} s, p99 {moved.seconds.p99_seconds:.2f} s, last "
        f"{moved.seconds.max_seconds:.2f} s after the deadline. Before that, with the same replicas, the bars of "
        "remediating:\none admits what another program would carry out, so most writes are its own. CPU and MiB in those are of "
        f"the replica that needed most.\n* with the renewals of its locks. The load was {sharing.load_before:.1f} before and {sharing.load_after:.1f} after."
    )
    remediating = sharing.remediating
    return [head, table(_loads(sharing.loads)), table(_turns(remediating.turns)), _watched(remediating.watched)]


def _asking(asking: Asking) -> list[str]:
    head = (
        f"Asking: one command about one of {asking.nodes:,} nodes, from the start of its process to its end, beside a process "
        "that fetches the same lists of nodes\nand heartbeats and does nothing with them. "
        f"The load was {asking.load_before:.1f} before and {asking.load_after:.1f} after."
    )
    bare = asking.answers[BARE]
    columns = ("", "times", "p50 s", "slowest s", "CPU s", "of the bare lists: s", "CPU")
    rows = [_answered(name, one, bare) for name, one in asking.answers.items()]
    return [head, table([columns, *rows])]


def _paged(paged: Paged) -> list[str]:
    head = (
        f"The page: {paged.nodes:,} nodes of an embedded server, opened {len(paged.loads)} times in a Chromium that has nothing of it "
        f"yet; then {len(paged.update_seconds)} nodes change, one\nafter the other. Seconds from the request to the picture, and from "
        "the write of a node to its changed cell on the screen."
    )
    columns: Sequence[str] = ("", "p50", "worst")
    spreads = {
        "first paint, s": [one.first_paint_seconds for one in paged.loads],
        "all nodes painted, s": [one.map_seconds for one in paged.loads],
        "transferred, kB": [one.kilobytes for one in paged.loads],
        "a change on the screen, s": paged.update_seconds,
    }
    rows = [(name, f"{median(found):.2f}", f"{max(found):.2f}") for name, found in spreads.items()]
    return [head, table([columns, *rows])]


def _answered(name: str, one: Answered, bare: Answered) -> Sequence[str]:
    return (
        name,
        str(one.times),
        f"{one.wall_p50:.2f}",
        f"{one.wall_max:.2f}",
        f"{one.cpu_p50:.2f}",
        f"{one.wall_p50 / bare.wall_p50:.1f}x",
        f"{one.cpu_p50 / bare.cpu_p50:.1f}x",
    )


def _loads(loads: list[Load]) -> list[Sequence[str]]:
    columns: dict[str, list[float]] = {
        "buckets": [one.buckets for one in loads],
        "nodes": [one.nodes for one in loads],
        "failed": [one.failures for one in loads],
        "pods moved": [one.moving.counted.pods_moved for one in loads],
        "moving: writes*": [one.moving.counted.writes for one in loads],
        "CPU s": [one.moving.cpu_seconds for one in loads],
        "remediating: writes*": [one.remediating.counted.writes for one in loads],
        " CPU s": [one.remediating.cpu_seconds for one in loads],
        "at rest: CPU s": [one.watching.cpu_seconds for one in loads],
    }
    rows = [(one.replica, *(_number(values[place]) for values in columns.values())) for place, one in enumerate(loads)]
    last = ("most, times the mean", *(f"{most_of_mean(values):.2f}" for values in columns.values()))
    return [("replica", *columns), *rows, last]


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def _spread(one: Spread) -> tuple[str, str, str]:
    return f"{one.p50_seconds:.2f}", f"{one.p99_seconds:.2f}", f"{one.max_seconds:.2f}"


def _memory(one: Memory) -> Sequence[str]:
    return f"{one.pods:,}", f"{one.resident_mib:.1f}", f"{one.most_mib:.1f}", f"{one.peak_mib:.1f}"


def _watched(watched: Watched) -> str:
    return (
        f"A check over {watched.nodes:,} healthy nodes for {watched.seconds:.0f} s, with "
        f"{watched.heartbeats_per_second:.0f} heartbeats/s and {watched.node_events_per_second:.0f} node reports/s: "
        f"{100 * watched.cpu_share:.1f} % of one core, {watched.passes_per_second:.1f} passes/s, {watched.writes} writes, "
        f"{watched.resident_mib:.0f} MiB."
    )


def _clients(clients: list[Measured]) -> list[Sequence[str]]:
    head = ("client", "import s", "MiB", "list s", "peak MiB", "rest MiB", "events", "µs/event", "MiB after")
    rows = [
        (
            f"{one.client} {one.version}",
            f"{one.import_seconds:.2f}",
            f"{one.imported_mib:.0f}",
            f"{one.list_seconds:.2f}",
            f"{one.peak_mib:.0f}",
            f"{one.resting_mib:.0f}",
            f"{one.events:,}",
            f"{one.event_microseconds:.0f}",
            f"{one.after_events_mib:.0f}",
        )
        for one in clients
    ]
    return [head, *rows]


def _idle(idle: Idle) -> str:
    return (
        f"Idle for {idle.seconds:.0f} s with {idle.renewals_per_second:.0f} heartbeats/s: the whole operator used "
        f"{100 * idle.cpu_share:.1f} % of one core and {idle.resting_mib:.0f} MiB."
    )


def _hearing(hearing: Hearing) -> list[str]:
    head = (
        f"Hearing: {hearing.nodes:,} nodes, whose Leases another process renews {hearing.pace:.0f} times a second; nothing else "
        "happens. Each time an operator that was\njust started. What hearing costs is the last row less the first: "
        f"{100 * hearing.cpu_share:.1f} % of a core and {hearing.mib:.1f} MiB. "
        f"The load was {hearing.load_before:.1f} before and {hearing.load_after:.1f} after."
    )
    columns = ("", "s", "renewals/s", "CPU s", "% of a core", "passes", "MiB")
    return [head, table([columns, *(_heard(what, one) for what, one in hearing.stretches.items())])]


def _heard(what: str, one: Stretch) -> Sequence[str]:
    return (
        what,
        f"{one.seconds:.0f}",
        f"{one.heartbeats / one.seconds:.0f}",
        f"{one.cpu_seconds:.2f}",
        f"{100 * one.cpu_share:.1f}",
        f"{one.passes:,}",
        f"{one.resident_mib:.1f}",
    )


def _guarding(guarding: Guarding) -> list[str]:
    burden, talk = guarding.burden, guarding.talk
    sent, received = (count / burden.seconds / 1000 for count in (talk.bytes_sent, talk.bytes_received))
    head = (
        f"Agents: {guarding.agents:,} of them, each with a connection and a token of its own, ask once in "
        f"{PACE.interval_seconds:g} s for {burden.seconds:.0f} s: {talk.renewals:,} renewals and {talk.lists:,} "
        f"lists of all agents,\n{sum(talk.failures.values()):,} without an answer. Before that, as many kubelets renewed their "
        f"heartbeats, {guarding.heartbeats.renewals:,} times. CPU of one core. On connections that lasted, "
        f"{sent:.0f} kB/s went to the API server and {received:.0f} kB/s came back. Who played\nthe agents used {100 * guarding.crowd_share:.0f} % of "
        f"a core. The load was {guarding.load_before:.1f} before and {guarding.load_after:.1f} after."
    )
    cost: list[Sequence[str]] = [
        ("", "at rest, %", "for kubelets, %", "for agents, %"),
        *(_burden(name, burden) for name in burden.rest),
    ]
    spreads = (("heartbeats", guarding.heartbeats.renewal), ("renewals", talk.renewal), ("lists", talk.list))
    times: list[Sequence[str]] = [
        ("of", "p50 s", "p99 s", "last s"),
        *((name, *_spread(one)) for name, one in spreads if one),
    ]
    return [head, table(cost), table(times)]


def _burden(name: str, burden: Burden) -> Sequence[str]:
    shares = burden.rest[name] / burden.seconds, burden.for_kubelets(name), burden.for_agents(name)
    return (name, *(f"{100 * share:.1f}" for share in shares))


def _growing(growing: Growing) -> list[str]:
    head = (
        "Growing: a cluster in several sizes, with heartbeats as kubelets write them, up to as many as the machine bears. One node "
        "fails, then many at once. Seconds from when\na node is due to its remediation; CPU and requests of failures are what came "
        "on top of the rest."
    )
    return [head, table([tuple(cells(growing.steps[0])), *(tuple(cells(step).values()) for step in growing.steps)])]


_PAGES: dict[type, Callable[[Any], list[str]]] = {
    Watching: _watching,
    Remediating: _remediating,
    Moving: _moving,
    Draining: _draining,
    HandedOver: _handover,
    Sharing: _sharing,
    Asking: _asking,
    Hearing: _hearing,
    Guarding: _guarding,
    Growing: _growing,
    Paged: _paged,
}

"""What watching costs, and whether it keeps what we promise."""

import msgspec

from tests.bench.stages import Stage

OURS = "defib"

EVENT_MICROSECONDS_MAX = 60.0
RESTING_MIB_MAX = 110.0
BETTER_THAN_PEERS_MIN = 2.0
IDLE_SHARE_MAX = 0.10
PACE_KEPT_MIN = 0.9


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One client, in a process of its own. MiB are resident memory, seconds are CPU."""

    client: str
    version: str
    import_seconds: float
    imported_mib: float
    list_seconds: float
    resting_mib: float
    peak_mib: float
    events: int
    events_made: int
    event_microseconds: float
    after_events_mib: float


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """Our whole operator while nothing happens but heartbeats."""

    seconds: float
    cpu_share: float
    renewals_per_second: float
    renewals_per_second_wanted: float
    resting_mib: float


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    what: str
    measured: str
    bound: str
    ratio: float
    ok: bool


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """`load` is how many wanted to run in the minute before the bench: on a busy machine all is slower."""

    cores: int
    load: float
    python: str
    kubernetes: str


class Watching(msgspec.Struct, frozen=True, kw_only=True):
    nodes: int
    node_bytes: int
    judged: bool
    clients: list[Measured]
    idle: Idle | None
    verdicts: list[Verdict]


def measured(client: str, stages: dict[str, Stage], events_made: int) -> Measured:
    started, imported, listed, watched = (stages[name].usage for name in ("started", "imported", "listed", "watched"))
    seen = stages["watched"].seen
    return Measured(
        client=client,
        version=stages["imported"].version,
        import_seconds=imported.cpu_seconds - started.cpu_seconds_after,
        imported_mib=imported.resident_mib,
        list_seconds=listed.cpu_seconds - imported.cpu_seconds_after,
        resting_mib=listed.resident_mib,
        peak_mib=listed.peak_mib,
        events=seen,
        events_made=events_made,
        event_microseconds=(watched.cpu_seconds - listed.cpu_seconds_after) / max(seen, 1) * 1e6,
        after_events_mib=watched.resident_mib,
    )


def idle(stages: dict[str, Stage], seconds: float, renewals_per_second_wanted: float) -> Idle:
    begun, ended = stages["begun"], stages["ended"]
    return Idle(
        seconds=seconds,
        cpu_share=(ended.usage.cpu_seconds - begun.usage.cpu_seconds_after) / seconds,
        renewals_per_second=(ended.seen - begun.seen) / seconds,
        renewals_per_second_wanted=renewals_per_second_wanted,
        resting_mib=ended.usage.resident_mib,
    )


def verdicts(clients: list[Measured], resting: Idle | None) -> list[Verdict]:
    ours = next((one for one in clients if one.client == OURS), None)
    peers = [one for one in clients if one.client != OURS]
    found = _of_ours(ours) + _beside_peers(ours, peers) if ours else []
    return found + [_complete(one) for one in clients] + (_of_idle(resting) if resting else [])


def _of_ours(ours: Measured) -> list[Verdict]:
    return [
        at_most("CPU per node event", ours.event_microseconds, EVENT_MICROSECONDS_MAX, "µs"),
        at_most("memory at rest", ours.resting_mib, RESTING_MIB_MAX, "MiB"),
    ]


def _beside_peers(ours: Measured, peers: list[Measured]) -> list[Verdict]:
    if not peers:
        return []
    quickest = min(peers, key=lambda peer: peer.event_microseconds)
    smallest = min(peers, key=lambda peer: peer.resting_mib)
    return [
        _times_better("CPU per node event", ours.event_microseconds, quickest.event_microseconds, quickest.client),
        _times_better("memory at rest", ours.resting_mib, smallest.resting_mib, smallest.client),
    ]


def _of_idle(resting: Idle) -> list[Verdict]:
    pace = resting.renewals_per_second / resting.renewals_per_second_wanted
    return [
        at_most("CPU when idle, of one core", 100 * resting.cpu_share, 100 * IDLE_SHARE_MAX, "%"),
        Verdict(
            what="heartbeats seen when idle",
            measured=f"{resting.renewals_per_second:.0f}/s",
            bound=f"{resting.renewals_per_second_wanted:.0f}/s written",
            ratio=pace,
            ok=pace >= PACE_KEPT_MIN,
        ),
    ]


def _complete(one: Measured) -> Verdict:
    """A client that lost events would look cheap. Ours must have them all; a peer's loss is shown."""
    return Verdict(
        what=f"events seen by {one.client}",
        measured=f"{one.events:,}",
        bound=f"{one.events_made:,} made",
        ratio=one.events / one.events_made,
        ok=one.events == one.events_made or one.client != OURS,
    )


def at_most(what: str, value: float, bound: float, unit: str) -> Verdict:
    digits = 2 if bound < 10 else 1
    return Verdict(
        what=what,
        measured=f"{value:.{digits}f} {unit}",
        bound=f"<= {bound:g} {unit}",
        ratio=value / bound,
        ok=value <= bound,
    )


def _times_better(what: str, ours: float, best: float, peer: str) -> Verdict:
    ratio = best / ours
    return Verdict(
        what=f"{what}, beside peers",
        measured=f"{ours:.1f}",
        bound=f">= {BETTER_THAN_PEERS_MIN:g}x less than {peer}'s {best:.1f}",
        ratio=ratio,
        ok=ratio >= BETTER_THAN_PEERS_MIN,
    )

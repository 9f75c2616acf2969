"""A dump: all that Defib sees of a cluster, in a file that can be given away. Nothing is changed, no Secret is read."""

import asyncio
from datetime import timedelta
from pathlib import Path

from defib.clock import Clock, SystemClock
from defib.config import Settings
from defib.console.brake import BRAKE
from defib.console.recording import Recorder, decided_of, header_of
from defib.console.redaction import clean, clean_text, without_secrets
from defib.console.session import NotDone, connected
from defib.console.thorough import PodsByNode, Seen, look_at_all, think
from defib.decide.answers.told import Told
from defib.decide.rules import Rules
from defib.decide.upgrade.announced import CONFIG_MAP
from defib.kube.client import Client
from defib.model.cluster import Cluster

EVERY_SECONDS = 10.0  # as often as heartbeats come, by default
LOST = "what was left out as a secret changes what would be done; say so to whoever reads the dump"


class Dumped(Told, frozen=True, kw_only=True):
    file: str
    frames: int
    nodes: int
    pods: int | None  # None: they may not be read
    bytes: int
    unknown: tuple[str, ...]


async def dump(path: Path, length: timedelta, settings: Settings, rules: Rules) -> Dumped:
    """Raises NotDone."""
    async with connected(settings, SystemClock()) as session:
        return await record(path, length, session.client, session.clock, rules)


async def record(path: Path, length: timedelta, client: Client, clock: Clock, rules: Rules) -> Dumped:
    """One frame now, and for as long as `length` another one every few seconds. Broken off, it keeps what it has."""
    gaps: list[str] = []
    end = clock.monotonic() + length.total_seconds()
    with Recorder(path) as recorder:
        first = seen = _given_away(await look_at_all(client, clock, rules, with_pods=True), rules)
        recorder.begin(header_of(rules, seen.cluster.now, seen.unknown), seen.pods)
        recorder.frame(seen.cluster, decided_of(think(seen.cluster, rules)))
        while (left := end - clock.monotonic()) > 0:
            await asyncio.sleep(min(EVERY_SECONDS, left))
            try:
                seen = _given_away(await look_at_all(client, clock, rules, with_pods=False), rules)
            except NotDone as error:  # it is an incident that is recorded: the API server may be part of it
                gaps.append(f"at {clock.now():%H:%M:%S} UTC nothing could be read: {error}")
                continue
            recorder.frame(seen.cluster, decided_of(think(seen.cluster, rules)))
    return Dumped(
        file=str(path),
        frames=recorder.frames,
        nodes=len(first.cluster.nodes),
        pods=sum(map(len, first.pods.values())) if first.pods is not None else None,
        bytes=recorder.size,
        unknown=(*first.unknown, *gaps),
    )


def _given_away(seen: Seen, rules: Rules) -> Seen:
    """Without secrets; with a word of warning where somebody would be misled by that."""
    cluster = without_secrets(seen.cluster, config_maps_read(rules))
    unknown = tuple(map(clean_text, seen.unknown))
    if _keys(cluster, rules) != _keys(seen.cluster, rules):
        unknown = (*unknown, LOST)
    return Seen(cluster, unknown, _clean_pods(seen.pods))


def config_maps_read(rules: Rules) -> frozenset[str]:
    """Those that deciding reads: the brake, and the announcement of an upgrade."""
    return frozenset(f"{rules.namespace}/{name}" for name in (BRAKE, CONFIG_MAP))


def _clean_pods(pods: PodsByNode | None) -> PodsByNode | None:
    if pods is None:
        return None
    return {node: tuple(map(clean, found)) for node, found in pods.items()}


def _keys(cluster: Cluster, rules: Rules) -> set[str]:
    return {action.key for action in think(cluster, rules).actions}

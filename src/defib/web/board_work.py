"""The parts of the board about work that is shared and machines that are looked after: drains, shards, fences."""

import math
from collections import Counter
from collections.abc import Mapping
from datetime import datetime

import msgspec

from defib.coordinate.seats import BUCKETS
from defib.coordinate.shards import bucket_of
from defib.decide.drains.doctor import Moment, diagnose
from defib.decide.drains.plan import Drains
from defib.decide.drains.survey import DrainLook
from defib.decide.fencing.coverage import Coverage
from defib.decide.fencing.covered import Covered
from defib.decide.rules import Rules
from defib.model.cluster import Cluster
from defib.model.fence_readiness import read_fence_status
from defib.model.node_drain import DrainStatus, Phase

DRAINS_MAX, BLOCKED_MAX, FENCES_MAX = 200, 20, 200
DIAGNOSED_MAX = 20  # of so many drains it is told which pods are in the way, and why
OVER = (Phase.DRAINED, Phase.PAUSED)


class BlockedShown(msgspec.Struct, frozen=True, kw_only=True):
    pod: str
    why: str
    next: str


class DrainShown(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    by: str
    phase: str
    since: datetime | None
    pods_left: int | None
    message: str
    blocked: tuple[BlockedShown, ...]


class DrainsShown(msgspec.Struct, frozen=True, kw_only=True):
    """`looks` says what the pods of each were told from: while that is the same, so is what is told."""

    drains: tuple[DrainShown, ...] = ()
    looks: Mapping[str, tuple[DrainLook, tuple[BlockedShown, ...]]] = {}


NO_DRAINS = DrainsShown()


def drains_of(drains: Drains, cluster: Cluster, rules: Rules, before: DrainsShown = NO_DRAINS) -> DrainsShown:
    """The longest first. A replica that does not see the pods itself tells what the record says."""
    statuses = {name: one.status for name, one in drains.records.items()}
    statuses |= {name: one.status for name, one in drains.standings.items()}
    if not statuses:
        return NO_DRAINS
    in_turn = sorted(statuses, key=lambda name: (_began(statuses[name]), name))[:DRAINS_MAX]
    seen = [name for name in in_turn if name in drains.standings and drains.standings[name].look.pods]
    looks = {}
    for name in seen[:DIAGNOSED_MAX]:
        look, known = drains.standings[name].look, before.looks.get(name)
        looks[name] = known if known is not None and known[0] is look else (look, _blocked(look, cluster, rules))
    return DrainsShown(
        drains=tuple(_drain(name, statuses[name], looks[name][1] if name in looks else ()) for name in in_turn),
        looks=looks,
    )


def _began(status: DrainStatus) -> float:
    return status.started_at.timestamp() if status.started_at is not None else math.inf


def draining(drains: Drains) -> frozenset[str]:
    """Nodes that somebody drains now."""
    return frozenset(name for name, one in drains.standings.items() if one.status.phase not in OVER)


def _drain(node: str, status: DrainStatus, blocked: tuple[BlockedShown, ...]) -> DrainShown:
    return DrainShown(
        node=node,
        by=status.source.value if status.source is not None else "",
        phase=status.phase.value,
        since=status.started_at,
        pods_left=status.pods_left,
        message=status.message or status.why,
        blocked=blocked,
    )


def _blocked(look: DrainLook, cluster: Cluster, rules: Rules) -> tuple[BlockedShown, ...]:
    """In the words of `defib drain`."""
    found = diagnose(look.node, cluster, rules).blocked[:BLOCKED_MAX]
    return tuple(
        BlockedShown(
            pod=one.pod,
            why="; ".join(finding.message for finding in one.findings if finding.blocks),
            next=_said(one.next) if one.next is not None else "",
        )
        for one in found
    )


def _said(moment: Moment) -> str:
    return f"{moment.message} (after {moment.at:%H:%M:%S} UTC)" if moment.at is not None else moment.message


class Seats(msgspec.Struct, frozen=True, kw_only=True):
    """Who has what, as this replica sees it. Where one leads in everything, `holders` are none."""

    mode: str  # as the setting election says; off: there is no other replica
    leader: str = ""
    leads: bool = False
    holders: Mapping[str, tuple[int, ...]] = {}
    unowned: int = 0


class HolderShown(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    buckets: int
    nodes: int
    is_me: bool


class ShardsShown(msgspec.Struct, frozen=True, kw_only=True):
    mode: str
    holders: tuple[HolderShown, ...]
    unowned: int


def shards_of(seats: Seats, me: str, sizes: Counter[int]) -> ShardsShown:
    """`sizes` says how many nodes are in each bucket."""
    leader = seats.leader or (me if seats.leads else "")
    whole = {leader: tuple(range(BUCKETS))} if leader else {}
    holders = tuple(
        HolderShown(name=name, buckets=len(held), nodes=sum(sizes[number] for number in held), is_me=name == me)
        for name, held in sorted((seats.holders or whole).items())
    )
    return ShardsShown(mode=seats.mode, holders=holders, unowned=seats.unowned)


def sizes_of(names: Mapping[str, int]) -> Counter[int]:
    return Counter(bucket_of(name, BUCKETS) for name in names)


class NotReadyShown(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    why: str


class FencesShown(msgspec.Struct, frozen=True, kw_only=True):
    ready: int = 0
    not_ready: tuple[NotReadyShown, ...] = ()
    unknown: int = 0


class Fences(msgspec.Struct, frozen=True, kw_only=True):
    """`made_of` is what they were made of: while that is the same, they are."""

    made_of: tuple[Mapping[str, Covered], ...] = ()
    shown: FencesShown = FencesShown()
    not_ready: frozenset[str] = frozenset()


def fences_of(coverages: Mapping[str, Coverage], before: Fences) -> Fences:
    made_of = tuple(one.covered for one in coverages.values())
    if len(made_of) == len(before.made_of) and all(map(_is, made_of, before.made_of)):
        return before
    whys: dict[str, str] = {}
    ready: set[str] = set()
    unknown: set[str] = set()
    known_to_others = 0
    for one in coverages.values():
        whys |= {name: each.why for name, each in one.covered.items() if each.why}
        tried = {name for name, each in one.covered.items() if each.is_tried and not each.why}
        ready |= tried
        unknown |= one.covered.keys() - tried - whys.keys()
        if not tried:  # only who leads tries them; what it found stands in the status
            known_to_others += min(read_fence_status(one.item).ready or 0, len(one.covered))
    unknown -= ready | whys.keys()
    listed = tuple(NotReadyShown(node=name, why=whys[name]) for name in sorted(whys)[:FENCES_MAX])
    told = min(known_to_others, len(unknown))
    shown = FencesShown(ready=len(ready - whys.keys()) + told, not_ready=listed, unknown=len(unknown) - told)
    return Fences(made_of=made_of, shown=shown, not_ready=frozenset(whys))


def _is(one: object, other: object) -> bool:
    return one is other

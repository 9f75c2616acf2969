"""The board: what the page shows of one picture, as values; and what has changed since the one before. Pure.

Each has a number that counts up. One that shows the same as the one before is the same one.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from defib.decide.plan import Plan
from defib.decide.rules import Rules
from defib.model.cluster import Cluster
from defib.model.health_check import Broken
from defib.model.incident import INCIDENTS, NodeIncident
from defib.model.verdict import State
from defib.picture import Picture
from defib.web.board_nodes import (
    FLAGS,
    NO_ROWS,
    NOBODYS,
    NOT_SAID,
    STATES,
    UNSEEN,
    Mark,
    NodeRows,
    Standout,
    next_rows,
    worse,
)
from defib.web.board_parts import IncidentsShown, brake_of, checks_of, incidents_of, sight_of
from defib.web.board_work import (
    NO_DRAINS,
    DrainsShown,
    Fences,
    Seats,
    draining,
    drains_of,
    fences_of,
    shards_of,
    sizes_of,
)

_STATE = {state: STATES.index(state.value) for state in State}


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """What stays the same for as long as the process runs."""

    replica: str
    version: str
    can_act: bool
    rules: Rules


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """`parts` are sent as they are, under their names. The rest spares the next one work."""

    number: int = 0
    parts: Mapping[str, Any] = {}
    nodes: NodeRows = NO_ROWS
    incidents: IncidentsShown = IncidentsShown()
    fences: Fences = Fences()
    drains: DrainsShown = NO_DRAINS
    sizes: Counter[int] = Counter()
    watched_by: tuple[frozenset[str], ...] = ()
    changed: Mapping[str, Any] = {}  # against the one before: whole parts, and rows of nodes


BLANK = Board()


def next_board(before: Board, picture: Picture, seats: Seats, site: Site) -> Board:
    """`before` spares work, and says what is news; it changes nothing of what is shown."""
    cluster = picture.cluster
    incidents = incidents_of(cluster.all_of(INCIDENTS, NodeIncident), before.incidents)
    fences = fences_of(picture.own.readiness.coverages, before.fences)
    watched_by, watched = _watched(picture.plan, before)
    marks = _marks(picture, incidents.open_nodes, fences.not_ready)
    standout = Standout(
        watched=watched, marks=marks, unread=_unread(cluster), otherwise=_otherwise(cluster, picture.plan)
    )
    nodes = next_rows(before.nodes, cluster.nodes, standout)
    after = Board(
        number=before.number,
        nodes=nodes,
        incidents=incidents,
        fences=fences,
        drains=drains_of(picture.own.drains, cluster, site.rules, before.drains),
        sizes=before.sizes if nodes.places is before.nodes.places else sizes_of(nodes.places),
        watched_by=watched_by,
    )
    parts = _parts(after, picture, seats, site)
    changed = {name: part for name, part in parts.items() if name not in before.parts or before.parts[name] != part}
    if nodes.changed is None or nodes.changed:
        changed["nodes"] = nodes.rows if nodes.changed is None else nodes.changed
    number = before.number + 1 if changed else before.number
    return msgspec.structs.replace(after, number=number, parts=parts, changed=changed)


def _parts(board: Board, picture: Picture, seats: Seats, site: Site) -> dict[str, Any]:
    cluster, plan = picture.cluster, picture.plan
    return {
        "defib": site.version,
        "replica": site.replica,
        "leader": seats.leader or (site.replica if seats.leads else ""),
        "leads": seats.leads,
        "can_act": site.can_act,
        "brake": brake_of(cluster, site.rules),
        "sight": sight_of(cluster, plan),
        "zones": board.nodes.zones,
        "states": STATES,
        "flags": FLAGS,
        "checks": checks_of(plan, cluster.now),
        "incidents": board.incidents.incidents,
        "drains": board.drains.drains,
        "shards": shards_of(seats, site.replica, board.sizes),
        "fences": board.fences.shown,
        "history": board.incidents.history,
    }


def _unread(cluster: Cluster) -> tuple[str, ...]:
    """Nodes that are there, and of which nobody can say more."""
    return tuple(sorted(one.key for one in cluster.unread if one.kind == "nodes" and one.key not in cluster.nodes))


def _watched(plan: Plan, before: Board) -> tuple[tuple[frozenset[str], ...], frozenset[str]]:
    """The nodes that any check selects. Each check keeps its set for as long as it selects the same ones."""
    by = tuple(one.census.selected for one in plan.checks.values() if one.census is not None)
    was = before.watched_by
    if len(by) == len(was) and all(one is other for one, other in zip(by, was, strict=True)):
        return was, before.nodes.standout.watched
    return by, frozenset().union(*by) if len(by) != 1 else by[0]


def _otherwise(cluster: Cluster, plan: Plan) -> int:
    """Where we have not seen all yet, or a check cannot be read, nobody can say which nodes are watched."""
    is_unsure = bool(cluster.blind) and not plan.checks
    broken = any(isinstance(one.known.check, Broken) for one in plan.checks.values())
    return UNSEEN if is_unsure or broken else NOBODYS


def _marks(picture: Picture, open_incidents: frozenset[str], not_ready: frozenset[str]) -> dict[str, Mark]:
    """Only of nodes that stand out."""
    now, states = picture.cluster.now, dict[str, int]()
    for one in picture.plan.checks.values():
        found = {name: _STATE[verdict.state] for name, verdict in one.verdicts.items()}
        for name, trouble in one.census.troubled.items() if one.census is not None else ():
            if name not in found:
                found[name] = _STATE[State.UNHEALTHY if trouble.is_unhealthy(now) else State.SUSPECT]
        both = {name: worse(states[name], found[name]) for name in states.keys() & found.keys()}
        states = {**states, **found, **both}
    flags: Counter[str] = Counter()
    for which, names in (
        ("draining", draining(picture.own.drains)),
        ("fence_not_ready", not_ready),
        ("incident", open_incidents),
    ):
        for name in names:
            flags[name] += FLAGS[which]
    marks = {name: (state, 0) for name, state in states.items()}
    return marks | {name: (states.get(name, NOT_SAID), bits) for name, bits in flags.items()}

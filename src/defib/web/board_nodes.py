"""The nodes on the board: one short row for each, kept from one picture to the next.

A cluster of thousands is mostly as it was a moment ago. What is alike for most nodes (well, watched) is not looked at
again; what stands out (ill, drained, in an incident) is few, and is compared with what stood out before.
"""

from collections.abc import Iterable, Mapping

import msgspec

from defib.decide.ground import is_control_plane
from defib.model.node import Node
from defib.model.verdict import State

UNWATCHED = "Unwatched"  # no check selects it; Unseen is one of which nobody can say
STATES: tuple[str, ...] = (*(state.value for state in State), UNWATCHED)
FLAGS = {"control_plane": 1, "cordoned": 2, "draining": 4, "fence_not_ready": 8, "incident": 16}

HEALTHY, UNSEEN, NOBODYS = (STATES.index(name) for name in (State.HEALTHY.value, State.UNSEEN.value, UNWATCHED))
_MOST_URGENT = (State.UNSEEN, State.HEALTHY, State.SUSPECT, State.RECOVERING, State.UNHEALTHY, State.REMEDIATING)
URGENCY = {STATES.index(state.value): rank for rank, state in enumerate(_MOST_URGENT)}
NOT_SAID = -1

Row = tuple[str, int, int, int]
"""Name, zone, state and flags, the middle two as indices."""
Mark = tuple[int, int]
"""A state, or that none was said, and flags."""
Changed = tuple[int, int, int, int]
"""As a row, but the place in the list instead of the name."""


class Standout(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be known of the nodes beyond their objects."""

    watched: frozenset[str] = frozenset()
    marks: Mapping[str, Mark] = {}
    unread: tuple[str, ...] = ()  # nodes that are there, and that nobody can read
    otherwise: int = NOBODYS  # the state of those that no check watches


class NodeRows(msgspec.Struct, frozen=True, kw_only=True):
    nodes: Mapping[str, Node] = {}
    standout: Standout = Standout()
    zones: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    places: Mapping[str, int] = {}
    changed: tuple[Changed, ...] | None = ()  # against the ones before; None: there are others now


NO_ROWS = NodeRows()


def worse(one: int, other: int) -> int:
    """Of two states of one node, under two checks, the one that a person should see."""
    return one if URGENCY.get(one, NOT_SAID) >= URGENCY.get(other, NOT_SAID) else other


def next_rows(before: NodeRows, nodes: Mapping[str, Node], standout: Standout) -> NodeRows:
    """The same answer with and without `before`; with it, only what has changed is looked at."""
    touched = _touched(before, nodes, standout)
    if touched is None:
        return _afresh(nodes, standout)
    changed: list[Changed] = []
    rows = list(before.rows) if touched else []
    for name in touched:
        place, node = before.places[name], nodes.get(name)
        _, zone, state, flags = row = before.rows[place]
        if node is not None and node.zone != before.zones[zone]:
            return _afresh(nodes, standout)
        state, flags = _looks(name, node, standout)
        if (state, flags) != row[2:]:
            rows[place] = (name, zone, state, flags)
            changed.append((place, zone, state, flags))
    return NodeRows(
        nodes=nodes,
        standout=standout,
        zones=before.zones,
        rows=tuple(rows) if changed else before.rows,
        places=before.places,
        changed=tuple(sorted(changed)),
    )


def _touched(before: NodeRows, nodes: Mapping[str, Node], standout: Standout) -> Iterable[str] | None:
    """Names of nodes that may look otherwise than before; None when there are others."""
    was = before.standout
    if was.otherwise != standout.otherwise or was.unread != standout.unread:
        return None
    touched: set[str] = set()
    if before.nodes is not nodes:
        known = before.nodes.get
        touched.update(name for name, node in nodes.items() if known(name) is not node)
        if len(before.nodes) != len(nodes) or not touched <= before.places.keys():
            return None
    if was.watched is not standout.watched:
        touched |= was.watched ^ standout.watched
    touched.update(name for name, _ in was.marks.items() ^ standout.marks.items())
    return touched & before.places.keys()


def _afresh(nodes: Mapping[str, Node], standout: Standout) -> NodeRows:
    zones = tuple(sorted({node.zone for node in nodes.values()} | ({""} if standout.unread else set()), key=_last))
    numbers = {zone: number for number, zone in enumerate(zones)}
    rows: list[Row] = []
    for name in sorted({*nodes, *standout.unread}):
        node = nodes.get(name)
        rows.append((name, numbers[node.zone if node is not None else ""], *_looks(name, node, standout)))
    return NodeRows(
        nodes=nodes,
        standout=standout,
        zones=zones,
        rows=tuple(rows),
        places={row[0]: place for place, row in enumerate(rows)},
        changed=None,
    )


def _last(zone: str) -> tuple[bool, str]:
    """Nodes without a zone come after all others."""
    return not zone, zone


def _looks(name: str, node: Node | None, standout: Standout) -> Mark:
    said, flags = standout.marks.get(name, (NOT_SAID, 0))
    if node is None:
        return UNSEEN, flags
    state = said if said != NOT_SAID else HEALTHY if name in standout.watched else standout.otherwise
    own = FLAGS["control_plane"] * is_control_plane(node) + FLAGS["cordoned"] * node.spec.unschedulable
    return state, flags | own

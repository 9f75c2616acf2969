"""Every spell of illness that a check's nodes have had, also those that passed before anything was done about them.

They are kept in the status, so that somebody can ask later what another duration would have done (answers/regret.py).
Nothing is decided by them. A spell that is written down late is written down right: its times are those of the node.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

import msgspec

from defib.decide.census import Trouble, shown_by
from defib.decide.status import whole, whole_or_none
from defib.decide.upgrade import holding
from defib.decide.view import View
from defib.model.health_check import SPELLS_MAX, SPELLS_OPEN_MAX, Spell
from defib.model.node import Node
from defib.model.target import HEARTBEAT

BYTES_MAX = 60 * 1024
READY, SILENT = "Ready", "Unknown"  # the one condition that Kubernetes sets because nothing was heard

Key = tuple[str, str, str, datetime | None]


def spells_of(view: View, quick: Mapping[str, Trouble]) -> list[Spell] | None:
    """What the status should remember. `quick`: troubles that no condition shows yet."""
    known = view.status.spells or []
    shown = {_key(spell): spell for spell in _shown(view, quick)}
    if not shown and not any(spell.ended is None for spell in known):
        return view.status.spells
    later = {_key(spell): _as_it_is_now(view, spell, is_shown=_key(spell) in shown) for spell in known}
    room = SPELLS_OPEN_MAX - sum(spell.ended is None for spell in later.values())
    fresh = sorted((spell for key, spell in shown.items() if key not in later), key=_order)
    return _bounded([*later.values(), *(_told_more(view, spell) for spell in fresh[: max(room, 0)])]) or None


def _key(spell: Spell) -> Key:
    """The same spell, whoever writes it down: its condition began then. Of a silence, the last heartbeat was then."""
    since = spell.silent_since if spell.type == HEARTBEAT else spell.began
    return spell.node, spell.type, spell.status, since


def _order(spell: Spell) -> tuple[datetime, str, str, str]:
    return spell.began, spell.node, spell.type, spell.status


def _shown(view: View, quick: Mapping[str, Trouble]) -> Iterator[Spell]:
    for name in view.census.troubled:
        for one in shown_by(view.census.nodes[name], view.check.conditions):
            kind, status, began = one.wanted.type, one.wanted.status, whole(one.since)
            is_silence = (kind, status) == (READY, SILENT)
            silent = _renewed(view, name) if is_silence else None
            yield Spell(
                node=name,
                type=kind,
                status=status,
                began=began,
                silent_since=silent if silent is not None and silent <= began else None,
            )
    for name, trouble in quick.items():
        because = trouble.because
        if name in view.census.selected and because.since is not None:
            yield Spell(
                node=name,
                type=because.type,
                status=because.status,
                began=whole(view.now),
                silent_since=whole(because.since),
            )


def _as_it_is_now(view: View, spell: Spell, *, is_shown: bool) -> Spell:
    if is_shown:
        return _told_more(view, msgspec.structs.replace(spell, ended=None, healed=False))
    if spell.ended is not None or any(
        (one.kind, one.key) == ("nodes", spell.node) for one in view.ground.cluster.unread
    ):
        return spell
    node = view.census.nodes.get(spell.node)
    if node is None or spell.node not in view.census.selected or not _is_asked_for(view, spell):
        return _ended(view, spell, view.now, healed=False)
    if spell.type == HEARTBEAT:
        renewed = _renewed(view, spell.node)
        is_heard = renewed is not None and spell.silent_since is not None and renewed > spell.silent_since
        return _ended(view, spell, renewed or view.now, healed=True) if is_heard else _told_more(view, spell)
    return _ended(view, spell, _changed(node, spell) or view.now, healed=True)


def _is_asked_for(view: View, spell: Spell) -> bool:
    asked = ((one.type, one.status) for one in view.check.conditions)
    return spell.type == HEARTBEAT or (spell.type, spell.status) in asked


def _changed(node: Node, spell: Spell) -> datetime | None:
    condition = node.condition(spell.type)
    return condition.last_transition_time if condition is not None else None


def _ended(view: View, spell: Spell, at: datetime, *, healed: bool) -> Spell:
    """Neither before it began nor later than now, whatever the clocks of others say."""
    ended = max(spell.began, min(whole(at), whole(view.now)))
    return msgspec.structs.replace(_told_more(view, spell), ended=ended, healed=healed)


def _told_more(view: View, spell: Spell) -> Spell:
    """What else was so meanwhile. Once seen, it stays: who did something about it, and who took it down on purpose."""
    begun = [one.created for one in view.ground.by_node.get(spell.node, ()) if one.created is not None]
    upgrade = holding(view.ground.signals, view.check.name, spell.node)
    return msgspec.structs.replace(
        spell,
        remediated=spell.remediated or whole_or_none(min(begun, default=None)),
        upgrade=spell.upgrade or (upgrade.name if upgrade is not None else ""),
    )


def _renewed(view: View, node: str) -> datetime | None:
    lease = view.ground.cluster.heartbeat_of(node)
    return whole_or_none(lease.spec.renew_time) if lease is not None else None


def _bounded(spells: Iterable[Spell]) -> list[Spell]:
    """What goes on stays; of the past first the last spell of each node, then the one before: no node takes all the room."""
    kept: list[Spell] = []
    size = 0
    for spell in _by_worth(list(spells)):
        size += len(msgspec.json.encode(spell)) + 1
        if len(kept) == SPELLS_MAX or size > BYTES_MAX:
            break
        kept.append(spell)
    return sorted(kept, key=_order)


def _by_worth(spells: list[Spell]) -> list[Spell]:
    going_on = sorted((spell for spell in spells if spell.ended is None), key=_order)
    past = sorted((spell for spell in spells if spell.ended is not None), key=_order, reverse=True)
    before: defaultdict[str, int] = defaultdict(int)
    ranked = []
    for spell in past:
        ranked.append((before[spell.node], spell))
        before[spell.node] += 1
    return going_on + [spell for _, spell in sorted(ranked, key=lambda pair: pair[0])]

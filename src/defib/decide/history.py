"""Which nodes were newly remediated, and when: what rate limits and flap damping count.

It is kept in the status, and what is in flight is added from the cluster, so that neither a restart nor a status that
could not be written makes a count smaller.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable
from datetime import datetime, timedelta

from defib.decide.view import View
from defib.model.health_check import HISTORY_MAX, Began, Guards, Rate

SAME = timedelta(seconds=2)  # the status keeps whole seconds
SKEW = timedelta(minutes=1)  # clocks differ a little; what was written down as later than that did not happen


def began(view: View) -> list[Began]:
    """All that is known, with what is in flight and what is being created. Empty when nobody counts."""
    if longest_window(view.check.guards) is None:
        return []
    starting = (Began(node=node, started=view.now) for node in sorted(view.starting) if node not in view.owned)
    return [*_known(view), *starting]


def _known(view: View) -> list[Began]:
    """What the status says and the cluster shows, oldest first."""
    known = [one for one in view.status.history or () if one.started <= view.now + SKEW]
    moments: dict[str, list[datetime]] = {}
    for one in known:
        moments.setdefault(one.node, []).append(one.started)
    for node in sorted(view.owned):
        created = min((r.created for r in view.owned[node] if r.created is not None), default=None)
        if created is not None and not any(abs(known_at - created) < SAME for known_at in moments.get(node, ())):
            known.append(Began(node=node, started=created))
    return sorted(known, key=lambda one: (one.started, one.node))


def kept(view: View) -> list[Began]:
    """What the status must remember: as far back as somebody counts, and never more than it can hold."""
    longest = longest_window(view.check.guards)
    if longest is None:
        return []
    return [one for one in _known(view) if view.now - one.started < longest][-HISTORY_MAX:]


def longest_window(guards: Guards) -> timedelta | None:
    return max((rate.within for rate in (guards.rate_limit, guards.flap_damping) if rate is not None), default=None)


class Tally:
    """When remediations began, of all nodes and of each, so that counting them costs little however many wait."""

    def __init__(self, begun: Iterable[Began]) -> None:
        self._all: list[datetime] = []
        self._of: dict[str, list[datetime]] = {}
        for one in begun:
            self.add(one.node, one.started)

    def add(self, node: str, moment: datetime) -> None:
        insort(self._all, moment)
        insort(self._of.setdefault(node, []), moment)

    def recent(self, rate: Rate, now: datetime) -> list[datetime]:
        """Those that still count, oldest first."""
        return _since(self._all, now - rate.within)

    def recent_of(self, node: str, rate: Rate, now: datetime) -> list[datetime]:
        return _since(self._of.get(node, []), now - rate.within)


def _since(moments: list[datetime], moment: datetime) -> list[datetime]:
    return moments[bisect_right(moments, moment) :]


def fewer_at(counted: list[datetime], rate: Rate) -> datetime | None:
    """When so many of them no longer count that there is room for one more; None when there is room."""
    surplus = len(counted) - rate.count
    return counted[surplus] + rate.within if surplus >= 0 else None

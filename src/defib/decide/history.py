"""Which nodes were newly remediated, and when: what rate limits and flap damping count.

It is kept in the status, and what is in flight is added from the cluster, so that neither a restart nor a status that
could not be written makes a count smaller.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from defib.decide.view import View
from defib.model.health_check import HISTORY_MAX, Began, Guards, Rate

SAME = timedelta(seconds=2)  # the status keeps whole seconds


def began(view: View) -> list[Began]:
    """All that is known, oldest first, with what is in flight. Empty when nobody counts."""
    if longest_window(view.check.guards) is None:
        return []
    known = list(view.status.history or ())
    moments: dict[str, list[datetime]] = {}
    for one in known:
        moments.setdefault(one.node, []).append(one.started)
    for node in sorted(view.owned):
        created = min((r.created for r in view.owned[node] if r.created is not None), default=None)
        if created is not None and not any(abs(known_at - created) < SAME for known_at in moments.get(node, ())):
            known.append(Began(node=node, started=created))
    known += (Began(node=node, started=view.now) for node in sorted(view.starting) if node not in view.owned)
    return sorted(known, key=lambda one: (one.started, one.node))


def kept(view: View) -> list[Began]:
    """What the status must remember: as far back as somebody counts, and never more than it can hold."""
    longest = longest_window(view.check.guards) or timedelta()
    return [one for one in began(view) if view.now - one.started < longest and one.node not in view.starting][
        -HISTORY_MAX:
    ]


def longest_window(guards: Guards) -> timedelta | None:
    return max((rate.within for rate in (guards.rate_limit, guards.flap_damping) if rate is not None), default=None)


def recent(begun: Iterable[Began], rate: Rate, now: datetime) -> int:
    return sum(1 for one in begun if now - one.started < rate.within)

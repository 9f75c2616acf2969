"""Whether the operator hears enough agents to believe that a silent one is dead.

Whoever is meant lives on without word only if more than half of the domains that it knows tell it that they are cut off. So it
is dead if half of them have told that to nobody, for as long as it can live by anything that it heard before, while its order
stood. Each agent reports since when it has told nobody. How often it reports does not matter for that.

Which domains the node knows, it has reported: whoever deletes the Lease of another agent meanwhile does not change that.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from defib.decide.self_fence.safe_time import CLOCKS_SHARE
from defib.model.self_fence import Report, peers_every


class Witness(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as the operator sees it. Times by the operator's own clock; `report` is None where none can be read."""

    node: str
    domain: str
    report: Report | None
    silent_seconds: float  # at most, since its newest renewal arrived
    known_seconds: float  # since its Lease was made


class Heard(msgspec.Struct, frozen=True):
    domains: int
    heard: int

    @property
    def enough(self) -> bool:
        return self.domains > 0 and 2 * self.heard >= self.domains

    def __str__(self) -> str:
        return f"{self.heard} of {self.domains} failure domains are heard"


class Meant(msgspec.Struct, frozen=True, kw_only=True):
    """The one that is to be counted as dead: how many agents of each domain it knows, also those that are long gone, and itself.

    `lives_seconds`: so long it can live by what it heard before. `safe_seconds`: after so long it is dead, which is longer, as a
    machine that is being reset hears nobody any more. `ordered_seconds`: for so long its order has stood. `answered_seconds`: so
    long ago the API server last answered it, and since then it has read no list. `dead_by_seconds`: so long ago it had to be
    dead; none where it need only be dead by now.
    """

    node: str
    known: Mapping[str, int]
    lives_seconds: float
    safe_seconds: float
    ordered_seconds: float
    answered_seconds: float
    interval_seconds: float
    dead_by_seconds: float = 0.0


def enough_heard(witnesses: Iterable[Witness], meant: Meant) -> Heard:
    """As many domains as are heard over one and the same time, whichever that is."""
    turns: list[tuple[float, bool, str]] = []
    for domain, first, last in _steady(tuple(witnesses), meant):
        turns += [(first, False, domain), (last, True, domain)]
    heard: Counter[str] = Counter()
    most, has_more = 0, False
    for _, is_over, domain in sorted(turns):
        if is_over and has_more:
            most = max(most, sum(2 * heard[name] >= agents for name, agents in meant.known.items()))
        heard[domain] += -1 if is_over else 1
        has_more = not is_over
    return Heard(len(meant.known), most)


def _steady(witnesses: tuple[Witness, ...], meant: Meant) -> Iterator[tuple[str, float, float]]:
    """Between how many seconds ago the safe time can have begun, by the word of each."""
    requests = 2 * peers_every(max(len(witnesses), sum(meant.known.values())))
    listed_seconds = meant.answered_seconds + requests * meant.interval_seconds
    for witness in witnesses:
        report = witness.report
        # One that the node may not have listed was not asked. The node itself is cut off as it counts, and tells nobody.
        if report is None or witness.node == meant.node or witness.known_seconds < listed_seconds:
            continue
        told = witness.silent_seconds + report.pace.late_seconds + meant.lives_seconds
        steady = report.steady_seconds / (1 + CLOCKS_SHARE)
        first, last = max(told, meant.dead_by_seconds + meant.safe_seconds), min(steady, meant.ordered_seconds)
        if first <= last:
            yield witness.domain, first, last

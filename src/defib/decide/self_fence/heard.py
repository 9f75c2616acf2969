"""Whether the operator hears enough agents to believe that a silent one is dead.

An agent is heard when it could not have told anybody, since the safe time began, that it is cut off: its newest renewal is
recent, the request before that was answered, and it has been steady for as long as the safe time. The agent that is
meant lives on without word only if more than half of the domains that it knows are cut off, so it does not if half of those
are heard. Which it knows, it has reported: whoever deletes the Lease of another agent meanwhile does not change that.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from defib.model.self_fence import FAILURES_MIN, Report, peers_every


class Witness(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as the operator sees it. Times by the operator's own clock; `report` is None where none can be read."""

    domain: str
    report: Report | None
    silent_seconds: float  # since its newest renewal was seen
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

    `answered_seconds`: so long ago the API server last answered it. Since then it has read no list.
    """

    known: Mapping[str, int]
    safe_seconds: float
    answered_seconds: float


def enough_heard(witnesses: Iterable[Witness], meant: Meant) -> Heard:
    all_of_them = tuple(witnesses)
    requests = 2 * peers_every(max(len(all_of_them), sum(meant.known.values())))
    heard = Counter(
        witness.domain
        for witness in all_of_them
        if is_listed(witness, requests, meant.answered_seconds) and is_heard(witness, meant.safe_seconds)
    )
    return Heard(len(meant.known), sum(2 * heard[domain] >= agents for domain, agents in meant.known.items()))


def is_listed(witness: Witness, requests: int, answered_seconds: float) -> bool:
    """One that the node may not have listed, within so many requests, is known and not heard: it was not asked."""
    report = witness.report
    return report is not None and witness.known_seconds >= answered_seconds + requests * report.pace.interval_seconds


def is_heard(witness: Witness, safe_seconds: float) -> bool:
    report = witness.report
    return (
        report is not None
        and report.pace.failures >= FAILURES_MIN
        and witness.silent_seconds <= report.pace.recent_seconds
        and report.answered >= report.sequence - 1
        and report.steady_seconds >= safe_seconds
    )

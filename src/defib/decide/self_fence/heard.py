"""Whether the operator hears enough agents to believe that a silent one is dead.

An agent is heard when it could not have told anybody, since the safe time began, that it is cut off: its newest renewal is
recent, the request before that was answered, and it has been steady for as long as the safe time. The agent that is
meant lives on without word only if more than half of the domains are cut off, so it does not if half of them are heard.
"""

from collections.abc import Iterable

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


def enough_heard(witnesses: Iterable[Witness], safe_seconds: float) -> Heard:
    """Of all known agents, also those of nodes that are long dead, and the one that is meant."""
    known = tuple(witnesses)
    requests = 2 * peers_every(len(known))
    domains: dict[str, list[bool]] = {}
    for witness in known:
        domains.setdefault(witness.domain, []).append(is_heard(witness, safe_seconds, requests))
    return Heard(len(domains), sum(2 * sum(heard) >= len(heard) for heard in domains.values()))


def is_heard(witness: Witness, safe_seconds: float, requests: int) -> bool:
    """One that its peers may not have listed yet, within so many requests, is known and not heard: they do not ask it."""
    report = witness.report
    return (
        report is not None
        and report.pace.failures >= FAILURES_MIN
        and witness.silent_seconds <= report.pace.recent_seconds
        and report.answered >= report.sequence - 1
        and report.steady_seconds >= safe_seconds
        and witness.known_seconds >= requests * report.pace.interval_seconds
    )

"""What it costs to hear the heartbeat of every node and to know when one falls silent, and what we promise of it.

The same operator is measured three times, each time just started: over nodes that have no Leases at all, over nodes whose
Leases are renewed, and the same with a check that has a fast path. What hearing costs is the difference of the last and
the first: the watch, what is kept of each Lease and each rhythm, and the passes that look for silence.
"""

from collections.abc import Mapping

import msgspec

from tests.bench.results import PACE_KEPT_MIN, Verdict, at_most
from tests.bench.stretches import Stretch

NODES = 5_000
RENEW_SECONDS = 10.0
SECONDS = 60.0

CPU_SHARE_MAX = 0.08
MIB_MAX = 20.0

UNHEARD, HEARD, HASTY = "no heartbeats", "heartbeats", "heartbeats and a fast path"


class Hearing(msgspec.Struct, frozen=True, kw_only=True):
    nodes: int
    judged: bool
    load_before: float
    load_after: float
    pace: float
    """So many renewals were to be written in a second."""
    stretches: Mapping[str, Stretch]
    verdicts: list[Verdict]

    @property
    def cpu_share(self) -> float:
        return cpu_share(self.stretches)

    @property
    def mib(self) -> float:
        return mib(self.stretches)


def cpu_share(stretches: Mapping[str, Stretch]) -> float:
    """Of one core, for hearing alone."""
    return stretches[HASTY].cpu_share - stretches[UNHEARD].cpu_share


def mib(stretches: Mapping[str, Stretch]) -> float:
    """Of resident memory, for hearing alone."""
    return stretches[HASTY].resident_mib - stretches[UNHEARD].resident_mib


def verdicts(stretches: Mapping[str, Stretch], pace: float) -> list[Verdict]:
    found = [
        at_most("hearing all nodes: CPU, of one core", 100 * cpu_share(stretches), 100 * CPU_SHARE_MAX, "%"),
        at_most("hearing all nodes: memory", mib(stretches), MIB_MAX, "MiB"),
    ]
    return found + [_pace(what, stretches[what], pace) for what in (HEARD, HASTY)]


def _pace(what: str, stretch: Stretch, wanted: float) -> Verdict:
    """A machine that did not get all heartbeats written would make us look cheap."""
    seen = stretch.heartbeats / stretch.seconds
    return Verdict(
        what=f"{what}: renewals seen",
        measured=f"{seen:.0f}/s",
        bound=f">= {100 * PACE_KEPT_MIN:.0f} % of {wanted:.0f}/s",
        ratio=seen / wanted,
        ok=seen >= PACE_KEPT_MIN * wanted,
    )

"""How soon another replica acts when the leader ends, in order or at once, and what we promise of both."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from tests.bench.moves import Spread, spread_of
from tests.bench.results import Verdict, at_most

End = Literal["SIGTERM", "kill -9"]
ORDERLY: End = "SIGTERM"
CRASH: End = "kill -9"

REPLICAS = 3
NODES = 1_000
ORDERLY_ENDS = 30
CRASHES = 8
FOLLOWED_WITHIN = 60.0

ORDERLY_P99_SECONDS_MAX = 3.0
CRASH_SECONDS_MAX = 20.0
PROMOTED_SECONDS_MAX = 1.0


class Ends(msgspec.Struct, frozen=True, kw_only=True):
    """How often a leader is asked to stop, and how often it is killed; in a cluster of so many nodes."""

    nodes: int = NODES
    orderly: int = ORDERLY_ENDS
    crashes: int = CRASHES

    @property
    def is_whole(self) -> bool:
        return self.nodes >= NODES and self.orderly >= ORDERLY_ENDS and self.crashes >= CRASHES


class Succession(msgspec.Struct, frozen=True, kw_only=True):
    """One leader ends just before a node is due to be remediated. All moments are Unix time of one machine."""

    end: End
    signalled: float
    due: float
    """When the node had been unhealthy for long enough: nobody could have acted on it before."""
    acquired: float
    """When an onlooker saw the lock in the hands of the next."""
    acted: float
    """When an onlooker saw the remediation; the longest wait, if it never came."""
    is_followed: bool
    strays: int
    """Remediations that came or went and should not have: one that was made twice, say."""

    @property
    def led_after_seconds(self) -> float:
        return self.acquired - self.signalled

    @property
    def acted_after_seconds(self) -> float:
        return self.acted - self.signalled

    @property
    def promoted_seconds(self) -> float:
        """From when the next could act, and there was something to do."""
        return self.acted - max(self.acquired, self.due)


class HandedOver(msgspec.Struct, frozen=True, kw_only=True):
    ends: Ends
    judged: bool
    load_before: float
    load_after: float
    quicker: int
    """Ends that came too late to count: the old leader had acted already."""
    spreads: dict[str, Spread]
    successions: list[Succession]
    verdicts: list[Verdict]


def spreads_of(successions: Sequence[Succession]) -> dict[str, Spread]:
    found: dict[str, Spread] = {}
    for end in (ORDERLY, CRASH):
        if of := [one for one in successions if one.end == end]:
            found[f"{end} to the next leader's lock"] = spread_of([one.led_after_seconds for one in of])
            found[f"{end} to the next leader's first action"] = spread_of([one.acted_after_seconds for one in of])
    found["the next leader's lock to its first action"] = spread_of([one.promoted_seconds for one in successions])
    return found


def verdicts(successions: Sequence[Succession]) -> list[Verdict]:
    followed, strays = sum(one.is_followed for one in successions), sum(one.strays for one in successions)
    ordered = [one.acted_after_seconds for one in successions if one.end == ORDERLY]
    crashed = [one.acted_after_seconds for one in successions if one.end == CRASH]
    found = [
        Verdict(
            what="nodes remediated, once each",
            measured=f"{followed} and {strays} others",
            bound=f"{len(successions)} and no others",
            ratio=followed / len(successions),
            ok=followed == len(successions) and not strays,
        )
    ]
    if ordered:
        p99 = spread_of(ordered).p99_seconds
        found.append(at_most(f"{ORDERLY} to the next's first action: p99", p99, ORDERLY_P99_SECONDS_MAX, "s"))
    if crashed:
        found.append(at_most(f"{CRASH} to the next's first action: the last", max(crashed), CRASH_SECONDS_MAX, "s"))
    slowest = max(one.promoted_seconds for one in successions)
    found.append(at_most("lock to first action: the last", slowest, PROMOTED_SECONDS_MAX, "s"))
    return found

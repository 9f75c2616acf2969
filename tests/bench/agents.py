"""What a thousand agents cost the API server and its etcd, and what we promise of it.

Both are measured three times: at rest, with the heartbeats of as many kubelets, and with one request per agent and interval, a
renewal or every so often a list, as agents make them. What each costs is the difference to the rest.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from defib.model.self_fence import Pace
from tests.bench.moves import Spread, spread_of
from tests.bench.results import PACE_KEPT_MIN, Verdict, at_most

AGENTS = 1_000
SECONDS = 60.0
PACE = Pace(interval_seconds=15, request_seconds=3, failures=2, peer_seconds=12)  # what `defib agent` has by default
HEARTBEAT_SECONDS = 10.0  # what kubelets have by default
AGENTS_WALK, KUBELETS_WALK = "agents", "kubelets"

CPU_SHARE_MAX = 0.25
HEARTBEATS_RATIO_MAX = 1.0


class Notes(msgspec.Struct):
    """What some agents asked in a while: how long each answer took, how the rest failed. Bytes are those on the wire, encrypted."""

    renewals: list[float] = []
    lists: list[float] = []
    failures: dict[str, int] = {}
    bytes_sent: int = 0
    bytes_received: int = 0


def together(notes: Iterable[Notes]) -> Notes:
    whole = Notes()
    for one in notes:
        whole.renewals += one.renewals
        whole.lists += one.lists
        whole.failures = dict(Counter(whole.failures) + Counter(one.failures))
        whole.bytes_sent += one.bytes_sent
        whole.bytes_received += one.bytes_received
    return whole


class Talk(msgspec.Struct, frozen=True, kw_only=True):
    """The same of all agents, in short. In a short time nobody lists."""

    renewals: int
    lists: int
    failures: Mapping[str, int]
    renewal: Spread | None
    list: Spread | None
    bytes_sent: int
    bytes_received: int


def talk_of(notes: Notes) -> Talk:
    return Talk(
        renewals=len(notes.renewals),
        lists=len(notes.lists),
        failures=notes.failures,
        renewal=spread_of(notes.renewals) if notes.renewals else None,
        list=spread_of(notes.lists) if notes.lists else None,
        bytes_sent=notes.bytes_sent,
        bytes_received=notes.bytes_received,
    )


class Burden(msgspec.Struct, frozen=True, kw_only=True):
    """CPU seconds of each program within the same time: at rest, with kubelets alone, and with agents alone."""

    seconds: float
    rest: Mapping[str, float]
    kubelets: Mapping[str, float]
    agents: Mapping[str, float]

    def for_agents(self, program: str) -> float:
        """Of one core."""
        return (self.agents[program] - self.rest[program]) / self.seconds

    def for_kubelets(self, program: str) -> float:
        return (self.kubelets[program] - self.rest[program]) / self.seconds

    @property
    def share_for_agents(self) -> float:
        return sum(map(self.for_agents, self.rest))

    @property
    def share_for_kubelets(self) -> float:
        return sum(map(self.for_kubelets, self.rest))


class Guarding(msgspec.Struct, frozen=True, kw_only=True):
    agents: int
    judged: bool
    load_before: float
    load_after: float
    burden: Burden
    heartbeats: Talk
    talk: Talk
    crowd_share: float
    """Of one core, for the processes that play the agents: where they have none left, answers look slow."""
    verdicts: list[Verdict]


def verdicts(agents: int, burden: Burden, talk: Talk) -> list[Verdict]:
    wanted = agents * burden.seconds / PACE.interval_seconds
    made, failed = talk.renewals + talk.lists, sum(talk.failures.values())
    return [
        at_most(
            f"{agents:,} agents: CPU of API server and etcd, of one core",
            100 * burden.share_for_agents,
            100 * CPU_SHARE_MAX,
            "%",
        ),
        at_most(
            f"{agents:,} agents: the same, beside the heartbeats of as many kubelets",
            burden.share_for_agents / burden.share_for_kubelets,
            HEARTBEATS_RATIO_MAX,
            "x",
        ),
        Verdict(
            what=f"{agents:,} agents: requests answered",
            measured=f"{made:,}",
            bound=f">= {100 * PACE_KEPT_MIN:.0f} % of {wanted:,.0f}",
            ratio=made / wanted,
            ok=made >= PACE_KEPT_MIN * wanted,
        ),
        Verdict(
            what=f"{agents:,} agents: requests that failed",
            measured=f"{failed:,}",
            bound="0",
            ratio=failed / max(made, 1),
            ok=failed == 0,
        ),
    ]

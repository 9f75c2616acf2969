"""What many drains at once cost while they wait and when something can be done, and what we promise of both."""

from collections.abc import Mapping

import msgspec

from tests.bench.results import PACE_KEPT_MIN, Verdict, at_most
from tests.bench.stretches import Stretch

NODES = 1_000
DRAINING = 100
PODS_EACH = 30
BETWEEN_SECONDS = 60.0

CPU_SHARE_MAX = 0.05
# The pod, the record, the lock and the node are read, it is evicted, and how many are left is written. Mostly it is less,
# since pods of a node share what is not their own.
REQUESTS_PER_POD_MAX = 6.0
REQUESTS_PER_NODE = 10.0  # its record, its lock and its node are read and written for all of its pods together
LOCKS_PER_MINUTE = 1.0  # each lock is good for two minutes
LOCKS_SLACK = 1.5  # of locks that were taken in the same second, two rounds may fall into little more than a minute
IDLE_REQUESTS = 10  # beside those at rest: a watch that ends is begun anew, with a list where it must be


class Crowd(msgspec.Struct, frozen=True, kw_only=True):
    """`draining` of the nodes are drained at once."""

    nodes: int = NODES
    draining: int = DRAINING
    pods_each: int = PODS_EACH

    @property
    def is_whole(self) -> bool:
        return self.nodes >= NODES and self.draining >= DRAINING and self.pods_each >= PODS_EACH

    @property
    def pods(self) -> int:
        return self.draining * self.pods_each


class Draining(msgspec.Struct, frozen=True, kw_only=True):
    crowd: Crowd
    judged: bool
    load_before: float
    load_after: float
    stretches: Mapping[str, Stretch]
    """By what the operator did then, in this order."""
    peak_mib: float
    verdicts: list[Verdict]


RESTING, WATCHING, ASKING, WAITING, LEAVING = "nobody drains", "watching", "refused once", "waiting", "leaving"


def verdicts(crowd: Crowd, stretches: Mapping[str, Stretch], pods_left: int, pace: float) -> list[Verdict]:
    """`pace` is how many heartbeats a second were written."""
    resting, watching, waiting = stretches[RESTING], stretches[WATCHING], stretches[WAITING]
    at_rest = resting.made / resting.seconds
    locks = LOCKS_SLACK * LOCKS_PER_MINUTE * crowd.draining / 60
    return [
        _cpu("CPU while whoever drains has time", watching),
        _cpu("CPU while budgets refuse", waiting),
        _requests("requests while whoever drains has time", watching, at_rest * watching.seconds),
        _requests("requests while budgets refuse", waiting, (at_rest + locks) * waiting.seconds),
        Verdict(
            what="evictions asked for meanwhile",
            measured=f"{waiting.asked:,}",
            bound="0",
            ratio=waiting.asked / crowd.pods,
            ok=not waiting.asked,
        ),
        _each("requests for a pod that its budget refuses", stretches[ASKING], crowd, stretches[ASKING].asked),
        _each("requests for a pod that leaves", stretches[LEAVING], crowd, crowd.pods),
        Verdict(
            what="pods that left when they could",
            measured=f"{crowd.pods - pods_left:,}",
            bound=f"{crowd.pods:,}",
            ratio=(crowd.pods - pods_left) / crowd.pods,
            ok=not pods_left,
        ),
        _pace(watching, pace),
    ]


def _cpu(what: str, stretch: Stretch) -> Verdict:
    """With all that heartbeats cost."""
    return at_most(f"{what}, of one core", 100 * stretch.cpu_share, 100 * CPU_SHARE_MAX, "%")


def _requests(what: str, stretch: Stretch, usual: float) -> Verdict:
    bound = usual + IDLE_REQUESTS
    return Verdict(
        what=what,
        measured=f"{stretch.made:,}",
        bound=f"<= {bound:.0f}",
        ratio=stretch.made / bound,
        ok=stretch.made <= bound,
    )


def _each(what: str, stretch: Stretch, crowd: Crowd, pods: int) -> Verdict:
    """Without what is needed once for each node."""
    each = max(stretch.made - REQUESTS_PER_NODE * crowd.draining, 0.0) / max(pods, 1)
    return at_most(f"{what}, beside {REQUESTS_PER_NODE:g} for its node", each, REQUESTS_PER_POD_MAX, "")


def _pace(stretch: Stretch, wanted: float) -> Verdict:
    """A machine that did not get all heartbeats written would make us look cheap."""
    seen = stretch.heartbeats / stretch.seconds
    return Verdict(
        what="heartbeats seen meanwhile",
        measured=f"{seen:.0f}/s",
        bound=f"{wanted:.0f}/s written",
        ratio=seen / wanted,
        ok=seen >= PACE_KEPT_MIN * wanted,
    )

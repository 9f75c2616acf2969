"""How cost and lateness grow with the number of nodes, and what we promise of it.

What the failure of nodes costs is what came on top of the rest: CPU and requests of the same time at rest are taken off.
"""

from collections.abc import Callable, Sequence
from statistics import linear_regression

import msgspec

from tests.bench.results import PACE_KEPT_MIN, Verdict, at_most
from tests.bench.stretches import Stretch
from tests.bench.turns import percentile

SIZES = (100, 1_000, 5_000, 15_000)
FAILING_SHARE = 0.02
SHARE = f"{100 * FAILING_SHARE:g} %"
RENEW_SECONDS = 10.0
PACE_MAX = 300.0  # so many renewals a second leave the API server room on two cores for all else that is measured
SECONDS = 30.0
FOLLOWED_WITHIN = 120.0
FALLS = 3  # of one alone, a third of the CPU is chance: the cores are shared with the API server

PEAK_MIB_MAX = 350.0
LINEAR_TIMES_MAX = 1.3
LINEAR_FROM = 3  # sizes: a line through two would be exact, and say nothing


class Fallen(msgspec.Struct, frozen=True, kw_only=True):
    """So many nodes failed at once. Seconds are from when a node was due until an onlooker saw its remediation."""

    failing: int
    followed: int
    strays: int
    """Remediations that came or went and should not have."""
    p50_seconds: float
    p99_seconds: float
    max_seconds: float
    cpu_seconds: float
    """On top of the rest, as the requests are."""
    requests: float


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One size of the cluster, with an operator that was just started."""

    nodes: int
    pace: float
    """So many renewals of heartbeats were to be written in a second."""
    start_seconds: float
    """From a process that has begun until it has listed and sees everything. The API server has its part in it."""
    start_cpu_seconds: float
    """From nothing until all nodes were seen and judged."""
    rest: Stretch
    one: Fallen
    many: Fallen
    """Of so many falls as were tried, the one whose CPU is in the middle."""
    others: list[Fallen] = []
    peak_mib: float
    load: float
    """Of the machine, in the minute before."""


class Growing(msgspec.Struct, frozen=True, kw_only=True):
    judged: bool
    steps: list[Step]
    verdicts: list[Verdict]


JUDGED: dict[str, Callable[[Step], float]] = {
    "CPU to start": lambda step: step.start_cpu_seconds,
    f"CPU when {SHARE} of the nodes fail": lambda step: step.many.cpu_seconds,
}


def pace_of(nodes: int) -> float:
    """As kubelets would renew, as far as the machine bears it."""
    return min(nodes / RENEW_SECONDS, PACE_MAX)


def failing_of(nodes: int) -> int:
    return max(round(FAILING_SHARE * nodes), 1)


def scaled(nodes: int, whole: int) -> tuple[int, ...]:
    """The sizes, cut down for a trial with so many nodes in place of the whole fleet of the other parts."""
    return SIZES if nodes >= whole else tuple(max(size * nodes // whole, 2) for size in SIZES)


def on_top(used: float, seconds: float, rest: float, rest_seconds: float) -> float:
    """Of what was used in these seconds, what would not have been used at rest."""
    return max(used - rest * seconds / rest_seconds, 0.0)


def fallen_of(failing: int, late: list[float], strays: int, used: Stretch, rest: Stretch) -> Fallen:
    """Nodes that nobody remediated are at least as late as we waited."""
    all_of_them = late + [FOLLOWED_WITHIN] * (failing - len(late))
    return Fallen(
        failing=failing,
        followed=len(late),
        strays=strays,
        p50_seconds=percentile(all_of_them, 0.5),
        p99_seconds=percentile(all_of_them, 0.99),
        max_seconds=max(all_of_them),
        cpu_seconds=on_top(used.cpu_seconds, used.seconds, rest.cpu_seconds, rest.seconds),
        requests=on_top(used.made, used.seconds, rest.made, rest.seconds),
    )


def middle_of(falls: Sequence[Fallen]) -> tuple[Fallen, list[Fallen]]:
    """The one whose CPU is in the middle, and the others."""
    ranked = sorted(falls, key=lambda one: one.cpu_seconds)
    return ranked.pop(len(ranked) // 2), ranked


def extrapolated(smaller: Sequence[Step], of: Callable[[Step], float], nodes: int) -> float:
    """The straight line through the smaller sizes, drawn on."""
    slope, intercept = linear_regression([step.nodes for step in smaller], [of(step) for step in smaller])
    return slope * nodes + intercept


def verdicts(steps: Sequence[Step]) -> list[Verdict]:
    *smaller, largest = steps
    linear = [_linear(what, smaller, of, largest) for what, of in JUDGED.items() if len(smaller) >= LINEAR_FROM]
    return [
        at_most(f"{largest.nodes:,} nodes: peak memory", largest.peak_mib, PEAK_MIB_MAX, "MiB"),
        *linear,
        _complete([fallen for step in steps for fallen in (step.one, step.many, *step.others)]),
        _pace(steps),
    ]


def _linear(what: str, smaller: Sequence[Step], of: Callable[[Step], float], largest: Step) -> Verdict:
    line = extrapolated(smaller, of, largest.nodes)
    bound = LINEAR_TIMES_MAX * line
    return Verdict(
        what=f"{largest.nodes:,} nodes: {what}",
        measured=f"{of(largest):.2f} s",
        bound=f"<= {LINEAR_TIMES_MAX:g} x {line:.2f} s, the line through fewer nodes",
        ratio=of(largest) / bound if bound > 0 else 0.0,
        ok=of(largest) <= bound,
    )


def _complete(falls: Sequence[Fallen]) -> Verdict:
    failing, followed, strays = (sum(getattr(one, of) for one in falls) for of in ("failing", "followed", "strays"))
    return Verdict(
        what="all sizes: remediations of nodes that failed",
        measured=f"{followed:,} and {strays} others",
        bound=f"{failing:,} and no others",
        ratio=followed / failing,
        ok=followed == failing and not strays,
    )


def _pace(steps: Sequence[Step]) -> Verdict:
    """A machine that did not get all heartbeats written would make us look cheap."""
    kept = min(step.rest.heartbeats / step.rest.seconds / step.pace for step in steps)
    return Verdict(
        what="all sizes: renewals seen, of those that were to be written",
        measured=f"{100 * kept:.0f} %",
        bound=f">= {100 * PACE_KEPT_MIN:.0f} %",
        ratio=kept,
        ok=kept >= PACE_KEPT_MIN,
    )

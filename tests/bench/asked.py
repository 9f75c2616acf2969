"""How long a person waits for the command line's answer about one node of many, and what we promise of it."""

from collections.abc import Mapping, Sequence
from statistics import median

import msgspec

from tests.bench.results import Verdict, at_most

NODES = 5_000
TIMES = 10
BARE = "bare lists"
WHY = "defib why"
JUDGED = (WHY,)
WALL_SECONDS_MAX = 1.0
CPU_OF_BARE_MAX = 3.0


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One command, from its start to its end, as a shell would see it."""

    wall_seconds: float
    cpu_seconds: float


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """The same command several times, each about another node."""

    wall_p50: float
    wall_max: float
    cpu_p50: float
    times: int


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    nodes: int
    judged: bool
    load_before: float
    load_after: float
    answers: dict[str, Answered]
    verdicts: list[Verdict]


def answered(asked: Sequence[Asked]) -> Answered:
    walls = [one.wall_seconds for one in asked]
    return Answered(
        wall_p50=median(walls),
        wall_max=max(walls),
        cpu_p50=median(one.cpu_seconds for one in asked),
        times=len(asked),
    )


def verdicts(answers: Mapping[str, Answered]) -> list[Verdict]:
    """Beside the bare lists, since how fast a machine and its API server are is not ours to promise."""
    bare = answers[BARE]
    return [
        verdict
        for name in JUDGED
        for verdict in (
            at_most(f"{name}: time on the wall, p50", answers[name].wall_p50, WALL_SECONDS_MAX, "s"),
            at_most(f"{name}: CPU, of the bare lists'", answers[name].cpu_p50 / bare.cpu_p50, CPU_OF_BARE_MAX, "x"),
        )
    ]

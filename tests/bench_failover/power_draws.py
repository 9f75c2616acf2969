"""What happens in each run with Defib: drawn before the first of them, so that a seed gives the same fifty again."""

from enum import Enum
from random import Random

import msgspec


class PowerFault(Enum):
    OFF = "power off"
    HUNG = "hung"
    PARTITIONED = "partition"


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """How fast machines and their BMCs are: from, to."""

    off_seconds: tuple[float, float] = (1.0, 2.5)
    """From the command to the power."""
    answer_seconds: tuple[float, float] = (0.0, 0.25)
    """Of one request. Within 3 s of a command that is sent, a BMC shows what came of it."""

    def __str__(self) -> str:
        off, answer = self.off_seconds, self.answer_seconds
        return (
            f"machines go off within {off[0]:g} to {off[1]:g} s, their BMCs take {answer[0]:g} to {answer[1]:g} s "
            "for a request"
        )


class Draw(msgspec.Struct, frozen=True, kw_only=True):
    run: int
    fault: PowerFault
    off_seconds: float
    answer_seconds: float
    victim: float
    """Between 0 and 1: which of the nodes that have a database at that time."""
    after: float
    """Between 0 and 1: when, between two heartbeats."""

    def chosen_from(self, nodes: list[str]) -> str:
        return nodes[int(self.victim * len(nodes))]


def draws(
    seed: int, runs: int, hardware: Hardware, faults: tuple[PowerFault, ...] = tuple(PowerFault)
) -> tuple[Draw, ...]:
    chance = Random(seed)
    return tuple(
        Draw(
            run=run,
            fault=chance.choice(faults),
            off_seconds=round(chance.uniform(*hardware.off_seconds), 2),
            answer_seconds=round(chance.uniform(*hardware.answer_seconds), 2),
            victim=chance.random(),
            after=chance.random(),
        )
        for run in range(1, runs + 1)
    )

"""Lives through many seeds and says what went wrong: python -m tests.simulation --seeds 1-1000, or --seed 7 for one."""

import argparse
import gc
import sys
from collections import Counter

import structlog

from defib.clock import SystemClock
from tests.simulation.runs import Day, live, shrink

CRITICAL = 50


def say(*lines: object) -> None:
    print(*lines, sep="\n", flush=True)  # noqa: T201 - it is what was asked for


def main() -> int:
    asked = _arguments()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(CRITICAL))
    if asked.seed is not None:
        return _one(asked.seed, asked.only)
    clock = SystemClock()
    began, reached, bad = clock.monotonic(), Counter[str](), list[int]()
    gc.disable()  # once after each day is enough: a day leaves little behind
    for seed in asked.seeds:
        day = live(seed)
        gc.collect()
        reached += day.reached
        if day.findings:
            bad.append(seed)
            _tell(day)
    seconds = clock.monotonic() - began
    say(f"{len(asked.seeds)} seeds, {len(bad)} bad ones, {seconds:.1f} s, {len(asked.seeds) / seconds:.2f} a second")
    for what, times in sorted(reached.items()):
        say(f"{times:8} {what}")
    return 1 if bad else 0


def _one(seed: int, only: tuple[int, ...] | None) -> int:
    """With its whole history, so that two runs can be compared."""
    day = live(seed, only, tells=True)
    for line in day.lines:
        say(line)
    say(day.shape)
    for number, trouble in enumerate(day.troubles):
        say(f"trouble {number}: {trouble}")
    say(*day.findings, f"history {day.digest}")
    return 1 if day.findings else 0


def _tell(day: Day) -> None:
    say(f"seed {day.seed}:")
    for finding in day.findings[:5]:
        say(f"  {finding}")
    left = shrink(day.seed, lambda other: bool(day.broken & other.broken))
    named = ",".join(str(number) for number in left)
    for number in left:
        say(f"  trouble {number}: {day.troubles[number]}")
    say(f"  replay it: python -m tests.simulation --seed {day.seed} --only '{named}'")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number)


def _range(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=_range, default=range(1, 101), help="such as 1-1000")
    parser.add_argument("--seed", type=int, help="one seed, with its history")
    parser.add_argument("--only", type=_numbers, help="of the troubles of that seed, those with these numbers")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

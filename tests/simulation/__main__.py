"""Lives through many seeds and says what went wrong: python -m tests.simulation --seeds 1-1000, or --seed 7 for one."""

import argparse
import os
import sys

from defib.clock import SystemClock
from tests.simulation import coverage
from tests.simulation.coverage import missed, never_reached
from tests.simulation.many import Days, be_quiet, live_all
from tests.simulation.runs import SELF_FENCE, SERIES, USUAL
from tests.simulation.self_fence import reached as self_fence
from tests.simulation.shrinking import Shrunk

SOMETIMES = {USUAL: coverage.SOMETIMES, SELF_FENCE: self_fence.SOMETIMES}


def say(*lines: object) -> None:
    print(*lines, sep="\n", flush=True)  # noqa: T201 - it is what was asked for


def main() -> int:
    asked = _arguments()
    be_quiet()
    if asked.seed is not None:
        return _one(asked)
    clock = SystemClock()
    began, days = clock.monotonic(), Days()
    for some in live_all(asked.seeds, asked.jobs, shrinks=not asked.no_shrink, series=asked.series):
        days += some
        for bad in some.bad:
            say(bad)
        _show_progress(days, len(asked.seeds), clock.monotonic() - began)
    return _report(days, clock.monotonic() - began, asked.series)


def _show_progress(days: Days, seeds: int, seconds: float) -> None:
    """For a person who waits; whoever reads a log later has no use for it."""
    if sys.stderr.isatty():
        rate = days.seeds / max(seconds, 0.001)
        line = f"{days.seeds} of {seeds} seeds, {len(days.bad)} bad ones, {rate:.1f} a second"
        sys.stderr.write(f"\r{line:<70}" if days.seeds < seeds else f"\r{'':<70}\r")
        sys.stderr.flush()


def _report(days: Days, seconds: float, series: str) -> int:
    for what, times in sorted(days.reached.items()):
        say(f"{times:8} {what}")
    for row in never_reached(days.reached) if series == USUAL else ():
        say(f"   never {row}")
    unmet = missed(days.reached, days.seeds, SOMETIMES[series])
    for what in unmet:
        say(f"it must be reached by so many days, and was not: {what}")
    rate = days.seeds / max(seconds, 0.001)
    say(f"{days.seeds} seeds, {len(days.bad)} bad ones, {seconds:.1f} s, {rate:.2f} a second")
    if days.bad:
        say(f"bad ones: {', '.join(str(bad.seed) for bad in days.bad)}")
    return 1 if days.bad or unmet else 0


def _one(asked: argparse.Namespace) -> int:
    """With its whole history, so that two runs can be compared."""
    whole = Shrunk.whole(asked.seed, asked.series)
    numbers = whole.numbers if asked.only is None else asked.only
    few = Shrunk(asked.seed, numbers, asked.lasting, asked.series)
    day = few.live(tells=True)
    for line in day.lines:
        say(line)
    say(day.shape)
    for number, trouble in zip(few.numbers, day.troubles, strict=True):
        say(f"trouble {number}: {trouble}")
    say(*day.findings, f"history {day.digest}")
    return 1 if day.findings else 0


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(sorted(int(number) for number in text.split(",") if number))


def _lengths(text: str) -> dict[int, float]:
    pairs = (pair.partition("=") for pair in text.split(",") if pair)
    return {int(number): float(seconds) for number, _, seconds in pairs}


def _range(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=_range, default=range(1, 101), help="such as 1-1000")
    parser.add_argument("--series", choices=tuple(SERIES), default=USUAL, help="which kind of days")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes; one for each core")
    parser.add_argument("--no-shrink", action="store_true", help="only name bad seeds, which is faster")
    parser.add_argument("--seed", type=int, help="one seed, with its history")
    parser.add_argument("--only", type=_numbers, help="of the troubles of that seed, those with these numbers")
    parser.add_argument("--lasting", type=_lengths, default={}, help="which of them end after how many seconds")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

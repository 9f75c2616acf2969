"""Troubles on a real control plane for as long as is asked for: python -m tests.chaos --minutes 30 --seed 7"""

import argparse
import asyncio
import sys

from testbed.programs import control_plane_programs
from testbed.quiet import only_warnings
from tests.chaos.run import Report, live


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--keep", action="store_true", help="the history and the logs stay, also when all is well")
    asked = parser.parse_args()
    only_warnings()
    report = asyncio.run(live(control_plane_programs(), asked.seed, asked.minutes * 60, _tell, keep=asked.keep))
    _tell(report.summary)
    for ending in report.endings:
        _tell(f"ended by itself: {ending}")
    if not report.wrong:
        return 0
    _tell(told(report, asked.seed, asked.minutes))
    return 1


def told(report: Report, seed: int, minutes: float) -> str:
    """What is wrong, where its history is, and how to see it again."""
    return "\n".join(
        [
            *report.wrong,
            f"history: {report.directory / 'history.txt'}",
            f"again: python -m tests.chaos --minutes {minutes:g} --seed {seed}",
        ]
    )


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - it is for whoever runs it


if __name__ == "__main__":
    sys.exit(main())

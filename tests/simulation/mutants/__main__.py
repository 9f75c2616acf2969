"""Every known-bad guard is lived with until the simulation finds it: `python -m tests.simulation.mutants`."""

import argparse
import os
import sys
from pathlib import Path

from tests.simulation.mutants import MUTANTS
from tests.simulation.mutants.hunting import Kill, hunt_all, keep, known_kills, mutant_named

PAGE = Path(__file__).parents[3] / "docs" / "trust.md"
BEGIN = "<!-- mutants: written by python -m tests.simulation.mutants --write -->"
END = "<!-- end of mutants -->"


def main() -> int:
    arguments = _arguments()
    names = [mutant.name for mutant in MUTANTS if not arguments.only or mutant.name in arguments.only]
    kills = []
    for kill in hunt_all(names, arguments.most, arguments.jobs):
        kills.append(kill)
        _say(_line(kill, arguments.most))
        if arguments.write:  # at once: whoever is interrupted keeps what was found
            keep([kill])
            PAGE.write_text(with_table(PAGE.read_text()))
    survivors = [kill.mutant for kill in kills if not kill.seed]
    _say(f"{len(kills) - len(survivors)} of {len(kills)} mutants killed")
    return 1 if survivors else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("--most", type=int, default=1000, help="give a mutant up after so many seeds")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only this mutant; may be repeated")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="so many processes")
    parser.add_argument("--write", action="store_true", help="keep what was found, and write the table in the docs")
    return parser.parse_args()


def _line(kill: Kill, most: int) -> str:
    invariant = mutant_named(kill.mutant).invariant
    so = f"seed {kill.seed}: {kill.seen}" if kill.seed else f"SURVIVES {most} seeds"
    return f"{invariant:4} {kill.mutant}: {so}"


def with_table(page: str) -> str:
    """The page with the table as it is known now; the rest stays as it is."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE.name} has no place for the table")
    return f"{before}{BEGIN}\n\n{_table()}\n{END}{after}"


def _table() -> str:
    known = known_kills()
    lines = ["| invariant | mutant | what it does wrong | seeds until it was found |", "|---|---|---|---|"]
    for mutant in MUTANTS:
        kill = known.get(mutant.name)
        found = str(kill.seed) if kill and kill.seed else "not found"
        lines.append(f"| {mutant.invariant} | {mutant.name} | {mutant.broken} | {found} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())

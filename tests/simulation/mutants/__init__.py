"""Known-bad variants of Defib's own guards. Each must be found by the simulation, or it is the simulation that is bad."""

from tests.simulation.mutants.acting import ACTING
from tests.simulation.mutants.deciding import DECIDING
from tests.simulation.mutants.fencing import FENCING
from tests.simulation.mutants.leading import LEADING
from tests.simulation.mutants.self_fencing import SELF_FENCING
from tests.simulation.mutants.switching import Mutant, switched_on

__all__ = ["MUTANTS", "Mutant", "switched_on"]


def _number(mutant: Mutant) -> int:
    return int(mutant.invariant.removeprefix("I"))


MUTANTS: tuple[Mutant, ...] = tuple(sorted((*FENCING, *DECIDING, *ACTING, *LEADING, *SELF_FENCING), key=_number))

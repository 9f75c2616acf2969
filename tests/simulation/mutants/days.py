"""Which days can show a mutant at all. The others need not be lived through: nothing on them asks for the guard."""

from collections.abc import Callable

import msgspec

from defib.model.health_check import Mode
from tests.simulation.faults import SERIOUS, Trouble
from tests.simulation.runs import USUAL, drawn_for
from tests.simulation.shape import PODS, Shape
from tests.simulation.world import TIMERS

NOTICED_SECONDS = TIMERS.grace_seconds
LOST_POWER = "loses power"


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """A day before it is lived through."""

    shape: Shape
    troubles: tuple[Trouble, ...]

    @property
    def ill(self) -> frozenset[str]:
        return frozenset(one.whom for one in self.troubles if one.layer == "node" and one.what in SERIOUS)

    @property
    def running(self) -> frozenset[str]:
        """Those of them whose machines run on all the while."""
        lost = {one.whom for one in self.troubles if one.layer == "node" and one.what == LOST_POWER}
        return self.ill - lost

    @property
    def acts(self) -> bool:
        return self.shape.mode == Mode.AUTOMATIC

    @property
    def switches(self) -> bool:
        return self.acts and self.shape.switches_power

    @property
    def moves_pods(self) -> bool:
        return self.acts and self.shape.ladder[0] == PODS

    @property
    def has_standby(self) -> bool:
        return self.shape.replicas > 1

    @property
    def begins_at(self) -> float:
        """When the first remediation can begin: Kubernetes has noticed, and the check has been patient."""
        falls = (one.at for one in self.troubles if one.layer == "node" and one.whom in self.ill)
        return min(falls, default=0.0) + NOTICED_SECONDS + self.shape.patience_seconds

    def has(self, *names: str) -> bool:
        """Any of these troubles, by layer and what it is, or by the layer alone."""
        return any(one.name in names or one.layer in names for one in self.troubles)

    def has_for_ill(self, *names: str) -> bool:
        """The same, where it meets a node that is ill."""
        return any(one.name in names and one.whom in self.ill for one in self.troubles)


Need = Callable[[Drawn], bool]


def drawn(seed: int, series: str = USUAL) -> Drawn:
    shape, troubles = drawn_for(seed, series)
    return Drawn(shape=shape, troubles=troubles)


def any_day(_: Drawn) -> bool:
    return True


def acting(day: Drawn) -> bool:
    return day.acts


def switching(day: Drawn) -> bool:
    return day.switches


def two_ill(day: Drawn) -> bool:
    return day.acts and len(day.ill) > 1

"""What goes wrong, when and for how long: drawn from a seed before anything begins.

Three hands make trouble at once, each one thing after another: on the control plane, on the replicas and their lines,
and at the door of the API server. A seed says what they do and how long they wait; what comes of it, no seed can say.
"""

from random import Random

import msgspec


class Kind(msgspec.Struct, frozen=True):
    """`shortest` and `longest` are the seconds that it lasts."""

    name: str
    shortest: float = 0.0
    longest: float = 0.0
    weight: int = 1


class Trouble(msgspec.Struct, frozen=True):
    name: str
    after_seconds: float  # the end of the one before
    lasts_seconds: float

    def __str__(self) -> str:
        return f"{self.name} for {self.lasts_seconds:.1f} s" if self.lasts_seconds else self.name


CONTROL_PLANE = (
    Kind("the API server is killed", 0.0, 6.0, weight=2),
    Kind("the API server ends in order", 0.0, 4.0),
    Kind("the API server stands still", 0.5, 8.0, weight=2),
    Kind("etcd is killed", 0.0, 5.0, weight=2),
    Kind("etcd stands still", 0.5, 8.0, weight=2),
    Kind("etcd is restored", 0.5, 6.0, weight=3),  # so long after the backup was made
)
REPLICAS = (
    Kind("the leader is killed", weight=2),
    Kind("a replica is killed"),
    Kind("the leader stands still", 1.0, 8.0, weight=2),
    Kind("all lines are cut", weight=2),
    Kind("the leader's line is cut"),
    Kind("the leader's line is mute", 1.0, 8.0, weight=2),
    Kind("a replica's line is mute", 1.0, 8.0),
)
DOOR = (
    Kind("a webhook does not answer", 2.0, 8.0, weight=2),
    Kind("a webhook refuses", 2.0, 8.0),
    Kind("a webhook fails", 2.0, 6.0),
    Kind("the API server is narrow for us", 3.0, 10.0, weight=2),
    Kind("the API server is shut for us", 2.0, 6.0),
)
HANDS = {"control plane": (CONTROL_PLANE, 12.0), "replicas": (REPLICAS, 8.0), "door": (DOOR, 10.0)}
ALL = tuple(kind.name for kinds, _ in HANDS.values() for kind in kinds)


def draw(seed: int, seconds: float) -> dict[str, list[Trouble]]:
    """For each hand, as many as may fit into the time. What every hand can do comes once before anything comes twice."""
    return {hand: _drawn(Random(f"{seed} {hand}"), *how, seconds) for hand, how in HANDS.items()}


def _drawn(random: Random, kinds: tuple[Kind, ...], mean: float, seconds: float) -> list[Trouble]:
    found: list[Trouble] = []
    left = seconds
    waiting: list[Kind] = []
    while left > 0:
        if not waiting:
            waiting = [kind for kind in kinds for _ in range(kind.weight)] if found else list(kinds)
            random.shuffle(waiting)
        kind = waiting.pop()
        trouble = Trouble(kind.name, random.uniform(mean / 4, mean * 1.25), random.uniform(kind.shortest, kind.longest))
        found.append(trouble)
        left -= trouble.after_seconds + trouble.lasts_seconds
    return found

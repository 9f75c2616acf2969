"""What goes wrong on a simulated day: a schedule drawn from the seed. Data; troubles.py makes it happen.

Each trouble begins, lasts, and ends; when the day is over, nothing of it is left.
"""

from random import Random

import msgspec

from tests.simulation.shape import Shape

FIRST_SECONDS, LAST_SECONDS = 25.0, 190.0  # when troubles begin; before that, the cluster starts
LONGEST_SECONDS = 90.0
OVER_SECONDS = LAST_SECONDS + LONGEST_SECONDS
MOST = 8
LEADER = "leader"  # whichever replica it is when the trouble begins
LIARS = 0.2  # the share of days with a BMC that lies

ILLNESSES = ("hangs", "loses power", "is cut off", "is cut off from the API server", "flaps", "is slow")
ANSWERS = (
    "requests are lost",
    "answers are lost",
    "requests hang",
    "answers never come",
    "writes conflict",
    "the server fails",
    "too many requests",
    "answers are slow",
    "lists are stale",
)
STREAMS = (
    "watches expire",
    "watches are cut",
    "watches fall silent",
    "events come late",
    "events are reordered",
    "events come twice",
)
SERVERS = ("restarts", "is down", "forgets its history")
FATES = ("is cut off", "freezes", "freezes in a deed", "dies", "dies before a deed", "dies after a deed", "leaves")
# A BMC that begins to lie in the middle of a power cycle can be caught by nobody; one that always did must be.
LIES = ("says it is off", "says it is on")
FLAWS = ("hangs", "is out of reach", "fails", "talks nonsense", "has another password", "is slow", "ignores commands")
WISHES = ("cordons", "deletes the remediation", "pulls the brake", "takes the lock", "excludes", "deletes a pod")

LAYERS = (
    ("node", ILLNESSES),
    ("api", ANSWERS),
    ("stream", STREAMS),
    ("server", SERVERS),
    ("replica", FATES),
    ("bmc", FLAWS),
    ("person", WISHES),
)
WEIGHTS = (2, 3, 2, 1, 4, 3, 3)


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """`whom` it meets: a node, a replica's slot; `number` is what is counted or measured, where there is something."""

    layer: str
    what: str
    whom: str = ""
    at: float
    seconds: float
    number: float = 0.0

    @property
    def ends(self) -> float:
        return self.at + self.seconds

    @property
    def name(self) -> str:
        return f"{self.layer}: {self.what}"

    def __str__(self) -> str:
        return f"{self.at:.1f} s, for {self.seconds:.1f} s: {self.layer} {self.whom} {self.what} ({self.number:.1f})"


def draw_troubles(chance: Random, shape: Shape) -> tuple[Trouble, ...]:
    """At least one node is ill for long, and most of the rest meets those that are: else there is nothing to see."""
    drawn = [_serious(chance, name) for name in chance.sample(shape.node_names, chance.choice((1, 1, 1, 2, 3)))]
    ill = tuple(trouble.whom for trouble in drawn)
    for layer, whats in chance.choices(LAYERS, WEIGHTS, k=chance.randint(1, MOST)):
        drawn.append(_trouble(chance, layer, whats, _whom(chance, layer, shape, ill)))
    if shape.switches_power and chance.random() < LIARS:
        lie, liar = chance.choice(LIES), chance.choice(ill)
        drawn.append(Trouble(layer="bmc", what=lie, whom=liar, at=0.0, seconds=OVER_SECONDS))
    return tuple(sorted(drawn, key=lambda trouble: trouble.at))


def _serious(chance: Random, node: str) -> Trouble:
    at = chance.uniform(FIRST_SECONDS, FIRST_SECONDS + 20.0)
    seconds = chance.uniform(60.0, OVER_SECONDS - at)
    what = chance.choice(ILLNESSES[:4])
    return Trouble(layer="node", what=what, whom=node, at=round(at, 1), seconds=round(seconds, 1))


def _trouble(chance: Random, layer: str, whats: tuple[str, ...], whom: str) -> Trouble:
    at = chance.uniform(FIRST_SECONDS, LAST_SECONDS)
    seconds = chance.choice((5.0, 20.0, 60.0, LONGEST_SECONDS)) * chance.uniform(0.5, 1.0)
    number = chance.uniform(0.0, 10.0)
    return Trouble(
        layer=layer,
        what=chance.choice(whats),
        whom=whom,
        at=round(at, 1),
        seconds=round(seconds, 1),
        number=round(number, 1),
    )


def _whom(chance: Random, layer: str, shape: Shape, ill: tuple[str, ...]) -> str:
    if layer in ("api", "stream", "replica"):
        return LEADER if chance.random() < 0.6 else f"r{chance.randrange(shape.replicas)}"  # where most is under way
    if layer in ("bmc", "person"):
        return chance.choice(ill) if chance.random() < 0.8 else chance.choice(shape.node_names)  # mostly those
    return chance.choice(shape.node_names) if layer == "node" else ""

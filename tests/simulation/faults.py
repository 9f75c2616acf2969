"""What goes wrong on a simulated day: a schedule drawn from the seed. Data; troubles.py makes it happen.

Each trouble begins, lasts, and ends; when the day is over, nothing of it is left.
"""

from random import Random

import msgspec

from tests.simulation.shape import Shape, Size

LEADER = "leader"  # whichever replica it is when the trouble begins
LIARS = 0.2  # the share of days with a BMC that lies
IN_COMMON = 0.06  # the share of days on which most nodes fall ill at once: a switch, a zone, a bad image
LONG_ILL = (60.0, 75.0)  # so many seconds, from and to

ILLNESSES = (
    "hangs",
    "loses power",
    "is cut off",
    "is cut off from the API server",
    "flaps",
    "is slow",
    "loses its disks",
    "says it is not ready",
    "reports a broken disk",
)
SERIOUS = ILLNESSES[:4]
ANSWERS = (
    "requests are lost",
    "answers are lost",
    "requests hang",
    "answers never come",
    "writes conflict",
    "the server fails",
    "too many requests",
    "answers are slow",
    "writes are slow",
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
FATES = (
    "is cut off",
    "freezes",
    "freezes in a deed",
    "dies",
    "dies before a deed",
    "dies after a deed",
    "leaves",
    "reaches no BMC",
)
# A BMC that begins to say off in the middle of a power cycle can be caught by nobody; one that always did must be.
# One that begins to say on, whatever is so, proves nothing: that is a flaw like any other.
LIES = ("says it is off", "says it is on")
FLAWS = (
    "hangs",
    "is out of reach",
    "fails",
    "talks nonsense",
    "has another password",
    "is slow",
    "ignores commands",
    "begins to say it is on",
)
WISHES = ("cordons", "deletes the remediation", "pulls the brake", "takes the lock", "excludes", "deletes a pod")
EDITS = (
    "strips finalizers",
    "wipes the incident",
    "deletes the incident",
    "changes the check",
    "pauses the check",
    "observes for a while",
    "removes taints",
    "uncordons",
    "deletes the node",
    "confirms that it is off",
    "switches it off and says so",
    "drains",
    "deletes the template",
)
FIGHTS = (
    "removes taints again and again",
    "puts its own taint back",
    "cordons again and again",
    "annotates and labels",
    "puts finalizers on everything",
    "scales the web",
    "renews the lock",
)
# What shows nothing if it is over soon, on the shortest day too: so many seconds, from and to.
LASTING: dict[str, tuple[float, float]] = {
    "person: pulls the brake": (30.0, 60.0),
    "person: pauses the check": (30.0, 60.0),
    "replica: freezes": (10.0, 40.0),
    "replica: freezes in a deed": (10.0, 40.0),
}
BYSTANDERS = ("kubelet", "node-lifecycle", "storage")  # who talk to the API server, too

LAYERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("node", ILLNESSES),
    ("api", ANSWERS),
    ("stream", STREAMS),
    ("server", SERVERS),
    ("replica", FATES),
    ("bmc", FLAWS),
    ("person", WISHES),
)
WEIGHTS = (2, 3, 2, 1, 4, 3, 3)
RARER: tuple[tuple[str, tuple[str, ...]], ...] = (("person", EDITS), ("stranger", FIGHTS), ("bystander", ANSWERS))
RARER_WEIGHTS = (5, 4, 1)


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """When troubles begin, in seconds of the day, and how long they last. Before the first, the cluster starts.

    Somebody falls ill in the beginning, so that most of the others come while something is being done about it.
    """

    first: float
    falls: float  # within so many seconds after that
    last: float
    longest: float
    most: int  # besides whoever is ill in any case
    rare: tuple[int, ...]  # and so many of those that are rarer, one of these
    least_serious: float  # so long somebody is ill in any case: Kubernetes needs its time to notice

    @property
    def over(self) -> float:
        return self.last + self.longest


SPANS = {
    Size.SMALL: Span(first=6.0, falls=6.0, last=44.0, longest=10.0, most=2, rare=(0, 0, 1), least_serious=34.0),
    Size.MIDDLE: Span(first=8.0, falls=10.0, last=46.0, longest=16.0, most=3, rare=(0, 1, 1, 2), least_serious=36.0),
    Size.GUARDED: Span(first=8.0, falls=8.0, last=110.0, longest=0.0, most=3, rare=(), least_serious=60.0),
    Size.LARGE: Span(first=25.0, falls=20.0, last=170.0, longest=90.0, most=8, rare=(0, 1, 1, 2), least_serious=60.0),
}


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
    span = SPANS[shape.size]
    drawn = [_serious(chance, name, span) for name in chance.sample(shape.node_names, chance.choice((1, 1, 1, 2, 3)))]
    ill = tuple(trouble.whom for trouble in drawn)
    for layer, whats in chance.choices(LAYERS, WEIGHTS, k=chance.randint(1, span.most)):
        drawn.append(_trouble(chance, layer, whats, _whom(chance, layer, shape, ill), span))
    if chance.random() < IN_COMMON:
        drawn += _in_common(chance, shape, span)
    if shape.switches_power and chance.random() < LIARS:
        lie, liar = chance.choice(LIES), chance.choice(ill)
        drawn.append(Trouble(layer="bmc", what=lie, whom=liar, at=0.0, seconds=span.over))
    for layer, whats in chance.choices(RARER, RARER_WEIGHTS, k=chance.choice(span.rare)):
        drawn.append(_trouble(chance, layer, whats, _whom(chance, layer, shape, ill), span))
    if shape.asks:
        drawn += _answers(chance, ill, span)
    return tuple(sorted(drawn, key=lambda trouble: trouble.at))


def _serious(chance: Random, node: str, span: Span) -> Trouble:
    at = chance.uniform(span.first, span.first + span.falls)
    seconds = chance.uniform(min(span.least_serious, span.over - at), span.over - at)
    what = chance.choice(SERIOUS)
    return Trouble(layer="node", what=what, whom=node, at=round(at, 1), seconds=round(seconds, 1))


def _in_common(chance: Random, shape: Shape, span: Span) -> list[Trouble]:
    most = chance.sample(shape.node_names, chance.randint(shape.nodes // 2 + 1, shape.nodes))
    what, at = chance.choice(SERIOUS), chance.uniform(span.first, span.first + 10.0)
    seconds = chance.uniform(*LONG_ILL)
    return [Trouble(layer="node", what=what, whom=node, at=round(at, 1), seconds=round(seconds, 1)) for node in most]


def _answers(chance: Random, ill: tuple[str, ...], span: Span) -> list[Trouble]:
    """Of a person who is asked: yes, no, first the one and then the other; or nothing, when they have forgotten."""
    whats = chance.choice((("approves",), ("approves",), ("rejects",), ("rejects", "approves"), ()))
    return [_trouble(chance, "person", (what,), node, span) for node in ill for what in whats]


def _trouble(chance: Random, layer: str, whats: tuple[str, ...], whom: str, span: Span) -> Trouble:
    at, what = chance.uniform(span.first, span.last), chance.choice(whats)
    seconds = min(chance.choice((5.0, 20.0, 60.0, 90.0)), span.longest) * chance.uniform(0.5, 1.0)
    if (lasting := LASTING.get(f"{layer}: {what}")) is not None:
        seconds = max(seconds, chance.uniform(*lasting))
    number = chance.uniform(0.0, 10.0)
    return Trouble(
        layer=layer,
        what=what,
        whom=whom,
        at=round(at, 1),
        seconds=round(seconds, 1),
        number=round(number, 1),
    )


def _whom(chance: Random, layer: str, shape: Shape, ill: tuple[str, ...]) -> str:
    if layer in ("api", "stream", "replica"):
        return LEADER if chance.random() < 0.6 else f"r{chance.randrange(shape.replicas)}"  # where most is under way
    if layer == "bystander":
        return chance.choice(BYSTANDERS)
    if layer in ("bmc", "person", "stranger"):
        return chance.choice(ill) if chance.random() < 0.8 else chance.choice(shape.node_names)  # mostly those
    return chance.choice(shape.node_names) if layer == "node" else ""

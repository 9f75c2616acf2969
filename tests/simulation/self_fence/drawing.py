"""A day with agents as a seed draws it: its cluster, and stories of a node that dies, or should not. Data.

What is drawn for other days is another chance: nothing of it changes here.
"""

from collections import Counter
from collections.abc import Callable
from random import Random

from defib.model.health_check import Mode
from tests.simulation.clocks import Gait
from tests.simulation.faults import SPANS, Trouble
from tests.simulation.self_fence.guarding import FASTEST, QUICK, SLOW, SLOWEST, USUAL, Guarding
from tests.simulation.self_fence.network import AGENT
from tests.simulation.shape import PODS, SELF, Object, Shape, Size

SPLITS = ("abc", "aabb", "abcc", "aaab", "aabbc", "abccc", "abcde", "abbbbc", "abcccc", "aaa")
BROKEN_SHARE = 0.2  # of days with a watchdog that never fires
NOTICED = (24.0, 48.0)  # after a kubelet has fallen silent an order is written, between so many seconds

PACES = (
    *((QUICK,),) * 6,
    *((USUAL,),) * 2,
    *((QUICK, USUAL), (USUAL, QUICK), (QUICK, QUICK, SLOW), (SLOW, QUICK), (USUAL, USUAL, SLOW, QUICK)),
)

SPAN = SPANS[Size.GUARDED]
LONGEST_DAY_SECONDS = 200.0  # when the last trouble is over


def draw_day(seed: int) -> tuple[Shape, tuple[Trouble, ...]]:
    shape = _draw_shape(Random(f"self-fence shape {seed}"))
    return shape, _draw_troubles(Random(f"self-fence troubles {seed}"), shape)


def _draw_shape(chance: Random) -> Shape:
    split = chance.choice(SPLITS)
    nodes, replicas = len(split), chance.choice((1, 1, 1, 2, 3))
    return Shape(
        size=Size.GUARDED,
        nodes=nodes,
        zones=len(set(split)),
        split=split,
        control_plane=0,
        databases=chance.randint(1, 2),
        web_pods=1,
        ladder=chance.choice(((SELF,), (SELF,), (SELF,), (PODS, SELF))),
        limit=chance.choice(({}, {"minHealthy": 1}, {"maxUnhealthy": 2}, {"minHealthy": "51%"})),
        max_in_flight=chance.choice((None, 1, 2)),
        per_zone=None,
        patience_seconds=1,
        healthy_delay_seconds=0,
        mode=Mode.AUTOMATIC,
        workloads=chance.choice(("Auto", "OutOfServiceTaint", "DeleteNode")),
        attempts=chance.randint(1, 3),
        times=chance.choice(({}, {"timeouts": {"order": "20s", "free": "20s", "nodeReady": "60s"}, "backoff": "3s"})),
        replicas=replicas,
        lease_seconds=15.0,
        resync_seconds=chance.choice((30.0, 300.0)),
        gaits=_draw_gaits(chance, replicas),
        guarding=(guarding := _draw_guarding(chance, nodes)),
        self_fence=_draw_wish(chance, guarding),
    )


def _draw_guarding(chance: Random, nodes: int) -> Guarding:
    names = [f"n{number + 1}" for number in range(nodes)]
    return Guarding(
        paces=chance.choice(PACES),
        watchdog=chance.choice(("device", "device", "device", "software")),
        watchdog_seconds=chance.choice((6.0, 15.0, 40.0)),
        broken=tuple(chance.sample(names, 1)) if chance.random() < BROKEN_SHARE else (),
        rates=tuple(_draw_rate(chance) for _ in names) if chance.random() < 0.6 else (),
        long_known=chance.random() < 0.9,
    )


def _draw_rate(chance: Random) -> float:
    return round(chance.uniform(SLOWEST, FASTEST), 3)


def _draw_gaits(chance: Random, replicas: int) -> tuple[Gait, ...]:
    """Of replicas. The time that they show hardly differs: how old a Lease is, they say by that."""
    if chance.random() < 0.6:
        return ()
    return tuple(Gait(_draw_rate(chance), round(chance.uniform(-2.0, 2.0), 1)) for _ in range(replicas))


def _draw_wish(chance: Random, guarding: Guarding) -> Object:
    proofs = chance.choice((["C", "D"], ["A", "C", "D"], ["C"]))
    allows = guarding.watchdog == "software" and chance.random() < 0.9
    return {"acceptedProofs": proofs, "allowSoftwareWatchdog": allows}


# Stories of one node. Each begins when it falls ill.


class _Teller:
    """Draws the troubles of a story one after the other."""

    def __init__(self, chance: Random, shape: Shape) -> None:
        self.chance = chance
        self.shape = shape
        self.told: list[Trouble] = []

    def tell(self, name: str, whom: str, at: float, seconds: float) -> None:
        layer, _, what = name.partition(": ")
        last = LONGEST_DAY_SECONDS - at
        self.told.append(
            Trouble(
                layer=layer,
                what=what,
                whom=whom,
                at=round(at, 1),
                seconds=round(min(seconds, last), 1),
                number=round(self.chance.uniform(0.0, 10.0), 1),
            )
        )

    def long(self) -> float:
        return self.chance.uniform(60.0, 190.0)

    def noticed(self, at: float) -> float:
        return at + self.chance.uniform(*NOTICED)


Story = Callable[[_Teller, str, float], None]


def _falls_ill(teller: _Teller, node: str, at: float) -> None:
    what = teller.chance.choice(("node: hangs", "machine: hangs on", "node: says it is not ready"))
    teller.tell(what, node, at, teller.long())


def _is_isolated(teller: _Teller, node: str, at: float) -> None:
    teller.tell("network: is isolated", node, at, teller.long())


def _is_cut_off(teller: _Teller, node: str, at: float) -> None:
    teller.tell("network: is cut off from the API server", node, at, teller.long())


def _loses_power(teller: _Teller, node: str, at: float) -> None:
    teller.tell("machine: loses power", node, at, teller.long())


def _is_isolated_when_noticed(teller: _Teller, node: str, at: float) -> None:
    """So that its agent has a fresh word when the order is written, and never reads it."""
    teller.tell("machine: hangs on", node, at, teller.long())
    teller.tell("network: is isolated", node, teller.noticed(at), teller.long())


def _others_are_cut_off_when_noticed(teller: _Teller, node: str, at: float) -> None:
    """Then nobody tells it of its order, and most domains may say that they are cut off themselves."""
    teller.tell("network: is cut off from the API server", node, at, teller.long())
    zones = sorted({teller.shape.zone_of(name) for name in teller.shape.node_names} - {teller.shape.zone_of(node)})
    fewest = sorted(zones, key=lambda zone: sum(teller.shape.zone_of(name) == zone for name in teller.shape.node_names))
    then, seconds = teller.noticed(at), teller.chance.uniform(20.0, 120.0)
    for zone in fewest[: max(1, (len(zones) + 1) // 2)]:
        first = next(name for name in teller.shape.node_names if teller.shape.zone_of(name) == zone)
        teller.tell("network: is cut off with its zone", first, then, seconds)


def most_zones_with(node: str, shape: Shape) -> list[str]:
    """All nodes of more than half of the zones, and as few as can be: its own zone, and the smallest."""
    sizes, own = Counter(map(shape.zone_of, shape.node_names)), shape.zone_of(node)
    others = sorted((zone for zone in sizes if zone != own), key=lambda zone: (sizes[zone], zone))
    zones = {own, *others[: len(sizes) // 2]}
    return [name for name in shape.node_names if shape.zone_of(name) in zones]


def _is_split_off(teller: _Teller, node: str, at: float) -> None:
    """Most domains are with it and few nodes: it lives by their word, and nobody may count it as dead."""
    whom = _of_few(teller, node)
    teller.tell("network: is split off with most zones", whom, at, teller.long())
    if teller.chance.random() < 0.5:  # then nothing is heard of its kubelet when the network is whole again
        teller.tell("machine: hangs on", whom, at, teller.long())


def _of_few(teller: _Teller, node: str) -> str:
    sizes = Counter(map(teller.shape.zone_of, teller.shape.node_names))
    of_few = min(teller.shape.node_names, key=lambda name: sizes[teller.shape.zone_of(name)])
    return node if teller.shape.unguarded else of_few


def _who_is_with_it_is_forgotten(teller: _Teller, node: str, at: float) -> None:
    """That, and somebody deletes the Leases of those by whose word it lives: of what is left, most would be heard."""
    _is_split_off(teller, node, at)
    whom, then = _of_few(teller, node), teller.noticed(at)
    for peer in most_zones_with(whom, teller.shape):
        if peer != whom:
            teller.tell("lease: is deleted", peer, then, 1.0)


def _order_is_lost(teller: _Teller, node: str, at: float) -> None:
    """Somebody takes it out again, or the whole Lease, while the node cannot read it."""
    teller.tell("network: is cut off from the API server", node, at, teller.long())
    what = teller.chance.choice(("lease: loses its order", "lease: is deleted"))
    then = teller.noticed(at)
    for _ in range(teller.chance.randint(1, 4)):
        teller.tell(what, node, then, 1.0)
        then += teller.chance.uniform(1.0, 20.0)


def _agent_falls_ill(teller: _Teller, node: str, at: float) -> None:
    teller.tell("machine: hangs on", node, at, teller.long())
    fate = teller.chance.choice(("agent: freezes", "agent: is killed", "agent: is stopped"))
    teller.tell(fate, node, at + teller.chance.uniform(0.0, 60.0), teller.chance.uniform(5.0, 90.0))


def _zone_is_lost(teller: _Teller, node: str, at: float) -> None:
    what = teller.chance.choice(("is isolated with its zone", "is cut off with its zone"))
    teller.tell(f"network: {what}", node, at, teller.long())


def _server_is_down(teller: _Teller, _: str, at: float) -> None:
    teller.tell("server: is down", "", at + teller.chance.uniform(0.0, 50.0), teller.chance.uniform(20.0, 110.0))


STORIES: tuple[Story, ...] = (
    _falls_ill,
    _is_isolated,
    _is_cut_off,
    _loses_power,
    _is_isolated_when_noticed,
    _others_are_cut_off_when_noticed,
    _is_split_off,
    _who_is_with_it_is_forgotten,
    _order_is_lost,
    _agent_falls_ill,
    _zone_is_lost,
    _server_is_down,
)
# What else may go wrong, each now and then, for a while.
BESIDES = (
    "replica: dies",
    "replica: dies before a deed",
    "replica: dies after a deed",
    "replica: freezes",
    "replica: is cut off",
    "api: requests are lost",
    "api: answers are lost",
    "api: answers are slow",
    "stream: watches are cut",
    "server: restarts",
    "server: is down",
    "agent: freezes",
    "agent: is killed",
    "agent: is stopped",
    "network: gets no answers",
    "network: does not hear a peer",
    "network: is isolated",
    "bystander: answers are lost",
    "bystander: requests hang",
    "bystander: answers are slow",
    "lease: is deleted",
)


def _draw_troubles(chance: Random, shape: Shape) -> tuple[Trouble, ...]:
    teller, broken = _Teller(chance, shape), list(shape.unguarded)
    ill = broken or chance.sample(shape.node_names, chance.choice((1, 1, 1, 2)))
    for node in ill:
        chance.choice(STORIES)(teller, node, chance.uniform(SPAN.first, SPAN.first + SPAN.falls))
    for name in chance.choices(BESIDES, k=chance.choice((0, 0, 1, 1, 2, 3))):
        whom = _whom(chance, name.partition(":")[0], shape)
        teller.tell(name, whom, chance.uniform(SPAN.first, SPAN.last), chance.choice((5.0, 20.0, 60.0, 90.0)))
    return tuple(sorted(teller.told, key=lambda trouble: trouble.at))


def _whom(chance: Random, layer: str, shape: Shape) -> str:
    if layer in ("api", "stream", "replica"):
        return chance.choice(("leader", f"r{chance.randrange(shape.replicas)}"))
    if layer == "server":
        return ""
    node = chance.choice(shape.node_names)
    return f"{AGENT}{node}" if layer == "bystander" else node

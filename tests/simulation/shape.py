"""A small cluster as a seed draws it: nodes in zones, workloads, checks within their legal range, replicas of Defib. Data.

What most clusters have is drawn for every day; what few have (EXTRAS) comes now and then, so that a day stays short.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from random import Random
from typing import Any

import msgspec

from defib.hollow.site import Blueprint
from defib.model.health_check import Mode
from tests.simulation.clocks import Gait, draw_gaits
from tests.simulation.self_fence.guarding import Guarding

HOME, SHOP = "defib-system", "shop"
DRIVER = "hollow"
CHECK, SECOND_CHECK = "all", "others"
POWER, PODS, SELF = "PowerCycleRemediation", "PodFailoverRemediation", "SelfFenceRemediation"
ZONE_LABEL, CONTROL_PLANE, POOL = "topology.kubernetes.io/zone", "control-plane", "pool"
POOLS = ("first", "second")
LADDERS = ((POWER,), (POWER,), (PODS,), (PODS, POWER))
STEP_SECONDS = 300  # of a ladder, before the next one
BROKEN = "DiskBroken"  # a condition that only some checks care for
WAIVED = "scratch"  # of whose pods a policy may say that they may run twice

SHORT_TIMES = {  # of a power cycle, by which one can fail, and be tried again, within a short day
    "timeouts": {"powerOff": "4s", "free": "15s", "powerOn": "6s", "nodeReady": "45s"},
    "backoff": "3s",
}


class Size(StrEnum):
    """Of a day and its cluster. Most mistakes show on a small one; the larger ones are for what takes more."""

    SMALL = "small"
    MIDDLE = "middle"
    LARGE = "large"
    GUARDED = "guarded"  # with agents: long enough for a node to be counted as dead


SHARES = {Size.SMALL: 60, Size.MIDDLE: 33, Size.LARGE: 7}  # of a hundred days
NODES = {Size.SMALL: (3, 3, 3, 3, 4), Size.MIDDLE: (3, 3, 3, 4, 4, 5), Size.LARGE: (3, 4, 5, 6, 7, 8, 9)}
REPLICAS = {Size.SMALL: (1, 1, 1, 1, 2), Size.MIDDLE: (1, 1, 1, 2, 2, 3), Size.LARGE: (1, 2, 3)}
MOST_DATABASES = {Size.SMALL: 1, Size.MIDDLE: 2, Size.LARGE: 3}
MOST_WEB_PODS = {Size.SMALL: 1, Size.MIDDLE: 2, Size.LARGE: 4}
PATIENCE = {Size.SMALL: (1, 1, 5), Size.MIDDLE: (1, 1, 10), Size.LARGE: (1, 10, 60)}

Object = dict[str, Any]
Changes = dict[str, Any]


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """`ladder`: by which kinds of remediation the check goes, one after the other."""

    nodes: int
    zones: int
    control_plane: int
    databases: int
    web_pods: int
    ladder: tuple[str, ...]
    limit: Object
    max_in_flight: int | None
    per_zone: int | None
    patience_seconds: int
    healthy_delay_seconds: int
    mode: str
    workloads: str
    attempts: int
    replicas: int
    lease_seconds: float
    resync_seconds: float
    extras: tuple[str, ...] = ()
    checks: int = 1  # with two, each selects a pool of its own
    guards: Object = {}  # of checks, beyond those above
    demands: Object = {}  # of checks, beside everything else in their spec
    apps: tuple[str, ...] = ()  # workloads besides web and db
    policies: tuple[str, ...] = ()  # of teams
    failover: Object = {}  # what a PodFailoverRemediation says
    settings: Object = {}  # of the operator
    gaits: tuple[Gait, ...] = ()  # of the replicas' clocks; none: all are right
    watches_drains: bool = False
    lives_on_nodes: bool = False
    size: Size = Size.LARGE
    times: Object = {}  # of power cycles, other than the usual ones
    by_hand: bool = False  # nobody but a person can switch the machines
    guarding: Guarding | None = None  # how nodes take themselves down, where they do
    self_fence: Object = {}  # what a SelfFenceRemediation says, beside what is the same for a power cycle
    split: str = ""  # the zone of each node by its letter, where they are not dealt out

    def blueprints(self) -> list[Blueprint]:
        return [self._blueprint(number) for number in range(self.nodes)]

    def _blueprint(self, number: int) -> Blueprint:
        return Blueprint(
            name=f"n{number + 1}",
            zone=self.zone_of(f"n{number + 1}"),
            address=f"10.0.0.{number + 1}",
            roles=(CONTROL_PLANE,) if number < self.control_plane else (),
            labels={POOL: POOLS[number % self.checks]},
        )

    def zone_of(self, node: str) -> str:
        number = int(node.removeprefix("n")) - 1
        return f"zone-{self.split[number] if self.split else 'abc'[number % self.zones]}"

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(f"n{number + 1}" for number in range(self.nodes))

    @property
    def check_names(self) -> tuple[str, ...]:
        return (CHECK, SECOND_CHECK)[: self.checks]

    @property
    def observes(self) -> bool:
        return self.mode == Mode.OBSERVE

    @property
    def asks(self) -> bool:
        return self.mode == Mode.APPROVE

    @property
    def is_shared(self) -> bool:
        """All replicas act, each for its share."""
        return self.settings.get("election") == "shards"

    @property
    def switches_power(self) -> bool:
        return POWER in self.ladder and not self.observes and not self.by_hand

    @property
    def unguarded(self) -> tuple[str, ...]:
        """Nodes with a watchdog that never fires: of these nothing is promised but that it is noticed."""
        return self.guarding.broken if self.guarding is not None else ()

    def gait_of(self, slot: str) -> Gait:
        return self.gaits[int(slot.removeprefix("r"))] if self.gaits else Gait()

    def home_of(self, slot: str) -> str:
        """The node that a replica runs on: the last ones, since the first may be of the control plane."""
        return self.node_names[-1 - int(slot.removeprefix("r"))] if self.lives_on_nodes else ""


def draw_shape(chance: Random) -> Shape:
    (size,) = chance.choices(tuple(SHARES), tuple(SHARES.values()))
    nodes = chance.choice(NODES[size])
    usual = Shape(
        size=size,
        nodes=nodes,
        zones=chance.randint(1, 3),
        control_plane=chance.choice((0, 0, 1, 3)) if nodes > 3 else 0,
        databases=chance.randint(1, MOST_DATABASES[size]),
        web_pods=chance.randint(1, MOST_WEB_PODS[size]),
        ladder=chance.choice(LADDERS),
        limit=_draw_limit(chance, nodes),
        max_in_flight=chance.choice((None, 1, 2)),
        per_zone=chance.choice((None, None, 1)),
        patience_seconds=chance.choice(PATIENCE[size]),
        healthy_delay_seconds=chance.choice((0, 0, 20)),
        mode=chance.choice((Mode.AUTOMATIC,) * 9 + (Mode.OBSERVE,)),
        workloads=chance.choice(("Auto", "OutOfServiceTaint", "DeleteNode")),
        attempts=chance.randint(1, 3),
        times=chance.choice((SHORT_TIMES, {})) if size is not Size.LARGE else {},
        replicas=chance.choice(REPLICAS[size]),
        lease_seconds=chance.choice((15.0, 15.0, 30.0)),
        resync_seconds=chance.choice((30.0, 300.0)),
    )
    names = chance.choices(tuple(EXTRAS), _weights(), k=chance.choice((0, 0, 1, 1, 1, 2, 3)))
    return with_extras(chance, usual, dict.fromkeys(names))


def _weights() -> tuple[int, ...]:
    return tuple(1 if name in COSTLY else 3 for name in EXTRAS)


def with_extras(chance: Random, shape: Shape, names: Iterable[str]) -> Shape:
    for name in names:
        changes = EXTRAS[name](chance, shape)
        if changes:  # not every cluster can have everything
            shape = msgspec.structs.replace(shape, **changes, extras=(*shape.extras, name))
    return shape


def _draw_limit(chance: Random, nodes: int) -> Object:
    return chance.choice(
        (
            {},
            {"minHealthy": "51%"},
            {"minHealthy": chance.randint(1, nodes - 1)},
            {"maxUnhealthy": chance.randint(1, nodes - 1)},
            {"maxUnhealthy": "40%"},
        )
    )


# What few clusters have


def _asks(_: Random, shape: Shape) -> Changes:
    return {} if shape.observes else {"mode": Mode.APPROVE}


def _two_checks(_: Random, __: Shape) -> Changes:
    return {"checks": 2}


def _share_in_flight(chance: Random, shape: Shape) -> Changes:
    share = chance.choice(("1%", "34%", "50%"))
    return {"max_in_flight": None, "guards": shape.guards | {"maxInFlight": share}}


def _rate(chance: Random, shape: Shape) -> Changes:
    rate = {"remediations": chance.randint(1, 2), "per": chance.choice(("60s", "10m"))}
    return {"guards": shape.guards | {"rateLimit": rate}}


def _damping(chance: Random, shape: Shape) -> Changes:
    damping = {"remediations": chance.randint(1, 2), "within": "10m"}
    return {"guards": shape.guards | {"flapDamping": damping}}


def _always_one(_: Random, shape: Shape) -> Changes:
    return {"limit": {"minHealthy": "100%"}, "guards": shape.guards | {"alwaysAllowOne": True}}


def _storm(chance: Random, shape: Shape) -> Changes:
    return {"demands": shape.demands | {"stormCooldownDuration": chance.choice(("10s", "120s"))}}


def _conditions(chance: Random, shape: Shape) -> Changes:
    """A check that goes by what a problem detector says, and one that cares for the kubelet's own No alone."""
    broken = {"type": BROKEN, "status": "True", "duration": f"{shape.patience_seconds}s"}
    ready = [
        {"type": "Ready", "status": status, "duration": f"{shape.patience_seconds}s"}
        for status in chance.choice((("Unknown", "False"), ("False",)))
    ]
    return {"demands": shape.demands | {"unhealthyConditions": [*ready, broken]}}


def _teams(chance: Random, shape: Shape) -> Changes:
    """The waiver is for pods without a disk: with one, two of them could write to it, and nothing is promised."""
    names = tuple(sorted(chance.sample(("at-once", "gently", "after-a-while", "proof-d", "waived"), 2)))
    apps = (*shape.apps, WAIVED) if "waived" in names and WAIVED not in shape.apps else shape.apps
    most = {"failover_max_unhealthy": chance.choice(("1", "49%"))}
    return {"policies": names, "apps": apps, "settings": shape.settings | most}


def _failover(chance: Random, shape: Shape) -> Changes:
    if PODS not in shape.ladder:
        return {}
    deletion = chance.choice(({"mode": "Force"}, {"mode": "Graceful", "gracePeriodSeconds": 5}))
    return {"failover": {"deletion": deletion, "acceptedProofs": chance.choice((["A"], ["A", "B", "D"]))}}


def _more_apps(chance: Random, shape: Shape) -> Changes:
    return {"apps": tuple(dict.fromkeys((*shape.apps, *chance.sample(("files", "log", "budget"), 2))))}


def _shared(_: Random, shape: Shape) -> Changes:
    """Each bucket has a Lease: with shorter ones, most of the day's work would be to renew them."""
    return {"settings": shape.settings | {"election": "shards"}, "lease_seconds": 30.0}


def _clocks(chance: Random, shape: Shape) -> Changes:
    return {"gaits": draw_gaits(chance, shape.replicas)}


def _drains(_: Random, shape: Shape) -> Changes:
    return {} if shape.observes else {"watches_drains": True}


def _on_nodes(_: Random, shape: Shape) -> Changes:
    """One replica alone would have nobody to hand its own node to."""
    return {"replicas": 3, "lives_on_nodes": True, "gaits": ()} if shape.nodes > 4 else {}


def _by_hand(_: Random, shape: Shape) -> Changes:
    return {"by_hand": True} if POWER in shape.ladder else {}


def _leftovers(_: Random, shape: Shape) -> Changes:
    return {"settings": shape.settings | {"leftover_age_seconds": 60.0, "fence_check_seconds": 30.0}}


def _fast_path(chance: Random, shape: Shape) -> Changes:
    wish = chance.choice(({}, {"evidence": ["Power"]}, {"missedHeartbeats": 3}))
    return {"demands": shape.demands | {"fastPath": wish}} if shape.ladder[0] == POWER else {}


EXTRAS: dict[str, Callable[[Random, Shape], Changes]] = {
    "a person has to approve": _asks,
    "two checks": _two_checks,
    "a share may be in flight": _share_in_flight,
    "a rate limit": _rate,
    "flap damping": _damping,
    "one is always allowed": _always_one,
    "storms cool down": _storm,
    "conditions of other kinds": _conditions,
    "policies of teams": _teams,
    "pods move in another way": _failover,
    "more workloads": _more_apps,
    "replicas share the work": _shared,
    "clocks differ": _clocks,
    "drains are watched": _drains,
    "replicas live on the nodes": _on_nodes,
    "leftovers are collected soon": _leftovers,
    "machines are switched by hand": _by_hand,
    "a fast path": _fast_path,
}
COSTLY = ("replicas share the work",)  # it writes many Leases all day long

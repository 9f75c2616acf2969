"""Worlds by chance: nodes, checks, and what happens to them, pass by pass. All times are whole seconds."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from hypothesis import strategies as st

from defib.decide.plan import Plan
from defib.decide.rules import Rules
from defib.model import medik8s
from defib.model.action import Action, StartRemediation, WriteStatus
from defib.model.cluster import Blindness, Cluster
from defib.model.health_check import NodeHealthCheck
from defib.model.node import Node
from tests.builders import MINUTE, SECOND, T0, a_node
from tests.unit.decide.checks import (
    BAR_TEMPLATE,
    a_check,
    a_ladder,
    a_lock,
    a_template,
    template_ref,
)
from tests.unit.decide.world import World

ZONE = "topology.kubernetes.io/zone"
ROLE = "node-role.kubernetes.io/control-plane"
NAMES = tuple(f"n{place}" for place in range(7))
TEMPLATES = [a_template("foo", many=True), a_template("bar"), a_template("second", many=True)]
LADDER = a_ladder(("foo", "60s"), ("bar", "2m", BAR_TEMPLATE), ("second", "3m"))

Spec = dict[str, Any]

# The first of each is the simplest. Most worlds must let something begin, or nothing could go wrong in them.
AMOUNTS = st.sampled_from([2, 1, 0, "1", "50%", "34%", "1%", "100%"])
LIMITS: st.SearchStrategy[Spec] = st.sampled_from(
    [
        {"maxUnhealthy": "100%"},
        {"minHealthy": 1},
        {"minHealthy": 0},
        {"maxUnhealthy": "3"},
        {"minHealthy": "51%"},
        {},
    ]
)
GUARDS = st.fixed_dictionaries(
    {},
    optional={
        "maxInFlight": AMOUNTS,
        "failureDomains": st.builds(lambda amount: [{"label": ZONE, "maxInFlight": amount}], AMOUNTS),
        "alwaysAllowOne": st.booleans(),
        "rateLimit": st.sampled_from([{"remediations": 3, "per": "1h"}, {"remediations": 1, "per": "5m"}]),
        "flapDamping": st.sampled_from([{"remediations": 2, "within": "1h"}, {"remediations": 1, "within": "10m"}]),
    },
)
POOLS: st.SearchStrategy[Spec] = st.sampled_from([{}, {"selector": {}}, {"selector": {"matchLabels": {"pool": "a"}}}])
EXTRAS = st.fixed_dictionaries(
    {},
    optional={
        "healthyDelay": st.sampled_from(["0s", "30s", "5m", "-1s"]),
        "stormCooldownDuration": st.sampled_from(["90s", "10m"]),
        "mode": st.sampled_from(["Automatic", "Automatic", "Automatic", "Approve", "Observe"]),
        "pauseRequests": st.sampled_from([[], [], [], [], ["stop"]]),
    },
)
PLAIN = st.sampled_from(
    [{"remediationTemplate": template_ref("foo")}, {"remediationTemplate": template_ref("bar", BAR_TEMPLATE)}]
)
LADDERS = st.sampled_from([{"escalatingRemediations": LADDER[:count]} for count in (3, 2, 1)])
TROUBLES = [("True", 0), ("Unknown", 5000), ("True", 1), ("False", 301), ("Unknown", 299)]


def some_nodes(roles: tuple[bool, ...] = (False, False, False, True), least: int = 4) -> st.SearchStrategy[list[Node]]:
    """`roles` is how often a node belongs to the control plane."""
    one = st.builds(
        lambda name, trouble, zone, role, pool: a_node(
            name,
            ready=trouble[0],
            since=T0 - trouble[1] * SECOND,
            labels={"pool": pool} | ({ZONE: zone} if zone else {}) | ({ROLE: ""} if role else {}),
        ),
        name=st.sampled_from(NAMES),
        trouble=st.sampled_from(TROUBLES),
        zone=st.sampled_from(["", "a", "b"]),
        role=st.sampled_from(roles),
        pool=st.sampled_from(["a", "a", "b"]),
    )
    return st.lists(one, min_size=least, max_size=len(NAMES), unique_by=lambda node: node.name)


NODES = some_nodes()
CONTROL_PLANE = some_nodes(roles=(True,), least=6)


def merged(*parts: st.SearchStrategy[Spec]) -> st.SearchStrategy[Spec]:
    return st.tuples(*parts).map(lambda drawn: {key: value for part in drawn for key, value in part.items()})


GUARDED = GUARDS.map(lambda guards: {"guards": guards})
PLAIN_SPECS = merged(LIMITS, POOLS, GUARDED, PLAIN)
SPECS = merged(LIMITS, POOLS, GUARDED, EXTRAS, st.one_of(PLAIN, LADDERS))


@st.composite
def worlds(
    draw: st.DrawFn, specs: st.SearchStrategy[Spec] = SPECS, nodes: st.SearchStrategy[list[Node]] = NODES
) -> World:
    """One or two checks, a few nodes, and remediators that let go at once or only when they are told to."""
    checks: list[NodeHealthCheck] = [a_check("a", **draw(specs))]
    if draw(st.booleans()):
        checks.append(a_check("b", **draw(specs)))
    rules = Rules(upgrade_signals=("announced",), upgrade_limit=10 * MINUTE)
    return World(checks, draw(nodes), templates=TEMPLATES, rules=rules, finalizers=draw(st.booleans()))


class Deed(NamedTuple):
    """Something happens to a node, time passes, and then of what is decided only a part is done."""

    what: str
    node: str
    seconds: int
    part: str


# What can happen that changes neither who is selected nor which gates there are.
EVERYDAY = ("recover", "fail", "nothing", "recover", "waver", "crash", "let go", "succeed", "give up", "vanish", "join")
PEOPLE = ("relabel", "move", "exclude", "maintain", "approve", "confirm", "take away")
GATES = ("brake", "resume", "blind", "see", "upgrade", "finish")
PARTS = ("all", "all", "all", "status", "all but status", "underway", "every other")


def deeds(*what: str, parts: tuple[str, ...] = PARTS, most: int = 12) -> st.SearchStrategy[list[Deed]]:
    return st.lists(
        st.builds(
            Deed,
            what=st.sampled_from(what),
            node=st.sampled_from(NAMES),
            seconds=st.sampled_from([1, 301, 30, 0, 61, 200, 700, 2000]),
            part=st.sampled_from(parts),
        ),
        min_size=most // 2,
        max_size=most,
    )


ANY_DEEDS = deeds(*EVERYDAY, *PEOPLE, *GATES)


class Moment(NamedTuple):
    """A look, and what was decided, before any of it is done. `before` is the plan of an earlier look."""

    cluster: Cluster
    plan: Plan
    before: Plan


def live(world: World, happenings: list[Deed]) -> Iterator[Moment]:
    for deed in happenings:
        do(world, deed)
        world.now += timedelta(seconds=deed.seconds)
        cluster, before = world.look(), world.before
        plan = world.decide()
        yield Moment(cluster, plan, before)
        _carry_out(world, plan, deed.part)


def _carry_out(world: World, plan: Plan, part: str) -> None:
    begun, world.underway = world.underway, []
    for action in begun:
        world.carry_out(action)
    for place, action in enumerate(plan.actions):
        if part == "underway" and isinstance(action, StartRemediation):
            world.underway.append(action)
        elif _is_done(action, place, part):
            world.carry_out(action)


def _is_done(action: Action, place: int, part: str) -> bool:
    match part:
        case "status":
            return isinstance(action, WriteStatus)
        case "all but status":
            return not isinstance(action, WriteStatus)
        case "every other":
            return place % 2 == 0
        case _:
            return True


def do(world: World, deed: Deed) -> None:
    if deed.what in _TO_THE_WORLD:
        _TO_THE_WORLD[deed.what](world)
    elif deed.what == "join" and deed.node not in world.nodes:
        world.put(a_node(deed.node, uid=f"{deed.node} at {world.now}", since=world.now, labels={"pool": "a"}))
    elif deed.what in _TO_A_NODE and deed.node in world.nodes:
        busy = sorted((world.in_flight("a") | world.in_flight("b")) & world.nodes.keys())
        # Nodes that are well recover often enough by themselves.
        recovers = deed.what == "recover" and busy and deed.node not in busy
        _TO_A_NODE[deed.what](world, busy[0] if recovers else deed.node)
    elif deed.what in _TO_REMEDIATIONS:
        _to_remediations(world, deed)


def _relabel(world: World, node: str) -> None:
    labels = world.nodes[node].labels
    world.label(node, labels | {"pool": "b" if labels.get("pool") == "a" else "a"})


def _move(world: World, node: str) -> None:
    labels = world.nodes[node].labels
    world.label(node, labels | {ZONE: "b" if labels.get(ZONE) == "a" else "a"})


def _exclude(world: World, node: str) -> None:
    labels = world.nodes[node].labels
    world.label(node, labels | {medik8s.EXCLUDED: "false" if labels.get(medik8s.EXCLUDED) == "true" else "true"})


def _maintain(world: World, node: str) -> None:
    lock = a_lock(node, "node-maintenance", renewed=world.now, seconds=600)
    world.locks.setdefault(lock.key, lock)


def _approve(world: World, node: str) -> None:
    world.annotate(node, "defib.dev/approved-until", f"{world.now + 5 * MINUTE:%Y-%m-%dT%H:%M:%SZ}")


def _vanish(world: World, node: str) -> None:
    del world.nodes[node]


def _blind(world: World) -> None:
    world.extra = {"blind": (Blindness("nodes", world.now, "connection refused"),)}


def _see(world: World) -> None:
    world.extra = {}


def _upgrade(world: World) -> None:
    world.config("defib-upgrade", {"until": f"{world.now + 20 * MINUTE:%Y-%m-%dT%H:%M:%SZ}"})


_TO_A_NODE: dict[str, Callable[[World, str], None]] = {
    "fail": lambda world, node: world.turn(node, "Unknown"),
    "waver": lambda world, node: world.turn(node, "False"),
    "recover": lambda world, node: world.turn(node, "True"),
    "vanish": _vanish,
    "relabel": _relabel,
    "move": _move,
    "exclude": _exclude,
    "maintain": _maintain,
    "approve": _approve,
    "confirm": lambda world, node: world.annotate(node, medik8s.CONFIRMED_HEALTHY, ""),
}
_TO_THE_WORLD: dict[str, Callable[[World], None]] = {
    "crash": World.forget,
    "let go": World.leave,
    "brake": lambda world: world.config("defib-brake", {}),
    "resume": lambda world: world.config("defib-brake", None),
    "blind": _blind,
    "see": _see,
    "upgrade": _upgrade,
    "finish": lambda world: world.config("defib-upgrade", None),
}
_TO_REMEDIATIONS = {"succeed": "True", "give up": "False", "take away": ""}


def _to_remediations(world: World, deed: Deed) -> None:
    for collection in ("foos", "bars"):
        for name, item in world.remediations(collection).items():
            if item.annotations.get(medik8s.NODE_NAME) != deed.node:
                continue
            if deed.what == "take away":
                world.drop(name, collection)
            else:
                world.report(name, {medik8s.SUCCEEDED: _TO_REMEDIATIONS[deed.what]}, collection)

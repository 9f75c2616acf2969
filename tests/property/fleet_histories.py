"""Fleets by chance, and what happens to them: nodes fail and recover, people change their minds, writes are lost."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec
from hypothesis import strategies as st

from defib.decide.failover.plan import Failover
from defib.decide.failover.policies import STRAGGLING
from defib.model.action import Action, MovePod, ReportRemediation
from defib.model.amount import Amount
from defib.model.cluster import Cluster
from defib.model.pod import Pod
from tests.builders import T0
from tests.property.fleet import NAMES, TAINT, Fleet, labels_of
from tests.unit.decide.checks import a_check
from tests.unit.decide.failover.failovers import (
    CLUSTER,
    DAEMON_SET,
    JOB,
    LONG_AGO,
    REPLICA_SET,
    STATEFUL_SET,
    a_failover,
    a_pod,
    a_policy,
)

change = msgspec.structs.replace

PLACES = ("apps", "shop")
BUSY = NAMES[:4]  # to which something happens; the others are there so that not most of them fail
SPECS: list[dict[str, Any]] = [
    {},
    {"selector": {"matchLabels": {"app": "web"}}},
    {"deletion": {"mode": "Graceful"}},
    {"acceptedProofs": ["None"]},
    {"taints": ["*"]},
    {"taints": [TAINT.key], "deletion": {"mode": "Graceful", "gracePeriodSeconds": 5}},
    {"dwell": "30s"},
    {"nodeSelector": {"matchLabels": {"pool": "a"}}},
    {"nodeSelector": {"matchLabels": {"pool": "b"}}, "acceptedProofs": ["D"]},
    {"exclude": {"names": ["pod-1*"]}},
    {"dwell": "soon"},
]
EAGER = [*SPECS[:2], *SPECS[:2], *SPECS[4:9]]  # such as move something, from different nodes at different times
OF_NODES: list[dict[str, Any]] = [
    {},
    {"deletion": {"mode": "Force"}},
    {"acceptedProofs": ["None"]},
    {"acceptedProofs": ["D"], "selector": {"matchLabels": {"app": "db"}}},
]
LIMITS: list[dict[str, Any]] = [
    {"maxUnhealthy": "100%"},
    {"maxUnhealthy": 1},
    {"minHealthy": "51%", "guards": {"maxInFlight": 1}},
    {"maxUnhealthy": 2, "selector": {"matchLabels": {"pool": "a"}}},
    {"maxUnhealthy": 0},
]
NEVER = [{"type": "Ready", "status": "Unknown", "duration": "100h"}]


@st.composite
def some_pods(draw: st.DrawFn) -> list[Pod]:
    return [
        change(pod, spec=change(pod.spec, termination_grace_period_seconds=draw(st.sampled_from([None, None, 30, 0]))))
        for pod in (
            a_pod(
                f"pod-{place}",
                node=draw(st.sampled_from(BUSY)),
                namespace=draw(st.sampled_from(PLACES)),
                owner=draw(st.sampled_from([REPLICA_SET, REPLICA_SET, STATEFUL_SET, JOB, CLUSTER, DAEMON_SET, None])),
                labels={"app": draw(st.sampled_from(["web", "db"]))},
                claims=draw(st.sampled_from([(), (), ("rwx",), ("rwo",), ("gone", "rwx")])),
                phase=draw(st.sampled_from(["Running", "Running", "Pending", "Failed"])),
                leaving=draw(st.sampled_from([False, False, True])),
                created=draw(st.sampled_from([LONG_AGO, LONG_AGO, T0 + timedelta(seconds=40)])),
                finalizers=draw(st.sampled_from([None, None, ["example.com/x"]])),
            )
            for place in range(draw(st.integers(0, 8)))
        )
    ]


@st.composite
def fleets(draw: st.DrawFn, specs: list[dict[str, Any]] = SPECS) -> Fleet:
    names = draw(
        st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from("abc")), min_size=1, max_size=3, unique=True)
    )
    policies = [a_policy(name, namespace=place, **draw(st.sampled_from(specs))) for place, name in names]
    limits = draw(st.lists(st.sampled_from(LIMITS), max_size=2))
    checks = [a_check(f"c{place}", unhealthyConditions=NEVER, **limit) for place, limit in enumerate(limits)]
    remediated = draw(st.lists(st.sampled_from(NAMES), max_size=2, unique=True))
    remediations = [a_failover(node, spec=draw(st.sampled_from(OF_NODES))) for node in remediated]
    most = draw(st.sampled_from([Amount(1), Amount(1), Amount(2), Amount(20, is_percent=True)]))
    plain = [a_pod(f"{node}-{place}", node=node, namespace=place) for node in BUSY for place in PLACES]
    return Fleet(policies, [*plain, *draw(some_pods())], checks, remediations, most)


class Deed(NamedTuple):
    """Something happens, time passes, and of what is decided then only a part is done."""

    what: str
    node: str
    place: int
    seconds: int
    part: str


def _edit(fleet: Fleet, deed: Deed) -> None:
    keys = sorted(fleet.policies)
    fleet.edit(keys[deed.place % len(keys)], {"selector": {}} | SPECS[deed.place % len(SPECS)])


def _flap(fleet: Fleet, deed: Deed) -> None:
    if fleet.nodes[deed.node].ready != "True":
        fleet.turn(deed.node, "Unknown")


def _arrive(fleet: Fleet, deed: Deed) -> None:
    """It was on its way when the node failed."""
    ready = fleet.nodes[deed.node].condition("Ready")
    assert ready is not None
    assert ready.last_transition_time is not None
    if ready.status != "True" and fleet.now >= ready.last_transition_time + STRAGGLING:
        return
    fleet.put(a_pod(f"late-{deed.place}", node=deed.node, labels={"app": "web"}, created=LONG_AGO))


def _crash(fleet: Fleet, deed: Deed) -> None:
    for action in fleet.underway[: deed.place % 2 * len(fleet.underway)]:
        fleet.carry_out(action)
    fleet.forget()


def _switch(fleet: Fleet, deed: Deed) -> None:
    _crash(fleet, deed)
    fleet.is_on = not fleet.is_on


def _exclude(fleet: Fleet, deed: Deed) -> None:
    is_excluded = len(fleet.nodes[deed.node].labels) > 1
    mark = {} if is_excluded else {"remediation.medik8s.io/exclude-from-remediation": "true"}
    fleet.label(deed.node, labels_of(deed.node) | mark)


def _brake(fleet: Fleet, _deed: Deed) -> None:
    fleet.brake = not fleet.brake


def _doubt(fleet: Fleet, _deed: Deed) -> None:
    fleet.doubts = () if fleet.doubts else ("most requests fail",)


def _refuse(fleet: Fleet, _deed: Deed) -> None:
    fleet.unreadable = not fleet.unreadable


DEEDS: dict[str, Callable[[Fleet, Deed], None]] = {
    "fail": lambda fleet, deed: fleet.turn(deed.node, "Unknown"),
    "waver": lambda fleet, deed: fleet.turn(deed.node, "False"),
    "recover": lambda fleet, deed: fleet.turn(deed.node, "True"),
    "fail long ago": lambda fleet, deed: fleet.turn(deed.node, "Unknown", T0 - timedelta(seconds=deed.place)),
    "fail in the future": lambda fleet, deed: fleet.turn(deed.node, "False", fleet.now + timedelta(seconds=50)),
    "flap": _flap,
    "replace": lambda fleet, deed: fleet.replace(deed.node),
    "taint": lambda fleet, deed: fleet.taint(deed.node, TAINT),
    "untaint": lambda fleet, deed: fleet.taint(deed.node),
    "exclude": _exclude,
    "lock": lambda fleet, deed: fleet.lock(deed.node),
    "unlock": lambda fleet, _deed: fleet.locks.clear(),
    "brake": _brake,
    "doubt": _doubt,
    "refuse": _refuse,
    "edit": _edit,
    "arrive": _arrive,
    "crash": _crash,
    "switch": _switch,
    "calm": lambda fleet, _deed: fleet.calm(),
    "nothing": lambda _fleet, _deed: None,
}
# It takes three passes from a failure to the first deletion, so most of them must be quiet.
OFTEN = (*["fail"] * 3, *["nothing"] * 12, *["calm"] * 3, "taint", "recover", "flap", "edit", "crash")
PARTS = (*["all"] * 8, "writes", "every other", "underway", "underway", "nothing")

SOME_DEEDS = st.lists(
    st.builds(
        Deed,
        what=st.sampled_from([*OFTEN, *DEEDS]),
        node=st.sampled_from(BUSY),
        place=st.integers(0, 30),
        seconds=st.sampled_from([0, 1, 1, 1, 5, 31]),
        part=st.sampled_from(PARTS),
    ),
    min_size=12,
    max_size=30,
)


@st.composite
def histories(draw: st.DrawFn, ways: tuple[str, ...] = ("fail", "fail", "waver", "taint")) -> list[Deed]:
    """It begins with a few failures: what could go wrong goes wrong when there are more than are allowed."""
    first = draw(st.lists(st.sampled_from(BUSY), max_size=3, unique=True))
    how = draw(st.sampled_from(ways))
    return [Deed(how, node, place, 1, "all") for place, node in enumerate(first)] + draw(SOME_DEEDS)


HISTORIES = histories()


class Moment(NamedTuple):
    """A look, and what was decided, before any of it is done."""

    fleet: Fleet
    cluster: Cluster
    plan: Failover
    before: Failover


def live(fleet: Fleet, history: list[Deed]) -> Iterator[Moment]:
    for deed in history:
        DEEDS[deed.what](fleet, deed)
        fleet.now += timedelta(seconds=deed.seconds)
        before = fleet.before
        cluster, plan = fleet.decide()
        yield Moment(fleet, cluster, plan, before)
        begun, fleet.underway = fleet.underway, []
        for action in begun:
            fleet.carry_out(action)
        for place, action in enumerate(plan.actions):
            if deed.part == "underway" and isinstance(action, ReportRemediation):
                fleet.underway.append(action)
            elif _is_done(action, place, deed.part):
                fleet.carry_out(action)


def _is_done(action: Action, place: int, part: str) -> bool:
    match part:
        case "writes":
            return not isinstance(action, MovePod)
        case "every other":
            return place % 2 == 0
        case "nothing":
            return False
        case _:
            return True

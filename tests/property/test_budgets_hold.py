"""I3 and I4: no budget is ever overdrawn, and at most one control-plane node is out, never without a quorum.

Beside the properties, a second implementation of admission that is as dumb as it can be: it knows nothing of status,
caches or ledgers, counts everything anew for each node, and remembers what was created by having watched.
"""

from datetime import datetime, timedelta
from math import ceil
from typing import Any, NamedTuple

from hypothesis import given, settings

from defib.decide.plan import Plan
from defib.model import medik8s
from defib.model.action import StartRemediation
from defib.model.cluster import Cluster
from defib.model.meta import Unstructured
from defib.model.node import Node
from tests.property.worlds import (
    ANY_DEEDS,
    CONTROL_PLANE,
    EVERYDAY,
    PLAIN_SPECS,
    ROLE,
    SPECS,
    ZONE,
    Deed,
    deeds,
    live,
    worlds,
)
from tests.unit.decide.checks import of_type
from tests.unit.decide.world import World

WINDOWS = {"5m": timedelta(minutes=5), "10m": timedelta(minutes=10), "1h": timedelta(hours=1)}
UNHEALTHY_AFTER = timedelta(seconds=300)


class Created(NamedTuple):
    check: str
    node: str
    at: datetime


class Dumb:
    """One pass. `created` is all that was ever created, `admitted` grows as this pass lets nodes in."""

    def __init__(self, cluster: Cluster, created: list[Created]) -> None:
        self.cluster = cluster
        self.created = created
        self.admitted: list[tuple[str, str]] = []

    def run(self) -> list[tuple[str, str]]:
        checks: Any = self.cluster.others[medik8s.CHECKS]
        for name in sorted(checks):
            self.one_check(name, checks[name].spec)
        return self.admitted

    def one_check(self, check: str, spec: dict[str, Any]) -> None:
        ill = [node for node in self.selected(spec) if self.is_unhealthy(node)]
        healthy = [
            node for node in self.selected(spec) if not self.is_troubled(node) and not self.is_out(check, node.name)
        ]
        if ill and len(healthy) < self.fewest(spec):
            return
        for node in sorted(ill, key=lambda one: (since(one), one.name)):
            if self.may_begin(check, spec, node):
                self.admitted.append((check, node.name))

    # One node

    def may_begin(self, check: str, spec: dict[str, Any], node: Node) -> bool:
        makes = spec["remediationTemplate"]["kind"].removesuffix("Template")
        there = [kind for kind, item in self.remediations() if node_of(item) == node.name]
        begun = [entry for entry in self.admitted if entry[1] == node.name] + [
            one for one in self.starting() if one[1] == node.name
        ]
        if makes in there or begun or self.is_out(check, node.name) or self.is_locked(check, node.name):
            return False
        if ROLE in node.labels and not self.may_lose(node):
            return False
        return self.fits(check, spec.get("guards") or {}, spec, node)

    def is_locked(self, check: str, node: str) -> bool:
        lock = self.cluster.locks.get(f"medik8s-leases/node-{node}")
        if lock is None or lock.spec.holder_identity == f"NodeHealthCheck-{check}" or lock.spec.renew_time is None:
            return False
        return lock.spec.renew_time + timedelta(seconds=lock.spec.lease_duration_seconds or 0) >= self.cluster.now

    def may_lose(self, node: Node) -> bool:
        members = [one for one in self.cluster.nodes.values() if ROLE in one.labels]
        busy = {name for name in self.all_out() if name in {one.name for one in members}} | {
            node_of(item) for _, item in self.remediations() if medik8s.IS_CONTROL_PLANE in item.labels
        }
        ready = [one for one in members if one.name != node.name and one.ready == "True"]
        return not busy - {node.name} and len(ready) > len(members) / 2

    def fits(self, check: str, guards: dict[str, Any], spec: dict[str, Any], node: Node) -> bool:
        out = self.all_out(check)
        selected = self.selected(spec)
        if "maxInFlight" in guards and len(out) + 1 > scaled(guards["maxInFlight"], len(selected)):
            return False
        for domain in guards.get("failureDomains", []):
            zone = node.labels.get(ZONE, "")
            here = [one for one in selected if one.labels.get(ZONE, "") == zone]
            busy = [one for one in self.cluster.nodes.values() if one.name in out and one.labels.get(ZONE, "") == zone]
            if len(busy) + 1 > scaled(domain["maxInFlight"], len(here)):
                return False
        rate, flaps = guards.get("rateLimit"), guards.get("flapDamping")
        if rate and len(self.recent(check, WINDOWS[rate["per"]])) + 1 > rate["remediations"]:
            return False
        often = [name for name in self.recent(check, WINDOWS[flaps["within"]]) if name == node.name] if flaps else []
        return not flaps or len(often) < flaps["remediations"]

    def recent(self, check: str, window: timedelta) -> list[str]:
        now = self.cluster.now
        done = [one.node for one in self.created if one.check == check and now - one.at < window]
        return done + [node for name, node in (*self.admitted, *self.starting()) if name == check]

    # What is there

    def remediations(self) -> list[tuple[str, Unstructured]]:
        found = []
        for collection, kind in (("foos", "FooRemediation"), ("bars", "BarRemediation")):
            for item in self.cluster.others[collection].values():
                assert isinstance(item, Unstructured)
                found.append((kind, item))
        return found

    def starting(self) -> list[tuple[str, str]]:
        return [(one.check, one.node) for one in self.cluster.underway if isinstance(one, StartRemediation)]

    def all_out(self, check: str = "") -> set[str]:
        """Nodes that somebody remediates, or this check."""
        owned = {node_of(item) for _, item in self.remediations() if check in ("", owner_of(item))}
        return owned | {node for name, node in (*self.admitted, *self.starting()) if check in ("", name)}

    def is_out(self, check: str, node: str) -> bool:
        return node in self.all_out(check)

    def selected(self, spec: dict[str, Any]) -> list[Node]:
        wanted = (spec.get("selector") or {}).get("matchLabels") or {}
        return [node for node in self.cluster.nodes.values() if wanted.items() <= node.labels.items()]

    def is_troubled(self, node: Node) -> bool:
        return node.ready in ("False", "Unknown")

    def is_unhealthy(self, node: Node) -> bool:
        return self.is_troubled(node) and self.cluster.now - since(node) > UNHEALTHY_AFTER

    def fewest(self, spec: dict[str, Any]) -> int:
        total = len(self.selected(spec))
        if "minHealthy" in spec:
            fewest = scaled(spec["minHealthy"], total)
        else:
            fewest = max(total - scaled(spec.get("maxUnhealthy", "49%"), total), 0)
        return min(fewest, max(total - 1, 0)) if (spec.get("guards") or {}).get("alwaysAllowOne") else fewest


def scaled(amount: int | str, total: int) -> int:
    text = str(amount)
    return ceil(total * int(text[:-1]) / 100) if text.endswith("%") else int(text)


def since(node: Node) -> datetime:
    ready = node.condition("Ready")
    assert ready is not None
    assert ready.last_transition_time is not None
    return ready.last_transition_time


def node_of(item: Unstructured) -> str:
    return item.annotations[medik8s.NODE_NAME]


def owner_of(item: Unstructured) -> str:
    return (item.metadata.owner_references or [])[0].name


def begins(plan: Plan) -> list[tuple[str, str]]:
    return [(one.check, one.node) for one in of_type(plan, StartRemediation)]


# Without these, a remediation could come and go without anybody having looked.
WATCHED = tuple(what for what in EVERYDAY if what not in ("vanish", "join"))


@settings(max_examples=150, deadline=None)
@given(
    world=worlds(PLAIN_SPECS),
    happenings=deeds(*WATCHED, "maintain", "move", parts=("all", "all", "status", "underway"), most=15),
)
def test_exactly_those_nodes_are_admitted_that_the_dumbest_way_of_counting_admits(
    world: World, happenings: list[Deed]
) -> None:
    """With one template and no time-outs, so that every creation is an admission."""
    created: list[Created] = []
    last = world.now
    for moment in live(world, [deed._replace(seconds=min(deed.seconds, 301)) for deed in happenings]):
        created += [Created(one.check, one.node, last) for one in world.creations[len(created) :]]
        last = moment.cluster.now
        if "TimedOut" in {verdict.reason for plan in moment.plan.checks.values() for verdict in plan.verdicts.values()}:
            return
        assert begins(moment.plan) == Dumb(moment.cluster, created).run()


@settings(max_examples=80, deadline=None)
@given(world=worlds(SPECS), happenings=ANY_DEEDS)
def test_no_creation_ever_takes_more_nodes_out_than_the_check_allows(world: World, happenings: list[Deed]) -> None:
    """Whatever was done only in part, whoever crashed, and whatever people took away meanwhile."""
    for moment in live(world, happenings):
        for name, check in world.checks.items():
            fresh = {node for owner, node in begins(moment.plan) if owner == name}
            dumb = Dumb(moment.cluster, [])
            out = dumb.all_out(name)
            limit = (check.spec.get("guards") or {}).get("maxInFlight")
            if fresh - out and limit is not None:
                assert len(out | fresh) <= scaled(limit, len(dumb.selected(check.spec)))
            for domain in (check.spec.get("guards") or {}).get("failureDomains", []):
                assert_domains_hold(dumb, check.spec, domain["maxInFlight"], out, fresh)


def assert_domains_hold(dumb: Dumb, spec: dict[str, Any], limit: int | str, out: set[str], fresh: set[str]) -> None:
    nodes = dumb.cluster.nodes
    for zone in {nodes[name].labels.get(ZONE, "") for name in fresh - out}:
        here = {node.name for node in nodes.values() if node.labels.get(ZONE, "") == zone}
        size = len([node for node in dumb.selected(spec) if node.name in here])
        assert len((out | fresh) & here) <= scaled(limit, size)


@settings(max_examples=80, deadline=None)
@given(world=worlds(SPECS, CONTROL_PLANE), happenings=ANY_DEEDS)
def test_at_most_one_control_plane_node_is_out_and_the_others_are_a_quorum(
    world: World, happenings: list[Deed]
) -> None:
    for moment in live(world, happenings):
        nodes = moment.cluster.nodes
        members = {name for name, node in nodes.items() if ROLE in node.labels}
        fresh = {node for _, node in begins(moment.plan)} & members
        out = (Dumb(moment.cluster, []).all_out() & members) | fresh
        assert len(out) <= 1
        for node in fresh:
            ready = [name for name in members - {node} if nodes[name].ready == "True"]
            assert len(ready) > len(members) / 2


@settings(max_examples=40, deadline=None)
@given(world=worlds(SPECS), happenings=ANY_DEEDS)
def test_a_node_never_has_two_remediations_of_one_template(world: World, happenings: list[Deed]) -> None:
    for _ in live(world, happenings):
        items = [item for kind in ("foos", "bars") for item in world.remediations(kind).values()]
        templates = [(node_of(item), owner_of(item), item.annotations[medik8s.TEMPLATE_NAME]) for item in items]
        assert len(templates) == len(set(templates))


@settings(max_examples=40, deadline=None)
@given(world=worlds(SPECS), happenings=ANY_DEEDS)
def test_two_checks_never_work_on_one_node(world: World, happenings: list[Deed]) -> None:
    """A check whose time is over has given the lock back, and another one may try."""
    for _ in live(world, [deed._replace(seconds=min(deed.seconds, 30)) for deed in happenings]):
        items = [item for kind in ("foos", "bars") for item in world.remediations(kind).values()]
        at_work = {(node_of(item), owner_of(item)) for item in items if medik8s.TIMED_OUT not in item.annotations}
        assert len(at_work) == len({node for node, _ in at_work})

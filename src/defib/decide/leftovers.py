"""What dead remediations and dead replicas have left in the cluster, and when it is taken away.

    carries our mark ──▶ nobody stands behind it ──▶ for long enough ──▶ taken away, after one more look
                           │ we doubt our sight, or cannot see who would: the time begins anew

Whatever has somebody behind it is not for here: its incident, its check or its remediation takes it away in the end.
What is left is what somebody has deleted those under, by force or while nobody looked. What the cluster shows is how
old a thing is, and not since when nobody wants it: so each replica counts for itself, from when it first saw that.
Standbys count too; a change of leader costs no time.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

import msgspec

from defib.decide.admission import APPROVED_UNTIL
from defib.decide.doubt import doubts_about
from defib.decide.entries import target
from defib.decide.fencing.hosts import target_of_host
from defib.decide.fencing.kinds import MACHINES, METAL3_REMEDIATIONS, Versions, are_in_sight
from defib.decide.fencing.needed_off import is_asking, needed_off, node_behind
from defib.decide.fencing.order import Order
from defib.decide.fencing.sources import MACHINE_ANNOTATION, METAL3_REMEDIATION, orders_in
from defib.decide.plan import Plan
from defib.decide.rejection import REJECTED, rejection_of
from defib.decide.rules import Rules
from defib.model import medik8s, pod_failover, power_cycle, self_fencing
from defib.model.action import Action, ClearNodeAnnotation, EndRemediation
from defib.model.cluster import Cluster, Wanted
from defib.model.health_check import KindRef, NodeHealthCheck
from defib.model.incident import INCIDENTS
from defib.model.leftover import BY_US, MANAGED_BY, MEMBER_PREFIX, DropMember, LetHostGo, ReadMembers, TakeTaintOff
from defib.model.metal3 import HOST, KEPT_OFF_BY
from defib.model.moment import read_moment
from defib.model.node import TAINTED_BY_US, Lease, Node
from defib.model.power import METAL3
from defib.model.power_cycle import template_spec
from defib.model.remediation import Remediation, read_remediation
from defib.model.self_fence import LABEL as AGENT
from defib.model.self_fence import LABEL_VALUE as AGENT_VALUE
from defib.model.self_fence import node_of

AT_ONCE = 20
NODES_SEARCHED = timedelta(minutes=1)  # there may be thousands, and nothing here is in a hurry
MEMBERS_READ = timedelta(minutes=5)

MARKS = (TAINTED_BY_US, APPROVED_UNTIL, REJECTED)

_ALWAYS_SEEN = frozenset({"nodes", "heartbeats"})
_OUR_KINDS = (pod_failover.REMEDIATION, power_cycle.REMEDIATION, self_fencing.REMEDIATION)


class _Search(msgspec.Struct, frozen=True):
    """Which nodes carry a mark of ours, when they were last searched for them."""

    nodes: Mapping[str, Node]
    marked: tuple[str, ...]
    at: datetime


class Leftovers(msgspec.Struct, frozen=True, kw_only=True):
    """`since` is from when on nobody wants what is left, by what it is."""

    actions: tuple[Action, ...] = ()
    wake_at: datetime | None = None
    since: Mapping[str, datetime] = {}
    search: _Search | None = None
    has_hosts: bool = False

    @property
    def kinds(self) -> Mapping[KindRef, Wanted]:
        return {HOST: Wanted(can_wait=True)} if self.has_hosts else {}


NOTHING = Leftovers()


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """`over_at` is until when somebody wanted it, where the cluster tells that; `at_least` is waited for in any case."""

    key: str
    action: Action
    over_at: datetime | None = None
    at_least: timedelta = timedelta()


def plan_leftovers(cluster: Cluster, rules: Rules, plan: Plan, before: Leftovers = NOTHING) -> Leftovers:
    """`before` says since when each has been left, and spares work."""
    search = _searched(cluster, rules, before.search)
    found = [*_on_nodes(cluster, rules, plan, search), *_hosts(cluster, rules), *_remediations(cluster)]
    found += _members(cluster)
    reads = _reads(cluster, rules)
    wake_at, has_hosts = _next_look(cluster, rules, search), _has_hosts(cluster)
    anew = Leftovers(actions=reads, search=search, wake_at=wake_at, has_hosts=has_hosts)
    if not found or _is_shaken(cluster):
        return anew
    since = {one.key: _left_since(one, before, cluster.now) for one in found}
    ends = {one.key: since[one.key] + max(rules.leftover_age, one.at_least) for one in found}
    due = [one.action for one in found if ends[one.key] <= cluster.now]
    due.sort(key=lambda action: action.key in cluster.failures)  # what fails again and again must not keep others back
    if due and doubts_about(_ALWAYS_SEEN, cluster):  # which asks after every heartbeat
        return anew
    moments = [end for end in ends.values() if end > cluster.now]
    moments += filter(None, [wake_at])
    return msgspec.structs.replace(
        anew, actions=(*reads, *due[:AT_ONCE]), since=since, wake_at=min(moments, default=None)
    )


def _left_since(found: _Found, before: Leftovers, now: datetime) -> datetime:
    seen = before.since.get(found.key, now)
    return seen if found.over_at is None else max(seen, found.over_at)


def _is_shaken(cluster: Cluster) -> bool:
    """Our clock, the API server or our sight of nodes is not to be trusted, so no time that passes counts."""
    return bool(cluster.doubts) or any(one.kind in _ALWAYS_SEEN for one in cluster.blind)


def kind_of(action: Action) -> str:
    """What it takes away, in a word; empty for whatever is not for leftovers."""
    match action:
        case TakeTaintOff():
            return "taint"
        case LetHostGo():
            return "power"
        case DropMember():
            return "member"
        case ClearNodeAnnotation(is_leftover=True):
            return "annotation"
        case EndRemediation(is_leftover=True):
            return "remediation"
        case _:
            return ""


# Nodes: taints, and annotations that mean nothing any more.


def _searched(cluster: Cluster, rules: Rules, before: _Search | None) -> _Search:
    if before is not None and (before.nodes is cluster.nodes or cluster.now < before.at + _search_pause(rules)):
        return before
    marked = tuple(sorted(name for name, node in cluster.nodes.items() if _is_marked(node)))
    return _Search(nodes=cluster.nodes, marked=marked, at=cluster.now)


def _is_marked(node: Node) -> bool:
    annotations = node.metadata.annotations
    return annotations is not None and (not annotations.keys().isdisjoint(MARKS))


def _search_pause(rules: Rules) -> timedelta:
    return min(NODES_SEARCHED, rules.leftover_age / 10)


def _on_nodes(cluster: Cluster, rules: Rules, plan: Plan, search: _Search) -> Iterator[_Found]:
    nodes = [cluster.nodes[name] for name in search.marked if name in cluster.nodes]
    for node in nodes:
        yield from _words_on(node, cluster.now)
    tainted = [node for node in nodes if TAINTED_BY_US in node.annotations]
    if not tainted or not _would_see_owners(cluster, rules):
        return
    busy = _busy_nodes(cluster, rules, plan)
    for node in tainted:
        if node.name in busy:
            continue
        if node.our_taint is None:
            yield _Found(key=f"mark {node.uid}", action=_clear(node, TAINTED_BY_US))
        elif node.ready == "True":  # while it is not, what the taint holds off may run elsewhere
            yield _Found(key=f"taint {node.uid}", action=TakeTaintOff(node=node.name, node_uid=node.uid))


def _words_on(node: Node, now: datetime) -> Iterator[_Found]:
    """What people said of a node for a time that is over."""
    until = read_moment(node.annotations.get(APPROVED_UNTIL, ""))
    if until is not None and until <= now:
        yield _Found(key=f"approval {node.uid}", action=_clear(node, APPROVED_UNTIL), over_at=until)
    no = rejection_of(node.annotations)
    if no is not None and not no.holds(now):
        yield _Found(key=f"rejection {node.uid}", action=_clear(node, REJECTED), over_at=no.until)


def _clear(node: Node, annotation: str) -> ClearNodeAnnotation:
    value = node.annotations[annotation]
    return ClearNodeAnnotation(node=node.name, node_uid=node.uid, annotation=annotation, value=value, is_leftover=True)


def _would_see_owners(cluster: Cluster, rules: Rules) -> bool:
    """Whether every incident would be in sight, and everybody who may ask for one."""
    kinds: list[Versions] = [(kind,) for kind in _OUR_KINDS]
    kinds += MACHINES if MACHINE_ANNOTATION in rules.serves else ()
    kinds += (METAL3_REMEDIATIONS,) if METAL3_REMEDIATION in rules.serves else ()
    return _is_seen(INCIDENTS, cluster) and all(are_in_sight(versions, cluster) for versions in kinds)


def _is_seen(name: str, cluster: Cluster) -> bool:
    """All of a kind that is always followed: nothing of it is out of sight, and nothing cannot be read."""
    unsure = {*cluster.absent, *(one.kind for one in cluster.blind), *(one.kind for one in cluster.unread)}
    return name in cluster.others and name not in unsure


def _busy_nodes(cluster: Cluster, rules: Rules, plan: Plan) -> set[str]:
    """Those about which somebody does something, or is about to."""
    open_ones = [one for one in cluster.incidents().values() if one.is_open]
    failovers = cluster.every(pod_failover.REMEDIATION)
    moving = [read_remediation(item, pod_failover.REMEDIATION) for item in failovers]
    ill = (node.name for check in plan.checks.values() for node in check.status.unhealthy_nodes or ())
    return {
        *(one.spec.node for one in open_ones),
        *(one.name for one in open_ones),
        *(one.node for one in moving if one.succeeded != "True"),
        *(order.node for order in _orders(cluster, rules) if is_asking(order)),
        *ill,
    }


def _orders(cluster: Cluster, rules: Rules) -> list[Order]:
    return [order for order, _ in orders_in(cluster, rules)]


# Hosts that are kept off.


def _has_hosts(cluster: Cluster) -> bool:
    """Whether power is switched through Metal3 here. Elsewhere we are not even allowed to see hosts, nor need to be."""
    specs = [template_spec(item) for item in cluster.every(power_cycle.TEMPLATE)]
    specs += [item.spec or {} for item in cluster.every(power_cycle.REMEDIATION)]
    return any(_is_by_metal3(spec.get("power")) for spec in specs)


def _is_by_metal3(power: object) -> bool:
    """For all nodes, or for one of them."""
    if not isinstance(power, dict):
        return False
    nodes = power.get("nodes")
    ways = (power, *(nodes.values() if isinstance(nodes, dict) else ()))
    return any(isinstance(way, dict) and way.get("driver") == METAL3 for way in ways)


def _hosts(cluster: Cluster, rules: Rules) -> Iterator[_Found]:
    marked = [host for host in cluster.every(HOST) if KEPT_OFF_BY in host.annotations]
    if not marked or not are_in_sight((HOST,), cluster) or not _would_see_owners(cluster, rules):
        return
    needed = needed_off(cluster, _orders(cluster, rules))
    for host in marked:
        node = node_behind(host, cluster)
        if needed.includes(host, node):
            continue
        action = LetHostGo(node=node, host=target_of_host(host), kept_off_by=host.annotations[KEPT_OFF_BY])
        yield _Found(key=f"host {host.uid}", action=action)


# Remediations of ours whose check is gone. Kubernetes deletes them by itself; this is for when it does not.


def _remediations(cluster: Cluster) -> Iterator[_Found]:
    orphans = [one for kind in _OUR_KINDS for one in _orphans(kind, cluster)]
    if not orphans or not _is_seen(medik8s.CHECKS, cluster):
        return
    unread = {item.key for item in cluster.unread if item.kind == "nodes"}
    for one in orphans:
        if one.node in unread:
            continue
        action = EndRemediation(
            check=one.owner,
            node=one.node,
            target=target(one),
            node_is_gone=one.node not in cluster.nodes,
            is_leftover=True,
        )
        yield _Found(key=f"remediation {one.uid}", action=action)


def _orphans(kind: KindRef, cluster: Cluster) -> Iterator[Remediation]:
    items = cluster.every(kind)
    checks = {check.uid for check in cluster.all_of(medik8s.CHECKS, NodeHealthCheck).values()} if items else ()
    for item in items:
        owners = item.metadata.owner_references or ()
        made_by_check = bool(owners) and all(
            (owner.api_version, owner.kind) == (medik8s.API_VERSION, medik8s.CHECK_KIND) for owner in owners
        )
        is_left = made_by_check and not any(owner.uid in checks for owner in owners)
        if is_left and item.metadata.deletion_timestamp is None:
            yield read_remediation(item, kind)


# Replicas that are gone, and agents of nodes that are.


def _members(cluster: Cluster) -> Iterator[_Found]:
    """Whoever is alive renews its Lease: no version of it stays. Whose clock is how far off does not matter."""
    for lease in cluster.members.leases if cluster.members is not None else ():
        if not _is_leavable(lease, cluster) or lease.labels.get(MANAGED_BY) != BY_US:
            continue
        meta = lease.metadata
        action = DropMember(namespace=meta.namespace, name=meta.name, uid=meta.uid, version=meta.resource_version)
        at_least = timedelta(seconds=max(lease.spec.lease_duration_seconds or 0, 0))
        yield _Found(key=f"member {meta.uid} {meta.resource_version}", action=action, at_least=at_least)


def _is_leavable(lease: Lease, cluster: Cluster) -> bool:
    """The agent of a node that is merely dead counts among those that must be heard."""
    is_of_agent = lease.labels.get(AGENT) == AGENT_VALUE
    return lease.name.startswith(MEMBER_PREFIX) or (is_of_agent and node_of(lease) not in cluster.nodes)


def _are_there(cluster: Cluster, rules: Rules) -> bool:
    return rules.has_members or any(True for _ in cluster.every(self_fencing.TEMPLATE))


def _reads(cluster: Cluster, rules: Rules) -> tuple[ReadMembers, ...]:
    seen = cluster.members
    if not _are_there(cluster, rules) or (seen is not None and cluster.now < seen.at + _read_pause(rules)):
        return ()
    return (ReadMembers(namespace=rules.namespace, after=seen.at if seen is not None else None),)


def _read_pause(rules: Rules) -> timedelta:
    return min(MEMBERS_READ, rules.leftover_age / 2)


def _next_look(cluster: Cluster, rules: Rules, search: _Search) -> datetime | None:
    """What nobody tells us of by a watch is looked for again at these."""
    moments = [search.at + _search_pause(rules)] if search.nodes is not cluster.nodes else []
    if _are_there(cluster, rules) and cluster.members is not None:
        moments.append(cluster.members.at + _read_pause(rules))
    return min((moment for moment in moments if moment > cluster.now), default=None)

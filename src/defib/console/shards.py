"""Which replica looks after what, as it stands in the Leases of all of them. Nothing is changed."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from defib.clock import SystemClock
from defib.config import Settings
from defib.console.nodes import the_node
from defib.console.session import Session, connected, forbidden
from defib.coordinate.keys import ADMISSION
from defib.coordinate.lock import MARKED
from defib.coordinate.seats import BUCKETS
from defib.coordinate.sharded import BUCKET_LEASE, MEMBER_LEASE
from defib.coordinate.shards import bucket_of
from defib.decide.answers.told import Told
from defib.kube.client import Client, Scope
from defib.kube.errors import Forbidden, NotFound
from defib.kube.kinds import LEASES, NODES
from defib.model.node import Lease

BASIS = (
    "By the times in the Leases and the API server's clock. Replicas count on clocks of their own, so they may know "
    "a few seconds earlier or later that one of them is silent."
)


class Grip(Told, frozen=True, kw_only=True):
    """Who has a lock, and when they last said so."""

    holder: str
    is_held: bool = msgspec.field(name="held")
    renewed: datetime | None


class MemberTold(Told, frozen=True, kw_only=True):
    name: str
    is_live: bool = msgspec.field(name="live")
    renewed: datetime | None
    buckets: tuple[int, ...]
    nodes: int | None  # None where nobody can say


class IdleTold(Told, frozen=True, kw_only=True):
    """A bucket that nobody has. Without `since`, nobody ever had it."""

    bucket: int
    had_by: str
    since: datetime | None
    nodes: int | None


class NodeTold(Told, frozen=True, kw_only=True):
    name: str
    exists: bool | None
    bucket: int
    holder: str  # empty: nobody


class Sharing(Told, frozen=True, kw_only=True):
    """`leader` is whoever leads in everything; or, where replicas share the work, whoever admits what is counted."""

    now: datetime
    is_shared: bool = msgspec.field(name="shared")
    leader: str
    renewed: datetime | None
    lock: str
    members: tuple[MemberTold, ...] = ()
    idle: tuple[IdleTold, ...] = ()
    node: NodeTold | None = None
    unknown: tuple[str, ...] = ()
    basis: str = BASIS

    @property
    def is_well(self) -> bool:
        """Whether everything is somebody's."""
        return not self.idle and bool(self.leader)


async def shards(settings: Settings, node: str = "") -> Sharing:
    """Raises NotDone."""
    async with connected(settings, SystemClock()) as session:
        return await look_at(session, settings, node)


async def look_at(
    session: Session, settings: Settings, node: str = "", *, known: Collection[str] | None = None
) -> Sharing:
    """`known` are the names of the nodes, where somebody has read them already. Raises NotDone."""
    namespace, now = settings.namespace, session.clock.now()
    leases = await _leases(session.client, namespace, settings.leader_lock)
    buckets = {
        number: _grip(leases[name], now) for number in range(BUCKETS) if (name := f"{BUCKET_LEASE}{number}") in leases
    }
    single = _grip(leases.get(settings.leader_lock), now)
    lock = f"{namespace}/{settings.leader_lock}"
    # Buckets that all are silent were left by replicas that have been told to do otherwise since.
    if not buckets or (single.is_held and not any(grip.is_held for grip in buckets.values())):
        if node:  # the answer is the same for all, but not for one that is not there
            await the_node(node, session.client, session.clock)
        return Sharing(
            now=now, is_shared=False, leader=_holder(single), renewed=single.renewed, lock=lock, node=None, idle=()
        )
    nodes, unknown = await _nodes(session.client) if known is None else (_in_buckets(known), ())
    admission = bucket_of(ADMISSION, BUCKETS)
    grips = {number: buckets.get(number, NOBODYS) for number in range(BUCKETS)}
    return Sharing(
        now=now,
        is_shared=True,
        leader=_holder(grips[admission]),
        renewed=grips[admission].renewed,
        lock=f"{namespace}/{BUCKET_LEASE}{admission}",
        members=_members(leases, grips, nodes, now),
        idle=tuple(_idle(number, grip, nodes) for number, grip in grips.items() if not grip.is_held),
        node=_node(node, grips, nodes) if node else None,
        unknown=unknown,
    )


NOBODYS = Grip(holder="", is_held=False, renewed=None)
Nodes = Mapping[str, int]
"""In which bucket each is."""


async def _leases(client: Client, namespace: str, leader_lock: str) -> dict[str, Lease]:
    """Those that replicas have made for themselves; and the lock of a single leader, whoever made it."""
    try:
        page = await client.list_all(LEASES, Scope(namespace=namespace, labels=MARKED))
        found = {lease.name: lease for lease in page.items}
        if leader_lock not in found:
            found[leader_lock] = await client.get(LEASES.at(leader_lock, namespace))
    except NotFound:
        return found
    except Forbidden as error:
        raise forbidden(error, "list", "leases", namespace) from error
    return found


async def _nodes(client: Client) -> tuple[Nodes | None, tuple[str, ...]]:
    try:
        page = await client.list_all(NODES)
    except Forbidden as error:
        return None, (f"how many nodes each has: {error}",)
    return _in_buckets(node.name for node in page.items), ()


def _in_buckets(names: Iterable[str]) -> Nodes:
    return {name: bucket_of(name, BUCKETS) for name in names}


def _grip(lease: Lease | None, now: datetime) -> Grip:
    if lease is None:
        return NOBODYS
    spec = lease.spec
    length = timedelta(seconds=min(max(spec.lease_duration_seconds or 0, 0), 10**8))
    is_held = bool(spec.holder_identity) and spec.renew_time is not None and now < spec.renew_time + length
    return Grip(holder=spec.holder_identity or "", is_held=is_held, renewed=spec.renew_time)


def _holder(grip: Grip) -> str:
    return grip.holder if grip.is_held else ""


def _members(
    leases: Mapping[str, Lease], grips: Mapping[int, Grip], nodes: Nodes | None, now: datetime
) -> tuple[MemberTold, ...]:
    """Those that say that they are there, and those that hold something all the same."""
    said = {
        grip.holder: grip
        for name, one in leases.items()
        if name.startswith(MEMBER_LEASE) and (grip := _grip(one, now)).holder
    }
    holding = {grip.holder for grip in grips.values() if grip.is_held}
    sizes = Counter(nodes.values()) if nodes is not None else None
    told = []
    for name in sorted(said.keys() | holding):
        grip = said.get(name, NOBODYS)
        has = tuple(number for number, one in grips.items() if one.is_held and one.holder == name)
        counted = sum(sizes[number] for number in has) if sizes is not None else None
        told.append(MemberTold(name=name, is_live=grip.is_held, renewed=grip.renewed, buckets=has, nodes=counted))
    return tuple(told)


def _idle(number: int, grip: Grip, nodes: Nodes | None) -> IdleTold:
    size = sum(one == number for one in nodes.values()) if nodes is not None else None
    return IdleTold(bucket=number, had_by=grip.holder, since=grip.renewed, nodes=size)


def _node(name: str, grips: Mapping[int, Grip], nodes: Nodes | None) -> NodeTold:
    number = bucket_of(name, BUCKETS)
    exists = name in nodes if nodes is not None else None
    return NodeTold(name=name, exists=exists, bucket=number, holder=_holder(grips[number]))

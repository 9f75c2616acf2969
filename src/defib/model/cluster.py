"""One consistent look at the cluster: what was there, when, and how well we could see it."""

from collections.abc import Collection, Mapping
from datetime import datetime
from functools import lru_cache
from typing import TypeVar

import msgspec

from defib.model.action import Action
from defib.model.agents import AgentsSeen
from defib.model.config_map import ConfigMap
from defib.model.evidence import Evidence
from defib.model.failure import Failure
from defib.model.health_check import KindRef
from defib.model.incident import INCIDENTS, NodeIncident
from defib.model.leftover import MembersSeen
from defib.model.meta import Resource, Unstructured
from defib.model.node import Lease, Node
from defib.model.power import FenceCheck, PowerSeen
from defib.model.pulse import Pulse
from defib.model.same import Same, Sieve

R = TypeVar("R", bound=Resource)

HEARTBEAT_NAMESPACE = "kube-node-lease"
HEARTBEATS = "heartbeats"  # by which name we speak of them
CONFIG_MAPS = "configmaps"


class Blindness(msgspec.Struct, frozen=True):
    """Since when we cannot trust what we know of a kind, and why."""

    kind: str
    since: datetime
    why: str


class Unread(msgspec.Struct, frozen=True):
    """An object that exists but that we could not read. Nothing may be decided about it."""

    kind: str
    key: str
    why: str


class Served(msgspec.Struct, frozen=True):
    """A kind that the API server has. Its objects are in `Cluster.others` under `collection`."""

    collection: str
    namespaced: bool


class Wanted(msgspec.Struct, frozen=True):
    """How a kind is wanted: in a namespace, or everywhere. One that can wait is asked for once in a while only."""

    namespace: str = ""
    can_wait: bool = False


class Missing(msgspec.Struct, frozen=True):
    """A kind that somebody names and the API server does not have, or that this operator has no part in."""

    why: str
    is_off: bool = False  # there may be some of it all the same, and they are not ours to touch


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot. Its maps and objects never change; the next look is another Cluster."""

    now: datetime
    nodes: Mapping[str, Node] = {}
    heartbeats: Mapping[str, Lease] = {}
    pulses: Mapping[str, Pulse] = {}  # by node, when we heard of it last and in which rhythm
    others: Mapping[str, Mapping[str, Resource]] = {}
    blind: tuple[Blindness, ...] = ()
    absent: Mapping[str, str] = {}  # kinds we can do without that are missing or forbidden, and the server's words
    unread: tuple[Unread, ...] = ()
    locks: Mapping[str, Lease] = {}  # by namespace/name, the locks on nodes
    kinds: Mapping[KindRef, Served | Missing] = {}  # what became of the kinds that checks name; absent: not asked yet
    doubts: tuple[str, ...] = ()  # why we should not trust our own sight, besides blindness
    underway: tuple[Action, ...] = ()  # begun and not ended: the world may change at any moment
    failures: Mapping[str, Failure] = {}  # by the key of an action
    power: Mapping[str, PowerSeen] = {}  # by the UID of an incident
    fences: Mapping[str, FenceCheck] = {}  # by node, when its power was last tried
    evidence: Mapping[str, tuple[Evidence, ...]] = {}  # by node, of those that have fallen silent
    claims: Mapping[str, frozenset[str]] = {}  # access modes of claims that somebody had to know, by namespace/name
    members: MembersSeen | None = None  # of replicas that share the work; None while nobody has looked
    agents: AgentsSeen | None = None  # of all nodes; None while nobody listens to them
    server: tuple[int, int] = (0, 0)  # the API server's version; zero when nobody has asked

    def heartbeat_of(self, node: str) -> Lease | None:
        return self.heartbeats.get(f"{HEARTBEAT_NAMESPACE}/{node}")

    def all_of(self, collection: str, kind: type[R]) -> Mapping[str, R]:  # noqa: ARG002  it types the answer
        """The objects of a kind that not every cluster has; none when it is not followed."""
        return self.others.get(collection, {})  # type: ignore[return-value]  # a shelf holds its own kind only

    def every(self, kind: KindRef) -> Collection[Unstructured]:
        """The objects of a kind that was unknown at build time; none when the cluster does not have it."""
        served = self.kinds.get(kind)
        if not isinstance(served, Served):
            return ()
        return self.others.get(served.collection, {}).values()  # type: ignore[return-value]  # as in all_of

    def incidents(self) -> Mapping[str, NodeIncident]:
        """Those of power cycles, by node, since each is named after its own."""
        return _sorts(Same(self.all_of(INCIDENTS, NodeIncident))).power_cycles

    def accounts(self) -> Mapping[str, NodeIncident]:
        """Those of all other remediations, by their own names. Nothing is decided by them."""
        return _sorts(Same(self.all_of(INCIDENTS, NodeIncident))).accounts

    def config_map(self, key: str) -> ConfigMap | None:
        return self.all_of(CONFIG_MAPS, ConfigMap).get(key)

    @property
    def complete(self) -> bool:
        """Whether every kind we follow is seen as it is now."""
        return not self.blind


class _Sorts(msgspec.Struct, frozen=True):
    power_cycles: Mapping[str, NodeIncident]
    accounts: Mapping[str, NodeIncident]


@lru_cache(maxsize=4)  # whoever looks again at what has not changed gets the very same maps, and knows it by that
def _sorts(same: Same[Mapping[str, NodeIncident]]) -> _Sorts:
    return _Sorts(_POWER_CYCLES.of(same.value), _ACCOUNTS.of(same.value))


_POWER_CYCLES = Sieve[NodeIncident](lambda one: not one.is_account)
_ACCOUNTS = Sieve[NodeIncident](lambda one: one.is_account)

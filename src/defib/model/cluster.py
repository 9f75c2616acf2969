"""One consistent look at the cluster: what was there, when, and how well we could see it."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from defib.model.meta import Resource
from defib.model.node import Lease, Node

HEARTBEAT_NAMESPACE = "kube-node-lease"


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


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot. Its maps and objects never change; the next look is another Cluster."""

    now: datetime
    nodes: Mapping[str, Node] = {}
    heartbeats: Mapping[str, Lease] = {}
    others: Mapping[str, Mapping[str, Resource]] = {}
    blind: tuple[Blindness, ...] = ()
    unread: tuple[Unread, ...] = ()

    def heartbeat_of(self, node: str) -> Lease | None:
        return self.heartbeats.get(f"{HEARTBEAT_NAMESPACE}/{node}")

    @property
    def complete(self) -> bool:
        """Whether every kind we follow is seen as it is now."""
        return not self.blind

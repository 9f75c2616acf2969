"""The Lease of this node and those of its peers: what is written into ours, and what is read from theirs."""

from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any

import msgspec

from defib.agent.answering import Found
from defib.agent.asking import Address
from defib.agent.words import FIND_SECONDS, Word
from defib.clock import Clock
from defib.decide.self_fence.verdict import Peer
from defib.forms import PORT_MAX
from defib.kube.client import Client, Merge, Scope
from defib.kube.errors import KubeError, NotFound
from defib.kube.kinds import LEASES, NODES
from defib.model.leftover import BY_US, MANAGED_BY
from defib.model.node import ZONE_LABEL, Lease
from defib.model.self_fence import (
    LABEL,
    LABEL_VALUE,
    REPORT,
    Report,
    domain_of,
    lease_name,
    node_of,
    read_order,
    read_report,
    text_of,
)


class Neighbour(msgspec.Struct, frozen=True):
    """Another agent: for counting, and for asking. Without an address it counts and cannot be asked."""

    peer: Peer
    address: Address | None


class Leases:
    """All requests of an agent. Its own have so many seconds each. They raise KubeError, if nothing else is said."""

    def __init__(self, client: Client, namespace: str, node: str, seconds: float, clock: Clock) -> None:
        self._client = client
        self._namespace = namespace
        self._node = node
        self._own = LEASES.at(lease_name(node), namespace)
        self._seconds = seconds
        self._clock = clock

    async def domain(self) -> str:
        """Where this node stands, as its own object says."""
        node = await self._client.get(NODES.at(self._node), deadline=self._seconds)
        return node.labels.get(ZONE_LABEL, "")

    async def renew(self, report: Report) -> Lease:
        """One request, whose answer is the Lease with whatever order is in it."""
        body = _body(report, self._node, self._clock.now())
        # Nobody asks which field is whose, and keeping book of that is a quarter of what a renewal costs the API server.
        body["metadata"]["managedFields"] = [{}]
        try:
            return await self._client.patch(self._own, Merge(body), deadline=self._seconds)
        except NotFound:
            return await self._make(report)

    async def _make(self, report: Report) -> Lease:
        body = _body(report, self._node, self._clock.now())
        body["metadata"]["name"] = self._own.name
        return await self._client.create(LEASES, body, namespace=self._namespace, deadline=self._seconds)

    async def all(self) -> list[Lease]:
        """Of all agents, ours among them."""
        scope = Scope(namespace=self._namespace, labels=f"{LABEL}={LABEL_VALUE}")
        return (await self._client.list_all(LEASES, scope, deadline=self._seconds)).items

    async def look(self, node: str) -> Found:
        """What the API server has for a peer. Raises nothing. A Lease that is gone took its order along: that is no word."""
        try:
            lease = await self._client.get(LEASES.at(lease_name(node), self._namespace), deadline=FIND_SECONDS)
        except NotFound:
            return Found(Word.UNKNOWN)
        except KubeError:
            return Found(Word.CUT_OFF)
        return Found(Word.REACHED, read_order(lease))


def _body(report: Report, node: str, now: datetime) -> dict[str, Any]:
    return {
        "metadata": {"labels": {LABEL: LABEL_VALUE, MANAGED_BY: BY_US}, "annotations": {REPORT: text_of(report)}},
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": round(report.pace.patience_seconds),
            "renewTime": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        },
    }


def neighbours(leases: list[Lease], me: str) -> tuple[Neighbour, ...]:
    """All other agents. One whose report we cannot read is known all the same, and silent."""
    return tuple(_neighbour(lease) for lease in leases if node_of(lease) != me)


def _neighbour(lease: Lease) -> Neighbour:
    node, report = node_of(lease), read_report(lease)
    return Neighbour(Peer(node, domain_of(lease)), _address(node, report) if report else None)


def _address(node: str, report: Report) -> Address | None:
    """Others wrote it: what is no address is never connected to."""
    try:
        host = str(ip_address(report.address))
    except ValueError:
        return None
    return Address(node, host, report.port) if 0 < report.port <= PORT_MAX else None

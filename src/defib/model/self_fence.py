"""What the agent of a node and the operator tell each other, in one Lease per node.

The agent renews the Lease and says in an annotation how it really works; the operator writes into another one that a boot
of the node is meant to die. The API server puts both in one order: whoever writes second has seen what the first wrote.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from defib.model.meta import Resource
from defib.model.node import Lease

LABEL = "defib.dev/agent"
LABEL_VALUE = "node"
REPORT = "defib.dev/agent"
ORDER = "defib.dev/fence"

PEERS_EVERY, PEERS_EVERY_MAX = 14, 80  # requests: so often an agent reads who its peers are
AGENTS_PER_REQUEST = 12

Kind = Literal["device", "software"]
# Whoever reads a report relies on it: a time that makes no sense makes the whole report unreadable.
Seconds = Annotated[float, msgspec.Meta(gt=0, le=86400)]


class Pace(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How often an agent asks, and how long it waits. Agents of one cluster need not have the same."""

    interval_seconds: Seconds
    request_seconds: Seconds
    failures: Annotated[int, msgspec.Meta(ge=1, le=1000)]
    peer_seconds: Seconds

    @property
    def retry_seconds(self) -> float:
        """From one request that gets no answer to the next."""
        return min(2 * self.request_seconds, self.interval_seconds)

    @property
    def fresh_seconds(self) -> float:
        """So long an answer of the API server is new: then so many requests have had none, and peers are asked."""
        return self.interval_seconds + (self.failures - 1) * self.retry_seconds + self.request_seconds

    @property
    def patience_seconds(self) -> float:
        """So long an agent lives by one word, counted from when it began to ask for it."""
        return self.fresh_seconds + self.peer_seconds

    @property
    def recent_seconds(self) -> float:
        """So far apart are two renewals of an agent that is well: in between it may read who its peers are."""
        return 2 * self.interval_seconds + self.request_seconds

    @property
    def late_seconds(self) -> float:
        """So old may be what arrives: a request is given up after a time, and what was sent of it may arrive as much later."""
        return 2 * self.request_seconds


class Report(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How an agent really works. What is not `armed` does not die by itself.

    `answered_seconds`: so long ago it began to ask what the API server answered last. `steady_seconds`: for so long it has told
    no peer that it is cut off. `known` is how many agents of each failure domain it knows, itself among them: by their word it
    may live when it is cut off.
    """

    pace: Pace
    watchdog: Kind
    watchdog_seconds: Seconds
    feed_seconds: Seconds
    armed: bool
    boot_id: str
    address: str
    port: int
    domain: str
    version: str
    answered_seconds: float
    steady_seconds: float
    known: Mapping[str, Annotated[int, msgspec.Meta(gt=0)]]


class Order(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One boot of the node is meant to die. Any other boot is not.

    It counts only for as long as it stands in the Lease: whoever waits for the node to be dead looks whether it still does, in
    a Lease with the same UID, and whether the report beside it was `armed` and of that boot when it was written.
    """

    remediation: str
    boot_id: str


def peers_every(agents: int) -> int:
    """So many requests of an agent are from one list of all agents to the next: where many list many, the API server has work."""
    return min(max(PEERS_EVERY, agents // AGENTS_PER_REQUEST), PEERS_EVERY_MAX)


def lease_name(node: str) -> str:
    return f"defib-agent-{node}"


def node_of(lease: Resource) -> str:
    return lease.name.removeprefix("defib-agent-")


def read_report(lease: Lease) -> Report | None:
    """None where no agent has spoken, or one that we do not understand: it must not be relied on."""
    try:
        return msgspec.json.decode(lease.annotations.get(REPORT, ""), type=Report)
    except msgspec.DecodeError:
        return None


def domain_of(lease: Lease) -> str:
    """In which failure domain its agent counts. One that cannot be read is alone in its own, for agents and operator alike."""
    report = read_report(lease)
    return f"unknown {node_of(lease)}" if report is None else report.domain


def read_order(lease: Lease) -> Order | None:
    """None also for one that cannot be read: it is not by an operator, which writes its own and reads it back."""
    try:
        return msgspec.json.decode(lease.annotations.get(ORDER, ""), type=Order)
    except msgspec.DecodeError:
        return None


def text_of(said: Report | Order) -> str:
    """As it stands in the annotation."""
    return msgspec.json.encode(said).decode()

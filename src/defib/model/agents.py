"""The agents of all nodes, as the operator hears them: lists of their Leases, read from the API server one after the other.

Every number is what is certain. A renewal that shows in one list and not in the one before it came somewhere in between.
"""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from defib.model.node import Lease
from defib.model.self_fence import Order, Report


class AgentSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One agent, by the clock of this process. All seconds are up to the latest list, but `silent_seconds` is up to now."""

    domain: str
    report: Report | None  # None where none can be read
    order: Order | None
    known_seconds: float  # since its Lease was made
    silent_seconds: float  # at most, since its newest renewal; infinite until one was seen
    quiet_seconds: float  # at least, since its newest renewal
    renewed_seconds: float  # since its newest renewal; where none was seen, as it says itself
    ordered_seconds: float = 0.0  # at least, for which this order has stood without a break


class AgentsSeen(msgspec.Struct, frozen=True):
    at: datetime  # of the latest list
    by_node: Mapping[str, AgentSeen]


class AgentsListed(msgspec.Struct, frozen=True, kw_only=True):
    """One list, and between which moments of the monotonic clock it was true."""

    at: datetime
    asked: float
    answered: float
    leases: tuple[Lease, ...]


class HearAgents(msgspec.Struct, frozen=True, kw_only=True):
    """List the Leases of all agents, as they are now. Changes nothing."""

    namespace: str
    after: datetime | None = None  # when that was last done

    @property
    def key(self) -> str:
        return f"hear agents in {self.namespace}"


class DistrustNode(msgspec.Struct, frozen=True, kw_only=True):
    """Write on a Node that it had not rebooted when it had to, so that nobody relies on that again."""

    node: str
    node_uid: str
    since: datetime

    @property
    def key(self) -> str:
        return f"distrust {self.node}"


AgentAction = HearAgents | DistrustNode

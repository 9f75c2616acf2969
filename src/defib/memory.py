"""What this process has found out by asking, beside what it watches: power, claims, agents, other replicas."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from defib.act.outcome import (
    AgentsHeard,
    ClaimRead,
    EvidenceGathered,
    MembersRead,
    Outcome,
    PowerChecked,
    PowerRead,
    PowerSwitched,
)
from defib.clock import Clock
from defib.decide.evidence import FRESH
from defib.decide.remediators import OwnWork
from defib.model.action import Action, CheckPower, GatherEvidence, ReadClaim, ReadPower, SwitchPower
from defib.model.agents import HearAgents
from defib.model.cluster import Cluster
from defib.model.evidence import Evidence
from defib.model.leftover import MembersSeen, ReadMembers
from defib.model.power import Look
from defib.observe.agent_memory import AgentMemory
from defib.observe.cache import Cache
from defib.observe.claim_memory import ClaimMemory
from defib.observe.power_memory import PowerMemory


class Memory:
    def __init__(self, cache: Cache, clock: Clock) -> None:
        self._cache = cache
        self._clock = clock
        self.power = PowerMemory()
        self.claims = ClaimMemory()
        self.agents = AgentMemory()
        self.members: MembersSeen | None = None
        self.evidence: Mapping[str, tuple[Evidence, ...]] = {}

    def remember(self, action: Action, outcome: Outcome) -> None:
        match action, outcome:
            case ReadPower(), PowerRead(reading, can_read):
                look = Look(reading, self._heartbeat(action.node), action.path)
                self.power.read(action.incident_uid, look, can_read=can_read)
            case SwitchPower(), PowerSwitched(sent):
                self.power.sent(action.incident.uid, msgspec.structs.replace(sent, path=action.path))
            case CheckPower(), PowerChecked(check):
                self.power.checked(action.node, check)
            case ReadClaim(), ClaimRead(modes):
                self.claims.read(f"{action.namespace}/{action.name}", modes)
            case GatherEvidence(), EvidenceGathered(evidence):
                self.evidence = {**self.evidence, action.node: evidence}
            case ReadMembers(), MembersRead(seen):
                self.members = seen
            case HearAgents(), AgentsHeard(listed):
                self.agents.heard(listed)

    def keep_only(self, own: OwnWork, cluster: Cluster) -> None:
        old = cluster.now - FRESH
        if any(said[0].at < old for said in self.evidence.values()):
            self.evidence = {name: said for name, said in self.evidence.items() if said[0].at >= old}
        self.power.keep_only(own.fencing.open, cluster.nodes)
        self.claims.keep_only(own.claims)
        if not own.fencing.hears:
            self.agents.forget()

    def _heartbeat(self, node: str) -> datetime | None:
        lease = self._cache.snapshot(self._clock.now()).heartbeat_of(node)
        return lease.spec.renew_time if lease is not None else None

"""A node that is ordered to take itself down: when it counts as dead, and when it shows that it never was.

    ordered ──▶ its order stands, and nobody hears of the node ──▶ the safe time is over, enough others are heard ──▶ proof
                  │                                        └─────▶ its agent reports another boot ─────────────────▶ proof
                  └─▶ the same boot reports after the safe time: its watchdog did not fire, and it is not believed again

What is heard of agents is a list from a moment ago, so every condition holds for what is certain, and not for what is likely.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from defib.decide.self_fence.heard import Heard, Meant, Witness, enough_heard
from defib.decide.self_fence.safe_time import lives_seconds, safe_time
from defib.model.agents import AgentSeen, DistrustNode, HearAgents
from defib.model.cluster import Cluster
from defib.model.incident import Grade, NodeIncident, Phase, Proof, SafeTime
from defib.model.power import AGENT
from defib.model.self_fencing import NEVER_REBOOTED

if TYPE_CHECKING:
    from defib.decide.fencing.case import Case

HEARD_SECONDS = 2.0
CLOCKS_DIFFER = timedelta(minutes=1)  # a word from later than that is not about now
NOBODY_HEARD = Heard(0, 0)
_HEARING = frozenset({Phase.POWERING_OFF, Phase.FREEING, Phase.POWERING_ON, Phase.RETURNING, Phase.CANCELLING})


def is_by_agent(case: "Case") -> bool:
    return case.path is not None and case.path.driver == AGENT


def needs_agents(incident: NodeIncident) -> bool:
    """Whether somebody has to listen to agents because of it."""
    power = incident.status.power
    return power is not None and power.driver == AGENT and incident.status.phase in _HEARING


def agent_of(case: "Case") -> AgentSeen | None:
    agents = case.cluster.agents
    return agents.by_node.get(case.order.node) if agents is not None and is_by_agent(case) else None


def ordered(case: "Case") -> AgentSeen | None:
    """Its agent, if an order stands for the boot that this incident is about."""
    agent, boot = agent_of(case), case.status.boot_id
    is_ordered = agent is not None and agent.order is not None and bool(boot) and agent.order.boot_id == boot
    return agent if is_ordered else None


def lacks_order(case: "Case", sent: datetime) -> bool:
    """Whether the order that was written is gone: somebody deleted the Lease, or took it out."""
    agents = case.cluster.agents
    return agents is not None and agents.at > sent and ordered(case) is None


def safe_time_of(case: "Case") -> SafeTime | None:
    """By what the agent reports of the boot that is meant; or as it was written down, once another boot reports."""
    agent = ordered(case)
    if agent is None or agent.report is None or agent.report.boot_id != case.status.boot_id:
        return case.status.safe_time
    return safe_time(agent.report)


def heard_by(case: "Case", time: SafeTime, dead_by_seconds: float = 0.0) -> Heard:
    agents, agent = case.cluster.agents, agent_of(case)
    if agents is None or agent is None or agent.report is None:
        return NOBODY_HEARD  # nobody can say whom it knows
    witnesses = (
        Witness(
            node=node,
            domain=one.domain,
            report=one.report,
            silent_seconds=one.silent_seconds,
            known_seconds=one.known_seconds,
        )
        for node, one in agents.by_node.items()
    )
    meant = Meant(
        node=case.order.node,
        known=agent.report.known,
        lives_seconds=lives_seconds(time),
        safe_seconds=time.seconds,
        ordered_seconds=agent.ordered_seconds,
        answered_seconds=agent.renewed_seconds + agent.report.answered_seconds,
        interval_seconds=agent.report.pace.interval_seconds,
        dead_by_seconds=dead_by_seconds,
    )
    return enough_heard(witnesses, meant)


def told_seconds(case: "Case") -> float:
    """So long after the safe time is over the others have told of it, if they report as often as this one did."""
    agent = agent_of(case)
    if agent is None or agent.report is None:
        return 0.0
    return agent.report.pace.recent_seconds + agent.report.pace.late_seconds + HEARD_SECONDS


def is_silent(case: "Case", agent: AgentSeen) -> bool:
    """Neither the agent nor the kubelet of the boot that is meant has been heard. An agent of another boot is no sign of it."""
    report = agent.report
    has_new_boot = report is not None and report.boot_id != case.status.boot_id
    is_quiet = has_new_boot or (report is not None and agent.quiet_seconds >= report.pace.recent_seconds)
    return is_quiet and case.is_silent_since(_ordered_at(case, agent))


def proof_by_agent(case: "Case") -> Proof | None:
    """Not once the Node tells of another boot: its kubelet has run there, whatever has become of it."""
    agent, time = ordered(case), safe_time_of(case)
    if agent is None or agent.report is None or case.is_new or not is_silent(case, agent):
        return None
    began = f"at {_ordered_at(case, agent).astimezone(UTC):%H:%M:%S} UTC it stood written that it takes itself down"
    if agent.report.boot_id != case.status.boot_id:
        how = f"{began}, and its agent has reported another boot since, earlier than {time or 'any time could tell'}"
        return Proof(grade=Grade.TIME, at=case.cluster.now, how=how)
    if time is None:
        return None
    heard = heard_by(case, time)
    if agent.ordered_seconds < time.seconds or not agent.report.armed or not heard.enough:
        return None
    how = f"{began}, and {time} have passed; neither its agent nor its kubelet was heard since, and {heard}"
    return Proof(grade=Grade.TIME, at=case.cluster.now, how=how)


def is_proved(case: "Case") -> bool:
    proof = case.status.proof
    return is_by_agent(case) and proof is not None and proof.grade is Grade.TIME


def is_still_silent(case: "Case") -> bool:
    """Whether this very process hears nothing of it, so that what is written down is not from another time."""
    agent = ordered(case)
    return not is_proved(case) or (agent is not None and is_silent(case, agent) and not has_outlived(case))


def has_started_anew(case: "Case") -> bool:
    """Its kubelet says so: nothing has to be freed by force, it is waited for."""
    return is_by_agent(case) and case.was_commanded and case.is_new


def has_outlived(case: "Case") -> bool:
    """Whether the same boot is heard of after it had to be dead."""
    return _has_reported(case) or _has_returned(case)


def _has_reported(case: "Case") -> bool:
    agent, time, proof = ordered(case), safe_time_of(case), case.status.proof
    if agent is None or agent.report is None or time is None or agent.report.boot_id != case.status.boot_id:
        return False
    if is_proved(case) and proof is not None:
        return agent.silent_seconds < (case.cluster.now - proof.at).total_seconds()
    # Where too few are heard it may live rightly: most domains are cut off, and tell each other so.
    return heard_by(case, time, agent.silent_seconds).enough


def _has_returned(case: "Case") -> bool:
    proof, ready = case.status.proof, case.node.condition("Ready") if case.node is not None else None
    if not is_proved(case) or proof is None or ready is None or not case.is_alive or case.is_new:
        return False
    # It was not ready when it was proved. What Kubernetes says of a node that has just come back may be from before.
    changed = ready.last_transition_time
    return changed is None or changed > proof.at - CLOCKS_DIFFER


def is_exposed(case: "Case") -> bool:
    """That, and it stands on its Node, if there is one, so that it is not forgotten."""
    return has_outlived(case) and (case.node is None or NEVER_REBOOTED in case.node.annotations)


def expose(case: "Case") -> tuple[DistrustNode, ...]:
    if case.node is None or not has_outlived(case) or is_exposed(case):
        return ()
    return (DistrustNode(node=case.node.name, node_uid=case.node.uid, since=case.cluster.now),)


def listen(namespace: str, incidents: Iterable[NodeIncident], cluster: Cluster) -> tuple[HearAgents, ...]:
    """Again and again, for as long as one of them needs it."""
    if not any(map(needs_agents, incidents)) or next_list(cluster) > cluster.now:
        return ()
    return (HearAgents(namespace=namespace, after=_last_list(cluster)),)


def next_list(cluster: Cluster) -> datetime:
    return cluster.agents.at + timedelta(seconds=HEARD_SECONDS) if cluster.agents is not None else cluster.now


def _last_list(cluster: Cluster) -> datetime | None:
    return cluster.agents.at if cluster.agents is not None else None


def _ordered_at(case: "Case", agent: AgentSeen) -> datetime:
    return case.cluster.now - timedelta(seconds=agent.ordered_seconds)

"""The fast path of a check: a node that has fallen silent is asked after at once, and not after Kubernetes' own minute.

Silence is only a suspicion. What makes it count is evidence from other sides, judged by the table in evidence.py; and then
the node is unhealthy as any other is: all gates hold, and nothing is freed before its machine was proved to be off.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from zlib import crc32

import msgspec

from defib.decide.census import Census, Trouble
from defib.decide.entries import stamp_exactly
from defib.decide.evidence import ACTED_ON, Facts, Row, conclude, facts_from, fresh, is_log_wanted, missing
from defib.decide.fencing.policy import read_policy
from defib.decide.ground import ByNode, Ground
from defib.decide.machine_state import said_of_machine
from defib.decide.suspicion import Suspicion
from defib.model.action import Because
from defib.model.cluster import Cluster
from defib.model.evidence import Evidence, GatherEvidence, Says, Source
from defib.model.health_check import Check, FastPath, TemplateRef
from defib.model.meta import Unstructured
from defib.model.node import Node
from defib.model.power import FenceCheck, PowerState
from defib.model.power_cycle import Policy, template_spec
from defib.model.pulse import Pulse
from defib.model.remediation import SILENT_SINCE
from defib.model.target import HEARTBEAT, MISSED

ASK_AGAIN = timedelta(seconds=5)
CROWD_LEAST = 2  # so many may be late at once, whatever the share
CROWD_SHARE = 0.2
NEIGHBOURS = 3
ZONE = "topology.kubernetes.io/zone"
_POWER = {PowerState.ON: Says.ON, PowerState.OFF: Says.OFF, PowerState.UNKNOWN: Says.UNKNOWN}


class Thought(msgspec.Struct, frozen=True, kw_only=True):
    """What is thought of one silent node, by what, and what would still have to be known to act on it."""

    since: datetime
    facts: Facts
    row: Row
    lacks: tuple[Source, ...] = ()
    said: tuple[Evidence, ...] = ()  # by whom, and when, as far as it counts

    @property
    def is_acted_on(self) -> bool:
        return self.row.conclusion in ACTED_ON and not self.lacks

    @property
    def message(self) -> str:
        if self.row.conclusion in ACTED_ON and self.lacks:
            because = f"{self.row.because}; but the check also asks for the word of: {', '.join(self.lacks)}"
        else:
            because = self.row.because
        return f"{because} [{'; '.join(map(str, self.said))}]" if self.said else because


class Haste(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that are unhealthy without Kubernetes having said so, what to ask, and what is thought of the silent ones."""

    troubles: Mapping[str, Trouble] = {}
    asks: tuple[GatherEvidence, ...] = ()
    thoughts: Mapping[str, Thought] = {}
    wake_at: datetime | None = None
    why_not: str = ""  # a fast path is asked for and not taken


NO_HASTE = Haste()


def hasten(check: Check, census: Census, ground: Ground, suspicion: Suspicion) -> Haste:
    owned = ground.by_check.get(check.name, {})
    begun = dict(_still_silent(owned, ground.cluster))
    path, why_not = check.fast_path, why_not_taken(check, lambda ref: ground.template(ref.kind, ref.key))
    if path is None or why_not:
        return Haste(troubles=begun, why_not=why_not) if begun or why_not else NO_HASTE
    silent = dict(_candidates(path, census, owned, ground.cluster, suspicion))
    crowd = crowd_of(ground.cluster) if silent else ""
    thoughts = {name: _think(name, pulse, path, ground.cluster, crowd) for name, pulse in silent.items()}
    concluded = {
        name: Trouble(
            _due(silent[name], path), Because(HEARTBEAT, MISSED, _renewed(name, ground.cluster), thought.message)
        )
        for name, thought in thoughts.items()
        if thought.is_acted_on
    }
    asks = () if crowd else tuple(_asks(silent, thoughts, census, ground.cluster))
    return Haste(
        troubles=concluded | begun,
        asks=asks,
        thoughts=thoughts,
        wake_at=ground.now + ASK_AGAIN if silent else None,
    )


def why_not_taken(check: Check, template: Callable[[TemplateRef], Unstructured | None]) -> str:
    """Why a fast path that is asked for is not taken: workloads could be freed by less than it asks for."""
    path, ref = check.fast_path, check.steps[0].template if check.steps else None
    item = template(ref) if path is not None and ref is not None else None
    if path is None or item is None:  # without a template the check does nothing at all, and says so
        return ""
    policy = read_policy(template_spec(item), node="")
    if not isinstance(policy, Policy):
        return f"{ref} makes no sense, so nobody knows what it takes for a proof: {policy[0]}"
    less = ", ".join(grade for grade in policy.accepts if grade not in path.proof)
    if not less:
        return ""
    return (
        f"{ref} also accepts proofs of grade {less}, and the fast path asks for {' or '.join(path.proof)}; "
        f"take {less} out of its acceptedProofs, or add it to fastPath.proof"
    )


def crowd_of(cluster: Cluster) -> str:
    """Why it may not be the nodes' own fault that they are silent; empty when there is no reason to think so.

    Each has its own moment in which to speak. When the first of many misses its second one, all others have missed one.
    """
    now = cluster.now.timestamp()
    late, known = sum(pulse.due(1) <= now for pulse in cluster.pulses.values()), len(cluster.pulses)
    return f"{late} of {known} nodes are late at once" if late > max(CROWD_LEAST, CROWD_SHARE * known) else ""


def _still_silent(owned: ByNode, cluster: Cluster) -> Iterator[tuple[str, Trouble]]:
    """Those that were remediated for their silence, until they are heard. What Kubernetes says of them may be old."""
    for name, remediations in owned.items():
        renewed = _renewed(name, cluster)
        for one in remediations:
            since = one.annotations.get(SILENT_SINCE)
            if since is not None and (renewed is None or since == stamp_exactly(renewed)):
                at = one.created or cluster.now
                yield name, Trouble(at - timedelta(microseconds=1), Because(HEARTBEAT, MISSED, renewed))
                break


def _candidates(
    path: FastPath, census: Census, owned: ByNode, cluster: Cluster, suspicion: Suspicion
) -> Iterator[tuple[str, Pulse]]:
    """Silent long enough for this check, still ready as far as Kubernetes knows, and nothing has been begun."""
    now = cluster.now.timestamp()
    for name in sorted(suspicion.silent.keys() & census.selected):
        pulse, node = suspicion.silent[name], cluster.nodes.get(name)
        trouble = census.troubled.get(name)
        is_open = node is not None and name not in owned and not (trouble and trouble.is_unhealthy(cluster.now))
        if is_open and pulse.due(path.missed) <= now:
            yield name, pulse


def _think(name: str, pulse: Pulse, path: FastPath, cluster: Cluster, crowd: str) -> Thought:
    fence, since = cluster.fences.get(name), _due(pulse, path)
    said = (*cluster.evidence.get(name, ()), *_of_power(fence), *said_of_machine(name, fence, _heard(pulse), cluster))
    facts = facts_from(said, since, cluster.now, crowd)
    return Thought(
        since=since,
        facts=facts,
        row=conclude(facts),
        lacks=missing(facts, path.evidence),
        said=tuple(fresh(said, since, cluster.now)),
    )


def _of_power(check: FenceCheck | None) -> tuple[Evidence, ...]:
    if check is None:
        return ()
    says = Says.UNKNOWN if check.why_not else _POWER[check.state]
    return (Evidence(Source.POWER, says, check.at, check.why_not),)


def _asks(
    silent: Mapping[str, Pulse], thoughts: Mapping[str, Thought], census: Census, cluster: Cluster
) -> Iterator[GatherEvidence]:
    for name, pulse in silent.items():
        known = cluster.evidence.get(name, ())
        last = max((one.at for one in known), default=None)
        if thoughts[name].is_acted_on or (last is not None and cluster.now < last + ASK_AGAIN):
            continue
        node: Node = census.nodes[name]
        fence = cluster.fences.get(name)
        yield GatherEvidence(
            node=name,
            node_uid=node.uid,
            renewed=_renewed(name, cluster),
            heard=_heard(pulse),
            neighbours=neighbours_of(node, cluster),
            log=fence.path if fence is not None and is_log_wanted(thoughts[name].facts) else None,
            after=last,
        )


def neighbours_of(node: Node, cluster: Cluster) -> tuple[str, ...]:
    """A few that should answer: of its own zone, if there are any, and not always the same ones for everybody."""
    now, zone = cluster.now.timestamp(), node.labels.get(ZONE)
    well = [one for name, one in cluster.nodes.items() if (pulse := cluster.pulses.get(name)) and pulse.due(1) > now]
    near = [one for one in well if one.labels.get(ZONE) == zone and one.name != node.name]
    ranked = sorted(near or well, key=lambda one: crc32(f"{node.name} {one.name}".encode()))
    return tuple(one.name for one in ranked[:NEIGHBOURS])


def _renewed(name: str, cluster: Cluster) -> datetime | None:
    lease = cluster.heartbeat_of(name)
    return lease.spec.renew_time if lease is not None else None


def _heard(pulse: Pulse) -> datetime:
    return datetime.fromtimestamp(pulse.heard, UTC)


def _due(pulse: Pulse, path: FastPath) -> datetime:
    return datetime.fromtimestamp(pulse.due(path.missed), UTC)

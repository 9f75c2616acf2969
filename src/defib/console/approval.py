"""A person's approval of what a check or a DrainPolicy in mode Approve wants to do to a node, for a limited time."""

from collections.abc import Mapping
from datetime import timedelta

import msgspec

from defib.clock import Clock, SystemClock
from defib.config import Settings
from defib.console.look import look
from defib.console.nodes import unknown_node
from defib.console.session import NotDone, connected, forbidden, who
from defib.decide.admission import APPROVED_BY, APPROVED_UNTIL
from defib.decide.answers.node import verdicts_of
from defib.decide.drains.reading import read_policy
from defib.decide.entries import stamp
from defib.decide.gates import first_closed
from defib.decide.outlook import outlook
from defib.decide.plan import Plan, decide
from defib.decide.rejection import REJECTED
from defib.decide.rules import Rules
from defib.kube.client import Client, Merge
from defib.kube.discovery import Discovery
from defib.kube.errors import Conflict, Forbidden, NotFound, UnknownKind
from defib.kube.kinds import NODES, R, Ref
from defib.model import node_drain
from defib.model.cluster import Cluster
from defib.model.drain_policy import POLICY, Policy
from defib.model.health_check import Check, KindRef, Mode
from defib.model.meta import Unstructured
from defib.model.node import Node
from defib.model.node_drain import DRAIN, DrainStatus, Phase, read_drain_status
from defib.model.verdict import State, Verdict

# A drain in such a phase has nothing that could be approved, now or later.
_OVER = {
    Phase.DRAINED: "its drain is over: no pod is left that would have to go",
    Phase.PAUSED: "its drain was broken off: nobody drains it now",
}


async def approve(node: str, length: timedelta, settings: Settings, rules: Rules) -> str:
    """One line that says what is now so. Raises NotDone."""
    async with connected(settings, SystemClock()) as session:
        return await grant(node, length, session.client, session.clock, rules)


async def grant(node: str, length: timedelta, client: Client, clock: Clock, rules: Rules) -> str:
    cluster = (await look(client, clock, rules)).cluster
    if node not in cluster.nodes:
        raise unknown_node(node, cluster)
    verdicts = verdicts_of(node, cluster, plan := decide(cluster, rules))
    waiting = waiting_of(verdicts, plan)
    if not waiting:
        raise NotDone(f"nothing waits for approval on node {node}: {why_not(verdicts, plan)}")
    until = stamp(clock.now() + length)
    words = {APPROVED_UNTIL: until, APPROVED_BY: await who(client) or None, REJECTED: None}
    approved = await annotate(client, cluster.nodes[node], words)
    after = msgspec.structs.replace(cluster, nodes={**cluster.nodes, node: approved})
    then = decide(after, rules)
    ahead = {one.check: _ahead(one, after, then) for one in verdicts_of(node, after, then)}
    told = "; ".join(f"check {check} ({state.value}): {ahead[check]}" for check, state in waiting.items())
    return f"node {node} may be remediated until {until}; {told}"


def waiting_of(verdicts: tuple[Verdict, ...], plan: Plan) -> dict[str, State]:
    """The checks that wait for a person, or may soon, and what they think of the node."""
    return {verdict.check: verdict.state for verdict in verdicts if _waits(verdict, plan)}


def _waits(verdict: Verdict, plan: Plan) -> bool:
    """Also of a node that may become unhealthy while nobody is there to ask, or whose next step is still to come."""
    check = _approving(verdict, plan)
    if check is None:
        return False
    if verdict.state is State.REMEDIATING:
        return check.escalates
    return verdict.state in (State.SUSPECT, State.UNHEALTHY)


def _approving(verdict: Verdict, plan: Plan) -> Check | None:
    one = plan.checks.get(verdict.check)
    check = one.known.check if one is not None else None
    return check if isinstance(check, Check) and check.mode is Mode.APPROVE else None


def why_not(verdicts: tuple[Verdict, ...], plan: Plan) -> str:
    known = [verdict for verdict in verdicts if _approving(verdict, plan) is not None]
    if not known:
        return "no NodeHealthCheck in mode Approve selects it"
    return ", ".join(f"check {one.check} finds it {one.state.value}" for one in known)


def _ahead(verdict: Verdict, cluster: Cluster, plan: Plan) -> str:
    held = first_closed(verdict.gates)
    if held is not None and verdict.state is State.UNHEALTHY:
        return f"still held back, {held.message}"
    return outlook(verdict, cluster, plan).message


async def approve_drain(node: str, length: timedelta, settings: Settings) -> str:
    """One line that says what is now so. Raises NotDone."""
    async with connected(settings, SystemClock()) as session:
        return await grant_drain(node, length, session.client, session.clock)


async def grant_drain(name: str, length: timedelta, client: Client, clock: Clock) -> str:
    """By the record that the operator keeps of the drain: what it does not know of, nobody can approve."""
    node = await there(NODES.at(name), client)
    if node is None:
        raise NotDone(f"there is no node {name} (kubectl get nodes)")
    record = await there(await _address(DRAIN, name, client), client)
    if record is None:
        why = f"Defib knows of no drain of it; who drains it, if anybody: defib drain {name}"
        raise NotDone(f"no drain waits for approval on node {name}: {why}")
    status = read_drain_status(record)
    policy = status.policy or str((record.spec or {}).get("policy") or "")
    if why := _OVER.get(status.phase, "") or _asks_nobody(policy, await _mode_of(policy, client)):
        raise NotDone(f"no drain waits for approval on node {name}: {why}")
    until = stamp(clock.now() + length)
    await annotate(client, node, {node_drain.APPROVED_UNTIL: until})
    told = f"{POLICY.name} {policy} ({status.phase.value}): {_ahead_of_drain(status)}"
    return f"pods of node {name} may be made to leave until {until}; {told}"


async def _mode_of(policy: str, client: Client) -> Mode | None:
    """None where there is no such policy, or none that makes sense."""
    item = await there(await _address(POLICY, policy, client), client) if policy else None
    read = read_policy(item.spec) if item is not None else ()
    return read.mode if isinstance(read, Policy) else None


def _asks_nobody(policy: str, mode: Mode | None) -> str:
    if mode is Mode.APPROVE:
        return ""
    if mode is None:
        return f"its {POLICY.name} {policy} is gone or makes no sense (kubectl get drainpolicies)"
    return f"its {POLICY.name} {policy} is in mode {mode.value}, which asks nobody"


def _ahead_of_drain(status: DrainStatus) -> str:
    if status.phase is Phase.HELD:
        return f"still held back, {status.message}"
    what = status.next or "nothing is left to be done"
    return f"next, {what}" + (f", after {stamp(status.next_at)}" if status.next_at is not None else "")


async def _address(kind: KindRef, name: str, client: Client) -> Ref[Unstructured]:
    try:
        return (await Discovery(client).find(kind.group, kind.name, kind.version)).at(name)
    except UnknownKind as error:
        crds = "their CRD is not installed (kubectl apply -f deploy/crds)"
        raise NotDone(f"the cluster has no {kind.name}s: {crds}") from error


async def there(ref: Ref[R], client: Client) -> R | None:
    try:
        return await client.get(ref)
    except NotFound:
        return None
    except Forbidden as error:
        raise forbidden(error, "get", f"{ref.kind}/{ref.name}") from error


async def annotate(client: Client, node: Node, annotations: Mapping[str, str | None]) -> Node:
    """With the UID: a new node of the same name is another machine, and nobody has said anything about it."""
    patch = Merge({"metadata": {"uid": node.uid, "annotations": annotations}})
    try:
        return await client.patch(NODES.at(node.name), patch)
    except Forbidden as error:
        raise forbidden(error, "patch", f"nodes/{node.name}") from error
    except (NotFound, Conflict) as error:
        raise NotDone(f"node {node.name} has been replaced meanwhile; look again: defib why {node.name}") from error

"""A person's approval of what a check in mode Approve wants to do to a node, for a limited time."""

from datetime import timedelta

import msgspec

from defib.clock import Clock, SystemClock
from defib.config import Settings
from defib.console.look import look
from defib.console.session import NotDone, connected, forbidden
from defib.console.why import unknown_node, verdicts_of
from defib.decide.admission import APPROVED_UNTIL
from defib.decide.entries import stamp
from defib.decide.gates import first_closed
from defib.decide.outlook import outlook
from defib.decide.plan import Plan, decide
from defib.decide.rules import Rules
from defib.kube.client import Client, Merge
from defib.kube.errors import Conflict, Forbidden, NotFound
from defib.kube.kinds import NODES
from defib.model.cluster import Cluster
from defib.model.health_check import Check, Mode
from defib.model.node import Node
from defib.model.verdict import State, Verdict


async def approve(node: str, length: timedelta, settings: Settings, rules: Rules) -> str:
    """One line that says what is now so. Raises NotDone."""
    async with connected(settings, SystemClock()) as session:
        return await grant(node, length, session.client, session.clock, rules)


async def grant(node: str, length: timedelta, client: Client, clock: Clock, rules: Rules) -> str:
    cluster = (await look(client, clock, rules)).cluster
    if node not in cluster.nodes:
        raise unknown_node(node, cluster)
    verdicts = verdicts_of(node, cluster, plan := decide(cluster, rules))
    waiting = {verdict.check: verdict.state for verdict in verdicts if _waits(verdict, plan)}
    if not waiting:
        raise NotDone(f"nothing waits for approval on node {node}: {_why_not(verdicts, plan)}")
    until = stamp(clock.now() + length)
    approved = await _write(client, cluster.nodes[node], until)
    after = msgspec.structs.replace(cluster, nodes={**cluster.nodes, node: approved})
    then = decide(after, rules)
    ahead = {one.check: _ahead(one, after, then) for one in verdicts_of(node, after, then)}
    told = "; ".join(f"check {check} ({state.value}): {ahead[check]}" for check, state in waiting.items())
    return f"node {node} may be remediated until {until}; {told}"


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


def _why_not(verdicts: tuple[Verdict, ...], plan: Plan) -> str:
    known = [verdict for verdict in verdicts if _approving(verdict, plan) is not None]
    if not known:
        return "no NodeHealthCheck in mode Approve selects it"
    return ", ".join(f"check {one.check} finds it {one.state.value}" for one in known)


def _ahead(verdict: Verdict, cluster: Cluster, plan: Plan) -> str:
    held = first_closed(verdict.gates)
    if held is not None and verdict.state is State.UNHEALTHY:
        return f"still held back, {held.message}"
    return outlook(verdict, cluster, plan).message


async def _write(client: Client, node: Node, until: str) -> Node:
    """With the UID: a new node of the same name is another machine, and was not approved."""
    patch = Merge({"metadata": {"uid": node.uid, "annotations": {APPROVED_UNTIL: until}}})
    try:
        return await client.patch(NODES.at(node.name), patch)
    except Forbidden as error:
        raise forbidden(error, "patch", f"nodes/{node.name}") from error
    except (NotFound, Conflict) as error:
        raise NotDone(f"node {node.name} has been replaced meanwhile; look again: defib why {node.name}") from error

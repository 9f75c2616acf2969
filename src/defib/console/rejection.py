"""A person's no to what a check in mode Approve wants to do to a node; and the taking back of an approval."""

from datetime import timedelta

import msgspec

from defib.clock import Clock, SystemClock
from defib.config import Settings
from defib.console.approval import annotate, there, waiting_of, why_not
from defib.console.look import look
from defib.console.nodes import unknown_node
from defib.console.session import NotDone, connected, who
from defib.decide.admission import APPROVED_BY, APPROVED_UNTIL
from defib.decide.answers.node import verdicts_of
from defib.decide.entries import stamp
from defib.decide.plan import decide
from defib.decide.rejection import REJECTED, rejection_value
from defib.decide.rules import Rules
from defib.kube.client import Client
from defib.kube.kinds import NODES
from defib.model import medik8s, node_drain
from defib.model.verdict import State

HOW_ELSE = "to have it left alone by every check: kubectl label node {node} " + f"{medik8s.EXCLUDED}=true"


class No(msgspec.Struct, frozen=True, kw_only=True):
    """For how long, and why."""

    length: timedelta
    reason: str = ""


async def reject(node: str, no: No, settings: Settings, rules: Rules) -> str:
    """One line that says what is now so. Raises NotDone."""
    async with connected(settings, SystemClock()) as session:
        return await refuse(node, no, session.client, session.clock, rules)


async def refuse(node: str, no: No, client: Client, clock: Clock, rules: Rules) -> str:
    cluster = (await look(client, clock, rules)).cluster
    if node not in cluster.nodes:
        raise unknown_node(node, cluster)
    verdicts = verdicts_of(node, cluster, plan := decide(cluster, rules))
    waiting = waiting_of(verdicts, plan)
    if not waiting:
        raise NotDone(
            f"nothing waits for approval on node {node}: {why_not(verdicts, plan)}; {HOW_ELSE.format(node=node)}"
        )
    until = stamp(clock.now() + no.length)
    value = rejection_value(until, await who(client) or "a person", no.reason)
    await annotate(client, cluster.nodes[node], {APPROVED_UNTIL: None, APPROVED_BY: None, REJECTED: value})
    checks = ", ".join(f"{check} ({state.value})" for check, state in waiting.items())
    word = "check" if len(waiting) == 1 else "checks"
    goes_on = "; what was begun goes on, and nothing more is" if State.REMEDIATING in waiting.values() else ""
    return f"node {node} is not remediated until {until} by {word} {checks}{goes_on}; defib approve {node} says yes"


async def reject_drain(node: str, settings: Settings) -> str:
    """One line that says what is now so. Raises NotDone."""
    async with connected(settings, SystemClock()) as session:
        return await take_back(node, session.client, session.clock)


async def take_back(name: str, client: Client, clock: Clock) -> str:
    """Without an approval no pod is forced by a policy that asks for one: to take it back is all that is needed."""
    node = await there(NODES.at(name), client)
    if node is None:
        raise NotDone(f"there is no node {name} (kubectl get nodes)")
    until = node.annotations.get(node_drain.APPROVED_UNTIL, "")
    if not until:
        raise NotDone(
            f"no drain of node {name} has been approved, so there is nothing to take back; see defib drain {name}"
        )
    await annotate(client, node, {node_drain.APPROVED_UNTIL: None})
    over = " (it was over already)" if until <= stamp(clock.now()) else ""
    return (
        f"the drain of node {name} is no longer approved{over}: a DrainPolicy in mode Approve makes no pod leave; "
        "pods that were asked to leave already go all the same"
    )

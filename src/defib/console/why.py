"""Why a node is, or is not, being remediated: asked of the cluster as it is now. Nothing is changed."""

import msgspec

from defib.clock import Clock, SystemClock
from defib.config import Settings
from defib.console.look import look
from defib.console.nodes import unknown_node
from defib.console.session import connected
from defib.decide.answers.node import answer_about
from defib.decide.answers.told import Answer
from defib.decide.plan import decide
from defib.decide.rules import Rules
from defib.kube.client import Client

BASIS = (
    "Worked out from the cluster as it is now, by the operator's rules and the settings given to this command. "
    "What only a running operator knows is not in it: doubts about its own sight, actions that have just failed."
)


async def why(node: str, settings: Settings, rules: Rules) -> Answer:
    """Raises NotDone."""
    async with connected(settings, SystemClock()) as session:
        return await answer(node, session.client, session.clock, rules)


async def answer(node: str, client: Client, clock: Clock, rules: Rules) -> Answer:
    seen = await look(client, clock, rules)
    told = answer_about(node, seen.cluster, decide(seen.cluster, rules), rules.namespace, unknown=seen.unknown)
    if told is None:
        raise unknown_node(node, seen.cluster)
    return msgspec.structs.replace(told, basis=BASIS)

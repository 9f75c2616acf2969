"""A person confirms that a machine is off, where Defib cannot find out: a proof of grade D, with name and time."""

from defib.clock import Clock, SystemClock
from defib.config import Settings
from defib.console.session import NotDone, connected, forbidden, who
from defib.decide.answers.failover import WHO_ASKS
from defib.kube.client import Client, Merge
from defib.kube.errors import Conflict, Forbidden, NotFound
from defib.kube.kinds import NODE_INCIDENTS, NODES
from defib.model.incident import NodeIncident, Phase

_AWAITED = (Phase.POWERING_OFF, Phase.NEEDS_PERSON)


async def confirm_down(node: str, settings: Settings) -> str:
    """One line that says what is now so. Raises NotDone."""
    async with connected(settings, SystemClock()) as session:
        return await confirm(node, session.client, session.clock)


async def confirm(node: str, client: Client, clock: Clock) -> str:
    incident = await _incident(node, client)
    if not incident.is_open:
        raise NotDone(f"the incident of node {node} is closed, and nobody has opened another one; {WHO_ASKS}")
    if incident.status.proof is not None:
        grade = incident.status.proof.grade
        raise NotDone(
            f"that the machine of node {node} is down is proved already (grade {grade}); see defib why {node}"
        )
    if incident.status.phase not in _AWAITED:
        raise NotDone(f"nobody asks whether the machine of node {node} is off: its incident is {incident.status.phase}")
    await _refuse_if_alive(node, client)
    by = await who(client)
    if not by:
        raise NotDone("the API server does not say who you are, and a confirmation needs a name")
    at = clock.now().isoformat()
    meta = {"uid": incident.uid, "resourceVersion": incident.metadata.resource_version}
    patch = Merge({"metadata": meta, "spec": {"confirmedOff": {"by": by, "at": at}}})
    try:
        await client.patch(NODE_INCIDENTS.at(node), patch)
    except Forbidden as error:
        raise forbidden(error, "patch", f"nodeincidents/{node}") from error
    except (NotFound, Conflict) as error:
        raise NotDone(f"the incident of node {node} has changed meanwhile; look again: defib why {node}") from error
    return f"{by} confirms that the machine of node {node} is off; its workloads are freed now"


async def _incident(node: str, client: Client) -> NodeIncident:
    try:
        return await client.get(NODE_INCIDENTS.at(node))
    except NotFound as error:
        raise NotDone(
            f"there is no incident of node {node} (kubectl get nodeincidents), so nobody asks whether it is off; {WHO_ASKS}"
        ) from error
    except Forbidden as error:
        raise forbidden(error, "get", f"nodeincidents/{node}") from error


async def _refuse_if_alive(node: str, client: Client) -> None:
    """Whoever confirms this of a node that reports to be ready has the wrong machine before them."""
    try:
        there = await client.get(NODES.at(node))
    except NotFound:
        return
    except Forbidden as error:
        raise forbidden(error, "get", f"nodes/{node}") from error
    if there.ready == "True":
        raise NotDone(f"node {node} reports that it is ready, so its machine is not off; is it the right one?")

"""The incidents of nodes: those that are open, or all that are still written down. Nothing is changed."""

from datetime import datetime

from defib.clock import SystemClock
from defib.config import Settings
from defib.console.kinds import LIST_SECONDS
from defib.console.nodes import the_node
from defib.console.session import NotDone, Session, connected, forbidden
from defib.decide.answers.overview import IncidentBrief, incidents_of
from defib.decide.answers.told import Told
from defib.kube.errors import Forbidden, NotFound
from defib.kube.kinds import NODE_INCIDENTS
from defib.model.cluster import Cluster
from defib.model.incident import INCIDENTS

NO_KIND = "the cluster has no NodeIncidents: their CRD is not installed (kubectl apply -f deploy/crds)"


class Incidents(Told, frozen=True, kw_only=True):
    """`closed` is how many are written down besides those that were asked for."""

    now: datetime
    incidents: tuple[IncidentBrief, ...]
    closed: int
    unknown: tuple[str, ...] = ()


async def incidents(settings: Settings, node: str = "", *, every: bool = False) -> Incidents:
    """Raises NotDone."""
    async with connected(settings, SystemClock()) as session:
        return await listed(session, node, every=every)


async def listed(session: Session, node: str = "", *, every: bool = False) -> Incidents:
    cluster, unknown = await read_incidents(session)
    found = [one for one in incidents_of(cluster) if node in ("", one.node)]
    if node and not found:
        await the_node(node, session.client, session.clock)
    shown = tuple(one for one in found if every or one.is_open)
    return Incidents(now=cluster.now, incidents=shown, closed=len(found) - len(shown), unknown=unknown)


async def read_incidents(session: Session) -> tuple[Cluster, tuple[str, ...]]:
    """A look at nothing else, and what could not be read. Raises NotDone."""
    try:
        page = await session.client.list_all(NODE_INCIDENTS, deadline=LIST_SECONDS)
    except NotFound as error:
        raise NotDone(NO_KIND) from error
    except Forbidden as error:
        raise forbidden(error, "list", str(NODE_INCIDENTS)) from error
    unknown = tuple(f"the NodeIncident {item.key} cannot be read: {item.why}" for item in page.set_aside)
    return Cluster(now=session.clock.now(), others={INCIDENTS: {one.name: one for one in page.items}}), unknown

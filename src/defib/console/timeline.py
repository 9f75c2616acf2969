"""What happened to a node, or in one incident of it: read from everything that tells of it. Nothing is changed."""

import asyncio
from collections.abc import Iterable
from datetime import datetime

from defib.clock import SystemClock
from defib.config import Settings
from defib.console.kinds import LIST_SECONDS, NOT_READ
from defib.console.look import look
from defib.console.nodes import unknown_node
from defib.console.session import NotDone, Session, connected
from defib.decide.answers.node import answer_about
from defib.decide.answers.overview import IncidentBrief, incident_told
from defib.decide.answers.timeline import Event, Happening, happenings, incidents_about
from defib.decide.answers.told import CheckTold, Told
from defib.decide.explain import remediations_of
from defib.decide.plan import Plan, decide
from defib.decide.rules import Rules
from defib.kube.client import Client, Scope
from defib.kube.errors import KubeError
from defib.kube.kinds import Kind
from defib.model.cluster import Cluster
from defib.model.incident import INCIDENTS, NodeIncident

EVENTS = Kind(version="v1", plural="events", name="Event", namespaced=True, type=Event)
BASIS = "From the node's incidents, its checks, its remediations and Events. Kubernetes forgets Events after an hour, as a rule."


class Timeline(Told, frozen=True, kw_only=True):
    """`checks` say how the node stands now; empty where the story is about an incident that is closed."""

    node: str
    now: datetime
    incident: IncidentBrief | None  # the one that was asked for, where it was one
    happenings: tuple[Happening, ...]
    checks: tuple[CheckTold, ...]
    unknown: tuple[str, ...]
    basis: str = BASIS


async def timeline(name: str, settings: Settings, rules: Rules) -> Timeline:
    """Raises NotDone."""
    async with connected(settings, SystemClock()) as session:
        return await tell(name, session, rules)


async def tell(name: str, session: Session, rules: Rules) -> Timeline:
    seen = await look(session.client, session.clock, rules)
    cluster, unknown = seen.cluster, list(seen.unknown)
    node, only = _meant(name, cluster)
    plan = decide(cluster, rules)
    names = _told_of(node, cluster, plan)
    events = await _events(session.client, names, unknown)
    checks = frozenset(plan.checks)
    mine = [event for event in events if _is_about(event, node, checks)]
    answer = answer_about(node, cluster, plan, rules.namespace)
    is_over = only is not None and not only.is_open
    return Timeline(
        node=node,
        now=cluster.now,
        incident=incident_told(only) if only is not None else None,
        happenings=happenings(node, cluster, plan, mine, only),
        checks=answer.checks if answer is not None and not is_over else (),
        unknown=tuple(unknown),
    )


def _meant(name: str, cluster: Cluster) -> tuple[str, NodeIncident | None]:
    """A node comes before an incident of the same name: the incident of a power cycle is called like its node."""
    if name in cluster.nodes or incidents_about(name, cluster):
        return name, None
    incident = cluster.all_of(INCIDENTS, NodeIncident).get(name)
    if incident is not None:
        return incident.spec.node, incident
    raise NotDone(f"{unknown_node(name, cluster)}; and there is no incident of that name (defib incidents --all)")


def _told_of(node: str, cluster: Cluster, plan: Plan) -> list[str]:
    """Names of all things whose Events may tell of the node."""
    incidents = (one.name for one in incidents_about(node, cluster))
    remediations = (one.name for one in remediations_of(node, cluster, plan))
    checks = (name for name, one in plan.checks.items() if one.census is not None and node in one.census.selected)
    return sorted({node, *incidents, *remediations, *checks})


async def _events(client: Client, names: Iterable[str], unknown: list[str]) -> list[Event]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_events_of(client, name)) for name in names]
    found: dict[str, Event] = {}
    for task in tasks:
        told = task.result()
        if isinstance(told, KubeError):
            note = f"Events {NOT_READ}: {told}"
            unknown += [note] if note not in unknown else []
        else:
            found |= {one.key: one for one in told}
    return list(found.values())


async def _events_of(client: Client, name: str) -> list[Event] | KubeError:
    try:
        page = await client.list_all(EVENTS, Scope(fields=f"involvedObject.name={name}"), deadline=LIST_SECONDS)
    except KubeError as error:
        return error
    return page.items


def _is_about(event: Event, node: str, checks: frozenset[str]) -> bool:
    """Those of a check are about many nodes; which one, their words say."""
    about = event.involved_object
    if about.kind == "NodeHealthCheck" and about.name in checks:
        return node in event.message.replace(",", " ").replace(":", " ").split()
    return about.kind not in ("Pod", "Service", "Deployment")  # which may be called like a node
